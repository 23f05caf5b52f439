"""Files as they stand in a person's editor, saved or not: what is read of them, and saving them before a call changes
them, so that undo brings back what the person had typed.

The editor reads and writes by name and with all rights of the person, so it is asked only about what the session has
just opened itself through its gate and layout: a regular file of the workspace. Nothing of the session may run
meanwhile, since a process could put a link in the file's place.
"""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Protocol

from hermes.core.checkpoints import FileLoss, WorkspaceChanges
from hermes.core.errors import ToolError
from hermes.safety.paths import is_or_below, write_refusal
from hermes.tools.files import EDIT_LIMIT, decode_text_file, open_regular, stamp_from_status
from hermes.tools.path_access import explain_obeyed
from hermes.tools.session import FileStamp, OpenBuffers, Safeguard, ToolContext


class EditorFiles(Protocol):
    """The texts of an editor. Neither function raises."""

    can_write: bool

    async def read_text(self, path: str) -> str | None:
        """Return the text of a file as it stands in the editor; None where the editor does not say."""
        ...

    async def write_text(self, path: str, text: str) -> bool:
        """Put a text into a file and save it; return whether the editor did."""
        ...


class EditorBuffers:
    """The unsaved files of one session's editor."""

    def __init__(self, files: EditorFiles) -> None:
        self._files = files
        self._shown: dict[str, bytes] = {}
        """The hashes of unsaved texts that the model was shown, by real path."""

    async def find_unsaved(self, path: str, context: ToolContext) -> str | None:
        """Return the text of a file (its absolute path) where it stands in the editor other than on disk."""
        found = await self._find_unsaved(path, context)
        if found is None:
            return None
        real, text = found
        self._shown[real] = _hash_text(text)
        return text

    async def _find_unsaved(self, path: str, context: ToolContext) -> tuple[str, str] | None:
        """Return the real path of a file and its text where that is not saved."""
        before = await asyncio.to_thread(_read_saved, path, context)
        if before is None:
            return None
        real, saved, stamp = before
        text = await self._files.read_text(real)
        if text is None or len(text) > EDIT_LIMIT or _normalize(text) == _normalize(saved):
            return None
        after = await asyncio.to_thread(_read_saved, path, context)
        if after is None or (after[0], after[2]) != (real, stamp):
            return None  # something was put into its place, and what the editor has read may be that
        return real, text

    async def save_unsaved(self, path: str, context: ToolContext) -> None:
        """Save a file that a call is about to change, where it is not saved. What the model was shown of it stays known
        to the session; anything else is a change that the tool notices.
        """
        if not self._files.can_write:
            return
        found = await self._find_unsaved(path, context)
        if found is None:
            return
        real, text = found
        if write_refusal(real, context.places) or explain_obeyed(real, context):
            return
        was_shown = self._shown.get(real) == _hash_text(text)
        known = context.state.seen_files.get(real)
        if not context.backend.is_writable(real) or not await self._files.write_text(real, text):
            return
        now = await asyncio.to_thread(_read_saved, path, context)
        if was_shown and known is not None and now is not None and _strip_blanks(now[1]) == _strip_blanks(text):
            context.state.seen_files[real] = now[2]


class BufferSafeguard:
    """Has unsaved files saved in the editor before copies are taken of what a call changes."""

    def __init__(self, inner: Safeguard, buffers: OpenBuffers, context: ToolContext) -> None:
        self._inner = inner
        self._buffers = buffers
        self._context = context

    @property
    def keeps_copies(self) -> bool:
        """Whether copies of files are kept at all."""
        return self._inner.keeps_copies

    def can_copy(self, path: str) -> bool:
        """Return whether what is at a path is not too large for a copy."""
        return self._inner.can_copy(path)

    async def save_before(self, paths: Sequence[str], *, anything: bool, folders: Sequence[str] = ()) -> None:
        """Save what is at the paths, in the editor and as copies."""
        for path in () if anything else paths:
            await self._buffers.save_unsaved(path, self._context)
        await self._inner.save_before(paths, anything=anything, folders=folders)

    async def find_uncovered(self, losses: Sequence[FileLoss], folders: Sequence[str] = ()) -> Mapping[FileLoss, str]:
        """Return for each loss the first path without a copy."""
        return await self._inner.find_uncovered(losses, folders)

    async def record_after(self, paths: Sequence[str], *, ran: bool = False) -> None:
        """Record the state of these paths after the change."""
        await self._inner.record_after(paths, ran=ran)

    async def list_changes(self, others: Sequence[str], *, running: bool) -> WorkspaceChanges:
        """Return what has changed since the last time."""
        return await self._inner.list_changes(others, running=running)


def _read_saved(path: str, context: ToolContext) -> tuple[str, str, FileStamp] | None:
    """Return the real path of a file that the editor may be asked about, its text on disk and its state; None for any
    other file, and while processes of the session run.
    """
    started = context.state.started_processes
    if started is not None and started.has_running():
        return None
    try:
        file, real, status = open_regular(path, path, context)
        with file:
            if status.st_size > EDIT_LIMIT or not is_or_below(real, context.places.workspace):
                return None
            text = decode_text_file(file.read())
    except (ToolError, OSError, ValueError):
        return None
    return None if text is None else (real, text.text, stamp_from_status(status))


def _normalize(text: str) -> str:
    """Return a text without what an editor may keep apart from it: byte order mark, line ends, the last line's end."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n")


def _strip_blanks(text: str) -> str:
    """Return a text without what editors take off when they save: blanks at the ends of lines and of the file."""
    return "\n".join(line.rstrip() for line in _normalize(text).split("\n")).rstrip("\n")


def _hash_text(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
