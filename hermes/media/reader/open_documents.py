"""OpenDocument texts, sheets and slides (.odt, .ods, .odp)."""

from collections.abc import Iterator

from hermes.media.reader.archives import Archive
from hermes.media.reader.cell_values import describe_gap, format_row
from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, ENCRYPTED, UnreadableError
from hermes.media.reader.packages import find_text
from hermes.media.reader.tables import MAX_COLUMNS, format_table
from hermes.media.reader.xml_events import TEXT, EventStream, read_events, read_whole

_KINDS = {
    "application/vnd.oasis.opendocument.text": ("OpenDocument text", "text", ""),
    "application/vnd.oasis.opendocument.text-template": ("OpenDocument text", "text", ""),
    "application/vnd.oasis.opendocument.spreadsheet": ("OpenDocument sheets", "spreadsheet", "sheet"),
    "application/vnd.oasis.opendocument.presentation": ("OpenDocument slides", "presentation", "slide"),
}
"""By media type: what it is called, its element, and what a unit is called."""
_UNITS = {"sheet": "table", "slide": "page"}
_SKIPPED = frozenset(
    ("tracked-changes", "forms", "sequence-decls", "variable-decls", "note-citation", "event-listeners")
)
_MAX_REPEATED = 64
_MAX_SPACES = 80


class _FlowReader:
    """Reads text, lists and tables; notes and comments are kept for the end."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def read_flow(self, events: EventStream, indent: str = "") -> Iterator[str]:
        """Yield lines up to the end of the element that contains the flow."""
        for name, attributes in events.walk(_SKIPPED):
            if name == "p":
                yield indent + self._read_paragraph(events)
            elif name == "h":
                level = attributes.get("outline-level", "1")
                heading = f"{'#' * min(int(level) if level.isdecimal() else 1, 6)} {self._read_paragraph(events)}"
                yield from ("", heading, "")
            elif name == "list":
                yield from self._read_list(events, indent)
            elif name == "table":
                yield from format_table(self._read_cells(events))
            elif name == "notes":
                lines = [line for line in self.read_flow(events) if line.strip()]
                yield from ("", "Speaker notes:", *lines) if lines else ()

    def _read_list(self, events: EventStream, indent: str) -> Iterator[str]:
        for name, _ in events.walk():
            if name in ("list-item", "list-header"):
                lines = [line for line in self.read_flow(events, indent + "  ") if line.strip()]
                if lines and not lines[0].lstrip().startswith("- "):
                    lines[0] = f"{indent}- {lines[0].strip()}"
                yield from lines

    def _read_paragraph(self, events: EventStream) -> str:
        """Return a paragraph's text; what belongs to a note or a comment goes to the notes."""
        found: list[str] = []
        for kind, name, attributes in events.walk_events(_SKIPPED):
            if kind == TEXT:
                found.append(name.replace("\n", " "))
            elif name == "note":
                found.append(self._take_note(events))
            elif name == "annotation":
                found.append(self._take_comment(events))
            elif name == "text-box":
                found.append("\n" + "\n".join(self.read_flow(events)).strip() + "\n")
            elif name == "table":
                found.append("\n" + "\n".join(format_table(self._read_cells(events))).strip() + "\n")
            else:
                found.append(_make_inline(name, attributes))
        return "".join(found).strip("\n")

    def _take_note(self, events: EventStream) -> str:
        number = len(self.notes) + 1
        self.notes.append("")
        self.notes[number - 1] = f"[^{number}]: {' '.join(' '.join(self.read_flow(events)).split())}"
        return f"[^{number}]"

    def _take_comment(self, events: EventStream) -> str:
        author = ""
        words: list[str] = []
        for name, _ in events.walk(("date", "date-string")):
            if name == "creator":
                author = " ".join(events.read_text().split())
            elif name == "p":
                words.append(self._read_paragraph(events))
        number = len(self.notes) + 1
        by = f" by {author}" if author else ""
        self.notes.append(f"[comment {number}{by}]: {' '.join(' '.join(words).split())}")
        return f"[comment {number}]"

    def _read_cells(self, events: EventStream) -> Iterator[list[str]]:
        """Yield a table's rows, each repeated row once."""
        for _, cells, _ in read_rows(events, self):
            yield [cells.get(column, "") for column in range(1, min(max(cells, default=0), MAX_COLUMNS) + 1)]


def _make_inline(name: str, attributes: dict[str, str]) -> str:
    if name == "s":
        count = attributes.get("c", "1")
        return " " * min(int(count) if count.isdecimal() else 1, _MAX_SPACES)
    return {"tab": "\t", "line-break": "\n"}.get(name, "")


def read_rows(events: EventStream, flow: _FlowReader) -> Iterator[tuple[int, dict[int, str], int]]:
    """Yield each row that has text with its number, its cells by column, and how often it stands there."""
    number = 1
    for name, attributes in events.walk(("shapes", "forms", "named-expressions")):
        if name == "table-row":
            repeated = _read_count(attributes, "number-rows-repeated")
            cells = _read_row(events, flow)
            if cells:
                yield number, cells, repeated
            number += repeated


def _read_row(events: EventStream, flow: _FlowReader) -> dict[int, str]:
    cells: dict[int, str] = {}
    column = 1
    for name, attributes in events.walk():
        if name not in ("table-cell", "covered-table-cell"):
            continue
        repeated = _read_count(attributes, "number-columns-repeated")
        text = " ".join(line for line in flow.read_flow(events) if line.strip()) or attributes.get("value", "")
        if text:
            cells.update({column + more: text for more in range(min(repeated, _MAX_REPEATED))})
        column += repeated
    return cells


def _read_count(attributes: dict[str, str], name: str) -> int:
    value = attributes.get(name, "1")
    return int(value) if value.isdecimal() and len(value) < 9 else 1


def open_open_document(archive: Archive, media_type: str) -> Document | None:
    """Return the document in an archive; None where it is none of these. Raises UnreadableError."""
    if media_type not in _KINDS:
        return None
    kind, root, unit = _KINDS[media_type]
    if b"encryption-data" in archive.read_part("META-INF/manifest.xml"):
        raise UnreadableError(ENCRYPTED)
    if not archive.has_part("content.xml"):
        raise UnreadableError(DAMAGED, "it has no content.xml")
    if not unit:
        return Document(
            kind=kind,
            read_unit=lambda _: _read_text_document(archive),
            title=find_text(read_whole(archive.read_part("meta.xml")), "title"),
        )
    names = _list_units(archive, root, _UNITS[unit])
    if not names:
        raise UnreadableError(DAMAGED, f"it has no {unit}s")

    def read_unit(number: int) -> Iterator[str]:
        flow = _FlowReader()
        events = _find_unit(archive, root, _UNITS[unit], number)
        yield from _format_sheet(events, flow) if unit == "sheet" else flow.read_flow(events)
        yield from flow.notes

    return Document(
        kind=kind,
        read_unit=read_unit,
        unit=unit,
        count=len(names),
        title=find_text(read_whole(archive.read_part("meta.xml")), "title"),
        describe_unit=lambda number: names[number - 1] if unit == "sheet" else "",
        unit_names=names if unit == "sheet" else (),
    )


def _read_text_document(archive: Archive) -> Iterator[str]:
    edges = _read_edges(archive)
    yield from (f"[header] {one}" for one in edges["header"])
    flow = _FlowReader()
    yield from flow.read_flow(_enter(read_events(archive.open_part("content.xml")), "text"))
    yield from flow.notes
    yield from (f"[footer] {one}" for one in edges["footer"])


def _enter(events: EventStream, element: str) -> EventStream:
    """Return the events behind the start of `body`'s own element."""
    is_inside = False
    for name, _ in events.walk():
        if is_inside and name == element:
            break
        is_inside = is_inside or name == "body"
    return events


def _walk_units(archive: Archive, root: str, element: str) -> Iterator[tuple[str, EventStream]]:
    """Yield the name of each unit with the events behind its start; what is not read of it is passed over."""
    events = _enter(read_events(archive.open_part("content.xml")), root)
    return ((attributes.get("name", "")[:100], events) for name, attributes in events.walk() if name == element)


def _list_units(archive: Archive, root: str, element: str) -> list[str]:
    names: list[str] = []
    for name, events in _walk_units(archive, root, element):
        names.append(name)
        events.skip()
    return names


def _find_unit(archive: Archive, root: str, element: str, number: int) -> EventStream:
    for place, (_, events) in enumerate(_walk_units(archive, root, element), 1):
        if place == number:
            return events
        events.skip()
    raise UnreadableError(DAMAGED, f"it has no {number}")


def _format_sheet(events: EventStream, flow: _FlowReader) -> Iterator[str]:
    last = 0
    for row, cells, repeated in read_rows(events, flow):
        yield from describe_gap(last, row)
        yield format_row(cells)
        if repeated > 1:
            yield f"[this row stands {repeated:,} times]"
        last = row + repeated - 1


def _read_edges(archive: Archive) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"header": [], "footer": []}
    if not archive.has_part("styles.xml"):
        return found
    events = read_events(archive.open_part("styles.xml"))
    for name, _ in events.walk():
        if name in found:
            text = " ".join(" ".join(_FlowReader().read_flow(events)).split())
            if text and text not in found[name]:
                found[name].append(text)
    return found
