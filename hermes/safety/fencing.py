"""Marks around text that nobody vouches for."""

import hmac
import os

from hermes.core.parts import Provenance

_KEY = os.urandom(16)
"""With it the number of a text is the same each time, so that the same result is seen to be the same, and still nobody
outside can know it."""


def fence(text: str, provenance: Provenance) -> str:
    """The text between two marks that it cannot forge: they carry a number that nobody knew before."""
    nonce = hmac.new(_KEY, text.encode("utf-8", "replace"), "sha256").hexdigest()[:8]
    label = " ".join(provenance.label.split())[:200]
    return f"[untrusted {nonce}: {provenance.source} {label}]\n{text}\n[end of untrusted {nonce}]"
