"""Undo for every front-end: restore files, take turns back, branch a conversation, and compare two states of a file."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.checkpoints.path_states import has_key_name
from hermes.checkpoints.restore import (
    CheckpointHistory,
    RestoreOutcome,
    RestoreStep,
    build_path_histories,
    leave_out,
    plan_restore,
    remove_temporaries,
    restore_files,
)
from hermes.core.checkpoints import Checkpoint, FileChange, FileState, Kind, NewCheckpoint, Purpose
from hermes.core.errors import NotFoundError, ToolError, UsageError
from hermes.core.ids import new_session_id
from hermes.i18n.messages import N_, tr
from hermes.runtime.mailbox import InboundMessage
from hermes.runtime.undo import to_inbound
from hermes.safety.paths import is_or_below
from hermes.store.records import SessionRow
from hermes.store.store import Store
from hermes.store.undo import UndoneTurns
from hermes.util.cancellation import run_to_completion
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.checkpoints.path_states import StateReader
    from hermes.checkpoints.recorder import CheckpointRecorder
    from hermes.execution.base import TerminalBackend
    from hermes.sessions.session_builder import LiveSession
    from hermes.tools.session import ToolContext


_MAX_EXCERPT = 80
_MAX_NAMED_FILES, _MAX_PATH_LENGTH = 12, 120
_SKIP_REASONS = {
    RestoreOutcome.FOREIGN: N_("it was changed since by somebody else"),
    RestoreOutcome.ONLY: N_("there is no copy of what is there now, so to delete or replace it would lose it for good"),
    RestoreOutcome.UNKNOWN: N_("it is unknown who changed it since: the program ended in the middle of that turn"),
    RestoreOutcome.UNCOPIED: N_("no copy of it was kept"),
}
_OBEYED_REASON = N_("programs run what it says or obey it, so no undo writes it")
_LARGE_REASON = N_("it was too large for a copy")
_HIDDEN_REASON = N_("it holds keys, so no copy was kept")


class CheckpointSummary(Struct, frozen=True, kw_only=True):
    """A checkpoint as a person sees it: number 1 is the newest, and `said` begins its turn's message.

    `files` are the changed paths, relative to the folder where they lie in it. `restore`: it was taken before files
    were restored, and undoes that. `unfinished`: that restore was interrupted, and `finish` completes it. `uncovered`
    says in words what it does not hold; empty where it holds all.
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


class SkippedFile(Struct, frozen=True):
    """A file that was not restored, and why. `forced`: it would be, if the user forced it."""

    path: str
    why: str
    forced: bool = False


class RestoreResult(Struct, frozen=True, kw_only=True):
    """The result of restoring files. `checkpoint` (an id) undoes it; None when nothing was done.

    `lost` are files that were replaced or deleted and too large, or too private, for a copy of what was there.
    """

    restored: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    left: tuple[SkippedFile, ...] = ()
    lost: tuple[str, ...] = ()
    checkpoint: int | None = None


class UndoResult(Struct, frozen=True, kw_only=True):
    """The result of an undo: the number of turns, the user's message in each (oldest first), and the files.

    `redo` says whether it can be redone, as long as no new message is sent.
    """

    turns: int
    said: tuple[InboundMessage, ...]
    files: RestoreResult
    redo: bool

    @property
    def text(self) -> str:
        """The first undone message, which the user may edit and send again."""
        return self.said[0].text


class RedoResult(Struct, frozen=True, kw_only=True):
    """The result of a redo."""

    messages: int
    files: RestoreResult


class SessionBranch(Struct, frozen=True, kw_only=True):
    """A session that was created from another one's beginning."""

    id: str
    title: str
    parent: str
    turns: int


class SessionUndo:
    """Undo for one live session. Every change raises BusyError while a turn runs or waits."""

    def __init__(self, store: Store, live_session: "LiveSession", now: Callable[[], float]) -> None:
        self._store = store
        self._live = live_session
        self._actor = live_session.actor
        self._now = now

    @property
    def _recorder(self) -> "CheckpointRecorder":
        if self._live.checkpoints is None:
            raise UsageError(
                N_("No copies of files are made."),
                N_("`checkpoints.enabled: true` in config.yaml turns that on."),
            )
        return self._live.checkpoints.open()

    async def list_checkpoints(self) -> list[CheckpointSummary]:
        """List the session's checkpoints, the newest first."""
        rows = await self._store.checkpoints.list_of_session(self._actor.session_id)
        openings = await self._store.undo.list_turn_openings(self._actor.session_id, [row.turn_id for row in rows])
        lines = []
        for number, row in enumerate(rows, 1):
            changes = await self._store.checkpoints.list_changes(row.id)
            said = openings.get(row.turn_id)
            lines.append(
                CheckpointSummary(
                    number=number,
                    id=row.id,
                    at=row.at,
                    said=to_one_line(said.text, _MAX_EXCERPT) if said is not None else "",
                    folder=row.folder,
                    files=tuple(
                        self._display_path(change.path, row.folder)
                        for change in changes
                        if not _is_folder_change(change)
                    ),
                    restore=row.purpose is Purpose.RESTORE,
                    unfinished=row.purpose is Purpose.RESTORE and row.open,
                    uncovered=_describe_uncovered(row),
                )
            )
        return lines

    async def diff_since(self, number: int = 1, *, files: Sequence[str] | None = None) -> "list[FileDiff]":
        """Compare files with how they were at a checkpoint, of what the agent has changed since.

        While a turn runs, the changes of its commands are not known yet.
        """

        recorder = self._recorder
        if not self._actor.busy:
            await self._complete_checkpoints()
        since = await self._checkpoint_id(number)
        found = build_path_histories(await self._changes_since(since), self._checkpoint_paths(files))
        folder = recorder.deps.places.workspace

        def compute_diffs() -> "list[FileDiff]":
            steps = plan_restore(found, recorder.create_reader(copies=True), force=True)
            changed = [step for step in steps if step.outcome is not RestoreOutcome.SAME]
            return [
                compare_file_states(
                    self._display_path(step.path, folder), step.wanted, step.now, recorder.deps.objects.get
                )
                for step in changed
                if step.wanted.kind is not Kind.FOLDER and step.now.kind is not Kind.FOLDER
            ]

        with recorder.deps.objects.block_collection():
            return await asyncio.to_thread(compute_diffs)

    async def restore_files(
        self, number: int = 1, *, files: Sequence[str] | None = None, force: bool = False
    ) -> RestoreResult:
        """Restore files as they were at a checkpoint (of `files`, and what is below them, if these are given).

        What somebody else has changed since is skipped and listed, unless `force`. The present state is saved
        first as a checkpoint. The conversation stays; the model is told.
        """
        recorder = self._recorder

        async def run_restore() -> RestoreResult:
            since = await self._checkpoint_id(number)
            await self._complete_checkpoints()
            await self._settle_interrupted()
            return (await self._restore_since(since, self._checkpoint_paths(files), force=force))[0]

        restored = await self._actor.exclusive(run_restore) or RestoreResult()
        named = [*restored.restored, *restored.deleted]
        if named:
            shown = ", ".join(
                repr(escape_unseen_characters(to_one_line(one, _MAX_PATH_LENGTH))) for one in named[:_MAX_NAMED_FILES]
            )
            more = f" and {len(named) - _MAX_NAMED_FILES} more" if len(named) > _MAX_NAMED_FILES else ""
            recorder.add_note(
                f"The user put files back as they were before: {shown}{more}. "
                "What you know of them may be out of date: read them again."
            )
        return restored

    async def finish_restore(self) -> RestoreResult:
        """Complete a restore that was interrupted by the end of its process; do nothing where there is none."""
        return await self._actor.exclusive(self._finish_restore) or RestoreResult()

    async def _finish_restore(self) -> RestoreResult:
        recorder = self._recorder
        await self._complete_checkpoints()
        for row in await self._store.checkpoints.list_of_session(self._actor.session_id):
            if row.open and row.purpose is Purpose.RESTORE:
                changes = await self._store.checkpoints.list_changes(row.id)
                file_reader = recorder.create_reader(copies=False)
                steps = await asyncio.to_thread(_remaining_steps, changes, file_reader)
                steps = await asyncio.to_thread(self._leave_obeyed, steps)
                with recorder.deps.objects.block_collection():
                    return await run_to_completion(self._execute_steps(row.id, steps))
        return RestoreResult()

    async def undo_turns(self, turns: int = 1, *, files: bool = True, force: bool = False) -> UndoResult:
        """Take back the last turns, and with `files` their changes of files.

        Raises NotFoundError without any turn. Files that are not as the agent left them are skipped, unless `force`.
        """
        if turns < 1:
            raise UsageError(N_("There must be at least one turn to take back."))
        done = await self._actor.exclusive(lambda: self._undo_turns(turns, files=files, force=force))
        if done is None:
            raise NotFoundError(N_("There is nothing to take back."))
        restored, taken = done
        said = tuple(to_inbound(turn.opening) for turn in taken.turns)
        return UndoResult(turns=len(said), said=said, files=restored, redo=taken.whole)

    async def list_messages(self, limit: int) -> list[InboundMessage]:
        """List the messages with which the last turns begin, the newest first: going back to the first undoes one."""
        turns = await self._store.undo.list_last_turns(self._actor.session_id, limit)
        return [to_inbound(one.opening) for one in reversed(turns)]

    async def _undo_turns(self, turns: int, *, files: bool, force: bool) -> tuple[RestoreResult, UndoneTurns]:
        session_id = self._actor.session_id
        past = {one.turn_id for one in await self._store.undo.list_last_turns(session_id, turns)}
        restored, taken = RestoreResult(), None
        if past and files and self._live.checkpoints is not None:
            await self._complete_checkpoints()
            await self._settle_interrupted()
            rows = [row for row in await self._store.checkpoints.list_of_session(session_id) if row.turn_id in past]
            if rows:
                restored, taken = await self._restore_since(
                    min(row.id for row in rows),
                    None,
                    force=force,
                    between=lambda number: self._actor.epochs.turn_undo.undo_turns(turns, number),
                )
        taken = taken or await self._actor.epochs.turn_undo.undo_turns(turns)
        if taken is None:
            raise NotFoundError(N_("There is nothing to take back."))
        return restored, taken

    async def redo_turns(self, *, files: bool = True) -> RedoResult:
        """Redo the last undo. Raises NotFoundError when there is none, or a message was sent since."""
        brought = await self._actor.exclusive(self._actor.epochs.turn_undo.redo_turns)
        if brought is None:
            raise NotFoundError(
                N_("There is nothing to redo."),
                N_("It can be restored until the next message is sent."),
            )
        restored = RestoreResult()
        number = brought.checkpoint_id if files and self._live.checkpoints is not None else None
        if number is not None and await self._store.checkpoints.get(number) is not None:
            since = number
            done = await self._actor.exclusive(lambda: self._restore_since(since, None, force=False))
            restored = done[0] if done is not None else restored
        return RedoResult(messages=brought.messages, files=restored)

    async def undo_last_turn(self, *, files: bool = False) -> InboundMessage:
        """Take the last turn back, its files only with `files`; return the user's message, to be sent again."""
        return (await self.undo_turns(1, files=files)).said[0]

    async def create_branch(self, name: str = "", *, turns: int | None = None) -> SessionBranch:
        """Create a session that begins with this conversation, or with its first `turns` turns; this one stays."""
        session_id = self._actor.session_id

        async def store_branch() -> SessionRow:
            name_of_it = new_session_id(self._now())
            return await self._store.branches.create(session_id, name_of_it, title=name, turns=turns)

        made = await self._actor.exclusive(store_branch)
        if made is None:
            raise NotFoundError(N_("The branch was not made: it was stopped."))
        return SessionBranch(id=made.id, title=made.title, parent=session_id, turns=made.branched_at or 0)

    async def _restore_since(
        self,
        since: int,
        files: Sequence[str] | None,
        *,
        force: bool,
        between: Callable[[int], Awaitable[UndoneTurns | None]] | None = None,
    ) -> tuple[RestoreResult, UndoneTurns | None]:
        """Plan the restore, save the present state, call `between`, and restore the files."""
        recorder = self._recorder
        recorder_deps = recorder.deps
        async with recorder.restore_lock:
            found = build_path_histories(await self._changes_since(since), files)
            with recorder_deps.objects.block_collection():
                file_reader = recorder.create_reader(copies=True)
                steps = await asyncio.to_thread(
                    lambda: self._leave_obeyed(plan_restore(found, file_reader, force=force))
                )
                acting = [step for step in steps if step.changes_path]
                if not acting:
                    return self._build_result(steps, None), None
                new = NewCheckpoint(
                    session_id=recorder_deps.session_id,
                    turn_id="",
                    folder=recorder_deps.places.workspace,
                    place=recorder_deps.backend_name,
                    purpose=Purpose.RESTORE,
                )
                changes = [FileChange(step.path, step.now, step.wanted) for step in acting]
                number = await self._store.checkpoints.add(new, changes)
                taken = await between(number) if between is not None else None
                restored = await run_to_completion(self._execute_steps(number, steps))
        for step in acting if between is not None else ():
            self._live.tools.state.seen_files.pop(step.path, None)
        return restored, taken

    def _leave_obeyed(self, steps: Sequence[RestoreStep]) -> list[RestoreStep]:
        """Return the steps without those that would write what programs obey; in a thread, since the disk is asked."""
        if all(step.outcome is not RestoreOutcome.RESTORE for step in steps):
            return list(steps)
        from hermes.sessions.obeyed_paths import ObeyedPaths

        deps = self._recorder.deps
        return leave_out(steps, ObeyedPaths(steps, deps.places, self._backend, deps.objects.get).has, _OBEYED_REASON)

    async def _execute_steps(self, number: int, steps: Sequence[RestoreStep]) -> RestoreResult:
        """Execute the steps, and store their result."""
        recorder = self._recorder
        recorder_deps = recorder.deps
        file_reader = recorder.create_reader(copies=False)

        def execute_steps() -> tuple[list[RestoreStep], list[FileChange]]:
            done = restore_files(steps, file_reader, recorder_deps.objects)
            acted = [step.path for step in steps if step.changes_path]
            before = {step.path: step.now for step in steps}
            return done, [FileChange(path, before[path], _current_state(file_reader, path)) for path in acted]

        done, changes = await asyncio.to_thread(execute_steps)
        await self._store.checkpoints.settle(number, changes)
        kept = await self._store.checkpoints.get(number) is not None
        return self._build_result(done, number if kept else None)

    async def _complete_checkpoints(self) -> None:
        """Complete checkpoints whose turns will never end, because their process died and nobody resumed them."""
        for row in await self._store.checkpoints.list_of_session(self._actor.session_id):
            if row.open and row.purpose is Purpose.TURN:
                await self._recorder.complete_checkpoint(row)
            elif row.open:
                changes = await self._store.checkpoints.list_changes(row.id)
                await asyncio.to_thread(remove_temporaries, [change.path for change in changes])

    async def _settle_interrupted(self) -> None:
        """Settle an interrupted restore at what it achieved, so that it will not be finished any more."""
        file_reader = self._recorder.create_reader(copies=False)
        for row in await self._store.checkpoints.list_of_session(self._actor.session_id):
            if row.open and row.purpose is Purpose.RESTORE:
                changes = await self._store.checkpoints.list_changes(row.id)
                left = await asyncio.to_thread(_interrupted_changes, changes, file_reader)
                await self._store.checkpoints.settle(row.id, left)

    async def _changes_since(self, since: int) -> list[CheckpointHistory]:
        rows = [row for row in await self._store.checkpoints.list_of_session(self._actor.session_id) if row.id >= since]
        return [(row, await self._store.checkpoints.list_changes(row.id)) for row in reversed(rows)]

    async def _checkpoint_id(self, number: int) -> int:
        rows = await self._store.checkpoints.list_of_session(self._actor.session_id)
        if not rows:
            raise NotFoundError(N_("This session has changed no files, as far as copies of them are kept."))
        if not 1 <= number <= len(rows):
            raise NotFoundError(
                N_("There is no checkpoint {number}.", number=number),
                N_("They count from 1, the newest, to {last}.", last=len(rows)),
            )
        return rows[number - 1].id

    def _display_path(self, path: str, folder: str) -> str:
        """Return a path as a person knows it: relative to the folder, or as the agent's commands name it."""
        return os.path.relpath(path, folder) if path.startswith(f"{folder}/") else self._backend.to_command_path(path)

    def _build_result(self, steps: Sequence[RestoreStep], number: int | None) -> RestoreResult:
        folder = self._recorder.deps.places.workspace
        return _restore_result([(self._display_path(step.path, folder), step) for step in steps], number)

    @property
    def _backend(self) -> "TerminalBackend":
        return self._live.tools.context.backend

    def _checkpoint_paths(self, files: Sequence[str] | None) -> list[str] | None:
        """Return paths as checkpoints know them; relative ones are below the workspace."""
        if files is None:
            return None
        workspace = self._recorder.deps.places.workspace
        named = [os.path.normpath(os.path.join(workspace, os.path.expanduser(one))) for one in files]
        # In the workspace a name is what it was: a link that stands on the way now is no part of it.
        inside = [one for one in named if is_or_below(one, workspace)]
        named += [self._backend.to_local_path(one) for one in named]
        others = [os.path.realpath(os.path.dirname(one)) + f"/{os.path.basename(one)}" for one in named]
        return [*inside, *others]


def _interrupted_changes(changes: Sequence[FileChange], file_reader: "StateReader") -> list[FileChange]:
    """Return what became of the files of an interrupted restore."""
    return [
        FileChange(change.path, change.before, change.before)
        for change in changes
        if _current_state(file_reader, change.path) == change.before
    ]


def _remaining_steps(changes: Sequence[FileChange], file_reader: "StateReader") -> list[RestoreStep]:
    """Return what is left of a restore: the files that still are as they were before it."""
    steps = []
    for change in changes:
        wanted = change.after or change.before
        now = _current_state(file_reader, change.path)
        if now is None or now == wanted:
            fate = RestoreOutcome.SAME
        elif now != change.before:
            fate = RestoreOutcome.FOREIGN
        else:
            fate = RestoreOutcome.DELETE if wanted.kind is Kind.ABSENT else RestoreOutcome.RESTORE
        steps.append(RestoreStep(change.path, wanted, now or wanted, fate))
    return steps


def _current_state(file_reader: "StateReader", path: str) -> FileState | None:
    try:
        return file_reader.read_state(path)
    except OSError:
        return None


def _restore_result(steps: Sequence[tuple[str, RestoreStep]], number: int | None) -> RestoreResult:
    """Build the result of the steps, with display paths. Folders are not named, but what stays in the place of one."""
    named = [(path, step) for path, step in steps if not _is_folder_step(step)]
    quiet = (RestoreOutcome.RESTORE, RestoreOutcome.DELETE, RestoreOutcome.SAME)
    may = (RestoreOutcome.FOREIGN, RestoreOutcome.ONLY, RestoreOutcome.UNKNOWN)
    return RestoreResult(
        restored=tuple(path for path, step in named if step.outcome is RestoreOutcome.RESTORE),
        deleted=tuple(path for path, step in named if step.outcome is RestoreOutcome.DELETE),
        left=tuple(
            SkippedFile(path, _skip_reason(step), step.outcome in may)
            for path, step in named
            if step.outcome not in quiet
        ),
        lost=tuple(path for path, step in named if step.changes_path and not step.now.is_restorable),
        checkpoint=number,
    )


def _is_folder_step(step: RestoreStep) -> bool:
    return Kind.FOLDER in (step.now.kind, step.wanted.kind) and step.outcome is not RestoreOutcome.ONLY


def _skip_reason(step: RestoreStep) -> str:
    if step.outcome is RestoreOutcome.FAILED:
        return tr("it could not be restored: {error}", error=step.why)
    if step.wanted.kind is Kind.LARGE:
        return tr(_LARGE_REASON)
    if step.wanted.kind is Kind.HIDDEN:
        return tr(_HIDDEN_REASON)
    if step.outcome is RestoreOutcome.UNCOPIED and step.why:
        return tr(step.why)
    return tr(_SKIP_REASONS.get(step.outcome, _SKIP_REASONS[RestoreOutcome.UNCOPIED]))


def _is_folder_change(change: FileChange) -> bool:
    states = (change.before, change.after or change.before)
    return any(state.kind is Kind.FOLDER for state in states)


def _describe_uncovered(row: Checkpoint) -> str:
    """Describe what a checkpoint does not hold."""
    if row.place == "ssh":
        return tr("What commands change on the other host out of the workspace is not covered.")
    if not row.whole:
        return tr("The folder is too large: not everything that commands change is covered.")
    return ""


MAX_COMPARED_LINES = 4_000
"""The most lines of a file that are compared; of a longer one only the size is given."""
MAX_DIFF_LINES = 400
"""The most lines of one file's difference."""
_MAX_LINE_LENGTH = 500


class FileDiff(Struct, frozen=True, kw_only=True):
    """The difference of one file. `change` is `changed`, `created`, `deleted` or `mode`; `text` a unified diff
    without its head.

    `text` is empty for a file that is binary, too large or not kept, which `note` names (`binary`, `large`,
    `hidden`, `link`, `other`). `cut`: the difference is longer than what is shown.
    """

    path: str
    change: str
    text: str = ""
    note: str = ""
    added: int = 0
    removed: int = 0
    cut: bool = False


def compare_file_states(path: str, was: FileState, now: FileState, content: Callable[[str], bytes | None]) -> FileDiff:
    """Compare two states of a file; `content` returns the stored bytes of a digest."""
    change = "created" if was.kind is Kind.ABSENT else "deleted" if now.kind is Kind.ABSENT else "changed"
    if was.kind is now.kind is Kind.FILE and was.mark == now.mark:
        return FileDiff(path=path, change="mode", note=f"{was.mode:o} -> {now.mode:o}")
    for state in (was, now):
        if state.kind not in (Kind.FILE, Kind.ABSENT):
            return FileDiff(path=path, change=change, note=state.kind.value)
    if has_key_name(f"/{path}"):
        return FileDiff(path=path, change=change, note=Kind.HIDDEN.value)
    old, new = _read_lines(was, content), _read_lines(now, content)
    if old is None or new is None:
        return FileDiff(path=path, change=change, note="binary")
    if len(old) + len(new) > MAX_COMPARED_LINES:
        return FileDiff(path=path, change=change, note="large", added=len(new), removed=len(old))
    return compare_lines(path, change, old, new)


def compare_lines(path: str, change: str, old: list[str], new: list[str]) -> FileDiff:
    """Compare the lines of a file before and after a change."""
    import difflib

    lines = [line[:_MAX_LINE_LENGTH] for line in difflib.unified_diff(old, new, n=3, lineterm="")][2:]
    return FileDiff(
        path=path,
        change=change,
        text="\n".join(lines[:MAX_DIFF_LINES]),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
        cut=len(lines) > MAX_DIFF_LINES,
    )


def _read_lines(state: FileState, content: Callable[[str], bytes | None]) -> list[str] | None:
    """Return a file's lines; None for a binary file or one that is not stored any more."""
    if state.kind is Kind.ABSENT:
        return []
    data = content(state.mark)
    if data is None or b"\0" in data[:8_192]:
        return None
    try:
        return data.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return data.decode("latin-1").splitlines()


MAX_NEW_FILES = 20
"""The most new files whose contents are shown."""
MAX_NEW_LINES, MAX_LINES_OF_ONE = 400, 200
"""The most lines of all of them together, and of one of them."""
MAX_NEW_BYTES = 1 << 20
"""The largest file that is read."""


def read_new_files(names: Sequence[str], context: "ToolContext") -> list[FileDiff]:
    """Return the first of the new files, named as git lists them, as differences from nothing. This blocks.

    One that holds keys by its name, is large, binary, a link or no regular file is only named.
    """
    left, found = MAX_NEW_LINES, list[FileDiff]()
    for name in names[:MAX_NEW_FILES]:
        one = _read_new_file(_unquote_name(name), context)
        lines, room = one.text.splitlines(), min(left, MAX_LINES_OF_ONE)
        if len(lines) > room:
            note = one.note if room else "large"
            one = structs.replace(one, text="\n".join(lines[:room]), note=note, cut=True)
        left -= min(len(lines), room)
        found.append(one)
    return found


def _read_new_file(path: str, context: "ToolContext") -> FileDiff:
    from hermes.tools.files import decode_text_file, open_regular

    if has_key_name(f"/{path}"):
        return FileDiff(path=path, change="created", note="hidden")
    found = context.resolve_path(path)
    if os.path.islink(found):  # what it leads to is not new, and may lie elsewhere
        return FileDiff(path=path, change="created", note="link")
    try:
        file, _, status = open_regular(found, path, context)
    except ToolError:
        return FileDiff(path=path, change="created", note="other")
    with file:
        if status.st_size > MAX_NEW_BYTES:
            return FileDiff(path=path, change="created", note="large")
        text = decode_text_file(file.read(MAX_NEW_BYTES))
    if text is None:
        return FileDiff(path=path, change="created", note="not-text")
    return compare_lines(path, "created", [], text.text.splitlines())


def _unquote_name(name: str) -> str:
    """Return a name without the quotes in which git puts one with unusual letters, as C does."""
    if not name.startswith('"'):
        return name
    escaped = name[1:-1].encode("latin-1", "replace").decode("unicode_escape", "replace")
    return escaped.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
