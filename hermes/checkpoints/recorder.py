"""Takes a checkpoint before the first write of each turn, and records at the turn's end what was left.

What may take long runs in a thread. A failure holds nothing up: the person is told, once.
"""

import asyncio
import contextlib
import logging
import os
import threading
import time
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from hermes.checkpoints.object_store import ObjectStore
from hermes.core.checkpoints import ABSENT, Checkpoint, CheckpointLedger, FileChange, FileState, Kind, NewCheckpoint
from hermes.core.errors import HermesError
from hermes.core.messages import PROGRAM, TextPart
from hermes.i18n.messages import tr
from hermes.safety.paths import Places, is_or_below
from hermes.util.file_handles import find_real_path

if TYPE_CHECKING:
    from hermes.checkpoints.path_states import StateReader
    from hermes.checkpoints.scan import FolderListing

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_IGNORED_ENTRIES = 5_000
"""The most files and folders that are copied of what git ignores and nothing makes again."""

_LEAVING_OUT = frozenset((".gitignore", "CACHEDIR.TAG"))
"""The names of files that leave others out of listings."""

_MAX_INLINE_FILES = 8
_MAX_INLINE_BYTES = 64 * 1024
"""The files, and their bytes together, that are read on the event loop after a tool has written them: they are in
memory.
"""


class CheckpointDeps(Struct, frozen=True, kw_only=True):
    """The services and limits that the checkpoints of a session need.

    `limit` is the bytes of the largest file that is copied, `total` those of all files of the folder together.
    """

    session_id: str
    places: Places
    backend_name: str
    """The name of the terminal back end."""
    objects: ObjectStore
    ledger: CheckpointLedger
    limit: int
    total: int
    is_confined: Callable[[], bool] = lambda: False
    """Tells whether commands run behind a wall. Fewer of them are asked about, so more is copied: keys,
    and what git ignores. Those commands cannot read the copies."""
    notify: Callable[[str], None] = lambda _: None
    """Shows the person a line."""


_DISK_CLOCK = getattr(time, "CLOCK_REALTIME_COARSE", time.CLOCK_REALTIME)
"""The clock by which the kernel stamps files: it is behind the other one."""


class _CommandTimes:
    """When commands of a turn ran, in nanoseconds: what changed at another time somebody else has changed."""

    def __init__(self) -> None:
        self._over: list[tuple[int, int]] = []
        self._running = 0
        self._since = 0

    def begin(self) -> None:
        """Note that a command begins, or may begin."""
        if not self._running:
            self._since = time.clock_gettime_ns(_DISK_CLOCK)
        self._running += 1

    def end(self) -> None:
        """Note that a command has ended."""
        if self._running:
            self._running -= 1
            self._over += [(self._since, time.time_ns())] if not self._running else []

    def has(self, path: str) -> bool:
        """Return whether a command may have made or changed what is at a path; True where nothing is there."""
        try:
            changed = os.lstat(path).st_ctime_ns
        except OSError:
            return True
        is_running = self._running > 0 and changed >= self._since
        return is_running or any(start <= changed <= end for start, end in self._over)


class _TurnCheckpoint(Struct):
    """The checkpoint of one turn."""

    turn_id: str
    checkpoint_id: int = 0
    """The checkpoint's id; 0: nothing was taken yet."""
    paths: dict[str, FileState] = field(default_factory=dict)
    """The state of the paths that were named, before the first change."""
    recorded: set[str] = field(default_factory=set)
    """Those paths whose state after the change is recorded."""
    base: "FolderListing | None" = None
    """The folder's listing before the first command."""
    writable: set[str] | None = field(default_factory=set)
    """The opened folders that calls of the turn could write; what was looked at for a question and refused is none of
    them. None: unknown, since a dead process began the turn.
    """
    commands: _CommandTimes | None = field(default_factory=_CommandTimes)
    """When its commands ran; None: unknown, as above."""


class CheckpointRecorder:
    """The `Safeguard` of one session. `turn` returns the id of the turn that runs."""

    def __init__(self, deps: CheckpointDeps, turn: Callable[[], str]) -> None:
        self.deps = deps
        self._turn_id = turn
        self._turn: _TurnCheckpoint | None = None
        self._lock = asyncio.Lock()
        self._stop = threading.Event()
        self._listing: tuple[str, FolderListing] | None = None
        """The folder's last listing with its digest."""
        self.restore_lock = asyncio.Lock()
        """Held while files are restored."""
        self._pending_writes: list[Future[None] | asyncio.Task[None]] = []
        self._reported: set[str] = set()
        self._too_large: set[str] = set()
        """The opened folders that were found to be too large for copies."""
        self._notes: list[str] = []
        self.last_changes: Sequence[FileChange] = ()
        """What the last completed turn has changed."""

    async def save_before(
        self, paths: Sequence[str], *, anything: bool, folders: Sequence[str] = (), asks: bool = False
    ) -> None:
        """Copy what is at the paths (absolute), and with `anything` in the whole workspace and in `folders` (absolute),
        those outside of it that commands may write; once a turn. `asks`: it is still to be asked whether they may.
        """
        async with self._lock:
            try:
                await self._save_turn([one for path in paths for one in _list_targets(path)], folders, anything, asks)
            except (OSError, ValueError, HermesError) as error:  # ValueError: a path that can be none
                _LOG.warning("no checkpoint could be taken", exc_info=True)
                self.report_once(
                    tr("No copy of files could be made, so this cannot be undone: {error}", error=str(error))
                )

    async def _save_turn(self, places: Sequence[str], folders: Sequence[str], anything: bool, asks: bool) -> None:
        turn = await self._enter_turn()
        if turn.writable is not None and not asks:
            turn.writable.update(folders)
        wanted = [path for path in places if path not in turn.paths]
        due = _is_listing_due(turn, wanted, folders, anything=anything)
        if wanted or due:
            await self._take_checkpoint(turn, wanted, folders if due else None)
        if turn.commands is not None and anything and not asks:
            turn.commands.begin()

    async def record_after(self, paths: Sequence[str], *, ran: bool = False) -> None:
        """Record what a tool has left at paths that it was about to write, and with `ran` that a command has ended."""
        turn = self._turn
        if ran and turn is not None and turn.commands is not None:
            turn.commands.end()
        if not paths:
            return
        if turn is None or not turn.checkpoint_id or turn.turn_id != self._turn_id():
            return
        known, reader = _list_known(turn, paths), self.create_reader(copies=False)
        try:
            if _are_quickly_read(known):
                changes = _read_current(reader, turn, known)
            else:
                changes = await self._run_in_thread(lambda: _read_current(reader, turn, known))
            if changes:
                turn.recorded.update(known)
                self._pending_writes.append(_note_changes(self.deps.ledger, turn.checkpoint_id, changes))
        except OSError as error:
            _LOG.warning("what was written could not be looked at: %s", error)

    @property
    def base(self) -> "FolderListing | None":
        """The workspace as it was before the turn's first command, if one has run."""
        return self._turn.base if self._turn is not None and self._turn.turn_id == self._turn_id() else None

    async def close_turn(self, turn_id: str) -> bool:
        """Record what the turn has changed; return whether it had a checkpoint. Nothing
        is done for a turn without one.
        """
        turn = self._turn
        if turn is None or turn.turn_id != turn_id:
            return False
        async with self._lock:
            self._turn = None
            try:
                await self._wait_for_writes()
                if turn.checkpoint_id:
                    await self._complete_turn(turn)
            except (OSError, HermesError) as error:
                _LOG.warning("a checkpoint could not be completed", exc_info=True)
                self.report_once(tr("What this turn changed could not be noted: {error}", error=str(error)))
        return True

    async def resume_turn(self, turn_id: str) -> None:
        """Go on with the checkpoint of a turn that a dead process began, so that it is completed with the turn."""
        async with self._lock:
            turn = await self._load_turn(turn_id)
            if turn.checkpoint_id:
                self._turn = turn

    async def complete_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Record what a turn has changed whose process died, as far as that can still be told: not who did it."""
        turn = await self._load_turn(checkpoint.turn_id)
        if turn.checkpoint_id == checkpoint.id:
            await self._complete_turn(turn, known=False)

    def add_note(self, line: str) -> None:
        """Add a line for the model at the next boundary."""
        self._notes.append(line)

    def take_notes(self) -> list[TextPart]:
        """Return the lines for the model, each once."""
        lines, self._notes = self._notes, []
        return [TextPart(text=f"[{line}]", provenance=PROGRAM) for line in lines]

    def create_reader(self, *, copies: bool) -> "StateReader":
        """Return a reader of file states; with `copied` it also copies what it reads."""
        from hermes.checkpoints.path_states import StateReader

        deps = self.deps
        return StateReader(deps.places, deps.limit, deps.objects if copies else None, copies_keys=deps.is_confined())

    async def close(self) -> None:
        """Cancel what is being taken, and wait for what is being written."""
        self._stop.set()
        with contextlib.suppress(HermesError):
            await self._wait_for_writes()

    async def _enter_turn(self) -> _TurnCheckpoint:
        turn_id = self._turn_id()
        if self._turn is None or self._turn.turn_id != turn_id:
            self._turn = await self._load_turn(turn_id)
        return self._turn

    async def _load_turn(self, turn_id: str) -> _TurnCheckpoint:
        """Return the turn's checkpoint as the ledger has it; a completed one belongs to a turn that ended."""
        turn = _TurnCheckpoint(turn_id)
        stored = await self.deps.ledger.find(self.deps.session_id, turn_id)
        if stored is not None and stored.open:
            turn.checkpoint_id, turn.writable, turn.commands = stored.id, None, None
            changes = await self.deps.ledger.list_changes(stored.id)
            turn.paths = {change.path: change.before for change in changes}
            turn.recorded = {change.path for change in changes if change.after is not None}
            turn.base = (
                await self._run_in_thread(lambda: _load_listing(self.deps.objects, stored.base))
                if stored.base
                else None
            )
        return turn

    async def _take_checkpoint(
        self, turn: _TurnCheckpoint, wanted: Sequence[str], folders: Sequence[str] | None
    ) -> None:
        """Copy first, then record in one transaction that there are copies. `folders`: the opened ones, before a
        command.
        """
        deps = self.deps
        digest = await deps.ledger.get_folder_base(deps.places.workspace) if folders is not None else ""
        with deps.objects.block_collection():
            listing, base = turn.base, ""
            if folders is not None:
                named = folders
                listing, base = await self._run_in_thread(
                    lambda: self._scan_folders(self._load_last_listing(digest), named, turn.base)
                )
            states = (
                await self._run_in_thread(lambda: self._read_before(wanted, listing, turn.commands)) if wanted else {}
            )
            changes = [FileChange(path, state) for path, state in states.items()]
            whole = listing.whole if listing is not None else True
            if turn.checkpoint_id:
                await deps.ledger.extend(turn.checkpoint_id, changes, base=base or None, whole=whole)
            else:
                new = NewCheckpoint(
                    session_id=deps.session_id,
                    turn_id=turn.turn_id,
                    folder=deps.places.workspace,
                    place=deps.backend_name,
                    base=base,
                    whole=whole,
                )
                turn.checkpoint_id = await deps.ledger.add(new, changes)
        turn.paths |= states
        turn.base = listing
        if listing is not None and folders is not None:
            self._report_limits(listing)

    async def _complete_turn(self, turn: _TurnCheckpoint, *, known: bool = True) -> None:
        """Compare the folder with its state before the first command; without `known` it is unknown who changed it."""
        deps = self.deps
        changes: list[FileChange] = []
        listing, digest = None, ""
        with deps.objects.block_collection():
            if turn.base is not None:
                before = _drop_refused(turn.base, turn.writable)
                opened = list(map(os.fsdecode, before.get_folders()))
                self._too_large.update(map(os.fsdecode, before.list_too_large()))
                listing, digest = await self._run_in_thread(lambda: self._scan_folders(before, opened))
                after = listing
                changes = await self._run_in_thread(lambda: self._find_changes(turn, before, after))
            elif known:
                reader = self.create_reader(copies=False)
                if unseen := [path for path in turn.paths if path not in turn.recorded]:
                    changes = await self._run_in_thread(lambda: _read_current(reader, turn, unseen))
            if not known:
                changes = [FileChange(one.path, one.before) for one in changes if one.path not in turn.paths]
            self.last_changes = changes
            await deps.ledger.settle(turn.checkpoint_id, changes)
            if listing is not None:
                await deps.ledger.set_folder_base(deps.places.workspace, digest)

    def _find_changes(self, turn: _TurnCheckpoint, before: "FolderListing", after: "FolderListing") -> list[FileChange]:
        from hermes.checkpoints.scan import find_differences

        root = self.deps.places.workspace
        reader = self.create_reader(copies=False)

        def path_of(key: bytes) -> str:
            return os.path.join(root, os.fsdecode(key))

        found = find_differences(before, after, lambda key: reader.read_state(path_of(key)))
        changed = [FileChange(path_of(key), was, now) for key, (was, now) in found.items()]
        changed += _list_gone_uncopied(map(path_of, before.scope.left_out or ()))
        open_to = None if turn.writable is None else (root, *turn.writable)
        changes = {one.path: one for one in changed if open_to is None or _is_below_any(one.path, open_to)}
        # Commands may have changed what a tool had written before.
        return list((changes | {one.path: one for one in _read_current(reader, turn, turn.paths)}).values())

    def _read_before(
        self, wanted: Sequence[str], listing: "FolderListing | None", commands: _CommandTimes | None
    ) -> dict[str, FileState]:
        """Return the state of paths before the turn's first change, and of the folders that are not there yet. What
        somebody else has made since the turn began is copied now.
        """
        states: dict[str, FileState] = {}
        for path in wanted:
            for at in (*_list_missing_folders(path), path):
                if at not in states:
                    was = self._find_in_listing(at, listing)
                    was = None if was == ABSENT and commands is not None and not commands.has(at) else was
                    states[at] = was if was is not None else self.create_reader(copies=True).read_state(at)
        return states

    def _find_in_listing(self, path: str, listing: "FolderListing | None") -> FileState | None:
        """Return the state of a path in a listing made earlier in the turn, or None where it says nothing."""
        root = self.deps.places.workspace
        if listing is None or path == root:
            return None
        from hermes.checkpoints.path_states import state_without_copy

        below = os.fsencode(os.path.relpath(path, root) if is_or_below(path, root) else path)
        item = listing.items.get(below)
        if item is None:
            return ABSENT if listing.knows_absence()(below) else None
        if item.state.kind is Kind.LARGE and item.state.size <= self.deps.limit:
            # All files together were too large; this one is not, and is copied if it is still what it was.
            with contextlib.suppress(OSError):
                if state_without_copy(Kind.LARGE, os.lstat(path)) == item.state:
                    return None
        return item.state

    def _scan_folders(
        self, known: "FolderListing | None", folders: Sequence[str], begun: "FolderListing | None" = None
    ) -> "tuple[FolderListing, str]":
        """Return the listing of the workspace and of opened folders now, and the digest under which it is stored; what
        is as in `known` is not read. What is in `begun`, a listing of the same turn, stays as it was then.
        """
        from hermes.checkpoints.scan import FolderListing, FolderScan, ScanLimits, encode_listing

        deps, listing = self.deps, begun
        reader = self.create_reader(copies=True)
        if listing is None:
            entries = _IGNORED_ENTRIES if deps.is_confined() else 0
            bounds = ScanLimits(total_bytes=deps.total, ignored_bytes=deps.total // 2, ignored_entries=entries)
            scan = FolderScan(deps.places.workspace, deps.places, reader, bounds, self._stop.is_set, keeps_known=True)
            listing = scan.scan_folder(known)
        if not listing.has_folders(folders):
            from hermes.checkpoints.opened_folders import OpenedFolderScan

            most = deps.total * 2 // 5
            opened = OpenedFolderScan(deps.places, reader, most, self._stop.is_set, self._too_large)
            listing = opened.add_folders(listing, folders, known or FolderListing())
        name = deps.objects.put(encode_listing(listing))
        self._listing = name, listing
        return listing, name

    def _load_last_listing(self, digest: str) -> "FolderListing | None":
        """Return the folder's last listing, which another process may have made; only what it names is kept."""
        if not digest or self._listing is None or self._listing[0] != digest:
            return _load_listing(self.deps.objects, digest) if digest else None
        return self._listing[1]

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        """Run in a thread; a stop does not wait for it, and it gives up soon."""
        self._stop = threading.Event()
        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            self._stop.set()
            raise

    async def _wait_for_writes(self) -> None:
        """Wait for the pending writes."""
        unwritten, self._pending_writes = self._pending_writes, []
        for one in unwritten:
            await one

    def _report_limits(self, listing: "FolderListing") -> None:
        if not listing.whole:
            self.report_once(
                tr(
                    "{folder} is too large to be copied whole: of what commands change there, not everything can be"
                    " undone. What the file tools change can.",
                    folder=self.deps.places.workspace,
                )
            )
        elif listing.scope.uncopied:
            self.report_once(
                tr(
                    "The files of {folder} are more than checkpoints may take (`checkpoints.max_total_mb`): of some no"
                    " copy is kept when commands change them.",
                    folder=self.deps.places.workspace,
                )
            )
        for folder in map(os.fsdecode, listing.list_too_large()):
            self.report_once(
                tr(
                    "{folder} is too large to be copied: of what commands change there, /undo brings nothing back but"
                    " the files that they name.",
                    folder=folder,
                )
            )
        if listing.scope.cut:
            self.report_once(
                tr(
                    "git ignores more in {folder} than is copied ({path}): of what commands change there, not"
                    " everything can be undone.",
                    folder=self.deps.places.workspace,
                    path=os.fsdecode(listing.scope.cut),
                )
            )

    def report_once(self, line: str) -> None:
        """Show the person a line, once a session."""
        if line not in self._reported:
            self._reported.add(line)
            self.deps.notify(line)


def _is_listing_due(turn: _TurnCheckpoint, wanted: Iterable[str], folders: Sequence[str], *, anything: bool) -> bool:
    """Return whether the workspace is to be listed, with these folders. What a file will leave out of listings is
    listed before the file says so.
    """
    due = anything or any(os.path.basename(one) in _LEAVING_OUT for one in wanted)
    return due and (turn.base is None or not turn.base.has_folders(folders))


def _read_current(reader: "StateReader", turn: _TurnCheckpoint, paths: Iterable[str]) -> list[FileChange]:
    """Return the changes between the turn's first and the current state of paths that the turn has named."""
    return [FileChange(path, turn.paths[path], reader.read_state(path)) for path in paths]


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_or_below(path, one) for one in folders)


def _list_gone_uncopied(paths: Iterable[str]) -> list[FileChange]:
    """Return a change for each of these paths, of which nothing was copied, that is not there any more, so that an undo
    can name it; without caches that are made again by themselves.
    """
    gone = (one for one in paths if not one.endswith("/__pycache__") and not os.path.lexists(one))
    return [FileChange(one, FileState(Kind.OTHER), ABSENT) for one in gone]


def _drop_refused(listing: "FolderListing", writable: set[str] | None) -> "FolderListing":
    """Return a listing without the opened folders that no call could write in the end, nor anything in them."""
    refused = [
        folder
        for folder in map(os.fsdecode, listing.get_folders())
        if writable is not None and not any(is_or_below(folder, one) or is_or_below(one, folder) for one in writable)
    ]
    keys = frozenset(map(os.fsencode, refused))
    return listing.without(keys) if keys else listing


def _load_listing(objects: ObjectStore, digest: str) -> "FolderListing | None":
    from hermes.checkpoints.scan import decode_listing

    return decode_listing(objects.get(digest))


def _list_known(turn: _TurnCheckpoint, paths: Sequence[str]) -> list[str]:
    """Return which of a turn's paths are these, or lie above them."""
    named = (one for path in paths for one in _list_targets(path))
    around = {str(above) for one in named for above in (one, *PurePath(one).parents)}
    return sorted(around & turn.paths.keys())


def _note_changes(
    ledger: CheckpointLedger, checkpoint_id: int, changes: Sequence[FileChange]
) -> Future[None] | asyncio.Task[None]:
    """Have changes noted before the call's result is: both then are one write."""
    try:
        return ledger.submit_changes(checkpoint_id, changes)
    except HermesError:  # too much waits; what else there is to say is said to whoever waits for the write
        return asyncio.create_task(ledger.extend(checkpoint_id, changes), name="note what was written")


def _are_quickly_read(paths: Sequence[str]) -> bool:
    """Return whether files are so few and small that to read them takes less time than to hand them to a thread."""
    if len(paths) > _MAX_INLINE_FILES:
        return False
    left = _MAX_INLINE_BYTES
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            left -= os.lstat(path).st_size
    return left >= 0


def _list_targets(path: str) -> list[str]:
    """Return the file that a path leads to, and the name itself where that is a link: a tool may change either."""
    try:
        real = find_real_path(path)
        folder, name = os.path.split(path)
        if real == path or name in ("", ".", ".."):
            return [real]
        named = os.path.join(os.path.realpath(folder), name)
        return [named, os.path.realpath(named)] if os.path.islink(named) else [named]
    except OSError:  # a link on the way was taken away while it was read: the tool opens no such path either
        return [path]


def _list_missing_folders(path: str) -> list[str]:
    """Return the folders above a path that are not there yet, the outermost first."""
    found: list[str] = []
    while (path := os.path.dirname(path)) != "/" and not os.path.lexists(path):
        found.insert(0, path)
    return found
