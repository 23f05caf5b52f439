"""Checkpoints of files: what stood where before it was changed, and what was left there."""

import os
from collections.abc import Iterable, Sequence

import apsw
import msgspec

from hermes.core.checkpoints import Checkpoint, FileChange, FileState, Kind, NewCheckpoint
from hermes.store.access import Access

_FIELDS = "session_id, turn_id, folder, place, purpose, base, whole, id, at, open"
_ROW = tuple[bytes, bytes, bytes | None]
_STATE = msgspec.msgpack.Decoder(FileState)
_UPSERT = (
    "INSERT INTO checkpoint_files (checkpoint_id, path, before, after) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (checkpoint_id, path) DO UPDATE SET after = coalesce(excluded.after, after)"
)


class CheckpointAccess(Access):
    """The `CheckpointLedger`, and what is asked about checkpoints."""

    async def checkpoint_of(self, session_id: str, turn_id: str) -> Checkpoint | None:
        """The checkpoint of a turn."""
        where = "session_id = ? AND turn_id = ? AND purpose = 'turn' ORDER BY id DESC LIMIT 1"
        return next(iter(await self._found(where, session_id, turn_id)), None)

    async def checkpoint(self, checkpoint_id: int) -> Checkpoint | None:
        """The checkpoint of this id."""
        return next(iter(await self._found("id = ?", checkpoint_id)), None)

    async def checkpoints(self, session_id: str) -> list[Checkpoint]:
        """A session's checkpoints, the newest first."""
        return await self._found("session_id = ? ORDER BY id DESC", session_id)

    async def folder_checkpoints(self, folder: str) -> list[Checkpoint]:
        """The checkpoints of a folder, of whichever session, the newest first."""
        return await self._found("folder = ? ORDER BY id DESC", os.fsencode(folder))

    async def checkpoint_changes(self, checkpoint_id: int) -> list[FileChange]:
        """What a checkpoint holds, in the order of paths."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT path, before, after FROM checkpoint_files WHERE checkpoint_id = ? ORDER BY path",
                (checkpoint_id,),
            ).fetchall()
        )
        return [_change(*msgspec.convert(row, _ROW)) for row in rows]

    async def add_checkpoint(self, new: NewCheckpoint, changes: Sequence[FileChange]) -> int:
        """Store a checkpoint with its files, all or nothing; its id."""
        now = self._clock.now()
        values = (new.session_id, new.turn_id, os.fsencode(new.folder), new.place, new.purpose, new.base, new.whole)

        def work(connection: apsw.Connection) -> int:
            made = connection.execute(
                "INSERT INTO checkpoints (session_id, turn_id, folder, place, purpose, base, whole, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                (*values, now),
            ).get
            number = msgspec.convert(made, int)
            _write(connection, number, changes)
            return number

        return await self._database.write(work)

    async def extend_checkpoint(
        self, checkpoint_id: int, changes: Sequence[FileChange], *, base: str | None = None, whole: bool = True
    ) -> None:
        """Add files, those that are there already keep what stood before; with `base` also the folder's listing."""

        def work(connection: apsw.Connection) -> None:
            if connection.execute("SELECT 1 FROM checkpoints WHERE id = ?", (checkpoint_id,)).get is None:
                return  # forgotten meanwhile, with its session
            _write(connection, checkpoint_id, changes)
            if base is not None:
                connection.execute(
                    "UPDATE checkpoints SET base = ?, whole = ? WHERE id = ?", (base, whole, checkpoint_id)
                )

        await self._database.write(work)

    async def settle_checkpoint(self, checkpoint_id: int, changes: Sequence[FileChange]) -> None:
        """Write down what was left, and that the checkpoint is complete. One that holds nothing is deleted."""

        def work(connection: apsw.Connection) -> None:
            if connection.execute("SELECT 1 FROM checkpoints WHERE id = ?", (checkpoint_id,)).get is None:
                return
            _write(connection, checkpoint_id, changes)
            connection.execute(
                "DELETE FROM checkpoint_files WHERE checkpoint_id = ? AND before = after", (checkpoint_id,)
            )
            connection.execute("UPDATE checkpoints SET open = 0, base = '' WHERE id = ?", (checkpoint_id,))
            connection.execute(
                "DELETE FROM checkpoints WHERE id = ?1"
                " AND NOT EXISTS (SELECT 1 FROM checkpoint_files WHERE checkpoint_id = ?1)",
                (checkpoint_id,),
            )

        await self._database.write(work)

    async def folder_base(self, folder: str) -> str:
        """The digest of the folder's last listing; empty when there is none."""
        found = await self._database.read(
            lambda connection: (
                connection.execute("SELECT base FROM checkpoint_folders WHERE folder = ?", (os.fsencode(folder),)).get
            )
        )
        return "" if found is None else str(found)

    async def set_folder_base(self, folder: str, base: str) -> None:
        """Remember the folder's last listing."""
        row = (os.fsencode(folder), base, self._clock.now())
        await self._database.write(
            lambda connection: connection.execute(
                "REPLACE INTO checkpoint_folders (folder, base, at) VALUES (?, ?, ?)", row
            ).fetchall()
        )

    async def prune_checkpoints(self, folder: str, *, most: int, since: float) -> int:
        """Forget all but the newest of a folder, and whatever is older than `since`; how many. Open ones stay."""

        def work(connection: apsw.Connection) -> int:
            connection.execute(
                "DELETE FROM checkpoints WHERE (open = 0 OR at < ?1) AND (at < ?1 OR id IN"
                " (SELECT id FROM checkpoints WHERE folder = ?2 ORDER BY id DESC LIMIT -1 OFFSET ?3))",
                (since, os.fsencode(folder), most),
            )
            gone = connection.changes()
            connection.execute("DELETE FROM checkpoint_folders WHERE at < ?", (since,))
            return gone + connection.changes()

        return await self._database.write(work)

    async def prune_oldest(self) -> bool:
        """Forget the oldest quarter of all that are complete, or else every listing; False: nothing to forget."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                "DELETE FROM checkpoints WHERE id IN (SELECT id FROM checkpoints WHERE open = 0 ORDER BY id"
                " LIMIT (SELECT (count(*) + 3) / 4 FROM checkpoints WHERE open = 0))"
            )
            if connection.changes() == 0:
                connection.execute("DELETE FROM checkpoint_folders")
            return connection.changes() > 0

        return await self._database.write(work)

    async def named_contents(self) -> tuple[set[str], set[str]]:
        """Every content that is named: of files, and of listings, which name more."""

        def work(connection: apsw.Connection) -> tuple[set[str], set[str]]:
            files: set[str] = set()
            for row in connection.execute("SELECT before, after FROM checkpoint_files"):
                files |= {state.mark for state in map(_state, row) if state is not None and state.kind is Kind.FILE}
            bases = connection.execute(
                "SELECT base FROM checkpoints WHERE base <> '' UNION SELECT base FROM checkpoint_folders"
            )
            return files, {str(row[0]) for row in bases}

        return await self._database.read(work)

    async def _found(self, where: str, *values: str | int | bytes) -> list[Checkpoint]:
        rows = await self._database.read(
            lambda connection: connection.execute(f"SELECT {_FIELDS} FROM checkpoints WHERE {where}", values).fetchall()
        )
        return [_checkpoint(row) for row in rows]


def _write(connection: apsw.Connection, number: int, changes: Iterable[FileChange]) -> None:
    connection.executemany(
        _UPSERT, [(number, os.fsencode(one.path), _encoded(one.before), _encoded(one.after)) for one in changes]
    )


def _encoded(state: FileState | None) -> bytes | None:
    return None if state is None else msgspec.msgpack.encode(state)


def _state(stored: object) -> FileState | None:
    return _STATE.decode(stored) if isinstance(stored, bytes) else None


def _change(path: bytes, before: bytes, after: bytes | None) -> FileChange:
    return FileChange(os.fsdecode(path), _STATE.decode(before), _state(after))


def _checkpoint(row: tuple[object, ...]) -> Checkpoint:
    values = dict(zip(_FIELDS.split(", "), row, strict=True))
    folder = values.pop("folder")
    assert isinstance(folder, bytes)
    flags = {name: bool(values[name]) for name in ("whole", "open")}
    return msgspec.convert(values | flags | {"folder": os.fsdecode(folder)}, Checkpoint, strict=False)
