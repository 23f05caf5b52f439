"""Proof keys for code exchange (RFC 7636), and the random values of a sign-in."""

import base64
import hashlib
import secrets


def create_verifier() -> str:
    """Return a new code verifier: 43 characters with 256 random bits."""
    return secrets.token_urlsafe(32)


def create_state() -> str:
    """Return a new state, which nobody else can guess: 32 random bytes."""
    return secrets.token_urlsafe(32)


def compute_challenge(verifier: str) -> str:
    """Return the challenge of a verifier by the method S256."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
