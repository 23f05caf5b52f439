"""When a session's work is looked back at, and what becomes of what the review wants to keep."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from hermes.agent.turn import TurnState
from hermes.config.settings import Evolution, Settings
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Event, Level, TurnEnded
from hermes.core.messages import Message
from hermes.core.stream import Failure
from hermes.i18n.messages import phrase
from hermes.llm.auxiliary import SideTask
from hermes.memory.files import Target
from hermes.memory.journal import MemoryJournal, Operation, Origin
from hermes.memory.review import Findings, Material, MemoryWish, SkillWish, review
from hermes.runtime.actor import SessionActor
from hermes.safety.secrets.redactor import Redactor
from hermes.skills.files import MAIN, as_text
from hermes.skills.section import listing
from hermes.skills.skills import Change, Skills
from hermes.skills.use import used_skills
from hermes.store.revisions import Author
from hermes.tools.edits import replace_text
from hermes.util.text import escaped, one_line

_FAILED = phrase("The last turns could not be looked back at for memories; `hermes logs` says why.")
KEPT = 400
"""Messages since the last review that are held for the next one."""
_LOG = logging.getLogger(__name__)


class Intervals(Struct, frozen=True):
    """After how many turns, or model calls with tools, a review is made; 0: not for that."""

    turns: int
    steps: int


class Reviewing:
    """The reviews of one session: one at a time, in a task of its own, given up when the session closes."""

    def __init__(
        self,
        *,
        skills: Skills,
        memory: MemoryJournal | None,
        task: Callable[[], SideTask],
        notify: Callable[[Level, str], None],
        redactor: Redactor,
        mode: Evolution,
        intervals: Intervals,
    ) -> None:
        self._skills = skills
        self._memory = memory
        self._ask = task
        self._notify = notify
        self._redactor = redactor
        self._mode = mode
        self._intervals = intervals
        self._messages: deque[Message] = deque(maxlen=KEPT)
        self._sources: dict[str, None] = {}
        """Whose words stood in the conversation since the last review."""
        self._turns = 0
        self._steps = 0
        self._session_id = ""
        self._running: asyncio.Task[None] | None = None
        self._told = False
        """Whether it was said that a review failed."""

    async def after_turn(self, state: TurnState, ended: TurnEnded) -> None:
        """Note a turn, and begin a review when it is time for one."""
        self._session_id = state.session_id
        self._messages.extend(state.messages)
        self._sources |= dict.fromkeys(state.taint.sources())
        self._turns += 1
        self._steps += ended.calls if any(message.calls() for message in state.messages) else 0
        due = 0 < self._intervals.turns <= self._turns or 0 < self._intervals.steps <= self._steps
        if due and self._mode is not Evolution.OFF and self._running is None:
            self._begin()

    async def before_compress(self, messages: Sequence[Message]) -> str:
        """Look back now at what no review has seen yet: it is about to leave the conversation."""
        if self._turns and self._mode is not Evolution.OFF and self._running is None:
            self._begin()
        return ""

    async def close(self) -> None:
        """Give up the review that runs."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    def _begin(self) -> None:
        messages, sources = tuple(self._messages), tuple(self._sources)
        self._messages.clear()
        self._sources.clear()
        self._turns = self._steps = 0
        self._running = asyncio.create_task(self._review(messages, sources), name="review")
        self._running.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a review failed", exc_info=error)
            self._failed(Level.WARNING)

    def _failed(self, level: Level) -> None:
        """Say once in a session that a review came to nothing; the log has why."""
        if not self._told:
            self._told = True
            self._notify(level, _FAILED)

    async def _review(self, messages: Sequence[Message], sources: Sequence[str]) -> None:
        used = used_skills(messages)
        bodies = {}
        for name in used:
            try:
                if (await self._skills.find(name)).vouched:  # a stranger's is not the agent's to mend
                    bodies[name] = await self._skills.body(name)
            except HermesError:  # gone or broken since: nothing to be mended
                continue
        material = Material(
            messages=messages,
            memory=await self._overview(),
            index=listing(self._skills.index()),
            bodies=bodies,
        )
        found = await review(material, self._ask(), _silent)
        if isinstance(found, Failure):
            _LOG.warning("the last turns were not looked back at: %s", found.message)
            self._failed(Level.INFO)
            return
        await self._kept(found, sources)

    async def _overview(self) -> str:
        """The entries that are kept, by file."""
        if self._memory is None:
            return ""
        told = []
        for target in self._memory.books:
            try:
                entries = await self._memory.entries(target)
            except HermesError:  # no memory now: whoever uses it says so
                continue
            told.append(f"{target.header}\n" + "\n".join(f"- {entry}" for entry in entries))
        return "\n\n".join(told)

    async def _kept(self, found: Findings, sources: Sequence[str]) -> None:
        """Propose what was found, and say so."""
        automatic = self._mode is Evolution.AUTOMATIC
        done: list[str] = []
        waiting: list[str] = []
        wishes: list[MemoryWish | SkillWish] = [*found.memory, *found.skills]
        for wish in wishes:
            if self._redactor.redact(str(wish)) != str(wish):
                continue  # keys and passwords are kept nowhere, and a model that wants to is not argued with
            try:
                for number in await self._proposed(wish, sources):
                    applied = automatic and await self._applied(wish, number)
                    (done if applied else waiting).append(f"{_named(wish)} ({number})")
            except HermesError as error:  # it does not fit what stands there: the next review may do better
                _LOG.info("a change that a review wanted cannot be: %s", error)
        said = [f"Kept from the last turns: {', '.join(done)}."] if done else []
        said += [f"Worth keeping, if you say so: {', '.join(waiting)}."] if waiting else []
        more = "`hermes memory log` and `hermes skills pending` tell more."
        nothing = "The last turns were looked back at: nothing new to keep."
        self._notify(Level.INFO, " ".join([*said, more]) if said else nothing)

    async def _proposed(self, wish: MemoryWish | SkillWish, sources: Sequence[str]) -> tuple[int, ...]:
        """Write a change down; the numbers of its rows. Raises HermesError for one that cannot be."""
        if isinstance(wish, SkillWish):
            return (await self._learn(wish, sources),)
        if self._memory is None:
            return ()
        origin = Origin(
            author=Author.REVIEW,
            reason=f"it was said: {one_line(wish.evidence, 300)}",
            sources=tuple(sources),
            session_id=self._session_id,
        )
        operation = Operation(action=wish.action, content=wish.content, old_text=wish.old_text)
        return (await self._memory.hold(Target(wish.target), (operation,), origin)).ids

    async def _applied(self, wish: MemoryWish | SkillWish, number: int) -> bool:
        """Write a change without a person's yes, unless strangers' words stand in it or in what it builds on: the row
        knows, since a proposal is joined to the one that waits."""
        owner = self._skills if isinstance(wish, SkillWish) else self._memory
        if owner is None or (await owner.revision(number)).sources:
            return False
        await owner.apply(number, "automatic")
        return True

    async def _learn(self, wish: SkillWish, sources: Sequence[str]) -> int:
        """Propose a change of a skill; its number. Raises HermesError for one that cannot be."""
        base = await self._skills.base(wish.name, self._session_id)
        if wish.action == "create":
            if base is not None:
                raise UsageError(f"There is a skill {wish.name} already.")
            after = {MAIN: (wish.content.rstrip() + "\n").encode()}
        else:
            text = as_text(base[MAIN]) if base is not None else None
            if base is None or text is None:
                raise UsageError(f"There is no skill {wish.name}.")
            changed, _ = replace_text(text, wish.old_string, wish.new_string, everywhere=False, shown=MAIN)
            after = {**base, MAIN: changed.encode()}
        return await self._skills.propose(
            Change(wish.name, after),
            author=Author.REVIEW,
            reason=f"{wish.action}, because it was said: {one_line(wish.evidence, 300)}",
            sources=sources,
            session_id=self._session_id,
        )


def _named(wish: MemoryWish | SkillWish) -> str:
    """A change in a few words."""
    if isinstance(wish, SkillWish):
        return f"{wish.action} skill {one_line(escaped(wish.name), 64)}"
    return f"{wish.action} {wish.target}: {one_line(escaped(wish.content or wish.old_text), 60)}"


async def _silent(_: Event) -> None:
    """Pauses of a review are nobody's concern."""


def reviews_of(
    actor: SessionActor,
    settings: Settings,
    *,
    skills: Skills,
    memory: MemoryJournal | None,
    redactor: Redactor,
    task: Callable[[], SideTask],
) -> Reviewing:
    """The reviews of a live session, told of its turns and its compressions."""
    reviewing = Reviewing(
        skills=skills,
        memory=memory,
        task=task,
        notify=actor.notify,
        redactor=redactor,
        mode=settings.skills.evolution,
        intervals=Intervals(settings.memory.nudge_interval, settings.skills.creation_nudge_interval),
    )
    actor.on_turn_end.append(reviewing.after_turn)
    actor.before_compress.append(reviewing.before_compress)
    return reviewing
