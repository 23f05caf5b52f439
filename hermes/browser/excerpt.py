"""Which lines of a page are told: never more than a limit, first what a person has in view, and only what is new."""

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.browser.outline import Line, LineKind, NodeId

MAX_CHARACTERS = 5_400
"""The characters of the lines of one result, besides its head and notes."""
_SOFT_CHARACTERS = 3_000
"""The characters up to which what is out of view is told, too."""
_MAX_HEADINGS = 1_000
_NOTE_RESERVE = 300
"""The characters kept free for the note at the end."""
_MAX_GONE = 30
_MAX_DEPTH = 8


class Excerpt(Struct):
    """Some lines of a page as text, and which they are."""

    text: str
    shown: set[NodeId]


def render_lines(lines: Iterable[Line]) -> str:
    """Return lines as text, indented."""
    return "\n".join(_render_line(line) for line in lines)


def _render_line(line: Line) -> str:
    return " " * min(line.depth, _MAX_DEPTH) + line.text


def choose_lines(lines: Sequence[Line], *, limit: int = MAX_CHARACTERS) -> Excerpt:
    """Return the lines that fit: dialogs and what is in view, then headings, then the rest in its order, as far as
    that is little.
    """
    sizes = [_measure(line) for line in lines]
    if sum(sizes) <= min(_SOFT_CHARACTERS, limit):
        return Excerpt(render_lines(lines), {line.node for line in lines})
    choice = _Choice(sizes, limit - _NOTE_RESERVE)
    choice.add_all((n for n, line in enumerate(lines) if line.kind is LineKind.MODAL), choice.room)
    choice.add_all((n for n, line in enumerate(lines) if line.is_in_view), choice.room)
    choice.add_all((n for n, line in enumerate(lines) if line.kind is LineKind.HEADING), _MAX_HEADINGS)
    choice.add_all(_after_view(lines), _SOFT_CHARACTERS - choice.used)
    return _render_chosen(lines, choice.chosen, limit)


class _Choice:
    """The lines that were chosen, by their numbers, and the room that is left for more."""

    def __init__(self, sizes: Sequence[int], room: int) -> None:
        self._sizes = sizes
        self.room = room
        self.used = 0
        self.chosen: set[int] = set()

    def add_all(self, numbers: Iterable[int], most: int) -> None:
        """Choose these, as many as fit into the room and into so many characters."""
        left = min(most, self.room)
        for number in numbers:
            size = self._sizes[number]
            if number not in self.chosen and size <= left:
                self.chosen.add(number)
                left -= size
                self.room -= size
                self.used += size


def _measure(line: Line) -> int:
    return len(line.text) + min(line.depth, _MAX_DEPTH) + 1


def _after_view(lines: Sequence[Line]) -> Iterable[int]:
    """Yield the lines after the last that is in view, then those before."""
    last = max((n for n, line in enumerate(lines) if line.is_in_view), default=-1)
    yield from range(last + 1, len(lines))
    yield from range(last + 1)


def _render_chosen(lines: Sequence[Line], chosen: set[int], limit: int) -> Excerpt:
    """Return chosen lines, with what was left out by counts where it was, and how to get it at the end."""
    parts: list[str] = []
    skipped: list[Line] = []
    room = limit - _NOTE_RESERVE - sum(_measure(lines[number]) for number in chosen)
    for number, line in enumerate(lines):
        if number not in chosen:
            skipped.append(line)
            continue
        if skipped:
            gap = f"… {_count(skipped)}"
            if len(gap) < room:
                parts.append(gap)
                room -= len(gap) + 1
            skipped = []
        parts.append(_render_line(line))
    left_out = [line for number, line in enumerate(lines) if number not in chosen]
    if left_out:
        how = 'browser_scroll, browser_snapshot(find="words") or browser_snapshot(full=true)'
        parts.append(f"… {_count(left_out)} left out in all: {how}")
    return Excerpt("\n".join(parts), {lines[number].node for number in chosen})


def _count(lines: Sequence[Line]) -> str:
    actions = sum(line.actions for line in lines)
    said = f"{len(lines)} line{'s' if len(lines) != 1 else ''}"
    return f"{said} with {actions} refs" if actions else said


def find_lines(lines: Sequence[Line], words: str, *, limit: int = MAX_CHARACTERS) -> Excerpt:
    """Return the lines that hold a phrase, or else all of its words, whatever their case, with the heads of the parts
    they are in.
    """
    phrase = " ".join(words.casefold().split())
    is_whole = any(phrase in line.text.casefold() for line in lines)
    wanted = [phrase] if is_whole else phrase.split()
    heads: list[Line] = []
    chosen: dict[NodeId, Line] = {}
    hits = missed = 0
    left = limit - 200
    for number, line in enumerate(lines):
        _leave_parts(heads, line)
        text = line.text.casefold()
        if all(word in text for word in wanted):
            hits += 1
            group = {one.node: one for one in (*heads, line, *_list_below(lines, number)) if one.node not in chosen}
            size = sum(map(_measure, group.values()))
            if size <= left:
                left -= size
                chosen |= group
            else:
                missed += 1
        if line.kind in _HEADS:
            heads.append(line)
    if not hits:
        return Excerpt(f"No line has {words[:100]!r}; {_count(lines)} on the page.", set())
    note = f"\n… {missed} of {hits} lines that match do not fit: use more words" if missed else ""
    return Excerpt(render_lines(chosen.values()) + note, {*chosen})


_MAX_BELOW = 6
"""The lines of a part that are told with its head, where that has the words."""
_HEADS = (LineKind.CONTAINER, LineKind.MODAL, LineKind.HEADING)


def _leave_parts(heads: list[Line], line: Line) -> None:
    """Take away the heads of parts that a line is no longer in; a heading ends what stands under the one before."""
    is_heading = line.kind is LineKind.HEADING
    heads[:] = [
        one
        for one in heads
        if (not is_heading and one.depth <= line.depth if one.kind is LineKind.HEADING else one.depth < line.depth)
    ]


def _list_below(lines: Sequence[Line], number: int) -> Sequence[Line]:
    """Return the first lines of the part that a line is the head of; none for another line."""
    head = lines[number]
    if head.kind not in _HEADS:
        return ()
    end = number + 1
    while end < len(lines) and end - number <= _MAX_BELOW:
        line = lines[end]
        is_out = line.depth < head.depth or (line.depth == head.depth and head.kind is not LineKind.HEADING)
        if is_out or (head.kind is LineKind.HEADING and line.kind is LineKind.HEADING):
            break
        end += 1
    return lines[number + 1 : end]


def page_through(lines: Sequence[Line], page: int, *, limit: int = MAX_CHARACTERS) -> Excerpt:
    """Return one page of all lines, from 1."""
    pages: list[list[Line]] = [[]]
    left = limit - 100
    for line in lines:
        size = len(_render_line(line)) + 1
        if size > left and pages[-1]:
            pages.append([])
            left = limit - 100
        left -= size
        pages[-1].append(line)
    number = max(1, min(page, len(pages)))
    chosen = pages[number - 1]
    note = ""
    if len(pages) > 1:
        more = f": browser_snapshot(full=true, page={number + 1})" if number < len(pages) else ""
        note = f"\n[page {number} of {len(pages)}{more}]"
    return Excerpt(render_lines(chosen)[: limit - len(note)] + note, {line.node for line in chosen})


class Seen(Struct):
    """What was told of a tab's page: the document, all of its lines at that time, and which of them were shown."""

    document_id: str
    texts: dict[NodeId, str]
    shown: set[NodeId]


def describe_changes(
    lines: Sequence[Line], seen: Seen, *, scrolled: bool, limit: int = MAX_CHARACTERS
) -> Excerpt | None:
    """Return what is other than it was: new and changed lines, and what is gone; with `scrolled` also what has come
    into view and was not shown before. None where so much has changed that all of the page is to be shown.
    """
    now = {line.node for line in lines}
    gone = [node for node in seen.texts if node not in now]
    told = [line for line in lines if seen.texts.get(line.node) != line.text or (scrolled and _has_come(line, seen))]
    if not scrolled and _is_mostly_new(lines, told, limit):
        return None
    chosen = choose_lines([_mark_line(line, seen.texts) for line in told], limit=limit - 400)
    notes = _describe_gone(gone, seen, lines)
    return Excerpt("\n".join(filter(None, (chosen.text, notes))), chosen.shown)


_MOST_CHANGED = 0.9
"""The part of a page that may have changed before all of it is shown."""


def _is_mostly_new(lines: Sequence[Line], changed: Sequence[Line], limit: int) -> bool:
    size = sum(map(_measure, changed))
    return size > limit or (size > _MOST_CHANGED * sum(map(_measure, lines)) and len(lines) > 5)


def _has_come(line: Line, seen: Seen) -> bool:
    """Return whether a line is in view that was never shown."""
    return line.is_in_view and line.node not in seen.shown


def _mark_line(line: Line, texts: Mapping[NodeId, str]) -> Line:
    before = texts.get(line.node)
    mark = "" if before == line.text else "+ " if before is None else "~ "
    return Line(line.node, 0, mark + line.text, line.kind, line.is_in_view, line.actions)


def _describe_gone(gone: Sequence[NodeId], seen: Seen, lines: Sequence[Line]) -> str:
    """Return the lines that were shown and are gone: a few as they were, more by their number."""
    still = {line.text for line in lines}
    texts = [seen.texts[node] for node in gone if node in seen.shown and seen.texts[node] not in still]
    if len(texts) <= 3 and sum(map(len, texts)) < 200:
        return "\n".join(f"- {text}" for text in texts)
    refs = _join_runs(sorted({int(ref[1:]) for ref in _REF.findall("\n".join(texts))}))
    if not refs:
        return f"- {len(texts)} lines are gone"
    return f"- {len(texts)} lines are gone ({' '.join(refs[:_MAX_GONE])}{' …' if len(refs) > _MAX_GONE else ''})"


def _join_runs(numbers: Sequence[int]) -> list[str]:
    """Return refs by their numbers, those that follow each other as `e3-e7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ["-".join(f"e{number}" for number in run) for run in runs]


_REF = re.compile(r"(?:^|(?<=\s))e\d+(?=\s)", re.MULTILINE)
