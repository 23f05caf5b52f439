"""`read_file`: reads text with line numbers, of any size, a window at a time, documents by their reader, pictures."""

import asyncio
import io
import os
from typing import Annotated, BinaryIO

from msgspec import Struct

from hermes.core.messages import Provenance, Source
from hermes.media.recognition import HEAD_BYTES, recognize_file
from hermes.tools.files import detect_encoding, open_regular, stamp_from_status
from hermes.tools.session import FileStamp, ToolContext
from hermes.tools.tool import Parallel, PathUse, ToolOutput, tool

DEFAULT_LINES = 500
MAX_LINES = 2_000
MAX_LINE = 2_000
MAX_CHARACTERS = 100_000
_NOTE_RESERVE = 300
"""The characters kept free for the note at the end."""
_MAX_INLINE_BYTES = 256 * 1024
"""The bytes that are read on the event loop: a fraction of a millisecond. Larger files are read in a
thread.
"""
_CHUNK = 1024 * 1024
_UNSAVED_NOTE = "[as it stands in the person's editor, where it is not saved]"


class _Window(Struct, frozen=True):
    """A window of lines as bytes. `total` is the file's number of lines, None when its end was not reached."""

    lines: list[bytes]
    total: int | None
    size: int
    encoding: str
    stamp: FileStamp


@tool(
    "file",
    parallel=Parallel.PATHS,
    repeatable=True,
    cap=MAX_CHARACTERS,
    summary=lambda args: f"read {args['path']}",
    paths=lambda args: [PathUse(str(args["path"]))],
)
async def read_file(
    ctx: ToolContext,
    path: Annotated[str, "File to read."],
    offset: Annotated[int, "First line, from 1."] = 1,
    limit: Annotated[int, "Lines to read, at most 2000."] = DEFAULT_LINES,
    pages: Annotated[str, "3-5; 3-5p for pictures."] = "",
) -> ToolOutput:
    """Read text, documents, pictures."""
    target = ctx.resolve_path(path)
    first, count = max(1, offset), max(1, min(limit, MAX_LINES))
    file, real, status = open_regular(target, path, ctx)
    with file:
        stamp = stamp_from_status(status)
        unsaved = await ctx.buffers.find_unsaved(target, ctx) if ctx.buffers is not None else None
        kind = recognize_file(os.pread(file.fileno(), HEAD_BYTES, 0), path) if unsaved is None else ""
        if kind and (kind != "page" or pages):
            shown = await _show_as(kind, file, path, (pages, first, count))
            ctx.state.seen_files[real] = stamp
            return shown
        if unsaved is not None:
            window = _read_window(io.BytesIO(unsaved.encode("utf-8", "replace")), first, count, stamp)
        elif status.st_size <= _MAX_INLINE_BYTES:
            window = _read_window(file, first, count, stamp)
        else:
            window = await asyncio.to_thread(_read_window, file, first, count, stamp)
    ctx.state.seen_files[real] = stamp
    nothing = not window.lines and window.total != 0  # a binary file, or a line after the end
    provenance = Provenance(source=Source.FILE, label=path)
    text = _format_window(window, first, path)
    if unsaved is not None:
        text = f"{text}\n{_UNSAVED_NOTE}"
    return ToolOutput(text=text, provenance=provenance, failed=nothing)


async def _show_as(kind: str, file: BinaryIO, path: str, part: tuple[str, int, int]) -> ToolOutput:
    """Return a file that is read as a picture or a document."""
    from hermes.tools.documents.shown_files import parse_pages, show_document, show_picture

    if kind == "picture":
        return await show_picture(file, path)
    return await show_document(file, path, kind, parse_pages(*part))


def _read_window(file: BinaryIO, first: int, count: int, stamp: FileStamp) -> _Window:
    """Return the window of a file, with one chunk in memory at a time; lines are cut at a length nobody reads."""
    chunk = file.read(_CHUNK)
    encoding, bom = detect_encoding(chunk)
    if encoding.startswith("utf-16"):
        return _read_utf16(file, chunk[2:], encoding, (first, count), stamp)
    chunk = chunk[len(bom) :]
    size = stamp.size
    if not encoding:
        return _Window([], None, size, "", stamp)
    number = 1
    while chunk and number + (newlines := chunk.count(b"\n")) < first:
        number += newlines
        chunk = file.read(_CHUNK)
    if chunk and number < first:
        chunk = chunk.split(b"\n", first - number)[-1]
        number = first
    lines, rest = _collect_lines(file, chunk, count)
    if rest is None:
        return _Window(lines, number - 1 + len(lines), size, encoding, stamp)
    after = file.read(_CHUNK) if len(rest) < _CHUNK else b"more"
    if after:
        return _Window(lines, None, size, encoding, stamp)
    total = number - 1 + len(lines) + rest.count(b"\n") + (not rest.endswith(b"\n"))
    return _Window(lines, total, size, encoding, stamp)


def _collect_lines(file: BinaryIO, chunk: bytes, count: int) -> tuple[list[bytes], bytes | None]:
    """Return at most `count` lines from here, and what follows them in the chunk; None when the file has
    ended.
    """
    lines: list[bytes] = []
    held = b""
    while chunk:
        parts = chunk.split(b"\n", count - len(lines))
        for part in parts[:-1]:
            lines.append((held + part)[: 4 * MAX_LINE + 4])
            held = b""
        if len(lines) == count:
            rest = parts[-1] or file.read(_CHUNK)
            return lines, rest or None
        held = (held + parts[-1])[: 4 * MAX_LINE + 4]
        chunk = file.read(_CHUNK)
    if held:
        lines.append(held)
    return lines, None


def _read_utf16(file: BinaryIO, chunk: bytes, encoding: str, window: tuple[int, int], stamp: FileStamp) -> _Window:
    """Read UTF-16: decoded as it comes, given back as UTF-8 lines."""
    import codecs

    first, count = window
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    lines: list[bytes] = []
    number = 1
    held = ""
    while True:
        *whole, held = (held + decoder.decode(chunk, final=not chunk)).split("\n")
        for line in whole + ([held] if not chunk and held else []):
            if first <= number < first + count:
                lines.append(line[: MAX_LINE + 1].encode("utf-8", "replace"))
            number += 1
        if not chunk:
            return _Window(lines, number - 1, stamp.size, encoding, stamp)
        chunk = file.read(_CHUNK)


def _format_window(window: _Window, first: int, path: str) -> str:
    if not window.encoding:
        return f"{path} is a binary file of {window.size} bytes; it has no lines to show."
    if not window.lines:
        if window.total == 0:
            return f"{path} is empty."
        return f"{path} has {window.total} lines; line {first} is after its end."
    text, latin = _decode_lines(window.lines)
    shown: list[str] = []
    room = MAX_CHARACTERS - _NOTE_RESERVE
    for number, line in enumerate(text, first):
        row = f"{number}|{line}" if len(line) <= MAX_LINE else f"{number}|{line[:MAX_LINE]} [line cut]"
        room -= len(row) + 1
        if room < 0:
            break
        shown.append(row)
    notes = _list_notes(window, first, first - 1 + len(shown), latin=latin)
    if notes:
        shown.append(f"[{'; '.join(notes)}]")
    return "\n".join(shown)


def _list_notes(window: _Window, first: int, last: int, *, latin: bool) -> list[str]:
    notes = []
    if window.total is None or last < window.total:
        of = f"of {window.total}" if window.total is not None else f"of more (the file has {window.size} bytes)"
        notes.append(f"lines {first}-{last} {of}; go on with offset={last + 1}")
    if latin:
        notes.append("not UTF-8, shown as Latin-1")
    elif window.encoding != "utf-8":
        notes.append(f"the file is {window.encoding.upper()}")
    return notes


def _decode_lines(lines: list[bytes]) -> tuple[list[str], bool]:
    """Return the lines as text, and whether they had to be read as Latin-1. A cut line may end inside a
    character.
    """
    joined = b"\n".join(lines)
    try:
        return [line.rstrip("\r") for line in joined.decode().split("\n")], False
    except UnicodeDecodeError:
        pass
    text: list[str] = []
    for line in lines:
        whole = line.decode("utf-8", "ignore" if len(line) > 4 * MAX_LINE else "surrogateescape")
        if any("\udc80" <= char <= "\udcff" for char in whole):
            return [line.decode("latin-1").rstrip("\r") for line in lines], True
        text.append(whole.rstrip("\r"))
    return text, False
