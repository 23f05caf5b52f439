"""Word documents (.docx): paragraphs, lists, tables, headers and footers, notes and comments, as Markdown."""

import re
from collections.abc import Iterable, Iterator

from hermes.media.reader.archives import Archive
from hermes.media.reader.document import Document
from hermes.media.reader.packages import find_main_part, find_targets, read_relations, read_title
from hermes.media.reader.tables import format_table
from hermes.media.reader.xml_events import EventStream, read_events, read_whole

_SKIPPED = frozenset(
    ("del", "moveFrom", "Fallback", "instrText", "delText", "rPr", "sectPr", "tblPr", "trPr", "tblGrid", "rt", "sdtPr")
)
"""Elements whose text is none of the document's: what was deleted, what a program computes, properties, and what
stands a second time for older programs."""
_HEADING = re.compile(r"heading ?([1-9])|title()|berschrift ?([1-9])|标题 ?([1-9])", re.IGNORECASE)
_FIXED = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-", "ptab": "\t"}
_OUTLINE_LEVELS = frozenset("012345678")
_MAX_INDENT = 8


class _Numbering:
    """What stands before the paragraphs of lists."""

    def __init__(self, data: bytes) -> None:
        self._formats: dict[tuple[str, str], str] = {}
        self._abstract: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        abstract = number = level = ""
        for name, attributes in read_whole(data).walk():
            value = attributes.get("val", "")
            if name == "abstractNum":
                abstract = attributes.get("abstractNumId", "")
            elif name == "lvl":
                level = attributes.get("ilvl", "")
            elif name == "numFmt":
                self._formats[abstract, level] = value
            elif name == "num":
                number = attributes.get("numId", "")
            elif name == "abstractNumId":
                self._abstract[number] = value

    def make_mark(self, number: str, level: str) -> str:
        """Return the mark of the next paragraph at this level of a list."""
        indent = "  " * min(int(level) if level.isdecimal() else 0, _MAX_INDENT)
        form = self._formats.get((self._abstract.get(number, ""), level), "bullet")
        if form in ("bullet", "none"):
            return f"{indent}- "
        self._counts[number, level] = count = self._counts.get((number, level), 0) + 1
        for other in [one for one in self._counts if one[0] == number and one[1] > level]:
            del self._counts[other]
        return f"{indent}{count}. "


class _WordReader:
    """Reads the flow of one part."""

    def __init__(self, numbering: _Numbering, styles: dict[str, str]) -> None:
        self._numbering = numbering
        self._styles = styles

    def read_flow(self, events: EventStream) -> Iterator[str]:
        """Yield lines up to the end of the element that contains the flow."""
        for name, _ in events.walk(_SKIPPED):
            if name == "p":
                yield self.read_paragraph(events)
            elif name == "tbl":
                yield from format_table(self._read_rows(events))

    def read_paragraph(self, events: EventStream) -> str:
        """Return a paragraph, with the mark of a heading or of a list."""
        found: list[str] = []
        mark = ""
        for name, attributes in events.walk(_SKIPPED):
            if name == "pPr":
                mark = self._read_mark(events)
            elif name == "t":
                found.append(events.read_text())
            elif name == "txbxContent":
                found.append("\n" + "\n".join(self.read_flow(events)).strip() + "\n")
            else:
                found.append(self._make_inline(name, attributes))
        text = "".join(found)
        return mark + text.strip("\n") if text.strip() else ""

    def _make_inline(self, name: str, attributes: dict[str, str]) -> str:
        """Return what stands for an element in a paragraph; its content is read as well."""
        if name in _FIXED:
            return _FIXED[name]
        number = attributes.get("id", "")
        if name == "footnoteReference":
            return f"[^{number}]"
        if name == "endnoteReference":
            return f"[^end{number}]"
        if name == "commentReference":
            return f"[comment {number}]"
        if name == "docPr" and attributes.get("descr", "").strip():
            return f"[picture: {' '.join(attributes['descr'].split())[:300]}]"
        return ""

    def _read_mark(self, events: EventStream) -> str:
        """Return what stands before a paragraph with these properties."""
        found = {"pStyle": "", "numId": "", "ilvl": "0", "outlineLvl": ""}
        for name, attributes in events.walk(_SKIPPED):
            if name in found:
                found[name] = attributes.get("val", "")
        outline = found["outlineLvl"]
        if outline not in _OUTLINE_LEVELS:
            heading = _HEADING.match(self._styles.get(found["pStyle"], found["pStyle"]))
            outline = str(int(next((one for one in heading.groups() if one), "1")) - 1) if heading is not None else ""
        if outline:
            return "#" * min(int(outline) + 1, 6) + " "
        number = found["numId"]
        return self._numbering.make_mark(number, found["ilvl"]) if number not in ("", "0") else ""

    def _read_rows(self, events: EventStream) -> Iterator[list[str]]:
        """Yield the rows of a table; merged cells are empty but for the first."""
        for name, _ in events.walk(_SKIPPED):
            if name == "tr":
                yield [cell for inner, _ in events.walk(_SKIPPED) if inner == "tc" for cell in self._read_cell(events)]

    def _read_cell(self, events: EventStream) -> list[str]:
        """Return a cell's text, and an empty one for each further column that it spans."""
        found: list[str] = []
        span, is_continued = 1, False
        for name, attributes in events.walk(_SKIPPED):
            value = attributes.get("val", "")
            if name == "p":
                found.append(self.read_paragraph(events))
            elif name == "tbl":
                found += [" ".join(cell for cell in row if cell) for row in self._read_rows(events)]
            elif name == "gridSpan" and value.isdecimal():
                span = min(int(value), 64)
            elif name == "vMerge":
                is_continued = value != "restart"
        text = "" if is_continued else " ".join(found)
        return [text, *[""] * (span - 1)]


def open_word_document(archive: Archive) -> Document:
    """Return the document in an archive. Raises UnreadableError."""
    main = find_main_part(archive, "word/document.xml")
    relations = read_relations(archive, main)

    def make_reader() -> _WordReader:
        numbering = _Numbering(b"".join(map(archive.read_part, find_targets(relations, "numbering")[:1])))
        styles = _read_style_names(b"".join(map(archive.read_part, find_targets(relations, "styles")[:1])))
        return _WordReader(numbering, styles)

    def read_lines(_: int) -> Iterator[str]:
        reader = make_reader()
        yield from _read_edges(archive, reader, find_targets(relations, "header"), "header")
        events = read_events(archive.open_part(main))
        yield from _space_headings(reader.read_flow(events))
        for kind, label in (("footnotes", ""), ("endnotes", "end")):
            for part in find_targets(relations, kind)[:1]:
                yield from _read_notes(archive, reader, part, label)
        for part in find_targets(relations, "comments")[:1]:
            yield from _read_comments(archive, reader, part)
        yield from _read_edges(archive, reader, find_targets(relations, "footer"), "footer")

    return Document(kind="Word document", read_unit=read_lines, title=read_title(archive))


def _space_headings(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines with an empty one around headings."""
    for line in lines:
        if line.startswith("#"):
            yield ""
        yield line
        if line.startswith("#"):
            yield ""


def _read_style_names(data: bytes) -> dict[str, str]:
    names: dict[str, str] = {}
    style = ""
    for name, attributes in read_whole(data).walk():
        if name == "style":
            style = attributes.get("styleId", "")
        elif name == "name" and style:
            names[style] = attributes.get("val", "")
            style = ""
    return names


def _read_edges(archive: Archive, reader: _WordReader, parts: list[str], label: str) -> Iterator[str]:
    """Yield headers or footers, each text once."""
    seen: set[str] = set()
    for part in parts[:20]:
        if not archive.has_part(part):
            continue
        text = "\n".join(reader.read_flow(read_events(archive.open_part(part)))).strip()
        if text and text not in seen:
            seen.add(text)
            yield f"[{label}] {text}"


def _read_notes(archive: Archive, reader: _WordReader, part: str, label: str) -> Iterator[str]:
    if not archive.has_part(part):
        return
    events = read_events(archive.open_part(part))
    for name, attributes in events.walk():
        if name in ("footnote", "endnote"):
            text = " ".join(" ".join(reader.read_flow(events)).split())
            if text and attributes.get("type", "normal") == "normal":
                yield f"[^{label}{attributes.get('id', '')}]: {text}"


def _read_comments(archive: Archive, reader: _WordReader, part: str) -> Iterator[str]:
    if not archive.has_part(part):
        return
    events = read_events(archive.open_part(part))
    for name, attributes in events.walk():
        if name == "comment":
            text = " ".join(" ".join(reader.read_flow(events)).split())
            author = " ".join(attributes.get("author", "").split())
            yield f"[comment {attributes.get('id', '')}{f' by {author}' if author else ''}]: {text}"
