"""AWS Signature Version 4: a request is signed with a key that never leaves this machine.

Source: AWS General Reference, "Create a signed AWS API request". Only fields that no proxy changes are signed.
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

from hermes.core.secret import KeyHolder

_UNRESERVED = "-_.~"
_SIGNED = frozenset({"content-type", "host"})


class AwsCredentials(KeyHolder, frozen=True):
    """An access key: its id, the secret (`key`), and the session's token where it is a temporary one."""

    access_id: str
    key: str
    api_key: str = ""
    """The token of a temporary key's session."""


class SigningScope(KeyHolder, frozen=True):
    """What a signature holds for."""

    region: str
    service: str


def sign_request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    credentials: AwsCredentials,
    scope: SigningScope,
    at: float,
) -> dict[str, str]:
    """Return the header fields of a request with its signature, as of `at` (seconds since 1970)."""
    parts = urlsplit(url)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    fields = {name.lower(): value for name, value in headers.items()}
    fields |= {"host": parts.netloc.rpartition("@")[2], "x-amz-date": stamp}
    if credentials.api_key:
        fields["x-amz-security-token"] = credentials.api_key
    names = sorted(name for name in fields if name in _SIGNED or name.startswith("x-amz-"))
    listed = ";".join(names)
    canonical = "\n".join(
        [
            method.upper(),
            quote(parts.path or "/", safe="/" + _UNRESERVED),
            _canonical_query(parts.query),
            *(f"{name}:{' '.join(fields[name].split())}" for name in names),
            "",
            listed,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    place = f"{stamp[:8]}/{scope.region}/{scope.service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, place, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.key}".encode()
    for part in place.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    fields["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_id}/{place}, SignedHeaders={listed}, Signature={signature}"
    )
    del fields["host"]  # the transport writes it
    return fields


def _canonical_query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    quoted = [(quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED)) for name, value in pairs]
    return "&".join(f"{name}={value}" for name, value in sorted(quoted))
