"""Sessions imported from another program, stored with their own times: functions over a connection, inside
the caller's transaction.
"""

import re

import apsw
from msgspec import Struct

from hermes.core.messages import Message
from hermes.core.usage import Usage
from hermes.store import sessions, transcript
from hermes.store.records import NewSession

_FENCE = re.compile(rb' id=\\"[0-9a-f]{10}\\"')
"""The part of a fence around untrusted content that differs in every process."""
_BEFORE = 0
"""The epoch number of imported messages: they belong to no epoch of ours, and the first one carries them."""


class ImportedMessage(Struct, frozen=True):
    """An imported message with the time at which it was said."""

    at: float
    message: Message


class ImportedSession(Struct, frozen=True, kw_only=True):
    """A session of another program. Its id is kept; `usage` is its total usage."""

    session: NewSession
    began_at: float
    ended_at: float | None = None
    usage: Usage = Usage()
    messages: tuple[ImportedMessage, ...] = ()


def import_session(connection: apsw.Connection, old: ImportedSession) -> int | None:
    """Store what is not there yet: the whole session, or what was said in it since the last import; return the
    number of messages.

    Returns None, with nothing changed, when another session has that id, or when this one was changed here.
    """
    row = sessions.get_session(connection, old.session.id)
    known = 0
    if row is None:
        sessions.create_session(connection, old.session, old.began_at)
        _store_usage(connection, old)
    elif row.source != old.session.source:
        return None
    else:
        bodies = connection.execute(
            "SELECT body FROM messages WHERE session_id = ? ORDER BY position, id", (old.session.id,)
        )
        stored = [_FENCE.sub(b"", bytes(body)) for (body,) in bodies]
        wanted = [_FENCE.sub(b"", transcript.encode_message(one.message)) for one in old.messages]
        shorter = min(len(stored), len(wanted))
        if stored[:shorter] != wanted[:shorter]:
            return None
        known = shorter
    fresh = old.messages[known:]
    for one in fresh:
        entry = transcript.TranscriptEntry(
            session_id=old.session.id, epoch=_BEFORE, turn_id=None, messages=(one.message,)
        )
        transcript.append_entry(connection, entry, one.at)
    if row is None or fresh:
        last = max([old.began_at, *(one.at for one in old.messages)])
        connection.execute(
            "UPDATE sessions SET updated_at = ?, ended_at = ?, end_reason = ? WHERE id = ?",
            (last, old.ended_at, "" if old.ended_at is None else "taken over", old.session.id),
        )
    return len(fresh)


def _store_usage(connection: apsw.Connection, old: ImportedSession) -> None:
    usage = old.usage
    connection.execute(
        "UPDATE sessions SET input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?,"
        " reasoning_tokens = ?, cost_usd = ? WHERE id = ?",
        (
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            usage.reasoning,
            usage.cost_usd,
            old.session.id,
        ),
    )
