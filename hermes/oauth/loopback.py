"""The end of a sign-in on this machine: a server on 127.0.0.1 that takes one request, the browser's with the answer.

Every program and every web page of this machine reaches the port. So only the request with the attempt's state counts,
and whoever holds connections open makes room for those that come later.
"""

import asyncio
import contextlib
import errno
import hmac
from collections.abc import Collection
from types import TracebackType
from urllib.parse import parse_qs

from hermes.core.errors import HermesError
from hermes.i18n.messages import N_

SIGN_IN_SECONDS = 300.0
"""Seconds that a person has to sign in."""
_HOST = "127.0.0.1"
_PATH = "/callback"
_MAX_HEAD = 16 * 1024
_READ_SECONDS = 10.0
_MAX_CONNECTIONS = 16
_MAX_FIELDS = 64
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Hermes</title>'
    "<body><p>{text}</p><p>{translated}</p></body></html>"
)


class LoopbackReceiver:
    """Waits for the answer of a sign-in; an async context. Everything but the first request to its path with the state
    of the sign-in is refused.
    """

    def __init__(self, port: int = 0, *, path: str = _PATH, host: str = _HOST) -> None:
        """`path` and `host` are how the redirect address is written, where a client has a fixed one; it is 127.0.0.1
        that is listened on, for `localhost` ::1 as well: browsers may ask there first.
        """
        self._port = port
        self._path = path
        self._host = host
        self._state = ""
        self._servers: list[asyncio.Server] = []
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._writers: dict[asyncio.StreamWriter, None] = {}

    async def __aenter__(self) -> "LoopbackReceiver":
        await self._listen("127.0.0.1")
        self._port = self._servers[0].sockets[0].getsockname()[1]
        if self._host == "localhost":
            try:
                await self._listen("::1", passes_over=_NO_IPV6)
            except HermesError:
                await self._close_servers()
                raise
        return self

    async def _listen(self, address: str, passes_over: Collection[int] = ()) -> None:
        try:
            self._servers.append(await asyncio.start_server(self._serve, address, self._port, limit=_MAX_HEAD))
        except OSError as error:
            if error.errno in passes_over:
                return
            raise HermesError(
                N_(
                    "{address}:{port} cannot be listened on: {reason}.",
                    address=address,
                    port=self._port,
                    reason=error.strerror or error,
                )
            ) from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close_servers()

    async def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                for server in self._servers:
                    await server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        """The address that the browser is sent back to."""
        return f"http://{self._host}:{self._port}{self._path}"

    def expect_state(self, state: str) -> None:
        """Take the answer of the sign-in with this state from now on."""
        self._state = state

    async def wait_for_answer(self) -> str:
        """Return the address with the answer, once the browser has asked for it."""
        return await asyncio.shield(self._answer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = None
        if len(self._writers) > _MAX_CONNECTIONS:
            next(iter(self._writers)).transport.abort()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, text, translated = self._take_request(head)
                writer.write(_format_page(status, text, translated))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            del self._writers[writer]
            writer.close()

    def _take_request(self, head: bytes) -> tuple[str, str, str]:
        """Take the one request that counts; return the status and the words of the page."""
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        target = rest.rpartition(b" ")[0].decode("ascii", "replace")
        path, _, query = target.partition("?")
        if method != b"GET" or path != self._path or self._answer.done() or not self._has_state(query):
            return "404 Not Found", "There is nothing here.", "这里什么都没有。"
        self._answer.set_result(f"http://{self._host}:{self._port}{target}")
        return "200 OK", "Hermes has the answer. You can close this page.", "Hermes 已收到答复，可以关闭此页面。"

    def _has_state(self, query: str) -> bool:
        """Return whether a query names the state of the sign-in, and that once."""
        try:
            named = parse_qs(query, max_num_fields=_MAX_FIELDS).get("state", [])
        except ValueError:
            return False
        return bool(self._state) and len(named) == 1 and hmac.compare_digest(named[0].encode(), self._state.encode())


def _format_page(status: str, text: str, translated: str) -> bytes:
    body = _PAGE.format(text=text, translated=translated).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
