"""One MCP server of the person's: started in the background, asked for its tools, called, restarted when it died."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Raw

from hermes.config.settings import McpOAuthSettings
from hermes.core.errors import ToolError
from hermes.core.secret import KeyHolder
from hermes.mcp.definitions import (
    MAX_TOOLS,
    McpToolDefinition,
    build_definitions,
    parse_task_id,
    parse_tool_page,
)
from hermes.mcp.handshake import CLIENT, Era, ServerOffer, agree_on_version
from hermes.mcp.header_parameters import build_parameter_headers
from hermes.mcp.input_requests import ask_listed_visits, complete_request
from hermes.mcp.prompts import MAX_PROMPTS, McpPrompt, parse_prompt_page
from hermes.mcp.rpc import METHOD_NOT_FOUND, McpConnection, McpNotification, McpRpcError, McpTransport
from hermes.tools.session import Asker
from hermes.util.text import escape_confusable_characters, to_one_line

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
_LISTEN_RETRY_SECONDS = (1.0, 5.0, 30.0)
"""Seconds before changes are listened for again after that has ended; the last is repeated."""
_MAX_PROBLEM = 400
_MAX_QUESTIONS = 20
"""The most questions of a server while its calls are under way; to further ones the answer is no."""
_NOT_SUPPORTED = "not supported by this client"
_HEADER_MISMATCH, _VISIT_REQUIRED = -32020, -32042
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
    oauth: McpOAuthSettings = McpOAuthSettings()
    """The client that signs in, its variables filled in."""
    protocol: str = ""
    """The version of the protocol to speak; empty: the newest that both speak."""
    settings_problem: str = ""
    """What is wrong with its settings, so that it cannot be started at all."""


class McpServer:
    """One MCP server. `make_transport` makes a new transport to it; `on_change` is called when what it offers may have
    changed.
    """

    def __init__(
        self, spec: McpServerSpec, make_transport: Callable[[], McpTransport], on_change: Callable[["McpServer"], None]
    ) -> None:
        self.spec = spec
        self.tools: tuple[McpToolDefinition, ...] = ()
        self.prompts: tuple[McpPrompt, ...] = ()
        self.offer = ServerOffer(version="")
        """What it has said of itself when it was connected last; untrusted."""
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
        self._era = Era.UNKNOWN
        self._askers: list[Asker | None] = []
        """Those who can be asked for the requests that are under way."""
        self._questions = 0
        """The questions of the server since no request was under way."""
        self._question_lock = asyncio.Lock()
        self._connected_at = 0.0
        self._start_count = self._failure_count = 0
        self._rests_until = self._not_before = 0.0
        self._refresh_task: asyncio.Task[None] | None = None
        self._listen_task: asyncio.Task[None] | None = None
        self._is_stale = False
        self._is_closed = False

    async def connect(self) -> None:
        """Try to reach the server. Raises `ToolError` with what is wrong."""
        try:
            await self._ensure_connected()
        finally:
            self.first_attempt.set()

    async def call_tool(
        self, tool: McpToolDefinition, arguments: Mapping[str, object], asker: Asker | None = None
    ) -> Raw:
        """Call a tool; `asker` is asked what the server wants to know of the person meanwhile.

        Raises `McpRpcError` with what the server says, `ToolError` when the call was not made.
        """
        params: dict[str, object] = {"name": tool.sent_name, "arguments": arguments}
        if tool.needs_task and not self.offer.is_stateless:
            return await self._run_task(params, asker, tool)
        try:
            return await self._send("tools/call", params, asker, name=tool.sent_name, tool=tool)
        except McpRpcError as error:
            if error.code == _VISIT_REQUIRED and await ask_listed_visits(asker, self.spec.name, error.data):
                return await self._send("tools/call", params, asker, name=tool.sent_name, tool=tool)
            if error.code != _HEADER_MISMATCH or self._connection is None:
                raise
        # The tool has changed: the server wants other header fields by now.
        self.tools = await self._list_tools(self._connection)
        self._on_change(self)
        return await self._send("tools/call", params, asker, name=tool.sent_name, tool=tool)

    async def _run_task(self, params: Mapping[str, object], asker: Asker | None, tool: McpToolDefinition) -> Raw:
        """Have a tool carried out as a task and return its result. A call that is cancelled ends the task."""
        wanted = {**params, "task": {"ttl": round(self.spec.timeout * 1_000)}}
        task_id = parse_task_id(await self._send("tools/call", wanted, asker, name=tool.sent_name, tool=tool))
        try:
            return await self._send("tasks/result", {"taskId": task_id}, asker)
        except asyncio.CancelledError:
            if self._connection is not None:
                self._connection.request_unawaited("tasks/cancel", {"taskId": task_id})
            raise

    async def read_resource(self, uri: str, asker: Asker | None = None) -> Raw:
        """Read a resource. Raises `McpRpcError`, `ToolError`."""
        return await self._send("resources/read", {"uri": uri}, asker, name=uri)

    async def list_resources(self, cursor: str, *, templates: bool) -> Raw:
        """Return a page of the resources, or of their templates. Raises `McpRpcError`, `ToolError`."""
        method = "resources/templates/list" if templates else "resources/list"
        return await self._send(method, {"cursor": cursor} if cursor else {}, None)

    async def get_prompt(self, prompt: McpPrompt, arguments: Mapping[str, str], asker: Asker | None = None) -> Raw:
        """Return the messages of a prompt. Raises `McpRpcError`, `ToolError`."""
        params = {"name": prompt.sent_name, "arguments": arguments}
        return await self._send("prompts/get", params, asker, name=prompt.sent_name)

    async def close(self) -> None:
        """End the server for good."""
        self._is_closed = True
        for task in (self._refresh_task, self._listen_task):
            if task is not None:
                task.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _send(
        self,
        method: str,
        params: Mapping[str, object],
        asker: Asker | None,
        *,
        name: str = "",
        tool: McpToolDefinition | None = None,
    ) -> Raw:
        """Send a request, and answer what the server asks before it has its result. With a `tool` it is a call of that,
        and is not sent where the server tells something else of the tool by now: the yes was for what it told before.
        """

        async def send_once(with_answers: Mapping[str, object]) -> Raw:
            arguments = params.get("arguments")
            headers = (
                build_parameter_headers(current.header_parameters, arguments)
                if current is not None and connection.version and isinstance(arguments, Mapping)
                else {}
            )
            return await connection.request(
                method, {**params, **with_answers}, self.spec.timeout, name=name, headers=headers
            )

        try:
            connection = await self._ensure_connected()
            current = self._find_current_tool(tool) if tool is not None else None
            with self._note_asker(asker):
                result = await complete_request(send_once, asker, self.spec.name, is_stateless=bool(connection.version))
        except ToolError as error:
            raise ToolError(f"The MCP server {self.spec.name}: {error}.") from None
        self._failure_count = 0
        return result

    def _find_current_tool(self, tool: McpToolDefinition) -> McpToolDefinition:
        """Return the tool as the server tells of it now. Raises `ToolError` where another one needs approval."""
        found = next((one for one in self.tools if one.name == tool.name and one.digest == tool.digest), None)
        if found is None and self.spec.asks_approval:
            raise ToolError(f"it has changed {tool.name}, look for it again")
        return found or tool

    @contextmanager
    def _note_asker(self, asker: Asker | None) -> Iterator[None]:
        if not self._askers:
            self._questions = 0
        self._askers.append(asker)
        try:
            yield
        finally:
            self._askers.remove(asker)

    async def _answer_request(self, method: str, params: Raw) -> object:
        """Answer a request of the server. Only the person of the one call that is under way can be meant: where calls
        of several sessions are, nobody is asked. One question comes after the other, and not more than a few.
        """
        if method != "elicitation/create":
            raise McpRpcError(METHOD_NOT_FOUND, _NOT_SUPPORTED)
        from hermes.mcp.elicitation import answer_elicitation

        self._questions += 1
        async with self._question_lock:
            found = {id(one): one for one in self._askers}
            is_clear = len(found) == 1 and self._questions <= _MAX_QUESTIONS
            return await answer_elicitation(self._askers[0] if is_clear else None, self.spec.name, params)

    async def _ensure_connected(self) -> McpConnection:
        async with self._lock:
            if self._connection is not None and not self._connection.lost_reason:
                return self._connection
            await self._prepare_start()
            try:
                self._connection = await self._connect_either()
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

    async def _connect_either(self) -> McpConnection:
        """Connect, for a program that ends at the first question of the newest revision once more without that.

        Raises ToolError where it is another server now than was agreed to.
        """
        if self.find_change is not None and (reason := await asyncio.to_thread(self.find_change)):
            raise ToolError(reason)
        connection = McpConnection(self._make_transport(), self._on_notification, self._answer_request, CLIENT)
        try:
            return await self._connect_once(connection)
        except ToolError:
            may_be_old = self.spec.command and not self.spec.protocol and self._era is Era.UNKNOWN
            if not may_be_old or not connection.was_lost_after_request:
                self._era = Era.UNKNOWN
                raise
            self._era = Era.SESSIONS
        connection = McpConnection(self._make_transport(), self._on_notification, self._answer_request, CLIENT)
        try:
            return await self._connect_once(connection)
        except ToolError:
            self._era = Era.UNKNOWN
            raise

    async def _connect_once(self, connection: McpConnection) -> McpConnection:
        """Return the connection, what the server offers read."""
        try:
            async with asyncio.timeout(self.spec.connect_timeout):
                await connection.open()
                self.offer = await agree_on_version(
                    connection, self.spec.connect_timeout, self._era, self.spec.protocol
                )
                self._era = Era.STATELESS if self.offer.is_stateless else Era.SESSIONS
                self.tools = await self._list_tools(connection)
                self.prompts = await self._list_prompts(connection)
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
        self._listen(connection)
        return connection

    async def _list_tools(self, connection: McpConnection) -> tuple[McpToolDefinition, ...]:
        sent: list[Raw] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = {"cursor": cursor} if cursor is not None else {}
            try:
                page = parse_tool_page(await connection.request("tools/list", params, self.spec.connect_timeout))
            except McpRpcError as error:
                if error.code == METHOD_NOT_FOUND and not self.offer.has_tools:
                    break
                raise
            sent += page.tools
            if not page.cursor or page.cursor == cursor or len(sent) >= MAX_TOOLS:
                break
            cursor = page.cursor
        uses_headers = self.offer.is_stateless and bool(self.spec.url)
        spec = self.spec
        # In a thread: a server may send many large definitions again and again, which takes a second each time.
        return tuple(
            await asyncio.to_thread(
                build_definitions, spec.name, sent[:MAX_TOOLS], spec.include, spec.exclude, uses_headers=uses_headers
            )
        )

    async def _list_prompts(self, connection: McpConnection) -> tuple[McpPrompt, ...]:
        """Return the prompts; none where they cannot be read, since the tools work all the same."""
        found: dict[str, McpPrompt] = {}
        cursor = ""
        for _ in range(_MAX_PAGES if self.offer.has_prompts else 0):
            try:
                result = await connection.request(
                    "prompts/list", {"cursor": cursor} if cursor else {}, self.spec.connect_timeout
                )
                page, following = parse_prompt_page(self.spec.name, result)
            except (ToolError, McpRpcError) as error:
                _LOG.info("the prompts of %s were not read: %s", self.spec.name, error)
                break
            for one in page:
                found.setdefault(one.name, one)
            if not following or following == cursor or len(found) >= MAX_PROMPTS:
                break
            cursor = following
        return tuple(list(found.values())[:MAX_PROMPTS])

    def _listen(self, connection: McpConnection) -> None:
        """Have a server without sessions tell of changes; others do so by themselves."""
        if self._listen_task is not None:
            self._listen_task.cancel()
            self._listen_task = None
        wanted = {f"{name}ListChanged": True for name in self.offer.announced if name != "resources"}
        if self.offer.is_stateless and wanted and not self._is_closed:
            self._listen_task = asyncio.create_task(self._listen_for_changes(connection, wanted))

    async def _listen_for_changes(self, connection: McpConnection, wanted: Mapping[str, bool]) -> None:
        """Keep a subscription open as long as the connection lasts. What changed while there was none is read again."""
        pauses = iter(_LISTEN_RETRY_SECONDS)
        while not connection.lost_reason:
            try:
                await connection.request("subscriptions/listen", {"notifications": wanted}, None)
            except McpRpcError as error:
                _LOG.info("%s tells of no changes: %s", self.spec.name, error)
                return
            except ToolError as error:
                _LOG.info("%s tells of no changes at present: %s", self.spec.name, error)
            await asyncio.sleep(next(pauses, _LISTEN_RETRY_SECONDS[-1]))
            self._mark_stale()

    def _on_notification(self, notification: McpNotification) -> None:
        if notification.method in ("notifications/tools/list_changed", "notifications/prompts/list_changed"):
            self._mark_stale()

    def _mark_stale(self) -> None:
        self._is_stale = True
        if (self._refresh_task is None or self._refresh_task.done()) and not self._is_closed:
            self._refresh_task = asyncio.create_task(self._refresh_lists())

    async def _refresh_lists(self) -> None:
        """Read tools and prompts again, as long as the server says that they have changed."""
        await asyncio.sleep(_COALESCE_SECONDS)
        while self._is_stale and self._connection is not None and not self._connection.lost_reason:
            self._is_stale = False
            try:
                self.tools = await self._list_tools(self._connection)
                self.prompts = await self._list_prompts(self._connection)
            except (ToolError, McpRpcError) as error:
                _LOG.info("the tools of %s were not read again: %s", self.spec.name, error)
            self._on_change(self)
            await asyncio.sleep(_REFRESH_SECONDS)


def describe_missing(servers: Sequence[McpServer]) -> str:
    """Describe for a model which servers are missing; no text of theirs is included."""
    states = [f"{one.spec.name} {'failed' if one.first_attempt.is_set() else 'is still starting'}" for one in servers]
    return f"[MCP servers that are not there: {', '.join(states)}.]" if states else ""
