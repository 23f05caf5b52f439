"""Review a session's work in the background, and store what the review proposes to keep."""

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
from hermes.i18n.messages import N_
from hermes.llm.client import SideTask
from hermes.memory.files import MemoryTarget
from hermes.memory.journal import ChangeOrigin, MemoryJournal, MemoryOperation
from hermes.memory.review import MemoryProposal, ReviewFindings, ReviewMaterial, SkillProposal, review_work
from hermes.runtime.actor import SessionActor
from hermes.safety.secrets.redactor import Redactor
from hermes.skills.files import MAIN_FILE, decode_text
from hermes.skills.section import find_used_skills, format_index
from hermes.skills.skill_library import SkillChange, SkillLibrary
from hermes.store.revisions import RevisionAuthor
from hermes.tools.edits import replace_text
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import escape_unseen_characters, to_one_line

_FAILURE_NOTICE = N_("Background memory review failed; your chat goes on as usual (`hermes logs` says why).")
MAX_HELD_MESSAGES = 400
"""The most messages since the last review that are held for the next one."""
_LOG = logging.getLogger(__name__)


class ReviewIntervals(Struct, frozen=True):
    """The number of turns, or of model calls with tools, after which a review is made; 0 disables it."""

    turns: int
    steps: int


class BackgroundReviewer:
    """Runs the reviews of one session: one at a time, in its own task, cancelled when the session closes."""

    def __init__(
        self,
        *,
        skills: SkillLibrary,
        memory: MemoryJournal | None,
        task: Callable[[], SideTask],
        notify: Callable[[Level, str], None],
        redactor: Redactor,
        mode: Evolution,
        intervals: ReviewIntervals,
    ) -> None:
        self._skills = skills
        self._memory = memory
        self._create_task = task
        self._notify = notify
        self._redactor = redactor
        self._mode = mode
        self._intervals = intervals
        self._messages: deque[Message] = deque(maxlen=MAX_HELD_MESSAGES)
        self._sources: dict[str, None] = {}
        """The sources of untrusted content since the last review."""
        self._turns = 0
        self._steps = 0
        self._session_id = ""
        self._running: asyncio.Task[None] | None = None
        self._failure_reported = False
        """Whether the user was told that a review failed."""

    async def after_turn(self, state: TurnState, ended: TurnEnded) -> None:
        """Record a turn, and start a review when one is due."""
        self._session_id = state.session_id
        self._messages.extend(state.messages)
        self._sources |= dict.fromkeys(state.taint.list_sources())
        self._turns += 1
        self._steps += ended.calls if any(message.tool_calls() for message in state.messages) else 0
        due = 0 < self._intervals.turns <= self._turns or 0 < self._intervals.steps <= self._steps
        if due and self._mode is not Evolution.OFF and self._running is None:
            self._start_review()

    async def before_compress(self, messages: Sequence[Message]) -> str:
        """Start a review of the messages that no review has seen, because they are about to leave the conversation."""
        if self._turns and self._mode is not Evolution.OFF and self._running is None:
            self._start_review()
        return ""

    async def close(self) -> None:
        """Cancel the review that runs."""
        if self._running is not None:
            await cancel_tasks([self._running])

    def _start_review(self) -> None:
        messages, sources = tuple(self._messages), tuple(self._sources)
        self._messages.clear()
        self._sources.clear()
        self._turns = self._steps = 0
        self._running = asyncio.create_task(self._review(messages, sources), name="review")
        self._running.add_done_callback(self._on_review_end)

    def _on_review_end(self, task: asyncio.Task[None]) -> None:
        self._running = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a review failed", exc_info=error)
            self._report_failure(Level.WARNING)

    def _report_failure(self, level: Level) -> None:
        """Tell the user once per session that a review failed; the log has the reason."""
        if not self._failure_reported:
            self._failure_reported = True
            self._notify(level, _FAILURE_NOTICE)

    async def _review(self, messages: Sequence[Message], sources: Sequence[str]) -> None:
        used = find_used_skills(messages)
        bodies = {}
        for name in used:
            try:
                if (await self._skills.find_skill(name)).trusted:  # the agent does not change untrusted skills
                    bodies[name] = await self._skills.read_instructions(name)
            except HermesError:  # gone or broken since: there is nothing to fix
                continue
        material = ReviewMaterial(
            messages=messages,
            memory=await self._memory_overview(),
            index=format_index(self._skills.list_offered()),
            bodies=bodies,
        )
        found = await review_work(material, self._create_task(), _ignore_event)
        if isinstance(found, Failure):
            _LOG.warning("background review failed: %s", found.message)
            self._report_failure(Level.INFO)
            return
        await self._store_findings(found, sources)

    async def _memory_overview(self) -> str:
        """Return the stored entries by file."""
        if self._memory is None:
            return ""
        told = []
        for target in self._memory.notebooks:
            try:
                entries = await self._memory.read_entries(target)
            except HermesError:  # no memory now: whoever uses it says so
                continue
            told.append(f"{target.header}\n" + "\n".join(f"- {entry}" for entry in entries))
        return "\n\n".join(told)

    async def _store_findings(self, found: ReviewFindings, sources: Sequence[str]) -> None:
        """Propose the findings, and tell the user."""
        automatic = self._mode is Evolution.AUTOMATIC
        done: list[str] = []
        waiting: list[str] = []
        wishes: list[MemoryProposal | SkillProposal] = [*found.memory, *found.skills]
        for wish in wishes:
            if self._redactor.redact(str(wish)) != str(wish):
                continue  # keys and passwords are kept nowhere, and a model that wants to is not argued with
            try:
                for number in await self._propose_change(wish, sources):
                    applied = automatic and await self._apply_if_trusted(wish, number)
                    (done if applied else waiting).append(f"{_summarize_proposal(wish)} ({number})")
            except HermesError as error:  # it does not fit what stands there: the next review may do better
                _LOG.info("a change that a review wanted cannot be: %s", error)
        said = [N_("Kept from the last turns: {done}.", done=", ".join(done))] if done else []
        said += [N_("Worth keeping, if you say so: {waiting}.", waiting=", ".join(waiting))] if waiting else []
        more = "`hermes memory log` and `hermes skills pending` tell more."
        nothing = "Background review: nothing new to keep."
        self._notify(Level.INFO, " ".join([*said, more]) if said else nothing)

    async def _propose_change(
        self, proposal: MemoryProposal | SkillProposal, sources: Sequence[str]
    ) -> tuple[int, ...]:
        """Store a proposed change and return the ids of its rows. Raises HermesError for one that is not possible."""
        if isinstance(proposal, SkillProposal):
            return (await self._propose_skill_change(proposal, sources),)
        if self._memory is None:
            return ()
        origin = ChangeOrigin(
            author=RevisionAuthor.REVIEW,
            reason=N_("it was said: {evidence}", evidence=to_one_line(proposal.evidence, 300)),
            sources=tuple(sources),
            session_id=self._session_id,
        )
        operation = MemoryOperation(action=proposal.action, content=proposal.content, old_text=proposal.old_text)
        return (await self._memory.hold_operations(MemoryTarget(proposal.target), (operation,), origin)).ids

    async def _apply_if_trusted(self, proposal: MemoryProposal | SkillProposal, number: int) -> bool:
        """Apply a change without approval, unless it or what it builds on has untrusted sources.

        The row knows the sources, because a proposal is joined to the one that is pending.
        """
        owner = self._skills if isinstance(proposal, SkillProposal) else self._memory
        if owner is None or (await owner.get_revision(number)).sources:
            return False
        await owner.approve_change(number, "automatic")
        return True

    async def _propose_skill_change(self, proposal: SkillProposal, sources: Sequence[str]) -> int:
        """Propose a change of a skill and return its id. Raises HermesError for one that is not possible."""
        base = await self._skills.load_base(proposal.name, self._session_id)
        if proposal.action == "create":
            if base is not None:
                raise UsageError(N_("There is a skill {name} already.", name=proposal.name))
            after = {MAIN_FILE: (proposal.content.rstrip() + "\n").encode()}
        else:
            text = decode_text(base[MAIN_FILE]) if base is not None else None
            if base is None or text is None:
                raise UsageError(N_("There is no skill {name}.", name=proposal.name))
            changed, _ = replace_text(
                text, proposal.old_string, proposal.new_string, everywhere=False, display_path=MAIN_FILE
            )
            after = {**base, MAIN_FILE: changed.encode()}
        return await self._skills.propose_change(
            SkillChange(proposal.name, after),
            author=RevisionAuthor.REVIEW,
            reason=f"{proposal.action}, because it was said: {to_one_line(proposal.evidence, 300)}",
            sources=sources,
            session_id=self._session_id,
        )


def _summarize_proposal(proposal: MemoryProposal | SkillProposal) -> str:
    """Summarize a proposed change in a few words."""
    if isinstance(proposal, SkillProposal):
        return f"{proposal.action} skill {to_one_line(escape_unseen_characters(proposal.name), 64)}"
    return (
        f"{proposal.action} {proposal.target}: "
        f"{to_one_line(escape_unseen_characters(proposal.content or proposal.old_text), 60)}"
    )


async def _ignore_event(_: Event) -> None:
    """Ignore the pauses of a review."""


def attach_reviewer(
    actor: SessionActor,
    settings: Settings,
    *,
    skills: SkillLibrary,
    memory: MemoryJournal | None,
    redactor: Redactor,
    task: Callable[[], SideTask],
) -> BackgroundReviewer:
    """Create the reviewer of a live session and attach it to its turns and compressions."""
    reviewing = BackgroundReviewer(
        skills=skills,
        memory=memory,
        task=task,
        notify=actor.notify,
        redactor=redactor,
        mode=settings.skills.evolution,
        intervals=ReviewIntervals(settings.memory.nudge_interval, settings.skills.creation_nudge_interval),
    )
    actor.on_turn_end.append(reviewing.after_turn)
    actor.before_compress.append(reviewing.before_compress)
    return reviewing
