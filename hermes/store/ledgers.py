"""The ledgers that model calls of all processes share: money spent and reserved, cooldowns and use counts of API keys.

No key is stored.
"""

import contextlib
from asyncio import Future
from collections.abc import Callable, Sequence

import apsw

from hermes.core.errors import HermesError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import KeyCooldown, KeyNotes
from hermes.core.usage import NANO_PER_USD, Certainty, Usage, compute_affordable_output, compute_worst_cost
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
from hermes.store.repository import (
    Repository,
    Transaction,
    as_method,
    joins_next,
    queues,
    reads,
    to_value,
    writes,
)
from hermes.util.process_identity import is_alive

RESERVED = "reserved"
"""The certainty of a row whose call is under way."""
_TOKENS = "input_tokens + output_tokens"
_OPEN = "owner IS NOT NULL"
_COLUMNS = frozenset({"run_id", "session_id", "user_id"})
_INSERT = (
    "INSERT INTO spend (at, session_id, turn_id, purpose, provider, model, run_id, root_id, owner, user_id,"
    " input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_usd, nano, certainty)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce((SELECT user_id FROM sessions WHERE id = ?), ''),"
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
_MODEL, _SESSION, _MOMENT = "provider || '/' || model", "coalesce(session_id, '')", "at, 'unixepoch', 'localtime'"
_KINDS = {
    "": "''",
    "model": _MODEL,
    "session": _SESSION,
    "session_model": f"{_SESSION} || ' ' || {_MODEL}",
    "day": f"strftime('%Y-%m-%d', {_MOMENT})",
    "hour": f"strftime('%w %H', {_MOMENT})",
    "purpose": "purpose",
}
"""The expressions over a call's columns by which totals are summed."""


def record_spend(tx: Transaction, who: SpendOrigin, spent: CallSpend) -> None:
    """Store the cost of a call that had no reservation."""
    tx.execute(_INSERT, (*_make_origin_values(who, tx.now), None, who.session_id, *_make_spend_values(spent)))


def reserve_spend(
    tx: Transaction, who: SpendOrigin, request: SpendRequest, caps: Sequence[SpendCap]
) -> SpendReservation | SpendRefusal:
    """Reserve the worst case of a call under every cap, its output lowered to what they leave; or nothing at all."""
    standings = [get_cap_usage(tx, cap) for cap in caps]
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
    tx.execute(_INSERT, (*_make_origin_values(who, tx.now), who.owner, who.session_id, *values))
    lowered = tightest if fitting < request.output else None
    return SpendReservation(id=tx.connection.last_insert_rowid(), output=fitting, tightest=lowered)


def settle_spend(tx: Transaction, reservation_id: int, spent: CallSpend | None) -> None:
    """Store a call's cost in place of its reservation, even after its process was taken for dead; None means that
    the call was not served.
    """
    if spent is None:
        tx.execute("DELETE FROM spend WHERE id = ?", (reservation_id,))
    else:
        tx.execute(_UPDATE, (*_make_spend_values(spent), reservation_id))


def settle_lost_spend(tx: Transaction, is_alive: Callable[[str], bool], own: str) -> int:
    """Settle reservations of processes that died at their worst case; return how many calls that are."""
    count = 0
    owners = tx.execute(f"SELECT DISTINCT owner FROM spend WHERE {_OPEN} AND owner <> ?", (own,)).fetchall()
    for (owner,) in owners:
        if not is_alive(str(owner)):
            tx.execute(
                "UPDATE spend SET owner = NULL, certainty = ? WHERE owner = ?", (Certainty.UPPER_BOUND.value, owner)
            )
            count += tx.changes()
    return count


def get_cap_usage(tx: Transaction, cap: SpendCap) -> CapUsage:
    """Return what was spent and is reserved under a cap."""
    where, values = _build_cap_condition(cap)
    rows = tx.execute(
        f"SELECT {_OPEN}, {_NANO}, coalesce(sum({_TOKENS}), 0) FROM spend WHERE {where} GROUP BY {_OPEN}", values
    )
    found = {bool(row[0]): (int(row[1]) * NANO_PER_USD + int(row[2]), int(row[3])) for row in rows}
    (nano, tokens), (held_nano, held_tokens) = (found.get(is_open, (0, 0)) for is_open in (False, True))
    return CapUsage(cap=cap, nano=nano, tokens=tokens, held_nano=held_nano, held_tokens=held_tokens)


def list_spend_totals(
    tx: Transaction, since: float, *, session_id: str | None = None, root_id: str | None = None, by: str = ""
) -> list[SpendTotal]:
    """Return sums of settled calls from `since` on, the dearest first: one, or one for each `by` `model`,
    `session`, `session_model`, `day`, `hour` or `purpose`. They are those of a session, or with `root_id` those of the
    sub-agents below one.

    The key of `session_model` is the session's id, a space, and the model's key; a day's is its local date,
    an hour's its local day of the week (0 is Sunday), a space, and its two digits.
    """
    where, values = _build_time_condition(since, session_id)
    if root_id is not None:
        where, values = f"{where} AND root_id = ?", (*values, root_id)
    rows = tx.execute(
        f"SELECT {_KINDS[by]} AS kind, count(*), {_SUMS}, {_NANO},"
        " count(*) FILTER (WHERE certainty = 'reported'), count(*) FILTER (WHERE certainty = 'upper_bound'),"
        " count(*) FILTER (WHERE certainty = 'unknown')"
        f" FROM spend WHERE {where} AND owner IS NULL GROUP BY kind ORDER BY total(nano) DESC, total({_TOKENS}) DESC",
        values,
    )
    return [
        to_value(SpendTotal, (*row[:2], Usage(*row[2:8]), row[8] * NANO_PER_USD + row[9], *row[10:])) for row in rows
    ]


class SpendingRepository(Repository):
    """The cost of model calls, kept when their session is deleted, and reservations for calls under way."""

    record = joins_next(as_method(record_spend))
    settle = joins_next(as_method(settle_spend))
    list_totals = reads(as_method(list_spend_totals))

    @queues
    def reserve(
        self, tx: Transaction, who: SpendOrigin, request: SpendRequest, caps: Sequence[SpendCap]
    ) -> SpendReservation | SpendRefusal:
        """Queue the reservation of a call's worst case under every cap: all of them, or none.

        Reservations of processes that died are settled first. One transaction, so several processes cannot
        reserve the same room.
        """
        settle_lost_spend(tx, is_alive, who.owner)
        return reserve_spend(tx, who, request, caps)

    @writes
    def settle_lost(self, tx: Transaction, own: str = "") -> int:
        """Settle reservations of processes that died at their worst case; return how many calls that are."""
        return settle_lost_spend(tx, is_alive, own)

    @reads
    def list_cap_usage(self, tx: Transaction, caps: Sequence[SpendCap]) -> list[CapUsage]:
        """Return what was spent and is reserved under each cap."""
        return [get_cap_usage(tx, cap) for cap in caps]

    @reads
    def sum_usage(self, tx: Transaction, since: float, *, session_id: str | None = None) -> Usage:
        """Return the sum of model calls from `since` on, of one session or of all."""
        where, values = _build_time_condition(since, session_id)
        row = tx.execute(f"SELECT {_SUMS} FROM spend WHERE {where}", values).fetchone()
        return Usage(*row) if row is not None else Usage()

    @reads
    def list_tool_totals(self, tx: Transaction, since: float) -> list[ToolTotal]:
        """Return calls of tools by tool, the most used first, with the time of those whose end is known."""
        return tx.select_all(
            ToolTotal,
            "SELECT tool, count(*), coalesce(total(done_at - intended_at), 0), count(done_at),"
            " count(*) FILTER (WHERE state = 'uncertain')"
            " FROM effects WHERE intended_at >= ? GROUP BY tool ORDER BY count(*) DESC, tool",
            (since,),
        )

    @reads
    def get_session_total(self, tx: Transaction, since: float) -> SessionTotal:
        """Return the numbers of sessions with messages, of turns and of failed turns from `since` on."""
        count = tx.execute(
            "SELECT count(*) FROM sessions WHERE updated_at >= ? AND message_count > 0 AND end_reason <> 'compression'",
            (since,),
        ).get
        row = tx.execute(
            "SELECT count(*), count(*) FILTER (WHERE error <> '') FROM turns WHERE started_at >= ?", (since,)
        ).fetchone()
        turns, failed = row if row is not None else (0, 0)
        return SessionTotal(sessions=int(str(count)), turns=turns, failed=failed)

    @reads
    def list_open_calls(self, tx: Transaction) -> list[OpenCall]:
        """Return the calls that hold a reservation now, the oldest first."""
        return tx.select_all(
            OpenCall,
            f"SELECT at, provider, model, coalesce(session_id, ''), nano, {_TOKENS} FROM spend"
            f" WHERE {_OPEN} ORDER BY id",
        )


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
    if cap.column == "root_id":
        return "(session_id = ?1 OR root_id = ?1)", (cap.value,)
    assert cap.column in _COLUMNS
    if cap.column == "user_id":
        return "user_id = coalesce((SELECT user_id FROM sessions WHERE id = ?), '')", (cap.value,)
    return f"{cap.column} = ?", (cap.value,)


def _build_time_condition(since: float, session_id: str | None) -> tuple[str, tuple[float] | tuple[float, str]]:
    return ("at >= ?", (since,)) if session_id is None else ("at >= ? AND session_id = ?", (since, session_id))


def _make_origin_values(who: SpendOrigin, now: float) -> tuple[float | str | None, ...]:
    return now, who.session_id, who.turn_id, who.purpose, who.provider, who.model, who.run_id, who.root_id


def _make_spend_values(spent: CallSpend) -> tuple[int, int, int, int, int, float | None, int | None, str]:
    usage, cost = spent.usage, spent.cost
    nano = None if cost.certainty is Certainty.UNKNOWN else cost.nano
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
    return (*counts, usage.cost_usd, nano, cost.certainty.value)


class KeyRepository(Repository):
    """The shared ledger of keys (`core.protocols.KeyLedger`)."""

    has_notes = True
    """Whether anything was noted when the store was opened."""

    @reads
    def read_notes(self, tx: Transaction, provider: str) -> KeyNotes:
        """Return all that is noted about the provider's keys."""
        salt = str(tx.execute("SELECT value FROM meta WHERE key = 'id'").get)
        rows = tx.execute(
            "SELECT slot, mark, model, kind, began_at, seconds, said FROM key_cooldowns WHERE provider = ?", (provider,)
        )
        cooldowns = tuple(to_value(KeyCooldown, (*row[:3], _parse_kind(str(row[3])), *row[4:])) for row in rows)
        uses = tx.execute("SELECT slot, uses FROM key_uses WHERE provider = ?", (provider,))
        return KeyNotes(salt=salt, cooldowns=cooldowns, uses={str(slot): int(count) for slot, count in uses})

    @writes
    def cool(self, tx: Transaction, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
        """Store cooldowns, replacing those of the same key and model; delete those that ended before `now`."""
        tx.execute("DELETE FROM key_cooldowns WHERE began_at + seconds <= ?", (now,))
        tx.executemany(
            "REPLACE INTO key_cooldowns (provider, slot, mark, model, kind, began_at, seconds, said)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (provider, one.slot, one.mark, one.model, one.kind.value, one.began_at, one.seconds, int(one.said))
                for one in cooldowns
            ],
        )

    @writes
    def clear(self, tx: Transaction, provider: str | None, slot: str | None = None, *, model: str | None = None) -> int:
        """Delete cooldowns of a provider and of a slot (None: of all), for a model and for all models (None: for any).

        Returns how many there were.
        """
        return tx.change_rows(
            "DELETE FROM key_cooldowns WHERE (?1 IS NULL OR provider = ?1) AND (?2 IS NULL OR slot = ?2)"
            " AND (?3 IS NULL OR model IN ('', ?3))",
            (provider, slot, model),
        )

    def count_use(self, provider: str, slot: str) -> None:
        """Count one use; it reaches the disk soon, and nobody waits for it."""
        with contextlib.suppress(HermesError):  # a full queue: the count is a hint, the call matters
            self._add_use(provider, slot).add_done_callback(_consume_error)

    @joins_next
    def _add_use(self, tx: Transaction, provider: str, slot: str) -> None:
        tx.execute("INSERT INTO key_uses VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET uses = uses + 1", (provider, slot))


def has_any_key_notes(connection: apsw.Connection) -> bool:
    """Return whether anything is noted about any key."""
    query = "SELECT EXISTS (SELECT 1 FROM key_cooldowns) OR EXISTS (SELECT 1 FROM key_uses)"
    return bool(connection.execute(query).get)


def _parse_kind(name: str) -> FailureKind:
    """Return the kind of a failure; one that a newer program has written is only known to be some failure."""
    try:
        return FailureKind(name)
    except ValueError:
        return FailureKind.UNKNOWN


def _consume_error(counted: "Future[None]") -> None:
    """Consume the error of a count, so that nobody logs it."""
    if not counted.cancelled():
        counted.exception()
