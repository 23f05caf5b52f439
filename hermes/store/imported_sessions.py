"""Sessions that another program kept, stored with their own times: functions over a connection, inside the caller's
transaction."""

import re

import apsw
from msgspec import Struct

from hermes.core.messages import Message
from hermes.core.usage import Usage
from hermes.store import sessions, transcript
from hermes.store.rows import NewSession

_FENCE = re.compile(rb' id=\\"[0-9a-f]{10}\\"')
"""What a mark around a stranger's words has of its own in every process."""
_BEFORE = 0
"""Their messages belong to no epoch of ours; the first one carries them."""


class OldMessage(Struct, frozen=True):
    """A message with the time at which it was said."""

    at: float
    message: Message


class OldSession(Struct, frozen=True, kw_only=True):
    """A session of another program. Its id is kept; `usage` is what it used in all."""

    session: NewSession
    began_at: float
    ended_at: float | None = None
    usage: Usage = Usage()
    messages: tuple[OldMessage, ...] = ()


def take(connection: apsw.Connection, old: OldSession) -> int | None:
    """Store what is not there yet: the whole session, or what was said in it since it was taken last; how much it was.

    None, with nothing changed, when another session has that id, or this one was changed here.
    """
    row = sessions.get(connection, old.session.id)
    known = 0
    if row is None:
        sessions.create(connection, old.session, old.began_at)
        _count_usage(connection, old)
    elif row.source != old.session.source:
        return None
    else:
        bodies = connection.execute(
            "SELECT body FROM messages WHERE session_id = ? ORDER BY position, id", (old.session.id,)
        )
        stored = [_FENCE.sub(b"", bytes(body)) for (body,) in bodies]
        wanted = [_FENCE.sub(b"", transcript.encode(one.message)) for one in old.messages]
        shorter = min(len(stored), len(wanted))
        if stored[:shorter] != wanted[:shorter]:
            return None
        known = shorter
    fresh = old.messages[known:]
    for one in fresh:
        entry = transcript.Entry(session_id=old.session.id, epoch=_BEFORE, turn_id=None, messages=(one.message,))
        transcript.append(connection, entry, one.at)
    if row is None or fresh:
        last = max([old.began_at, *(one.at for one in old.messages)])
        connection.execute(
            "UPDATE sessions SET updated_at = ?, ended_at = ?, end_reason = ? WHERE id = ?",
            (last, old.ended_at, "" if old.ended_at is None else "taken over", old.session.id),
        )
    return len(fresh)


def _count_usage(connection: apsw.Connection, old: OldSession) -> None:
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
