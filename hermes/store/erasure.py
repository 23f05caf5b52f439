"""Words that are to vanish from every file: functions over a connection, inside the caller's transaction.

What a compression made of a message goes with it: the compressions since are taken back, and the epoch ends by name.
"""

import json
from collections.abc import Iterable, Sequence

import apsw

from hermes.core.errors import NotFoundError, UsageError
from hermes.core.messages import Message
from hermes.store import compactions, sessions, transcript
from hermes.util.text import one_line

DELETED = "messages deleted"
REDACTED = "a message redacted"
"""Why an epoch begins whose transcript lacks words that the one before had."""
_LONG = 10_000


def replace(connection: apsw.Connection, session_id: str, message_id: int, message: Message, now: float) -> None:
    """Put another message in the place of one, whose words are to vanish.

    Raises `NotFoundError`, and `UsageError` for what stands for other messages: it goes when one of them is redacted.
    """
    session_id = sessions.tip(connection, session_id)
    if not transcript.own(connection, sessions.lineage(connection, session_id), [message_id]):
        raise NotFoundError(f"Session {session_id} has no message {message_id}.")
    if any(message_id in one.made for one in compactions.read(connection, session_id)):
        raise UsageError(f"Message {message_id} stands for others.", "Redact those; it is made anew from them.")
    _forget(connection, session_id, [message_id])
    connection.execute(
        "UPDATE messages SET body = ?, role = ? WHERE id = ?",
        (transcript.encode(message), message.role, message_id),
    )
    transcript.note_changes(connection, json.dumps([message_id]), erase=True)
    _begin_anew(connection, session_id, REDACTED, now)


def delete(connection: apsw.Connection, session_id: str, ids: Sequence[int], now: float) -> int:
    """Delete messages of a session or its archives, with what the effect journal holds of their calls; how many there
    were."""
    session_id = sessions.tip(connection, session_id)
    known = sorted(transcript.own(connection, sessions.lineage(connection, session_id), ids))
    if known:
        _forget(connection, session_id, known)
        transcript.remove(connection, session_id, known)
        _begin_anew(connection, session_id, DELETED, now)
    return len(known)


def delete_session(connection: apsw.Connection, session_id: str, now: float) -> int:
    """Delete a session and all that belongs to it, its archives too; how many messages it had.

    Of an archive the conversation that goes on from it stays, without the messages. `NotFoundError` when there is none.
    """
    held = [row[0] for row in connection.execute("SELECT id FROM messages WHERE session_id = ?", (session_id,))]
    if sessions.tip(connection, session_id) != session_id:
        delete(connection, session_id, held, now)
        row = sessions.get(connection, session_id)
        if row is not None:
            compactions.drop_archive(connection, row)
        return len(held)
    gone = 0
    for name in sessions.lineage(connection, session_id) or [session_id]:
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
        sessions.must_have_changed(connection, name)
    return gone


def _forget(connection: apsw.Connection, session_id: str, ids: Sequence[int]) -> None:
    """Leave no copy of these messages' words: in records, in the journal of their turns, in a title."""
    compactions.dissolve(connection, session_id, min(ids))
    listed = json.dumps(list(ids))
    connection.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id IN"
        " (SELECT turn_id FROM messages WHERE id IN (SELECT value FROM json_each(?)))",
        (listed,),
    )
    _forget_titles(connection, session_id, (row.message.text for row in transcript.read_some(connection, listed)))


def _forget_titles(connection: apsw.Connection, session_id: str, texts: Iterable[str]) -> None:
    """Take away titles that are the beginning of one of the texts; a session has its first message's."""
    lines = [one_line(text, _LONG) for text in texts]
    for name in sessions.lineage(connection, session_id):
        row = sessions.get(connection, name)
        title = compactions.unnumbered(row.title).rstrip(".… ") if row is not None else ""
        if title and any(line.startswith(title) for line in lines):
            sessions.rename(connection, name, "")


def _begin_anew(connection: apsw.Connection, session_id: str, reason: str, now: float) -> None:
    """Begin the epoch that sends what is left, with the frame that there was."""
    epoch = sessions.current_epoch(connection, session_id)
    if epoch is not None and epoch.frame.provider:
        sessions.begin_epoch(connection, session_id, epoch.frame, reason, now)
