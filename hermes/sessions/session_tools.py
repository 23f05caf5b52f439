"""Selects and prepares the tools of one session: the permission gate before them, and everything they may access."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from hermes.config.home import HermesHome
from hermes.config.settings import RuleSettings, Settings
from hermes.config.trusted_folders import TrustFile, read_trusted_folders
from hermes.core.errors import ConfigError, UsageError
from hermes.core.messages import PROGRAM, Message, Source, TextPart
from hermes.core.work_mode import WorkMode
from hermes.execution.base import SitePermissions, StopOutcome
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name
from hermes.safety.policy import PolicyRule, check_rules
from hermes.safety.secrets.redactor import Redactor
from hermes.safety.shell.findings import Verdict
from hermes.sessions.backend_factory import BACKENDS, BackendFactory, filter_trusted_path, resolve_places
from hermes.sessions.options import SessionOptions
from hermes.tools import toolsets
from hermes.tools.permissions.policy_gate import ApprovalPolicy, PolicyGate
from hermes.tools.registry import BRIDGE_TOOLS, KnownTool, Toolbox, ToolRegistry, ToolSurroundings
from hermes.tools.session import (
    DOWNLOADS_FOLDER,
    Asker,
    BrowserAccess,
    CodeAccess,
    ImageGeneration,
    ToolContext,
    ToolLimits,
    ToolState,
    WebAccess,
)
from hermes.tools.taint import TrustedFolders
from hermes.tools.taint_marks import TaintMarks
from hermes.tools.toolsets import MCP_TOOLSET, is_plugin_toolset, without_mcp_toolsets
from hermes.util.clock import Clock
from hermes.util.localizable import join_localizable
from hermes.util.text import clean_surrogates, escape_surrogates, to_one_line

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from hermes.browser.page_report import PageReporter
    from hermes.execution.supervisor import Supervisors
    from hermes.sessions.port import Delegator
    from hermes.speech.service import SpeechService

APPROVAL_MODES = ("ask", "smart", "off")


BACKEND_NAMES = tuple(one for one in BACKENDS if one != "auto")
"""The back ends by their names at run time."""


_LEGACY_MODES = {"manual": "ask", "on": "ask"}


ALLOWLIST = "command_allowlist"


def approval_mode(settings: Settings) -> str:
    """Return the approval mode. Raises ConfigError for an unknown mode, because a guess could approve something."""
    named = settings.approvals.mode
    mode = _LEGACY_MODES.get(named, named)
    if mode not in APPROVAL_MODES:
        raise ConfigError(
            N_("There is no mode {named} of approvals.", named=repr(named)), "Set approvals.mode to ask, smart or off."
        )
    where = settings.approvals.off_in
    if where and where not in BACKEND_NAMES:
        from hermes.plugins import suggest_name

        raise ConfigError(
            N_("approvals.off_in: no back end is called {where}.", where=repr(where)),
            join_localizable(
                " ", (suggest_name(where, BACKEND_NAMES), N_("Possible: {names}.", names=", ".join(BACKEND_NAMES)))
            ),
        )
    if mode == "off" and not settings.approvals.off_in:
        raise ConfigError(
            "approvals.mode off needs the name of the back end in which nothing is asked.",
            "Set approvals.off_in, for instance to sandbox, or the mode to ask.",
        )
    return mode


def build_policy(settings: Settings, options: SessionOptions) -> ApprovalPolicy:
    """Build the user's approval policy. Raises ConfigError for a rule that cannot mean what its author intended."""
    return ApprovalPolicy(
        allow=tuple(pattern.strip() for pattern in (*settings.command_allowlist, *options.allow)),
        rules=check_rules([_parse_rule(one) for one in settings.approvals.rules], "approvals.rules"),
        hosts=settings.security.allowed_hosts,
        off_in=settings.approvals.off_in if approval_mode(settings) == "off" else "",
    )


def build_session_gate(
    home: HermesHome,
    settings: Settings,
    options: SessionOptions,
    tell: Callable[[str], None],
    on_allowed: Callable[[Sequence[str]], None] | None = None,
) -> PolicyGate:
    """Build the gate of one session. An answer "always" is written into the home's `config.yaml`, and `on_allowed` is
    told the patterns; where it cannot be, it holds until the session ends, and `tell` is given a line that says so.
    """

    async def remember(patterns: Sequence[str]) -> None:
        from hermes.config.yaml_edit import add_to_list

        try:
            home.ensure_exists()
            # A name that is not UTF-8 cannot stand in settings: for it the answer holds until the session ends.
            add_to_list(home.config_file, ALLOWLIST, [one for one in patterns if escape_surrogates(one) == one])
            if on_allowed is not None:
                on_allowed(patterns)
        except ConfigError as error:
            why = join_localizable(" ", (error.message, error.hint))
            tell(N_("The answer holds until this session ends; it could not be kept: {why}", why=why))

    watched = TrustFile(home.trust_file, options.trusted_folders)
    return PolicyGate(build_policy(settings, options), remember=remember, is_trusted=watched.is_trusted_folder)


def _parse_rule(one: RuleSettings) -> PolicyRule:
    try:
        verdict = Verdict(one.verdict)
    except ValueError:
        raise ConfigError(
            N_("approvals.rules: there is no verdict {verdict}.", verdict=repr(one.verdict)),
            "It is allow, ask or deny.",
        ) from None
    return PolicyRule(pattern=one.pattern, verdict=verdict, reason=one.reason, match=one.match, no_match=one.no_match)


class SessionPlan(Struct, frozen=True, kw_only=True):
    """The parameters of a session that is about to be built."""

    session_id: str
    fresh: bool
    system: str | None
    history: tuple[Message, ...]
    cwd: str
    options: SessionOptions
    """The options of this session; usually those of the process."""
    asker: Asker | None
    lock_handle: int
    """The file handle of the session's lock."""
    find_delegator: "Callable[[str], Delegator] | None" = None
    """Returns what has tasks done by sub-agents of a live session, by its id."""


class ProcessDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of tools that all sessions of a process share."""

    environ: Mapping[str, str]
    clock: Clock
    backend_factory: BackendFactory
    redactor: Redactor
    on_allowed: Callable[[Sequence[str]], None] | None = None
    """Told the patterns of an answer "always", for the sessions that are opened later."""
    get_supervisors: "Callable[[], Supervisors] | None" = None
    """Returns what programs of sessions run under; None: sessions have no browser."""
    get_speech: "Callable[[], SpeechService] | None" = None
    """Returns what speaks, imported when it is first wanted."""


class _LazyBrowser:
    """A session's browser that is built at its first use: nothing of it is imported before."""

    def __init__(self, build: Callable[[], BrowserAccess], allowed_methods: tuple[str, ...]) -> None:
        self.allowed_methods = allowed_methods
        self._build = build
        self._built: BrowserAccess | None = None

    def use_pages(
        self, permissions: SitePermissions | None, opens: str = ""
    ) -> "AbstractAsyncContextManager[PageReporter]":
        self._built = self._built or self._build()
        return self._built.use_pages(permissions, opens)

    async def close(self) -> None:
        if self._built is not None:
            await self._built.close()


class SessionTools(Struct, frozen=True):
    """The tools, gate and context with which the executor of a session works."""

    toolbox: Toolbox
    gate: PolicyGate
    context: ToolContext
    state: ToolState
    remarks: tuple[str, ...] = ()
    """Notices for the user about the choice of tools."""
    mcp_servers: tuple[str, ...] = ()
    """The MCP servers whose tools will be added to the toolbox."""
    reselect: Callable[[Settings], Toolbox] | None = None
    """Selects tools again, by other settings. Raises ConfigError when none is left."""
    narrow: Callable[[Sequence[str] | None], None] = lambda _limit: None
    """Takes away at once, in a running turn too, the tools that are in none of these sets; None: takes none away."""
    unkept: list[str] = field(default_factory=list)
    """Lines for the person about answers that could not be kept, to be taken when they are shown."""

    def take_process_notices(self) -> list[TextPart]:
        """Return the news of background processes for the model, each once; a line that one has printed is as
        untrusted as the rest of its output.
        """
        started = self.state.started_processes
        lines = started.take_notices() if started is not None else ()
        if not lines:
            return []
        from hermes.safety.fencing import fence_untrusted_text
        from hermes.tools.result_provenance import find_provenance, list_program_places

        places = list_program_places(self.context, str(self.state.cwd), ())
        origin = find_provenance((), places, self.context, frozenset(), runs=True)
        texts = [clean_surrogates(f"[{self.context.redact(line)}]") for line in lines]
        if origin is None:
            return [TextPart(text=one, provenance=PROGRAM) for one in texts]
        return [TextPart(text=fence_untrusted_text(one, origin), provenance=origin) for one in texts]

    def describe_running(self) -> str:
        """Describe the background processes that `close` would end; empty when there are none."""
        started = self.state.started_processes
        running = started.list_running() if started is not None else ()
        if not running:
            return ""
        count = (
            "1 background process was"
            if len(running) == 1
            else N_("{running} background processes were", running=len(running))
        )
        commands = ", ".join(f"{to_one_line(one.command, 60)} ({one.process_id})" for one in running)
        return N_("{count} ended: {commands}", count=count, commands=commands)

    async def stop_processes(self) -> list[str]:
        """End the background processes; return a line for each, and whether it is known to be gone."""
        ended = await self.state.processes.stop_all()
        return [
            f"{one.process_id} ({to_one_line(one.command, 60)}) "
            + ("has ended." if one.stopped is StopOutcome.GONE else "was asked to end; it may still be running there.")
            for one in ended
        ]

    async def close(self) -> None:
        """End the session's background processes, its browser and the backend."""
        await self.state.close()
        if self.context.browser is not None:
            await self.context.browser.close()
        await self.context.backend_handle.close()


def build_session_tools(
    plan: SessionPlan,
    *,
    home: HermesHome,
    settings: Settings,
    process_deps: ProcessDeps,
    extra_tools: Sequence[KnownTool] = (),
    marked_files: TaintMarks | None = None,
    hook_files: Sequence[str] = (),
) -> SessionTools:
    """Select and prepare the tools of a session.

    `extra_tools` are tools that are bound to it, such as that of its memory; `marked_files` are files with untrusted
    content that other sessions wrote, `hook_files` those that hooks run. Raises ConfigError for an unknown tool set or
    back end, and when the requested sets hold no tool.
    """
    options = plan.options
    environ = process_deps.environ
    toolbox, remarks, servers = select_session_tools(ToolSurroundings(environ, settings), options, extra_tools)
    state = ToolState(cwd=Path(plan.cwd), mode=options.mode)
    for host in {*settings.security.allowed_hosts} & {"localhost", "127.0.0.1", "::1"}:
        state.taint.trust_source(f"{Source.WEB}:{host}")  # what listens on the person's own machine is theirs, they say
    spill = home.spill / plan.session_id
    places = structs.replace(
        resolve_places(environ, home, plan.cwd),
        own=(str(spill.resolve()),),
        foreign=bool(options.person),
        confined=options.confined,
        hook_files=tuple(hook_files),
    )
    backend, remark = process_deps.backend_factory.create_backend(places, plan.lock_handle)
    if options.mode is not WorkMode.ASK:
        from hermes.sessions.work_modes import check_mode

        check_mode(options.mode, backend)
    remarks = (*remarks, *([remark] if remark else []))
    context = ToolContext(
        session_id=plan.session_id,
        state=state,
        places=places,
        spill_folder=spill,
        backend_handle=backend,
        clock=process_deps.clock,
        limits=ToolLimits(command_seconds=settings.terminal.timeout, result_characters=settings.tool_output.max_chars),
        trust=TrustedFolders(
            (*read_trusted_folders(home.trust_file), *options.trusted_folders, str(home.root.resolve()))
        ),
        asker=plan.asker,
        redactor=process_deps.redactor,
        deferred_tools=toolbox if BRIDGE_TOOLS[0] in toolbox.list_names() else None,
        taint_marks=marked_files or TaintMarks(),
        search_path=filter_trusted_path(environ.get("PATH", ""), places.workspace),
        web=_build_web_access(settings, environ),
        code=_build_code_access(settings, home, environ),
        get_speech=process_deps.get_speech,
        browser=_build_browser(settings, home, process_deps, spill),
        image_generation=_build_image_generation(settings, spill if options.person else home.root / "media"),
    )
    if options.editor_files is not None and not options.depth:
        from hermes.sessions.editors.open_buffers import EditorBuffers

        context = structs.replace(context, buffers=EditorBuffers(options.editor_files))
    unkept: list[str] = []
    gate = build_session_gate(home, settings, options, unkept.append, process_deps.on_allowed)

    def reselect(by: Settings) -> Toolbox:
        named = structs.replace(options, enabled_toolsets=None, disabled_toolsets=())
        return select_session_tools(ToolSurroundings(environ, by), named, extra_tools)[0]

    def narrow(limit: Sequence[str] | None) -> None:
        toolbox.is_withdrawn = _make_withdrawal_check(limit, extra_tools)

    return SessionTools(toolbox, gate, context, state, remarks, servers, reselect, narrow, unkept)


def _build_web_access(settings: Settings, environ: Mapping[str, str]) -> WebAccess:
    return WebAccess(
        environ=environ,
        private=settings.security.allow_private_urls,
        search_backend=settings.web.search_backend,
        search_url=settings.web.search_url,
        extract_backend=settings.web.extract_backend,
        extract_url=settings.web.extract_url,
        ca_file=settings.model.ca_bundle,
    )


def _build_browser(
    settings: Settings, home: HermesHome, process_deps: ProcessDeps, spill: Path
) -> BrowserAccess | None:
    get_supervisors = process_deps.get_supervisors
    if get_supervisors is None:
        return None

    def build() -> BrowserAccess:
        from hermes.browser.session_browser import build_session_browser

        return build_session_browser(settings, home, process_deps.environ, spill / DOWNLOADS_FOLDER, get_supervisors())

    return _LazyBrowser(build, settings.browser.cdp_methods)


def _build_image_generation(settings: Settings, folder: Path) -> ImageGeneration:
    chosen = settings.image_gen
    return ImageGeneration(
        provider=chosen.provider,
        model=chosen.model,
        base_url=chosen.base_url,
        seconds=chosen.timeout,
        folder=folder / "generated",
    )


def _build_code_access(settings: Settings, home: HermesHome, environ: Mapping[str, str]) -> CodeAccess:
    chosen = settings.code_execution
    return CodeAccess(
        engine=chosen.engine,
        timeout=chosen.timeout,
        max_calls=chosen.max_calls,
        max_output=chosen.max_output,
        key_file=home.code_key,
        environ=environ,
    )


def select_session_tools(
    around: ToolSurroundings, options: SessionOptions, extra_tools: Sequence[KnownTool]
) -> tuple[Toolbox, tuple[str, ...], tuple[str, ...]]:
    """Select the requested tools; return the toolbox, remarks on missing sets, and the MCP servers to add.

    An empty choice of a program (`()`) means none. What cannot work here is left out.
    """
    settings = around.settings
    asked = options.enabled_toolsets if options.enabled_toolsets is not None else settings.toolsets or None
    disabled = (*settings.disabled_toolsets, *options.disabled_toolsets)
    servers = _select_servers(_add_handed_servers(settings, options), asked, disabled)
    registry = ToolRegistry()
    extra_tools, callers = _register_tools(registry, extra_tools)
    own = {one.toolset for one in extra_tools}
    named = without_mcp_toolsets(asked) if asked is not None else _default_toolsets(extra_tools)
    ours, without = (_list_present(names, own) for names in (named, without_mcp_toolsets(disabled)))
    servers = _allowed_servers(servers, options.toolset_limit)
    toolbox = registry.select_tools(
        ours, without, expect_deferred=bool(servers), explain_missing=around.explain_missing
    )
    toolbox.servers = servers
    _apply_toolset_limit(toolbox, registry, options.toolset_limit, has_servers=bool(servers))
    if callers:
        _add_caller_tools(toolbox, callers)
    if options.tool_names is not None:
        servers = toolbox.servers = _keep_named_tools(toolbox, options.tool_names)
    elif asked and not toolbox.size and not options.person:
        raise _build_empty_error(registry, toolbox, asked, ours)
    return toolbox, tuple(_list_remarks(named, own)), servers


def _list_remarks(named: Sequence[str], own: Collection[str]) -> Iterator[str]:
    """Yield lines about tool sets that were asked for and hold no tools."""
    for name in named:
        if name in toolsets.ABSENT_TOOLSETS:
            yield N_("The tool set {name} holds no tools in this version.", name=name)
        elif is_plugin_toolset(name) and name not in own:
            yield N_("The tool set {name} is empty: no plug-in of that name is enabled here.", name=name)


def _add_handed_servers(settings: Settings, options: SessionOptions) -> Settings:
    """Return the settings with the servers that an editor hands in; one of the person's own of the same name stays."""
    if not options.handed_servers:
        return settings
    return structs.replace(settings, mcp_servers={**options.handed_servers, **settings.mcp_servers})


def _build_empty_error(
    registry: ToolRegistry, toolbox: Toolbox, asked: Sequence[str], ours: Sequence[str]
) -> ConfigError:
    """Return the error for sets of which no tool is left, with the reasons where tools cannot work."""
    known, sets = bool(registry.select_tools(ours).size), ", ".join(asked)
    hidden = [N_("{name} is hidden: {why}.", name=name, why=why) for name, why in toolbox.hidden.items()]
    return ConfigError(
        N_("No tool of the set(s) {named} is left.", named=sets)
        if known
        else N_("No tool of the set(s) {named} exists in this version.", named=sets),
        join_localizable(" ", hidden) if hidden else registry.describe_toolsets(),
    )


def _register_tools(
    registry: ToolRegistry, extra_tools: Sequence[KnownTool]
) -> tuple[list[KnownTool], list[KnownTool]]:
    """Register the tools that are bound to a session; return them, and those that the program that asks runs."""
    own = [one for one in extra_tools if not one.runs_at_caller]
    for one in own:
        registry.register(one)
    return own, [one for one in extra_tools if one.runs_at_caller]


def _add_caller_tools(toolbox: Toolbox, callers: Sequence[KnownTool]) -> None:
    """Add the tools of the program that asks. Where one of the session's has the same name, it means its own."""
    names = {one.name for one in callers}
    toolbox.replaced = {one.name: one for one in toolbox if one.name in names}
    toolbox.replace_tools([*(one for one in toolbox if one.name not in names), *callers])


def _list_present(names: Sequence[str], own: Collection[str]) -> list[str]:
    """Return the tool sets without those that this version has no tools for, and those of plug-ins that are not in the
    session's own.
    """
    present = [name for name in names if name not in toolsets.ABSENT_TOOLSETS]
    return [name for name in present if name in own or not is_plugin_toolset(name)]


def _default_toolsets(extra_tools: Sequence[KnownTool]) -> list[str]:
    """Return the tool sets of a session for which none were requested."""
    return list(
        dict.fromkeys((*without_mcp_toolsets(toolsets.DEFAULT_TOOLSETS), *(one.toolset for one in extra_tools)))
    )


def _allowed_servers(servers: Sequence[str], limit: Sequence[str] | None) -> tuple[str, ...]:
    """Return the MCP servers that a limit names, individually or all."""
    every = limit is None or not {MCP_TOOLSET, *toolsets.ALL_TOOLSETS}.isdisjoint(limit)
    return tuple(one for one in servers if every or f"{MCP_TOOLSET}-{one}" in (limit or ()))


def _apply_toolset_limit(
    toolbox: Toolbox, registry: ToolRegistry, limit: Sequence[str] | None, *, has_servers: bool
) -> None:
    """Remove from a toolbox what the sets of a limit do not hold; deferred tools too, so
    that none is found or called.
    """
    if limit is None or not {*toolsets.ALL_TOOLSETS}.isdisjoint(limit):
        return
    names = _list_allowed_names(registry, limit)
    if has_servers or any(tool.deferred and tool.name in names for tool in toolbox):
        names |= {*BRIDGE_TOOLS}
    toolbox.replace_tools(filter(lambda tool: tool.name in names, list(toolbox)))


def _keep_named_tools(toolbox: Toolbox, names: Sequence[str]) -> tuple[str, ...]:
    """Remove from a toolbox all tools but these, and those that find deferred ones where some are left; return the
    servers whose tools may still come.
    """
    servers = tuple(one for one in toolbox.servers if f"{MCP_TOOLSET}-{one}" in names)
    kept = [tool for tool in toolbox if tool.name in names and tool.name not in BRIDGE_TOOLS]
    if servers or any(tool.deferred for tool in kept):
        kept += [tool for tool in toolbox if tool.name in BRIDGE_TOOLS]
    toolbox.replace_tools(kept)
    return servers


def _list_allowed_names(registry: ToolRegistry, limit: Sequence[str]) -> set[str]:
    """Return the names of Hermes' own tools that are in the sets of a limit, without those that find others."""
    known = registry.load_toolsets()
    held = [one for one in without_mcp_toolsets(limit) if one in known]
    return set(toolsets.select_tool_names(held, (), known)) - {*BRIDGE_TOOLS}


def _make_withdrawal_check(
    limit: Sequence[str] | None, extra_tools: Sequence[KnownTool]
) -> Callable[[KnownTool], bool]:
    """Return the function that tells whether a tool is in none of the sets of a limit."""
    if limit is None or not {*toolsets.ALL_TOOLSETS}.isdisjoint(limit):
        return lambda _tool: False
    registry = ToolRegistry()
    for one in extra_tools:
        registry.register(one)
    names = _list_allowed_names(registry, limit) | {*BRIDGE_TOOLS}
    prefix = f"{MCP_TOOLSET}-"

    def is_withdrawn(tool: KnownTool) -> bool:
        if tool.runs_at_caller:
            return False
        if tool.toolset.startswith(prefix):
            return not _allowed_servers((tool.toolset.removeprefix(prefix),), limit)
        return tool.name not in names

    return is_withdrawn


OWNED_TOOLS = {
    "memory": ("memory",),
    "session_search": ("session_search",),
    "skills": ("skills_list", "skill_view", "skill_manage"),
    "cronjob": ("cronjob",),
    "messages": ("send_message",),
    "delegation": ("delegate_task",),
}
"""Tools that are bound to a session, by tool set; they are in no file of the registry."""


def check_toolsets(settings: Settings, names: Sequence[str]) -> None:
    """Raise UsageError for a name that is not a tool set."""
    from hermes.tools import toolsets
    from hermes.tools.registry import ToolRegistry

    sets = ToolRegistry().load_toolsets()
    known = [*sets, *OWNED_TOOLS, *list_server_toolsets(settings), "mcp", *toolsets.ALL_TOOLSETS]
    for name in names:
        if name in known or is_plugin_toolset(name):
            continue
        if name in toolsets.ABSENT_TOOLSETS:
            raise UsageError(
                N_("The tool set {name} holds no tools in this version.", name=name),
                N_("`hermes tools` shows those there are."),
            )
        holds = next((one for one, found in {**sets, **toolsets.TOOLSETS}.items() if name in found.tools), "")
        hint = N_("It is a tool; its set is `{name}`.", name=holds) if holds else suggest_name(name, known)
        raise UsageError(
            N_("There is no tool set {name!r}.", name=name[:60]),
            hint or N_("`hermes tools` shows those there are."),
        )


def list_server_toolsets(settings: Settings) -> list[str]:
    """Return the tool sets of the MCP servers that are on."""
    return [f"{MCP_TOOLSET}-{name}" for name in _select_servers(settings, None, ())]


def _select_servers(settings: Settings, asked: Sequence[str] | None, disabled: Sequence[str]) -> tuple[str, ...]:
    if not settings.mcp_servers:
        return ()
    from hermes.sessions.mcp_servers import select_servers

    return select_servers(settings, asked, disabled)
