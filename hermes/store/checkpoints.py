"""Checkpoints of files: the states before a change and after it."""

import os
from collections.abc import Iterable, Sequence

import msgspec

from hermes.core.checkpoints import Checkpoint, FileChange, FileState, Kind, NewCheckpoint
from hermes.store.repository import Repository, Transaction, joins_next, reads, writes

_FIELDS = "session_id, turn_id, folder, place, purpose, base, whole, id, at, open"
_ROW = tuple[bytes, bytes, bytes | None]
_STATE = msgspec.msgpack.Decoder(FileState)
_ON_CONFLICT = " ON CONFLICT (checkpoint_id, path) DO UPDATE SET after = coalesce(excluded.after, after)"
_UPSERT = f"INSERT INTO checkpoint_files (checkpoint_id, path, before, after) VALUES (?, ?, ?, ?){_ON_CONFLICT}"
_UPSERT_WHERE_KNOWN = (
    "INSERT INTO checkpoint_files (checkpoint_id, path, before, after)"
    f" SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM checkpoints WHERE id = ?1){_ON_CONFLICT}"
)
"""Adds nothing to a checkpoint that was forgotten with its session, in one statement."""


class CheckpointRepository(Repository):
    """The `CheckpointLedger`, and queries about checkpoints."""

    @reads
    def find(self, tx: Transaction, session_id: str, turn_id: str) -> Checkpoint | None:
        """Return the checkpoint of a turn, or None."""
        where = "session_id = ? AND turn_id = ? AND purpose = 'turn' ORDER BY id DESC LIMIT 1"
        return next(iter(_select_checkpoints(tx, where, session_id, turn_id)), None)

    @reads
    def get(self, tx: Transaction, checkpoint_id: int) -> Checkpoint | None:
        """Return the checkpoint of this id, or None."""
        return next(iter(_select_checkpoints(tx, "id = ?", checkpoint_id)), None)

    @reads
    def list_of_session(self, tx: Transaction, session_id: str) -> list[Checkpoint]:
        """Return a session's checkpoints, the newest first."""
        return _select_checkpoints(tx, "session_id = ? ORDER BY id DESC", session_id)

    @reads
    def list_changes(self, tx: Transaction, checkpoint_id: int) -> list[FileChange]:
        """Return the file changes of a checkpoint, ordered by path."""
        rows = tx.execute(
            "SELECT path, before, after FROM checkpoint_files WHERE checkpoint_id = ? ORDER BY path",
            (checkpoint_id,),
        ).fetchall()
        return [_to_change(*msgspec.convert(row, _ROW)) for row in rows]

    @writes
    def add(self, tx: Transaction, new: NewCheckpoint, changes: Sequence[FileChange]) -> int:
        """Store a checkpoint with its files, all or nothing; return its id."""
        values = (new.session_id, new.turn_id, os.fsencode(new.folder), new.place, new.purpose, new.base, new.whole)

        made = tx.execute(
            "INSERT INTO checkpoints (session_id, turn_id, folder, place, purpose, base, whole, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            (*values, tx.now),
        ).get
        number = msgspec.convert(made, int)
        _upsert_changes(tx, number, changes)
        return number

    @writes
    def extend(
        self,
        tx: Transaction,
        checkpoint_id: int,
        changes: Sequence[FileChange],
        *,
        base: str | None = None,
        whole: bool = True,
    ) -> None:
        """Add files to a checkpoint; with `base` also the folder's listing. Files that are in it keep their first
        state.
        """
        if tx.execute("SELECT 1 FROM checkpoints WHERE id = ?", (checkpoint_id,)).get is None:
            return  # forgotten meanwhile, with its session
        _upsert_changes(tx, checkpoint_id, changes)
        if base is not None:
            tx.execute("UPDATE checkpoints SET base = ?, whole = ? WHERE id = ?", (base, whole, checkpoint_id))

    @joins_next
    def submit_changes(self, tx: Transaction, checkpoint_id: int, changes: Sequence[FileChange]) -> None:
        """Add files as `extend` does."""
        tx.executemany(_UPSERT_WHERE_KNOWN, _list_rows(checkpoint_id, changes))

    @writes
    def settle(self, tx: Transaction, checkpoint_id: int, changes: Sequence[FileChange]) -> None:
        """Store the states after the change and mark the checkpoint as complete. One that
        holds no change is deleted.
        """
        if tx.execute("SELECT 1 FROM checkpoints WHERE id = ?", (checkpoint_id,)).get is None:
            return
        _upsert_changes(tx, checkpoint_id, changes)
        tx.execute("DELETE FROM checkpoint_files WHERE checkpoint_id = ? AND before = after", (checkpoint_id,))
        tx.execute("UPDATE checkpoints SET open = 0, base = '' WHERE id = ?", (checkpoint_id,))
        tx.execute(
            "DELETE FROM checkpoints WHERE id = ?1"
            " AND NOT EXISTS (SELECT 1 FROM checkpoint_files WHERE checkpoint_id = ?1)",
            (checkpoint_id,),
        )

    @reads
    def get_folder_base(self, tx: Transaction, folder: str) -> str:
        """Return the digest of the folder's last listing; empty when there is none."""
        found = tx.execute("SELECT base FROM checkpoint_folders WHERE folder = ?", (os.fsencode(folder),)).get
        return "" if found is None else str(found)

    @writes
    def set_folder_base(self, tx: Transaction, folder: str, base: str) -> None:
        """Store the digest of the folder's last listing."""
        row = (os.fsencode(folder), base, tx.now)
        tx.execute("REPLACE INTO checkpoint_folders (folder, base, at) VALUES (?, ?, ?)", row)

    @writes
    def prune(self, tx: Transaction, folder: str, *, most: int, since: float) -> int:
        """Delete all but the newest checkpoints of a folder, and those older than `since`; return how many.

        Open ones stay unless they are older than `since`.
        """
        gone = tx.change_rows(
            "DELETE FROM checkpoints WHERE (open = 0 OR at < ?1) AND (at < ?1 OR id IN"
            " (SELECT id FROM checkpoints WHERE folder = ?2 ORDER BY id DESC LIMIT -1 OFFSET ?3))",
            (since, os.fsencode(folder), most),
        )
        tx.execute("DELETE FROM checkpoint_folders WHERE at < ?", (since,))
        return gone + tx.changes()

    @writes
    def prune_oldest(self, tx: Transaction, *, keep: str = "") -> bool:
        """Delete the oldest quarter of all complete checkpoints, but the last of the session `keep`; return False when
        there is nothing to delete.
        """
        return tx.change_any(
            "WITH old AS (SELECT id FROM checkpoints WHERE open = 0"
            " AND id <> coalesce((SELECT max(id) FROM checkpoints WHERE session_id = ?), 0))"
            " DELETE FROM checkpoints WHERE id IN"
            " (SELECT id FROM old ORDER BY id LIMIT (SELECT (count(*) + 3) / 4 FROM old))",
            (keep,),
        )

    @writes
    def forget_listings(self, tx: Transaction, *, keep: str = "") -> bool:
        """Forget the last listings of all folders but `keep`; return False when there is nothing to forget."""
        return tx.change_any("DELETE FROM checkpoint_folders WHERE folder <> ?", (os.fsencode(keep),))

    @reads
    def list_named_contents(self, tx: Transaction) -> tuple[set[str], set[str]]:
        """Return every content digest that is referenced: those of files, and those of
        listings, which reference more.
        """
        files: set[str] = set()
        for row in tx.execute("SELECT before, after FROM checkpoint_files"):
            files |= {state.mark for state in map(_decode_state, row) if state is not None and state.kind is Kind.FILE}
        bases = tx.execute("SELECT base FROM checkpoints WHERE base <> '' UNION SELECT base FROM checkpoint_folders")
        return files, {str(row[0]) for row in bases}


def _upsert_changes(tx: Transaction, number: int, changes: Iterable[FileChange]) -> None:
    tx.executemany(_UPSERT, _list_rows(number, changes))


def _list_rows(number: int, changes: Iterable[FileChange]) -> list[tuple[int, bytes, bytes | None, bytes | None]]:
    return [(number, os.fsencode(one.path), _encode_state(one.before), _encode_state(one.after)) for one in changes]


def _encode_state(state: FileState | None) -> bytes | None:
    return None if state is None else msgspec.msgpack.encode(state)


def _decode_state(stored: object) -> FileState | None:
    return _STATE.decode(stored) if isinstance(stored, bytes) else None


def _to_change(path: bytes, before: bytes, after: bytes | None) -> FileChange:
    return FileChange(os.fsdecode(path), _STATE.decode(before), _decode_state(after))


def _to_checkpoint(row: tuple[object, ...]) -> Checkpoint:
    values = dict(zip(_FIELDS.split(", "), row, strict=True))
    folder = values.pop("folder")
    assert isinstance(folder, bytes)
    flags = {name: bool(values[name]) for name in ("whole", "open")}
    return msgspec.convert(values | flags | {"folder": os.fsdecode(folder)}, Checkpoint, strict=False)


def _select_checkpoints(tx: Transaction, where: str, *values: str | int | bytes) -> list[Checkpoint]:
    rows = tx.execute(f"SELECT {_FIELDS} FROM checkpoints WHERE {where}", values).fetchall()
    return [_to_checkpoint(row) for row in rows]
