"""Inbound events of chats: a journal, and the session that each chat is bound to. Each step is one transaction."""

from collections.abc import Sequence

import apsw
import msgspec

from hermes.core.chats import (
    Batch,
    Binding,
    InboundEvent,
    Place,
    Posting,
    StoredInboundEvent,
    UnansweredEvents,
)
from hermes.core.messages import Message
from hermes.store import inbox
from hermes.store.access import StoreAccess
from hermes.store.records import InboxRow

_DUE = "state IN ('pending', 'attempting')"
_OPEN = "state IN ('open', 'pending', 'attempting')"


class InboundEventAccess(StoreAccess):
    """Store operations for inbound events and chat bindings."""

    async def get_chat_cursors(self, platform: str) -> dict[str, str]:
        """Return the cursors from which an account continues."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT name, value FROM chat_cursors WHERE platform = ?", (platform,))
            )
        )
        return {str(name): str(value) for name, value in rows}

    async def record_batch(self, platform: str, batch: Batch) -> list[StoredInboundEvent]:
        """Store inbound events and the account's cursors; return the events that were not known yet."""
        now = self._clock.now()

        def insert_events(connection: apsw.Connection) -> list[StoredInboundEvent]:
            fresh = []
            for one in batch.arrivals:
                row = connection.execute(
                    "INSERT INTO arrivals (platform, event_id, lane, body, at) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT DO NOTHING RETURNING id",
                    (platform, one.event_id, one.place.lane, msgspec.json.encode(one), now),
                ).get
                if row is not None:
                    fresh.append(StoredInboundEvent(int(row), one))
            connection.executemany(
                "REPLACE INTO chat_cursors (platform, name, value) VALUES (?, ?, ?)",
                [(platform, name, value) for name, value in batch.cursors],
            )
            return fresh

        return await self._database.write(insert_events)

    async def list_new_events(self, lane: str, limit: int) -> list[StoredInboundEvent]:
        """Return a lane's events that nobody has handled yet, in order."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT id, body FROM arrivals WHERE lane = ? AND state = 'new' ORDER BY id LIMIT ?", (lane, limit)
                )
            )
        )
        return [StoredInboundEvent(int(number), _decode_event(bytes(body))) for number, body in rows]

    async def list_waiting_lanes(self) -> list[str]:
        """Return the lanes that have new events, oldest first."""
        return await self._database.read(
            lambda connection: [
                str(lane)
                for (lane,) in connection.execute(
                    "SELECT lane FROM arrivals WHERE state = 'new' GROUP BY lane ORDER BY min(id)"
                )
            ]
        )

    async def count_waiting_events(self) -> dict[str, int]:
        """Return the number of unhandled events by platform."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT platform, count(*) FROM arrivals WHERE state = 'new' GROUP BY 1")
            )
        )
        return {str(platform): int(count) for platform, count in rows}

    async def dismiss_events(self, event_ids: Sequence[int], outcome: str) -> None:
        """Close events that get no answer of their own; `outcome` says why."""
        await self._database.write(
            lambda connection: (
                connection.executemany(
                    "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL WHERE id = ?",
                    [(outcome, one) for one in event_ids],
                ).get
            )
        )

    async def begin_command(self, number: int) -> bool:
        """Mark a command as begun before it is carried out, so that a crash leaves a trace; return False when it
        was begun already.
        """

        def mark_begun(connection: apsw.Connection) -> bool:
            connection.execute("UPDATE arrivals SET state = 'begun' WHERE id = ? AND state = 'new'", (number,))
            return connection.changes() == 1

        return await self._database.write(mark_begun)

    async def list_begun_commands(self) -> list[StoredInboundEvent]:
        """Return commands that a process which died had begun, and maybe carried out."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute("SELECT id, body FROM arrivals WHERE state = 'begun' ORDER BY id")
            )
        )
        return [StoredInboundEvent(int(number), _decode_event(bytes(body))) for number, body in rows]

    async def post_to_inbox(self, binding: Binding, posting: Posting) -> None:
        """Put events into the inbox of their chat's session, all at once; the session must exist."""
        now = self._clock.now()

        def write_posting(connection: apsw.Connection) -> None:
            _upsert_binding(connection, binding, now)
            inbox.enqueue_message(
                connection, binding.session_id, InboxRow(posting.letter_id, posting.body, now), first=posting.first
            )
            connection.executemany(
                "UPDATE arrivals SET state = 'posted', session_id = ?, letter_id = ? WHERE id = ?",
                [(binding.session_id, posting.letter_id, one) for one in posting.arrivals],
            )

        await self._database.write(write_posting)

    async def get_binding(self, key: str) -> Binding | None:
        """Return the binding of a chat to its session, or None."""
        found = await self._database.read(lambda connection: _select_bindings(connection, "key = ?", key))
        return found[0] if found else None

    async def list_session_bindings(self, session_id: str) -> list[Binding]:
        """Return the chats that are bound to a session, the one used last first."""
        return await self._database.read(lambda connection: _select_bindings(connection, "session_id = ?", session_id))

    async def list_platform_bindings(self, platform: str, limit: int = 1000) -> list[Binding]:
        """Return the chats of a platform that are bound to sessions, the one used last first."""
        return await self._database.read(
            lambda connection: _select_bindings(connection, "json_extract(place, '$.platform') = ?", platform, limit)
        )

    async def bind_chat(self, binding: Binding) -> None:
        """Bind a chat to another session from now on; the session must exist."""
        now = self._clock.now()
        await self._database.write(lambda connection: _upsert_binding(connection, binding, now))

    async def unbind_chat(self, key: str) -> None:
        """Remove a chat's binding, so that its next message begins a new session."""
        await self._database.write(
            lambda connection: connection.execute("DELETE FROM chat_sessions WHERE key = ?", (key,)).get
        )

    async def list_turn_events(self, turn_id: str) -> list[StoredInboundEvent]:
        """Return the events that a turn answers, in order."""
        rows = await self._database.read(
            lambda connection: list(
                connection.execute(
                    "SELECT id, body, letter_id FROM arrivals WHERE turn_id = ? AND state = 'posted' ORDER BY id",
                    (turn_id,),
                )
            )
        )
        return [
            StoredInboundEvent(int(number), _decode_event(bytes(body)), str(queued), turn_id)
            for number, body, queued in rows
        ]

    async def list_unanswered(self) -> list[UnansweredEvents]:
        """Return events that were posted to a session and are not answered yet.

        These are turns that ended before their answer reached the outbox, turns that a process left open, and
        messages that wait.
        """

        def select_unanswered(connection: apsw.Connection) -> list[UnansweredEvents]:
            rows = connection.execute(
                "SELECT arrivals.session_id, coalesce(arrivals.turn_id, ''), coalesce(turns.ended_at IS NOT NULL, 0),"
                " coalesce(turns.reason, ''), coalesce(turns.error, ''), "
                " json_group_array(json(CAST(arrivals.body AS TEXT)))"
                " FROM arrivals LEFT JOIN turns ON turns.id = arrivals.turn_id"
                " WHERE arrivals.state = 'posted' GROUP BY 1, 2 ORDER BY min(arrivals.id)"
            )
            return [
                UnansweredEvents(
                    session_id=str(session),
                    turn_id=str(turn),
                    over=bool(over),
                    reason=str(reason),
                    error=str(error),
                    arrivals=msgspec.json.decode(str(bodies), type=tuple[InboundEvent, ...]),
                )
                for session, turn, over, reason, error, bodies in rows
            ]

        return await self._database.read(select_unanswered)

    async def get_last_answer(self, turn_id: str) -> str:
        """Return the text that a turn ended with; empty when it ended without one."""

        def select_answer(connection: apsw.Connection) -> str:
            body = connection.execute(
                "SELECT body FROM messages WHERE turn_id = ? AND role = 'assistant' ORDER BY position DESC, id DESC"
                " LIMIT 1",
                (turn_id,),
            ).get
            return "" if body is None else msgspec.json.decode(bytes(body), type=Message).text

        return await self._database.read(select_answer)

    async def abandon_session_events(self, session_id: str, outcome: str) -> None:
        """Close everything that waits in a session: nobody is to get an answer there any more."""

        def close_events(connection: apsw.Connection) -> None:
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

        await self._database.write(close_events)

    async def close_lost_events(self) -> int:
        """Close events whose session was deleted or whose message left the inbox in another way; return how many."""

        def close_events(connection: apsw.Connection) -> int:
            connection.execute(
                "UPDATE arrivals SET state = 'done', outcome = 'the session was deleted', body = NULL"
                " WHERE state = 'posted' AND turn_id IS NULL"
                " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = arrivals.letter_id)"
            )
            return connection.changes()

        return await self._database.write(close_events)

    async def prune_chats(self, before: float, limit: int = 2_000) -> int:
        """Delete events and deliveries that ended before a time; return how many there were."""

        def delete_old(connection: apsw.Connection) -> int:
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

        return await self._database.write(delete_old)


def _decode_event(body: bytes) -> InboundEvent:
    return msgspec.json.decode(body, type=InboundEvent)


def _upsert_binding(connection: apsw.Connection, binding: Binding, now: float) -> None:
    connection.execute(
        "REPLACE INTO chat_sessions (key, session_id, place, person, last_at) VALUES (?, ?, ?, ?, ?)",
        (binding.key, binding.session_id, msgspec.json.encode(binding.place).decode(), binding.person, now),
    )


def _select_bindings(connection: apsw.Connection, where: str, value: str, limit: int = 100) -> list[Binding]:
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
