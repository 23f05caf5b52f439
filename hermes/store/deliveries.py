"""What is owed to chats: obligations, each step of which is one transaction."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes.core.chats import (
    Delivery,
    DeliveryState,
    OutboxItem,
    Outgoing,
)
from hermes.store.access import Access

_DUE = "state IN ('pending', 'attempting')"
_OPEN = "state IN ('open', 'pending', 'attempting')"


class DeliveryAccess(Access):
    """The verbs about what is owed."""

    async def owe(self, owed: Sequence[OutboxItem], *, answered: str = "", outcome: str = "answered") -> list[int]:
        """Owe messages, all at once; their numbers. One that is open is about to be shown: until it is known what is
        shown of it, or that nothing is, it may be on the platform.

        What is owed under the same key already is put in its place, its message id kept; of what has ended under it
        nothing is owed again (its number is 0).

        With `answered` the arrivals that this turn answers are done, and what it had open and is not named here is
        closed.
        """
        now = self._clock.now()

        def work(connection: apsw.Connection) -> list[int]:
            numbers = []
            for one in owed:
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

        return await self._database.write(work)

    async def open_delivery(self, turn_id: str) -> Delivery | None:
        """What a turn was writing last when its process died; None: nothing."""
        rows = await self._database.read(
            lambda connection: _deliveries(
                connection, "turn_id = ? AND state = 'open' ORDER BY id DESC LIMIT 1", turn_id
            )
        )
        return rows[0] if rows else None

    async def message_of(self, key: str) -> tuple[DeliveryState, str] | None:
        """How it stands with what is owed under a key, and what is shown of it."""
        row = await self._database.read(
            lambda connection: connection.execute(
                "SELECT state, message_id FROM deliveries WHERE key = ?", (key,)
            ).fetchone()
        )
        return None if row is None else (DeliveryState(str(row[0])), str(row[1]))

    async def due(self, lane: str, limit: int) -> list[Delivery]:
        """What is to be sent in a lane, in order; what is still being written is not."""
        return await self._database.read(
            lambda connection: _deliveries(connection, f"lane = ? AND {_DUE} ORDER BY id LIMIT ?", lane, limit)
        )

    async def owing_lanes(self, platform: str) -> list[str]:
        """The lanes in which something is owed, oldest first."""
        return await self._database.read(
            lambda connection: [
                str(lane)
                for (lane,) in connection.execute(
                    f"SELECT lane FROM deliveries WHERE platform = ? AND {_DUE} GROUP BY lane ORDER BY min(id)",
                    (platform,),
                )
            ]
        )

    async def attempting(self, number: int) -> None:
        """Note that a message is about to be sent."""
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE deliveries SET state = 'attempting', attempts = attempts + 1 WHERE id = ?", (number,)
                ).get
            )
        )

    async def unsent(self, number: int) -> None:
        """Note that nothing is shown of something that is still being written: the platform did not take it."""
        await self._database.write(
            lambda connection: connection.execute("UPDATE deliveries SET attempts = 0 WHERE id = ?", (number,)).get
        )

    async def shown(self, number: int, message_id: str) -> None:
        """Note what is shown of something that is still being written."""
        await self._database.write(
            lambda connection: (
                connection.execute("UPDATE deliveries SET message_id = ? WHERE id = ?", (message_id, number)).get
            )
        )

    async def settle_delivery(
        self, number: int, state: DeliveryState, *, message_id: str = "", error: str = ""
    ) -> None:
        """Note what has become of a message. Ended for good, its words go."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE deliveries SET state = ?1, message_id = iif(?2 = '', message_id, ?2), error = ?3,"
                    " ended_at = iif(?4, ?5, NULL), body = iif(?4, NULL, body), first = iif(?4, NULL, first)"
                    " WHERE id = ?6",
                    (state, message_id, error, state.ended, now, number),
                ).get
            )
        )

    async def postpone(self, number: int, until: float, error: str, message: Outgoing, state: DeliveryState) -> None:
        """Try a message again at `until`, in this form. It stays `attempting` where it may have arrived."""
        body = msgspec.json.encode(message)
        await self._database.write(
            lambda connection: (
                connection.execute(
                    "UPDATE deliveries SET state = ?, next_at = ?, error = ?, body = ? WHERE id = ?",
                    (state, until, error, body, number),
                ).get
            )
        )

    async def delivery_counts(self) -> dict[tuple[str, str], int]:
        """How many obligations there are, by platform and state."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT platform, state, count(*) FROM deliveries GROUP BY 1, 2")
            )
        )
        return {(str(platform), str(state)): int(count) for platform, state, count in rows}

    async def owing_since(self) -> float | None:
        """When the oldest thing was made that is still owed; None where nothing is."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT min(made_at) FROM deliveries WHERE state IN ('open', 'pending', 'attempting')"
                )
            )
        )
        return None if rows[0][0] is None else float(rows[0][0])

    async def doubtful(self, limit: int = 50) -> list[tuple[str, str, str, float]]:
        """Messages that failed or are in doubt, newest first: lane, state, error, and when."""
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


def _deliveries(connection: apsw.Connection, where: str, *values: object) -> list[Delivery]:
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
