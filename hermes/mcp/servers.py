"""All MCP servers of a process, and the sessions that have their tools."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.core.protocols import HttpTimeouts
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.mcp.handshake import Era
from hermes.mcp.prompts import McpPrompt
from hermes.mcp.rpc import McpTransport
from hermes.mcp.server import McpServer, describe_missing
from hermes.mcp.server_spec import McpServerSpec
from hermes.mcp.tools import KnownMcpTools, make_server_tools, mcp_toolset_name
from hermes.safety.environment import select_basic_variables
from hermes.tools.registry import Toolbox

if TYPE_CHECKING:
    from hermes.mcp.http_exchanges import McpTokens

TellPerson = Callable[[str], None]
_CONNECT_SECONDS = 10.0


class McpEnvironment(Struct, frozen=True, kw_only=True):
    """What servers are started and reached with; `patience` is how long a look for tools waits for them, in seconds."""

    environ: Mapping[str, str]
    supervisors: Supervisors
    logs: Path
    known_file: Path
    ca_file: str = ""
    patience: float = 1.5
    redact: Callable[[str], str] = str
    """Removes secrets from what a server prints on standard error."""
    open_authorization: "Callable[[McpServerSpec], McpTokens | None]" = lambda _: None
    """Returns the tokens of a server over HTTP; None where there are none, as its header fields hold one."""


class McpServers:
    """The servers, started once for all sessions. `close` ends them."""

    def __init__(self, specs: Sequence[McpServerSpec], environment: McpEnvironment) -> None:
        self._environment = environment
        self._known_tools = KnownMcpTools(environment.known_file)
        self.servers = [McpServer(spec, self._make_transport_factory(spec), self._on_tools_changed) for spec in specs]
        self._start_tasks: dict[str, asyncio.Task[None]] = {}
        self._wait_until = 0.0
        self._sessions: list[tuple[Toolbox, frozenset[str], TellPerson]] = []

    def start(self) -> None:
        """Start them in the background, once; errors are reported to the sessions."""
        if not self._start_tasks:
            self._wait_until = asyncio.get_running_loop().time() + self._environment.patience
            for server in self.servers:
                self._begin_start(server)

    def join_session(self, toolbox: Toolbox, names: Sequence[str], tell: TellPerson) -> Callable[[], None]:
        """Put the tools of these servers into a session's toolbox, now and as they change; return what ends that."""
        entry = (toolbox, frozenset(names), tell)
        self._sessions.append(entry)
        mine = [server for server in self.servers if server.spec.name in entry[1]]
        others = toolbox.wait_for_late

        async def wait_for_all() -> str:
            missing = (await others() if others is not None else "", await self._wait_for_servers(mine))
            return " ".join(filter(None, missing))

        toolbox.wait_for_late = wait_for_all
        for server in mine:
            self._update_toolbox(server, toolbox)
            if server.problem:
                tell(_describe_failure(server))
        return lambda: self._sessions.remove(entry)

    def retry_missing(self) -> int:
        """Retry the servers that are missing; return how many there are."""
        missing = [one for one in self.servers if one.problem and self._start_tasks[one.spec.name].done()]
        for server in missing:
            self._begin_start(server)
        return len(missing)

    async def wait_until_tried(self, names: Sequence[str]) -> None:
        """Wait until these servers have been tried once, as long as a look for tools waits for them."""
        mine = [server for server in self.servers if server.spec.name in names]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._wait_until):
                await asyncio.gather(*(server.first_attempt.wait() for server in mine))

    def find_prompt(self, name: str, servers: Sequence[str]) -> tuple[McpServer, McpPrompt] | None:
        """Return the prompt that a person calls by this name, of one of these servers; None for another name."""
        for server in self.servers:
            found = next((one for one in server.prompts if one.name == name), None)
            if found is not None and server.spec.name in servers:
                return server, found
        return None

    async def close(self) -> None:
        """End all servers."""
        for task in self._start_tasks.values():
            task.cancel()
        await asyncio.gather(*self._start_tasks.values(), return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self.servers))

    def _begin_start(self, server: McpServer) -> None:
        self._start_tasks[server.spec.name] = asyncio.create_task(
            self._start_server(server), name=f"MCP {server.spec.name}"
        )

    async def _start_server(self, server: McpServer) -> None:
        first = not server.first_attempt.is_set()
        try:
            if first:
                await asyncio.to_thread(self._known_tools.load)
            await server.connect()
        except ToolError:
            for _, names, tell in self._sessions:
                if first and server.spec.name in names:
                    tell(_describe_failure(server))

    async def _wait_for_servers(self, servers: Sequence[McpServer]) -> str:
        """Wait for those that are starting, as long as time is left; return which are missing. Those are retried."""
        await self.wait_until_tried([server.spec.name for server in servers])
        missing = [one for one in servers if one.problem or not one.first_attempt.is_set()]
        for server in missing:
            if self._start_tasks[server.spec.name].done():
                self._begin_start(server)
        return describe_missing(missing)

    def _on_tools_changed(self, server: McpServer) -> None:
        for toolbox, names, _ in self._sessions:
            if server.spec.name in names:
                self._update_toolbox(server, toolbox)

    def _update_toolbox(self, server: McpServer, toolbox: Toolbox) -> None:
        toolbox.replace_toolset(mcp_toolset_name(server.spec.name), make_server_tools(server, self._known_tools))

    def _make_transport_factory(self, spec: McpServerSpec) -> Callable[[Era], McpTransport]:
        return lambda era: (
            _make_stdio_transport(spec, self._environment)
            if spec.command
            else _make_http_transport(spec, self._environment, era)
        )


def _describe_failure(server: McpServer) -> str:
    return N_(
        "The MCP server {name} is not available: {problem}. `hermes mcp test` tries it.",
        name=server.spec.name,
        problem=server.problem,
    )


def _make_stdio_transport(spec: McpServerSpec, environment: McpEnvironment) -> McpTransport:
    from hermes.execution.line_program import LineProgram
    from hermes.mcp.stdio import McpStdioTransport

    program = LineProgram(
        command=spec.command,
        arguments=spec.args,
        environment=select_basic_variables(environment.environ) | dict(spec.env),
        folder=spec.folder,
        log=environment.logs / f"mcp-{spec.name}.log",
        redact=environment.redact,
    )
    return McpStdioTransport(program, environment.supervisors)


def _make_http_transport(spec: McpServerSpec, environment: McpEnvironment, era: Era) -> McpTransport:
    from hermes.mcp.http_exchanges import McpHttpExchanges
    from hermes.providers.http import create_http_transport

    transport = create_http_transport(environment.environ, ca_file=environment.ca_file)
    timeouts = HttpTimeouts(connect=_CONNECT_SECONDS, read=spec.timeout)
    tokens = environment.open_authorization(spec)
    exchanges = McpHttpExchanges(spec.url, spec.headers, transport, timeouts, tokens)
    if era is Era.EVENTS:
        from hermes.mcp.sse import McpSseTransport

        return McpSseTransport(exchanges)
    from hermes.mcp.http import McpHttpTransport

    return McpHttpTransport(exchanges)
