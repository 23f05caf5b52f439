"""All MCP servers of a process, and the sessions that have their tools."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.core.protocols import HttpTimeouts
from hermes.execution.supervisor import Wardens
from hermes.mcp.annotations import Known
from hermes.mcp.rpc import Link
from hermes.mcp.server import Server, Spec, described
from hermes.mcp.tools import make_tool, toolset
from hermes.safety.environment import basic_environment
from hermes.tools.registry import Toolbox

Tell = Callable[[str], None]
_CONNECT = 10.0


class Surroundings(Struct, frozen=True, kw_only=True):
    """What servers are started and reached with; `patience` is how long a look for tools waits for them, in seconds."""

    environ: Mapping[str, str]
    wardens: Wardens
    logs: Path
    known: Path
    ca_file: str = ""
    patience: float = 1.5
    redact: Callable[[str], str] = str
    """Takes secrets out of what a server says on standard error."""


class Servers:
    """The servers, started once for all sessions. `close` ends them."""

    def __init__(self, specs: Sequence[Spec], around: Surroundings) -> None:
        self._around = around
        self._known = Known(around.known)
        self.servers = [Server(spec, self._link_of(spec), self._changed) for spec in specs]
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._until = 0.0
        self._sessions: list[tuple[Toolbox, frozenset[str], Tell]] = []

    def start(self) -> None:
        """Start them in the background, once; what goes wrong is told to the sessions."""
        if not self._starting:
            self._until = asyncio.get_running_loop().time() + self._around.patience
            for server in self.servers:
                self._begin(server)

    def join(self, toolbox: Toolbox, names: Sequence[str], tell: Tell) -> Callable[[], None]:
        """Have the tools of these servers in a session's toolbox, now and as they change; gives what ends that."""
        entry = (toolbox, frozenset(names), tell)
        self._sessions.append(entry)
        mine = [server for server in self.servers if server.spec.name in entry[1]]
        toolbox.wait_for_late = lambda: self._settled(mine)
        for server in mine:
            self._put(server, toolbox)
            if server.problem:
                tell(_failure(server))
        return lambda: self._sessions.remove(entry)

    def again(self) -> int:
        """Try those again that are not there; how many these are."""
        missing = [one for one in self.servers if one.problem and self._starting[one.spec.name].done()]
        for server in missing:
            self._begin(server)
        return len(missing)

    async def close(self) -> None:
        """End all servers."""
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        await asyncio.gather(*(server.close() for server in self.servers))

    def _begin(self, server: Server) -> None:
        self._starting[server.spec.name] = asyncio.create_task(self._start(server), name=f"MCP {server.spec.name}")

    async def _start(self, server: Server) -> None:
        first = not server.tried.is_set()
        try:
            if first:
                await asyncio.to_thread(self._known.load)
            await server.connect()
        except ToolError:
            for _, names, tell in self._sessions:
                if first and server.spec.name in names:
                    tell(_failure(server))

    async def _settled(self, mine: Sequence[Server]) -> str:
        """Wait for those that are starting, as long as their time runs; which are not there. These are tried again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._until):
                await asyncio.gather(*(server.tried.wait() for server in mine))
        missing = [one for one in mine if one.problem or not one.tried.is_set()]
        for server in missing:
            if self._starting[server.spec.name].done():
                self._begin(server)
        return described(missing)

    def _changed(self, server: Server) -> None:
        for toolbox, names, _ in self._sessions:
            if server.spec.name in names:
                self._put(server, toolbox)

    def _put(self, server: Server, toolbox: Toolbox) -> None:
        made = [make_tool(server, definition, self._known) for definition in server.tools]
        toolbox.replace_toolset(toolset(server.spec.name), made)

    def _link_of(self, spec: Spec) -> Callable[[], Link]:
        return lambda: _stdio(spec, self._around) if spec.command else _http(spec, self._around)


def _failure(server: Server) -> str:
    return f"The MCP server {server.spec.name} is not there: {server.problem}. `hermes mcp test` tries it."


def _stdio(spec: Spec, around: Surroundings) -> Link:
    from hermes.mcp.stdio import Program, StdioLink

    program = Program(
        command=spec.command,
        arguments=spec.args,
        environment=basic_environment(around.environ) | dict(spec.env),
        folder=spec.folder,
        log=around.logs / f"mcp-{spec.name}.log",
        redact=around.redact,
    )
    return StdioLink(program, around.wardens)


def _http(spec: Spec, around: Surroundings) -> Link:
    from hermes.mcp.http import HttpLink
    from hermes.providers.http import http_transport

    transport = http_transport(around.environ, ca_file=around.ca_file)
    return HttpLink(spec.url, spec.headers, transport, HttpTimeouts(connect=_CONNECT, read=spec.timeout))
