"""The features of a session that outlive it: the tools and prompt sections of memory, skills, jobs and the store."""

import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial, reduce
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hermes.agent.turn import TurnState
from hermes.config.home import HermesHome
from hermes.config.settings import Evolution, Settings
from hermes.config.trusted_folders import TrustFile
from hermes.context.prompt import PromptSection
from hermes.core.errors import ConfigError
from hermes.core.events import TurnEnded
from hermes.core.messages import ImagePart, TextPart
from hermes.llm.client import SideTask
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import AttachmentProvider, InboundMessage
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.session_tools import OWNED_TOOLS, SessionPlan
from hermes.skills.catalog import SkillCatalog, SkillRoots
from hermes.store.records import SUB_AGENT_SOURCE
from hermes.store.store import Store
from hermes.tools.registry import KnownTool, Toolbox, list_session_tools
from hermes.tools.taint_marks import TaintMarks
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.hooks.hook import HookSource
    from hermes.memory.provider import MemoryProvider
    from hermes.plugin_host.host import PluginHost
    from hermes.skills.skill_library import SkillLibrary
    from hermes.tools.tool import Tool

AttendSession = Callable[[SessionActor, AsyncExitStack], Awaitable[None]]
"""Attaches a feature to a session that was just built; what it pushes onto the stack runs after the last turn."""


_MAX_CATALOGUES = 8


class FeatureDeps(Struct, frozen=True, kw_only=True):
    """The dependencies of features. `window` is the model's context window in tokens, where it is known."""

    home: HermesHome
    settings: Settings
    store: Store
    redactor: Redactor
    environ: dict[str, str]
    clock: Clock
    platform: str
    window: int | None
    taint_marks: TaintMarks = field(default_factory=TaintMarks)
    get_plugin_host: "Callable[[], PluginHost] | None" = None
    """Returns the host of folder plug-ins, the same for all sessions; None where there are none at all."""
    catalogues: dict[SkillRoots, SkillCatalog] = field(default_factory=dict)
    """The catalogues of skills, by where skills are."""

    def open_skills(self, folder: str = "", trusted_folders: Sequence[str] = ()) -> "SkillLibrary":
        """Return the skills, over one catalogue for all sessions as long as their folders stay the same. With a folder
        the project's skills there are among them.
        """
        from hermes.sessions.features.skills import skill_roots, skills_from_catalogue

        roots = skill_roots(self.home, self.settings, self.environ, folder, trusted_folders)
        found = self.catalogues.get(roots)
        if found is None:
            if len(self.catalogues) >= _MAX_CATALOGUES:
                self.catalogues.clear()
            found = self.catalogues[roots] = SkillCatalog(roots, self.environ, self.taint_marks.find_sources)
        return skills_from_catalogue(found, self.home, self.store)


class Feature(Struct, frozen=True, kw_only=True):
    """What a feature adds to a session."""

    tools: tuple[KnownTool, ...] = ()
    sections: tuple[PromptSection, ...] = ()
    needs: Mapping[str, str] = {}
    """Prompt sections, by name, that are left out of a session without a tool, by name."""
    bringers: tuple[AttachmentProvider, ...] = ()
    """Functions that add attachments to a message."""
    opening: tuple[Callable[[], Awaitable[None]], ...] = ()
    """Functions that run before the session opens."""
    attending: tuple[AttendSession, ...] = ()
    """Functions that take part in the session."""
    using: tuple[Callable[[Toolbox], None], ...] = ()
    """Functions that are given the session's tools before its first prompt is built."""
    delegated: tuple[Callable[[str, str], Awaitable[None]], ...] = ()
    """Functions that are told the task of a sub-agent that has ended, and its answer."""
    remarks: tuple[str, ...] = ()
    """Lines for the person about what could not be added."""
    hook_sources: "tuple[HookSource, ...]" = ()
    """Where hooks of the session come from."""

    def __add__(self, other: "Feature") -> "Feature":
        return Feature(
            tools=self.tools + other.tools,
            sections=self.sections + other.sections,
            needs={**self.needs, **other.needs},
            bringers=self.bringers + other.bringers,
            opening=self.opening + other.opening,
            attending=self.attending + other.attending,
            using=self.using + other.using,
            delegated=self.delegated + other.delegated,
            remarks=self.remarks + other.remarks,
            hook_sources=self.hook_sources + other.hook_sources,
        )


def build_features(plan: SessionPlan, deps: FeatureDeps, marked: TaintMarks) -> Feature:
    """Build all features of a planned session; `marked` files do not count as the project's own."""
    owners = [make(plan, deps) for make in FEATURE_BUILDERS]
    beside = (_surroundings_feature(plan, deps, marked), _agents_feature(plan, deps, marked))
    return reduce(Feature.__add__, (*beside, *owners))


def make_trust_check(home: HermesHome, more: Sequence[str] = ()) -> Callable[[str], bool]:
    """Return a check whether a resolved path lies in a trusted folder, or in one of `more`."""
    return TrustFile(home.trust_file, more).is_trusted_folder


def may_have_hooks(home: HermesHome, settings: Settings) -> bool:
    """Return whether a session may have hooks: nothing of others was ever enabled where there is no such file."""
    return bool(settings.hooks) or os.path.lexists(home.consent_file)


def _surroundings_feature(plan: SessionPlan, deps: FeatureDeps, marked: TaintMarks) -> Feature:
    """Build the prompt sections about the machine and the project in the session's folder."""
    from hermes.context.project_files import ProjectFilesSection
    from hermes.context.prompt import MachineSection

    if plan.options.skip_context_files:
        return Feature(sections=(MachineSection(deps.environ),))
    limit = deps.settings.context_file_max_chars
    check = make_trust_check(deps.home, plan.options.trusted_folders)
    project = ProjectFilesSection(plan.cwd, check, marked.find_sources, window=deps.window, limit=limit)
    return Feature(sections=(MachineSection(deps.environ), project))


def _agents_feature(plan: SessionPlan, deps: FeatureDeps, marked: TaintMarks) -> Feature:
    """Build the prompt section about the agents that are described, where there may be any; they are the owner's."""
    levels = deps.settings.delegation.max_spawn_depth - plan.options.depth
    if plan.find_delegator is None or levels <= 0 or plan.options.person:
        return Feature()
    folders = (deps.home.root / "agents", os.path.join(plan.cwd, ".hermes/agents"))
    if not any(os.path.isdir(one) for one in folders) and not os.path.lexists(deps.home.consent_file):
        return Feature()
    from hermes.sessions.features.described_agents import AgentFiles, AgentsSection

    section = AgentsSection(AgentFiles(deps.home, plan.cwd, plan.options.trusted_folders, marked, deps.environ))
    return Feature(sections=(section,), using=(section.use_tools,))


def _packages_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build what enabled packages add; nothing is imported where nothing was ever enabled."""
    del plan
    if not os.path.lexists(deps.home.consent_file):
        return Feature()
    from hermes.sessions.features.packages import load_package_offers
    from hermes.tools.registry import ToolRegistry

    taken = {name for names in OWNED_TOOLS.values() for name in names}
    registry = ToolRegistry()
    found = load_package_offers(lambda name: name in taken or registry.find_known(name) is not None)
    return Feature(tools=found.tools, hook_sources=found.hooks, remarks=found.problems)


def _cron_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build the tool for scheduled jobs. Jobs work for the owner, and the run of a job has no such tool."""
    if plan.options.person or deps.platform == "cron":
        return Feature()
    live: list[SessionActor] = []

    async def attend_session(actor: SessionActor, stack: AsyncExitStack) -> None:
        live.append(actor)
        stack.callback(live.clear)

    def build_tools() -> "Sequence[Tool]":
        from hermes.sessions.features.cron_deps import CronDeps, build_session_cronjob

        base = CronDeps(
            home=deps.home,
            settings=deps.settings,
            process=deps.environ,
            store=deps.store,
            redactor=deps.redactor,
            clock=deps.clock,
        )
        return (build_session_cronjob(base, plan.options, lambda: any(one.approvals.can_ask for one in live)),)

    return Feature(tools=list_session_tools(OWNED_TOOLS["cronjob"], build_tools), attending=(attend_session,))


def _search_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build the search over all earlier conversations of the person whom the session works for."""
    if not plan.options.remembers:
        return Feature()

    def build_tools() -> "Sequence[Tool]":
        from hermes.memory.session_search import build_session_search_tool
        from hermes.sessions.features.other_profiles import make_profile_opener

        opener = make_profile_opener(deps.environ, deps.settings.memory.search_profiles, deps.store, deps.clock)
        return (build_session_search_tool(deps.store, person=plan.options.person, open_profile=opener),)

    return Feature(tools=list_session_tools(OWNED_TOOLS["session_search"], build_tools))


def _memory_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build the memory: its files, its tool, and a provider where one is chosen. Sub-agents have none.

    A provider remembers for the owner alone.
    """
    person = plan.options.person
    if not deps.settings.memory.enabled or not plan.options.remembers or plan.options.platform == SUB_AGENT_SOURCE:
        return Feature()
    from hermes.sessions.features.memory import SessionMemory, memory_journal

    journal = memory_journal(deps.home, deps.settings, deps.store, deps.redactor, person=person)
    named = "" if person else deps.settings.memory.provider.strip()
    chosen = _open_memory(named, plan, deps) if named else None
    memory = SessionMemory(deps.settings, journal, chosen, platform=deps.platform)
    return Feature(
        tools=memory.tools,
        sections=memory.sections,
        needs=memory.needs,
        bringers=(memory.recall_for_message,) if chosen is not None else (),
        opening=(memory.open,),
        attending=(memory.attach_to_session,),
        delegated=(memory.notify_delegation,) if chosen is not None else (),
    )


def _open_memory(named: str, plan: SessionPlan, deps: FeatureDeps) -> "tuple[MemoryProvider | None, str]":
    """Open the provider of that name: of a folder plug-in, of a package, or a built-in one."""
    from hermes.memory.provider import MemoryProviderSetup, open_memory_provider

    if deps.get_plugin_host is not None and os.path.isdir(deps.home.root / "plugins"):
        try:
            found = deps.get_plugin_host().find_memory(named, plan.session_id, plan.cwd)
        except ConfigError as error:
            return None, error.message
        if found is not None:
            return found, ""
    setup = MemoryProviderSetup(
        session_id=plan.session_id,
        store=deps.store,
        folder=deps.home.root / "memory",
        platform=deps.platform,
        environ=deps.environ,
    )
    return open_memory_provider(named, setup)


async def _count_skill_outcomes(skills: "SkillLibrary", actor: SessionActor, _stack: AsyncExitStack) -> None:
    """Count after each turn how well the skills did that it used."""

    async def count_outcomes(state: TurnState, ended: TurnEnded) -> None:
        from hermes.skills.section import find_used_skills, has_ended_well

        well = has_ended_well(ended.reason)
        for name in find_used_skills(state.messages) if well is not None else ():
            await skills.note_outcome(name, helped=bool(well))

    actor.on_turn_end.append(count_outcomes)


async def _attach_requested_skill(skills: "SkillLibrary", inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
    """Attach the skill that a message asks for by `/name`; a message that does not begin so costs nothing."""
    if not inbound.text.startswith("/"):
        return ()
    from hermes.sessions.features.skills import attach_requested_skill

    return await attach_requested_skill(skills, inbound)


def _skills_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build the skills: their index, their tools, and `/name`; only the owner's sessions may change them."""
    from hermes.skills.section import SkillsSection

    limit = plan.options.toolset_limit
    if limit is not None:
        from hermes.sessions.features.skills import allows_skills

        if not allows_skills(limit):
            return Feature()
    chosen = deps.settings.skills
    folder = "" if plan.options.person else plan.cwd
    skills = deps.open_skills(folder, plan.options.trusted_folders)
    writes = chosen.evolution is not Evolution.OFF and not plan.options.person
    automatic = chosen.evolution is Evolution.AUTOMATIC and not chosen.write_approval

    def build_tools() -> "Sequence[Tool]":
        from hermes.skills.tool import build_skill_tools

        return build_skill_tools(skills, writes=writes, automatic=automatic)

    return Feature(
        tools=list_session_tools(
            [name for name in OWNED_TOOLS["skills"] if writes or name != "skill_manage"], build_tools
        ),
        sections=(SkillsSection(skills.catalog, writes=writes),),
        needs={SkillsSection.name: "skill_view"},
        bringers=(partial(_attach_requested_skill, skills),),
        opening=(skills.settle_interrupted,),
        attending=(partial(_count_skill_outcomes, skills),),
    )


def _delegation_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build the tool that gives tasks to sub-agents, as far down as the settings allow."""
    find_delegator, levels = plan.find_delegator, deps.settings.delegation.max_spawn_depth - plan.options.depth
    if find_delegator is None or levels <= 0:
        return Feature()

    def build_tools() -> "Sequence[Tool]":
        from hermes.sessions.features.delegate_tool import build_delegate_tool

        return (build_delegate_tool(find_delegator(plan.session_id), orchestrates=levels > 1),)

    return Feature(tools=list_session_tools(OWNED_TOOLS["delegation"], build_tools))


def find_summary_writer(name: str, plan: SessionPlan, deps: FeatureDeps, model: SideTask) -> SideTask | None:
    """Return the plug-in of that name as the writer of summaries, if it is one; `model` writes what it does not."""
    if deps.get_plugin_host is None or plan.options.ignore_config or not os.path.isdir(deps.home.root / "plugins"):
        return None
    try:
        return deps.get_plugin_host().find_summary_writer(name, plan.cwd, model)
    except ConfigError:
        return None  # a session says of the file of consents itself what is wrong with it


def _has_lost_guards(plan: SessionPlan, deps: FeatureDeps) -> bool:
    """Return whether plug-ins of the project that are gone may refuse something."""
    if not os.path.lexists(deps.home.consent_file):
        return False
    from hermes.config.plugin_consents import PluginConsents

    own = f"folder:{os.path.realpath(plan.cwd)}/"
    with contextlib.suppress(ConfigError):  # a damaged file of consents is said with the first plug-in
        return any(key.startswith(own) for key in PluginConsents(deps.home.consent_file).list_all())
    return False


def _folder_plugins_feature(plan: SessionPlan, deps: FeatureDeps) -> Feature:
    """Build the tools and hooks of folder plug-ins. Nothing of them is imported where no folder may hold one."""
    get_host = deps.get_plugin_host
    if get_host is None or plan.options.ignore_config:
        return Feature()
    places = (deps.home.root / "plugins", os.path.join(plan.cwd, ".hermes/plugins"))
    if not any(os.path.isdir(one) for one in places) and not _has_lost_guards(plan, deps):
        return Feature()
    from hermes.sessions.features.folder_plugins import SessionFolderPlugins

    found = SessionFolderPlugins(get_host(), plan)
    return Feature(tools=found.tools, attending=(found.attach_to_session,), hook_sources=found.hooks)


FEATURE_BUILDERS: Sequence[Callable[[SessionPlan, FeatureDeps], Feature]] = (
    _skills_feature,
    _search_feature,
    _memory_feature,
    _cron_feature,
    _delegation_feature,
    _packages_feature,
    _folder_plugins_feature,
)
"""The builders of features, in the order of their prompt sections."""
