"""Checkpoints of files as values, and the ledger that stores them."""

from asyncio import Future
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class Kind(StrEnum):
    """The kind of thing that is, or was, at a path."""

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
    """The target of a symbolic link."""

    @property
    def is_restorable(self) -> bool:
        """Return whether the path can be brought back into this state."""
        return self.kind in (Kind.ABSENT, Kind.FILE, Kind.LINK, Kind.FOLDER)


ABSENT = FileState(Kind.ABSENT)


class FileChange(Struct, frozen=True):
    """A path with its state before the first change, and as the agent left it (None if it was not looked at since)."""

    path: str
    before: FileState
    after: FileState | None = None


class FileLoss(Struct, frozen=True):
    """Files that a command may lose: a path (absolute), with all that is below it."""

    path: str
    ignored: bool = True
    """Whether what git ignores is lost as well."""
    history: bool = True
    """Whether a repository's own history is."""
    builds: bool = False
    """Whether build output counts, because something else may lie there under its name."""
    unlisted: bool = False
    """Whether nothing counts but that the folder is too large to be copied at all."""


class WorkspaceChanges(Struct, frozen=True):
    """What has changed in a workspace: files with their state, and folders of which it is not known what has."""

    files: Mapping[str, FileState] = {}
    folders: tuple[str, ...] = ()
    whole: bool = True
    """Whether all of it could be looked through; else its root is the folder."""


class Purpose(StrEnum):
    """The reason why a checkpoint was taken."""

    TURN = "turn"
    """A turn was about to change files."""
    RESTORE = "restore"
    """Files were about to be restored; it undoes that restore."""


class NewCheckpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint about to be stored. `place` names the terminal backend; `folder` is the folder that was
    scanned as a whole.

    `base` is the digest of the listing that the folder had (empty: only named files are covered); while it
    stands, the changes of the turn's commands are still to be worked out. `whole` says that the listing
    left nothing out.
    """

    session_id: str
    turn_id: str
    folder: str
    place: str = ""
    purpose: Purpose = Purpose.TURN
    base: str = ""
    whole: bool = True


class Checkpoint(NewCheckpoint, frozen=True, kw_only=True):
    """A stored checkpoint. `open` is true until its turn, or its restore, has ended."""

    id: int
    at: float
    open: bool


class CheckpointLedger(Protocol):
    """The storage of checkpoints. A call is durable when it returns. Methods raise `StoreError`."""

    async def find(self, session_id: str, turn_id: str) -> Checkpoint | None:
        """Return the checkpoint of a turn, or None."""
        ...

    async def list_changes(self, checkpoint_id: int) -> Sequence[FileChange]:
        """Return the changes that a checkpoint holds, in the order of their paths."""
        ...

    async def add(self, new: NewCheckpoint, changes: Sequence[FileChange]) -> int:
        """Store a checkpoint with its files, all or nothing. Return its id."""
        ...

    async def extend(
        self, checkpoint_id: int, changes: Sequence[FileChange], *, base: str | None = None, whole: bool = True
    ) -> None:
        """Add files; those that are there already keep their earlier state. With `base`, also store the folder's
        listing.
        """
        ...

    def submit_changes(self, checkpoint_id: int, changes: Sequence[FileChange]) -> Future[None]:
        """Add files as `extend` does, together with what is written next, and return at once; the future is done when
        that is durable. Raises `BusyError` where too much waits.
        """
        ...

    async def settle(self, checkpoint_id: int, changes: Sequence[FileChange]) -> None:
        """Store the final state of files and mark the checkpoint complete. One that holds nothing is deleted."""
        ...

    async def get_folder_base(self, folder: str) -> str:
        """Return the digest of the folder's last listing; empty when there is none."""
        ...

    async def set_folder_base(self, folder: str, base: str) -> None:
        """Remember the folder's last listing."""
        ...

    async def prune(self, folder: str, *, most: int, since: float) -> int:
        """Delete all but the newest checkpoints of a folder, and those older than `since`. Return how many; open ones
        stay.
        """
        ...

    async def prune_oldest(self, *, keep: str = "") -> bool:
        """Delete the oldest of all complete checkpoints, but the last of the session `keep`. Return False when there is
        nothing to delete.
        """
        ...

    async def forget_listings(self, *, keep: str = "") -> bool:
        """Forget the last listings of all folders but `keep`. Return False when there is nothing to forget."""
        ...

    async def list_named_contents(self) -> tuple[set[str], set[str]]:
        """Return the digests of all contents in use: of files, and of listings, which name more."""
        ...
