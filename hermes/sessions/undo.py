"""Undo, for every front-end: files as they were before a turn, turns taken back, and branches of a conversation."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.checkpoints.restore import Fate, History, Step, carried_out, chains, planned, sweep
from hermes.core.checkpoints import Checkpoint, FileChange, FileState, Kind, NewCheckpoint, Purpose
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.ids import new_session_id
from hermes.i18n.messages import phrase, say
from hermes.runtime.mailbox import Inbound
from hermes.runtime.undo import said_again
from hermes.safety.paths import is_or_below
from hermes.store.rows import SessionRow
from hermes.store.store import Store
from hermes.store.undo import TakenBack
from hermes.util.cancellation import whole
from hermes.util.text import escaped, one_line

if TYPE_CHECKING:
    from hermes.checkpoints.file_state import Looker
    from hermes.checkpoints.recorder import Keeper
    from hermes.execution.base import TerminalBackend
    from hermes.sessions.file_diffs import FileDiff
    from hermes.sessions.session_builder import Live

_WORDS = 80
_NAMED, _LONGEST = 12, 120
_REASONS = {
    Fate.FOREIGN: phrase("it was changed since by somebody else"),
    Fate.UNKNOWN: phrase("nobody knows who has changed it since: the program ended in the middle of that turn"),
    Fate.UNCOPIED: phrase("no copy of it was kept"),
}
_LARGE = phrase("it was too large for a copy")
_HIDDEN = phrase("it holds keys, so no copy was kept")


class CheckpointLine(Struct, frozen=True, kw_only=True):
    """A checkpoint as a person sees it: 1 is the newest. `said` are the first words of its turn.

    `files` are the paths that were changed, below the folder where they lie there. `restore`: it was taken before
    files were put back, and takes that back. `unfinished`: that was cut short, and `finish` completes it.
    `uncovered` says in words what it does not hold; empty where it holds all.
    """

    number: int
    id: int
    at: float
    said: str
    folder: str
    files: tuple[str, ...]
    restore: bool = False
    unfinished: bool = False
    uncovered: str = ""


class Left(Struct, frozen=True):
    """A file that was not put back, and why. `forced`: it would be, if the person said so."""

    path: str
    why: str
    forced: bool = False


class Restored(Struct, frozen=True, kw_only=True):
    """What was done with files. `checkpoint` (an id) takes it back; None when nothing was done.

    `lost` are files that were replaced or deleted and too large, or too private, for a copy of what stood there.
    """

    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    lost: tuple[str, ...] = ()
    checkpoint: int | None = None


class Undone(Struct, frozen=True, kw_only=True):
    """What an undo has taken back: how many turns, what the person said in each (the oldest first), and the files.

    `redo` says whether it can be taken back itself, as long as nothing new is said.
    """

    turns: int
    said: tuple[Inbound, ...]
    files: Restored
    redo: bool

    @property
    def text(self) -> str:
        """What the person said where the conversation goes on from now: for the line in which they type."""
        return self.said[0].text


class Redone(Struct, frozen=True, kw_only=True):
    """What a redo has brought back."""

    messages: int
    files: Restored


class Branch(Struct, frozen=True, kw_only=True):
    """A session that was made of another one's beginning."""

    id: str
    title: str
    parent: str
    turns: int


class UndoDesk:
    """Undo for one live session. Every change raises BusyError while a turn runs or waits."""

    def __init__(self, store: Store, live: "Live", now: Callable[[], float]) -> None:
        self._store = store
        self._live = live
        self._actor = live.actor
        self._now = now

    @property
    def _keeper(self) -> "Keeper":
        if self._live.keeper is None:
            raise UsageError(
                phrase("No copies of files are made."),
                phrase("`checkpoints.enabled: true` in config.yaml turns that on."),
            )
        return self._live.keeper

    async def checkpoints(self) -> list[CheckpointLine]:
        """The session's checkpoints, the newest first."""
        rows = await self._store.checkpoints(self._actor.session_id)
        openings = await self._store.openings(self._actor.session_id, [row.turn_id for row in rows])
        lines = []
        for number, row in enumerate(rows, 1):
            changes = await self._store.checkpoint_changes(row.id)
            said = openings.get(row.turn_id)
            lines.append(
                CheckpointLine(
                    number=number,
                    id=row.id,
                    at=row.at,
                    said=one_line(said.text, _WORDS) if said is not None else "",
                    folder=row.folder,
                    files=tuple(self._named(change.path, row.folder) for change in changes if not _folder(change)),
                    restore=row.purpose is Purpose.RESTORE,
                    unfinished=row.purpose is Purpose.RESTORE and row.open,
                    uncovered=_uncovered(row),
                )
            )
        return lines

    async def diff(self, number: int = 1, *, files: Sequence[str] | None = None) -> "list[FileDiff]":
        """What is another now than it was at a checkpoint, file by file, of what the agent has changed since.

        While a turn runs, what its commands change is not known yet.
        """
        from hermes.sessions.file_diffs import file_diff

        keeper = self._keeper
        if not self._actor.busy:
            await self._complete()
        since = await self._id_of(number)
        found = chains(await self._histories(since), self._real(files))
        folder = keeper.ground.places.workspace

        def work() -> "list[FileDiff]":
            steps = planned(found, keeper.looker(copied=True), force=True)
            changed = [step for step in steps if step.fate is not Fate.SAME]
            return [
                file_diff(self._named(step.path, folder), step.wanted, step.now, keeper.ground.objects.get)
                for step in changed
                if step.wanted.kind is not Kind.FOLDER and step.now.kind is not Kind.FOLDER
            ]

        with keeper.ground.objects.in_use():
            return await asyncio.to_thread(work)

    async def rollback(self, number: int = 1, *, files: Sequence[str] | None = None, force: bool = False) -> Restored:
        """Put files back as they were at a checkpoint (of `files`, and what is below them, if these are given).

        What somebody else has changed since is left, and listed, unless `force`. What stands there now is kept first,
        as a checkpoint of its own. The conversation stays; the model is told.
        """
        keeper = self._keeper

        async def work() -> Restored:
            since = await self._id_of(number)
            await self._complete()
            await self._leave_unfinished()
            return (await self._restored(since, self._real(files), force=force))[0]

        restored = await self._actor.aside(work) or Restored()
        named = [*restored.restored, *restored.deleted]
        if named:
            shown = ", ".join(repr(escaped(one_line(one, _LONGEST))) for one in named[:_NAMED])
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            keeper.note(
                f"The user put files back as they were before: {shown}{more}. "
                "What you know of them may be out of date: read them again."
            )
        return restored

    async def finish(self) -> Restored:
        """Complete a putting back that was cut short by the end of its process; nothing is done where there is none."""
        return await self._actor.aside(self._finished) or Restored()

    async def _finished(self) -> Restored:
        keeper = self._keeper
        await self._complete()
        for row in await self._store.checkpoints(self._actor.session_id):
            if row.open and row.purpose is Purpose.RESTORE:
                changes = await self._store.checkpoint_changes(row.id)
                looker = keeper.looker(copied=False)
                steps = await asyncio.to_thread(_unfinished, changes, looker)
                with keeper.ground.objects.in_use():
                    return await whole(self._carry_out(row.id, steps))
        return Restored()

    async def undo(self, turns: int = 1, *, files: bool = True, force: bool = False) -> Undone:
        """Take back the last turns, and with `files` what they did to files. Raises NotFoundError without any turn.

        The files are left alone where they are not as the agent left them, unless `force`.
        """
        if turns < 1:
            raise UsageError(phrase("There must be at least one turn to take back."))
        done = await self._actor.aside(lambda: self._undone(turns, files=files, force=force))
        if done is None:
            raise NotFoundError(phrase("There is nothing to take back."))
        restored, taken = done
        said = tuple(said_again(turn.said) for turn in taken.turns)
        return Undone(turns=len(said), said=said, files=restored, redo=taken.whole)

    async def _undone(self, turns: int, *, files: bool, force: bool) -> tuple[Restored, TakenBack]:
        session_id = self._actor.session_id
        past = {one.turn_id for one in await self._store.last_turns(session_id, turns)}
        restored, taken = Restored(), None
        if past and files and self._live.keeper is not None:
            await self._complete()
            await self._leave_unfinished()
            rows = [row for row in await self._store.checkpoints(session_id) if row.turn_id in past]
            if rows:
                restored, taken = await self._restored(
                    min(row.id for row in rows),
                    None,
                    force=force,
                    between=lambda number: self._actor.undoing.take_back(turns, number),
                )
        taken = taken or await self._actor.undoing.take_back(turns)
        if taken is None:
            raise NotFoundError(phrase("There is nothing to take back."))
        return restored, taken

    async def redo(self, *, files: bool = True) -> Redone:
        """Bring back what was taken back last. Raises NotFoundError when something was said since, or nothing was."""
        brought = await self._actor.aside(self._actor.undoing.bring_back)
        if brought is None:
            raise NotFoundError(
                phrase("There is nothing that could be brought back."),
                phrase("It can be brought back until something new is said."),
            )
        restored = Restored()
        number = brought.checkpoint_id if files and self._live.keeper is not None else None
        if number is not None and await self._store.checkpoint(number) is not None:
            since = number
            done = await self._actor.aside(lambda: self._restored(since, None, force=False))
            restored = done[0] if done is not None else restored
        return Redone(messages=brought.messages, files=restored)

    async def retry(self, *, files: bool = False) -> Inbound:
        """Take the last turn back, its files only with `files`; what the person said, to be said again."""
        return (await self.undo(1, files=files)).said[0]

    async def branch(self, name: str = "", *, turns: int | None = None) -> Branch:
        """Make a session that begins with this conversation, or with its first `turns` turns; this one stays."""
        session_id = self._actor.session_id

        async def work() -> SessionRow:
            name_of_it = new_session_id(self._now())
            return await self._store.branch_session(session_id, name_of_it, title=name, turns=turns)

        made = await self._actor.aside(work)
        if made is None:
            raise NotFoundError(phrase("The branch was not made: it was stopped."))
        return Branch(id=made.id, title=made.title, parent=session_id, turns=made.branched_at or 0)

    async def _restored(
        self,
        since: int,
        files: Sequence[str] | None,
        *,
        force: bool,
        between: Callable[[int], Awaitable[TakenBack | None]] | None = None,
    ) -> tuple[Restored, TakenBack | None]:
        """Plan, keep what stands there now, do what is to be done in `between`, and put the files back."""
        keeper = self._keeper
        ground = keeper.ground
        async with keeper.restoring:
            found = chains(await self._histories(since), files)
            with ground.objects.in_use():
                looker = keeper.looker(copied=True)
                steps = await asyncio.to_thread(lambda: planned(found, looker, force=force))
                acting = [step for step in steps if step.acts]
                if not acting:
                    return self._told(steps, None), None
                new = NewCheckpoint(
                    session_id=ground.session_id,
                    turn_id="",
                    folder=ground.places.workspace,
                    place=ground.place,
                    purpose=Purpose.RESTORE,
                )
                changes = [FileChange(step.path, step.now, step.wanted) for step in acting]
                number = await self._store.add_checkpoint(new, changes)
                taken = await between(number) if between is not None else None
                restored = await whole(self._carry_out(number, steps))
        for step in acting if between is not None else ():
            self._live.tools.state.seen.pop(step.path, None)
        return restored, taken

    async def _carry_out(self, number: int, steps: Sequence[Step]) -> Restored:
        """Do it, and write down what came of it."""
        keeper = self._keeper
        ground = keeper.ground
        looker = keeper.looker(copied=False)

        def work() -> tuple[list[Step], list[FileChange]]:
            done = carried_out(steps, looker, ground.objects)
            acted = [step.path for step in steps if step.acts]
            before = {step.path: step.now for step in steps}
            return done, [FileChange(path, before[path], _now(looker, path)) for path in acted]

        done, changes = await asyncio.to_thread(work)
        await self._store.settle_checkpoint(number, changes)
        kept = await self._store.checkpoint(number) is not None
        return self._told(done, number if kept else None)

    async def _complete(self) -> None:
        """Complete checkpoints whose turns will never end: their process died, and nobody went on with them."""
        for row in await self._store.checkpoints(self._actor.session_id):
            if row.open and row.purpose is Purpose.TURN:
                await self._keeper.complete(row)
            elif row.open:
                changes = await self._store.checkpoint_changes(row.id)
                await asyncio.to_thread(sweep, [change.path for change in changes])

    async def _leave_unfinished(self) -> None:
        """Take a putting back that was cut short for what it came to: from here on it is not finished any more."""
        looker = self._keeper.looker(copied=False)
        for row in await self._store.checkpoints(self._actor.session_id):
            if row.open and row.purpose is Purpose.RESTORE:
                changes = await self._store.checkpoint_changes(row.id)
                left = await asyncio.to_thread(_come_to, changes, looker)
                await self._store.settle_checkpoint(row.id, left)

    async def _histories(self, since: int) -> list[History]:
        rows = [row for row in await self._store.checkpoints(self._actor.session_id) if row.id >= since]
        return [(row, await self._store.checkpoint_changes(row.id)) for row in reversed(rows)]

    async def _id_of(self, number: int) -> int:
        rows = await self._store.checkpoints(self._actor.session_id)
        if not rows:
            raise NotFoundError(phrase("This session has changed no files, as far as copies of them are kept."))
        if not 1 <= number <= len(rows):
            raise NotFoundError(
                phrase("There is no checkpoint {number}.", number=number),
                phrase("They count from 1, the newest, to {last}.", last=len(rows)),
            )
        return rows[number - 1].id

    def _named(self, path: str, folder: str) -> str:
        """How a person knows a path: below the folder, or as the agent's commands name it."""
        return os.path.relpath(path, folder) if path.startswith(f"{folder}/") else self._backend.inside(path)

    def _told(self, steps: Sequence[Step], number: int | None) -> Restored:
        folder = self._keeper.ground.places.workspace
        return _told([(self._named(step.path, folder), step) for step in steps], number)

    @property
    def _backend(self) -> "TerminalBackend":
        return self._live.tools.context.backend

    def _real(self, files: Sequence[str] | None) -> list[str] | None:
        """Paths as checkpoints know them; relative ones are meant below the workspace."""
        if files is None:
            return None
        workspace = self._keeper.ground.places.workspace
        named = [os.path.normpath(os.path.join(workspace, os.path.expanduser(one))) for one in files]
        # In the workspace a name is what it was: a link that stands on the way now is no part of it.
        inside = [one for one in named if is_or_below(one, workspace)]
        named += [self._backend.outside(one) for one in named]
        others = [os.path.realpath(os.path.dirname(one)) + f"/{os.path.basename(one)}" for one in named]
        return [*inside, *others]


def _come_to(changes: Sequence[FileChange], looker: "Looker") -> list[FileChange]:
    """What became of the files of a putting back that was cut short."""
    return [
        FileChange(change.path, change.before, change.before)
        for change in changes
        if _now(looker, change.path) == change.before
    ]


def _unfinished(changes: Sequence[FileChange], looker: "Looker") -> list[Step]:
    """What is left to be done of a putting back: the files that still stand as they were before it."""
    steps = []
    for change in changes:
        wanted = change.after or change.before
        now = _now(looker, change.path)
        if now is None or now == wanted:
            fate = Fate.SAME
        elif now != change.before:
            fate = Fate.FOREIGN
        else:
            fate = Fate.DELETE if wanted.kind is Kind.ABSENT else Fate.RESTORE
        steps.append(Step(change.path, wanted, now or wanted, fate))
    return steps


def _now(looker: "Looker", path: str) -> FileState | None:
    try:
        return looker.of(path)
    except OSError:
        return None


def _told(steps: Sequence[tuple[str, Step]], number: int | None) -> Restored:
    """What came of the steps, each with the name that it is told by. Folders are named only when they are left."""
    named = [(path, step) for path, step in steps if Kind.FOLDER not in (step.now.kind, step.wanted.kind)]
    quiet = (Fate.RESTORE, Fate.DELETE, Fate.SAME)
    may = (Fate.FOREIGN, Fate.UNKNOWN)
    return Restored(
        restored=tuple(path for path, step in named if step.fate is Fate.RESTORE),
        deleted=tuple(path for path, step in named if step.fate is Fate.DELETE),
        left=tuple(Left(path, _why(step), step.fate in may) for path, step in named if step.fate not in quiet),
        lost=tuple(path for path, step in named if step.acts and not step.now.kept),
        checkpoint=number,
    )


def _why(step: Step) -> str:
    if step.fate is Fate.FAILED:
        return say("it could not be put back: {error}", error=step.why)
    if step.wanted.kind is Kind.LARGE:
        return say(_LARGE)
    if step.wanted.kind is Kind.HIDDEN:
        return say(_HIDDEN)
    return say(_REASONS.get(step.fate, _REASONS[Fate.UNCOPIED]))


def _folder(change: FileChange) -> bool:
    states = (change.before, change.after or change.before)
    return any(state.kind is Kind.FOLDER for state in states)


def _uncovered(row: Checkpoint) -> str:
    """What a checkpoint does not hold, in words."""
    if row.place == "ssh":
        return say("What commands change on the other host out of the workspace is not covered.")
    if not row.whole:
        return say("The folder is too large: not everything that commands change is covered.")
    return ""
