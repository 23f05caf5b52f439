"""The search index's file: it is created, updated, cleaned and, when it cannot be trusted, rebuilt.

Messages are in shards of 65,536 ids, each a full-text table of its own. A query about recent things
touches the newest shard only, and erasing words rewrites one shard, not the whole index.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import apsw
import msgspec

from hermes.core.errors import StoreError
from hermes.core.messages import Message
from hermes.i18n.messages import N_
from hermes.store.connection import enable_wal, open_connection
from hermes.store.database import transaction
from hermes.store.records import IndexReport, MessageState
from hermes.store.search.text import build_index_text, make_label

SHARD_BITS = 16
VERSION = 2
DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)
"""SQLite's errors for a file that is not, or no longer, an index as this module makes it."""
_APPLICATION = 0x4845525A
_BATCH_ROWS = 16_384
_BATCH_CHARACTERS = 16_000_000
_SORTER_BYTES = 16_777_216
_CACHE = "PRAGMA main.cache_size = -8000"
_BODY = msgspec.json.Decoder(Message)
_TABLES = """
CREATE TABLE state (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE shards (number INTEGER PRIMARY KEY, untidy INTEGER NOT NULL DEFAULT 0);
"""
_FETCH = """
SELECT m.id, m.session_id, m.role, m.state, m.body, s.source, s.user_id
FROM store.messages AS m JOIN store.sessions AS s ON s.id = m.session_id AND m.position = m.id
"""
"""Selects originals only: a message that a compaction made stands at the place of others, so its position is not its
id.
"""


class _IndexPosition(NamedTuple):
    """How far the index has followed the store."""

    store: str
    message: int
    change: int


class IndexFile:
    """The index, in one thread. Methods raise `apsw.Error`; a damaged file is replaced by `rebuild_file`."""

    def __init__(self, path: Path, store_path: Path, *, vfs: str | None = None) -> None:
        self.path = path
        self._store_path = store_path
        self._vfs = vfs
        try:
            self.connection = self._open_connection()
        except DAMAGED:
            self.connection = self._rebuild_locked()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def rebuild_file(self) -> None:
        """Recreate the file after an error that says that it is damaged, unless another process just has.

        A lock on a file beside it keeps two processes from removing each other's new index.
        """
        self.connection.close()
        self.connection = self._rebuild_locked()

    def _rebuild_locked(self) -> apsw.Connection:
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self._is_usable():
                for suffix in ("", "-wal", "-shm", "-journal"):
                    Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            return self._open_connection()
        finally:
            os.close(lock)

    def _is_usable(self) -> bool:
        connection: apsw.Connection | None = None
        try:
            connection = self._open_connection()
            for (number,) in connection.execute("SELECT number FROM shards"):
                connection.execute(f"SELECT rowid FROM words_{number:d} LIMIT 1").fetchall()
            return bool(connection.execute("PRAGMA main.integrity_check(1)").get == "ok")
        except apsw.Error:
            return False
        finally:
            if connection is not None:
                connection.close()

    def _open_connection(self) -> apsw.Connection:
        with contextlib.ExitStack() as undo:
            connection = open_connection(self.path, create=True, vfs=self._vfs)
            undo.callback(connection.close)
            _require_own_file(connection, self.path)
            enable_wal(connection, synchronous="NORMAL")
            connection.execute(_CACHE).fetchall()
            connection.execute("ATTACH ? AS store", (f"{self._store_path.absolute().as_uri()}?mode=ro",))
            if connection.pragma("user_version") != VERSION:
                _create_tables(connection)
            undo.pop_all()
        return connection

    def list_shards(self) -> list[int]:
        """Return the numbers of the shards, the newest first."""
        return [row[0] for row in self.connection.execute("SELECT number FROM shards ORDER BY number DESC")]

    def catch_up(self, stop: Callable[[], bool]) -> IndexReport:
        """Index what the store has and the index has not, batch by batch, until done or `stop` returns true."""
        began = time.monotonic()
        count = 0
        while self._read_position() != self._read_store_position() and not stop():
            with transaction(self.connection):
                count += self._index_batch()
        return IndexReport(count, time.monotonic() - began)

    def tidy_shards(self, stop: Callable[[], bool]) -> None:
        """Rewrite the shards that have become full, and those from which words were erased, so that these are gone."""
        for (number,) in self.connection.execute("SELECT number FROM shards WHERE untidy = 1").fetchall():
            if stop():
                return
            # Written once and not read again: what the cache held of it would stay the process's.
            self.connection.execute("PRAGMA main.cache_size = -1000").fetchall()
            with transaction(self.connection):
                self.connection.execute(f"INSERT INTO words_{number:d} (words_{number:d}) VALUES ('optimize')")
                self.connection.execute("UPDATE shards SET untidy = 0 WHERE number = ?", (number,))
            self.connection.execute(_CACHE).fetchall()

    def erase_deleted(self) -> None:
        """Catch up, and leave no erased words in any page of the file or its log."""
        self.catch_up(lambda: False)
        self.tidy_shards(lambda: False)
        self.connection.execute("VACUUM main").fetchall()
        self.connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _read_position(self) -> _IndexPosition:
        row = dict(list(self.connection.execute("SELECT key, value FROM state")))
        return _IndexPosition(str(row.get("store", "")), int(row.get("message", 0)), int(row.get("change", 0)))

    def _read_store_position(self) -> _IndexPosition:
        last = dict(list(self.connection.execute("SELECT name, seq FROM store.sqlite_sequence")))
        store = self.connection.execute("SELECT value FROM store.meta WHERE key = 'id'").get
        return _IndexPosition(str(store), int(last.get("messages", 0)), int(last.get("changes", 0)))

    def _index_batch(self) -> int:
        """Index some new messages, or some that have changed; return how many these were."""
        place, goal = self._read_position(), self._read_store_position()
        if place.store != goal.store or place.message > goal.message or place.change > goal.change:
            place = self._reset_index(goal)
        if place.change < goal.change:
            count, place = self._follow_changes(place, goal)
        else:
            count, place = self._follow_messages(place, goal)
        self.connection.executemany("REPLACE INTO state (key, value) VALUES (?, ?)", list(place._asdict().items()))
        return count

    def _reset_index(self, goal: _IndexPosition) -> _IndexPosition:
        """Empty the index: it belongs to another store, or to a later state of this one."""
        for number in self.list_shards():
            self.connection.execute(f"DROP TABLE words_{number:d}")
        self.connection.execute("DELETE FROM shards")
        return _IndexPosition(goal.store, 0, goal.change)

    def _follow_changes(self, place: _IndexPosition, goal: _IndexPosition) -> tuple[int, _IndexPosition]:
        rows = list(
            self.connection.execute(
                "SELECT id, message_id, erase FROM store.changes WHERE id > ? ORDER BY id LIMIT ?",
                (place.change, _BATCH_ROWS),
            )
        )
        known = set(self.list_shards())
        last = goal.change
        for last, message_id, erase in rows:  # noqa: B007 - the last one is the new place
            shard = message_id >> SHARD_BITS
            if message_id > place.message or shard not in known:
                continue
            self.connection.execute(f"DELETE FROM words_{shard:d} WHERE rowid = ?", (message_id,))
            if erase:
                self.connection.execute("UPDATE shards SET untidy = 1 WHERE number = ?", (shard,))
            for row in self.connection.execute(f"{_FETCH} WHERE m.id = ?", (message_id,)):
                self._index_message(row)
        return len(rows), place._replace(change=last)

    def _follow_messages(self, place: _IndexPosition, goal: _IndexPosition) -> tuple[int, _IndexPosition]:
        known = set(self.list_shards())
        count = size = 0
        for row in self.connection.execute(f"{_FETCH} WHERE m.id > ? ORDER BY m.id", (place.message,)):
            shard = row[0] >> SHARD_BITS
            if shard not in known:
                self._add_shard(shard)
                known.add(shard)
            size += self._index_message(row)
            count += 1
            if count >= _BATCH_ROWS or size >= _BATCH_CHARACTERS:
                return count, place._replace(message=row[0])
        return count, place._replace(message=goal.message)

    def _index_message(self, row: tuple[int, str, str, int, bytes, str, str]) -> int:
        """Index a message, if it can be found by search; return its number of characters."""
        identity, session_id, role, state, body, source, person = row
        if state == MessageState.UNDONE:
            return 0
        try:
            text, pairs = build_index_text(_BODY.decode(body))
        except msgspec.MsgspecError:  # written by a newer Hermes: what cannot be read cannot be found
            return 0
        if text:
            labels = f"{make_label('r', role)} {make_label('o', source)} {make_label('s', session_id)}"
            if person:  # what the owner said needs no label: there was nothing else in indexes before this one
                labels += f" {make_label('u', person)} {make_label('u', '')}"
            self.connection.execute(
                f"REPLACE INTO words_{identity >> SHARD_BITS:d} (rowid, text, pairs, labels) VALUES (?, ?, ?, ?)",
                (identity, text, pairs, labels),
            )
        return len(text)

    def _add_shard(self, number: int) -> None:
        """Create the table of a new shard, and mark the one before, which is full, for tidying."""
        self.connection.execute(
            f"CREATE VIRTUAL TABLE words_{number:d} USING fts5"
            " (text, pairs, labels, content='', contentless_delete=1, tokenize='unicode61')"
        )
        self.connection.execute(
            f"INSERT INTO words_{number:d} (words_{number:d}, rank) VALUES ('hashsize', {_SORTER_BYTES})"
        )
        self.connection.execute("UPDATE shards SET untidy = 1 WHERE number = (SELECT max(number) FROM shards)")
        self.connection.execute("INSERT INTO shards (number) VALUES (?)", (number,))


def _require_own_file(connection: apsw.Connection, path: Path) -> None:
    empty = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").get is None
    if not empty and connection.pragma("application_id") != _APPLICATION:
        raise StoreError(
            N_("{path} is a database of another program.", path=path), "Move it away, or choose another folder."
        )


def _create_tables(connection: apsw.Connection) -> None:
    """Create the tables, unless another process has; an index of another version is dropped first."""
    with transaction(connection):
        if connection.pragma("user_version") != VERSION:
            names = connection.execute(
                "SELECT name FROM main.sqlite_schema"
                " WHERE sql LIKE 'CREATE VIRTUAL TABLE%' OR name IN ('state', 'shards')"
            ).fetchall()
            for (name,) in names:
                connection.execute(f'DROP TABLE "{name}"')
            connection.execute(_TABLES).fetchall()
            connection.execute(f"PRAGMA main.application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA main.user_version = {VERSION}")


def count_unindexed(path: Path, store_path: Path) -> int | None:
    """Return how many messages and changes are not indexed yet; None when the index
    cannot be used. Nothing is changed.
    """
    try:
        with contextlib.closing(open_connection(path, create=False)) as connection:
            connection.execute("ATTACH ? AS store", (f"{store_path.absolute().as_uri()}?mode=ro",))
            if connection.pragma("application_id") != _APPLICATION:
                return None
            place = dict(list(connection.execute("SELECT key, value FROM state")))
            goal = dict(list(connection.execute("SELECT name, seq FROM store.sqlite_sequence")))
            store = connection.execute("SELECT value FROM store.meta WHERE key = 'id'").get
    except apsw.Error:
        return None
    known = place if place.get("store") == store else {}
    names = (("message", "messages"), ("change", "changes"))
    return sum(max(int(goal.get(there, 0)) - int(known.get(here, 0)), 0) for here, there in names)
