"""The cost of model calls, and reservations for those under way: functions over a connection."""

from collections.abc import Callable, Sequence

import apsw

from hermes.core.money import NANO_PER_USD, Certainty, compute_affordable_output, compute_worst_cost
from hermes.core.usage import Usage
from hermes.store.records import (
    CallSpend,
    CapUsage,
    OpenCall,
    SessionTotal,
    SpendCap,
    SpendOrigin,
    SpendRefusal,
    SpendRequest,
    SpendReservation,
    SpendTotal,
    ToolTotal,
)

RESERVED = "reserved"
"""The certainty of a row whose call is under way."""
_TOKENS = "input_tokens + output_tokens"
_OPEN = "owner IS NOT NULL"
_COLUMNS = frozenset({"run_id", "session_id", "user_id"})
_INSERT = (
    "INSERT INTO spend (at, session_id, turn_id, purpose, provider, model, run_id, owner, user_id, input_tokens,"
    " output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd, nano, certainty)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT user_id FROM sessions WHERE id = ?), ''),"
    " ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE spend SET owner = NULL, input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?,"
    " reasoning_tokens = ?, cost_usd = ?, nano = ?, certainty = ? WHERE id = ?"
)
_NANO = f"coalesce(sum(nano / {NANO_PER_USD}), 0), coalesce(sum(nano % {NANO_PER_USD}), 0)"
"""Whole dollars and the rest, summed separately: SQLite's `sum` fails where it overflows."""
_SUMS = (
    "coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0),"
    " coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0), sum(cost_usd)"
)


def record_spend(connection: apsw.Connection, who: SpendOrigin, spent: CallSpend, now: float) -> None:
    """Store a call that had no reservation."""
    connection.execute(_INSERT, (*_make_origin_values(who, now), None, who.session_id, *_make_spend_values(spent)))


def reserve_spend(
    connection: apsw.Connection, who: SpendOrigin, request: SpendRequest, caps: Sequence[SpendCap], now: float
) -> SpendReservation | SpendRefusal:
    """Reserve the worst case of a call under every cap, its output lowered to what they leave; or nothing at all."""
    standings = [get_cap_usage(connection, cap) for cap in caps]
    rooms = [_count_room(each, request, settled=False) for each in standings]
    room, later = min(rooms), min(_count_room(each, request, settled=True) for each in standings)
    tightest = standings[rooms.index(room)]
    fitting = min(room, request.output)
    if request.share:
        fitting = min(fitting, max(request.enough, room // 4))
    may_come = later > room
    if fitting < (request.enough if may_come and later >= request.enough else request.least):
        return SpendRefusal(tightest=tightest, may_come=may_come and later >= request.least)
    spent = Usage(input=request.prompt, output=fitting)
    nano = None if request.price is None else compute_worst_cost(request.prompt, fitting, request.price)
    values = (spent.input, spent.output, 0, 0, 0, None, nano, RESERVED)
    connection.execute(_INSERT, (*_make_origin_values(who, now), who.owner, who.session_id, *values))
    lowered = tightest if fitting < request.output else None
    return SpendReservation(id=connection.last_insert_rowid(), output=fitting, tightest=lowered)


def settle_spend(connection: apsw.Connection, reservation_id: int, spent: CallSpend) -> None:
    """Store a call's cost in place of its reservation, even after its process was taken for dead."""
    connection.execute(_UPDATE, (*_make_spend_values(spent), reservation_id))


def release_spend(connection: apsw.Connection, reservation_id: int) -> None:
    """Delete the reservation of a call that was not served."""
    connection.execute("DELETE FROM spend WHERE id = ?", (reservation_id,))


def settle_lost_spend(connection: apsw.Connection, is_alive: Callable[[str], bool], own: str) -> int:
    """Settle reservations of processes that died at their worst case; return how many calls that are."""
    count = 0
    owners = connection.execute(f"SELECT DISTINCT owner FROM spend WHERE {_OPEN} AND owner <> ?", (own,)).fetchall()
    for (owner,) in owners:
        if not is_alive(str(owner)):
            connection.execute(
                "UPDATE spend SET owner = NULL, certainty = ? WHERE owner = ?", (Certainty.UPPER_BOUND.value, owner)
            )
            count += connection.changes()
    return count


def get_cap_usage(connection: apsw.Connection, cap: SpendCap) -> CapUsage:
    """Return what was spent and is reserved under a cap."""
    where, values = _build_cap_condition(cap)
    rows = connection.execute(
        f"SELECT {_OPEN}, {_NANO}, coalesce(sum({_TOKENS}), 0) FROM spend WHERE {where} GROUP BY {_OPEN}", values
    )
    found = {bool(row[0]): (int(row[1]) * NANO_PER_USD + int(row[2]), int(row[3])) for row in rows}
    (nano, tokens), (held_nano, held_tokens) = (found.get(is_open, (0, 0)) for is_open in (False, True))
    return CapUsage(cap=cap, nano=nano, tokens=tokens, held_nano=held_nano, held_tokens=held_tokens)


def sum_usage(connection: apsw.Connection, since: float, *, session_id: str | None = None) -> Usage:
    """Return the sum of model calls from `since` on, of one session or of all."""
    where, values = _build_time_condition(since, session_id)
    row = connection.execute(f"SELECT {_SUMS} FROM spend WHERE {where}", values).fetchone()
    return Usage(*row) if row is not None else Usage()


def list_spend_totals(
    connection: apsw.Connection, since: float, *, session_id: str | None, by: str = "''"
) -> list[SpendTotal]:
    """Return sums of settled calls by an expression over their columns, the dearest first."""
    where, values = _build_time_condition(since, session_id)
    rows = connection.execute(
        f"SELECT {by} AS kind, count(*), {_SUMS}, {_NANO},"
        " count(*) FILTER (WHERE certainty = 'reported'), count(*) FILTER (WHERE certainty = 'upper_bound'),"
        " count(*) FILTER (WHERE certainty = 'unknown')"
        f" FROM spend WHERE {where} AND owner IS NULL GROUP BY kind ORDER BY total(nano) DESC, total({_TOKENS}) DESC",
        values,
    )
    return [
        SpendTotal(
            key=row[0],
            calls=row[1],
            usage=Usage(*row[2:8]),
            nano=int(row[8]) * NANO_PER_USD + int(row[9]),
            reported=row[10],
            bounds=row[11],
            uncounted=row[12],
        )
        for row in rows
    ]


def list_tool_totals(connection: apsw.Connection, since: float) -> list[ToolTotal]:
    """Return calls of tools by tool, the most used first, with the time of those whose end is known."""
    rows = connection.execute(
        "SELECT tool, count(*), coalesce(total(done_at - intended_at), 0), count(done_at),"
        " count(*) FILTER (WHERE state = 'uncertain')"
        " FROM effects WHERE intended_at >= ? GROUP BY tool ORDER BY count(*) DESC, tool",
        (since,),
    )
    return [ToolTotal(tool=row[0], calls=row[1], seconds=row[2], ended=row[3], uncertain=row[4]) for row in rows]


def get_session_total(connection: apsw.Connection, since: float) -> SessionTotal:
    """Return the numbers of sessions with messages since then, and of turns begun since then, with the failed ones."""
    count = connection.execute(
        "SELECT count(*) FROM sessions WHERE updated_at >= ? AND message_count > 0 AND end_reason <> 'compression'",
        (since,),
    ).get
    row = connection.execute(
        "SELECT count(*), count(*) FILTER (WHERE error <> '') FROM turns WHERE started_at >= ?", (since,)
    ).fetchone()
    turns, failed = row if row is not None else (0, 0)
    return SessionTotal(sessions=int(str(count)), turns=turns, failed=failed)


def list_open_calls(connection: apsw.Connection) -> list[OpenCall]:
    """Return the calls that hold a reservation now, the oldest first."""
    rows = connection.execute(
        f"SELECT at, provider, model, coalesce(session_id, ''), nano, {_TOKENS} FROM spend WHERE {_OPEN} ORDER BY id"
    )
    return [
        OpenCall(at=row[0], provider=row[1], model=row[2], session_id=row[3], nano=row[4], tokens=row[5])
        for row in rows
    ]


def _count_room(standing: CapUsage, request: SpendRequest, *, settled: bool) -> int:
    """Return the output that fits under a cap now or, with `settled`, once calls under
    way have ended and cost nothing.
    """
    cap, room = standing.cap, 1 << 40
    held_tokens, held_nano = (0, 0) if settled else (standing.held_tokens, standing.held_nano)
    if cap.tokens is not None:
        room = min(room, cap.tokens - standing.tokens - held_tokens - request.prompt)
    if cap.nano is not None and request.price is not None:
        room = min(room, compute_affordable_output(request.prompt, cap.nano - standing.nano - held_nano, request.price))
    return room


def _build_cap_condition(cap: SpendCap) -> tuple[str, tuple[str | float, ...]]:
    if not cap.column:
        return "at >= ?", (cap.since,)
    if cap.column == "person":  # by the time: a day has few calls, a person many
        return "at >= ? AND +user_id = ?", (cap.since, cap.value)
    assert cap.column in _COLUMNS
    if cap.column == "user_id":
        return "user_id = coalesce((SELECT user_id FROM sessions WHERE id = ?), '')", (cap.value,)
    return f"{cap.column} = ?", (cap.value,)


def _build_time_condition(since: float, session_id: str | None) -> tuple[str, tuple[float] | tuple[float, str]]:
    return ("at >= ?", (since,)) if session_id is None else ("at >= ? AND session_id = ?", (since, session_id))


def _make_origin_values(who: SpendOrigin, now: float) -> tuple[float, str, str | None, str, str, str, str]:
    return now, who.session_id, who.turn_id, who.purpose, who.provider, who.model, who.run_id


def _make_spend_values(spent: CallSpend) -> tuple[int, int, int, int, int, float | None, int | None, str]:
    usage, cost = spent.usage, spent.cost
    nano = None if cost.certainty is Certainty.UNKNOWN else cost.nano
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
    return (*counts, usage.cost_usd, nano, cost.certainty.value)
