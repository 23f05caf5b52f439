"""Takes a checkpoint before the first write of each turn, and notes at the turn's end what was left.

Everything that touches files runs in a thread. What cannot be taken holds nothing up: the person is told, once.
"""

import asyncio
import contextlib
import logging
import os
import threading
from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from hermes.checkpoints.object_store import ObjectStore
from hermes.core.checkpoints import ABSENT, Checkpoint, CheckpointLedger, FileChange, FileState, NewCheckpoint
from hermes.core.errors import HermesError
from hermes.core.messages import PROGRAM
from hermes.core.parts import TextPart
from hermes.i18n.messages import say
from hermes.safety.paths import is_or_below
from hermes.safety.places import Places

if TYPE_CHECKING:
    from hermes.checkpoints.file_state import Looker
    from hermes.checkpoints.scan import Listing

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Ground(Struct, frozen=True, kw_only=True):
    """What checkpoints of a session are taken of, and where they go.

    `limit` is the bytes of the largest file that is copied, `total` those of all files of the folder together.
    """

    session_id: str
    places: Places
    place: str
    """The name of the terminal back end."""
    objects: ObjectStore
    ledger: CheckpointLedger
    limit: int
    total: int
    tell: Callable[[str], None] = lambda _: None
    """Shows the person a line."""


class _Turn(Struct):
    """The checkpoint of one turn."""

    turn_id: str
    number: int = 0
    """The checkpoint's id; 0: nothing was taken yet."""
    paths: dict[str, FileState] = field(default_factory=dict)
    """What stood at the paths that were named, before the first change."""
    left: set[str] = field(default_factory=set)
    """Those of them of which it is noted what was left there."""
    base: "Listing | None" = None
    """The folder before the first command."""


class Keeper:
    """The `Safeguard` of one session. `turn` gives the id of the turn that runs."""

    def __init__(self, ground: Ground, turn: Callable[[], str]) -> None:
        self.ground = ground
        self._turn_id = turn
        self._turn: _Turn | None = None
        self._lock = asyncio.Lock()
        self._stop = threading.Event()
        self._listing: tuple[str, Listing] | None = None
        """The folder's last listing with its digest."""
        self.restoring = asyncio.Lock()
        """Held while files are put back."""
        self._unwritten: list[Future[None] | asyncio.Task[None]] = []
        self._told: set[str] = set()
        self._news: list[str] = []

    async def before(self, paths: Sequence[str], *, anything: bool) -> None:
        """Keep what stands at the paths (absolute), and with `anything` in the whole workspace; once a turn."""
        async with self._lock:
            try:
                places = [one for path in paths for one in _places(path)]
                turn = await self._entered()
                wanted = [path for path in places if path not in turn.paths]
                anything = anything and turn.base is None
                if wanted or anything:
                    await self._take(turn, wanted, anything=anything)
            except (OSError, ValueError, HermesError) as error:  # ValueError: a path that can be none
                _LOG.warning("no checkpoint could be taken", exc_info=True)
                self._tell(say("No copy of files could be made, so this cannot be undone: {error}", error=str(error)))

    async def after(self, paths: Sequence[str]) -> None:
        """Note what a tool has left at paths that it was about to write."""
        turn = self._turn
        if turn is None or not turn.number or turn.turn_id != self._turn_id():
            return
        named = {one for path in paths for one in _places(path)}
        known = [path for path in turn.paths if path in named or any(is_or_below(one, path) for one in named)]
        try:
            changes = await self._in_thread(lambda: self._left(turn, known))
            if changes:
                turn.left.update(known)
                extended = self.ground.ledger.extend_checkpoint(turn.number, changes)
                self._unwritten.append(asyncio.create_task(extended, name="note what was written"))
        except OSError as error:
            _LOG.warning("what was written could not be looked at: %s", error)

    async def close_turn(self, turn_id: str) -> bool:
        """Work out what the turn has changed; whether it had a checkpoint. Nothing is done for a turn without one."""
        turn = self._turn
        if turn is None or turn.turn_id != turn_id:
            return False
        async with self._lock:
            self._turn = None
            try:
                await self._written()
                if turn.number:
                    await self._settle(turn)
            except (OSError, HermesError) as error:
                _LOG.warning("a checkpoint could not be completed", exc_info=True)
                self._tell(say("What this turn changed could not be noted: {error}", error=str(error)))
        return True

    async def resume(self, turn_id: str) -> None:
        """Go on with the checkpoint of a turn that a dead process began, so that it is completed with the turn."""
        async with self._lock:
            turn = await self._found(turn_id)
            if turn.number:
                self._turn = turn

    async def complete(self, checkpoint: Checkpoint) -> None:
        """Work out what a turn has changed whose process died, as far as that can still be told: not who did it."""
        turn = await self._found(checkpoint.turn_id)
        if turn.number == checkpoint.id:
            await self._settle(turn, known=False)

    def note(self, line: str) -> None:
        """Let the model hear a line at the next boundary."""
        self._news.append(line)

    def news(self) -> list[TextPart]:
        """What the model is to hear, each line once."""
        lines, self._news = self._news, []
        return [TextPart(text=f"[{line}]", provenance=PROGRAM) for line in lines]

    def looker(self, *, copied: bool) -> "Looker":
        """Who looks at files; with `copied` what is seen is kept, too."""
        from hermes.checkpoints.file_state import Looker

        return Looker(self.ground.places, self.ground.limit, self.ground.objects if copied else None)

    async def close(self) -> None:
        """Give up what is being taken, and wait for what is being written."""
        self._stop.set()
        with contextlib.suppress(HermesError):
            await self._written()

    async def _entered(self) -> _Turn:
        turn_id = self._turn_id()
        if self._turn is None or self._turn.turn_id != turn_id:
            self._turn = await self._found(turn_id)
        return self._turn

    async def _found(self, turn_id: str) -> _Turn:
        """The turn's checkpoint as the ledger has it; one that was completed is a turn's that ended."""
        turn = _Turn(turn_id)
        stored = await self.ground.ledger.checkpoint_of(self.ground.session_id, turn_id)
        if stored is not None and stored.open:
            turn.number = stored.id
            changes = await self.ground.ledger.checkpoint_changes(stored.id)
            turn.paths = {change.path: change.before for change in changes}
            turn.left = {change.path for change in changes if change.after is not None}
            turn.base = await self._in_thread(lambda: self._read(stored.base)) if stored.base else None
        return turn

    async def _take(self, turn: _Turn, wanted: Sequence[str], *, anything: bool) -> None:
        """Copy first, then write down, in one transaction, that there are copies."""
        ground = self.ground
        digest = await ground.ledger.folder_base(ground.places.workspace) if anything else ""
        with ground.objects.in_use():
            listing, base = turn.base, ""
            if anything:
                listing, base = await self._in_thread(lambda: self._listed(self._last(digest)))
            states = await self._in_thread(lambda: self._before(wanted, listing))
            changes = [FileChange(path, state) for path, state in states.items()]
            whole = listing.whole if listing is not None else True
            if turn.number:
                await ground.ledger.extend_checkpoint(turn.number, changes, base=base or None, whole=whole)
            else:
                new = NewCheckpoint(
                    session_id=ground.session_id,
                    turn_id=turn.turn_id,
                    folder=ground.places.workspace,
                    place=ground.place,
                    base=base,
                    whole=whole,
                )
                turn.number = await ground.ledger.add_checkpoint(new, changes)
        turn.paths |= states
        turn.base = listing
        if listing is not None and anything:
            self._say_limits(listing)

    async def _settle(self, turn: _Turn, *, known: bool = True) -> None:
        """Compare the folder with how it was before the first command; without `known` nobody knows who changed it."""
        ground = self.ground
        changes: list[FileChange] = []
        listing, digest = None, ""
        with ground.objects.in_use():
            if turn.base is not None:
                before = turn.base
                listing, digest = await self._in_thread(lambda: self._listed(before))
                after = listing
                changes = await self._in_thread(lambda: self._changes(turn, before, after))
            elif known:
                unseen = [path for path in turn.paths if path not in turn.left]
                changes = await self._in_thread(lambda: self._left(turn, unseen))
            if not known:
                changes = [FileChange(one.path, one.before) for one in changes if one.path not in turn.paths]
            await ground.ledger.settle_checkpoint(turn.number, changes)
            if listing is not None:
                await ground.ledger.set_folder_base(ground.places.workspace, digest)

    def _changes(self, turn: _Turn, before: "Listing", after: "Listing") -> list[FileChange]:
        from hermes.checkpoints.scan import differences

        root = self.ground.places.workspace
        looker = self.looker(copied=False)

        def path_of(key: bytes) -> str:
            return os.path.join(root, os.fsdecode(key))

        found = differences(before, after, lambda key: looker.of(path_of(key)))
        changes = {path_of(key): FileChange(path_of(key), was, now) for key, (was, now) in found.items()}
        # Commands may have changed what a tool had written before.
        return list((changes | {one.path: one for one in self._left(turn, turn.paths)}).values())

    def _left(self, turn: _Turn, paths: Iterable[str]) -> list[FileChange]:
        """What stands now at paths that the turn has named."""
        looker = self.looker(copied=False)
        return [FileChange(path, turn.paths[path], looker.of(path)) for path in paths]

    def _before(self, wanted: Sequence[str], listing: "Listing | None") -> dict[str, FileState]:
        """What stood at paths before the turn's first change, and at the folders that are not there yet."""
        states: dict[str, FileState] = {}
        for path in wanted:
            for at in (*_missing(path), path):
                if at not in states:
                    was = self._in_listing(at, listing)
                    states[at] = was if was is not None else self.looker(copied=True).of(at)
        return states

    def _in_listing(self, path: str, listing: "Listing | None") -> FileState | None:
        """What a listing that was made earlier in the turn says of a path; None where it says nothing."""
        root = self.ground.places.workspace
        if listing is None or path == root or not is_or_below(path, root):
            return None
        from hermes.checkpoints.scan import Bounds, Scan

        below = os.path.relpath(path, root)
        item = listing.items.get(os.fsencode(below))
        if item is not None:
            return item.state
        scan = Scan(root, self.ground.places, self.looker(copied=False), Bounds())
        return ABSENT if listing.whole and scan.covers(below) else None

    def _listed(self, known: "Listing | None") -> "tuple[Listing, str]":
        """The workspace now, and the digest by which the listing is kept; what is as in `known` is not read."""
        from hermes.checkpoints.scan import Bounds, Scan, encoded

        ground = self.ground
        bounds = Bounds(total_bytes=ground.total)
        scan = Scan(ground.places.workspace, ground.places, self.looker(copied=True), bounds, self._stop.is_set)
        listing = scan.look(known)
        name = ground.objects.put(encoded(listing))
        self._listing = name, listing
        return listing, name

    def _last(self, digest: str) -> "Listing | None":
        """The folder's last listing, which another process may have made; only what it names is kept."""
        if not digest or self._listing is None or self._listing[0] != digest:
            return self._read(digest) if digest else None
        return self._listing[1]

    def _read(self, digest: str) -> "Listing | None":
        from hermes.checkpoints.scan import decoded

        return decoded(self.ground.objects.get(digest))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run in a thread; a stop does not wait for it, and it gives up soon."""
        self._stop = threading.Event()
        try:
            return await asyncio.to_thread(work)
        except asyncio.CancelledError:
            self._stop.set()
            raise

    async def _written(self) -> None:
        """Wait for what was left to be written."""
        unwritten, self._unwritten = self._unwritten, []
        for one in unwritten:
            await one

    def _say_limits(self, listing: "Listing") -> None:
        if not listing.whole:
            self._tell(
                say(
                    "{folder} is too large to be copied whole: of what commands change there, not everything can be"
                    " undone. What the file tools change can.",
                    folder=self.ground.places.workspace,
                )
            )
        elif listing.uncopied:
            self._tell(
                say(
                    "The files of {folder} are more than checkpoints may take (`checkpoints.max_total_mb`): of some no"
                    " copy is kept when commands change them.",
                    folder=self.ground.places.workspace,
                )
            )

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self.ground.tell(line)


def _places(path: str) -> list[str]:
    """The file that a path leads to, and the name itself where that is a link: a tool may change either."""
    named = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    real = os.path.realpath(path)
    return [named] if real == named else [named, real]


def _missing(path: str) -> list[str]:
    """The folders above a path that are not there yet, the outermost first."""
    found: list[str] = []
    while (path := os.path.dirname(path)) != "/" and not os.path.lexists(path):
        found.insert(0, path)
    return found
