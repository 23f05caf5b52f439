"""What a session has of all that outlives sessions: the tools and prompt sections of memory, skills and the store."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial, reduce
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hermes.agent.turn import TurnState
from hermes.config.home import Home
from hermes.config.settings import Evolution, Settings
from hermes.config.trusted import TrustFile
from hermes.context.prompt import PromptSection
from hermes.core.events import TurnEnded
from hermes.runtime.actor import SessionActor
from hermes.runtime.attachments import Bringer
from hermes.safety.secrets.redactor import Redactor
from hermes.sessions.session_tools import Plan
from hermes.skills.catalogue import Catalogue, Roots
from hermes.store.store import Store
from hermes.tools.taint_marks import Marked
from hermes.tools.tool import Tool
from hermes.tools.toolsets import EVERYTHING, TOOLSETS, resolve
from hermes.util.clock import Clock

if TYPE_CHECKING:
    from hermes.skills.skills import Skills

Attend = Callable[[SessionActor, AsyncExitStack], Awaitable[None]]
"""Takes part in a session that has just come to life; what it puts on the stack is done once its turns are over."""


class Shelf(Struct, frozen=True, kw_only=True):
    """What everything that is kept stands on. `window` is the tokens of the model's window, where they are known."""

    home: Home
    settings: Settings
    store: Store
    redactor: Redactor
    environ: dict[str, str]
    clock: Clock
    platform: str
    window: int | None
    catalogues: dict[Roots, Catalogue] = field(default_factory=dict)
    """The catalogue of skills, by where skills are; only the newest is kept."""

    def skills(self) -> "Skills":
        """The skills, over one catalogue for all sessions as long as they are in the same places."""
        from hermes.sessions.features.skills import roots_of, skills_over

        roots = roots_of(self.home, self.settings)
        found = self.catalogues.get(roots)
        if found is None:
            self.catalogues.clear()
            found = self.catalogues[roots] = Catalogue(roots, self.environ)
        return skills_over(found, self.home, self.store)


class Kept(Struct, frozen=True, kw_only=True):
    """What something that is kept adds to a session."""

    tools: tuple[Tool, ...] = ()
    sections: tuple[PromptSection, ...] = ()
    needs: Mapping[str, str] = {}
    """Sections, by name, that say nothing to a session without a tool, by name."""
    bringers: tuple[Bringer, ...] = ()
    """Who brings something along with a message."""
    opening: tuple[Callable[[], Awaitable[None]], ...] = ()
    """What is done before the session opens."""
    attending: tuple[Attend, ...] = ()
    """Who takes part in it."""

    def __add__(self, other: "Kept") -> "Kept":
        return Kept(
            tools=self.tools + other.tools,
            sections=self.sections + other.sections,
            needs={**self.needs, **other.needs},
            bringers=self.bringers + other.bringers,
            opening=self.opening + other.opening,
            attending=self.attending + other.attending,
        )


def kept_for(plan: Plan, shelf: Shelf, marked: Marked) -> Kept:
    """Everything that the session of `plan` has; files that are `marked` are no project's own words."""
    owners = [make(plan, shelf) for make in OWNERS]
    return reduce(Kept.__add__, owners, _surroundings(plan, shelf, marked))


def vouching(home: Home, marked: Marked) -> Callable[[str], bool]:
    """Whether a resolved path is vouched for: its folder is, and no stranger's words were put into it."""
    trust = TrustFile(home.trust_file)
    return lambda path: trust.vouches(path) and not marked.sources(path)


def _surroundings(plan: Plan, shelf: Shelf, marked: Marked) -> Kept:
    """The machine, and the project in whose folder the session works."""
    from hermes.context.project import ProjectFiles
    from hermes.context.surroundings import Surroundings

    limit = shelf.settings.context_file_max_chars
    project = ProjectFiles(plan.cwd, vouching(shelf.home, marked), window=shelf.window, limit=limit)
    return Kept(sections=(Surroundings(shelf.environ), project))


def _jobs(plan: Plan, shelf: Shelf) -> Kept:
    """The tool for jobs on a clock, in chats of platforms and where its set is named: it and the two tools that find it
    are not worth their bytes in every request. The run of a job never has it."""
    if plan.options.person:
        return Kept()  # the run of a job works for the owner
    asked = plan.options.enabled_toolsets if plan.options.enabled_toolsets is not None else shelf.settings.toolsets
    named = any("cronjob" in resolve(one) for one in asked if one in TOOLSETS or one in EVERYTHING)
    usual = plan.options.enabled_toolsets is None and not asked
    if shelf.platform == "cron" or not (named or (usual and plan.options.origin)):
        return Kept()
    from hermes.sessions.features.cron_deps import CronBase
    from hermes.sessions.features.cron_tool import session_jobs

    base = CronBase(
        home=shelf.home,
        settings=shelf.settings,
        process=shelf.environ,
        store=shelf.store,
        redactor=shelf.redactor,
        clock=shelf.clock,
    )
    tool, attend = session_jobs(base, plan.options)
    return Kept(tools=(tool,), attending=(attend,))


def _past(plan: Plan, shelf: Shelf) -> Kept:
    """The search over all that was ever said to the person whom the session works for, and by them."""
    if not plan.options.remembers:
        return Kept()
    from hermes.memory.session_search import session_search_tool

    return Kept(tools=(session_search_tool(shelf.store, person=plan.options.person),))


def _memory(plan: Plan, shelf: Shelf) -> Kept:
    """What is remembered: its files, its tool, and a provider where one is chosen; a provider remembers for the owner
    alone."""
    person = plan.options.person
    if not shelf.settings.memory.enabled or not plan.options.remembers:
        return Kept()
    from hermes.sessions.features.memory import SessionMemory, journal_of

    journal = journal_of(shelf.home, shelf.settings, shelf.store, shelf.redactor, person=person)
    named = "" if person else shelf.settings.memory.provider.strip()
    chosen = None
    if named:
        from hermes.memory.provider import Setup, open_provider

        folder = shelf.home.root / "memory"
        chosen = open_provider(
            named,
            Setup(
                session_id=plan.session_id,
                store=shelf.store,
                folder=folder,
                platform=shelf.platform,
                environ=shelf.environ,
            ),
        )
    memory = SessionMemory(shelf.settings, journal, chosen, platform=shelf.platform)
    return Kept(
        tools=memory.tools,
        sections=memory.sections,
        needs=memory.needs,
        bringers=(memory.bring,),
        opening=(memory.open,),
        attending=(memory.attend,),
    )


async def _measure(skills: "Skills", actor: SessionActor, _stack: AsyncExitStack) -> None:
    """After each turn count how the skills did that it used."""

    async def count(state: TurnState, ended: TurnEnded) -> None:
        from hermes.skills.use import ended_well, used_skills

        well = ended_well(ended.reason)
        for name in used_skills(state.messages) if well is not None else ():
            await skills.note_outcome(name, helped=bool(well))

    actor.on_turn_end.append(count)


def _skills(plan: Plan, shelf: Shelf) -> Kept:
    """The skills: their index, their tools, and `/name`; they are the owner's, and others only read them."""
    from hermes.sessions.features.skills import brought
    from hermes.skills.section import SkillsSection
    from hermes.skills.tool import skill_tools

    limit = plan.options.toolset_limit
    if limit is not None and not any("skill_view" in resolve(one) for one in limit if one in (*TOOLSETS, *EVERYTHING)):
        return Kept()
    chosen = shelf.settings.skills
    skills = shelf.skills()
    writes = chosen.evolution is not Evolution.OFF and not plan.options.person
    automatic = chosen.evolution is Evolution.AUTOMATIC and not chosen.write_approval
    return Kept(
        tools=skill_tools(skills, writes=writes, automatic=automatic),
        sections=(SkillsSection(skills.catalogue, writes=writes),),
        needs={SkillsSection.name: "skill_view"},
        bringers=(partial(brought, skills),),
        opening=(skills.settle,),
        attending=(partial(_measure, skills),),
    )


OWNERS: Sequence[Callable[[Plan, Shelf], Kept]] = (_skills, _past, _memory, _jobs)
"""Who adds something, in the order in which it stands in the prompt."""
