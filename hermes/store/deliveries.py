"""The outbox: messages that are retried until delivered. Each step is one transaction."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes.core.chats import (
    Delivery,
    DeliveryState,
    OutboxItem,
    Outgoing,
)
from hermes.store.access import StoreAccess

_DUE = "state IN ('pending', 'attempting')"
_OPEN = "state IN ('open', 'pending', 'attempting')"


class OutboxAccess(StoreAccess):
    """Store operations for the outbox."""

    async def enqueue_deliveries(
        self, items: Sequence[OutboxItem], *, answered: str = "", outcome: str = "answered"
    ) -> list[int]:
        """Put messages into the outbox, all at once; return their numbers.

        An open one is about to be shown: until it is known what is shown of it, or that nothing is, it may be on the
        platform. A pending message of the same key is replaced and keeps its message id; one that has ended under the
        key is not sent again (its number is 0).

        With `answered` the events that this turn answers are closed, and so is what it had open and is not named here.
        """
        now = self._clock.now()

        def upsert_deliveries(connection: apsw.Connection) -> list[int]:
            numbers = []
            for one in items:
                number = connection.execute(
                    "INSERT INTO deliveries (key, platform, lane, session_id, turn_id, body, state, next_at, made_at,"
                    " attempts, first) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, iif(?7 = 'open', 1, 0),"
                    " iif(?7 = 'open', ?6, NULL)) ON CONFLICT (key) DO UPDATE"
                    " SET body = excluded.body, next_at = excluded.next_at, state = iif(deliveries.state = 'open'"
                    " AND message_id = '' AND attempts > 0 AND excluded.state = 'pending', 'attempting',"
                    " excluded.state)"
                    f" WHERE {_OPEN} RETURNING id",
                    (
                        one.key,
                        one.message.place.platform,
                        one.message.place.lane,
                        one.session_id,
                        one.turn_id,
                        msgspec.json.encode(one.message),
                        one.state,
                        now,
                        now,
                    ),
                ).get
                numbers.append(0 if number is None else int(number))
            if answered:
                connection.execute(
                    "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL"
                    " WHERE turn_id = ? AND state = 'posted'",
                    (outcome, answered),
                )
                connection.execute(
                    "UPDATE deliveries SET state = 'delivered', ended_at = ?, body = NULL, first = NULL"
                    " WHERE turn_id = ? AND state = 'open'",
                    (now, answered),
                )
            return numbers

        return await self._database.write(upsert_deliveries)

    async def find_open_delivery(self, turn_id: str) -> Delivery | None:
        """Return the delivery that a turn was writing last when its process died, or None."""
        rows = await self._database.read(
            lambda connection: _select_deliveries(
                connection, "turn_id = ? AND state = 'open' ORDER BY id DESC LIMIT 1", turn_id
            )
        )
        return rows[0] if rows else None

    async def get_delivery_state(self, key: str) -> tuple[DeliveryState, str] | None:
        """Return the state of the delivery of this key and the id of the message that is shown of it, or None."""
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT state, message_id FROM deliveries WHERE key = ?", (key,)
            ).fetchone()
        )
        return None if row is None else (DeliveryState(str(row[0])), str(row[1]))

    async def list_due_deliveries(self, lane: str, limit: int) -> list[Delivery]:
        """Return the messages to be sent in a lane, in order, without those that are still being written."""
        return await self._database.read(
            lambda connection: _select_deliveries(connection, f"lane = ? AND {_DUE} ORDER BY id LIMIT ?", lane, limit)
        )

    async def list_pending_lanes(self, platform: str) -> list[str]:
        """Return the lanes that have undelivered messages, oldest first."""
        return await self._database.read(
            lambda connection: [
                str(lane)
                for (lane,) in connection.execute(
                    f"SELECT lane FROM deliveries WHERE platform = ? AND {_DUE} GROUP BY lane ORDER BY min(id)",
                    (platform,),
                )
            ]
        )

    async def mark_attempting(self, number: int) -> None:
        """Record that a message is about to be sent."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE deliveries SET state = 'attempting', attempts = attempts + 1 WHERE id = ?", (number,)
                ).get
            )
        )

    async def mark_unsent(self, number: int) -> None:
        """Record that nothing is shown of a message that is still being written: the platform did not take it."""
        await self._database.write(
            lambda connection: connection.execute("UPDATE deliveries SET attempts = 0 WHERE id = ?", (number,)).get
        )

    async def mark_shown(self, number: int, message_id: str) -> None:
        """Record what is shown of a message that is still being written."""
        await self._database.write(
            lambda connection: (
                connection.execute("UPDATE deliveries SET message_id = ? WHERE id = ?", (message_id, number)).get
            )
        )

    async def settle_delivery(
        self, number: int, state: DeliveryState, *, message_id: str = "", error: str = ""
    ) -> None:
        """Record a message's state. When that is final, its text is deleted."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE deliveries SET state = ?1, message_id = iif(?2 = '', message_id, ?2), error = ?3,"
                    " ended_at = iif(?4, ?5, NULL), body = iif(?4, NULL, body), first = iif(?4, NULL, first)"
                    " WHERE id = ?6",
                    (state, message_id, error, state.is_final, now, number),
                ).get
            )
        )

    async def postpone_delivery(
        self, number: int, until: float, error: str, message: Outgoing, state: DeliveryState
    ) -> None:
        """Schedule the next attempt for `until`, with the message in this form. It stays `attempting` where it may have
        arrived.
        """
        body = msgspec.json.encode(message)
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE deliveries SET state = ?, next_at = ?, error = ?, body = ? WHERE id = ?",
                    (state, until, error, body, number),
                ).get
            )
        )

    async def count_deliveries(self) -> dict[tuple[str, str], int]:
        """Return the number of deliveries by platform and state."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT platform, state, count(*) FROM deliveries GROUP BY 1, 2")
            )
        )
        return {(str(platform), str(state)): int(count) for platform, state, count in rows}

    async def get_oldest_pending_time(self) -> float | None:
        """Return when the oldest undelivered message was made, or None when there is none."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT min(made_at) FROM deliveries WHERE state IN ('open', 'pending', 'attempting')"
                )
            )
        )
        return None if rows[0][0] is None else float(rows[0][0])

    async def list_failed_deliveries(self, limit: int = 50) -> list[tuple[str, str, str, float]]:
        """Return messages that failed or are uncertain, newest first: lane, state, error, and time."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT lane, state, error, ended_at FROM deliveries WHERE ended_at IS NOT NULL"
                    " AND state IN ('failed', 'uncertain') ORDER BY ended_at DESC LIMIT ?",
                    (limit,),
                )
            )
        )
        return msgspec.convert(rows, list[tuple[str, str, str, float]])


def _select_deliveries(connection: apsw.Connection, where: str, *values: object) -> list[Delivery]:
    rows = connection.execute(
        "SELECT id, key, lane, body, state, message_id, attempts, next_at, made_at, turn_id, first FROM deliveries"
        f" WHERE {where}",
        values,
    )
    return [
        Delivery(
            id=int(number),
            key=str(key),
            lane=str(lane),
            message=msgspec.json.decode(bytes(body), type=Outgoing),
            state=DeliveryState(str(state)),
            message_id=str(message),
            attempts=int(attempts),
            next_at=float(next_at),
            made_at=float(made),
            turn_id=str(turn),
            first=None if first is None else msgspec.json.decode(bytes(first), type=Outgoing),
        )
        for number, key, lane, body, state, message, attempts, next_at, made, turn, first in rows
    ]
