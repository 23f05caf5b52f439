"""Files as the tools see them: only regular ones, text in its own encoding, and whether they changed since they were
read.
"""

import codecs
import os
import re
import stat
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.base import TerminalBackend
from hermes.tools.session import FileStamp, ToolContext, ToolState
from hermes.util.file_handles import LISTED_FOLDER_FLAGS, HeldPath, hold_path

EDIT_LIMIT = 20 * 1024 * 1024
"""The size in bytes of the largest file that is loaded whole, to be edited."""
_SNIFF_BYTES = 8_192
_PRIVATE_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names, of which nothing is made
_MAX_SUGGESTIONS = 5
_MAX_LISTED = 30
_MAX_SCANNED = 5_000
_FAULTY = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as Python decodes them."""
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SPECIAL_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a disk device"),
)


class OpenedFile(NamedTuple):
    """A regular file that is open, its path without links, by which a session knows what it has seen, and its state
    when it was opened.
    """

    file: BinaryIO
    real: str
    status: os.stat_result


class TextFile(Struct, frozen=True, kw_only=True):
    """The text of a file, with what is needed to write it back as it was."""

    text: str
    """The text, with `\\n` at the end of lines, whatever the file has; as it is where the file has several kinds."""
    encoding: str = "utf-8"
    bom: bytes = b""
    newline: str = "\n"
    """How most lines end."""
    is_mixed: bool = False
    """Whether some lines end in `\\r\\n` and others do not, so that the text has both."""


def open_regular(path: str, display_path: str, context: ToolContext) -> OpenedFile:
    """Open a regular file for reading. Never blocks.

    Raises `ToolError` that says what is there instead, or why what was opened is not open to tools: the
    gate judged a name, and a name may lead elsewhere a moment later.
    """
    from hermes.safety.path_policy import hard_link_refusal  # what it needs is read when there is a file to open
    from hermes.tools.path_access import hold_for_reading

    try:
        with hold_for_reading(path, display_path, context) as held:
            try:
                handle, real = held.open_read(), held.real
            except OSError:
                _require_regular(held, display_path, context)
                raise
    except FileNotFoundError:
        raise ToolError(f"{display_path} does not exist.") from None
    except OSError as error:
        raise ToolError(f"{display_path} cannot be read: {error.strerror}.") from None
    file = os.fdopen(handle, "rb", buffering=0)  # whoever reads it reads much at a time
    status = os.fstat(handle)
    if why := hard_link_refusal(status, context.places):
        file.close()
        raise ToolError(f"{display_path} is not open to tools: {why}.")
    return OpenedFile(file, real, status)


def _require_regular(held: HeldPath, display_path: str, context: ToolContext) -> None:
    """Raise `ToolError` that says what is at a path, unless it is a regular file; OSError where that cannot be told."""
    try:
        status = held.read_status()
    except FileNotFoundError:
        raise ToolError(_format_missing(held, display_path, context.backend), quotes=True) from None
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(_format_folder(held.list_names(), display_path), quotes=True)
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for test, name in _SPECIAL_KINDS if test(status.st_mode)), "no regular file")
        raise ToolError(f"{display_path} is {kind}. Only regular files are read.")


def get_file_kind(path: str, display_path: str, context: ToolContext) -> str:
    """Return `file`, `folder` or `other`; empty where nothing is. Raises `ToolError` where it is closed, OSError."""
    from hermes.tools.path_access import hold_for_reading

    try:
        with hold_for_reading(path, display_path, context) as held:
            mode = held.read_status().st_mode
    except FileNotFoundError:
        return ""
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def stamp_from_status(status: os.stat_result) -> FileStamp:
    """Return the stamp that tells this state of a file from another."""
    return FileStamp(inode=status.st_ino, size=status.st_size, modified_ns=status.st_mtime_ns)


def detect_encoding(head: bytes) -> tuple[str, bytes]:
    """Return encoding and byte order mark by the beginning of a file; the encoding is empty when it is not text."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name, bom
    return ("", b"") if b"\0" in head[:_SNIFF_BYTES] else ("utf-8", b"")


def load_text_file(path: str, display_path: str, context: ToolContext) -> TextFile:
    """Return the whole text of a file, to be edited.

    Raises `ToolError`, also when it changed since this session saw it.
    """
    file, real, status = open_regular(path, display_path, context)
    with file:
        check_unchanged(real, display_path, context.state, status)
        if status.st_size > EDIT_LIMIT:
            raise ToolError(
                f"{display_path} has {status.st_size} bytes, too many to edit as a whole. "
                "Use a command in the terminal."
            )
        data = file.read()
    text = decode_text_file(data)
    if text is None:
        raise ToolError(f"{display_path} is a binary file and cannot be edited as text.")
    return text


def decode_text_file(data: bytes) -> TextFile | None:
    """Return the text of a file's bytes, or None when it is not text.

    What is mostly not UTF-8 and has no byte order mark is read as Latin-1.
    """
    encoding, bom = detect_encoding(data)
    if not encoding:
        return None
    body = data[len(bom) :]
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = _decode_faulty(body, encoding)
    ends, pairs = text.count("\n"), text.count("\r\n")
    newline = "\r\n" if pairs * 2 > ends else "\r" if not ends and "\r" in text else "\n"
    is_mixed = newline == "\r\n" and pairs != ends
    if not is_mixed and newline != "\n":
        text = text.replace(newline, "\n")
    return TextFile(text=text, encoding=encoding, bom=bom, newline=newline, is_mixed=is_mixed)


def _decode_faulty(body: bytes, encoding: str) -> tuple[str, str]:
    """Return the encoding and the text of bytes that are not quite what they seem: UTF-8 with some other bytes, which
    stay as they are, where most that is not ASCII is UTF-8.
    """
    if encoding == "utf-8":
        text = body.decode(encoding, "surrogateescape")
        faults = len(_FAULTY.findall(text))
        if sum(not char.isascii() for char in text) > 2 * faults:
            return encoding, text
    return "latin-1", body.decode("latin-1")


def encode_text_file(file: TextFile) -> bytes:
    """Return the bytes of a file with its own line ends, encoding and byte order mark.

    Raises `ToolError` for characters that the encoding has not.
    """
    text = file.text if file.is_mixed else file.text.replace("\n", file.newline)
    try:
        return file.bom + text.encode(file.encoding, "surrogateescape" if file.encoding == "utf-8" else "strict")
    except UnicodeEncodeError as error:
        if file.encoding != "latin-1":
            return file.bom + text.encode(file.encoding, "replace")
        raise ToolError(
            f"The file is not UTF-8 but Latin-1, which has no {text[error.start]!r}. Use other characters, or write "
            "the whole file."
        ) from None


def check_unchanged(real: str, display_path: str, state: ToolState, status: os.stat_result) -> None:
    """Raise `ToolError` when the file of this real path is not as this session last saw it."""
    seen = state.seen_files.get(real)
    if seen is not None and seen != stamp_from_status(status):
        del state.seen_files[real]
        raise ToolError(
            f"{display_path} was changed on disk since you last saw it, so nothing was written. "
            "Read it again, then decide."
        )


def save_file(path: str, display_path: str, data: bytes, ctx: ToolContext) -> str:
    """Write a file whole, with its folders, remember it as seen, and return its real path.

    Raises `ToolError`; the old file then stands. What is judged once more is the place that is written, held open, not
    its name.
    """

    from hermes.tools.path_access import make_link_target

    try:
        with hold_path(path, link_target=make_link_target(ctx)) as held:
            _check_writable(held.real, display_path, ctx)
            held.replace(data)
            ctx.state.seen_files[held.real] = stamp_from_status(held.read_status())
            return held.real
    except OSError as error:
        raise ToolError(f"{display_path} cannot be written: {error.strerror}.") from None


def delete_file(path: str, display_path: str, ctx: ToolContext) -> None:
    """Delete a file, or the link of that name. Raises `ToolError`."""
    from hermes.tools.path_access import make_link_target

    try:
        with hold_path(path, follow=False, link_target=make_link_target(ctx)) as held:
            _check_writable(held.real, display_path, ctx)
            held.remove()
            ctx.state.seen_files.pop(held.real, None)
    except OSError as error:
        raise ToolError(f"{display_path} cannot be deleted: {error.strerror}.") from None


def _check_writable(real: str, display_path: str, ctx: ToolContext) -> None:
    """Raise `ToolError` when the place that is about to be changed, held open, is not the one that was allowed."""
    from hermes.safety.paths import write_refusal
    from hermes.tools.path_access import explain_obeyed

    why = write_refusal(real, ctx.places, asked=real in ctx.allowed_writes) or explain_obeyed(real, ctx)
    if not why and real not in ctx.allowed_writes and not ctx.backend.is_writable(real):
        why = "it leads elsewhere since it was allowed"
    if why:
        raise ToolError(f"{display_path} is not open to tools: {why}.")


def describe_session_folder(ctx: ToolContext, real: str) -> str:
    """Return a note for a file (its real path) in a folder of the session's own, which stands for one of this
    machine's; empty elsewhere.
    """
    named = ctx.backend.to_command_path(real)
    if named == real:
        return ""
    private = next((one for one in _PRIVATE_FOLDERS if named.startswith(f"{one}/")), os.path.dirname(named))
    return f"({private} is this session's own and goes with it)"


def _format_missing(held: HeldPath, display_path: str, backend: TerminalBackend) -> str:
    """Return the message for a missing file, with similar names here or in the nearest folder that exists."""
    if held.missing:
        nearest = os.path.normpath(os.path.join(held.real, *[os.pardir] * (len(held.missing) + 1)))
        nearest = backend.to_command_path(nearest)
        return f"{display_path} does not exist; neither does its folder. The nearest one that does is {nearest}."
    names = _list_beside(held)
    from hermes.util.nearest_names import list_nearest

    close = list_nearest(held.name, names, nearness=0.5)[:_MAX_SUGGESTIONS]
    stem = os.path.splitext(held.name)[0].lower()
    close += [name for name in names if stem in name.lower() and name not in close][: _MAX_SUGGESTIONS - len(close)]
    if close:
        return f"{display_path} does not exist. Similar names there: {', '.join(close)}."
    return f"{display_path} does not exist."


def _format_folder(entries: Sequence[str], display_path: str) -> str:
    names = sorted(entries[:_MAX_SCANNED])
    more = f" ... and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    listed = ", ".join(names[:_MAX_LISTED]) + more if names else "nothing"
    return f"{display_path} is a folder. It holds: {listed}."


def _list_beside(held: HeldPath) -> list[str]:
    """Return the names in the folder that is held open; none where they may not be listed."""
    try:
        folder = os.open(".", LISTED_FOLDER_FLAGS, dir_fd=held.handle)
    except OSError:
        return []
    try:
        return sorted(os.listdir(folder))[:_MAX_SCANNED]
    finally:
        os.close(folder)
