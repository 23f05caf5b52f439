"""One MCP server of the person's: started in the background, asked for its tools, called, restarted when it died."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from hermes.core.errors import ToolError
from hermes.core.secret import KeyHolder
from hermes.mcp.definitions import MAX_TOOLS, McpToolDefinition, build_definitions, parse_tool_page
from hermes.mcp.rpc import McpConnection, McpRpcError, McpTransport
from hermes.util.text import escape_confusable_characters, to_one_line

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The protocol versions that are spoken, the newest first."""
MAX_RESTARTS = 5
_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.5, 8.0
_STABLE_SECONDS = 60.0
"""Seconds of life after which a server's earlier deaths are forgotten."""
_MAX_FAILURES, _REST_SECONDS = 3, 60.0
"""The failures in a row after which a server is left alone for `_REST_SECONDS`."""
_MAX_PAGES = 100
_COALESCE_SECONDS = 0.1
_REFRESH_SECONDS = 2.0
"""Seconds between two readings of the tools, however often the server says that they changed."""
_MAX_PROBLEM = 400
_LOG = logging.getLogger(__name__)


class McpServerSpec(KeyHolder, frozen=True, kw_only=True):
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
    asks_approval: bool = True
    """Whether new and changed tools need approval."""
    settings_problem: str = ""
    """What is wrong with its settings, so that it cannot be started at all."""


class _InitializeResult(Struct):
    version: str = msgspec.field(default="", name="protocolVersion")


class McpServer:
    """One MCP server. `make_transport` makes a new transport to it; `on_change` is called when its tools may have
    changed.
    """

    def __init__(
        self, spec: McpServerSpec, make_transport: Callable[[], McpTransport], on_change: Callable[["McpServer"], None]
    ) -> None:
        self.spec = spec
        self.tools: tuple[McpToolDefinition, ...] = ()
        self.problem = spec.settings_problem
        """Why it is unavailable, as the end of a sentence; empty while it is available, and before it was tried."""
        self.find_change: Callable[[], str] | None = None
        """Returns why it may not be started, as the end of a sentence, since it is another one than was agreed to;
        called in a thread before each start.
        """
        self.first_attempt = asyncio.Event()
        """Set when the first connection has succeeded or failed."""
        self._make_transport = make_transport
        self._on_change = on_change
        self._connection: McpConnection | None = None
        self._lock = asyncio.Lock()
        self._connected_at = 0.0
        self._start_count = self._failure_count = 0
        self._rests_until = self._not_before = 0.0
        self._refresh_task: asyncio.Task[None] | None = None
        self._is_stale = False
        self._is_closed = False

    async def connect(self) -> None:
        """Try to reach the server. Raises `ToolError` with what is wrong."""
        try:
            await self._ensure_connected()
        finally:
            self.first_attempt.set()

    async def call_tool(self, tool: McpToolDefinition, arguments: Mapping[str, object]) -> Raw:
        """Call a tool. Raises `McpRpcError` with what the server says, `ToolError` when the call was not made."""
        try:
            connection = await self._ensure_connected()
            result = await connection.request(
                "tools/call", {"name": tool.sent_name, "arguments": arguments}, self.spec.timeout
            )
        except ToolError as error:
            raise ToolError(f"The MCP server {self.spec.name}: {error}.") from None
        self._failure_count = 0
        return result

    async def close(self) -> None:
        """End the server for good."""
        self._is_closed = True
        if self._refresh_task is not None:
            self._refresh_task.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _ensure_connected(self) -> McpConnection:
        async with self._lock:
            if self._connection is not None and not self._connection.lost_reason:
                return self._connection
            await self._prepare_start()
            try:
                self._connection = await self._connect_once()
            except ToolError as error:
                self._record_failure(str(error))
                raise
            self.problem = ""
            self._on_change(self)
            return self._connection

    async def _prepare_start(self) -> None:
        """Wait until it may be started or restarted. Raises `ToolError` when it may not."""
        now = asyncio.get_running_loop().time()
        if self._connection is not None:
            died, self._connection = self._connection, None
            await died.close()
            if now - self._connected_at > _STABLE_SECONDS:
                self._start_count = 1
            self._record_failure(died.lost_reason)
        if self._is_closed:
            raise ToolError("the session is over")
        if self.spec.settings_problem:
            raise ToolError(self.spec.settings_problem)
        if now < self._rests_until:
            raise ToolError(
                f"it failed {_MAX_FAILURES} times and is left alone for {self._rests_until - now:.0f} s more"
            )
        if self._start_count > MAX_RESTARTS:
            raise ToolError(f"it was started again {MAX_RESTARTS} times and is given up: {self.problem}")
        self._start_count += 1
        await asyncio.sleep(max(0.0, self._not_before - now))

    def _record_failure(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        self.problem = to_one_line(escape_confusable_characters(reason), _MAX_PROBLEM)
        self._not_before = now + min(_BACKOFF_SECONDS * 2 ** max(self._start_count - 1, 0), _MAX_BACKOFF_SECONDS)
        self._failure_count += 1
        if self._failure_count >= _MAX_FAILURES:
            self._failure_count, self._rests_until = 0, now + _REST_SECONDS

    async def _connect_once(self) -> McpConnection:
        """Return a new connection, its tools read."""
        if self.find_change is not None and (reason := await asyncio.to_thread(self.find_change)):
            raise ToolError(reason)
        connection = McpConnection(self._make_transport(), self._on_notification)
        try:
            async with asyncio.timeout(self.spec.connect_timeout):
                await connection.open()
                await self._initialize_protocol(connection)
                self.tools = await self._list_tools(connection)
        except TimeoutError:
            await connection.close()
            raise ToolError(f"it was not ready within {self.spec.connect_timeout:g} s") from None
        except McpRpcError as error:
            await connection.close()
            raise ToolError(f"it refused to begin ({error!s:.200})") from None
        except BaseException:
            await connection.close()
            raise
        self._connected_at = asyncio.get_running_loop().time()
        return connection

    async def _initialize_protocol(self, connection: McpConnection) -> None:
        offer = {
            "protocolVersion": PROTOCOL_VERSIONS[0],
            "capabilities": {},
            "clientInfo": {"name": "hermes", "version": "1"},
        }
        result = await connection.request("initialize", offer, self.spec.connect_timeout)
        try:
            hello = msgspec.json.decode(result, type=_InitializeResult)
        except (msgspec.MsgspecError, RecursionError):
            raise ToolError("its greeting cannot be read") from None
        if hello.version not in PROTOCOL_VERSIONS:
            raise ToolError(f"it speaks version {hello.version[:40]!r} of the protocol, which is not spoken here")
        await connection.confirm_version(hello.version)

    async def _list_tools(self, connection: McpConnection) -> tuple[McpToolDefinition, ...]:
        sent: list[Raw] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = {"cursor": cursor} if cursor is not None else {}
            page = parse_tool_page(await connection.request("tools/list", params, self.spec.connect_timeout))
            sent += page.tools
            if not page.cursor or page.cursor == cursor or len(sent) >= MAX_TOOLS:
                break
            cursor = page.cursor
        return tuple(build_definitions(self.spec.name, sent[:MAX_TOOLS], self.spec.include, self.spec.exclude))

    def _on_notification(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._is_stale = True
            if (self._refresh_task is None or self._refresh_task.done()) and not self._is_closed:
                self._refresh_task = asyncio.create_task(self._refresh_tools())

    async def _refresh_tools(self) -> None:
        """Read the tools again, as long as the server says that they have changed."""
        await asyncio.sleep(_COALESCE_SECONDS)
        while self._is_stale and self._connection is not None and not self._connection.lost_reason:
            self._is_stale = False
            try:
                self.tools = await self._list_tools(self._connection)
            except (ToolError, McpRpcError) as error:
                _LOG.info("the tools of %s were not read again: %s", self.spec.name, error)
            self._on_change(self)
            await asyncio.sleep(_REFRESH_SECONDS)


def describe_missing(servers: Sequence[McpServer]) -> str:
    """Describe for a model which servers are missing; no text of theirs is included."""
    states = [f"{one.spec.name} {'failed' if one.first_attempt.is_set() else 'is still starting'}" for one in servers]
    return f"[MCP servers that are not there: {', '.join(states)}.]" if states else ""
