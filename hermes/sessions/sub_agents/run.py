"""One sub-agent while it works: its session, its progress, and its end."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import structs

from hermes.core.errors import HermesError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Event,
    Level,
    Notice,
    Refused,
    RequestEnded,
    RequestStarted,
    SubAgentChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
)
from hermes.core.outcomes import ExitReason
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.core.sub_agents import SubAgentReport, SubAgentState
from hermes.core.usage import Cost
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.options import SessionOptions
from hermes.sessions.sub_agents.child_worktree import ChildWorktree
from hermes.sessions.sub_agents.options import build_child_options, build_person_options, build_task_message
from hermes.sessions.sub_agents.reports import PersonReports, choose_state, collect_report
from hermes.store.sub_agents import NO_STEPS, ReportDelivery, StoredEnd, SubAgentRow
from hermes.tools.permissions.gate import WITHDRAWN
from hermes.tools.registry import KnownTool
from hermes.tools.session import Asker
from hermes.tools.taint import Taint
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import to_one_line

if TYPE_CHECKING:
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession
    from hermes.store.store import Store

_LOG = logging.getLogger(__name__)
_BEGUN_ANSWERING = (TextDelta, ReasoningDelta, CallStarted, RequestEnded, TurnEnded)
_DOING_CHARACTERS = 100


class SubAgentTeamPort(Protocol):
    """The sub-agents of a sub-agent, as far as it waits for them."""

    @property
    def has_unfinished(self) -> bool:
        """Whether one of them works, or its report is still to be delivered."""
        ...

    async def wait_until_finished(self) -> None:
        """Wait until none works any more and every report is delivered."""
        ...

    def stop_all(self, *, wakes: bool = True, awaited: bool = True) -> int:
        """Stop all of them, without `awaited` only those for which no call waits; without `wakes` their reports wake
        nobody. Return how many there are.
        """
        ...


class SubAgentHost(Protocol):
    """Opens and closes sessions, and knows those that are live; the App of the process."""

    @property
    def services(self) -> "Services":
        """The services that all sessions share."""
        ...

    @property
    def person_reports(self) -> PersonReports | None:
        """Where the person is shown what they have asked sub-agents for; None where nothing can be shown."""
        ...

    async def open_session(
        self,
        name: str | None = None,
        *,
        create: bool = False,
        asker: Asker | None = None,
        options: SessionOptions | None = None,
    ) -> SessionActor:
        """Open a session by its id."""
        ...

    async def close_session(self, actor: SessionActor) -> None:
        """Close a live session."""
        ...

    def live_session(self, actor: SessionActor | str) -> "LiveSession":
        """Return a live session with all its parts."""
        ...


FindTeam = Callable[[str], SubAgentTeamPort | None]
"""Returns the sub-agents of a live session; None where it has had none."""
EndCallback = Callable[["SubAgentRun"], Awaitable[None]]


class SubAgentRun:
    """One sub-agent that is queued or works. The team of its parent owns it and the task that runs it."""

    def __init__(
        self, host: SubAgentHost, parent: "LiveSession", row: SubAgentRow, find_team: FindTeam, on_end: EndCallback
    ) -> None:
        self.row = row
        self.state = SubAgentState.QUEUED
        self.step = 0
        self.doing = ""
        self.error = ""
        self.actor: SessionActor | None = None
        """Its live session; None before it begins and once it has ended."""
        self.has_begun_answering = False
        """Whether its first answer has begun, so that a provider's cache holds what it has in common with others."""
        self.on_begun: list[Callable[[], None]] = []
        """Called once when that is so."""
        self.ended = asyncio.Event()
        """Set when its end is stored."""
        self.is_stopping = False
        self._has_no_steps = False
        self._host = host
        self._parent = parent
        self._find_team = find_team
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._began_at: float | None = None
        self._active_at = self._loop.time()
        self._worktree: ChildWorktree | None = None
        self._running_tools: set[str] = set()
        self._asked: set[str] = set()
        """The questions that are shown at the parent's and have no answer yet."""

    @property
    def is_for_person(self) -> bool:
        """Whether a person has asked for it, and not the model."""
        return self.row.delivery is ReportDelivery.PERSON

    @property
    def seconds(self) -> float:
        """The seconds since it began to work in this process."""
        return 0.0 if self._began_at is None else self._loop.time() - self._began_at

    @property
    def cost(self) -> Cost:
        """What it has cost so far, as far as this process knows."""
        return Cost() if self.actor is None else self._host.live_session(self.actor).meter.cost

    def describe(self) -> SubAgentChanged:
        """Return how it stands."""
        row = self.row
        return SubAgentChanged(
            session_id=row.session_id,
            number=row.number,
            name=row.task.name,
            state=self.state,
            step=self.step,
            max_steps=row.steps,
            cost=self.cost,
            seconds=self.seconds,
            doing=self.error if self.state.has_ended else self.doing,
        )

    def stop(self) -> None:
        """Stop it; a second time gives its running tools no time."""
        self.is_stopping = True
        if self.actor is None:
            return
        _stop_team(self._find_team(self.row.session_id), self.actor)
        self.actor.stop()

    def note_activity(self) -> None:
        """Note a sign of life, of its own or of one of its sub-agents."""
        self._active_at = self._loop.time()

    async def work(self) -> None:
        """Work until its end is stored. Cancelled, it is left as it is, for whoever opens its parent next."""
        self._began_at = self._loop.time()
        self.note_activity()
        try:
            await self._work_and_finish()
        finally:
            self._withdraw_questions()
            if self.actor is not None and not self.state.has_ended:
                self.actor.stays_open = True
            await self._close_session()
            if self._worktree is not None:
                await self._worktree.close()
        await self._on_end(self)
        self.ended.set()

    async def _work_and_finish(self) -> None:
        store, row = self._host.services.store, self.row
        try:
            if not self.is_stopping or await store.sessions.get(row.session_id) is not None:
                await self._open_and_work()
        except HermesError as error:
            self.error = str(error)
        except Exception as error:  # noqa: BLE001 - a fault of our own: logged, and named as the sub-agent's end
            _LOG.exception("sub-agent %s failed", row.session_id)
            self.error = N_(
                "Hermes hit an internal error ({name}: {error}).",
                name=type(error).__name__,
                error=to_one_line(str(error)),
            )
        await self._finish()

    async def _open_and_work(self) -> None:
        row, settings = self.row, self._host.services.settings.delegation
        total = row.steps if self.is_for_person else settings.max_total_iterations
        steps = await self._host.services.store.sub_agents.begin(row.session_id, total)
        if not steps:
            self.error, self._has_no_steps = NO_STEPS, True
            return
        self.row = structs.replace(row, steps=steps)
        actor = await self._open_session()
        task = asyncio.create_task(self._run_turns(actor), name=f"sub-agent {self.row.session_id}")
        try:
            while not task.done():
                is_timed = not self.is_stopping and not self.is_for_person
                await asyncio.wait({task}, timeout=self._seconds_left() if is_timed else None)
                if is_timed and not task.done() and self._seconds_left() <= 0 and not self.is_stopping:
                    self.error = N_("There was no sign of life for {n} seconds.", n=round(self._find_limit()))
                    self.stop()
            task.result()
        finally:
            await cancel_tasks([task])

    async def _open_session(self) -> SessionActor:
        """Open its session with what its parent hands down: mode, grants, what the person has said."""
        host, row, parent = self._host, self.row, self._parent
        folder, trusted = parent.tools.context.places.workspace, parent.options.trusted_folders
        if row.task.worktree:
            self._worktree = ChildWorktree(parent, host.services, row.session_id)
            made = await self._worktree.open()
            folder, trusted = made.folder, (*trusted, *((made.root,) if made.is_trusted else ()))
        asker = None
        if self.is_for_person:
            options = build_person_options(parent, row, folder)
            if host.person_reports is not None and host.person_reports.asks_questions:
                asker = parent.tools.context.asker
        else:
            options = build_child_options(parent, row, host.services.settings, folder)
        options = structs.replace(options, trusted_folders=trusted)
        actor = self.actor = await host.open_session(row.session_id, create=True, asker=asker, options=options)
        live = host.live_session(actor)
        live.tools.state.mode = parent.tools.state.mode  # which may have changed while the session was opened
        live.tools.toolbox.check_limit = _make_limit_check(parent, live)
        above, gate = parent.tools.gate, live.tools.gate
        gate.policy = structs.replace(gate.policy, allow=above.policy.allow)  # without what was taken back there
        grants = above.session_grants
        gate.session_grants = structs.replace(
            grants, grants=[*grants.grants], always=[*grants.always], refused_subjects={*grants.refused_subjects}
        )
        live.tools.state.taint.add_words(parent.tools.state.taint.describe_words())
        actor.calls_left = max(0, row.steps - await host.services.store.sub_agents.count_calls(row.session_id))
        actor.before_turn.append(_make_stop_hook(self, actor))
        actor.approvals.parent = parent.actor.approvals
        actor.subscribe(self._on_event)
        await self._set_state(SubAgentState.RUNNING)
        return actor

    async def _run_turns(self, actor: SessionActor) -> None:
        """Run its task, or go on with it, until nothing of it is left: its own sub-agents in the background, too."""
        conversation = actor.conversation
        if self.is_stopping:
            _stop_team(self._find_team(self.row.session_id), actor)
        if self.is_stopping and conversation.lost_turn is not None:
            conversation.lost_turn = structs.replace(conversation.lost_turn, stopping=True)
        if actor.unfinished:
            actor.resume()
        elif not self.is_stopping and not conversation.messages:
            await self._post_task(actor)
        while True:
            await actor.idle()
            team = self._find_team(actor.session_id)
            if team is None or not team.has_unfinished:
                return
            await team.wait_until_finished()

    async def _post_task(self, actor: SessionActor) -> None:
        services, task = self._host.services, self.row.task
        folder = self._host.live_session(actor).tools.context.places.workspace
        if self.is_for_person:
            await actor.post(InboundMessage(text=task.goal, cwd=folder))
            return
        await services.store.sessions.rename(actor.session_id, task.name)
        if self.is_stopping:
            return
        made = self._worktree.worktree if self._worktree is not None else None
        await actor.post(build_task_message(task, folder, branch=made.branch if made is not None else ""))

    def _find_limit(self) -> float:
        """Return the seconds that may pass without a sign of life."""
        settings = self._host.services.settings.delegation
        return settings.tool_idle_timeout if self._running_tools else settings.idle_timeout

    def _seconds_left(self) -> float:
        """Return the seconds after which it counts as stalled; a question that waits has a time-out of its own."""
        limit = self._find_limit()
        if self._asked:
            return limit
        return max(0.0, self._active_at + limit - self._loop.time())

    async def _finish(self) -> None:
        """Store how it ended."""
        services, row = self._host.services, self.row
        end = await services.store.sub_agents.read_end(row.session_id)
        state = (
            choose_state(end)
            if end is not None
            else SubAgentState.STOPPED
            if self.is_stopping
            else SubAgentState.FAILED
        )
        if self._has_no_steps:
            state = SubAgentState.BUDGET
        elif self.error:
            said = end is not None and bool(end.text.strip())
            state = SubAgentState.PARTIAL if said else SubAgentState.FAILED
        live = self._host.live_session(self.actor) if self.actor is not None else None
        sources = await _list_sources(services.store, row.session_id, live)
        report = SubAgentReport(
            turn_id=end.turn_id if end is not None else "",
            error=self.error or _explain_end(row, end, services.settings.delegation.max_iterations),
            open_items=tuple(filter(None, (live.tools.describe_running(),))) if live is not None else (),
            steps=end.steps if end is not None else self.step,
            seconds=self.seconds,
            sources=tuple(dict.fromkeys((*row.task.sources, *sources))),
        )
        self.error = report.error
        await self._close_session()  # what it has left running ends, so that nothing changes any more
        report = await self._settle_worktree(await collect_report(services.store, row.session_id, report))
        await services.store.sub_agents.finish(row.session_id, state, report)
        self.state = state
        self._parent.meter.add_cost(report.cost)
        self._parent.actor.recorder.publish(structs.replace(self.describe(), cost=report.cost, step=report.steps))

    async def _close_session(self) -> None:
        actor, self.actor = self.actor, None
        if actor is not None:
            await self._host.close_session(actor)

    async def _settle_worktree(self, report: SubAgentReport) -> SubAgentReport:
        """Remove its worktree where that holds no work; return the report with what it holds otherwise."""
        if not self.row.task.worktree:
            return report
        held = self._worktree or ChildWorktree(self._parent, self._host.services, self.row.session_id)
        try:
            kept = await held.settle()
        except HermesError as error:
            return structs.replace(report, open_items=(*report.open_items, str(error)))
        if kept is None:
            return structs.replace(report, files=())
        return structs.replace(report, branch=kept.branch, folder=kept.folder, work=kept.work)

    async def _set_state(self, state: SubAgentState) -> None:
        self.state = state
        await self._host.services.store.sub_agents.set_state(self.row.session_id, state)
        self.publish()

    def publish(self) -> None:
        """Show at its parent's how it stands."""
        self._parent.actor.recorder.publish(self.describe())

    def _on_event(self, event: Event) -> None:
        """Follow its session, and show at its parent's what a person should see there."""
        self.note_activity()
        if not self.has_begun_answering and isinstance(event, _BEGUN_ANSWERING):
            self.has_begun_answering = True
            for begun in self.on_begun:
                begun()
        match event:
            case RequestStarted():
                self.step += 1
                self._show_doing("")
            case TurnResumed():
                self.step += event.calls
            case ToolStarted():
                self._running_tools.add(event.call_id)
                self._show_doing(f"{event.name} {event.summary}")
            case ToolEnded():
                self._running_tools.discard(event.call_id)
            case TurnEnded():
                self._withdraw_questions()
            case ApprovalAsked() | ApprovalAnswered():
                self._relay_question(event)
            case _:
                self._relay(event)

    def _relay(self, event: Event) -> None:
        """Show at the parent's what a person should see of a sub-agent beside its questions."""
        name, show = self.row.task.name, self._parent.actor.recorder.publish
        match event:
            case Refused():
                show(structs.replace(event, asker=event.asker or name))
            case Notice() if event.level is not Level.INFO:
                show(Notice(event.level, N_("Sub-agent {name}: {said}", name=name, said=event.text)))
            case SubAgentChanged():
                show(structs.replace(event, depth=event.depth + 1, parent=event.parent or self.row.number))
            case _:
                pass

    def _show_doing(self, doing: str) -> None:
        self.doing = to_one_line(doing, _DOING_CHARACTERS)
        self.publish()

    def _relay_question(self, event: ApprovalAsked | ApprovalAnswered) -> None:
        """Show a question, or its answer, where the person is."""
        if isinstance(event, ApprovalAsked):
            self._asked.add(event.approval_id)
            asker, asker_id = event.asker or self.row.task.name, event.asker_id or self.row.session_id
            self._parent.actor.recorder.publish(structs.replace(event, asker=asker, asker_id=asker_id))
        else:
            self._asked.discard(event.approval_id)
            self._parent.actor.recorder.publish(event)
        state = SubAgentState.WAITING if self._asked else SubAgentState.RUNNING
        if state is not self.state:
            self.state = state
            self.publish()

    def _withdraw_questions(self) -> None:
        """Close the questions of a turn that has ended where they are shown."""
        for approval_id in sorted(self._asked):
            self._relay_question(ApprovalAnswered(approval_id, allowed=False, by=WITHDRAWN))


def _explain_end(row: SubAgentRow, end: StoredEnd | None, max_steps: int) -> str:
    """Return why its last turn did not complete, with the setting that limits sub-agents where one did."""
    if end is None or end.reason is not ExitReason.BUDGET_EXHAUSTED or row.delivery is ReportDelivery.PERSON:
        return end.error if end is not None else ""
    setting = "delegation.max_iterations" if row.steps >= max_steps else "delegation.max_total_iterations"
    return N_("Its limit of {n} model calls was reached ({setting}).", n=row.steps, setting=setting)


def _stop_team(team: SubAgentTeamPort | None, actor: SessionActor) -> None:
    """Stop those that work for a sub-agent. The ones for which a call of its turn waits are stopped with that turn."""
    if team is not None:
        team.stop_all(wakes=False, awaited=not actor.busy)


def _make_stop_hook(run: SubAgentRun, actor: SessionActor) -> Callable[[], Awaitable[None]]:
    """Return what stops a turn that begins after the stop: by a report, or by what somebody has said before."""

    async def stop_late_turn() -> None:
        if run.is_stopping:
            actor.stop()

    return stop_late_turn


async def _list_sources(store: "Store", session_id: str, live: "LiveSession | None") -> Sequence[str]:
    """Return the untrusted sources of a sub-agent's conversation, also where its session could not be opened. One that
    the person trusts there is named, too: that answer is not the parent's.
    """
    if live is not None:
        return live.tools.state.taint.list_all_sources()
    taint = Taint()
    taint.restart_from(one.message for one in await store.messages.read(session_id))
    return taint.list_all_sources()


def _make_limit_check(parent: "LiveSession", live: "LiveSession") -> Callable[[], Awaitable[None]]:
    """Return what takes from a sub-agent the tools that its parent has lost: by a role, or by a switch."""
    above, own = parent.tools.toolbox, live.tools.toolbox

    def is_withdrawn(tool: KnownTool) -> bool:
        return above.is_withdrawn(tool) or not above.may_hold(tool)

    async def check_limit() -> None:
        await above.refresh_limit()
        own.is_withdrawn = is_withdrawn

    return check_limit


def order_by_number(runs: "Sequence[SubAgentRun]") -> "list[SubAgentRun]":
    """Return runs in the order in which they were asked for."""
    return sorted(runs, key=lambda one: one.row.number)
