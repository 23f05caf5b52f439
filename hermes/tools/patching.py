"""Carrying out edits on files: every file is worked out first, so that a patch that fails anywhere changes nothing."""

import difflib
import os

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.tools import edits, files
from hermes.tools.edits import Action, Hunk, Section
from hermes.tools.files import TextFile
from hermes.tools.session import ToolContext
from hermes.tools.syntax import syntax_note

_DIFF = 4_000
_DIFF_LINES = 3_000


class _Change(Struct, frozen=True):
    """A file before and after; None where it does not exist."""

    path: str
    before: TextFile | None
    after: TextFile | None
    note: str = ""


def replace(ctx: ToolContext, path: str, texts: tuple[str, str], *, everywhere: bool) -> str:
    """Put the second text in the place of the first; the diff. Raises `ToolError`."""
    before = files.load(ctx.resolve(path), path, ctx.state, ctx.places)
    old, new = (ctx.restored(text.replace("\r\n", "\n"), before.text) for text in texts)
    text, note = edits.replace_text(before.text, old, new, everywhere=everywhere, shown=path)
    return _carry_out(ctx, [_Change(path, before, msgspec.structs.replace(before, text=text), note)])


def patch(ctx: ToolContext, text: str) -> str:
    """Apply a V4A patch; the diffs. Raises `ToolError`; every file is then as it was."""
    now: dict[str, TextFile | None] = {}
    changes: list[_Change] = []
    for section in edits.parse(text):
        changes += _changes(ctx, section, now)
    return _carry_out(ctx, changes)


def _changes(ctx: ToolContext, section: Section, now: dict[str, TextFile | None]) -> list[_Change]:
    """What a section does, given what the sections before it did (`now`, by real path)."""
    path = section.path
    real = os.path.realpath(ctx.resolve(path))
    if section.action is Action.ADD:
        _must_be_free(real, path, now)
        now[real] = TextFile(text=ctx.restored(section.content, ""))
        return [_Change(path, None, now[real])]
    before = now[real] if real in now else files.load(ctx.resolve(path), path, ctx.state, ctx.places)
    if before is None:
        raise ToolError(f"{path} is deleted earlier in the patch. Nothing was changed.")
    if section.action is Action.DELETE:
        now[real] = None
        return [_Change(path, before, None)]
    text, note = edits.apply(before.text, [_restored(ctx, hunk, before.text) for hunk in section.hunks], path)
    after = msgspec.structs.replace(before, text=text)
    if not section.target:
        now[real] = after
        return [_Change(path, before, after, note)]
    moved = os.path.realpath(ctx.resolve(section.target))
    _must_be_free(moved, section.target, now)
    now[real], now[moved] = None, after
    return [_Change(section.target, None, after, note), _Change(path, before, None)]


def _restored(ctx: ToolContext, hunk: Hunk, original: str) -> Hunk:
    """The hunk, with what was shown as a placeholder as it stands in the file."""
    old, new, below = (
        tuple(ctx.restored(line, original) for line in lines) for lines in (hunk.old, hunk.new, hunk.below)
    )
    return Hunk(old, new, below, hunk.at_end)


def _must_be_free(real: str, shown: str, now: dict[str, TextFile | None]) -> None:
    exists = now[real] is not None if real in now else os.path.lexists(real)
    if exists:
        raise ToolError(f"{shown} exists already; use '*** Update File' to change it. Nothing was changed.")


def _carry_out(ctx: ToolContext, changes: list[_Change]) -> str:
    done: list[_Change] = []
    try:
        for change in changes:
            _apply(ctx, change.path, change.after)
            done.append(change)
    except ToolError as error:
        for change in reversed(done):
            _apply(ctx, change.path, change.before)
        raise ToolError(f"{error} Every file is as it was.") from None
    return "\n".join(_report(change, files.own_place(ctx, change.path)) for change in changes)


def _apply(ctx: ToolContext, path: str, content: TextFile | None) -> None:
    target = ctx.resolve(path)
    if content is not None:
        files.save(target, path, files.encode(content), ctx)
        return
    try:
        os.unlink(target)
    except OSError as error:
        raise ToolError(f"{path} cannot be deleted: {error.strerror}.") from None
    ctx.state.seen.pop(os.path.realpath(target), None)


def _report(change: _Change, place: str) -> str:
    if change.after is None:
        return f"Deleted {change.path}."
    notes = " ".join(part for part in (place, change.note, syntax_note(change.path, change.after.text)) if part)
    if change.before is None:
        return f"Created {change.path}, {change.after.text.count(chr(10))} lines. {notes}".rstrip()
    return "\n".join(
        part
        for part in (f"Changed {change.path}. {notes}".rstrip(), _diff(change.before.text, change.after.text))
        if part
    )


def _diff(before: str, after: str) -> str:
    """A short unified diff. Lines that both begin and end with are set aside first, since comparing is costly."""
    old, new = before.removesuffix("\n").split("\n"), after.removesuffix("\n").split("\n")
    shared = min(len(old), len(new))
    head = next((at for at in range(shared) if old[at] != new[at]), shared)
    tail = next((at for at in range(shared - head) if old[-1 - at] != new[-1 - at]), shared - head)
    if len(old) + len(new) - 2 * (head + tail) > _DIFF_LINES:
        return f"{len(old) - head - tail} lines from line {head + 1} on became {len(new) - head - tail}."
    start, after_tail = max(0, head - 2), max(0, tail - 2)
    parts = difflib.unified_diff(
        old[start : len(old) - after_tail], new[start : len(new) - after_tail], n=2, lineterm=""
    )
    shown = [_shifted(line, start) for line in parts if not line.startswith(("---", "+++"))]
    text = "\n".join(shown)
    return text if len(text) <= _DIFF else f"{text[:_DIFF]}\n[diff cut]"


def _shifted(line: str, by: int) -> str:
    """A hunk's header with the line numbers of the whole file."""
    if not line.startswith("@@ "):
        return line
    old, new = (part[1:].split(",") for part in line.split(" ")[1:3])
    return f"@@ -{int(old[0]) + by},{[*old, '1'][1]} +{int(new[0]) + by},{[*new, '1'][1]} @@"
