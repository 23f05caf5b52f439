"""The outbox: messages that are retried until delivered. Each step is one transaction."""

from collections.abc import Sequence

import msgspec

from hermes.core.chats import (
    Delivery,
    DeliveryState,
    OutboxItem,
    Outgoing,
)
from hermes.core.encoding import to_json
from hermes.store.repository import Repository, Transaction, reads, to_value, writes

_OPEN = "state IN ('open', 'pending', 'attempting')"
_DUE = f"{_OPEN} AND state <> 'open'"
"""SQLite uses the index of open deliveries only where the index's own condition stands in the query word for word: it
would read all that was ever delivered instead."""


class OutboxRepository(Repository):
    """Store operations for the outbox."""

    @writes
    def enqueue(
        self, tx: Transaction, items: Sequence[OutboxItem], *, answered: str = "", outcome: str = "answered"
    ) -> list[int]:
        """Put messages into the outbox, all at once; return their numbers.

        An open one is about to be shown: until it is known what is shown of it, or that nothing is, it may be on the
        platform. A pending message of the same key is replaced and keeps its message id; one that has ended under the
        key is not sent again (its number is 0).

        With `answered` the events that this turn answers are closed, and so is what it had open and is not named here.
        """
        numbers = [enqueue_item(tx, one) for one in items]
        if answered:
            tx.execute(
                "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL WHERE turn_id = ? AND state = 'posted'",
                (outcome, answered),
            )
            tx.execute(
                "UPDATE deliveries SET state = 'delivered', ended_at = ?, body = NULL, first = NULL"
                " WHERE turn_id = ? AND state = 'open'",
                (tx.now, answered),
            )
        return numbers

    @reads
    def find_open(self, tx: Transaction, turn_id: str) -> Delivery | None:
        """Return the delivery that a turn was writing last when its process died, or None."""
        rows = _select_deliveries(tx, "turn_id = ? AND state = 'open' ORDER BY id DESC LIMIT 1", turn_id)
        return rows[0] if rows else None

    @reads
    def get_state(self, tx: Transaction, key: str) -> tuple[DeliveryState, str] | None:
        """Return the state of the delivery of this key and the id of the message that is shown of it, or None."""
        row = tx.execute("SELECT state, message_id FROM deliveries WHERE key = ?", (key,)).fetchone()
        return None if row is None else (DeliveryState(str(row[0])), str(row[1]))

    @reads
    def list_due(self, tx: Transaction, lane: str, limit: int) -> list[Delivery]:
        """Return the messages to be sent in a lane, in order, without those that are still being written."""
        return _select_deliveries(tx, f"lane = ? AND {_DUE} ORDER BY id LIMIT ?", lane, limit)

    @reads
    def list_pending_lanes(self, tx: Transaction, platform: str) -> list[str]:
        """Return the lanes that have undelivered messages, oldest first."""
        return [
            str(lane)
            for (lane,) in tx.execute(
                f"SELECT lane FROM deliveries WHERE platform = ? AND {_DUE} GROUP BY lane ORDER BY min(id)",
                (platform,),
            )
        ]

    @writes
    def mark_attempting(self, tx: Transaction, number: int) -> None:
        """Record that a message is about to be sent."""
        tx.execute("UPDATE deliveries SET state = 'attempting', attempts = attempts + 1 WHERE id = ?", (number,))

    @writes
    def mark_unsent(self, tx: Transaction, number: int) -> None:
        """Record that nothing is shown of a message that is still being written: the platform did not take it."""
        tx.execute("UPDATE deliveries SET attempts = 0 WHERE id = ?", (number,))

    @writes
    def mark_shown(self, tx: Transaction, number: int, message_id: str) -> None:
        """Record what is shown of a message that is still being written."""
        tx.execute("UPDATE deliveries SET message_id = ? WHERE id = ?", (message_id, number))

    @writes
    def settle(
        self, tx: Transaction, number: int, state: DeliveryState, *, message_id: str = "", error: str = ""
    ) -> None:
        """Record a message's state. When that is final, its text is deleted."""
        tx.execute(
            "UPDATE deliveries SET state = ?1, message_id = iif(?2 = '', message_id, ?2), error = ?3,"
            " ended_at = iif(?4, ?5, NULL), body = iif(?4, NULL, body), first = iif(?4, NULL, first)"
            " WHERE id = ?6",
            (state, message_id, error, state.is_final, tx.now, number),
        )

    @writes
    def postpone(
        self, tx: Transaction, number: int, until: float, error: str, message: Outgoing, state: DeliveryState
    ) -> None:
        """Schedule the next attempt for `until`, with the message in this form. It stays `attempting` where it may have
        arrived.
        """
        body = to_json(message)
        tx.execute(
            "UPDATE deliveries SET state = ?, next_at = ?, error = ?, body = ? WHERE id = ?",
            (state, until, error, body, number),
        )

    @reads
    def count_by_state(self, tx: Transaction) -> dict[tuple[str, str], int]:
        """Return the number of deliveries by platform and state."""
        rows = tx.execute("SELECT platform, state, count(*) FROM deliveries GROUP BY 1, 2")
        return {(str(platform), str(state)): int(count) for platform, state, count in rows}

    @reads
    def get_oldest_pending_time(self, tx: Transaction) -> float | None:
        """Return when the oldest undelivered message was made, or None when there is none."""
        found = tx.execute(f"SELECT min(made_at) FROM deliveries WHERE {_OPEN}").get
        return None if found is None else float(found)


def enqueue_item(tx: Transaction, item: OutboxItem) -> int:
    """Put one message into the outbox; return its number, 0 where one of its key has ended."""
    number = tx.execute(
        "INSERT INTO deliveries (key, platform, lane, session_id, turn_id, body, state, next_at, made_at,"
        " attempts, first) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, iif(?7 = 'open', 1, 0),"
        " iif(?7 = 'open', ?6, NULL)) ON CONFLICT (key) DO UPDATE"
        " SET body = excluded.body, next_at = excluded.next_at, state = iif(deliveries.state = 'open'"
        " AND message_id = '' AND attempts > 0 AND excluded.state = 'pending', 'attempting',"
        " excluded.state)"
        f" WHERE {_OPEN} RETURNING id",
        (
            item.key,
            item.message.place.platform,
            item.message.place.lane,
            item.session_id,
            item.turn_id,
            to_json(item.message),
            item.state,
            tx.now,
            tx.now,
        ),
    ).get
    return 0 if number is None else int(number)


def _select_deliveries(tx: Transaction, where: str, *values: object) -> list[Delivery]:
    rows = tx.execute(
        "SELECT id, key, lane, body, state, first, message_id, attempts, next_at, made_at, turn_id FROM deliveries"
        f" WHERE {where}",
        values,
    )
    return [
        to_value(Delivery, (*row[:3], _decode_message(row[3]), row[4], row[5] and _decode_message(row[5]), *row[6:]))
        for row in rows
    ]


def _decode_message(body: bytes) -> Outgoing:
    return msgspec.json.decode(body, type=Outgoing)
