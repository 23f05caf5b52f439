"""Documents of a remote browser, given on with a policy that keeps them from what the watch over tabs does not see.

The browser takes headers in earnest in an answer that is given whole, so its body passes through here, in parts.
"""

import base64

from msgspec import Struct

from hermes.browser.cdp import CdpConnection
from hermes.core.errors import BrowserError

MAX_BODY = 20 << 20
"""The most bytes of one document."""
_PART = 1 << 20
_LEFT_OUT = frozenset({"content-encoding", "content-length", "transfer-encoding", "reporting-endpoints"})
"""What holds for the body as it came, and not as it is given on; and where reports go, which nobody would judge."""
_POLICY = (
    "sandbox allow-scripts allow-same-origin allow-forms allow-modals allow-pointer-lock allow-top-navigation;"
    " worker-src 'none'; object-src 'none'; fenced-frame-src 'none'; connect-src 'self' http: https: data: blob:"
)
"""No new windows, no workers, no downloads, no web sockets to other sites, and no documents that come otherwise."""


class Header(Struct):
    """A header of an answer."""

    name: str
    value: str


class _Stream(Struct):
    stream: str


class _Part(Struct, rename="camel"):
    data: str = ""
    eof: bool = False
    base64_encoded: bool = False


async def restrict_document(
    connection: CdpConnection, session_id: str, request_id: str, status: int, headers: list[Header]
) -> None:
    """Give on a document whose answer is paused. Raises BrowserError; it is then paused still."""
    paused = {"requestId": request_id}
    body = b"" if status in (204, 205, 304) else await _read_body(connection, session_id, paused)
    kept = [{"name": one.name, "value": one.value} for one in headers if one.name.lower() not in _LEFT_OUT]
    answer = {
        **paused,
        "responseCode": status,
        "responseHeaders": [*kept, {"name": "Content-Security-Policy", "value": _POLICY}],
        "body": base64.b64encode(body).decode(),
    }
    await connection.call("Fetch.fulfillRequest", answer, session_id)


async def _read_body(connection: CdpConnection, session_id: str, paused: dict[str, str]) -> bytes:
    found = await connection.call_for(_Stream, "Fetch.takeResponseBodyAsStream", paused, session_id)
    body = bytearray()
    try:
        while True:
            asked = {"handle": found.stream, "size": _PART}
            part = await connection.call_for(_Part, "IO.read", asked, session_id)
            try:
                body += base64.b64decode(part.data) if part.base64_encoded else part.data.encode()
            except ValueError:
                raise BrowserError("The browser gives a document in a form that cannot be read.") from None
            if len(body) > MAX_BODY:
                raise BrowserError(f"A document has more than {MAX_BODY >> 20} MB.")
            if part.eof:
                return bytes(body)
    finally:
        connection.post("IO.close", {"handle": found.stream}, session_id)
