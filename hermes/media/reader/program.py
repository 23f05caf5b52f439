"""Reads one file: the file on standard input, a request as an argument, one line of JSON and perhaps a picture's bytes
as the answer on standard output.
"""

import json
import os
import struct
import sys
from typing import IO

from hermes.media.reader.archives import Archive
from hermes.media.reader.document import Document, Window, show_window
from hermes.media.reader.failures import DAMAGED, ENCRYPTED, MEMORY, UNSUPPORTED, UnreadableError

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HEAD = 1_024
_DAMAGED = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError, RuntimeError, AssertionError),
    struct.error,
)
"""What a parser raises for what it did not expect, in a file that nobody has looked at before."""
_OLE_SEARCHED = 16 << 20
_OLE_DOCUMENTS = (
    ("WordDocument", "an old Word document; saved as .docx it can be read"),
    ("PowerPoint Document", "an old PowerPoint file; saved as .pptx it can be read"),
)


def main() -> int:
    """Answer the request; return the exit code."""
    request = json.loads(sys.argv[-1])
    data = b""
    with os.fdopen(0, "rb", closefd=False) as file:
        file.seek(0)
        try:
            answer, data = answer_request(request, file)
        except UnreadableError as error:
            answer = {"failed": error.code, "detail": error.detail[:300]}
        except MemoryError:
            answer = {"failed": MEMORY}
        except RecursionError:
            answer = {"failed": DAMAGED, "detail": "it is nested too deep"}
        except _DAMAGED as error:
            answer = {"failed": DAMAGED, "detail": f"{type(error).__name__}: {error}"[:300]}
    answer["peak"] = _read_peak()
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(json.dumps(answer).encode("ascii") + b"\n" + data)
    return 0


def answer_request(request: dict[str, object], file: IO[bytes]) -> tuple[dict[str, object], bytes]:
    """Return the answer, and a picture's bytes where one is asked for. Raises UnreadableError."""
    what = request["want"]
    if what == "text":
        window = Window(**_pick_numbers(request, ("first", "last", "offset", "lines", "characters")))
        return show_window(open_document(file, str(request.get("kind", ""))), window), b""
    from hermes.media.reader.pictures import SizeLimit, encode_pixels, fit_picture

    limits = _pick_numbers(request, ("pixels", "bytes"))
    limit = SizeLimit(limits["pixels"], limits["bytes"])
    if what == "page":
        from hermes.media.reader.pdf_documents import render_page

        found = encode_pixels(*render_page(file, _pick_numbers(request, ("page",))["page"], limit.pixels), limit)
    else:
        found = fit_picture(file, limit, clean=what == "clean picture")
    return {"media_type": found.media_type, "size": found.size, "original": found.original}, found.data


def _pick_numbers(request: dict[str, object], names: tuple[str, ...]) -> dict[str, int]:
    return {name: value for name in names if isinstance(value := request.get(name), int)}


def open_document(file: IO[bytes], kind: str) -> Document:
    """Return the document in a file; `kind` says what it is where its bytes do not. Raises UnreadableError."""
    head = file.read(_HEAD)
    file.seek(0)
    if b"%PDF-" in head:
        from hermes.media.reader.pdf_documents import open_pdf

        return open_pdf(file)
    if head.startswith(_OLE):
        return _open_ole(file)
    if head.startswith(b"PK"):
        return _open_archive(Archive(file), file)
    if kind == "notebook":
        from hermes.media.reader.notebooks import MAX_NOTEBOOK, open_notebook

        return open_notebook(file.read(MAX_NOTEBOOK + 1))
    if kind == "mail":
        from hermes.media.reader.mails import open_mail

        return open_mail(file)
    if kind == "page":
        from hermes.media.reader.web_text import convert_page, decode_text

        text, title = convert_page(decode_text(file.read(32 << 20)))
        return Document(kind="page", read_unit=lambda _: text.split("\n"), title=title)
    raise UnreadableError(UNSUPPORTED)


def _open_archive(archive: Archive, file: IO[bytes]) -> Document:
    """Return the document that an archive is, else the list of its files."""
    if archive.has_part("[Content_Types].xml"):
        if archive.list_parts("word/"):
            from hermes.media.reader.word_documents import open_word_document

            return open_word_document(archive)
        if archive.has_part("xl/workbook.bin"):
            from hermes.media.reader.binary_workbooks import open_binary_workbook

            return open_binary_workbook(file)
        if archive.list_parts("xl/"):
            from hermes.media.reader.workbooks import open_workbook

            return open_workbook(archive)
        if archive.list_parts("ppt/"):
            from hermes.media.reader.slides import open_presentation

            return open_presentation(archive)
    media_type = archive.read_part("mimetype", 1_000).decode("ascii", "replace").strip() if _is_small(archive) else ""
    if media_type == "application/epub+zip":
        from hermes.media.reader.books import open_book

        return open_book(archive)
    if media_type.startswith("application/vnd.oasis."):
        from hermes.media.reader.open_documents import open_open_document

        found = open_open_document(archive, media_type)
        if found is not None:
            return found
    from hermes.media.reader.listings import list_archive

    return list_archive(archive)


def _is_small(archive: Archive) -> bool:
    return any(one.filename == "mimetype" and one.file_size < 1_000 for one in archive.entries)


def _open_ole(file: IO[bytes]) -> Document:
    """Return the workbook in an old container; what else may be in it is told by name."""
    data = file.read(_OLE_SEARCHED)
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise UnreadableError(ENCRYPTED)
    for name, what in _OLE_DOCUMENTS:
        if name.encode("utf-16-le") in data:
            raise UnreadableError(UNSUPPORTED, what)
    del data
    file.seek(0)
    from hermes.media.reader.binary_workbooks import open_binary_workbook

    return open_binary_workbook(file)


def _read_peak() -> int:
    """Return the most memory that this process has held, in kB; 0 where that is not told."""
    try:
        with open("/proc/self/status", "rb") as status:
            return next((int(line.split()[1]) for line in status if line.startswith(b"VmHWM")), 0)
    except OSError:
        return 0
