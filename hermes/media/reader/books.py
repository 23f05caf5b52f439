"""Books (.epub): a unit a chapter, in the order of reading."""

import posixpath
from collections.abc import Iterator
from urllib.parse import unquote

from hermes.media.reader.archives import Archive
from hermes.media.reader.document import Document
from hermes.media.reader.failures import DAMAGED, ENCRYPTED, UnreadableError
from hermes.media.reader.web_text import convert_page, decode_text
from hermes.media.reader.xml_events import read_whole

_FONT_ALGORITHMS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
"""What only hides fonts, not the text."""


def open_book(archive: Archive) -> Document:
    """Return the book in an archive. Raises UnreadableError."""
    _check_lock(archive.read_part("META-INF/encryption.xml"))
    package = _find_package(archive)
    folder = posixpath.dirname(package)
    files: dict[str, str] = {}
    order: list[str] = []
    title = ""
    events = read_whole(archive.read_part(package))
    for name, attributes in events.walk():
        if name == "title" and not title:
            title = " ".join(events.read_text().split())
        elif name == "item":
            path = unquote(attributes.get("href", ""))
            files[attributes.get("id", "")] = posixpath.normpath(posixpath.join(folder, path))
        elif name == "itemref":
            order.append(attributes.get("idref", ""))
    chapters = [files[one] for one in order if one in files and archive.has_part(files[one])]
    if not chapters:
        raise UnreadableError(DAMAGED, "it has no chapters")

    def read_chapter(number: int) -> Iterator[str]:
        text, _ = convert_page(decode_text(archive.read_part(chapters[number - 1])))
        yield from text.split("\n")

    return Document(kind="book", read_unit=read_chapter, unit="chapter", count=len(chapters), title=title)


def _check_lock(data: bytes) -> None:
    """Raise UnreadableError where more than fonts is encrypted."""
    if sum(map(data.count, _FONT_ALGORITHMS)) < data.count(b"EncryptionMethod"):
        raise UnreadableError(ENCRYPTED)


def _find_package(archive: Archive) -> str:
    for name, attributes in read_whole(archive.read_part("META-INF/container.xml")).walk():
        if name == "rootfile" and archive.has_part(attributes.get("full-path", "")):
            return attributes["full-path"]
    raise UnreadableError(DAMAGED, "it names no package")
