"""Erasure of words from every file: functions over a connection, inside the caller's transaction.

What a compression made of a message is erased with it: the later compressions are undone, and a new
epoch begins by name.
"""

import json
from collections.abc import Iterable, Sequence

import apsw

from hermes.core.errors import NotFoundError, UsageError
from hermes.core.messages import Message
from hermes.store import compactions, sessions, transcript
from hermes.util.text import to_one_line

DELETED = "messages deleted"
REDACTED = "a message redacted"
"""The reason of an epoch whose transcript lacks words that the one before had."""
_MAX_TITLE_LINE = 10_000


def replace_message(
    connection: apsw.Connection, session_id: str, message_id: int, message: Message, now: float
) -> None:
    """Replace a message by another one and erase its words.

    Raises `NotFoundError`, and `UsageError` for a message that stands for others: it is deleted when one of
    them is redacted.
    """
    session_id = sessions.find_tip(connection, session_id)
    if not transcript.filter_owned(connection, sessions.list_lineage(connection, session_id), [message_id]):
        raise NotFoundError(f"Session {session_id} has no message {message_id}.")
    if any(message_id in one.made for one in compactions.list_compactions(connection, session_id)):
        raise UsageError(f"Message {message_id} stands for others.", "Redact those; it is made anew from them.")
    _erase_copies(connection, session_id, [message_id])
    connection.execute(
        "UPDATE messages SET body = ?, role = ? WHERE id = ?",
        (transcript.encode_message(message), message.role, message_id),
    )
    transcript.note_changes(connection, json.dumps([message_id]), erase=True)
    _begin_clean_epoch(connection, session_id, REDACTED, now)


def delete_messages(connection: apsw.Connection, session_id: str, ids: Sequence[int], now: float) -> int:
    """Delete messages of a session or its archives, with what the effect journal holds of their calls; return
    how many there were.
    """
    session_id = sessions.find_tip(connection, session_id)
    known = sorted(transcript.filter_owned(connection, sessions.list_lineage(connection, session_id), ids))
    if known:
        _erase_copies(connection, session_id, known)
        transcript.remove_messages(connection, session_id, known)
        _begin_clean_epoch(connection, session_id, DELETED, now)
    return len(known)


def delete_session(connection: apsw.Connection, session_id: str, now: float) -> int:
    """Delete a session and all that belongs to it, its archives too; return how many messages it had.

    Deleting an archive keeps the conversation that continues it, without the messages. Raises `NotFoundError` when
    there is none.
    """
    held = [row[0] for row in connection.execute("SELECT id FROM messages WHERE session_id = ?", (session_id,))]
    if sessions.find_tip(connection, session_id) != session_id:
        delete_messages(connection, session_id, held, now)
        row = sessions.get_session(connection, session_id)
        if row is not None:
            compactions.drop_archive(connection, row)
        return len(held)
    gone = 0
    for name in sessions.list_lineage(connection, session_id) or [session_id]:
        connection.execute("DELETE FROM deliveries WHERE session_id = ?", (name,))
        connection.execute(
            "UPDATE arrivals SET state = 'done', outcome = 'the session was deleted', body = NULL"
            " WHERE session_id = ? AND state <> 'done'",
            (name,),
        )
        connection.execute(
            "INSERT INTO changes (message_id, erase) SELECT id, 1 FROM messages WHERE session_id = ?", (name,)
        )
        gone += connection.changes()
        connection.execute("DELETE FROM sessions WHERE id = ?", (name,))
        sessions.require_changed_row(connection, name)
    return gone


def _erase_copies(connection: apsw.Connection, session_id: str, ids: Sequence[int]) -> None:
    """Remove all copies of these messages' words: in compactions, in the journal of their turns, in titles."""
    compactions.dissolve_compactions(connection, session_id, min(ids))
    listed = json.dumps(list(ids))
    connection.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id IN"
        " (SELECT turn_id FROM messages WHERE id IN (SELECT value FROM json_each(?)))",
        (listed,),
    )
    _clear_titles(
        connection, session_id, (row.message.text for row in transcript.read_messages_by_id(connection, listed))
    )


def _clear_titles(connection: apsw.Connection, session_id: str, texts: Iterable[str]) -> None:
    """Clear titles that are the beginning of one of the texts; a session's title is made of its first message."""
    lines = [to_one_line(text, _MAX_TITLE_LINE) for text in texts]
    for name in sessions.list_lineage(connection, session_id):
        row = sessions.get_session(connection, name)
        title = compactions.strip_title_number(row.title).rstrip(".… ") if row is not None else ""
        if title and any(line.startswith(title) for line in lines):
            sessions.rename_session(connection, name, "")


def _begin_clean_epoch(connection: apsw.Connection, session_id: str, reason: str, now: float) -> None:
    """Begin the epoch that sends what is left, with the same frame."""
    epoch = sessions.get_open_epoch(connection, session_id)
    if epoch is not None and epoch.frame.provider:
        sessions.begin_epoch(connection, session_id, epoch.frame, reason, now)
