"""`patch`: changes parts of files; all of a patch or nothing of it.

Applies edits to files: every file is worked out first, so that a patch that fails anywhere changes nothing.
"""

import asyncio
import difflib
import itertools
import os
from typing import Annotated, Literal

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.tools import edits, files
from hermes.tools.files import TextFile
from hermes.tools.patch_text import Hunk, PatchAction, PatchSection, parse_patch
from hermes.tools.schema import Arguments
from hermes.tools.session import ToolContext
from hermes.tools.tool import Parallel, PathUse, tool
from hermes.util.text import clean_surrogates


def _list_paths(args: Arguments) -> list[PathUse]:
    if args["mode"] == "patch":
        from hermes.tools.patch_text import find_patch_paths  # its patterns are read when there is a patch

        named = find_patch_paths(str(args["patch"] or ""))
        return [PathUse(path, write=True, keeps_text=action is PatchAction.UPDATE) for path, action in named]
    return [PathUse(str(args["path"]), write=True, keeps_text=True)] if args["path"] else []


def _format_summary(args: Arguments) -> str:
    return "patch " + ", ".join(use.path for use in _list_paths(args))[:100]


def _list_texts(args: Arguments) -> dict[str, str | None]:
    from hermes.tools.patch_text import find_patch_texts, format_change

    if args["mode"] == "patch":
        return find_patch_texts(str(args["patch"] or ""))
    old, new = (str(args[name]).split("\n") if args[name] else () for name in ("old_string", "new_string"))
    return {str(args["path"]): format_change(old, new)}


@tool("file", parallel=Parallel.PATHS, summary=_format_summary, paths=_list_paths, texts=_list_texts)
async def patch(
    ctx: ToolContext,
    mode: Annotated[
        Literal["replace", "patch"], "replace: one text in one file; patch: a V4A patch over files."
    ] = "replace",
    path: Annotated[str, "File to change (replace)."] = "",
    old_string: Annotated[str, "Text to replace; must stand there once, so give enough lines (replace)."] = "",
    new_string: Annotated[str, "Text to put there; empty deletes (replace)."] = "",
    replace_all: Annotated[bool, "Replace every place (replace)."] = False,
    patch: Annotated[
        str, "'*** Update File: p' with @@ context, -, + and ' ' lines; Add, Delete, Move File (patch)."
    ] = "",
) -> str:
    """Change parts of files. Gives the diff. Small differences in blanks and quotes are overlooked."""

    if mode == "patch":
        if not patch.strip():
            raise ToolError("Give the patch in `patch`.")
        return await asyncio.to_thread(apply_patch, ctx, patch)
    if not path:
        raise ToolError("Give the file in `path`, or set mode to 'patch'.")
    return await asyncio.to_thread(replace_in_file, ctx, path, (old_string, new_string), everywhere=replace_all)


_MAX_DIFF = 4_000


_MAX_DIFF_LINES = 3_000


_CONTEXT_LINES = 2
"""The lines of a diff above and below what has changed."""


class FileEdit(Struct, frozen=True):
    """A file before and after; None where it does not exist."""

    path: str
    before: TextFile | None
    after: TextFile | None
    note: str = ""


def replace_in_file(ctx: ToolContext, path: str, texts: tuple[str, str], *, everywhere: bool) -> str:
    """Replace the first text by the second; return the diff. Raises `ToolError`."""
    return _apply_edits(ctx, plan_replacement(ctx, path, texts, everywhere=everywhere))


def plan_replacement(ctx: ToolContext, path: str, texts: tuple[str, str], *, everywhere: bool) -> list[FileEdit]:
    """Return what replacing the first text by the second does. Raises `ToolError`."""
    before = files.load_text_file(ctx.resolve_path(path), path, ctx)
    old, new = (ctx.restore_secrets(_take_line_ends(text, before), before.text) for text in texts)
    text, note = edits.replace_text(before.text, old, new, everywhere=everywhere, display_path=path)
    return [FileEdit(path, before, msgspec.structs.replace(before, text=text), note)]


def _take_line_ends(text: str, file: TextFile) -> str:
    """Return a text of the model's with the line ends that the file's text has, and without its byte order mark."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff" if file.bom else "")
    return text.replace("\r", "\n") if file.newline == "\r" else text


def apply_patch(ctx: ToolContext, text: str) -> str:
    """Apply a V4A patch; return the diffs. Raises `ToolError`; every file is then as it was."""
    return _apply_edits(ctx, plan_patch(ctx, text))


def plan_patch(ctx: ToolContext, text: str) -> list[FileEdit]:
    """Return what a V4A patch does. Raises `ToolError`."""
    now: dict[str, TextFile | None] = {}
    changes: list[FileEdit] = []
    for section in parse_patch(text):
        changes += _plan_edits(ctx, section, now)
    return changes


def _plan_edits(ctx: ToolContext, section: PatchSection, pending: dict[str, TextFile | None]) -> list[FileEdit]:
    """Return what a section does, given what the sections before it did (`pending`, by real path)."""
    path = section.path
    real = _resolve_path(ctx, path)
    if section.action is PatchAction.ADD:
        _require_free_path(real, path, pending)
        pending[real] = TextFile(text=ctx.restore_secrets(section.content, ""))
        return [FileEdit(path, None, pending[real])]
    before = pending[real] if real in pending else files.load_text_file(ctx.resolve_path(path), path, ctx)
    if before is None:
        raise ToolError(f"{path} is deleted earlier in the patch. Nothing was changed.")
    if section.action is PatchAction.DELETE:
        pending[real] = None
        return [FileEdit(path, before, None)]
    text, note = edits.apply_hunks(before.text, [_restore_hunk(ctx, hunk, before.text) for hunk in section.hunks], path)
    after = msgspec.structs.replace(before, text=text)
    if not section.target:
        pending[real] = after
        return [FileEdit(path, before, after, note)]
    moved = _resolve_path(ctx, section.target)
    _require_free_path(moved, section.target, pending)
    pending[real], pending[moved] = None, after
    return [FileEdit(section.target, None, after, note), FileEdit(path, before, None)]


def _resolve_path(ctx: ToolContext, path: str) -> str:
    real = ctx.resolve_real_path(path)
    if real is None:
        raise ToolError(f"Where {path} leads cannot be told. Nothing was changed.")
    return real


def _restore_hunk(ctx: ToolContext, hunk: Hunk, original: str) -> Hunk:
    """Return the hunk with each placeholder replaced by what is in the file."""
    old, new, below = (
        tuple(ctx.restore_secrets(line, original) for line in lines) for lines in (hunk.old, hunk.new, hunk.below)
    )
    return msgspec.structs.replace(hunk, old=old, new=new, below=below)


def _require_free_path(real: str, display_path: str, pending: dict[str, TextFile | None]) -> None:
    exists = pending[real] is not None if real in pending else os.path.lexists(real)
    if exists:
        raise ToolError(f"{display_path} exists already; use '*** Update File' to change it. Nothing was changed.")


def _apply_edits(ctx: ToolContext, changes: list[FileEdit]) -> str:
    places: list[str] = []
    try:
        for change in changes:
            places.append(_write_content(ctx, change.path, change.after))  # noqa: PERF401 - how many were is needed
    except ToolError as error:
        for change in reversed(changes[: len(places)]):
            _write_content(ctx, change.path, change.before)
        raise ToolError(f"{error} Every file is as it was.") from None
    notes = (files.describe_session_folder(ctx, real) for real in places)
    return "\n".join(map(_describe_edit, changes, notes))


def _write_content(ctx: ToolContext, path: str, content: TextFile | None) -> str:
    """Write or delete a file; return its real path, empty where it is gone."""
    target = ctx.resolve_path(path)
    if content is not None:
        return files.save_file(target, path, files.encode_text_file(content), ctx)
    files.delete_file(target, path, ctx)
    return ""


def _describe_edit(change: FileEdit, place: str) -> str:
    if change.after is None:
        return f"Deleted {change.path}."
    from hermes.tools.edits import describe_syntax_error

    notes = " ".join(
        part for part in (place, change.note, describe_syntax_error(change.path, change.after.text)) if part
    )
    if change.before is None:
        return f"Created {change.path}, {change.after.text.count(chr(10))} lines. {notes}".rstrip()
    return "\n".join(
        part
        for part in (f"Changed {change.path}. {notes}".rstrip(), _build_diff(change.before.text, change.after.text))
        if part
    )


def _build_diff(before: str, after: str) -> str:
    """Return a short unified diff. Lines that both begin and end with are set aside
    first, since comparing is costly.
    """
    old, new = (text if text.endswith("\n") else f"{text}\n" for text in (before, after))
    start = old.rfind("\n", 0, _count_shared_start(old, new)) + 1
    # Of what both end with behind that, the lines are whole that a newline comes before.
    rest = f"\n{old[start:]}"
    tail = rest[len(rest) - _count_shared_end(rest, f"\n{new[start:]}") :].partition("\n")[2]
    removed, added = (text.count("\n", start, len(text) - len(tail)) for text in (old, new))
    if removed + added > _MAX_DIFF_LINES:
        return f"{removed} lines from line {old.count(chr(10), 0, start) + 1} on became {added}."
    for _ in range(_CONTEXT_LINES):
        start = old.rfind("\n", 0, max(0, start - 1)) + 1
    context = "".join(line + "\n" for line in tail.split("\n", _CONTEXT_LINES)[: min(_CONTEXT_LINES, tail.count("\n"))])
    gone, come = ((text[start : len(text) - len(tail)] + context).split("\n")[:-1] for text in (old, new))
    parts = difflib.unified_diff(gone, come, n=_CONTEXT_LINES, lineterm="")
    above = old.count("\n", 0, start)
    shown = [_shift_header(line, above) for line in itertools.islice(parts, 2, None)]  # two lines name the files
    text = clean_surrogates("\n".join(line.rstrip("\r") for line in shown))
    return text if len(text) <= _MAX_DIFF else f"{text[:_MAX_DIFF]}\n[diff cut]"


def _count_shared_start(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike; parts are compared as a whole, of half the size each."""
    low, high = 0, min(len(one), len(other)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle)
    return low


def _count_shared_end(one: str, other: str) -> int:
    """Return how many characters two texts end with alike."""
    low, high = 0, min(len(one), len(other)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        alike = one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        low, high = (middle, high) if alike else (low, middle)
    return low


def _shift_header(line: str, by: int) -> str:
    """Return a hunk's header with the line numbers of the whole file."""
    if not line.startswith("@@ "):
        return line
    old, new = (part[1:].split(",") for part in line.split(" ")[1:3])
    return f"@@ -{int(old[0]) + by},{[*old, '1'][1]} +{int(new[0]) + by},{[*new, '1'][1]} @@"
