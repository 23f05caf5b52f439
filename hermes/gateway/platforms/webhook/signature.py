"""Whether who reports something knows the secret, and said it just now."""

import hashlib
import hmac
from collections.abc import Mapping

from msgspec import Struct

from hermes.admin.webhooks import SIGNATURE_HEADER, SignatureScheme, compute_mac

WINDOW = 300.0
"""Seconds that a signed moment may be away from now."""
_V1 = "X-Webhook-Signature"
_STRIPE, _GITHUB, _GITLAB = "Stripe-Signature", "X-Hub-Signature-256", "X-Gitlab-Token"
_MOST_SIGNATURES = 8


class Proof(Struct, frozen=True):
    """A report that is genuine. `digest` is the same for the same report sent again: of what was signed, since nothing
    else of a request can be believed."""

    digest: str


def proved(scheme: SignatureScheme, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> Proof | None:
    """The proof that a request carries; None when it carries none that holds."""
    key = secret.encode()
    stamped = headers.get(SIGNATURE_HEADER) or headers.get(_STRIPE)
    if stamped is not None and scheme in (SignatureScheme.AUTO, SignatureScheme.V2):
        return _stamped(key, stamped, body, now)
    if scheme in (SignatureScheme.AUTO, SignatureScheme.GITHUB) and (given := headers.get(_GITHUB)) is not None:
        return _signed(key, given.removeprefix("sha256="), body) if given.startswith("sha256=") else None
    if scheme in (SignatureScheme.AUTO, SignatureScheme.V1) and (given := headers.get(_V1)) is not None:
        return _signed(key, given.removeprefix("sha256="), body)
    if scheme in (SignatureScheme.AUTO, SignatureScheme.GITLAB) and (given := headers.get(_GITLAB)) is not None:
        good = hmac.compare_digest(_hash(given.encode("utf-8", "surrogateescape")), _hash(key))
        return Proof(_hash(body).hex()) if good else None
    return None


def _stamped(key: bytes, given: str, body: bytes, now: float) -> Proof | None:
    fields = [one.strip().partition("=") for one in given.split(",", _MOST_SIGNATURES)]
    moments = [value for name, _, value in fields if name == "t"]
    if len(moments) != 1 or not moments[0].isascii() or not moments[0].isdigit() or len(moments[0]) > 12:
        return None
    signed = moments[0].encode() + b"." + body
    good = False
    for name, _, value in fields:
        good |= name == "v1" and _same(compute_mac(key, signed), value)
    if not good or abs(now - int(moments[0])) > WINDOW:
        return None
    return Proof(_hash(signed).hex())


def _signed(key: bytes, given: str, body: bytes) -> Proof | None:
    return Proof(_hash(body).hex()) if _same(compute_mac(key, body), given) else None


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.strip().lower().encode("utf-8", "surrogateescape"))


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
