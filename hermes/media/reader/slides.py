"""Presentations (.pptx): a unit a slide, with its tables and the speaker's notes."""

import posixpath
from collections.abc import Iterator

from hermes.media.reader.archives import Archive
from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, UnreadableError
from hermes.media.reader.packages import find_main_part, find_targets, read_relations, read_title
from hermes.media.reader.tables import format_table
from hermes.media.reader.xml_events import RELATION_ID, EventStream, read_events, read_whole

_NUMBER_PLACES = ("sldNum", "dt", "hdr", "ftr", "sldImg")
"""Placeholders that hold no words of the speaker's."""
_TITLES = ("title", "ctrTitle")


def open_presentation(archive: Archive) -> Document:
    """Return the presentation in an archive. Raises UnreadableError."""
    main = find_main_part(archive, "ppt/presentation.xml")
    slides = _list_slides(archive, main)
    if not slides:
        raise UnreadableError(DAMAGED, "it has no slides")

    def read_slide(number: int) -> Iterator[str]:
        part = slides[number - 1]
        yield from _read_shapes(archive, part, is_notes=False)
        for notes in filter(archive.has_part, find_targets(read_relations(archive, part), "notesSlide")[:1]):
            lines = [line for line in _read_shapes(archive, notes, is_notes=True) if line.strip()]
            yield from ("", "Speaker notes:", *lines) if lines else ()

    return Document(
        kind="presentation", read_unit=read_slide, unit="slide", count=len(slides), title=read_title(archive)
    )


def _list_slides(archive: Archive, main: str) -> list[str]:
    """Return the slides' parts in the order in which they are shown."""
    relations = read_relations(archive, main)
    targets = (
        relations[attributes[RELATION_ID]].target
        for name, attributes in read_whole(archive.read_part(main)).walk()
        if name == "sldId" and attributes.get(RELATION_ID, "") in relations
    )
    found = [one for one in targets if archive.has_part(one)]
    return found or [one for one in archive.list_parts("ppt/slides/") if posixpath.dirname(one) == "ppt/slides"]


def _read_shapes(archive: Archive, part: str, *, is_notes: bool) -> Iterator[str]:
    """Yield the lines of a slide's shapes in their order."""
    events = read_events(archive.open_part(part))
    place = ""
    for name, attributes in events.walk(("Fallback",)):
        if name == "sp":
            place = ""
        elif name == "ph":
            place = attributes.get("type", "body")
        elif name == "cNvPr" and attributes.get("descr", "").strip() and not is_notes:
            yield f"[picture: {' '.join(attributes['descr'].split())[:300]}]"
        elif name == "tbl":
            yield from format_table(_read_rows(events))
        elif name == "p":
            text = _read_paragraph(events)
            if place not in _NUMBER_PLACES:
                yield f"# {text}" if place in _TITLES and text.strip() else text


def _read_paragraph(events: EventStream) -> str:
    found: list[str] = []
    for name, attributes in events.walk():
        if name == "t":
            found.append(events.read_text())
        elif name == "br":
            found.append("\n")
        elif name == "pPr" and attributes.get("lvl", "0").isdecimal():
            found.append("  " * min(int(attributes.get("lvl", "0")), 8))
    return "".join(found).rstrip()


def _read_rows(events: EventStream) -> Iterator[list[str]]:
    for name, _ in events.walk():
        if name == "tr":
            yield [_read_cell(events) for inner, _ in events.walk() if inner == "tc"]


def _read_cell(events: EventStream) -> str:
    return " ".join(_read_paragraph(events).strip() for name, _ in events.walk() if name == "p")
