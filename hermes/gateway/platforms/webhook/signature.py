"""Verify that a report was signed with the secret, and recently."""

import hashlib
import hmac
from collections.abc import Mapping

from msgspec import Struct

from hermes.admin.webhooks import SIGNATURE_HEADER, SignatureScheme, compute_mac

MAX_CLOCK_SECONDS = 300.0
"""Seconds that a signed time may differ from now."""
_V1_HEADER = "X-Webhook-Signature"
_STRIPE_HEADER, _GITHUB_HEADER, _GITLAB_HEADER = "Stripe-Signature", "X-Hub-Signature-256", "X-Gitlab-Token"
_MAX_SIGNATURES = 8


class VerifiedReport(Struct, frozen=True):
    """A report whose signature is valid.

    `digest` is the same for the same report sent again. It covers what was signed, since nothing else of a request can
    be trusted.
    """

    digest: str


def verify_report(
    scheme: SignatureScheme, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> VerifiedReport | None:
    """Return the verified report, or None if the request carries no valid signature."""
    key = secret.encode()
    timestamped = headers.get(SIGNATURE_HEADER) or headers.get(_STRIPE_HEADER)
    if timestamped is not None and scheme in (SignatureScheme.AUTO, SignatureScheme.V2):
        return _verify_timestamped(key, timestamped, body, now)
    if scheme in (SignatureScheme.AUTO, SignatureScheme.GITHUB) and (given := headers.get(_GITHUB_HEADER)) is not None:
        return _verify_hmac(key, given.removeprefix("sha256="), body) if given.startswith("sha256=") else None
    if scheme in (SignatureScheme.AUTO, SignatureScheme.V1) and (given := headers.get(_V1_HEADER)) is not None:
        return _verify_hmac(key, given.removeprefix("sha256="), body)
    if scheme in (SignatureScheme.AUTO, SignatureScheme.GITLAB) and (given := headers.get(_GITLAB_HEADER)) is not None:
        good = hmac.compare_digest(_sha256(given.encode("utf-8", "surrogateescape")), _sha256(key))
        return VerifiedReport(_sha256(body).hex()) if good else None
    return None


def _verify_timestamped(key: bytes, given: str, body: bytes, now: float) -> VerifiedReport | None:
    fields = [one.strip().partition("=") for one in given.split(",", _MAX_SIGNATURES)]
    moments = [value for name, _, value in fields if name == "t"]
    if len(moments) != 1 or not moments[0].isascii() or not moments[0].isdigit() or len(moments[0]) > 12:
        return None
    signed = moments[0].encode() + b"." + body
    good = False
    for name, _, value in fields:
        good |= name == "v1" and _is_same_digest(compute_mac(key, signed), value)
    if not good or abs(now - int(moments[0])) > MAX_CLOCK_SECONDS:
        return None
    return VerifiedReport(_sha256(signed).hex())


def _verify_hmac(key: bytes, given: str, body: bytes) -> VerifiedReport | None:
    return VerifiedReport(_sha256(body).hex()) if _is_same_digest(compute_mac(key, body), given) else None


def _is_same_digest(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.strip().lower().encode("utf-8", "surrogateescape"))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
