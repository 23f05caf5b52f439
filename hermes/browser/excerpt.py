"""Which lines of a page are told: never more than a limit, first what a person has in view, and only what is new."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from hermes.browser.outline import Line, LineKind, NodeId

MAX_CHARACTERS = 6_000
"""The characters of the lines of one result."""
_SOFT_CHARACTERS = 3_000
"""The characters up to which what is out of view is told, too."""
_MAX_HEADINGS = 1_000
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
    sizes = [len(line.text) + min(line.depth, _MAX_DEPTH) + 1 for line in lines]
    if sum(sizes) <= _SOFT_CHARACTERS:
        return Excerpt(render_lines(lines), {line.node for line in lines})
    chosen: set[int] = set()
    room = limit - 300

    def choose(numbers: Iterable[int], most: int) -> int:
        left = most
        for number in numbers:
            if number not in chosen and sizes[number] <= left:
                chosen.add(number)
                left -= sizes[number]
        return most - left

    room -= choose((n for n, line in enumerate(lines) if line.kind is LineKind.MODAL), room)
    room -= choose((n for n, line in enumerate(lines) if line.is_in_view), room)
    headings = (n for n, line in enumerate(lines) if line.kind is LineKind.HEADING)
    room -= choose(headings, min(room, _MAX_HEADINGS))
    used = limit - 300 - room
    if used < _SOFT_CHARACTERS:
        choose(_after_view(lines), _SOFT_CHARACTERS - used)
    return _render_chosen(lines, chosen)


def _after_view(lines: Sequence[Line]) -> Iterable[int]:
    """Yield the lines after the last that is in view, then those before."""
    last = max((n for n, line in enumerate(lines) if line.is_in_view), default=-1)
    yield from range(last + 1, len(lines))
    yield from range(last + 1)


def _render_chosen(lines: Sequence[Line], chosen: set[int]) -> Excerpt:
    """Return chosen lines, with what was left out by counts where it was, and how to get it at the end."""
    parts: list[str] = []
    skipped: list[Line] = []
    all_skipped: list[Line] = []
    for number, line in enumerate(lines):
        if number in chosen:
            if skipped:
                parts.append(f"… {_count(skipped)}")
                skipped = []
            parts.append(_render_line(line))
        else:
            skipped.append(line)
            all_skipped.append(line)
    if all_skipped:
        how = 'browser_scroll, browser_snapshot(find="words") or browser_snapshot(full=true)'
        parts.append(f"… {_count(skipped or all_skipped)}{'' if skipped else ' in all'} left out: {how}")
    return Excerpt("\n".join(parts), {lines[number].node for number in chosen})


def _count(lines: Sequence[Line]) -> str:
    actions = sum(line.actions for line in lines)
    said = f"{len(lines)} line{'s' if len(lines) != 1 else ''}"
    return f"{said} with {actions} refs" if actions else said


def find_lines(lines: Sequence[Line], words: str, *, limit: int = MAX_CHARACTERS) -> Excerpt:
    """Return the lines that hold all of the words, whatever their case, with the heads of the parts they are in."""
    wanted = words.casefold().split()
    heads: list[Line] = []
    chosen: list[Line] = []
    hits = 0
    left = limit - 200
    seen: set[int] = set()
    for line in lines:
        while heads and heads[-1].depth >= line.depth and not heads[-1].kind == LineKind.HEADING:
            heads.pop()
        if line.kind is LineKind.HEADING:
            heads = [one for one in heads if one.kind is not LineKind.HEADING]
        text = line.text.casefold()
        if all(word in text for word in wanted):
            hits += 1
            group = [one for one in (*heads, line) if id(one) not in seen]
            size = sum(len(_render_line(one)) + 1 for one in group)
            if size <= left:
                left -= size
                chosen += group
                seen.update(map(id, group))
        if line.kind in (LineKind.CONTAINER, LineKind.MODAL, LineKind.HEADING):
            heads.append(line)
    if not hits:
        return Excerpt(f"No line has {words[:100]!r}; {_count(lines)} on the page.", set())
    note = "" if hits <= len(chosen) else f"\n… {hits} lines match, as many as fit are shown: use more words"
    return Excerpt(render_lines(chosen) + note, {line.node for line in chosen})


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
    into view and was not shown before. None where so much has changed that the page is shown anew.
    """
    fresh = [line for line in lines if seen.texts.get(line.node) != line.text]
    if scrolled:
        new = {line.node for line in fresh}
        came = (line for line in lines if line.is_in_view and line.node not in seen.shown and line.node not in new)
        order = {line.node: number for number, line in enumerate(lines)}
        fresh = sorted([*fresh, *came], key=lambda line: order[line.node])
    now = {line.node for line in lines}
    gone = [node for node in seen.texts if node not in now]
    if not fresh and not gone:
        return Excerpt("", set())
    total = sum(len(line.text) + 1 for line in lines)
    size = sum(len(line.text) + 3 for line in fresh)
    if (size > 0.7 * total and len(lines) > 5 and not scrolled) or (size > limit and not scrolled):
        return None
    marked = [_mark_line(line, seen.texts) for line in fresh]
    chosen = choose_lines(marked, limit=limit - 200)
    notes = _describe_gone(gone, seen, lines)
    return Excerpt("\n".join(filter(None, (chosen.text, notes))), chosen.shown)


def _mark_line(line: Line, texts: Mapping[NodeId, str]) -> Line:
    before = texts.get(line.node)
    mark = "" if before == line.text else "+ " if before is None else "~ "
    return Line(line.node, 0, mark + line.text, line.kind, line.is_in_view, line.actions)


def _describe_gone(gone: Sequence[NodeId], seen: Seen, lines: Sequence[Line]) -> str:
    """Return the lines that were shown and are gone: a few as they were, more by their number."""
    still = {line.text for line in lines}
    texts = [seen.texts[node] for node in gone if node in seen.shown and seen.texts[node] not in still]
    if not texts:
        return ""
    if len(texts) <= 3 and sum(map(len, texts)) < 200:
        return "\n".join(f"- {text}" for text in texts)
    refs = [word for text in texts for word in text.split() if word[:1] == "e" and word[1:].isdigit()]
    named = f" ({' '.join(refs[:_MAX_GONE])}{' …' if len(refs) > _MAX_GONE else ''})" if refs else ""
    return f"- {len(texts)} lines are gone{named}"
