"""Reads patches in the V4A format: which files they name, and what they change there.

Models wrap a patch in a code fence or in a shell's heredoc, and put blanks before its markers; all that is read, too.
"""

import difflib
import itertools
import re
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from hermes.core.errors import ToolError


class PatchAction(StrEnum):
    """The action of a patch's section on its file."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


class Hunk(Struct, frozen=True):
    """Lines to find and lines to put in their place. `below` are lines under which to look, outermost first; `kept`
    are the lines of `old` and `new` that stay, as pairs of their indices.
    """

    old: tuple[str, ...]
    new: tuple[str, ...]
    below: tuple[str, ...] = ()
    at_end: bool = False
    kept: tuple[tuple[int, int], ...] = ()


class PatchSection(Struct, frozen=True):
    """The part of a patch about one file. `target` is its new name when it is moved."""

    action: PatchAction
    path: str
    hunks: tuple[Hunk, ...] = ()
    content: str = ""
    target: str = ""


_MAX_COMPARED = 500
"""The most lines that are compared for a question; so many fit into none."""
_HEADER = re.compile(r"^\*\*\* (Add|Update|Delete|Move) File: *(.+?)\s*$")
_NUMBERED = re.compile(r"^@@ -\d+(,\d+)? \+\d+(,\d+)? @@")
_MOVE_TO = re.compile(r"^\*\*\* Move to: *(.+?)\s*$")
_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_MARKER = re.compile(
    rf"\s+(?=(?:{re.escape(_BEGIN)}|{re.escape(_END)}|\*\*\* (?:Add|Update|Delete|Move) File: )|"
    rf"{re.escape(_END_OF_FILE)}|\*\*\* Move to: )"
)
"""The blanks before a marker."""
_FENCE = re.compile(r"\s*(?:```|~~~)[\w-]*\s*$")
_HEREDOC = re.compile(r"[^*\n]*<<-?\s*(['\"]?)(\w+)\1['\"]?\s*$")


def _read_lines(patch: str) -> list[str]:
    """Return the lines of a patch, without what is wrapped around it and without blanks before its markers. Lines that
    are left out are empty, so that the others keep their numbers.
    """
    lines = patch.replace("\r\n", "\n").split("\n")
    _blank_wrapping(lines)
    is_loose = _dedent_patch(lines)
    _strip_markers(lines, is_loose=is_loose)
    last = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip()), 0)
    lines[last] = _END if lines[last].strip() == _END else lines[last]
    return lines


def _dedent_patch(lines: list[str]) -> bool:
    """Take the blanks away that all lines have before them. Return whether the first markers still have some: else one
    behind a blank could be an unchanged line of a file.
    """
    filled = [at for at, line in enumerate(lines) if line.strip()]
    markers = [lines[at] for at in filled if lines[at].lstrip().startswith("*** ")]
    indent = markers[0][: len(markers[0]) - len(markers[0].lstrip())] if markers else ""
    if not indent:
        return len(markers) > 1 and markers[0].startswith(_BEGIN) and markers[1][:1].isspace()
    if not all(lines[at].startswith(indent) for at in filled):
        return True
    lines[:] = [line.removeprefix(indent) for line in lines]
    return False


def _strip_markers(lines: list[str], *, is_loose: bool) -> None:
    """Take the blanks before markers away; in the hunks of a file only where that is the patch's way."""
    in_hunks = False
    for at, line in enumerate(lines):
        marker = _MARKER.match(line)
        if marker and (is_loose or not in_hunks):
            lines[at] = line[marker.end() :]
        header = _HEADER.match(lines[at])
        in_hunks = header[1] == "Update" if header else in_hunks and not lines[at].startswith(_END)


def _blank_wrapping(lines: list[str]) -> None:
    """Empty the lines of code fences and heredocs around a patch."""
    for _ in range(2):
        filled = [at for at, line in enumerate(lines) if line.strip()]
        if len(filled) < 2:
            return
        first, last = filled[0], filled[-1]
        heredoc = _HEREDOC.match(lines[first])
        if heredoc is None and not _FENCE.match(lines[first]):
            return
        closing = lines[last].strip().rstrip("'\")")
        is_closed = closing == heredoc[2] if heredoc else bool(_FENCE.match(lines[last]))
        lines[first] = ""
        lines[last] = "" if is_closed else lines[last]


def parse_patch(patch: str) -> list[PatchSection]:
    """Return the sections of a V4A patch.

    Raises `ToolError` that names the line that cannot be understood.
    """
    lines = _read_lines(patch)
    sections: list[PatchSection] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.startswith((_BEGIN, _END, "```")):
            continue
        header = _HEADER.match(line)
        if header is None:
            raise ToolError(
                f"Line {at} of the patch is outside of any file: {line[:80]!r}. "
                "Begin with '*** Update File: path', '*** Add File: path' or '*** Delete File: path'."
            )
        end = at
        while end < len(lines) and not _HEADER.match(lines[end]) and not lines[end].startswith((_BEGIN, _END)):
            end += 1
        sections.append(_parse_section(header[1], header[2], lines[at:end], at))
        at = end
    if not sections:
        raise ToolError("The patch names no file. Begin with '*** Update File: path'.")
    return sections


def find_patch_paths(patch: str) -> list[tuple[str, PatchAction]]:
    """Return every path that a patch names, and for what; whether or not the rest of it can be understood."""
    named: list[tuple[str, PatchAction]] = []
    for line in _read_lines(patch):
        header = _HEADER.match(line)
        move = _MOVE_TO.match(line)
        if header:
            action = PatchAction.UPDATE if header[1] == "Move" else PatchAction(header[1].lower())
            parts = header[2].split(" -> ") if header[1] == "Move" else [header[2]]
            named += [(part.strip(), action) for part in parts]
        elif move:
            named.append((move[1], PatchAction.UPDATE))
    return named


def find_patch_texts(patch: str) -> dict[str, str | None]:
    """Return what a patch takes out of each file and puts into it; None for one that is moved, whose text does not
    stand in the patch. Of a patch that cannot be understood nothing is returned.
    """
    try:
        sections = parse_patch(patch)
    except ToolError:
        return {}
    found: dict[str, list[str]] = {}
    for section in (one for one in sections if one.action is not PatchAction.DELETE):
        texts = [section.content.removesuffix("\n")] if section.action is PatchAction.ADD else []
        changes = (format_change(hunk.old, hunk.new) for hunk in section.hunks)
        found.setdefault(section.path, []).extend((*texts, *changes))
    moved = dict.fromkeys(path for one in sections if one.target for path in (one.path, one.target))
    return {path: "\n".join(texts) for path, texts in found.items()} | moved


def format_change(old: Sequence[str], new: Sequence[str]) -> str:
    """Return the lines that differ in two texts, with a sign before each; of very long texts all of the second."""
    before = old if len(old) + len(new) < _MAX_COMPARED else ()
    lines = difflib.unified_diff(before, new, n=0, lineterm="")
    return "\n".join(line for line in itertools.islice(lines, 2, None) if not line.startswith("@@ "))


def _parse_section(verb: str, path: str, body: Sequence[str], first: int) -> PatchSection:
    if verb == "Delete":
        return PatchSection(PatchAction.DELETE, path)
    if verb == "Move":
        source, arrow, target = path.partition(" -> ")
        if not arrow:
            raise ToolError(f"Line {first} of the patch: write '*** Move File: old -> new'.")
        return PatchSection(PatchAction.UPDATE, source.strip(), target=target.strip())
    if verb == "Add":
        return PatchSection(PatchAction.ADD, path, content=_parse_added_content(body, first))
    move = _MOVE_TO.match(body[0]) if body else None
    hunks = _parse_hunks(body[1:] if move else body, first + bool(move))
    if not hunks and not move:
        raise ToolError(f"The section for {path} changes nothing. Give lines that begin with '-' or '+'.")
    return PatchSection(PatchAction.UPDATE, path, hunks=tuple(hunks), target=move[1] if move else "")


def _parse_added_content(body: Sequence[str], first: int) -> str:
    """Return the text of an added file; a blank line in it may lack its `+`, and those behind its last line are none
    of it.
    """
    filled = body[: max((at for at, line in enumerate(body, 1) if line.strip()), default=0)]
    wrong = next((at for at, line in enumerate(filled) if line.strip() and not line.startswith("+")), None)
    if wrong is not None:
        raise ToolError(f"Line {first + wrong + 1} of the patch: each line of an added file begins with '+'.")
    return "".join(f"{line[1:]}\n" for line in filled)


class _HunkParser:
    """Collects the hunks of a section line by line."""

    def __init__(self) -> None:
        self.done: list[Hunk] = []
        self.below: list[str] = []
        self.old: list[str] = []
        self.new: list[str] = []
        self.kept: list[tuple[int, int]] = []

    def take_line(self, line: str) -> bool:
        """Take a line; return False when it cannot be one of a hunk."""
        mark, rest = line[:1], line[1:]
        if line.startswith("@@"):
            if self.old or self.new:
                self.close()
            name = "" if _NUMBERED.match(line) else line.strip("@ ").strip()
            self.below += [name] if name else []
        elif line.startswith(_END_OF_FILE):
            self.close(at_end=True)
        elif mark in ("", " ", "-", "+"):
            self.kept += [(len(self.old), len(self.new))] if mark in ("", " ") else []
            self.old += [rest] if mark != "+" else []
            self.new += [rest] if mark != "-" else []
        else:
            return False
        return True

    def close(self, *, at_end: bool = False) -> None:
        """End the hunk under way; one that changes nothing is left out."""
        if self.old != self.new:
            self.done.append(Hunk(tuple(self.old), tuple(self.new), tuple(self.below), at_end, tuple(self.kept)))
            self.below = []
        self.old, self.new, self.kept = [], [], []


def _parse_hunks(body: Sequence[str], first: int) -> list[Hunk]:
    hunks = _HunkParser()
    filled = max((at for at, line in enumerate(body, 1) if line.strip()), default=0)
    for number, line in enumerate(body[:filled], first + 1):
        if not hunks.take_line(line):
            raise ToolError(f"Line {number} of the patch must begin with ' ', '-', '+' or '@@': {line[:80]!r}.")
    hunks.close()
    return hunks.done
