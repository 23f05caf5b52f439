"""The sub-agents of one live session: which of them work, which wait in a queue, and where their reports go."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.agent.turn import TurnState
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.events import Level, SubAgentChanged, TurnEnded
from hermes.core.ids import new_queued_message_id, new_session_id
from hermes.core.sub_agents import SubAgentTask
from hermes.i18n.messages import N_
from hermes.runtime.actor import TurnHook
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.sub_agents.child_worktree import check_worktree
from hermes.sessions.sub_agents.delivery import ReportSender
from hermes.sessions.sub_agents.options import check_task, describe_agents
from hermes.sessions.sub_agents.queue import SubAgentBatch, SubAgentQueue
from hermes.sessions.sub_agents.reports import find_origin
from hermes.sessions.sub_agents.run import SubAgentHost, SubAgentRun, order_by_number
from hermes.store.sub_agents import ReportDelivery, StepLimits, SubAgentCall, SubAgentRow
from hermes.tools.session import ToolContext
from hermes.tools.tool import ToolOutput
from hermes.util.cancellation import run_to_completion

if TYPE_CHECKING:
    from hermes.sessions.session_builder import LiveSession

FindLiveTeam = Callable[[str], "SubAgentTeam | None"]
"""Returns the sub-agents of a live session; None where it has had none."""


class SubAgentTeam:
    """The sub-agents of one live session. `close` ends or leaves them, before the session is closed."""

    def __init__(self, host: SubAgentHost, parent: "LiveSession", find_team: "FindLiveTeam") -> None:
        self._host = host
        self._parent = parent
        self._find_team = find_team
        self._queue = SubAgentQueue(
            lambda: host.services.settings.delegation.max_concurrent_children, partial(_report_failure, parent)
        )
        self._is_left = False
        """Whether they are left as they are, for whoever opens the session next."""
        self._reports = ReportSender(host, parent)

    @property
    def has_unfinished(self) -> bool:
        """Whether one of them works, or its report is still to be delivered."""
        return not self._queue.finished.is_set()

    @property
    def runs(self) -> list[SubAgentRun]:
        """Those that wait or work, in the order in which they were asked for."""
        return order_by_number(self._queue.runs)

    async def wait_until_finished(self) -> None:
        """Wait until none works any more and every report is delivered."""
        await self._queue.finished.wait()

    async def run_tasks(self, context: ToolContext, tasks: Sequence[SubAgentTask], *, background: bool) -> ToolOutput:
        """Have tasks done for a call of the parent's model; see `Delegator`."""
        parent = self._parent
        tasks = await _check_tasks(self._host, parent, tasks)
        stays = background and parent.options.goes_on
        call = SubAgentCall(
            parent_id=parent.actor.session_id,
            root_id=parent.options.root_id or parent.actor.session_id,
            root_turn_id=await _find_root_turn(self._host, parent),
            depth=parent.options.depth + 1,
            delivery=ReportDelivery.INBOX if stays else ReportDelivery.AWAITED,
            turn_id=parent.actor.recorder.turn_id,
            call_id=context.call_id,
        )
        if not stays and context.safeguard is not None:  # what they change is undone with the parent's turn
            await context.safeguard.save_before((), anything=True)
        rows = await self._store_call(call, tasks)
        if stays and not all(row.state.has_ended for row in rows):
            await self._begin_in_background(rows)
            return ToolOutput(text=_describe_begun(rows))
        if stays:  # nothing begins, so nothing wakes the session: it could go round for ever
            await self._host.services.store.sub_agents.mark_delivered([row.session_id for row in rows])
            return ToolOutput(text=await self._reports.format(rows), provenance=find_origin(rows))
        return await self._wait_for_call(context, rows)

    async def _wait_for_call(self, context: ToolContext, rows: Sequence[SubAgentRow]) -> ToolOutput:
        """Begin the sub-agents of a call, wait for them, and return their reports."""
        try:
            await self._wait_or_stop(self._begin(rows))
        finally:
            if context.safeguard is not None:
                await context.safeguard.record_after((), ran=True)
        ended = await self._host.services.store.sub_agents.list_call(rows[0])
        return ToolOutput(text=await self._reports.format(ended), provenance=find_origin(ended))

    async def _store_call(
        self, call: SubAgentCall, tasks: Sequence[SubAgentTask], limits: StepLimits | None = None
    ) -> list[SubAgentRow]:
        """Store the sub-agents of a call. Where it is cancelled meanwhile, those that are stored are stopped."""
        rows: list[SubAgentRow] = []

        async def create_rows() -> None:
            rows.extend(await _create_rows(self._host, call, tasks, limits))

        try:
            await run_to_completion(create_rows())
        except asyncio.CancelledError:
            known = {row.session_id for batch in self._queue.batches for row in batch.rows}
            if rows and rows[0].session_id not in known and any(row.ended_at is None for row in rows):
                batch = self._begin(rows, stopping=True)
                batch.is_orphaned, batch.wakes = True, False
            raise
        return rows

    async def begin_for_person(self, task: SubAgentTask) -> SubAgentRow:
        """Begin a session for the person beside this one, with all its tools; its answer is shown to them and does not
        join the conversation.
        """
        steps = self._parent.options.max_turns or self._host.services.settings.agent.max_turns
        call = _make_persons_call(self._parent, ReportDelivery.PERSON)
        rows = await self._store_call(call, [task], StepLimits(steps, steps))
        self._begin(rows)
        return rows[0]

    async def ask_all(self, tasks: Sequence[SubAgentTask], *, at_once: int) -> list[tuple[SubAgentRow, str]]:
        """Have tasks done for the person, who waits for them, and return each as it ended with its answer. Cancelled,
        they are stopped first.
        """
        call = _make_persons_call(self._parent, ReportDelivery.AWAITED)
        batch = self._begin(await self._store_call(call, tasks), at_once=at_once)
        await self._wait_or_stop(batch)
        store = self._host.services.store.sub_agents
        ended = [await store.get(row.session_id) or row for row in batch.rows]
        return [(row, await store.read_answer(row.report.turn_id)) for row in ended]

    async def adopt(self) -> None:
        """Take up what an earlier process of the session has left: sub-agents in the background go on, reports are
        delivered, and those whose call is over are stopped. Those of a turn that is yet to be resumed wait for that.

        Nothing of it begins before whoever opens the session can follow it.
        """
        self._queue.is_held = True
        self._reports.hold()
        lost = self._parent.actor.conversation.lost_turn
        waiting = set()
        if lost is not None and not lost.stopping:
            waiting = {call.call_id for call in lost.messages[-1].tool_calls() if call.call_id not in lost.results}
        calls: dict[tuple[int | None, str], SubAgentRow] = {}
        for row in await self._host.services.store.sub_agents.list_open(self._parent.actor.session_id):
            calls.setdefault((row.message_id, row.call_id or row.session_id), row)
        for row in calls.values():
            is_awaited = row.delivery is ReportDelivery.AWAITED
            if is_awaited and lost is not None and row.turn_id == lost.turn_id and row.call_id in waiting:
                self._parent.actor.on_turn_end.append(self._make_settling_hook(row))
                continue
            await self._take_up(row, stopping=is_awaited)
        asyncio.get_running_loop().call_soon(self._begin_adopted)

    def _begin_adopted(self) -> None:
        """Begin what was taken up, and bring the session the reports that were."""
        self._queue.is_held = False
        if not self._is_left:
            self._reports.release()
            self._queue.begin_next()

    async def _begin_in_background(self, rows: Sequence[SubAgentRow]) -> None:
        """Begin the sub-agents of a call, unless they were taken up already when the session was opened: a call whose
        process died before its result was stored is made again.
        """
        known = {row.session_id for batch in self._queue.batches for row in batch.rows}
        if rows[0].session_id in known or rows[0].delivery is ReportDelivery.DELIVERED:
            return
        self._begin(rows)

    async def _take_up(self, row: SubAgentRow, *, stopping: bool) -> None:
        batch = self._begin(await self._host.services.store.sub_agents.list_call(row), stopping=stopping)
        batch.is_orphaned = stopping
        if batch.has_ended:
            await self._deliver(batch)

    def _make_settling_hook(self, row: SubAgentRow) -> TurnHook:
        """Return what stops the sub-agents of a call that was not made again when its turn was resumed."""

        async def settle_call(state: TurnState, _ended: TurnEnded) -> None:
            if state.turn_id != row.turn_id:
                return
            self._parent.actor.on_turn_end.remove(settle_call)
            known = {one.session_id for batch in self._queue.batches for one in batch.rows}
            found = await self._host.services.store.sub_agents.get(row.session_id)
            if found is not None and found.ended_at is None and row.session_id not in known:
                await self._take_up(row, stopping=True)

        return settle_call

    def find_run(self, number: int) -> SubAgentRun:
        """Return the sub-agent of this number, also one of theirs. Raises NotFoundError when none works under it."""
        found = next((run for run in self.list_tree() if run.row.number == number), None)
        if found is None:
            raise NotFoundError(N_("No sub-agent {n} works.", n=number), N_("/agents lists them."))
        return found

    def list_tree(self) -> list[SubAgentRun]:
        """Return those that are queued or work, with those of theirs, in the order in which they were asked for."""
        found: list[SubAgentRun] = []
        for run in self.runs:
            found.append(run)
            team = self._find_team(run.row.session_id)
            found += team.list_tree() if team is not None else ()
        return order_by_number(found)

    def list_live_sessions(self) -> "list[LiveSession]":
        """Return the live sessions of those that work, and of theirs: what the person restricts holds there, too."""
        actors = (run.actor for run in self.list_tree())
        return [self._host.live_session(actor) for actor in actors if actor is not None]

    def steer(self, number: int, text: str) -> None:
        """Say something to a sub-agent, in the person's name. Raises NotFoundError, and UsageError before it works."""
        run = self.find_run(number)
        if run.actor is None:
            raise UsageError(N_("Sub-agent {n} has not begun yet.", n=number), N_("Try again when it works."))
        run.actor.steer(InboundMessage(text=text))

    def stop(self, number: int) -> SubAgentRun:
        """Stop a sub-agent, also one of theirs. Raises NotFoundError."""
        run = self.find_run(number)
        run.stop()
        self._queue.begin_next()
        return run

    def stop_all(self, *, wakes: bool = True, awaited: bool = True) -> int:
        """Stop all of them, without `awaited` only those for which no call waits; without `wakes` their reports wake
        nobody. Return how many there are.
        """
        batches = [batch for batch in self._queue.batches if awaited or not batch.is_awaited]
        count = sum(not run.ended.is_set() for batch in batches for run in batch.runs)
        for batch in batches:
            batch.wakes = batch.wakes and wakes
            batch.stop()
        self._queue.begin_next()
        return count

    async def close(self) -> None:
        """Stop those that a call waits for, with the parent's turn, unless that turn stays open; leave the others."""
        actor = self._parent.actor
        awaited = [batch for batch in self._queue.batches if batch.is_awaited and not batch.has_ended]
        if awaited and not actor.stays_open:
            actor.stop()
            for batch in awaited:
                batch.stop()
                self._queue.begin_next()
                await batch.wait()
        self._is_left = True
        if left := len(self.runs):
            said = (
                N_("A sub-agent is left where it is; it goes on when this session is opened again.")
                if left == 1
                else N_("{n} sub-agents are left where they are; they go on when this session is opened again.", n=left)
            )
            actor.notify(Level.INFO, said)
        await self._queue.close()

    def _begin(self, rows: Sequence[SubAgentRow], *, stopping: bool = False, at_once: int = 0) -> SubAgentBatch:
        """Queue the sub-agents of a call; those that have ended are part of it all the same."""
        runs = [SubAgentRun(self._host, self._parent, row, self._find_team, self._on_end) for row in rows]
        for run in runs:
            run.is_stopping = stopping
        if rows[0].delivery is ReportDelivery.PERSON:  # what a person asks takes no place of the model's
            at_once = 1
        batch = SubAgentBatch(rows, runs, at_once)
        self._queue.add(batch)
        for run in runs:
            if not run.ended.is_set():
                run.publish()
        return batch

    async def _on_end(self, run: SubAgentRun) -> None:
        """Deliver the reports of a call in the background once its last sub-agent has ended."""
        batch = next(one for one in self._queue.batches if run in one.runs)
        if (batch.is_orphaned or not batch.is_awaited) and all(one.state.has_ended for one in batch.runs):
            await self._deliver(batch)
        if not batch.at_once:  # what a person asks, also of a mixture, is no task of the parent's
            await self._reports.tell_memories(run)

    async def _deliver(self, batch: SubAgentBatch) -> None:
        """Send the reports of a call where they belong."""
        rows = await self._host.services.store.sub_agents.list_call(batch.rows[0])
        await self._reports.send(rows, wakes=batch.wakes)
        self._queue.remove(batch)

    async def _wait_or_stop(self, batch: SubAgentBatch) -> None:
        """Wait for a call's sub-agents. Cancelled, they are stopped first, at once where it is cancelled again; where
        the session is closed and its turn stays open they are left.
        """
        try:
            await batch.wait()
        except asyncio.CancelledError:
            while not batch.has_ended and not self._is_left:
                batch.stop()
                self._queue.begin_next()
                try:
                    await batch.wait()
                except asyncio.CancelledError:
                    continue
            raise
        finally:
            if batch.has_ended:
                self._queue.remove(batch)


async def _check_tasks(
    host: SubAgentHost, parent: "LiveSession", tasks: Sequence[SubAgentTask]
) -> Sequence[SubAgentTask]:
    """Return the tasks with what their described agents add. Raises ToolError for one that cannot be given."""
    tasks = await describe_agents(parent, host.services, tasks)
    for task in tasks:
        check_task(parent, task, host.services.settings)
    if any(task.worktree for task in tasks):
        await check_worktree(parent, host.services)
    return tasks


async def _create_rows(
    host: SubAgentHost, call: SubAgentCall, tasks: Sequence[SubAgentTask], limits: StepLimits | None = None
) -> list[SubAgentRow]:
    services, delegation = host.services, host.services.settings.delegation
    limits = limits or StepLimits(delegation.max_iterations, delegation.max_total_iterations)
    names = [new_session_id(services.clock.now()) for _ in tasks]
    return await services.store.sub_agents.create_all(call, names, tasks, limits)


def _report_failure(parent: "LiveSession", error: BaseException) -> None:
    parent.actor.notify(Level.WARNING, N_("A sub-agent's end could not be stored: {error}", error=error))


async def _find_root_turn(host: SubAgentHost, parent: "LiveSession") -> str:
    """Return the turn of the session at the top in which a person has asked for what a session does."""
    store, actor = host.services.store.sub_agents, parent.actor
    row = await store.get(actor.session_id) if parent.options.depth else None
    if row is not None:
        return row.root_turn_id
    return await store.find_root_turn(actor.session_id, actor.recorder.turn_id)


def _make_persons_call(parent: "LiveSession", delivery: ReportDelivery) -> SubAgentCall:
    """Return where sub-agents are asked for that no call of the model's wants."""
    return SubAgentCall(
        parent_id=parent.actor.session_id,
        root_id=parent.options.root_id or parent.actor.session_id,
        root_turn_id=new_queued_message_id(),
        depth=parent.options.depth + 1,
        delivery=delivery,
    )


def describe_team(team: SubAgentTeam | None) -> list[SubAgentChanged]:
    """Return how the sub-agents of a session that are queued or work stand, with those of theirs."""
    runs = team.list_tree() if team is not None else []
    numbers = {run.row.session_id: run.row.number for run in runs}
    top = min((run.row.depth for run in runs), default=1)
    return [
        structs.replace(run.describe(), depth=run.row.depth - top + 1, parent=numbers.get(run.row.parent_id, 0))
        for run in runs
    ]


def _describe_begun(rows: Sequence[SubAgentRow]) -> str:
    lines = [f"[sub-agent {row.number}] {row.task.name}" for row in rows if not row.state.has_ended]
    lines += [f"[sub-agent {row.number}: {row.state}] {row.report.error}" for row in rows if row.state.has_ended]
    return "\n".join(["Begun in the background; their reports come as a message. Do not wait for them.", *lines])
