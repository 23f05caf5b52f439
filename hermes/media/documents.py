"""The text of documents, a window at a time, and their pages as pictures."""

import msgspec
from msgspec import Struct

from hermes.media.worker_process import run_reader

MOST_CHARACTERS = 90_000
PAGE_SIDE = 1_600
"""Pixels of the longer side of a page that is shown as a picture."""
_PAGE_BYTES = 1 << 20


class DocumentWindow(Struct, frozen=True, kw_only=True):
    """The part of a document that is asked for: lines from `offset` on, of the units from `first` to `last`."""

    first: int = 1
    last: int = 0
    """0: to the last one."""
    offset: int = 1
    lines: int = 500
    characters: int = MOST_CHARACTERS


class DocumentText(Struct, frozen=True):
    """A window of a document's text.

    `unit` is what it is divided into (`page`, `slide`, `sheet`, `chapter`), empty for a document that is not;
    `total` its lines where they were counted, 0 where the end was not reached; `next_unit` and `next_offset`, of which
    one is not 0, say where to go on.
    """

    kind: str
    text: str
    title: str = ""
    unit: str = ""
    count: int = 1
    first: int = 1
    last: int = 1
    offset: int = 1
    shown: int = 0
    total: int = 0
    next_unit: int = 0
    next_offset: int = 0
    notes: tuple[str, ...] = ()
    peak: int = 0
    """The most memory that the reader has held, in kB."""

    def describe_place(self) -> str:
        """Return what is shown of what, and how to go on: for a model."""
        parts: list[str] = []
        if self.unit:
            plural = "s" if self.first != self.last else ""
            parts.append(f"{self.count:,} {self.unit}{'s' if self.count != 1 else ''}")
            parts.append(f"{self.unit}{plural} {_format_span(self.first, self.last)} shown")
        if self.next_offset or self.offset > 1 or (self.total and not self.unit):
            of = f" of {self.total:,}" if self.total else ""
            parts.append(f"lines {self.offset}-{self.offset + self.shown - 1}{of}")
        if self.next_offset:
            pages = f"pages={_format_span(self.first, self.last)} and " if self.unit else ""
            parts.append(f"go on with {pages}offset={self.next_offset}")
        elif self.next_unit:
            end = min(self.count, self.next_unit + self.last - self.first)
            parts.append(f"go on with pages={_format_span(self.next_unit, end)}")
        return "; ".join(parts)


def _format_span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


class _PageHead(Struct):
    media_type: str


async def read_document(file: int, window: DocumentWindow, kind: str = "") -> DocumentText:
    """Return a window of the document of an open handle; `kind` is what its name says (`recognition`).

    Raises ToolError with the reason as the end of a sentence: `it is encrypted`.
    """
    request: dict[str, object] = {"want": "text", "kind": kind, **msgspec.structs.asdict(window)}
    return msgspec.json.decode((await run_reader(file, request)).head, type=DocumentText)


async def render_page(file: int, page: int) -> tuple[str, bytes]:
    """Return the media type and the bytes of a PDF's page as a picture. Raises ToolError as `read_document` does."""
    answer = await run_reader(file, {"want": "page", "page": page, "pixels": PAGE_SIDE, "bytes": _PAGE_BYTES})
    return msgspec.json.decode(answer.head, type=_PageHead).media_type, answer.data
