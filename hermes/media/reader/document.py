"""A document as it is read: its units (pages, slides, sheets, chapters), and the window of its lines that is wanted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from hermes.media.reader.failures import DAMAGED, RANGE, UnreadableError

MAX_LINE = 4_000
"""Characters of a line; a longer one is cut into several."""

_NAMES = 30
"""Units whose names are told."""
_NAME = 60


@dataclass
class Document:
    """What a reader makes of a file. A document without units has one, and an empty `unit`."""

    kind: str
    read_unit: Callable[[int], Iterable[str]]
    """Returns the lines of a unit by its number, from 1; what is not asked for is not read."""
    unit: str = ""
    count: int = 1
    title: str = ""
    describe_unit: Callable[[int], str] = lambda _: ""
    """Returns what a unit is called, beside its number."""
    unit_names: Sequence[str] = ()
    """The names of all units, where units have names of their own: told where not all of them are shown."""
    read_unit_from: Callable[[int, int], Iterable[str]] | None = None
    """Does the same where so many lines at its beginning are not shown: any text may stand for them."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the text must know: what was left out."""


@dataclass
class Window:
    """The part that is wanted: lines from `offset` (1) within the units from `first` to `last` (0: all)."""

    first: int = 1
    last: int = 0
    offset: int = 1
    lines: int = 500
    characters: int = 90_000


def show_window(document: Document, window: Window) -> dict[str, object]:
    """Return the window's text with what a reader needs to go on. Raises UnreadableError.

    Units are shown whole; only where the first one has no room it is cut, and the window goes on by lines.
    """
    last = min(window.last or document.count, document.count)
    if not 0 < window.first <= last:
        raise UnreadableError(RANGE, f"{document.count} {document.unit or 'page'}{'' if document.count == 1 else 's'}")
    shown = _Collector(window)
    cut, whole, count = _collect_units(document, range(window.first, last + 1), shown)
    further = last + 1 if last < document.count else 0
    next_offset = 0
    if cut and count:
        shown.cut_back(count)
        last, further = whole, cut
    elif cut:
        last, further, next_offset = cut, 0, window.offset + len(shown.lines)
    return {
        "kind": document.kind,
        "title": document.title[:300],
        "unit": document.unit,
        "count": document.count,
        "first": window.first,
        "last": last,
        "next_unit": further,
        "offset": window.offset,
        "shown": len(shown.lines),
        "total": 0 if cut else shown.number,
        "next_offset": next_offset,
        "text": "\n".join(shown.lines),
        "notes": [*document.notes[:20], *_list_names(document, window.first, last)],
    }


def _collect_units(document: Document, units: range, shown: "_Collector") -> tuple[int, int, int]:
    """Collect the lines of units; return the one that had no room (0: all had), the last whole one, and the lines up
    to its end.
    """
    whole = count = 0
    for number in units:
        try:
            heads = _list_heads(document, number)
            hidden = shown.hidden - len(heads)
            if document.read_unit_from is not None and hidden > 0:
                lines = document.read_unit_from(number, hidden)
            else:
                lines = document.read_unit(number)
            if not shown.take_lines(chain(heads, lines)):
                return number, whole, count
        except UnreadableError as error:
            if error.code != DAMAGED or len(shown.lines) <= 1:
                raise
            shown.take_lines([f"[the rest of this is damaged: {error.detail}]"])
        whole, count = number, len(shown.lines)
    return 0, whole, count


def _list_names(document: Document, first: int, last: int) -> list[str]:
    """Return a note with the names of all units, where some of those that have names are not shown."""
    if not document.unit_names or (first == 1 and last == document.count):
        return []
    named = [f"{number} {name[:_NAME]}" for number, name in enumerate(document.unit_names[:_NAMES], 1)]
    return [f"{document.unit}s: {', '.join(named)}{' ...' if document.count > _NAMES else ''}"]


def _list_heads(document: Document, number: int) -> list[str]:
    if not document.unit:
        return []
    about = document.describe_unit(number)
    return [f"--- {document.unit} {number}{': ' if about else ''}{about} ---"]


class _Collector:
    """Collects lines until there is no room."""

    def __init__(self, window: Window) -> None:
        self.lines: list[str] = []
        self.number = 0
        """The lines that were read, whether they are shown or not."""
        self._window = window
        self._room = window.characters
        self._is_empty = True

    @property
    def hidden(self) -> int:
        """The lines that are still to come before the first that is shown."""
        return self._window.offset - 1 - self.number

    def take_lines(self, lines: Iterable[str]) -> bool:
        """Take the lines of a unit; return False where not all of them have room."""
        return all(self._take_line(piece) for line in lines for piece in split_line(line))

    def cut_back(self, count: int) -> None:
        """Drop the lines behind the first `count`."""
        del self.lines[count:]

    def _take_line(self, line: str) -> bool:
        is_empty = not line.strip()
        if is_empty and self._is_empty:
            return True  # one empty line is as good as many
        self._is_empty = is_empty
        if self.number + 1 < self._window.offset:
            self.number += 1
            return True
        if len(self.lines) >= self._window.lines or self._room < len(line) + 1:
            return False
        self._room -= len(line) + 1
        self.lines.append(line.rstrip())
        self.number += 1
        return True


def split_line(text: str) -> Iterator[str]:
    """Yield the lines of a text, none longer than is shown of one, and without characters that no text has."""
    for line in text.split("\n"):
        clean = line.rstrip("\r").replace("\0", "")
        if len(clean) <= MAX_LINE:
            yield clean
            continue
        for at in range(0, len(clean), MAX_LINE):
            yield clean[at : at + MAX_LINE]
