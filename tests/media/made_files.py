"""Files of the kinds that are read, made here by small writers, with the words that a reader must find in them."""

import base64
import io
import json
import random
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from email.message import EmailMessage
from html import escape
from pathlib import Path
from shutil import which
from subprocess import DEVNULL, run

ENGLISH = str.split("""
    report river window market garden engine letter mountain bridge summer paper winter signal harvest copper village
    the of and with from between after before under over quickly slowly never always small large early late
""")
ARABIC = str.split(
    "مرحبا بالعالم هذا نص عربي للاختبار كتاب مدرسة الطقس اليوم جميل المدينة القديمة نهر جبل سوق لا إله الأمل"
)
CHINESE = "天气报告今天很好我们去公园散步城市河流山脉市场花园信号收获铜村庄之间总是从不早晚大小快慢纸张冬夏桥梁"
LANGUAGES = ("english", "chinese", "arabic")
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
ODF = "urn:oasis:names:tc:opendocument:xmlns"


@dataclass(frozen=True)
class Block:
    """A heading, a paragraph, the items of a list, or the rows of a table."""

    kind: str
    rows: Sequence[Sequence[str]]


def make_blocks(language: str, seed: int, count: int = 12) -> list[Block]:
    """Return blocks of words, the same for a seed."""
    chance = random.Random(f"{language} {seed}")
    found = [Block("heading", [[make_sentence(language, chance, 4)]])]
    for _ in range(count):
        kind = chance.choice(("paragraph", "paragraph", "paragraph", "list", "table", "heading"))
        if kind == "table":
            columns = chance.randrange(2, 5)
            rows = [[make_sentence(language, chance, 2) for _ in range(columns)] for _ in range(chance.randrange(2, 6))]
        elif kind == "list":
            rows = [[make_sentence(language, chance, 5)] for _ in range(chance.randrange(2, 5))]
        else:
            rows = [[make_sentence(language, chance, 5 if kind == "heading" else 25)]]
        found.append(Block(kind, rows))
    return found


def make_sentence(language: str, chance: random.Random, length: int) -> str:
    """Return words of a language."""
    if language == "chinese":
        return "".join(chance.choice(CHINESE) for _ in range(length * 2)) + "。"
    words = [chance.choice(ARABIC if language == "arabic" else ENGLISH) for _ in range(length)]
    if chance.random() < 0.3:
        words.insert(len(words) // 2, str(chance.randrange(10, 9_999)))
    return " ".join(words)


def list_texts(blocks: Sequence[Block]) -> list[str]:
    """Return all texts in order."""
    return [text for block in blocks for row in block.rows for text in row]


def split_words(text: str) -> list[str]:
    """Return the words of a text after NFKC; Chinese ones are characters."""
    plain = unicodedata.normalize("NFKC", text)
    return re.findall(r"[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]+", plain)


def measure_share(expected: Sequence[str], found: str) -> float:
    """Return how many of the expected words are found in their order, of 1."""
    wanted, words = split_words(" ".join(expected)), split_words(found)
    matcher = SequenceMatcher(None, wanted, words, autojunk=False)
    return sum(block.size for block in matcher.get_matching_blocks()) / max(len(wanted), 1)


def pack(parts: dict[str, str | bytes], *, stored: Sequence[str] = ()) -> bytes:
    """Return a zip archive of these parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data, zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def declare_types(**kinds: str) -> str:
    """Return the types of a package's parts, each of a kind by its name; `/` stands as `__`."""
    start = "application/vnd.openxmlformats-officedocument."
    rows = "".join(
        f'<Override PartName="/{name.replace("__", "/")}.xml" ContentType="{start}{kind}+xml"/>'
        for name, kind in kinds.items()
    )
    return (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Default Extension="xml" ContentType="application/xml"/>{rows}</Types>'
    )


def relate(*targets: tuple[str, str]) -> str:
    """Return the relations of a part, each of a kind to a target, with the ids rId1, rId2, ..."""
    rows = "".join(
        f'<Relationship Id="rId{number}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{RELATIONS}">{rows}</Relationships>'


def word_file(
    blocks: Sequence[Block],
    *,
    body: str = "",
    more: dict[str, str | bytes] | None = None,
    is_right_to_left: bool = False,
) -> bytes:
    """Return a .docx; `body` is XML behind the blocks, `more` further parts."""
    found: list[str] = []
    side = "<w:tblPr><w:bidiVisual/></w:tblPr>" if is_right_to_left else ""
    line = "<w:bidi/>" if is_right_to_left else ""
    for block in blocks:
        if block.kind == "table":
            found.append(f"<w:tbl>{side}{''.join(map(_word_row, block.rows))}</w:tbl>")
            continue
        style = {
            "heading": '<w:pStyle w:val="Heading1"/>',
            "list": '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="7"/></w:numPr>',
        }.get(block.kind, "")
        found += [f"<w:p><w:pPr>{style}{line}</w:pPr>{_word_run(text)}</w:p>" for row in block.rows for text in row]
    document = f'<w:document xmlns:w="{WORD}" xmlns:r="{OFFICE}"><w:body>{"".join(found)}{body}</w:body></w:document>'
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": declare_types(word__document="wordprocessingml.document.main"),
        "_rels/.rels": relate(("officeDocument", "word/document.xml")),
        "word/document.xml": document,
    }
    return pack({**parts, **(more or {})})


def _word_run(text: str) -> str:
    middle = len(text) // 2  # a word may be cut into runs anywhere
    halves = (text[:middle], text[middle:])
    return "".join(f'<w:r><w:t xml:space="preserve">{escape(one)}</w:t></w:r>' for one in halves)


def _word_row(cells: Sequence[str]) -> str:
    return f"<w:tr>{''.join(f'<w:tc><w:p>{_word_run(one)}</w:p></w:tc>' for one in cells)}</w:tr>"


def sheet_file(rows: Sequence[Sequence[object]], *, more: dict[str, str | bytes] | None = None, end: str = "") -> bytes:
    """Return an .xlsx of one sheet; texts are shared, numbers are numbers, a string that begins with `<` is a cell."""
    shared: list[str] = []
    lines: list[str] = []
    for number, row in enumerate(rows, 1):
        cells = "".join(
            _sheet_cell(f"{chr(64 + column)}{number}", value, shared) for column, value in enumerate(row, 1)
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    texts = "".join(f"<si><t>{escape(one)}</t></si>" for one in shared)
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": declare_types(
            xl__workbook="spreadsheetml.sheet.main",
            xl__worksheets__sheet1="spreadsheetml.worksheet",
            xl__sharedStrings="spreadsheetml.sharedStrings",
            xl__styles="spreadsheetml.styles",
        ),
        "_rels/.rels": relate(("officeDocument", "xl/workbook.xml")),
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{OFFICE}"><sheets>'
        '<sheet name="One" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relate(
            ("worksheet", "worksheets/sheet1.xml"), ("sharedStrings", "sharedStrings.xml"), ("styles", "styles.xml")
        ),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><dimension ref="A1:J{len(rows)}"/>'
        f"<sheetData>{''.join(lines)}{end}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{texts}</sst>',
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}"><numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd"/>'
        '</numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="22"/></cellXfs></styleSheet>',
    }
    return pack({**parts, **(more or {})})


def _sheet_cell(place: str, value: object, shared: list[str]) -> str:
    if isinstance(value, str) and value.startswith("<"):
        return value
    if isinstance(value, int | float):
        return f'<c r="{place}"><v>{value!r}</v></c>'
    shared.append(str(value))
    return f'<c r="{place}" t="s"><v>{len(shared) - 1}</v></c>'


def slide_file(slides: Sequence[Sequence[Block]], notes: str = "") -> bytes:
    """Return a .pptx with a slide for each list of blocks; `notes` are the speaker's of the first."""
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": declare_types(ppt__presentation="presentationml.presentation.main"),
        "_rels/.rels": relate(("officeDocument", "ppt/presentation.xml")),
        "ppt/_rels/presentation.xml.rels": relate(
            *(("slide", f"slides/slide{number}.xml") for number in range(1, len(slides) + 1))
        ),
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDE}" xmlns:r="{OFFICE}"><p:sldIdLst>'
        + "".join(f'<p:sldId id="{255 + number}" r:id="rId{number}"/>' for number in range(1, len(slides) + 1))
        + "</p:sldIdLst></p:presentation>",
    }
    for number, blocks in enumerate(slides, 1):
        parts[f"ppt/slides/slide{number}.xml"] = _slide(map(_slide_shape, blocks))
    if notes:
        parts["ppt/slides/_rels/slide1.xml.rels"] = relate(("notesSlide", "../notesSlides/notes1.xml"))
        number_place = '<p:sp><p:nvSpPr><p:nvPr><p:ph type="sldNum"/></p:nvPr></p:nvSpPr>'
        number_place += "<p:txBody><a:p><a:fld><a:t>1</a:t></a:fld></a:p></p:txBody></p:sp>"
        words = _slide_shape(Block("paragraph", [[notes]]))
        parts["ppt/notesSlides/notes1.xml"] = _slide([number_place, words])
    return pack(parts)


def _slide(shapes: Iterable[str]) -> str:
    joined = "".join(shapes)
    return f'<p:sld xmlns:p="{SLIDE}" xmlns:a="{DRAWING}"><p:cSld><p:spTree>{joined}</p:spTree></p:cSld></p:sld>'


def _slide_shape(block: Block) -> str:
    def paragraph(text: str) -> str:
        return f"<a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p>"

    if block.kind == "table":
        rows = "".join(
            f"<a:tr>{''.join(f'<a:tc><a:txBody>{paragraph(one)}</a:txBody></a:tc>' for one in row)}</a:tr>"
            for row in block.rows
        )
        return f"<p:graphicFrame><a:graphic><a:tbl>{rows}</a:tbl></a:graphic></p:graphicFrame>"
    kind = "title" if block.kind == "heading" else "body"
    texts = "".join(paragraph(text) for row in block.rows for text in row)
    return f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr><p:txBody>{texts}</p:txBody></p:sp>'


def text_file(blocks: Sequence[Block], *, body: str = "") -> bytes:
    """Return an .odt."""
    found: list[str] = []
    for block in blocks:
        if block.kind == "table":
            cells = "<table:table-cell><text:p>{}</text:p></table:table-cell>"
            rows = "".join(
                f"<table:table-row>{''.join(cells.format(escape(one)) for one in row)}</table:table-row>"
                for row in block.rows
            )
            found.append(f"<table:table>{rows}</table:table>")
        elif block.kind == "list":
            items = "".join(f"<text:list-item><text:p>{escape(row[0])}</text:p></text:list-item>" for row in block.rows)
            found.append(f"<text:list>{items}</text:list>")
        elif block.kind == "heading":
            found.append(f'<text:h text:outline-level="1">{escape(block.rows[0][0])}</text:h>')
        else:
            found.append(f"<text:p><text:span>{escape(block.rows[0][0])}</text:span></text:p>")
    return odf_file("text", "text", "".join(found) + body)


def odf_file(media_type: str, element: str, content: str) -> bytes:
    """Return a file of the OpenDocument family."""
    names = " ".join(f'xmlns:{one}="{ODF}:{one}:1.0"' for one in ("office", "text", "table", "draw"))
    return pack(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{media_type}",
            "content.xml": f'<office:document-content {names} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:body>'
            f"<office:{element}>{content}</office:{element}></office:body></office:document-content>",
        },
        stored=("mimetype",),
    )


def page_text(blocks: Sequence[Block], language: str) -> str:
    """Return an HTML page of the blocks."""
    found: list[str] = []
    for block in blocks:
        if block.kind == "table":
            rows = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in block.rows)
            found.append(f"<table border='1'>{rows}</table>")
        elif block.kind == "list":
            found.append(f"<ul>{''.join(f'<li>{escape(row[0])}</li>' for row in block.rows)}</ul>")
        else:
            tag = "h2" if block.kind == "heading" else "p"
            found.append(f"<{tag}>{escape(block.rows[0][0])}</{tag}>")
    side = "rtl" if language == "arabic" else "ltr"
    lang = {"english": "en", "chinese": "zh", "arabic": "ar"}[language]
    return (
        f'<!DOCTYPE html><html lang="{lang}" dir="{side}"><head><meta charset="utf-8"><title>made</title></head>'
        f"<body>{''.join(found)}</body></html>"
    )


def book_file(chapters: Sequence[str]) -> bytes:
    """Return an .epub of these pages."""
    items = "".join(f'<item id="c{at}" href="text/c{at}.xhtml"/>' for at in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    return pack(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<c><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></c>',
            "OPS/book.opf": '<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>A Book</dc:title>'
            f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{f"OPS/text/c{at}.xhtml": chapter for at, chapter in enumerate(chapters)},
        },
        stored=("mimetype",),
    )


def notebook_file(blocks: Sequence[Block]) -> bytes:
    """Return an .ipynb with a cell for each block, the last one code with an output and a picture."""
    cells: list[dict[str, object]] = [
        {"cell_type": "markdown", "source": [f"{text}\n" for row in block.rows for text in row]} for block in blocks
    ]
    outputs: list[dict[str, object]] = [
        {"output_type": "stream", "name": "stdout", "text": ["forty-two\n"]},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(bytes(3_000)).decode()}},
    ]
    cells.append({"cell_type": "code", "source": "print('sum')", "outputs": outputs})
    about = {"kernelspec": {"language": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}).encode()


def mail_file(blocks: Sequence[Block], *, html: str = "") -> bytes:
    """Return an .eml with the blocks as its text, or as HTML, and an attachment."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Ann <ann@example.com>", "bob@example.com", "Wetter 天气"
    if html:
        mail.set_content(html, subtype="html")
    else:
        mail.set_content("\n".join(list_texts(blocks)))
    mail.add_attachment(bytes(1_234), maintype="application", subtype="pdf", filename="plan.pdf")
    return mail.as_bytes()


def print_pdf(page: str, target: Path) -> None:
    """Print an HTML page as a PDF with a browser of the machine."""
    browser = which("chromium-headless-shell") or which("chromium")
    assert browser is not None
    source = target.with_suffix(".html")
    source.write_text(page, "utf-8")
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={target.parent / 'profile'}")
    printing = ("--no-pdf-header-footer", f"--print-to-pdf={target}", source.as_uri())
    run((browser, *options, *printing), stdout=DEVNULL, stderr=DEVNULL, timeout=60, check=True)


def convert_files(sources: Sequence[Path], form: str, folder: Path) -> None:
    """Convert files with LibreOffice, into a folder."""
    profile = f"-env:UserInstallation={(folder / 'profile').as_uri()}"
    call = ("soffice", profile, "--headless", "--convert-to", form, "--outdir", str(folder), *map(str, sources))
    run(call, stdout=DEVNULL, stderr=DEVNULL, timeout=300, check=True)


WRITERS: dict[str, Callable[[Sequence[Block], str], bytes]] = {
    "docx": lambda blocks, language: word_file(blocks, is_right_to_left=language == "arabic"),
    "xlsx": lambda blocks, _: sheet_file([row for block in blocks for row in block.rows]),
    "pptx": lambda blocks, _: slide_file([blocks[:4], blocks[4:]]),
    "odt": lambda blocks, _: text_file(blocks),
    "epub": lambda blocks, language: book_file([page_text(blocks[:5], language), page_text(blocks[5:], language)]),
    "ipynb": lambda blocks, _: notebook_file(blocks),
    "eml": lambda blocks, _: mail_file(blocks),
    "html": lambda blocks, language: page_text(blocks, language).encode(),
}
"""By the ending of the name: what makes a file of blocks in a language."""
