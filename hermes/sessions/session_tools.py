"""The tools of one session, and everything they may touch."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, structs

from hermes.config.home import Home
from hermes.config.settings import Settings
from hermes.config.trusted import trusted_folders
from hermes.core.errors import ConfigError
from hermes.core.messages import PROGRAM, Message
from hermes.core.parts import Source, TextPart
from hermes.execution.base import Stopped
from hermes.safety.places import Places
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.backend_factory import Place, trusted_path
from hermes.sessions.gate_factory import session_gate
from hermes.sessions.mcp_servers import SET, chosen, others
from hermes.sessions.options import Options
from hermes.tools import toolsets
from hermes.tools.permissions.policy_gate import RuleGate
from hermes.tools.registry import BRIDGES, Registry, Toolbox
from hermes.tools.session import Asker, Limits, ToolContext, ToolState
from hermes.tools.taint import Trust
from hermes.tools.taint_marks import Marked
from hermes.tools.tool import Tool
from hermes.util.clock import Clock
from hermes.util.text import one_line
from hermes.web.access import WebAccess


class Plan(Struct, frozen=True, kw_only=True):
    """A session that is about to be brought to life."""

    session_id: str
    fresh: bool
    system: str | None
    history: tuple[Message, ...]
    cwd: str
    options: Options
    """What was chosen for this session; usually what was chosen for the process."""
    asker: Asker | None
    lock: int
    """The handle of the session's lock."""


class Process(Struct, frozen=True, kw_only=True):
    """What all sessions of a process share."""

    environ: Mapping[str, str]
    clock: Clock
    place: Place
    redactor: Redactor


class SessionTools(Struct, frozen=True):
    """What the executor of a session works with."""

    toolbox: Toolbox
    gate: RuleGate
    context: ToolContext
    state: ToolState
    remarks: tuple[str, ...] = ()
    """What the person should know about the choice of tools."""
    servers: tuple[str, ...] = ()
    """The MCP servers whose tools are to be put into the toolbox."""
    select: Callable[[Settings], Toolbox] | None = None
    """Selects tools anew, by other settings. Raises ConfigError when none is left."""

    def notices(self) -> list[TextPart]:
        """News of background processes for the model, each told once."""
        return [TextPart(text=f"[{line}]", provenance=PROGRAM) for line in self.state.processes.take_notices()]

    def unfinished(self) -> str:
        """A line for the person about the background processes that `close` would end; empty when there are none."""
        running = self.state.processes.running()
        if not running:
            return ""
        count = "1 background process was" if len(running) == 1 else f"{len(running)} background processes were"
        return f"{count} ended: " + ", ".join(f"{one_line(one.command, 60)} ({one.process_id})" for one in running)

    async def stop_processes(self) -> list[str]:
        """End the session's background processes; a line for each, and whether it is known to be gone."""
        ended = await self.state.processes.stop_all()
        return [
            f"{one.process_id} ({one_line(one.command, 60)}) "
            + ("has ended." if one.stopped is Stopped.GONE else "was asked to end; it may still be running there.")
            for one in ended
        ]

    async def close(self) -> None:
        """End the session's background processes and the backend."""
        await self.state.close()
        await self.context.backend.close()


def session_tools(
    plan: Plan,
    *,
    home: Home,
    settings: Settings,
    process: Process,
    more: Sequence[Tool] = (),
    marked: Marked | None = None,
) -> SessionTools:
    """Select and prepare the tools of a session. `more` are tools that are bound to it, such as that of its memory;
    `marked` are files with strangers' words that other sessions wrote.

    Raises ConfigError for an unknown tool set or back end, and when what was asked for holds no tool.
    """
    options = plan.options
    toolbox, remarks, servers = _selected(settings, options, more)
    environ = process.environ
    state = ToolState(cwd=Path(plan.cwd))
    for host in {*settings.security.allowed_hosts} & {"localhost", "127.0.0.1", "::1"}:
        state.taint.lift(f"{Source.WEB}:{host}")  # what listens on the person's own machine is theirs, they say
    spill = home.spill / plan.session_id
    places = Places(
        home=str(Path(environ.get("HOME") or "~").expanduser().resolve()),
        hermes=str(home.root.resolve()),
        workspace=str(Path(plan.cwd).resolve()),
        own=(str(spill.resolve()),),
        foreign=bool(options.person),
        confined=options.confined,
    )
    backend, remark = process.place.backend(places, plan.lock)
    remarks = (*remarks, *([remark] if remark else []))
    context = ToolContext(
        session_id=plan.session_id,
        state=state,
        places=places,
        spill=spill,
        backend=backend,
        clock=process.clock,
        limits=Limits(command_seconds=settings.terminal.timeout, result_characters=settings.tool_output.max_chars),
        trust=Trust((*trusted_folders(home.trust_file), str(home.root.resolve()))),
        asker=plan.asker,
        redactor=process.redactor,
        catalogue=toolbox if toolbox.find("tool_search") else None,
        marked=marked or Marked(),
        search_path=trusted_path(environ.get("PATH", ""), places.workspace),
        web=WebAccess(
            environ=environ,
            private=settings.security.allow_private_urls,
            search_backend=settings.web.search_backend,
            search_url=settings.web.search_url,
            ca_file=settings.model.ca_bundle,
        ),
    )
    gate = session_gate(home, settings, options)

    def select(by: Settings) -> Toolbox:
        return _selected(by, structs.replace(options, enabled_toolsets=None, disabled_toolsets=()), more)[0]

    return SessionTools(toolbox, gate, context, state, remarks, servers, select)


def _selected(
    settings: Settings, options: Options, more: Sequence[Tool]
) -> tuple[Toolbox, tuple[str, ...], tuple[str, ...]]:
    """The tools that were asked for, what is missing of them, and the MCP servers whose tools come later.

    An empty choice of a program's (`()`) means none.
    """
    asked = options.enabled_toolsets if options.enabled_toolsets is not None else settings.toolsets or None
    disabled = (*settings.disabled_toolsets, *options.disabled_toolsets)
    servers = chosen(settings, asked, disabled) if settings.mcp_servers else ()
    registry = Registry()
    for one in more:
        registry.register(one)
    ours = others(asked) if asked is not None else _usual(more)
    servers = _allowed_servers(servers, options.toolset_limit)
    toolbox = registry.select(ours, others(disabled), more=bool(servers))
    _keep_only(toolbox, registry, options.toolset_limit, more=bool(servers))
    if not asked:
        return toolbox, (), servers
    named = ", ".join(asked)
    if not toolbox.size and not options.person:
        left = "is left" if registry.select(ours).size else "exists in this version"
        raise ConfigError(f"No tool of the set(s) {named} {left}.", registry.filled())
    remarks = [f"The tool set {name} holds no tools in this version." for name in registry.empty(ours)]
    return toolbox, tuple(remarks), servers


def _usual(more: Sequence[Tool]) -> list[str]:
    """The tool sets of a session for which none were asked."""
    return list(dict.fromkeys((*others(toolsets.DEFAULT), *(one.toolset for one in more))))


def _allowed_servers(servers: Sequence[str], limit: Sequence[str] | None) -> tuple[str, ...]:
    """The MCP servers that a limit names, each or all."""
    every = limit is None or not {SET, *toolsets.EVERYTHING}.isdisjoint(limit)
    return tuple(one for one in servers if every or f"{SET}-{one}" in (limit or ()))


def _keep_only(toolbox: Toolbox, registry: Registry, limit: Sequence[str] | None, *, more: bool) -> None:
    """Leave in a toolbox what the sets of a limit hold: deferred tools too, so that no other is found or called."""
    if limit is None or not {*toolsets.EVERYTHING}.isdisjoint(limit):
        return
    known = registry.sets()
    names = set(toolsets.select([one for one in others(limit) if one in known], (), known)) - {*BRIDGES}
    if more or any(tool.deferred and tool.name in names for tool in toolbox):
        names |= {*BRIDGES}
    toolbox.become(filter(lambda tool: tool.name in names, list(toolbox)))
