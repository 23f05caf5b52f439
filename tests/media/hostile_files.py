"""Files that are made to harm a reader: bombs, headers that promise too much, entities, nests, and broken ones."""

import base64
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

from tests.media.made_files import (
    WORD,
    book_file,
    mail_file,
    make_blocks,
    notebook_file,
    odf_file,
    pack,
    relate,
    sheet_file,
    slide_file,
    text_file,
    word_file,
)

LAUGHS = "".join(
    f'<!ENTITY l{number} "{"".join([f"&l{number - 1};"] * 10) if number else "laugh"}">' for number in range(12)
)
MINIMAL_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 44>>stream\nBT /F1 24 Tf 40 100 Td (Hello reader) Tj ET\nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
)


@dataclass(frozen=True)
class HostileFile:
    """A file with the name that it comes under. `is_read`: it does no harm, so its text or its list may be shown.

    Bombs take seconds to pack, so their `content` is what makes them once they are wanted.
    """

    name: str
    content: bytes | Callable[[], bytes]
    is_read: bool = False

    @cached_property
    def data(self) -> bytes:
        """What lies in the file."""
        return self.content if isinstance(self.content, bytes) else self.content()


def list_hostile_files() -> list[HostileFile]:
    """Return the files that are written by hand, each of another kind."""
    return [*_list_archives(), *_list_xml(), *_list_sheets(), *_list_others(), *_list_pictures()]


def list_broken_files(count: int, seed: int) -> Iterator[HostileFile]:
    """Yield files of every kind that are cut, or in which bytes are changed; some of them can still be read."""
    blocks = make_blocks("english", 5)
    wholes = {
        "a.docx": word_file(blocks),
        "a.xlsx": sheet_file([row for block in blocks for row in block.rows]),
        "a.pptx": slide_file([blocks]),
        "a.odt": text_file(blocks),
        "a.epub": book_file(["<html><body><p>words</p></body></html>"]),
        "a.ipynb": notebook_file(blocks),
        "a.eml": mail_file(blocks),
        "a.pdf": MINIMAL_PDF,
        "a.png": make_png(40, 40),
        "a.jpg": base64.b64decode(SMALL_JPEG),
        "a.heic": base64.b64decode(SMALL_HEIC),
        "a.zip": pack({"b": "c" * 100, "d": "e"}),
    }
    chance = random.Random(seed)
    names = list(wholes)
    for number in range(count):
        name = names[number % len(names)]
        data = bytearray(wholes[name])
        if number // len(names) % 2:
            for _ in range(chance.randrange(1, 30)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        else:
            del data[chance.randrange(1, len(data)) :]
        yield HostileFile(f"{number}{name}", bytes(data), is_read=True)


def make_png(width: int, height: int, *, color: int = 2, body: bytes | None = None) -> bytes:
    """Return a PNG of these measures; `body` in the place of its pixels."""
    wide = {0: 1, 2: 3, 6: 4}[color] * width
    pixels = body if body is not None else zlib.compress((b"\0" + bytes(wide)) * height)
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _repeat(start: bytes, middle: bytes, count: int, end: bytes) -> Iterator[bytes]:
    yield start
    for _ in range(count):
        yield middle
    yield end


def _pack_stream(parts: dict[str, Iterator[bytes]], others: dict[str, str | bytes] | None = None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in (others or {}).items():
            archive.writestr(name, data)
        for name, pieces in parts.items():
            with archive.open(name, "w") as part:
                for piece in pieces:
                    part.write(piece)
    return out.getvalue()


def _list_archives() -> list[HostileFile]:
    blank = b" " * (1 << 20)
    document = f'<w:document xmlns:w="{WORD}"><w:body>'.encode()
    types: dict[str, str | bytes] = {"[Content_Types].xml": "<Types/>"}
    nested = b"core"
    for _ in range(30):
        nested = pack({"in.zip": nested})
    quoted = bytearray(pack({f"{number:05}": b"0" * 60_000 for number in range(40)}))
    at = quoted.find(b"PK\x01\x02")
    struct.pack_into("<I", quoted, at + 24, 0xFFFFFFF0)
    locked = bytearray(pack({"secret.txt": "words"}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.find(mark) + place] |= 1
    locked_document = bytearray(word_file([]))
    start = 0
    while (start := locked_document.find(b"PK\x01\x02", start)) >= 0:
        locked_document[start + 8] |= 1
        start += 4
    overlapping = pack({"a": "x" * 1_000})
    entry = overlapping[overlapping.find(b"PK\x01\x02") : overlapping.find(b"PK\x05\x06")]
    end = struct.pack(
        "<IHHHHIIH", 0x06054B50, 0, 0, 9_000, 9_000, len(entry) * 9_000, overlapping.find(b"PK\x01\x02"), 0
    )
    return [
        HostileFile(
            "bomb.docx",
            partial(
                _pack_stream, {"word/document.xml": _repeat(document, blank, 600, b"</w:body></w:document>")}, types
            ),
        ),
        HostileFile(
            "words.docx",
            partial(
                _pack_stream,
                {
                    "word/document.xml": _repeat(
                        document, b"<w:p><w:r><w:t>words words</w:t></w:r></w:p>" * 2_000, 3_000, b""
                    )
                },
                types,
            ),
            is_read=True,
        ),
        HostileFile(
            "one_word.docx",
            partial(
                _pack_stream,
                {"word/document.xml": _repeat(document + b"<w:p><w:r><w:t>", b"w" * (1 << 20), 200, b"")},
                types,
            ),
        ),
        HostileFile(
            "notes.docx",
            partial(
                _pack_stream,
                {
                    "word/document.xml": _repeat(document, b"", 0, b"</w:body></w:document>"),
                    "word/_rels/document.xml.rels": _repeat(
                        b"<Relationships>",
                        b"<Relationship Id='a' Type='b' Target='c'/>" * 1_000,
                        5_000,
                        b"</Relationships>",
                    ),
                },
                types,
            ),
        ),
        HostileFile(
            "bomb.odt",
            partial(
                _pack_stream,
                {"content.xml": _repeat(b"<a>", blank, 600, b"</a>")},
                {"mimetype": "application/vnd.oasis.opendocument.text"},
            ),
        ),
        HostileFile(
            "bomb.epub",
            partial(
                _pack_stream,
                {"OPS/c.xhtml": _repeat(b"<html>", blank, 400, b"</html>")},
                {
                    "mimetype": "application/epub+zip",
                    "META-INF/container.xml": "<c><rootfile full-path='p.opf'/></c>",
                    "p.opf": "<p><item id='c' href='OPS/c.xhtml'/><itemref idref='c'/></p>",
                },
            ),
        ),
        HostileFile("nested.zip", nested, is_read=True),
        HostileFile("lies.zip", bytes(quoted), is_read=True),
        HostileFile("many.zip", partial(pack, {str(number): "" for number in range(30_000)})),
        HostileFile("overlap.zip", overlapping[: overlapping.find(b"PK\x01\x02")] + entry * 9_000 + end, is_read=True),
        HostileFile("locked.zip", bytes(locked), is_read=True),
        HostileFile("locked.docx", bytes(locked_document)),
        HostileFile("up.zip", pack({"../../etc/passwd": "x", "/abs": "y", "C:\\z": "z", "a\nb": "c"}), is_read=True),
        HostileFile("empty.zip", b"PK\x05\x06" + bytes(18), is_read=True),
        HostileFile("only_mark.docx", b"PK\x03\x04"),
    ]


def _list_xml() -> list[HostileFile]:
    laughs = f"<!DOCTYPE x [{LAUGHS}]>"
    outside = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
    remote = '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">'
    body = f'<w:document xmlns:w="{WORD}"><w:body><w:p><w:r><w:t>{{}}</w:t></w:r></w:p></w:body></w:document>'
    made: list[HostileFile] = []
    for name, start, entity in (("laughs", laughs, "&l11;"), ("outside", outside, "&e;"), ("remote", remote, "")):
        part = start + body.format(entity)
        made.append(HostileFile(f"{name}.docx", pack({"[Content_Types].xml": "<Types/>", "word/document.xml": part})))
        sheet: dict[str, str | bytes] = {"xl/sharedStrings.xml": f"{start}<sst><si><t>{entity}</t></si></sst>"}
        made.append(HostileFile(f"{name}.xlsx", sheet_file([["a"]], more=sheet)))
        content = pack(
            {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": f"{start}<a>{entity}</a>"}
        )
        made.append(HostileFile(f"{name}.odt", content))
        package = {"mimetype": "application/epub+zip", "META-INF/container.xml": f"{start}<c>{entity}</c>"}
        made.append(HostileFile(f"{name}.epub", pack(dict(package))))
    deep = "<a>" * 100_000
    cells = "<w:tbl><w:tr><w:tc>" * 5_000
    many = " ".join(f"a{number}='1'" for number in range(200_000))
    utf_16 = body.format("words").encode("utf-16")
    others = {
        "deep": deep,
        "deep_tables": f'<w:document xmlns:w="{WORD}"><w:body>{cells}',
        "attributes": f"<a {many}>",
        "long_attribute": f"<a b='{'x' * 20_000_000}'>",
        "names": f'<w:document xmlns:w="{WORD}">{"".join(f"<n{number}/>" for number in range(300_000))}</w:document>',
        "encoding": "<?xml version='1.0' encoding='idna'?><a/>",
        "rot13": "<?xml version='1.0' encoding='rot13'?><a/>",
        "not_xml": "\0\1\2 nothing of XML",
    }
    for name, part in others.items():
        is_read = name == "names"
        parts: dict[str, str | bytes] = {"[Content_Types].xml": "<Types/>", "word/document.xml": part}
        made.append(HostileFile(f"{name}.docx", partial(pack, parts), is_read=is_read))
    wide: dict[str, str | bytes] = {"[Content_Types].xml": "<Types/>", "word/document.xml": utf_16}
    return [*made, HostileFile("utf16.docx", pack(wide), is_read=True)]


def _list_sheets() -> list[HostileFile]:
    far = '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
    absurd = '<row r="99999999999"><c r="ZZZZZZ9"><v>1e999</v></c><c r="A2" t="s"><v>99999999</v></c></row>'
    styles: dict[str, str | bytes] = {
        "xl/styles.xml": "<styleSheet><cellXfs>" + "<xf numFmtId='14'/>" * 100_000 + "</cellXfs></styleSheet>"
    }
    repeated = (
        '<table:table table:name="t"><table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p></table:table-cell>'
        "</table:table-row></table:table>"
    )
    spaces = '<text:p><text:s text:c="999999999"/>word</text:p>'
    text = base64.b64decode("0M8R4KGxGuE=") + bytes(504)
    long_span = f'<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="{"9" * 9_000}"/></w:tcPr></w:tc></w:tr></w:tbl>'
    return [
        HostileFile("span.docx", word_file([], body=long_span)),
        HostileFile("far.xlsx", sheet_file([["a"]], end=far), is_read=True),
        HostileFile("absurd.xlsx", sheet_file([["a"]], end=absurd), is_read=True),
        HostileFile(
            "dates.xlsx",
            sheet_file([['<c r="A1" s="1"><v>1e308</v></c>', '<c r="B1" s="1"><v>-5</v></c>']]),
            is_read=True,
        ),
        HostileFile("styles.xlsx", sheet_file([["a"]], more=styles), is_read=True),
        HostileFile(
            "shared.xlsx",
            partial(
                _pack_stream,
                {
                    "xl/sharedStrings.xml": _repeat(
                        b"<sst>", b"<si><t>" + b"s" * 60_000 + b"</t></si>", 3_000, b"</sst>"
                    )
                },
                {**_parts(sheet_file([['<c r="A1" t="s"><v>2999</v></c>']]), "xl/sharedStrings.xml")},
            ),
        ),
        HostileFile("repeated.ods", odf_file("spreadsheet", "spreadsheet", repeated), is_read=True),
        HostileFile("spaces.odt", odf_file("text", "text", spaces), is_read=True),
        HostileFile("no_sheets.ods", odf_file("spreadsheet", "spreadsheet", "")),
        HostileFile("empty.xls", text),
        HostileFile("noise.xls", text + random.Random(3).randbytes(40_000)),
        HostileFile("encrypted.xlsx", text + "EncryptedPackage".encode("utf-16-le") + bytes(600)),
        HostileFile("old.doc", text + "WordDocument".encode("utf-16-le") + bytes(600)),
    ]


def _parts(archive: bytes, *without: str) -> dict[str, str | bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist() if name not in without}


def _pdf(objects: str, *, more: bytes = b"") -> bytes:
    return b"%PDF-1.7\n" + objects.encode("latin-1") + more + b"\ntrailer<</Root 1 0 R>>\n%%EOF\n"


def _list_others() -> list[HostileFile]:
    catalog = "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    circle = "2 0 obj<</Type/Pages/Kids[2 0 R 2 0 R]/Count 99999999>>endobj\n"
    kids = "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R"
    kids += "/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj\n"

    def make_bomb() -> bytes:
        twice = zlib.compress(zlib.compress(bytes(300 << 20), 9), 9)
        flate = f"4 0 obj<</Length {len(twice)}/Filter[/FlateDecode/FlateDecode]>>stream\n"
        return _pdf(catalog + kids + flate, more=twice + b"\nendstream endobj")

    huge = MINIMAL_PDF.replace(b"[0 0 300 300]", b"[0 0 1e30 1e30]")
    encrypted = MINIMAL_PDF.replace(
        b"trailer<<",
        b"6 0 obj<</Filter/Standard/V 1/R 2/P -4/O<" + b"00" * 32 + b">/U<" + b"11" * 32 + b">>>endobj\n"
        b"trailer<</Encrypt 6 0 R/ID[<00><00>]",
    )
    deep_mail = b"From: a\nContent-Type: multipart/mixed; boundary=b\n\n"
    for _ in range(200):
        deep_mail += b"--b\nContent-Type: multipart/mixed; boundary=b\n\n"
    parts = b"From: a\nContent-Type: multipart/mixed; boundary=b\n\n" + b"--b\nContent-Type: text/plain\n\nx\n" * 50_000
    odd = (
        b"From: =?utf-8?q?"
        + b"=F0" * 5_000
        + b"?=\nTo: <\nDate: 99\nSubject: =?idna?b?////?=\nContent-Type: text/plain; charset=idna\n\nx"
    )
    return [
        HostileFile("circle.pdf", _pdf(catalog + circle)),
        HostileFile("bomb.pdf", make_bomb),
        HostileFile("huge.pdf", huge, is_read=True),
        HostileFile("encrypted.pdf", encrypted),
        HostileFile("noise.pdf", b"%PDF-1.7\n" + random.Random(1).randbytes(60_000)),
        HostileFile("deep.pdf", _pdf(catalog + "2 0 obj" + "[" * 100_000 + "endobj")),
        HostileFile("text.pdf", b"no PDF at all", is_read=True),
        HostileFile("deep.ipynb", b'{"cells":' + b"[" * 200_000),
        HostileFile(
            "wide.ipynb", b'{"cells":[' + b'{"cell_type":"code","source":"x"},' * 600_000 + b"{}]}", is_read=True
        ),
        HostileFile("numbers.ipynb", b'{"cells":[{"source":' + b"9" * 10_000 + b"}]}"),
        HostileFile(
            "odd.ipynb",
            json.dumps({"cells": [{"cell_type": 5, "source": {"a": 1}, "outputs": [3, {"data": []}]}, 7]}).encode(),
            is_read=True,
        ),
        HostileFile("no_cells.ipynb", b'{"a": 1}'),
        HostileFile("deep.eml", deep_mail, is_read=True),
        HostileFile("parts.eml", parts),
        HostileFile("odd.eml", odd, is_read=True),
        HostileFile("page.eml", mail_file([], html="<div>" * 60_000), is_read=True),
        HostileFile("deep.epub", book_file(["<html><body>" + "<div>" * 50_000])),
        HostileFile("mislabelled.docx", make_png(4, 4), is_read=True),
        HostileFile("mislabelled.png", word_file(make_blocks("english", 1)), is_read=True),
        HostileFile(
            "relations.docx",
            word_file([], more={"word/_rels/document.xml.rels": relate(("header", "../../../../etc/passwd"))}),
            is_read=True,
        ),
    ]


def _list_pictures() -> list[HostileFile]:
    jpeg = bytearray(base64.b64decode(SMALL_JPEG))
    at = jpeg.find(b"\xff\xc0")
    struct.pack_into(">HH", jpeg, at + 5, 65_500, 65_500)
    gif = (
        b"GIF89a"
        + struct.pack("<HH", 65_535, 65_535)
        + b"\x80\0\0"
        + bytes(6)
        + b",\0\0\0\0\xff\xff\xff\xff\0\x02\x02L\x01\0;"
    )
    webp = (
        b"RIFF"
        + struct.pack("<I", 30)
        + b"WEBPVP8X"
        + struct.pack("<I", 10)
        + b"\0\0\0\0"
        + b"\xff\xff\xff" * 2
        + bytes(8)
    )
    tiff = (
        b"II*\0\x08\0\0\0"
        + struct.pack("<H", 3)
        + struct.pack("<HHII", 256, 4, 1, 60_000)
        + struct.pack("<HHII", 257, 4, 1, 60_000)
        + struct.pack("<HHII", 273, 4, 1, 8)
        + bytes(4)
    )
    bmp = b"BM" + struct.pack("<IIIIiiHHIIIIII", 100, 0, 54, 40, 2_000_000_000, 2_000_000_000, 1, 24, 0, 0, 0, 0, 0, 0)
    circle = b"II*\0\x08\0\0\0" + struct.pack("<H", 0) + struct.pack("<I", 8)
    return [
        HostileFile("pixels.png", make_png(31_623, 31_623, body=zlib.compress(bytes(1_000)))),
        HostileFile("most.png", make_png(0x7FFFFFFF, 0x7FFFFFFF, body=b"")),
        HostileFile("bomb.png", lambda: make_png(25_000, 25_000, color=0, body=zlib.compress(bytes(625_025_000), 9))),
        HostileFile(
            "text.png",
            lambda: (
                make_png(4, 4)[:-12]
                + _chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(200 << 20), 9))
                + _chunk(b"IEND", b"")
            ),
            is_read=True,
        ),
        HostileFile(
            "profile.png",
            lambda: (
                make_png(4, 4)[:33]
                + _chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(200 << 20), 9))
                + make_png(4, 4)[33:]
            ),
            is_read=True,
        ),
        HostileFile("pixels.jpg", bytes(jpeg)),
        HostileFile("only_mark.jpg", b"\xff\xd8\xff"),
        HostileFile("pixels.gif", gif),
        HostileFile("pixels.webp", webp),
        HostileFile("pixels.tif", tiff),
        HostileFile("circle.tif", circle),
        HostileFile("pixels.bmp", bmp),
        HostileFile("cut.heic", base64.b64decode(SMALL_HEIC)[:200]),
        HostileFile(
            "boxes.heic", base64.b64decode(SMALL_HEIC).replace(b"ispe\0\0\0\0\0\0\0", b"ispe\0\0\0\0\x7f\xff\xff")
        ),
        HostileFile("brand.avif", b"\0\0\0\x1cftypavif\0\0\0\0avifmif1" + bytes(200)),
    ]


SMALL_JPEG = (
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYV"
    "pQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAI"
    "AAgDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhBy"
    "JxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKT"
    "lJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAA"
    "AAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRom"
    "JygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExc"
    "bHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwBtFFFeCfIn/9k="
)
"""A picture of 8 x 8 pixels."""
SMALL_HEIC = (
    "AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAX1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAACJpbG9jAA"
    "AAAERAAAEAAQAAAAABoQABAAAAAAAAABwAAAAjaWluZgAAAAAAAQAAABVpbmZlAgAAAAABAABodmMxAAAAAA5waXRtAAAAAAABAAAA/WlwcnAA"
    "AADdaXBjbwAAAHZodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGEABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQAqQgEBA3AAAAMAkA"
    "AAAwAAAwAeoCCBBZbq5Ka5uAhoMCAAAAMDIAAAAwAhYgABAAZEAcFzwIkAAAATY29scm5jbHgAAQANAAaAAAAAFGlzcGUAAAAAAAAAQAAAAEAA"
    "AAAoY2xhcAAAAEAAAAABAAAAMAAAAAEAAAAAAAAAAv////AAAAACAAAAEHBpeGkAAAAAAwgICAAAABhpcG1hAAAAAAAAAAEAAQWBAgMFhAAAAC"
    "RtZGF0AAAAGCgBr1jnSyXpAHgfGFu1AAivAx3fpo60WA=="
)
"""A picture of 64 x 48 pixels in grey noise, coded as HEVC."""
