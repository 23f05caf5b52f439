"""Inbound events of chats: a journal, and the session that each chat is bound to. Each step is one transaction."""

from collections.abc import Sequence

import msgspec

from hermes.core.chats import (
    Batch,
    Binding,
    DirectChat,
    InboundEvent,
    Place,
    Posting,
    Sender,
    StoredInboundEvent,
    UnansweredEvents,
)
from hermes.core.encoding import to_json
from hermes.store.repository import Repository, Transaction, reads, to_value, writes
from hermes.store.turns import enqueue_message

_IS_CURRENT = "key NOT LIKE '%:beside:%'"
"""Whether a chat goes on with the session: others stay beside it (`is_beside_key`)."""


class ChatRepository(Repository):
    """Store operations for inbound events and chat bindings."""

    @reads
    def get_cursors(self, tx: Transaction, platform: str) -> dict[str, str]:
        """Return the cursors from which an account continues."""
        rows = tx.execute("SELECT name, value FROM chat_cursors WHERE platform = ?", (platform,))
        return {str(name): str(value) for name, value in rows}

    @writes
    def record_batch(self, tx: Transaction, platform: str, batch: Batch) -> list[StoredInboundEvent]:
        """Store inbound events and the account's cursors; return the events that were not known yet."""
        fresh = []
        for one in batch.arrivals:
            row = tx.execute(
                "INSERT INTO arrivals (platform, event_id, lane, body, at) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING RETURNING id",
                (platform, one.event_id, one.place.lane, to_json(one), tx.now),
            ).get
            if row is not None:
                fresh.append(StoredInboundEvent(int(row), one))
        tx.executemany(
            "REPLACE INTO chat_cursors (platform, name, value) VALUES (?, ?, ?)",
            [(platform, name, value) for name, value in batch.cursors],
        )
        return fresh

    @reads
    def list_new_events(self, tx: Transaction, lane: str, limit: int) -> list[StoredInboundEvent]:
        """Return a lane's events that nobody has handled yet, in order."""
        rows = tx.execute(
            "SELECT id, body FROM arrivals WHERE lane = ? AND state = 'new' ORDER BY id LIMIT ?", (lane, limit)
        )
        return [StoredInboundEvent(int(number), _decode_event(bytes(body))) for number, body in rows]

    @reads
    def list_waiting_lanes(self, tx: Transaction) -> list[str]:
        """Return the lanes that have new events, oldest first."""
        return [
            str(lane)
            for (lane,) in tx.execute("SELECT lane FROM arrivals WHERE state = 'new' GROUP BY lane ORDER BY min(id)")
        ]

    @reads
    def list_heard_lanes(self, tx: Transaction, platform: str) -> list[str]:
        """Return the lanes of a platform from which something came in that the journal still holds."""
        return [
            str(lane) for (lane,) in tx.execute("SELECT DISTINCT lane FROM arrivals WHERE platform = ?", (platform,))
        ]

    @reads
    def count_waiting_events(self, tx: Transaction) -> dict[str, int]:
        """Return the number of unhandled events by platform."""
        rows = tx.execute("SELECT platform, count(*) FROM arrivals WHERE state = 'new' GROUP BY 1")
        return {str(platform): int(count) for platform, count in rows}

    @writes
    def dismiss_events(self, tx: Transaction, event_ids: Sequence[int], outcome: str) -> None:
        """Close events that get no answer of their own; `outcome` says why."""
        tx.executemany(
            "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL WHERE id = ?",
            [(outcome, one) for one in event_ids],
        )

    @writes
    def begin_command(self, tx: Transaction, number: int) -> bool:
        """Mark a command as begun before it is carried out, so that a crash leaves a trace; return False when it
        was begun already.
        """
        return tx.change_any("UPDATE arrivals SET state = 'begun' WHERE id = ? AND state = 'new'", (number,))

    @reads
    def list_begun_commands(self, tx: Transaction) -> list[StoredInboundEvent]:
        """Return commands that a process which died had begun, and maybe carried out."""
        rows = tx.execute("SELECT id, body FROM arrivals WHERE state = 'begun' ORDER BY id")
        return [StoredInboundEvent(int(number), _decode_event(bytes(body))) for number, body in rows]

    @writes
    def post_to_inbox(self, tx: Transaction, binding: Binding, posting: Posting) -> None:
        """Put events into the inbox of their chat's session, all at once; the session must exist."""
        _upsert_binding(tx, binding)
        enqueue_message(tx, binding.session_id, posting.letter_id, posting.body, first=posting.first)
        tx.executemany(
            "UPDATE arrivals SET state = 'posted', session_id = ?, letter_id = ? WHERE id = ?",
            [(binding.session_id, posting.letter_id, one) for one in posting.arrivals],
        )

    @reads
    def get_binding(self, tx: Transaction, key: str) -> Binding | None:
        """Return the binding of a chat to its session, or None."""
        found = _select_bindings(tx, "key = ?", key)
        return found[0] if found else None

    @reads
    def list_session_bindings(self, tx: Transaction, session_id: str) -> list[Binding]:
        """Return the chats that are bound to a session, the one used last first."""
        return _select_bindings(tx, "session_id = ?", session_id)

    @reads
    def list_platform_bindings(self, tx: Transaction, platform: str, limit: int = 1000) -> list[Binding]:
        """Return the chats of a platform that are bound to sessions, the one used last first."""
        return _select_bindings(tx, f"json_extract(place, '$.platform') = ? AND {_IS_CURRENT}", platform, limit)

    @reads
    def list_bindings(self, tx: Transaction, limit: int = 10_000) -> list[Binding]:
        """Return the chats that are bound to sessions, the one used last first."""
        return _select_bindings(tx, f"? AND {_IS_CURRENT}", 1, limit)

    @writes
    def bind(self, tx: Transaction, binding: Binding) -> None:
        """Bind a chat to another session from now on; the session must exist."""
        _upsert_binding(tx, binding)

    @writes
    def forget_beside(self, tx: Transaction) -> None:
        """Forget the bindings of sessions that stay beside that of their chat, where nothing comes of them any more."""
        tx.execute(
            f"DELETE FROM chat_sessions WHERE NOT {_IS_CURRENT}"
            " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.session_id = chat_sessions.session_id)"
            " AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session_id = chat_sessions.session_id"
            " AND turns.ended_at IS NULL)"
            " AND NOT EXISTS (SELECT 1 FROM arrivals WHERE arrivals.session_id = chat_sessions.session_id"
            " AND arrivals.state = 'posted')"
            " AND NOT EXISTS (SELECT 1 FROM sub_agents WHERE sub_agents.root_id = chat_sessions.session_id"
            " AND (sub_agents.ended_at IS NULL OR sub_agents.delivery IN ('inbox', 'person')))"
        )

    @writes
    def record_direct_chat(self, tx: Transaction, person: str, place: Place) -> None:
        """Record that a person was heard in this direct chat now."""
        tx.execute(
            "REPLACE INTO direct_chats (person, platform, place, last_at) VALUES (?, ?, ?, ?)",
            (person, place.platform, to_json(place).decode(), tx.now),
        )

    @reads
    def list_direct_chats(self, tx: Transaction, platform: str = "") -> list[DirectChat]:
        """Return the direct chats of all people on a platform, or on all, the one used last first."""
        rows = tx.execute(
            "SELECT person, place, max(last_at) FROM (SELECT person, place, last_at FROM direct_chats"
            " UNION ALL SELECT person, place, last_at FROM chat_sessions"
            " WHERE coalesce(json_extract(place, '$.kind'), 'dm') = 'dm')"
            " WHERE ?1 = '' OR json_extract(place, '$.platform') = ?1"
            " GROUP BY person, json_extract(place, '$.platform') ORDER BY 3 DESC",
            (platform,),
        )
        return [to_value(DirectChat, (row[0], msgspec.json.decode(str(row[1]), type=Place), row[2])) for row in rows]

    @reads
    def list_unanswered(self, tx: Transaction) -> list[UnansweredEvents]:
        """Return events that were posted to a session and are not answered yet.

        These are turns that ended before their answer reached the outbox, turns that a process left open, and
        messages that wait.
        """
        rows = tx.execute(
            "SELECT arrivals.session_id, coalesce(arrivals.turn_id, ''), coalesce(turns.ended_at IS NOT NULL, 0),"
            " coalesce(turns.reason, ''), coalesce(turns.error, ''), "
            " json_group_array(json(CAST(arrivals.body AS TEXT)))"
            " FROM arrivals LEFT JOIN turns ON turns.id = arrivals.turn_id"
            " WHERE arrivals.state = 'posted' GROUP BY 1, 2 ORDER BY min(arrivals.id)"
        )
        return [
            to_value(UnansweredEvents, (*row[:5], msgspec.json.decode(row[5], type=tuple[InboundEvent, ...])))
            for row in rows
        ]

    @writes
    def abandon_session_events(self, tx: Transaction, session_id: str, outcome: str) -> None:
        """Close everything that waits in a session: nobody is to get an answer there any more."""
        tx.execute(
            "DELETE FROM inbox WHERE id IN (SELECT letter_id FROM arrivals WHERE session_id = ? AND state = 'posted')",
            (session_id,),
        )
        tx.execute(
            "UPDATE arrivals SET state = 'done', outcome = ?, body = NULL WHERE session_id = ? AND state = 'posted'",
            (outcome, session_id),
        )

    @writes
    def close_lost_events(self, tx: Transaction) -> int:
        """Close events whose session was deleted or whose message left the inbox in another way; return how many."""
        return tx.change_rows(
            "UPDATE arrivals SET state = 'done', outcome = 'the session was deleted', body = NULL"
            " WHERE state = 'posted' AND turn_id IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = arrivals.letter_id)"
        )

    @reads
    def has_event(self, tx: Transaction, platform: str, event_id: str) -> bool:
        """Return whether an event of this platform was received before."""
        return (
            tx.execute("SELECT 1 FROM arrivals WHERE platform = ? AND event_id = ?", (platform, event_id)).get
            is not None
        )

    @writes
    def prune(self, tx: Transaction, before: float, limit: int = 2_000) -> int:
        """Delete events and deliveries that ended before a time; return how many there were."""
        gone = tx.change_rows(
            "DELETE FROM arrivals WHERE id IN (SELECT id FROM arrivals WHERE state = 'done' AND at < ? LIMIT ?)",
            (before, limit),
        )
        tx.execute(
            "DELETE FROM deliveries WHERE id IN"
            " (SELECT id FROM deliveries WHERE ended_at IS NOT NULL AND ended_at < ? LIMIT ?)",
            (before, limit),
        )
        return gone + tx.changes()


def expect_answer(tx: Transaction, session_id: str, letter_id: str) -> None:
    """Record that the answer to a message in a session's inbox goes to its chat, as if the message had come from there;
    to the one used last, where it has several.
    """
    for binding in _select_bindings(tx, "session_id = ?", session_id, 1):
        place = binding.place
        event = InboundEvent(event_id=f"report:{letter_id}", place=place, sender=Sender(""))
        tx.execute(
            "INSERT INTO arrivals (platform, event_id, lane, body, state, session_id, letter_id, at)"
            " VALUES (?, ?, ?, ?, 'posted', ?, ?, ?)",
            (place.platform, event.event_id, place.lane, to_json(event), session_id, letter_id, tx.now),
        )


def _decode_event(body: bytes) -> InboundEvent:
    return msgspec.json.decode(body, type=InboundEvent)


def _upsert_binding(tx: Transaction, binding: Binding) -> None:
    tx.execute(
        "REPLACE INTO chat_sessions (key, session_id, place, person, last_at) VALUES (?, ?, ?, ?, ?)",
        (binding.key, binding.session_id, to_json(binding.place).decode(), binding.person, tx.now),
    )


def _select_bindings(tx: Transaction, where: str, value: str | int, limit: int = 100) -> list[Binding]:
    rows = tx.execute(
        "SELECT key, session_id, place, person, last_at FROM chat_sessions"
        f" WHERE {where} ORDER BY last_at DESC LIMIT ?",
        (value, limit),
    )
    return [to_value(Binding, (*row[:2], msgspec.json.decode(row[2], type=Place), *row[3:])) for row in rows]
