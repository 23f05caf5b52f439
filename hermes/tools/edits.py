"""Edits of text: one replacement, and the hunks of a patch. Pure; files are read and written elsewhere.

A block of lines is found in a file although it was copied with small faults; what the edit does not change stays as the
file has it. A file that was just written is checked for whether the programs it is for can read it.
"""

import difflib
import warnings
from collections.abc import Callable, Sequence
from pathlib import PurePath

import msgspec
from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.tools.block_merge import count_shared, find_kept_lines, fold_all, fold_blanks, merge_lines
from hermes.tools.patch_text import Hunk

_HINT_LINES = 20_000
_MAX_LISTED = 10
_MAX_PLACES = 1_000
"""The most places of a text that are counted."""
_MAX_COMPARED = 5_000_000
"""The most lines that are compared for where a block is."""
_MAX_SEARCHED = 200_000_000
"""The most lines that are searched for the hunks of one patch: some seconds of work."""
_INEXACT_COST = 40
"""How many lines could be searched in the time in which one is that is compared with small differences."""

Fold = Callable[[str], str]

MATCH_LEVELS: tuple[tuple[str, Fold], ...] = (
    ("blanks at line ends", str.rstrip),
    ("indentation", str.strip),
    ("blanks and quotes", fold_blanks),
    ("blanks and quotes", fold_all),
)
"""The differences that are ignored when nothing is there exactly, from few to most; the first level with a match
counts. Whatever the last one finds besides looks so much alike that it may be meant, too.
"""


class BlockMatch(Struct, frozen=True):
    """The places of a block: indices of first lines, and what differs there (empty when nothing). `lookalikes` are
    further places that differ more, but may be meant.
    """

    starts: tuple[int, ...]
    difference: str = ""
    lookalikes: tuple[int, ...] = ()


def find_block(lines: Sequence[str], block: Sequence[str], start: int = 0) -> BlockMatch:
    """Return every place of `block` in `lines` from `start` on, at the first level that has any."""
    if not block:
        return BlockMatch(())
    exact = _find_places(lines, [*block], start)
    if exact:
        return BlockMatch(exact)
    for differs, fold in MATCH_LEVELS:
        wanted = [*map(fold, block)]
        if not any(wanted):
            break
        places = _find_places([*map(fold, lines)], wanted, start)
        if places:
            alike = _find_places([*map(fold_all, lines)], [*map(fold_all, block)], start)
            return BlockMatch(places, differs, tuple(sorted(set(alike).difference(places))))
    return BlockMatch(())


def _find_places(have: Sequence[str], wanted: Sequence[str], start: int) -> tuple[int, ...]:
    places: list[int] = []
    at = start
    while (at := _find_next(have, wanted, at)) >= 0:
        places.append(at)
        at += 1
        if len(places) * len(wanted) > _MAX_COMPARED:
            raise ToolError("That text is in the file too many times. Give another part of it. Nothing was changed.")
    return tuple(places)


def _find_next(have: Sequence[str], wanted: Sequence[str], at: int) -> int:
    # The rarest thing to look for would be quicker still; the longest line is nearly that, and blank lines never are.
    key = max(range(len(wanted)), key=lambda index: len(wanted[index]))
    while True:
        try:
            hit = have.index(wanted[key], at + key)
        except ValueError:
            return -1
        if hit - key + len(wanted) > len(have):
            return -1
        if have[hit - key : hit - key + len(wanted)] == wanted:
            return hit - key
        at = hit - key + 1


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
    at = text.find(old)
    if at < 0:
        return _replace_lines(text, old, new, everywhere=everywhere, display_path=display_path)
    if everywhere:
        return text.replace(old, _fit_line_ends(new, text, at) if "\r\n" in text else new), ""
    changed = _replace_at(text, at, old, new)
    other = text.find(old, at + 1)
    if other >= at + len(old) or (other >= 0 and not _is_same_everywhere(text, old, new, changed)):
        raise ToolError(_format_ambiguity(_find_line_numbers(text, old), display_path))
    return changed, ""


def _replace_at(text: str, at: int, old: str, new: str) -> str:
    """Return the text with `new` in the place of `old`. Blanks behind a last line stay with the line that has them."""
    end = at + len(old)
    behind = text[end : text.find("\n", end) + 1 or len(text)].removesuffix("\n")
    if behind and behind.isspace() and new and text[at - 1 : at] in ("", "\n") and old.count("\n") != new.count("\n"):
        there = text[at : end + len(behind)].split("\n")
        mine, theirs = old.split("\n"), new.split("\n")
        put = merge_lines(there, mine, theirs, find_kept_lines(mine, theirs))
        return text[:at] + "\n".join(put) + text[end + len(behind) :]
    if "\n" in new and "\r\n" in text:  # the file has several kinds of line ends
        shared = count_shared(old, new)
        at, old, new = at + shared, old[shared:], new[shared:]
        new = _fit_line_ends(new, text, at)
    return text[:at] + new + text[at + len(old) :]


def _is_same_everywhere(text: str, old: str, new: str, changed: str) -> bool:
    """Return whether it makes no difference which of the places, which overlap, is replaced."""
    at = text.find(old)
    for _ in range(_MAX_LISTED):
        at = text.find(old, at + 1)
        if at < 0:
            return True
        if _replace_at(text, at, old, new) != changed:
            return False
    return False


def _fit_line_ends(new: str, text: str, at: int) -> str:
    """Return the text for a place, with the line ends that the place has, where a file has several kinds."""
    end = text.find("\n", at)
    end = end if end >= 0 else text.rfind("\n")
    return new.replace("\r\n", "\n").replace("\n", "\r\n") if text[end - 1 : end] == "\r" else new


def _replace_lines(text: str, old: str, new: str, *, everywhere: bool, display_path: str) -> tuple[str, str]:
    """Replace lines that the text has with small differences. Raises `ToolError`."""
    put = new.split("\n") if new else []
    if old.endswith("\n"):  # it ends the last line, and adds none
        old, put = old[:-1], put[:-1] if len(put) > 1 and not put[-1] else put
    gone = old.split("\n")
    lines = text.split("\n")
    found = find_block(lines, gone)
    if not found.starts:
        hint = describe_nearest(lines, gone)
        why = f"old_string is not in {display_path}. Nothing was changed. {hint}"
        raise ToolError(why.strip(), quotes=bool(hint))
    alike = sorted({*found.starts, *found.lookalikes})
    if len(alike) > 1 and not everywhere:
        raise ToolError(
            f"old_string is not in {display_path}, but differs little from {len(alike)} places "
            f"(lines {_list_numbers(alike)}). Nothing was changed. "
            "Give it exactly as the file has it, with more of the lines around it."
        )
    note = f"Matched without regard to {found.difference or 'the newline at the end'}."
    if found.lookalikes:
        note += f" Lines that differ more were left: {_list_numbers(found.lookalikes)}."
    kept = find_kept_lines(gone, put)
    result: list[str] = []
    done = 0
    for at in found.starts:
        if at < done:
            continue
        result += [*lines[done:at], *merge_lines(lines[at : at + len(gone)], gone, put, kept)]
        done = at + len(gone)
    return "\n".join([*result, *lines[done:]]), note


class _HunkError(Exception):
    """A hunk has no place."""

    def __init__(self, why: str, *, is_missing: bool = True) -> None:
        super().__init__(why)
        self.why = why
        self.is_missing = is_missing
        """Whether nothing was found, so that it may be found elsewhere."""


class _PatchedLines:
    """The lines of a file while its hunks are applied, and which of them earlier hunks wrote."""

    def __init__(self, text: str, display_path: str) -> None:
        self.lines = text.split("\n")
        self.notes: dict[str, None] = {}
        self._path = display_path
        self._is_written = [False] * len(self.lines)
        self._cursor = 0
        self._searched = 0

    def apply_hunk(self, hunk: Hunk, number: int) -> None:
        """Apply a hunk below the one before, or above where it can only be there. Raises `ToolError`."""
        found = self._search_hunk(hunk, number)
        if found.starts[0] < self._cursor and hunk.old:
            self._require_untouched(hunk, number, found.starts[0])
            self.notes[f"Hunk {number} lies above the one before it."] = None
        if found.difference:
            self.notes[f"Matched without regard to {found.difference}."] = None
        at = found.starts[0]
        there = self.lines[at : at + len(hunk.old)]
        put = [*hunk.new]
        if found.difference:
            put = merge_lines(there, hunk.old, hunk.new, hunk.kept)
        elif not there and self.lines[max(0, at - 1)].endswith("\r"):
            put = [f"{line}\r" for line in put]
        kept = {now for _, now in hunk.kept}
        self.lines[at : at + len(there)] = put
        self._is_written[at : at + len(there)] = [place not in kept for place in range(len(put))]
        self._cursor = at + len(put)

    def _search_hunk(self, hunk: Hunk, number: int) -> BlockMatch:
        """Return the place of a hunk: below the one before, else below its context lines wherever they are."""
        failure = _HunkError("")
        for cursor, least in ((self._cursor, 0), (0, self._cursor), (0, 0)):
            try:
                return self._locate_hunk(hunk, max(self._skip_context(hunk, cursor), least), number)
            except _HunkError as error:
                failure = error
                if not failure.is_missing:
                    break
        hint = describe_nearest(self.lines, hunk.old) if failure.is_missing else ""
        why = f"Hunk {number} of {self._path} {failure.why}. Nothing was changed. {hint}"
        raise ToolError(why.strip(), quotes=bool(hint))

    def _count_search(self, lines: int, number: int) -> None:
        """Count lines that are searched. Raises `ToolError` when they are too many for one patch."""
        self._searched += lines
        if self._searched > _MAX_SEARCHED:
            why = f"The patch has too many hunks for {self._path}, which is long. Nothing was changed. "
            raise ToolError(f"{why}Send it in parts, the first up to hunk {max(1, number // 2)}.")

    def _locate_hunk(self, hunk: Hunk, cursor: int, number: int) -> BlockMatch:
        """Return the one place of a hunk from a line on. Raises `_HunkError`."""
        self._count_search(len(self.lines), number)
        if not hunk.old:
            end = len(self.lines) - (self.lines[-1] == "")
            return BlockMatch((cursor if hunk.below else end,))
        found = self._find_hunk(hunk, cursor)
        if found.difference or not found.starts:
            self._count_search(_INEXACT_COST * len(self.lines), number)
        if not found.starts:
            raise _HunkError("has no place in the file")
        alike = sorted({*found.starts, *found.lookalikes})
        is_settled = hunk.below and (not found.difference or alike[0] == found.starts[0])
        if len(alike) > 1 and not is_settled:
            raise _HunkError(
                f"fits {f'without regard to {found.difference} ' if found.difference else ''}{len(alike)} times "
                f"(lines {_list_numbers(alike)}). Give more of the lines around it exactly as they are, or begin it "
                "with '@@ ' and a line above the place",
                is_missing=False,
            )
        return BlockMatch(found.starts[:1], found.difference)

    def _find_hunk(self, hunk: Hunk, cursor: int) -> BlockMatch:
        """Return every place of a hunk from a line on."""
        found = self._find_at_end(hunk, cursor) if hunk.at_end else find_block(self.lines, hunk.old, cursor)
        if found.starts or not hunk.below:
            return found
        # The line under '@@' may itself be part of the hunk.
        return find_block(self.lines, hunk.old, max(0, cursor - 1))

    def _find_at_end(self, hunk: Hunk, cursor: int) -> BlockMatch:
        """Return the place of a hunk at the end of the file where it fits there in any way, else every place."""
        end = len(self.lines)
        while end and not self.lines[end - 1].strip():
            end -= 1
        filled = len(hunk.old)
        while filled and not hunk.old[filled - 1].strip():
            filled -= 1
        start = end - filled
        found = find_block(self.lines[start : start + len(hunk.old)], hunk.old) if start >= cursor else BlockMatch(())
        return BlockMatch((start,), found.difference) if found.starts else find_block(self.lines, hunk.old, cursor)

    def _skip_context(self, hunk: Hunk, cursor: int) -> int:
        """Return the index after the last of the hunk's context lines, each searched below the one before."""
        for name in hunk.below:
            at = _find_line(self.lines, name, cursor)
            if at < 0:
                raise _HunkError(f"is to be below the line '@@ {name}', which is not in the file")
            cursor = at + 1
        return cursor

    def _require_untouched(self, hunk: Hunk, number: int, at: int) -> None:
        if any(self._is_written[at : at + len(hunk.old)]):
            raise ToolError(
                f"Hunk {number} of {self._path} changes lines that an earlier hunk wrote. Nothing was changed. "
                "Put both changes into one hunk."
            )


def apply_hunks(text: str, hunks: Sequence[Hunk], display_path: str) -> tuple[str, str]:
    """Return the text with all hunks applied, and a note.

    Raises `ToolError` that names the hunk that has no place.
    """
    patched = _PatchedLines(text, display_path)
    for number, hunk in enumerate(hunks, 1):
        patched.apply_hunk(hunk, number)
    return "\n".join(patched.lines), " ".join(patched.notes)


def _find_line_numbers(text: str, part: str) -> list[int]:
    numbers: list[int] = []
    line = 1
    done = 0
    at = text.find(part)
    while at >= 0 and len(numbers) < _MAX_PLACES:
        line += text.count("\n", done, at)
        numbers.append(line)
        done = at
        at = text.find(part, at + 1)
    return numbers


def _find_line(lines: Sequence[str], name: str, start: int) -> int:
    """Return where the line that a hunk is below is: it, one that holds it, or one that does but for small
    differences; -1 where none is.
    """
    found = next((at for at in range(start, len(lines)) if lines[at].strip() == name), -1)
    if found < 0:
        found = next((at for at in range(start, len(lines)) if name in lines[at]), -1)
    if found < 0 and (folded := fold_all(name)):
        found = next((at for at in range(start, len(lines)) if folded in fold_all(lines[at])), -1)
    return found


def _list_numbers(places: Sequence[int]) -> str:
    """Return the numbers of lines, given by their indices."""
    listed = ", ".join(str(at + 1) for at in places[:_MAX_LISTED])
    return f"{listed} ..." if len(places) > _MAX_LISTED else listed


def _format_ambiguity(numbers: Sequence[int], display_path: str) -> str:
    count = f"at least {len(numbers)}" if len(numbers) == _MAX_PLACES else str(len(numbers))
    return (
        f"That text is in {display_path} {count} times (lines {_list_numbers([one - 1 for one in numbers])}). "
        "Nothing was changed. Give more of the lines around it, or set replace_all."
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
