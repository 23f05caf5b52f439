"""Sessions imported from another program, stored with their own times."""

import re

from msgspec import Struct
from msgspec.structs import asdict

from hermes.core.messages import Message
from hermes.core.usage import Usage
from hermes.store.messages import TranscriptEntry, append_entry, encode_message
from hermes.store.records import NewSession
from hermes.store.repository import Repository, Transaction, writes
from hermes.store.sessions import create_session, get_session

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


class ImportRepository(Repository):
    """The sessions that were imported from another program."""

    @writes
    def add(self, tx: Transaction, old: ImportedSession) -> int | None:
        """Store what is not there yet: the whole session, or what was said in it since the last import; return the
        number of messages.

        Returns None, with nothing changed, when another session has that id, or when this one was changed here.
        """
        row = get_session(tx, old.session.id)
        known = 0
        if row is None:
            create_session(tx.at_time(old.began_at), old.session)
            _store_usage(tx, old)
        elif row.source != old.session.source:
            return None
        else:
            bodies = tx.execute(
                "SELECT body FROM messages WHERE session_id = ? ORDER BY position, id", (old.session.id,)
            )
            stored = [_FENCE.sub(b"", bytes(body)) for (body,) in bodies]
            wanted = [_FENCE.sub(b"", encode_message(one.message)) for one in old.messages]
            shorter = min(len(stored), len(wanted))
            if stored[:shorter] != wanted[:shorter]:
                return None
            known = shorter
        fresh = old.messages[known:]
        for one in fresh:
            entry = TranscriptEntry(session_id=old.session.id, epoch=_BEFORE, turn_id=None, messages=(one.message,))
            append_entry(tx.at_time(one.at), entry)
        if row is None or fresh:
            last = max([old.began_at, *(one.at for one in old.messages)])
            tx.execute(
                "UPDATE sessions SET updated_at = ?, ended_at = ?, end_reason = ? WHERE id = ?",
                (last, old.ended_at, "" if old.ended_at is None else "taken over", old.session.id),
            )
        return len(fresh)


def _store_usage(tx: Transaction, old: ImportedSession) -> None:
    tx.execute(
        "UPDATE sessions SET input_tokens = :input, output_tokens = :output, cache_read_tokens = :cache_read,"
        " cache_write_tokens = :cache_write, reasoning_tokens = :reasoning, cost_usd = :cost_usd WHERE id = :id",
        asdict(old.usage) | {"id": old.session.id},
    )
