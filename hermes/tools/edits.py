"""Edits of text: one replacement, and patches in the V4A format. Pure; files are read and written elsewhere.

A block of lines is found in a file although it was copied with small faults; a file that was just written is checked
for whether the programs it is for can read it.
"""

import difflib
import itertools
import re
import warnings
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import PurePath

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError

_QUOTES = str.maketrans({
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"',
    "…": "...", "–": "-", "—": "-", "‐": "-", "‑": "-", "−": "-", "\u00a0": " ", "\u2009": " ",
    "\u202f": " ", "\u3000": " ",
})  # fmt: skip


_BLANKS = re.compile(r"\s+")


_HINT_LINES = 20_000


def _fold_line(line: str) -> str:
    return _BLANKS.sub(" ", line.translate(_QUOTES)).strip()


MATCH_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", lambda line: line),
    ("blanks at line ends", str.rstrip),
    ("indentation", str.strip),
    ("blanks and quotes", _fold_line),
    ("blanks and quotes", lambda line: _BLANKS.sub("", _fold_line(line)).replace('"', "'")),
)
"""The differences that are ignored, from none to most; the first level with a match counts."""


class BlockMatch(Struct, frozen=True):
    """The places of a block: indices of first lines, and what differs there (empty when nothing)."""

    starts: tuple[int, ...]
    difference: str = ""


def find_block(lines: Sequence[str], block: Sequence[str], start: int = 0) -> BlockMatch:
    """Return every place of `block` in `lines` from `start` on, at the first level that has any.

    Places do not overlap.
    """
    if not block:
        return BlockMatch(())
    for differs, fold in MATCH_LEVELS:
        wanted = [fold(line) for line in block]
        if differs and not any(wanted):
            break
        have = [fold(line) for line in lines]
        places: list[int] = []
        at = start
        while (at := _find_next(have, wanted, at)) >= 0:
            places.append(at)
            at += len(wanted)
        if places:
            return BlockMatch(tuple(places), differs)
    return BlockMatch(())


def _find_next(have: Sequence[str], wanted: Sequence[str], at: int) -> int:
    # The rarest thing to look for would be quicker still; the longest line is nearly that, and blank lines never are.
    key = max(range(len(wanted)), key=lambda index: len(wanted[index]))
    while True:
        try:
            hit = have.index(wanted[key], at + key) if isinstance(have, list) else -1
        except ValueError:
            return -1
        if hit < 0 or hit - key + len(wanted) > len(have):
            return -1
        if have[hit - key : hit - key + len(wanted)] == list(wanted):
            return hit - key
        at = hit - key + 1


def reindent_block(block: Sequence[str], old: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return `block`, written with the indentation of `old`, moved to the one that the file really has."""
    pairs = [(_get_indent(mine), _get_indent(theirs)) for mine, theirs in zip(old, there, strict=False) if mine.strip()]
    if not pairs or pairs[0][0] == pairs[0][1]:
        return list(block)
    table = dict(reversed(pairs))
    mine, theirs = pairs[0]
    moved: list[str] = []
    for line in block:
        indent = _get_indent(line)
        if not line.strip():
            moved.append(line)
        elif indent in table:
            moved.append(table[indent] + line[len(indent) :])
        elif indent.startswith(mine):
            moved.append(theirs + line[len(mine) :])
        else:
            moved.append(theirs[: max(0, len(theirs) - len(mine) + len(indent))] + line[len(indent) :])
    return moved


def describe_nearest(lines: Sequence[str], block: Sequence[str]) -> str:
    """Return a hint at the place that looks most like `block`; empty when nothing does."""
    first = next((line.strip() for line in block if line.strip()), "")
    if not first or len(lines) > _HINT_LINES:
        return ""
    stripped = [line.strip()[:300] for line in lines]
    close = difflib.get_close_matches(first[:300], set(stripped), n=1, cutoff=0.6)
    if not close:
        return ""
    at = stripped.index(close[0])
    shown = "\n".join(
        f"{number}|{line[:200]}" for number, line in enumerate(lines[at : at + min(len(block), 6)], at + 1)
    )
    return f"The most similar place is:\n{shown}"


def _get_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


class PatchAction(StrEnum):
    """The action of a patch's section on its file."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


class Hunk(Struct, frozen=True):
    """Lines to find and lines to put in their place. `below` are lines under which to look, outermost first."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    below: tuple[str, ...] = ()
    at_end: bool = False


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


def replace_text(text: str, old: str, new: str, *, everywhere: bool, display_path: str) -> tuple[str, str]:
    """Return the new text and a note on what had to be ignored to find the place.

    Raises `ToolError` unless there is one place.
    """
    if not old:
        raise ToolError(
            "old_string is empty. Give the text that is to be replaced; to write a whole file use write_file."
        )
    if old == new:
        raise ToolError("old_string and new_string are the same; nothing to change.")
    count = text.count(old)
    if count == 1 or (count and everywhere):
        return text.replace(old, new), ""
    lines, block = text.split("\n"), _split_block(old)
    if count:
        raise ToolError(_format_ambiguity(_find_line_numbers(text, old), display_path))
    found = find_block(lines, block)
    if not found.starts:
        hint = describe_nearest(lines, block)
        why = f"old_string is not in {display_path}. Nothing was changed. {hint}"
        raise ToolError(why.strip(), quotes=bool(hint))
    if len(found.starts) > 1 and not everywhere:
        raise ToolError(_format_ambiguity([at + 1 for at in found.starts], display_path))
    return "\n".join(
        _splice_lines(lines, block, _split_block(new) if new else [], found)
    ), f"Matched without regard to {found.difference}."


def parse_patch(patch: str) -> list[PatchSection]:
    """Return the sections of a V4A patch.

    Raises `ToolError` that names the line that cannot be understood.
    """
    lines = patch.replace("\r\n", "\n").split("\n")
    sections: list[PatchSection] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip() or line.startswith(("*** Begin Patch", "*** End Patch", "```")):
            continue
        header = _HEADER.match(line)
        if header is None:
            raise ToolError(
                f"Line {at} of the patch is outside of any file: {line[:80]!r}. "
                "Begin with '*** Update File: path', '*** Add File: path' or '*** Delete File: path'."
            )
        end = at
        while end < len(lines) and not _HEADER.match(lines[end]) and not lines[end].startswith("*** End Patch"):
            end += 1
        sections.append(_parse_section(header[1], header[2], lines[at:end], at))
        at = end
    if not sections:
        raise ToolError("The patch names no file. Begin with '*** Update File: path'.")
    return sections


def find_patch_paths(patch: str) -> list[tuple[str, PatchAction]]:
    """Return every path that a patch names, and for what; whether or not the rest of it can be understood."""
    named: list[tuple[str, PatchAction]] = []
    for line in patch.split("\n"):
        header = _HEADER.match(line.rstrip("\r"))
        move = _MOVE_TO.match(line.rstrip("\r"))
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


def apply_hunks(text: str, hunks: Sequence[Hunk], display_path: str) -> tuple[str, str]:
    """Return the text with all hunks applied in order, and a note.

    Raises `ToolError` that names the hunk that has no place.
    """
    lines = text.split("\n")
    cursor = 0
    notes: dict[str, None] = {}
    for number, hunk in enumerate(hunks, 1):
        cursor = _skip_context_lines(lines, hunk, cursor, f"hunk {number} of {display_path}")
        found = _locate_hunk(lines, hunk, cursor, f"Hunk {number}", display_path)
        if found.difference:
            notes[f"Matched without regard to {found.difference}."] = None
        lines = _splice_lines(lines, list(hunk.old), list(hunk.new), found)
        cursor = found.starts[0] + len(hunk.new)
    return "\n".join(lines), " ".join(notes)


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
    wrong = next((at for at, line in enumerate(body) if line and not line.startswith("+")), None)
    if wrong is not None:
        raise ToolError(f"Line {first + wrong + 1} of the patch: each line of an added file begins with '+'.")
    return "".join(f"{line[1:]}\n" for line in body if line)


class _HunkParser:
    """Collects the hunks of a section line by line."""

    def __init__(self) -> None:
        self.done: list[Hunk] = []
        self.below: list[str] = []
        self.old: list[str] = []
        self.new: list[str] = []

    def take_line(self, line: str) -> bool:
        """Take a line; return False when it cannot be one of a hunk."""
        mark, rest = line[:1], line[1:]
        if line.startswith("@@"):
            if self.old or self.new:
                self.close()
            name = "" if _NUMBERED.match(line) else line.strip("@ ").strip()
            self.below += [name] if name else []
        elif line.startswith("*** End of File"):
            self.close(at_end=True)
        elif mark in ("", " ", "-", "+"):
            self.old += [rest] if mark != "+" else []
            self.new += [rest] if mark != "-" else []
        else:
            return False
        return True

    def close(self, *, at_end: bool = False) -> None:
        """End the hunk under way; one that changes nothing is left out."""
        if self.old != self.new:
            self.done.append(Hunk(tuple(self.old), tuple(self.new), tuple(self.below), at_end))
            self.below = []
        self.old, self.new = [], []


def _parse_hunks(body: Sequence[str], first: int) -> list[Hunk]:
    hunks = _HunkParser()
    filled = max((at for at, line in enumerate(body, 1) if line.strip()), default=0)
    for number, line in enumerate(body[:filled], first + 1):
        if not hunks.take_line(line):
            raise ToolError(f"Line {number} of the patch must begin with ' ', '-', '+' or '@@': {line[:80]!r}.")
    hunks.close()
    return hunks.done


def _skip_context_lines(lines: Sequence[str], hunk: Hunk, cursor: int, what: str) -> int:
    """Return the index after the last of the hunk's context lines, each searched below the one before."""
    for name in hunk.below:
        at = next((at for at in range(cursor, len(lines)) if lines[at].strip() == name), None)
        if at is None:
            at = next((at for at in range(cursor, len(lines)) if name in lines[at]), None)
        if at is None:
            raise ToolError(
                f"The line '@@ {name}' of {what} is not in the file below line {cursor}. Nothing was changed."
            )
        cursor = at + 1
    return cursor


def _locate_hunk(lines: Sequence[str], hunk: Hunk, cursor: int, what: str, display_path: str) -> BlockMatch:
    if not hunk.old:
        end = len(lines) - (lines[-1] == "") if lines else 0
        return BlockMatch((cursor if hunk.below else end,))
    found = find_block(lines, hunk.old, cursor)
    if not found.starts and hunk.below:
        # The line under '@@' may itself be part of the hunk.
        found = find_block(lines, hunk.old, max(0, cursor - 1))
    if not found.starts:
        hint = describe_nearest(lines, hunk.old)
        why = f"{what} of {display_path} has no place in the file. Nothing was changed. {hint}"
        raise ToolError(why.strip(), quotes=bool(hint))
    if hunk.at_end:
        return BlockMatch(found.starts[-1:], found.difference)
    if len(found.starts) > 1 and not hunk.below:
        raise ToolError(_format_ambiguity([at + 1 for at in found.starts], display_path))
    return BlockMatch(found.starts[:1], found.difference)


def _splice_lines(lines: Sequence[str], old: Sequence[str], new: Sequence[str], found: BlockMatch) -> list[str]:
    result: list[str] = []
    done = 0
    for at in found.starts:
        there = lines[at : at + len(old)]
        result += lines[done:at]
        result += reindent_block(new, old, there) if found.difference else new
        done = at + len(old)
    return [*result, *lines[done:]]


def _split_block(text: str) -> list[str]:
    """Return the lines of a replacement; a newline at its end ends its last line and adds none."""
    return (text[:-1] if text.endswith("\n") and text != "\n" else text).split("\n")


def _find_line_numbers(text: str, part: str) -> list[int]:
    numbers: list[int] = []
    line = 1
    done = 0
    at = text.find(part)
    while at >= 0:
        line += text.count("\n", done, at)
        numbers.append(line)
        done = at
        at = text.find(part, at + len(part))
    return numbers


def _format_ambiguity(numbers: Sequence[int], display_path: str) -> str:
    listed = ", ".join(str(number) for number in numbers[:10])
    return (
        f"That text is in {display_path} {len(numbers)} times (lines {listed}). Nothing was changed. "
        "Give more of the lines around it, or set replace_all."
    )


_MAX_CHARACTERS = 1_000_000


def describe_syntax_error(path: str, text: str) -> str:
    """Return a line that names the first syntax error of Python, JSON, YAML or TOML; empty when there is none."""
    check = _CHECKS.get(PurePath(path).suffix.lower())
    if check is None or len(text) > _MAX_CHARACTERS:
        return ""
    found = check(text)
    return f"Syntax error now in {path}: {found}" if found else ""


def _check_python(text: str) -> str:
    import ast

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        return f"{line}{error.msg if isinstance(error, SyntaxError) else error}."
    return ""


def _check_json(text: str) -> str:
    import json

    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        try:  # for the position in lines, and for what only msgspec rejects
            json.loads(text)
        except (ValueError, RecursionError) as error:
            return f"{error}."
    return ""


def _check_yaml(text: str) -> str:
    import yaml

    try:
        for _ in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.YAMLError as error:
        return " ".join(str(error).split()) + "."
    return ""


def _check_toml(text: str) -> str:
    import tomllib

    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return f"{error}."
    return ""


_CHECKS: dict[str, Callable[[str], str]] = {
    ".py": _check_python,
    ".pyi": _check_python,
    ".json": _check_json,
    ".yaml": _check_yaml,
    ".yml": _check_yaml,
    ".toml": _check_toml,
}
