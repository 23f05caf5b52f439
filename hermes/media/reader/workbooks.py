"""Workbooks (.xlsx): a unit a sheet, rows as lines with tabs. A sheet is a stream: what is not shown is not kept."""

import re
from collections.abc import Iterator
from itertools import repeat

from hermes.media.reader.archives import Archive
from hermes.media.reader.cell_values import (
    describe_gap,
    format_date,
    format_number,
    format_row,
    is_date_format,
    parse_column,
)
from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, TOO_LARGE, UnreadableError
from hermes.media.reader.packages import Relation, find_main_part, find_targets, read_relations, read_title
from hermes.media.reader.sheet_rows import RowSkipper
from hermes.media.reader.xml_events import RELATION_ID, EventStream, read_events, read_whole

_DIMENSION = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
_MAX_STRINGS = 40 << 20
"""Characters of all shared texts together."""
_FEW = 200
"""Rows that are read although they are not shown."""
_NO_VALUE = ("0", "false")


class _SharedTexts:
    """The texts that cells share, read as far as one is asked for."""

    def __init__(self, archive: Archive, part: str) -> None:
        self._texts: list[str] = []
        self._room = _MAX_STRINGS
        self._events = read_events(archive.open_part(part)) if archive.has_part(part) else EventStream(iter(()))

    def find_text(self, place: str) -> str:
        """Return the text of this number; empty where there is none."""
        wanted = int(place) if place.isdecimal() else -1
        while len(self._texts) <= wanted:
            text = self._read_next()
            if text is None:
                return ""
            self._texts.append(text)
        return self._texts[wanted] if wanted >= 0 else ""

    def _read_next(self) -> str | None:
        for name, _ in self._events.walk():
            if name == "si":
                text = _read_rich_text(self._events)
                self._room -= len(text) + 50
                if self._room < 0:
                    raise UnreadableError(TOO_LARGE, f"{_MAX_STRINGS >> 20} MB of texts")
                return text
        return None


def _read_rich_text(events: EventStream) -> str:
    """Return the text of an element with runs, without the readings of East Asian words."""
    return "".join(events.read_text() for name, _ in events.walk(("rPh",)) if name == "t")


class _Sheet:
    """A sheet of a workbook."""

    def __init__(self, name: str, part: str, state: str) -> None:
        self.name = name
        self.part = part
        self.state = state


class _Workbook:
    """What all sheets of a workbook share."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        main = find_main_part(archive, "xl/workbook.xml")
        relations = read_relations(archive, main)
        self.since_1904 = False
        self.sheets: list[_Sheet] = []
        self._read_sheets(main, relations)
        self._dates = self._read_date_styles(find_targets(relations, "styles")[:1])
        texts = find_targets(relations, "sharedStrings")
        self._texts = _SharedTexts(archive, texts[0] if texts else "")

    def _read_sheets(self, main: str, relations: dict[str, Relation]) -> None:
        for name, attributes in read_whole(self._archive.read_part(main)).walk():
            if name == "workbookPr":
                self.since_1904 = attributes.get("date1904", "0") not in _NO_VALUE
            elif name == "sheet":
                found = relations.get(attributes.get(RELATION_ID, ""))
                if found is not None and self._archive.has_part(found.target) and found.kind == "worksheet":
                    state = attributes.get("state", "visible")
                    self.sheets.append(_Sheet(attributes.get("name", "")[:100], found.target, state))
        if not self.sheets:
            raise UnreadableError(DAMAGED, "it has no sheets")

    def _read_date_styles(self, parts: list[str]) -> list[bool]:
        """Return for each cell style whether it shows a date."""
        codes: dict[int, str] = {}
        found: list[bool] = []
        for part in parts:
            events = read_whole(self._archive.read_part(part))
            for name, attributes in events.walk():
                if name == "numFmt":
                    codes[_to_int(attributes.get("numFmtId", ""))] = attributes.get("formatCode", "")
                elif name == "cellXfs":
                    numbers = [_to_int(one.get("numFmtId", "")) for inner, one in events.walk() if inner == "xf"]
                    found = [is_date_format(number, codes.get(number, "")) for number in numbers]
        return found

    def describe_sheet(self, number: int) -> str:
        """Return a sheet's name and size, as the sheet itself says."""
        sheet = self.sheets[number - 1]
        hidden = "" if sheet.state == "visible" else ", hidden"
        for name, attributes in read_events(self._archive.open_part(sheet.part)).walk():
            match = _DIMENSION.fullmatch(attributes.get("ref", "")) if name == "dimension" else None
            if match is not None:
                return f"{sheet.name}, {int(match[4]):,} rows, {parse_column(match[3]):,} columns{hidden}"
            if name == "sheetData":
                break
        return f"{sheet.name}{hidden}"

    def read_sheet(self, number: int, hidden: int = 0) -> Iterator[str]:
        """Yield a sheet's rows, then the comments on its cells. The first `hidden` lines may be any text."""
        sheet = self.sheets[number - 1]
        rows = RowSkipper(self._archive.open_part(sheet.part))
        if hidden > _FEW:
            rows.skip_lines(hidden)
            yield from repeat("-", rows.lines)
        events = read_events(rows)
        last = rows.last_row
        for name, attributes in events.walk():
            if name != "row":
                continue
            row = _to_int(attributes.get("r", "")) or last + 1
            cells = self._read_cells(events)
            if not cells:
                continue
            yield from describe_gap(last, row)
            last = row
            yield format_row(cells)
        yield from self._read_comments(sheet)

    def _read_cells(self, events: EventStream) -> dict[int, str]:
        cells: dict[int, str] = {}
        column = 0
        for name, attributes in events.walk():
            if name == "c":
                column = parse_column(attributes.get("r", "")) or column + 1
                text = self._read_cell(events, attributes)
                if text.strip():
                    cells[column] = text
        return cells

    def _read_cell(self, events: EventStream, attributes: dict[str, str]) -> str:
        value = formula = inline = ""
        for name, _ in events.walk():
            if name == "v":
                value = events.read_text()
            elif name == "is":
                inline = _read_rich_text(events)
            elif name == "f":
                formula = events.read_text()
        if value:
            return self._format_value(value, attributes.get("t", "n"), _to_int(attributes.get("s", "")))
        return inline or (f"={formula}" if formula else "")

    def _format_value(self, value: str, form: str, style: int) -> str:
        if form == "s":
            return self._texts.find_text(value)
        if form == "b":
            return "FALSE" if value in _NO_VALUE else "TRUE"
        if form != "n":
            return value
        if 0 <= style < len(self._dates) and self._dates[style]:
            return format_date(value, since_1904=self.since_1904)
        return format_number(value)

    def _read_comments(self, sheet: _Sheet) -> Iterator[str]:
        relations = read_relations(self._archive, sheet.part)
        for part in find_targets(relations, "comments")[:1]:
            if not self._archive.has_part(part):
                continue
            authors: list[str] = []
            events = read_events(self._archive.open_part(part))
            for name, attributes in events.walk():
                if name == "author":
                    authors.append(" ".join(events.read_text().split()))
                elif name == "comment":
                    who = _to_int(attributes.get("authorId", ""))
                    by = f" by {authors[who]}" if 0 <= who < len(authors) and authors[who] else ""
                    text = " ".join(_read_rich_text(events).split())
                    yield f"[comment at {attributes.get('ref', '')[:10]}{by}] {text}"


def _to_int(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def open_workbook(archive: Archive) -> Document:
    """Return the workbook in an archive. Raises UnreadableError."""
    book = _Workbook(archive)
    return Document(
        kind="workbook",
        read_unit=book.read_sheet,
        read_unit_from=book.read_sheet,
        unit="sheet",
        count=len(book.sheets),
        title=read_title(archive),
        describe_unit=book.describe_sheet,
        unit_names=[sheet.name for sheet in book.sheets],
    )
