"""What comes in from chats: a journal, and which session each conversation is. Each step is one transaction."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes.core.chats import (
    Batch,
    Binding,
    InboundEvent,
    Place,
    Posting,
    StoredArrival,
    Unanswered,
)
from hermes.core.messages import Message
from hermes.store import inbox
from hermes.store.access import Access
from hermes.store.rows import InboxRow

_DUE = "state IN ('pending', 'attempting')"
_OPEN = "state IN ('open', 'pending', 'attempting')"


class ArrivalAccess(Access):
    """The verbs about what comes in."""

    async def chat_cursors(self, platform: str) -> dict[str, str]:
        """From where an account goes on."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT name, value FROM chat_cursors WHERE platform = ?", (platform,))
            )
        )
        return {str(name): str(value) for name, value in rows}

    async def take_in(self, platform: str, batch: Batch) -> list[StoredArrival]:
        """Write down what came in, and the account's cursors; what of it was not known yet."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> list[StoredArrival]:
            fresh = []
            for one in batch.arrivals:
                row = connection.execute(
                    "INSERT INTO arrivals (platform, event_id, lane, body, at) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT DO NOTHING RETURNING id",
                    (platform, one.event_id, one.place.lane, msgspec.json.encode(one), now),
                ).get
                if row is not None:
                    fresh.append(StoredArrival(int(row), one))
            connection.executemany(
                "REPLACE INTO chat_cursors (platform, name, value) VALUES (?, ?, ?)",
                [(platform, name, value) for name, value in batch.cursors],
            )
            return fresh

        return await self._database.write(work)

    async def new_arrivals(self, lane: str, limit: int) -> list[StoredArrival]:
        """What was said in a lane and nobody has looked at, in order."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT id, body FROM arrivals WHERE lane = ? AND state = 'new' ORDER BY id LIMIT ?", (lane, limit)
                )
            )
        )
        return [StoredArrival(int(number), _arrival(bytes(body))) for number, body in rows]

    async def waiting_lanes(self) -> list[str]:
        """The lanes in which something is new, oldest first."""
        return await self._database.read(
            lambda connection: [
                str(lane)
                for (lane,) in connection.execute(
                    "SELECT lane FROM arrivals WHERE state = 'new' GROUP BY lane ORDER BY min(id)"
                )
            ]
        )

    async def arrivals_waiting(self) -> dict[str, int]:
        """How many arrivals nobody has looked at, by platform."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT platform, count(*) FROM arrivals WHERE state = 'new' GROUP BY 1")
            )
        )
        return {str(platform): int(count) for platform, count in rows}

    async def dismiss(self, arrivals: Sequence[int], outcome: str) -> None:
        """Be done with arrivals that get no answer of their own; `outcome` says why."""
        await self._database.write(
            lambda connection: (
                connection.executemany(
                    "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL WHERE id = ?",
                    [(outcome, one) for one in arrivals],
                ).get
            )
        )

    async def begin_command(self, number: int) -> bool:
        """Note that a command is about to be carried out; should the process die, it is known to have been begun. False
        when somebody has begun with it already."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute("UPDATE arrivals SET state = 'begun' WHERE id = ? AND state = 'new'", (number,))
            return connection.changes() == 1

        return await self._database.write(work)

    async def begun_commands(self) -> list[StoredArrival]:
        """Commands that a process which died has begun, and maybe carried out."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT id, body FROM arrivals WHERE state = 'begun' ORDER BY id")
            )
        )
        return [StoredArrival(int(number), _arrival(bytes(body))) for number, body in rows]

    async def post_letter(self, binding: Binding, letter: Posting) -> None:
        """Put arrivals into the inbox of their conversation's session, all at once; the session must be there."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> None:
            _bind(connection, binding, now)
            inbox.put(connection, binding.session_id, InboxRow(letter.letter_id, letter.body, now), first=letter.first)
            connection.executemany(
                "UPDATE arrivals SET state = 'posted', session_id = ?, letter_id = ? WHERE id = ?",
                [(binding.session_id, letter.letter_id, one) for one in letter.arrivals],
            )

        await self._database.write(work)

    async def binding(self, key: str) -> Binding | None:
        """The session of a conversation."""
        found = await self._database.read(lambda connection: _bindings(connection, "key = ?", key))
        return found[0] if found else None

    async def bindings_of(self, session_id: str) -> list[Binding]:
        """The conversations that a session is, the one used last first."""
        return await self._database.read(lambda connection: _bindings(connection, "session_id = ?", session_id))

    async def bindings(self, platform: str, limit: int = 1000) -> list[Binding]:
        """The conversations on a platform, the one used last first."""
        return await self._database.read(
            lambda connection: _bindings(connection, "json_extract(place, '$.platform') = ?", platform, limit)
        )

    async def bind(self, binding: Binding) -> None:
        """Let a conversation be another session from now on; the session must be there."""
        now = self._clock.now()
        await self._database.write(lambda connection: _bind(connection, binding, now))

    async def unbind(self, key: str) -> None:
        """Let a conversation begin anew with its next message."""
        await self._database.write(
            lambda connection: connection.execute("DELETE FROM chat_sessions WHERE key = ?", (key,)).get
        )

    async def turn_arrivals(self, turn_id: str) -> list[StoredArrival]:
        """What a turn answers, in order."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT id, body, letter_id FROM arrivals WHERE turn_id = ? AND state = 'posted' ORDER BY id",
                    (turn_id,),
                )
            )
        )
        return [
            StoredArrival(int(number), _arrival(bytes(body)), str(letter), turn_id) for number, body, letter in rows
        ]

    async def unanswered(self) -> list[Unanswered]:
        """What came in and became part of a session's work, and is not answered: turns that ended before their answer
        was owed, turns that a process left, and words that wait."""

        def work(connection: apsw.Connection) -> list[Unanswered]:
            rows = connection.execute(
                "SELECT arrivals.session_id, coalesce(arrivals.turn_id, ''), coalesce(turns.ended_at IS NOT NULL, 0),"
                " coalesce(turns.reason, ''), coalesce(turns.error, ''), "
                " json_group_array(json(CAST(arrivals.body AS TEXT)))"
                " FROM arrivals LEFT JOIN turns ON turns.id = arrivals.turn_id"
                " WHERE arrivals.state = 'posted' GROUP BY 1, 2 ORDER BY min(arrivals.id)"
            )
            return [
                Unanswered(
                    session_id=str(session),
                    turn_id=str(turn),
                    over=bool(over),
                    reason=str(reason),
                    error=str(error),
                    arrivals=msgspec.json.decode(str(bodies), type=tuple[InboundEvent, ...]),
                )
                for session, turn, over, reason, error, bodies in rows
            ]

        return await self._database.read(work)

    async def last_answer(self, turn_id: str) -> str:
        """The text that a turn ended with; empty when it ended without one."""

        def work(connection: apsw.Connection) -> str:
            body = connection.execute(
                "SELECT body FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY position DESC, id DESC"
                " LIMIT 1",
                (turn_id,),
            ).get
            return "" if body is None else msgspec.json.decode(bytes(body), type=Message).text

        return await self._database.read(work)

    async def forsake(self, session_id: str, outcome: str) -> None:
        """Be done with everything that waits in a session: nobody is to get an answer there any more."""

        def work(connection: apsw.Connection) -> None:
            connection.execute(
                "DELETE FROM inbox WHERE id IN"
                " (SELECT letter_id FROM arrivals WHERE session_id = ? AND state = 'posted')",
                (session_id,),
            )
            connection.execute(
                "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL"
                " WHERE session_id = ? AND state = 'posted'",
                (outcome, session_id),
            )

        await self._database.write(work)

    async def lost_arrivals(self) -> int:
        """Be done with arrivals whose session was deleted, or whose words left its inbox another way; how many."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(
                "UPDATE arrivals SET state = 'done', outcome = 'the session was deleted', body = NULL"
                " WHERE state = 'posted' AND turn_id IS NULL"
                " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = arrivals.letter_id)"
            )
            return connection.changes()

        return await self._database.write(work)

    async def forget_chats(self, before: float, limit: int = 2_000) -> int:
        """Forget rows of arrivals and deliveries that ended before a time; how many were."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(
                "DELETE FROM arrivals WHERE id IN (SELECT id FROM arrivals WHERE state = 'done' AND at < ? LIMIT ?)",
                (before, limit),
            )
            gone = connection.changes()
            connection.execute(
                "DELETE FROM deliveries WHERE id IN"
                " (SELECT id FROM deliveries WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?)",
                (before, limit),
            )
            return gone + connection.changes()

        return await self._database.write(work)


def _arrival(body: bytes) -> InboundEvent:
    return msgspec.json.decode(body, type=InboundEvent)


def _bind(connection: apsw.Connection, binding: Binding, now: float) -> None:
    connection.execute(
        "REPLACE INTO chat_sessions (key, session_id, place, person, last_at) VALUES (?, ?, ?, ?, ?)",
        (binding.key, binding.session_id, msgspec.json.encode(binding.place).decode(), binding.person, now),
    )


def _bindings(connection: apsw.Connection, where: str, value: str, limit: int = 100) -> list[Binding]:
    rows = connection.execute(
        "SELECT key, session_id, place, person, last_at FROM chat_sessions"
        f" WHERE {where} ORDER BY last_at DESC LIMIT ?",
        (value, limit),
    )
    return [
        Binding(
            key=str(key),
            session_id=str(session),
            place=msgspec.json.decode(str(place), type=Place),
            person=str(person),
            last_at=float(at),
        )
        for key, session, place, person, at in rows
    ]
