"""Sub-agents: which sessions work for which, what they were asked, and what came of it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.messages import Message
from hermes.core.outcomes import ExitReason
from hermes.core.sub_agents import SubAgentReport, SubAgentState, SubAgentTask, brings_reports
from hermes.core.usage import Certainty, Cost
from hermes.i18n.messages import N_
from hermes.store.repository import Repository, Transaction, reads, to_value, writes
from hermes.store.turns import enqueue_message

Value = TypeVar("Value", SubAgentTask, SubAgentReport)
_MESSAGE = msgspec.json.Decoder(Message)
_FEWEST_STEPS = 2
"""A sub-agent for which fewer model calls are left is not begun."""
NO_STEPS = N_("No model calls are left for sub-agents of this turn (delegation.max_total_iterations).")

_LEFT = SubAgentReport(error="The one that asked for it has ended.")


class ReportDelivery(StrEnum):
    """Where the report of a sub-agent goes."""

    AWAITED = "awaited"
    """A call of its parent's waits for it."""
    INBOX = "inbox"
    """Into its parent's inbox, once all sub-agents of the call have ended."""
    PERSON = "person"
    """To the person, who has asked for it."""
    DELIVERED = "delivered"


class SubAgentRow(Struct, frozen=True, kw_only=True):
    """A stored sub-agent. Times are seconds since the epoch.

    `steps` is the most model calls that it may get while it is queued, what is reserved while it works, and then what
    it used.
    """

    session_id: str
    parent_id: str
    root_id: str
    root_turn_id: str
    turn_id: str
    message_id: int | None
    call_id: str
    position: int
    number: int
    depth: int
    delivery: ReportDelivery
    state: SubAgentState
    steps: int
    created_at: float
    started_at: float | None
    ended_at: float | None
    task: SubAgentTask
    report: SubAgentReport


_SELECT = (
    "SELECT session_id, parent_id, root_id, root_turn_id, turn_id, message_id, call_id, position, number, depth,"
    " delivery, state, steps, created_at, started_at, ended_at, spec, report FROM sub_agents"
)
_SAME_CALL = "parent_id = ? AND message_id IS ? AND call_id = ?"


class SubAgentCall(Struct, frozen=True, kw_only=True):
    """Where sub-agents are asked for: the parent's turn and call, and the turn of the session at the top of the tree.

    Without a call a person has asked.
    """

    parent_id: str
    root_id: str
    root_turn_id: str
    depth: int
    delivery: ReportDelivery
    turn_id: str = ""
    call_id: str = ""


class StepLimits(Struct, frozen=True):
    """How many model calls one sub-agent may make, and all below one turn of the session at the top."""

    each: int
    total: int


class StoredEnd(Struct, frozen=True, kw_only=True):
    """How the last turn of a session ended, and the model calls of all its turns."""

    turn_id: str
    reason: ExitReason
    error: str
    text: str
    steps: int


class SubAgentRepository(Repository):
    """The sub-agents of all sessions."""

    @reads
    def read_answer(self, tx: Transaction, turn_id: str) -> str:
        """Return what a turn's model has said last: its answer, or what it said before it made its last calls."""
        return _read_answer(tx, turn_id)

    @writes
    def create_all(
        self,
        tx: Transaction,
        call: SubAgentCall,
        session_ids: Sequence[str],
        tasks: Sequence[SubAgentTask],
        limits: StepLimits,
    ) -> list[SubAgentRow]:
        """Store the sub-agents that a call asks for; a call that is made again after a crash gets those that it has.

        Each gets its steps when it begins, from what those before it have left. It needs one at least, so one for which
        none is left now is stored as ended at once.
        """
        message_id = None
        if call.call_id:
            message_id = tx.execute("SELECT max(id) FROM messages WHERE session_id = ?", (call.parent_id,)).get
            there = _select_rows(tx, f"{_SAME_CALL} ORDER BY position", (call.parent_id, message_id, call.call_id))
            if there:
                return there
        number = _get_number(tx, "SELECT coalesce(max(number), 0) + 1 FROM sub_agents WHERE root_id = ?", call.root_id)
        queued = "SELECT count(*) FROM sub_agents WHERE root_id = ? AND root_turn_id = ? AND started_at IS NULL"
        left = limits.total - _count_steps(tx, call.root_id, call.root_turn_id)
        left -= _get_number(tx, f"{queued} AND ended_at IS NULL", call.root_id, call.root_turn_id)
        for position, (session_id, task) in enumerate(zip(session_ids, tasks, strict=True)):
            begins = left - position >= min(limits.each, _FEWEST_STEPS)
            tx.execute(
                "INSERT INTO sub_agents (session_id, parent_id, root_id, root_turn_id, turn_id, message_id, call_id,"
                " position, number, depth, delivery, spec, state, steps, report, created_at, ended_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(session_id, call.parent_id, call.root_id, call.root_turn_id, call.turn_id, message_id),
                    *(call.call_id, position, number + position, call.depth, call.delivery, to_json(task)),
                    *(
                        (SubAgentState.QUEUED, limits.each, None)
                        if begins
                        else (SubAgentState.BUDGET, 0, to_json(SubAgentReport(error=NO_STEPS)))
                    ),
                    *(tx.now, None if begins else tx.now),
                ),
            )
        return _select_rows(tx, f"session_id IN ({_list_marks(session_ids)}) ORDER BY position", tuple(session_ids))

    @writes
    def begin(self, tx: Transaction, session_id: str, total: int) -> int:
        """Reserve steps for a sub-agent, out of `total` for all below the same turn, and return how many it has; 0
        where too few are left. One that has begun before keeps what it has.
        """
        row = _select_one(tx, session_id)
        if row is None or row.started_at is not None:
            return row.steps if row is not None else 0
        steps = min(row.steps, total - _count_steps(tx, row.root_id, row.root_turn_id))
        if steps < min(row.steps, _FEWEST_STEPS):
            return 0
        tx.execute("UPDATE sub_agents SET steps = ?, started_at = ? WHERE session_id = ?", (steps, tx.now, session_id))
        return steps

    @writes
    def set_state(self, tx: Transaction, session_id: str, state: SubAgentState) -> None:
        """Store that a sub-agent that has not ended is in this state."""
        tx.execute("UPDATE sub_agents SET state = ? WHERE session_id = ? AND ended_at IS NULL", (state, session_id))

    @writes
    def finish(self, tx: Transaction, session_id: str, state: SubAgentState, report: SubAgentReport) -> bool:
        """Store a sub-agent's end, once, with the steps that it used; return whether it was stored now.

        The words of its task go: they stand in its transcript. One that made no call used one all the same, or a
        session could go on for ever with sub-agents that cannot begin.
        """
        row = _select_one(tx, session_id)
        if row is None or row.ended_at is not None:
            return False
        name = structs.replace(row.task, goal="", context="", instructions="")
        _end_below(tx, session_id)
        return tx.change_any(
            "UPDATE sub_agents SET state = ?, report = ?, steps = ?, spec = ?, ended_at = ? WHERE session_id = ?",
            (state, to_json(report), max(report.steps, 1), to_json(name), tx.now, session_id),
        )

    @writes
    def deliver(
        self,
        tx: Transaction,
        parent_id: str,
        letter_id: str,
        body: bytes,
        session_ids: Sequence[str],
        *,
        to_chat: bool = False,
    ) -> bool:
        """Put the reports of a call into its parent's inbox, once; return whether that was done now. With `to_chat` the
        answer to them goes to the parent's chat, as that to a message from there does.
        """
        if not _mark_delivered(tx, session_ids):
            return False
        enqueue_message(tx, parent_id, letter_id, body)
        if to_chat:
            from hermes.store.chats import expect_answer

            expect_answer(tx, parent_id, letter_id)
        return True

    @writes
    def mark_delivered(self, tx: Transaction, session_ids: Sequence[str]) -> bool:
        """Note that whoever waits was told of these ends; return whether that was not noted before."""
        return _mark_delivered(tx, session_ids)

    @reads
    def find_root_turn(self, tx: Transaction, session_id: str, turn_id: str) -> str:
        """Return the turn in which a person has asked for what a turn of a session at the top does: the turn itself, or
        the one whose reports have woken it. What all below it may use is counted by that, so nothing goes on for ever.
        """
        query = "SELECT body FROM messages WHERE session_id = ? AND turn_id = ? AND role = 'user' ORDER BY id LIMIT 1"
        body = tx.execute(query, (session_id, turn_id)).get
        if body is None or not brings_reports(_MESSAGE.decode(bytes(body))):
            return turn_id
        query = (
            "SELECT root_turn_id FROM sub_agents WHERE parent_id = ? AND call_id <> '' AND delivery = 'delivered'"
            " ORDER BY ended_at DESC, number DESC LIMIT 1"
        )
        return str(tx.execute(query, (session_id,)).get or turn_id)

    @reads
    def get(self, tx: Transaction, session_id: str) -> SubAgentRow | None:
        """Return the sub-agent with this session, or None."""
        return _select_one(tx, session_id)

    @reads
    def list_call(self, tx: Transaction, row: SubAgentRow) -> list[SubAgentRow]:
        """Return the sub-agents of the call that a sub-agent is of, in order; those of a person are each alone."""
        if not row.call_id:
            return _select_rows(tx, "session_id = ?", (row.session_id,))
        return _select_rows(tx, f"{_SAME_CALL} ORDER BY position", (row.parent_id, row.message_id, row.call_id))

    @reads
    def list_open(self, tx: Transaction, parent_id: str) -> list[SubAgentRow]:
        """Return the sub-agents of a session that have not ended, or whose reports are still to be delivered."""
        return _select_rows(tx, f"parent_id = ? AND ({_OPEN}) ORDER BY number", (parent_id,))

    @reads
    def list_tree(self, tx: Transaction, root_id: str) -> list[SubAgentRow]:
        """Return all sub-agents below a session, in the order in which they were asked for."""
        return _select_rows(tx, "root_id = ? ORDER BY number", (root_id,))

    @reads
    def list_for_person(self, tx: Transaction, parent_id: str) -> list[SubAgentRow]:
        """Return the sub-agents of a session that a person has asked for, in order."""
        return _select_rows(tx, "parent_id = ? AND message_id IS NULL AND call_id = '' ORDER BY number", (parent_id,))

    @reads
    def list_trees(self, tx: Transaction, root_ids: Sequence[str]) -> list[SubAgentRow]:
        """Return all sub-agents below these sessions, in the order in which they were asked for."""
        return _select_rows(tx, f"root_id IN ({_list_marks(root_ids)}) ORDER BY root_id, number", tuple(root_ids))

    @reads
    def list_below(self, tx: Transaction, session_id: str) -> list[str]:
        """Return the stored sessions of the sub-agents of a session and of theirs: what is deleted with it."""
        return list_sessions_below(tx, session_id)

    @reads
    def list_open_roots(self, tx: Transaction) -> list[str]:
        """Return the sessions below which sub-agents have not ended, or reports are still to be delivered."""
        return [str(row[0]) for row in tx.execute(f"SELECT DISTINCT root_id FROM sub_agents WHERE {_OPEN}")]

    @reads
    def read_end(self, tx: Transaction, session_id: str) -> StoredEnd | None:
        """Return how a session's last turn ended and what it answered; None when it has none, or one runs."""
        turn = tx.execute(
            "SELECT id, reason, error, ended_at FROM turns WHERE session_id = ? ORDER BY rowid DESC LIMIT 1",
            (session_id,),
        ).fetchone()
        if turn is None or turn[3] is None:
            return None
        return StoredEnd(
            turn_id=str(turn[0]),
            reason=ExitReason(str(turn[1])),
            error=str(turn[2]),
            text=_read_answer(tx, str(turn[0])),
            steps=_count_calls(tx, session_id),
        )

    @reads
    def count_calls(self, tx: Transaction, session_id: str) -> int:
        """Return the model calls that the ended turns of a session have made."""
        return _count_calls(tx, session_id)

    @reads
    def sum_cost(self, tx: Transaction, session_id: str) -> Cost:
        """Return what the calls of a session and of its sub-agents have cost."""
        row = tx.execute(
            "SELECT coalesce(sum(nano), 0), count(*) FILTER (WHERE nano IS NULL), count(*) FROM spend"
            " WHERE session_id = ?",
            (session_id,),
        ).fetchone()
        assert row is not None
        own = Cost(nano=int(row[0]), certainty=Certainty.UNKNOWN if row[1] else Certainty.COMPUTED)
        below = _select_rows(tx, "parent_id = ? AND ended_at IS NOT NULL", (session_id,))
        return sum((one.report.cost for one in below), own if row[2] else Cost())


def list_sessions_below(tx: Transaction, session_id: str) -> list[str]:
    """Return the stored sessions of the sub-agents of a session and of theirs."""
    rows = tx.execute(
        "WITH RECURSIVE below (id) AS (SELECT session_id FROM sub_agents WHERE parent_id = ?1"
        " UNION SELECT one.session_id FROM sub_agents AS one JOIN below ON one.parent_id = below.id)"
        " SELECT id FROM below WHERE id IN (SELECT id FROM sessions)",
        (session_id,),
    )
    return [str(row[0]) for row in rows]


_OPEN = "ended_at IS NULL OR delivery IN ('inbox', 'person')"


def _count_calls(tx: Transaction, session_id: str) -> int:
    return _get_number(tx, "SELECT coalesce(sum(calls), 0) FROM turns WHERE session_id = ?", session_id)


def _count_steps(tx: Transaction, root_id: str, root_turn_id: str) -> int:
    """Return the steps that are used, or reserved, below one turn of the session at the top."""
    query = "SELECT coalesce(sum(steps), 0) FROM sub_agents WHERE root_id = ? AND root_turn_id = ?"
    return _get_number(tx, f"{query} AND (started_at IS NOT NULL OR ended_at IS NOT NULL)", root_id, root_turn_id)


def _end_below(tx: Transaction, session_id: str) -> None:
    """End what is left of the sub-agents of one that has ended: nobody opens its session again to take them up."""
    below = "SELECT session_id FROM sub_agents WHERE parent_id = ? AND ended_at IS NULL"
    for (child,) in tx.execute(below, (session_id,)).fetchall():
        _end_below(tx, str(child))
        tx.execute(
            "UPDATE sub_agents SET state = ?, report = ?, ended_at = ?,"
            " steps = CASE WHEN started_at IS NULL THEN 1 ELSE steps END WHERE session_id = ?",
            (SubAgentState.STOPPED, to_json(_LEFT), tx.now, child),
        )
    tx.execute(
        "UPDATE sub_agents SET delivery = 'delivered' WHERE parent_id = ? AND delivery IN ('inbox', 'person')",
        (session_id,),
    )


def _mark_delivered(tx: Transaction, session_ids: Sequence[str]) -> bool:
    return tx.change_any(
        "UPDATE sub_agents SET delivery = 'delivered' WHERE delivery IN ('inbox', 'person') AND ended_at IS NOT NULL"
        f" AND session_id IN ({_list_marks(session_ids)})",
        tuple(session_ids),
    )


def _read_answer(tx: Transaction, turn_id: str) -> str:
    """Return what a turn's model has said last, joined where it came in pieces; notes of Hermes do not count."""
    query = "SELECT body FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY position, id"
    said, pieces = "", list[str]()
    for (body,) in tx.execute(query, (turn_id,)):
        message = _MESSAGE.decode(bytes(body))
        if message.synthetic:
            continue
        if any(message.tool_calls()):
            said, pieces = message.text.strip() or said, []
        else:
            pieces.append(message.text)
    return "".join(pieces).strip() or said


def _list_marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _get_number(tx: Transaction, query: str, *values: str) -> int:
    return int(str(tx.execute(query, values).get))


def _select_one(tx: Transaction, session_id: str) -> SubAgentRow | None:
    return next(iter(_select_rows(tx, "session_id = ?", (session_id,))), None)


def _select_rows(tx: Transaction, where: str, values: Sequence[object]) -> list[SubAgentRow]:
    return [
        to_value(SubAgentRow, (*row[:-2], _decode(row[-2], SubAgentTask(goal="")), _decode(row[-1], SubAgentReport())))
        for row in tx.execute(f"{_SELECT} WHERE {where}", values)
    ]


def _decode(stored: object, missing: Value) -> Value:
    """Return a stored value; `missing` where there is none."""
    return msgspec.json.decode(stored, type=type(missing)) if isinstance(stored, bytes) else missing
