"""Checkpoints of files as values, and the ledger that holds them: tools take them, the store keeps them."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class Kind(StrEnum):
    """What stands, or stood, at a path."""

    ABSENT = "absent"
    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    LARGE = "large"
    """A file too large for a copy: known by its stamp only."""
    HIDDEN = "hidden"
    """A file with keys, or one that may not be read: no copy is made of it."""
    OTHER = "other"
    """No file, no folder, no link."""


class FileState(Struct, frozen=True, array_like=True, gc=False):
    """A path at one moment. Equal states are the same bytes, mode and kind.

    `mark` is the digest of a file's content, or, where no copy is made, a stamp that changes when the file does.
    """

    kind: Kind
    mode: int = 0
    mark: str = ""
    size: int = 0
    target: bytes = b""
    """Where a link leads."""

    @property
    def kept(self) -> bool:
        """Whether the path can be brought back into this state."""
        return self.kind in (Kind.ABSENT, Kind.FILE, Kind.LINK, Kind.FOLDER)


ABSENT = FileState(Kind.ABSENT)


class FileChange(Struct, frozen=True):
    """A path with the state before the first change, and as the agent left it (None: nobody has looked since)."""

    path: str
    before: FileState
    after: FileState | None = None


class Purpose(StrEnum):
    """Why a checkpoint was taken."""

    TURN = "turn"
    """A turn was about to change files."""
    RESTORE = "restore"
    """Files were about to be put back; it takes that back itself."""


class NewCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint about to be stored. `place` names the terminal back end; `folder` is what was looked at as a whole.

    `base` is the digest of the listing that the folder had (empty: only named files are covered); while it stands, the
    changes of the turn's commands are still to be worked out. `whole` says that the listing left nothing out.
    """

    session_id: str
    turn_id: str
    folder: str
    place: str = ""
    purpose: Purpose = Purpose.TURN
    base: str = ""
    whole: bool = True


class Checkpoint(NewCheckpoint, frozen=True, kw_only=True):
    """A stored checkpoint. `open`: its turn, or its restoring, has not come to its end."""

    id: int
    at: float
    open: bool


class CheckpointLedger(Protocol):
    """Where checkpoints are written down. Durable when a call returns. Methods raise `StoreError`."""

    async def checkpoint_of(self, session_id: str, turn_id: str) -> Checkpoint | None:
        """The checkpoint of a turn."""
        ...

    async def checkpoint_changes(self, checkpoint_id: int) -> Sequence[FileChange]:
        """What a checkpoint holds, in the order of paths."""
        ...

    async def add_checkpoint(self, new: NewCheckpoint, changes: Sequence[FileChange]) -> int:
        """Store a checkpoint with its files, all or nothing; its id."""
        ...

    async def extend_checkpoint(
        self, checkpoint_id: int, changes: Sequence[FileChange], *, base: str | None = None, whole: bool = True
    ) -> None:
        """Add files, those that are there already keep what stood before; with `base` also the folder's listing."""
        ...

    async def settle_checkpoint(self, checkpoint_id: int, changes: Sequence[FileChange]) -> None:
        """Write down what was left, and that the checkpoint is complete. One that holds nothing is deleted."""
        ...

    async def folder_base(self, folder: str) -> str:
        """The digest of the folder's last listing; empty when there is none."""
        ...

    async def set_folder_base(self, folder: str, base: str) -> None:
        """Remember the folder's last listing."""
        ...

    async def prune_checkpoints(self, folder: str, *, most: int, since: float) -> int:
        """Forget all but the newest of a folder, and whatever is older than `since`; how many. Open ones stay."""
        ...

    async def prune_oldest(self) -> bool:
        """Forget the oldest of all that are complete, or else every listing; False when there is nothing to forget."""
        ...

    async def named_contents(self) -> tuple[set[str], set[str]]:
        """Every content that is named: of files, and of listings, which name more."""
        ...
