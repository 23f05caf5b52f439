"""A browser that is not ours, by its address: connected to over a web socket, in a context of our own."""

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from hermes.browser.cdp import CdpConnection
from hermes.browser.socket_transport import SOCKET_LIMIT, SocketTransport
from hermes.core.errors import BrowserError
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

_CONNECT_SECONDS = 10.0
_END_SECONDS = 5.0
_HEARTBEAT_SECONDS = 30.0
"""Seconds between the signs of life that are asked for; one that does not answer is gone."""
_MAX_ANSWER = 1 << 16
_SOCKETS = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
ADDRESS_HINT = N_(
    "Start it by: chromium --remote-debugging-port=9222 --user-data-dir=FOLDER; or correct or empty `browser.cdp_url`."
)
OUTSIDE_NOTICE = N_(
    "This browser is a remote one: it runs outside of the sandbox, and what it loads does not go through the proxy."
)


class _Version(Struct):
    address: str = msgspec.field(name="webSocketDebuggerUrl")


class _Context(Struct, rename="camel"):
    browser_context_id: str


class RemoteBrowser:
    """A browser elsewhere with a context of our own; `close` removes that, and the browser stays."""

    def __init__(self, connection: CdpConnection, transport: SocketTransport) -> None:
        self.connection = connection
        self.context_id = ""
        """The context in which our tabs are; nothing outside of it is ours."""
        self._transport = transport

    @property
    def is_running(self) -> bool:
        """Whether it is there to be asked."""
        return not self.connection.is_gone

    async def make_context(self) -> None:
        """Make the context, which the browser removes when the connection ends. Raises BrowserError."""
        # Without a watch over all of the browser: its other requests are somebody else's.
        params = {"disposeOnDetach": True}
        made = await self.connection.call_for(_Context, "Target.createBrowserContext", params, timeout=_CONNECT_SECONDS)
        self.context_id = made.browser_context_id

    async def close(self) -> None:
        """Close our tabs and the connection."""
        try:
            if self.is_running and self.context_id:
                params = {"browserContextId": self.context_id}
                with contextlib.suppress(BrowserError):  # it goes with the connection, too
                    await self.connection.call("Target.disposeBrowserContext", params, timeout=_END_SECONDS)
        finally:
            await self.connection.close()
            await self._transport.finish()


def describe_address(address: str) -> str:
    """Return an address without what may be secret in it. Raises BrowserError for one that is none."""
    try:
        parts = urlsplit(address)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        parts, port = urlsplit(""), ""
    if parts.scheme not in _SOCKETS or not parts.hostname:
        problem = N_("`browser.cdp_url` is no address such as http://127.0.0.1:9222 or ws://HOST:PORT/PATH.")
        raise BrowserError(problem, ADDRESS_HINT)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{port}"


async def connect_remote(address: str) -> RemoteBrowser:
    """Connect to a browser and make our context there. Raises BrowserError where it cannot be reached."""
    shown = describe_address(address)
    try:
        from aiohttp import ClientError, ClientSession
    except ImportError:
        problem = N_("A remote browser needs aiohttp, which is not installed.")
        raise BrowserError(problem, N_("Install it with: pip install 'hermes-anew[gateway]'.")) from None
    session = ClientSession()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            socket = await _open_socket(session, address)
    except (ClientError, OSError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
        await session.close()
        said = N_("The browser at {address} cannot be reached: {reason}.", address=shown, reason=_explain(error))
        raise BrowserError(said, ADDRESS_HINT) from None
    except BaseException:
        await session.close()
        raise
    transport = SocketTransport(session, socket)
    connection = CdpConnection(transport)
    connection.start()
    remote = RemoteBrowser(connection, transport)
    try:
        await remote.make_context()
    except BaseException:
        await remote.close()
        raise
    return remote


def _explain(error: Exception) -> str:
    """Return why there is no connection, without the address, which may hold a key."""
    from aiohttp import ClientConnectorError, ClientResponseError

    if isinstance(error, TimeoutError):
        return N_("it takes too long")
    if isinstance(error, ClientResponseError):
        return N_("it answers with status {status}", status=error.status)
    if isinstance(error, ClientConnectorError):
        return error.os_error.strerror or type(error.os_error).__name__
    return N_("what answers there is no browser with remote debugging")


async def _open_socket(session: "ClientSession", address: str) -> "ClientWebSocketResponse":
    parts = urlsplit(address)
    if parts.scheme in ("http", "https"):
        asked = parts._replace(path="/json/version", query="", fragment="").geturl()
        async with session.get(asked, allow_redirects=False) as answer:
            answer.raise_for_status()
            body = await answer.content.read(_MAX_ANSWER)
        # What it says of its own host is not followed: the address is what the person has named.
        path = urlsplit(msgspec.json.decode(body, type=_Version).address).path
        parts = parts._replace(scheme=_SOCKETS[parts.scheme], path=path, query="", fragment="")
    return await session.ws_connect(parts.geturl(), max_msg_size=SOCKET_LIMIT, heartbeat=_HEARTBEAT_SECONDS)
