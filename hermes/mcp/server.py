"""One server of the person's: started in the background, asked for its tools, called, started again when it died."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from hermes.core.errors import ToolError
from hermes.core.secret import KeyHolder
from hermes.mcp.definitions import MAX_TOOLS, Definition, definitions, read_page
from hermes.mcp.rpc import Link, Peer, RpcError
from hermes.util.text import one_line, visible

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol versions that are spoken, the newest first."""
RESTARTS = 5
_BACKOFF, _LONGEST_BACKOFF = 0.5, 8.0
_SOUND = 60.0
"""Seconds of life after which a server's earlier deaths are forgotten."""
_FAILURES, _REST = 3, 60.0
"""Failures in a row after which a server is left alone, and the seconds of it."""
_MAX_PAGES = 100
_COALESCE = 0.1
_REFRESH_EVERY = 2.0
"""Seconds between two readings of the tools, however often the server says that they changed."""
_SHOWN = 400
_LOG = logging.getLogger(__name__)


class Spec(KeyHolder, frozen=True, kw_only=True):
    """A server as the person set it up, its variables filled in. `name` is fit for tool names."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    folder: str = "/"
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout: float = 300.0
    connect_timeout: float = 60.0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    asks: bool = True
    """Whether new and changed tools need a yes."""
    broken: str = ""
    """What is wrong with its settings, so that it cannot be started at all."""


class _Hello(Struct):
    version: str = msgspec.field(default="", name="protocolVersion")


class Server:
    """One server. `make_link` gives a fresh way to it; `changed` is called when its tools are, or may be, others."""

    def __init__(self, spec: Spec, make_link: Callable[[], Link], changed: Callable[["Server"], None]) -> None:
        self.spec = spec
        self.tools: tuple[Definition, ...] = ()
        self.problem = spec.broken
        """Why it is not there, in the end of a sentence; empty while it is, and before it was tried."""
        self.tried = asyncio.Event()
        """Whether the first connection has come about or failed."""
        self._make_link = make_link
        self._changed = changed
        self._peer: Peer | None = None
        self._lock = asyncio.Lock()
        self._since = 0.0
        self._starts = self._failures = 0
        self._rests_until = self._not_before = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._stale = False
        self._closed = False

    async def connect(self) -> None:
        """Try to reach it. Raises `ToolError` with what is wrong."""
        try:
            await self._ready()
        finally:
            self.tried.set()

    async def call(self, tool: Definition, arguments: Mapping[str, object]) -> Raw:
        """Call a tool. Raises `RpcError` with what the server says, `ToolError` when the call did not come about."""
        try:
            peer = await self._ready()
            result = await peer.request(
                "tools/call", {"name": tool.sent_name, "arguments": arguments}, self.spec.timeout
            )
        except ToolError as error:
            raise ToolError(f"The MCP server {self.spec.name}: {error}.") from None
        self._failures = 0
        return result

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._peer is not None:
            await self._peer.close()

    async def _ready(self) -> Peer:
        async with self._lock:
            if self._peer is not None and not self._peer.gone:
                return self._peer
            await self._may_start()
            try:
                self._peer = await self._connected()
            except ToolError as error:
                self._failed(str(error))
                raise
            self.problem = ""
            self._changed(self)
            return self._peer

    async def _may_start(self) -> None:
        """Wait until it may be started (again). Raises `ToolError` when it may not."""
        now = asyncio.get_running_loop().time()
        if self._peer is not None:
            died, self._peer = self._peer, None
            await died.close()
            if now - self._since > _SOUND:
                self._starts = 1
            self._failed(died.gone)
        if self._closed:
            raise ToolError("the session is over")
        if self.spec.broken:
            raise ToolError(self.spec.broken)
        if now < self._rests_until:
            raise ToolError(f"it failed {_FAILURES} times and is left alone for {self._rests_until - now:.0f} s more")
        if self._starts > RESTARTS:
            raise ToolError(f"it was started again {RESTARTS} times and is given up: {self.problem}")
        self._starts += 1
        await asyncio.sleep(max(0.0, self._not_before - now))

    def _failed(self, why: str) -> None:
        now = asyncio.get_running_loop().time()
        self.problem = one_line(visible(why), _SHOWN)
        self._not_before = now + min(_BACKOFF * 2 ** max(self._starts - 1, 0), _LONGEST_BACKOFF)
        self._failures += 1
        if self._failures >= _FAILURES:
            self._failures, self._rests_until = 0, now + _REST

    async def _connected(self) -> Peer:
        """A fresh conversation, its tools read."""
        peer = Peer(self._make_link(), self._notified)
        try:
            async with asyncio.timeout(self.spec.connect_timeout):
                await peer.open()
                await self._greet(peer)
                self.tools = await self._listed(peer)
        except TimeoutError:
            await peer.close()
            raise ToolError(f"it was not ready within {self.spec.connect_timeout:g} s") from None
        except RpcError as error:
            await peer.close()
            raise ToolError(f"it refused to begin ({error!s:.200})") from None
        except BaseException:
            await peer.close()
            raise
        self._since = asyncio.get_running_loop().time()
        return peer

    async def _greet(self, peer: Peer) -> None:
        offer = {
            "protocolVersion": VERSIONS[0],
            "capabilities": {},
            "clientInfo": {"name": "hermes", "version": "1"},
        }
        result = await peer.request("initialize", offer, self.spec.connect_timeout)
        try:
            hello = msgspec.json.decode(result, type=_Hello)
        except (msgspec.MsgspecError, RecursionError):
            raise ToolError("its greeting cannot be read") from None
        if hello.version not in VERSIONS:
            raise ToolError(f"it speaks version {hello.version[:40]!r} of the protocol, which is not spoken here")
        await peer.agreed(hello.version)

    async def _listed(self, peer: Peer) -> tuple[Definition, ...]:
        sent: list[Raw] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = {"cursor": cursor} if cursor is not None else {}
            page = read_page(await peer.request("tools/list", params, self.spec.connect_timeout))
            sent += page.tools
            if not page.cursor or page.cursor == cursor or len(sent) >= MAX_TOOLS:
                break
            cursor = page.cursor
        return tuple(definitions(self.spec.name, sent[:MAX_TOOLS], self.spec.include, self.spec.exclude))

    def _notified(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._stale = True
            if (self._refreshing is None or self._refreshing.done()) and not self._closed:
                self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        """Read the tools anew, as long as the server says that they have changed."""
        await asyncio.sleep(_COALESCE)
        while self._stale and self._peer is not None and not self._peer.gone:
            self._stale = False
            try:
                self.tools = await self._listed(self._peer)
            except (ToolError, RpcError) as error:
                _LOG.info("the tools of %s were not read again: %s", self.spec.name, error)
            self._changed(self)
            await asyncio.sleep(_REFRESH_EVERY)


def described(servers: Sequence[Server]) -> str:
    """Which of them are not there, for a model: no words of theirs."""
    said = [f"{one.spec.name} {'failed' if one.tried.is_set() else 'is still starting'}" for one in servers]
    return f"[MCP servers that are not there: {', '.join(said)}.]" if said else ""
