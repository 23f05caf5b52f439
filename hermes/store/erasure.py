"""Erasure of words from every file.

What a compression made of a message is erased with it: the later compressions are undone, and a new
epoch begins by name.
"""

import json
from collections.abc import Callable, Iterable, Sequence

import apsw

from hermes.core.errors import NotFoundError, UsageError
from hermes.core.messages import Message
from hermes.i18n.messages import N_
from hermes.store import compactions, messages, sessions
from hermes.store.database import Database
from hermes.store.messages import SearchRepository
from hermes.store.repository import Repository, Transaction, writes
from hermes.store.sub_agents import list_sessions_below
from hermes.store.turns import begin_epoch, get_open_epoch
from hermes.util.clock import Clock
from hermes.util.text import to_one_line

DELETED = "messages deleted"
REDACTED = "a message redacted"
"""The reason of an epoch whose transcript lacks words that the one before had."""
_MAX_TITLE_LINE = 10_000


class ErasureRepository(Repository):
    """Erasure of sessions and messages from every file.

    With `purge` their words stand in no file when a method returns. Who erases several passes False and calls
    `purge_files` at the end; should that not happen, the next opening does it.
    """

    def __init__(self, database: Database, clock: Clock, search: SearchRepository) -> None:
        super().__init__(database, clock)
        self._search = search

    async def delete_session(self, session_id: str, *, purge: bool = True) -> int:
        """Delete a session with all that belongs to it, its archives and its sub-agents' sessions too; return how many
        messages it had.

        Deleting an archive keeps the conversation that continues it, without the messages. Raises `NotFoundError` when
        there is none.
        """
        return await self._run_erasure(lambda tx: _delete_session(tx, session_id), purge=purge)

    async def delete_messages(self, session_id: str, ids: Sequence[int], *, purge: bool = True) -> int:
        """Delete messages of a session or its archives, words and all; return how many there were.

        Compressions that were made since are undone, here and when a message is redacted: what they made is
        deleted, and an epoch begins by name.
        """
        return await self._run_erasure(lambda tx: _delete_messages(tx, session_id, ids), purge=purge)

    async def redact_message(self, session_id: str, message_id: int, message: Message, *, purge: bool = True) -> None:
        """Replace a stored message by `message` and erase its words.

        Raises `NotFoundError`, and `UsageError` for a message that stands for others: it is deleted when one of
        them is redacted.
        """
        await self._run_erasure(lambda tx: _replace_message(tx, session_id, message_id, message), purge=purge)

    async def purge_files(self) -> None:
        """Rewrite both files without a trace of what was deleted, and empty their logs.

        SQLite's `secure_delete` is not enough: pages that were split or merged can keep old copies in their
        gaps. Takes about as long as copying the files. Raises `StoreError` when another program holds an old
        state for too long; the purge then stays pending.
        """
        await self._search.erase_deleted()
        await self._database.write_alone(_vacuum_database)
        await self._clear_purge_mark()

    async def _run_erasure(self, work: Callable[[Transaction], int], *, purge: bool) -> int:
        count = await self._erase_and_mark(work)
        if purge:
            await self.purge_files()
        return count

    @writes
    def _erase_and_mark(self, tx: Transaction, work: Callable[[Transaction], int]) -> int:
        count = work(tx)
        tx.execute("REPLACE INTO meta (key, value) VALUES ('purge', 'owed')")
        return count

    @writes
    def _clear_purge_mark(self, tx: Transaction) -> None:
        tx.execute("DELETE FROM meta WHERE key = 'purge'")


def _vacuum_database(connection: apsw.Connection) -> None:
    connection.execute("VACUUM").fetchall()
    connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)


def _replace_message(tx: Transaction, session_id: str, message_id: int, message: Message) -> int:
    session_id = sessions.find_tip(tx, session_id)
    if not messages.filter_owned(tx, sessions.list_lineage(tx, session_id), [message_id]):
        raise NotFoundError(
            N_("Session {session_id} has no message {message_id}.", session_id=session_id, message_id=message_id)
        )
    if any(message_id in one.made for one in compactions.list_compactions(tx, session_id)):
        raise UsageError(
            N_("Message {message_id} is a summary of others.", message_id=message_id),
            "Redact those; it is made again from them.",
        )
    _erase_copies(tx, session_id, [message_id])
    tx.execute(
        "UPDATE messages SET body = ?, role = ? WHERE id = ?",
        (messages.encode_message(message), message.role, message_id),
    )
    messages.note_changes(tx, json.dumps([message_id]), erase=True)
    _begin_clean_epoch(tx, session_id, REDACTED)
    return 1


def _delete_messages(tx: Transaction, session_id: str, ids: Sequence[int]) -> int:
    session_id = sessions.find_tip(tx, session_id)
    known = sorted(messages.filter_owned(tx, sessions.list_lineage(tx, session_id), ids))
    if known:
        _erase_copies(tx, session_id, known)
        messages.remove_messages(tx, session_id, known)
        _begin_clean_epoch(tx, session_id, DELETED)
    return len(known)


def _delete_session(tx: Transaction, session_id: str) -> int:
    held = [row[0] for row in tx.execute("SELECT id FROM messages WHERE session_id = ?", (session_id,))]
    if sessions.find_tip(tx, session_id) != session_id:
        _delete_messages(tx, session_id, held)
        row = sessions.get_session(tx, session_id)
        if row is not None:
            compactions.drop_archive(tx, row)
        return len(held)
    gone = 0
    for name in sessions.list_lineage(tx, session_id) or [session_id]:
        for child in list_sessions_below(tx, name):
            if sessions.get_session(tx, child) is not None:
                _delete_session(tx, sessions.find_tip(tx, child))
        tx.execute("DELETE FROM sub_agents WHERE session_id = ?", (name,))
        tx.execute("DELETE FROM deliveries WHERE session_id = ?", (name,))
        tx.execute(
            "UPDATE arrivals SET state = 'done', outcome = 'the session was deleted', body = NULL"
            " WHERE session_id = ? AND state <> 'done'",
            (name,),
        )
        tx.execute("INSERT INTO changes (message_id, erase) SELECT id, 1 FROM messages WHERE session_id = ?", (name,))
        gone += tx.changes()
        tx.execute("DELETE FROM sessions WHERE id = ?", (name,))
        sessions.require_changed_row(tx, name)
    return gone


def _erase_copies(tx: Transaction, session_id: str, ids: Sequence[int]) -> None:
    """Remove all copies of these messages' words: in compactions, in the journal of their turns, in titles."""
    compactions.dissolve_compactions(tx, session_id, min(ids))
    listed = json.dumps(list(ids))
    tx.execute(
        "UPDATE effects SET arguments = '', result = NULL WHERE turn_id IN"
        " (SELECT turn_id FROM messages WHERE id IN (SELECT value FROM json_each(?)))",
        (listed,),
    )
    tx.execute(
        "DELETE FROM code_runs WHERE turn_id IN"
        " (SELECT turn_id FROM messages WHERE id IN (SELECT value FROM json_each(?)))",
        (listed,),
    )
    _clear_titles(tx, session_id, (row.message.text for row in messages.read_messages_by_id(tx, listed)))


def _clear_titles(tx: Transaction, session_id: str, texts: Iterable[str]) -> None:
    """Clear titles that are the beginning of one of the texts; a session's title is made of its first message."""
    lines = [to_one_line(text, _MAX_TITLE_LINE) for text in texts]
    for name in sessions.list_lineage(tx, session_id):
        row = sessions.get_session(tx, name)
        title = compactions.strip_title_number(row.title).rstrip(".… ") if row is not None else ""
        if title and any(line.startswith(title) for line in lines):
            sessions.rename_session(tx, name, "")


def _begin_clean_epoch(tx: Transaction, session_id: str, reason: str) -> None:
    """Begin the epoch that sends what is left, with the same frame."""
    epoch = get_open_epoch(tx, session_id)
    if epoch is not None and epoch.frame.provider:
        begin_epoch(tx, session_id, epoch.frame, reason)
