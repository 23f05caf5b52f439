"""What `read_file` shows of a file that is no plain text: a document's text, its pages as pictures, a picture."""

import base64
import os
import re
from typing import BinaryIO

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.core.messages import ImagePart, Provenance, Source
from hermes.media.documents import DocumentText, DocumentWindow, read_document, render_page
from hermes.media.pictures import can_stay, take_picture
from hermes.tools.tool import ToolOutput

_PAGES = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6}))?\s*(p?)\s*")
_BLANK_PAGE = re.compile(r"^--- page (\d+) ---\n\[no text on this page", re.MULTILINE)
MOST_PICTURES = 5
"""Pages that are shown as pictures at a time."""
_SHORT = 3
"""Pages of a document without text whose pictures are shown unasked."""


class WantedPart(Struct, frozen=True):
    """The part of a document that a call asks for."""

    window: DocumentWindow
    as_pictures: bool = False
    is_named: bool = False
    """Whether the call names pages."""


def parse_pages(pages: str, offset: int, limit: int) -> WantedPart:
    """Return what `pages` names: `3`, `3-5`, or `3-5p` for pictures of them. Raises ToolError."""
    if not pages.strip():
        return WantedPart(DocumentWindow(offset=offset, lines=limit))
    match = _PAGES.fullmatch(pages)
    first = int(match[1]) if match is not None else 0
    last = int(match[2]) if match is not None and match[2] else first
    if match is None or not 0 < first <= last:
        raise ToolError("`pages` is a number or a range, such as 3 or 3-5; 3-5p shows them as pictures.")
    window = DocumentWindow(first=first, last=last, offset=offset, lines=limit)
    return WantedPart(window, as_pictures=bool(match[3]), is_named=True)


async def show_document(file: BinaryIO, path: str, kind: str, wanted: WantedPart) -> ToolOutput:
    """Return the text of the wanted part, and pictures of pages that have none. Raises ToolError."""
    provenance = Provenance(source=Source.FILE, label=path)
    if wanted.as_pictures:
        pages = range(wanted.window.first, min(wanted.window.last, wanted.window.first + MOST_PICTURES - 1) + 1)
        images = await _render_pages(file, path, list(pages), provenance)
        span = f"page {pages[0]}" if len(pages) == 1 else f"pages {pages[0]}-{pages[-1]}"
        more = f"; go on with pages={pages[-1] + 1}-{wanted.window.last}p" if pages[-1] < wanted.window.last else ""
        return ToolOutput(text=f"[{path}: {span} as pictures{more}]", images=images, provenance=provenance)
    try:
        found = await read_document(file.fileno(), wanted.window, kind)
    except ToolError as error:
        raise ToolError(f"{path} cannot be read: {error.message}.") from None
    if not found.shown:
        place = f"line {wanted.window.offset} is after its end" if found.total else "it has no text"
        return ToolOutput(text=f"[{describe_document(found, path)}; {place}]", provenance=provenance, failed=True)
    images, note = await _show_blank_pages(file, path, found, wanted)
    return ToolOutput(
        text=f"[{describe_document(found, path)}{note}]\n{found.text}", images=images, provenance=provenance
    )


def describe_document(found: DocumentText, path: str) -> str:
    """Return what a document is, what is shown of it, and how to go on."""
    title = f' "{found.title}"' if found.title else ""
    return "; ".join(part for part in (f"{path}: {found.kind}{title}", found.describe_place(), *found.notes) if part)


async def _show_blank_pages(
    file: BinaryIO, path: str, found: DocumentText, wanted: WantedPart
) -> tuple[tuple[ImagePart, ...], str]:
    """Return pictures of pages without text, where the call names pages or there are few, and a note for the others."""
    blank = [int(number) for number in _BLANK_PAGE.findall(found.text)] if found.kind == "PDF" else []
    if not blank:
        return (), ""
    if not wanted.is_named and found.count > _SHORT:
        return (), f"; pages={blank[0]}p shows a page without text as a picture"
    try:
        images = await _render_pages(file, path, blank[:MOST_PICTURES], Provenance(source=Source.FILE, label=path))
    except ToolError as error:
        return (), f"; pages without text cannot be shown: {error.message}"
    shown = ", ".join(map(str, blank[:MOST_PICTURES]))
    return images, f"; as pictures: page{'s' if len(images) > 1 else ''} {shown}"


async def _render_pages(file: BinaryIO, path: str, pages: list[int], provenance: Provenance) -> tuple[ImagePart, ...]:
    images: list[ImagePart] = []
    for page in pages:
        try:
            media_type, data = await render_page(file.fileno(), page)
        except ToolError as error:
            raise ToolError(f"Page {page} of {path} cannot be shown: {error.message}.") from None
        images.append(ImagePart(media_type=media_type, data=base64.b64encode(data).decode(), provenance=provenance))
    return tuple(images)


async def show_picture(file: BinaryIO, path: str) -> ToolOutput:
    """Return a picture, made small enough for every model. Raises ToolError."""
    provenance = Provenance(source=Source.FILE, label=path)
    try:
        found = await take_picture(file.fileno())
    except ToolError as error:
        size = os.fstat(file.fileno()).st_size
        data = os.pread(file.fileno(), size, 0) if can_stay(os.pread(file.fileno(), 64, 0), size) else b""
        if not data or error.message.startswith("it is damaged"):
            raise ToolError(f"{path} is a picture that cannot be shown: {error.message}.") from None
        image = ImagePart(media_type=_guess_type(data), data=base64.b64encode(data).decode(), provenance=provenance)
        return ToolOutput(text=f"[{path}: a picture, as it is]", images=(image,), provenance=provenance)
    image = ImagePart(media_type=found.media_type, data=base64.b64encode(found.data).decode(), provenance=provenance)
    (width, height), (shown_width, shown_height) = found.original, found.size
    smaller = f", shown at {shown_width} x {shown_height}" if found.size != found.original else ""
    text = f"[{path}: a picture of {width} x {height} pixels{smaller}]"
    return ToolOutput(text=text, images=(image,), provenance=provenance)


def _guess_type(data: bytes) -> str:
    starts = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"))
    return next((kind for start, kind in starts if data.startswith(start)), "image/webp")
