"""PDF documents, by pdfium: a unit a page; pages as pictures."""

import ctypes
import unicodedata
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, ENCRYPTED, MEMORY, RANGE, UnreadableError, import_failure
from hermes.media.reader.right_to_left import PlacedLetter, has_right_to_left, order_line

if TYPE_CHECKING:
    import pypdfium2

EXTRA = "documents"
_MAX_PAGES = 100_000
_MAX_CHARACTERS = 400_000
"""Characters of one page that are taken."""
_PASSWORD_ERROR = 4
_FORMAT_ERROR = 3
_MAX_PIXELS = 16_000_000
_SOFT_HYPHEN = "\ufffe"
"""What pdfium gives for a hyphen at which a word was broken."""


def open_pdf(file: IO[bytes]) -> Document:
    """Return a PDF document. Raises UnreadableError."""
    pdf = _load(file)
    count = len(pdf)
    if not 0 < count <= _MAX_PAGES:
        raise UnreadableError(DAMAGED, f"it says that it has {count} pages")
    document = Document(kind="PDF", read_unit=lambda number: _read_page(pdf, number), unit="page", count=count)
    document.title = " ".join(pdf.get_metadata_value("Title").split())
    attached = pdf.count_attachments()
    if attached > 0:
        document.notes.append(f"{attached} files are attached within it, which are not read")
    return document


def _load(file: IO[bytes]) -> "pypdfium2.PdfDocument":
    try:
        import pypdfium2
    except ImportError as error:
        raise import_failure(error, EXTRA) from None
    try:
        return pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", 0) == _PASSWORD_ERROR:
            raise UnreadableError(ENCRYPTED) from None
        if getattr(error, "err_code", 0) == _FORMAT_ERROR:
            raise UnreadableError(DAMAGED, "a part of it is missing, or it is no PDF") from None
        raise UnreadableError(DAMAGED, str(error)) from None


def _get_page(pdf: "pypdfium2.PdfDocument", number: int) -> "pypdfium2.PdfPage":
    import pypdfium2

    try:
        return pdf.get_page(number - 1)
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise UnreadableError(DAMAGED, f"page {number}: {error}") from None


def _read_page(pdf: "pypdfium2.PdfDocument", number: int) -> Iterator[str]:
    import pypdfium2

    try:
        page = _get_page(pdf, number)
        words = page.get_textpage()
    except (UnreadableError, pypdfium2.PdfiumError):
        yield "[this page cannot be read]"
        return
    try:
        count = words.count_chars()
        text = words.get_text_range(0, min(count, _MAX_CHARACTERS)) if count > 0 else ""
        text = _order_lines(words, min(count, _MAX_CHARACTERS)) if has_right_to_left(text) else text
        pictures = 0 if text.strip() else _count_pictures(page)
    finally:
        words.close()
        page.close()
    if not text.strip():
        yield f"[no text on this page{', a picture' if pictures else ''}]"
        return
    yield from clean_page_text(text).split("\n")
    if count > _MAX_CHARACTERS:
        yield f"[{count - _MAX_CHARACTERS:,} more characters of this page are left out]"


def _order_lines(words: "pypdfium2.PdfTextPage", count: int) -> str:
    """Return a page's text with its lines from right to left in the order in which they are read."""
    import pypdfium2.raw as pdfium

    lines: list[str] = []
    letters: list[PlacedLetter] = []
    plain: list[str] = []
    box = pdfium.FS_RECTF()
    for place in range(count):
        letter = chr(pdfium.FPDFText_GetUnicode(words, place))
        if letter in "\r\n":
            if letter == "\n":
                lines.append(_join_letters(letters, plain))
                letters, plain = [], []
            continue
        plain.append(letter)
        if not letter.strip():
            letters.append(PlacedLetter(" ", 0.0, 0.0, 0.0))
        elif pdfium.FPDFText_GetLooseCharBox(words, place, box):
            letters.append(PlacedLetter(letter, box.left, box.right, box.top - box.bottom))
    lines.append(_join_letters(letters, plain))
    return "\n".join(lines)


def _join_letters(letters: list[PlacedLetter], plain: list[str]) -> str:
    text = "".join(plain)
    return order_line(letters) if has_right_to_left(text) else text


def _count_pictures(page: "pypdfium2.PdfPage") -> int:
    import pypdfium2.raw as pdfium

    return sum(1 for _ in page.get_objects(filter=(pdfium.FPDF_PAGEOBJ_IMAGE,), max_depth=3))


def clean_page_text(text: str) -> str:
    """Return a page's text with words whole, and with letters in the place of their forms in a line."""
    text = text.replace(f"{_SOFT_HYPHEN}\r\n", "").replace(_SOFT_HYPHEN, "").replace("\r\n", "\n").replace("\r", "\n")
    return "".join(map(_normalize_letter, text)) if any("\ufb00" <= one <= "\ufefc" for one in text) else text


def _normalize_letter(letter: str) -> str:
    """Return the letters that a ligature or an Arabic letter's form stands for."""
    return unicodedata.normalize("NFKC", letter) if "\ufb00" <= letter <= "\ufefc" else letter


def render_page(file: IO[bytes], number: int, side: int) -> tuple[tuple[int, int], str, bytes]:
    """Return a page as pixels: the size, the order of colours, and the bytes. Raises UnreadableError."""
    pdf = _load(file)
    if not 0 < number <= len(pdf):
        raise UnreadableError(RANGE, f"{len(pdf)} page")
    page = _get_page(pdf, number)
    width, height = page.get_size()
    if not (0 < width < 1e6 and 0 < height < 1e6):
        raise UnreadableError(DAMAGED, f"page {number} has no usable size")
    scale = min(side / max(width, height), (_MAX_PIXELS / (width * height)) ** 0.5, 8.0)
    bitmap = page.render(scale=scale, rev_byteorder=True, prefer_bgrx=False, maybe_alpha=False)
    if bitmap.stride * bitmap.height > _MAX_PIXELS * 4:
        raise UnreadableError(MEMORY)
    row = bitmap.width * 3
    raw = ctypes.string_at(bitmap.buffer, bitmap.stride * bitmap.height)
    rows = (raw[at : at + row] for at in range(0, len(raw), bitmap.stride))
    return (bitmap.width, bitmap.height), "RGB", b"".join(rows)
