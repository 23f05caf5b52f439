"""Documents are read to their words, by a process that holds little memory; what cannot be read is told by name."""

import asyncio
import base64
import os
from functools import cache
from pathlib import Path

import pytest

from hermes.core.errors import ToolError
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.media.documents import DocumentText, DocumentWindow, read_document, render_page
from hermes.media.failure_words import MEMORY_LIMIT
from hermes.media.pictures import TAKEN_SIDE, take_picture
from hermes.media.recognition import HEAD_BYTES, recognize_file
from hermes.media.worker_process import run_reader
from tests.media.hostile_files import MINIMAL_PDF, SMALL_HEIC, list_broken_files, list_hostile_files
from tests.media.made_files import (
    LANGUAGES,
    WORD,
    WRITERS,
    Block,
    book_file,
    list_texts,
    mail_file,
    make_blocks,
    measure_share,
    notebook_file,
    odf_file,
    page_text,
    print_pdf,
    relate,
    sheet_file,
    slide_file,
    text_file,
    word_file,
)

pytestmark = pytest.mark.needs("bubblewrap")


async def read(data: bytes, name: str = "a", **window: int) -> DocumentText:
    """Read a document as `read_file` does."""
    file = create_memory_file("document", data)
    try:
        return await read_document(file, DocumentWindow(**window), recognize_file(data[:HEAD_BYTES], name))
    finally:
        os.close(file)


@pytest.mark.parametrize("form", WRITERS)
async def test_the_words_of_a_document_are_read_in_their_order(form: str) -> None:
    language = LANGUAGES[list(WRITERS).index(form) % len(LANGUAGES)]
    blocks = make_blocks(language, 1)
    found = await read(WRITERS[form](blocks, language), f"a.{form}", lines=2_000)
    assert measure_share(list_texts(blocks), found.text) >= 0.99
    assert 0 < found.peak << 10 <= MEMORY_LIMIT


@pytest.mark.needs("chromium-headless-shell")
@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_printed_page_is_read_in_every_direction(language: str, tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    blocks = make_blocks(language, 3)
    await asyncio.to_thread(print_pdf, page_text(blocks, language), tmp_path / "a.pdf")
    found = await read((tmp_path / "a.pdf").read_bytes(), lines=2_000)
    assert measure_share(list_texts(blocks), found.text) >= (0.95 if language == "arabic" else 0.99)
    assert found.title == "made" and found.text.startswith("--- page 1 ---")


async def test_a_page_of_a_pdf_is_text_and_a_picture() -> None:
    pytest.importorskip("pypdfium2")
    found = await read(MINIMAL_PDF)
    assert found.text == "--- page 1 ---\nHello reader"
    assert found.describe_place() == "1 page; page 1 shown"
    file = create_memory_file("document", MINIMAL_PDF)
    media_type, data = await render_page(file, 1)
    os.close(file)
    assert media_type == "image/jpeg" and data.startswith(b"\xff\xd8")


async def test_what_a_word_document_has_beside_its_text() -> None:
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:commentReference w:id="0"/></w:r>'
    body = (
        f"<w:p><w:r><w:t>Said</w:t></w:r>{reference}<w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
        '<w:p><w:hyperlink r:id="rId9"><w:r><w:t>a link</w:t></w:r></w:hyperlink>'
        "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
    )
    flow = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
    more: dict[str, str | bytes] = {
        "word/_rels/document.xml.rels": relate(
            ("header", "header1.xml"), ("footer", "footer1.xml"), ("footnotes", "notes.xml"), ("comments", "said.xml")
        ),
        "word/header1.xml": f'<w:hdr xmlns:w="{WORD}">{flow.format("The top")}</w:hdr>',
        "word/footer1.xml": f'<w:ftr xmlns:w="{WORD}">{flow.format("The end")}</w:ftr>',
        "word/notes.xml": f'<w:footnotes xmlns:w="{WORD}"><w:footnote w:id="2">{flow.format("A note")}</w:footnote>'
        '<w:footnote w:id="-1" w:type="separator"><w:p/></w:footnote></w:footnotes>',
        "word/said.xml": f'<w:comments xmlns:w="{WORD}"><w:comment w:id="0" w:author="Ann">{flow.format("Why?")}'
        "</w:comment></w:comments>",
    }
    blocks = [Block("heading", [["Top"]]), Block("table", [["a|b", "c"], ["1", "2"]])]
    found = await read(word_file(blocks, body=body, more=more))
    assert found.kind == "Word document"
    assert found.text.splitlines() == [
        *("[header] The top", "", "# Top", "", "| a\\|b | c |", "|---|---|", "| 1 | 2 |", ""),
        *("Said[^2][comment 0]", "a link", "[^2]: A note", "[comment 0 by Ann]: Why?", "[footer] The end"),
    ]


async def test_cells_have_their_values_and_dates() -> None:
    rows: list[list[object]] = [
        ["Name", "When", "Share"],
        ["Ann", '<c r="B2" s="1"><v>46013</v></c>', 0.1 + 0.2],
        ["Bob", '<c r="B3" s="2"><v>46013.75</v></c>', '<c r="C3"><f>1+1</f><v>2</v></c>'],
        ['<c r="A9" t="b"><v>1</v></c>', '<c r="B4" t="inlineStr"><is><t>in</t></is></c>', '<c r="C4"><f>A1</f></c>'],
    ]
    found = await read(sheet_file(rows, end='<row r="9"><c r="CZ9"><v>7</v></c></row>'))
    assert found.text.splitlines() == [
        "--- sheet 1: One, 4 rows, 10 columns ---",
        "Name\tWhen\tShare",
        "Ann\t2025-12-22\t0.3",
        "Bob\t2025-12-22 18:00:00\t2",
        "TRUE\tin\t=A1",
        "[rows 5 to 8 are empty]",
        "CZ=7",
    ]


async def test_a_long_sheet_is_shown_by_lines_and_only_as_far_as_it_is_asked_for() -> None:
    found = await read(sheet_file([[number, number * 2] for number in range(20_000)]), lines=1_000)
    assert found.shown == 1_000 and found.next_offset == 1_001 and found.total == 0
    assert found.describe_place() == "1 sheet; sheet 1 shown; lines 1-1000; go on with pages=1 and offset=1001"
    later = await read(sheet_file([[number, number * 2] for number in range(20_000)]), first=1, offset=20_000)
    assert later.text == "19998\t39996\n19999\t39998" and later.total == 20_001


async def test_rows_that_are_passed_over_count_as_those_that_are_read() -> None:
    ends = "".join(f'<row r="{row}"><c r="A{row}"><v>{row}</v></c></row>' for row in range(1_500, 3_000, 3))
    data = sheet_file([[at] if at % 5 else [] for at in range(1_200)], end=ends + '<row r="4000"/>')
    whole = (await read(data, lines=5_000)).text.splitlines()
    for offset in (2, 300, 900, 1_300, len(whole)):
        assert (await read(data, offset=offset, lines=5_000)).text.splitlines() == whole[offset - 1 :]


async def test_slides_chapters_and_sheets_go_by_units() -> None:
    slides = [[Block("heading", [[f"Slide {number}"]]), Block("list", [["one"], ["two"]])] for number in range(1, 5)]
    found = await read(slide_file(slides, notes="Say it slowly"), lines=10)
    assert found.text.splitlines()[:7] == [
        *("--- slide 1 ---", "# Slide 1", "one", "two", "", "Speaker notes:", "Say it slowly"),
    ]
    assert found.describe_place() == "4 slides; slide 1 shown; go on with pages=2"
    rest = await read(slide_file(slides), first=2, last=3)
    assert rest.describe_place() == "4 slides; slides 2-3 shown; go on with pages=4"
    book = await read(book_file(["<p>First</p>", "<h1>Second</h1><p>words &nbsp;&mdash; here</p>"]), first=2)
    assert (book.title, book.text) == ("A Book", "--- chapter 2 ---\n# Second\n\nwords — here")
    with pytest.raises(ToolError, match="no such pages, only 4 slides"):
        await read(slide_file(slides), first=7)


async def test_the_names_of_sheets_are_told_where_not_all_are_shown() -> None:
    table = '<table:table table:name="{}"><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>'
    tables = "".join(table.format(name) + "</table:table-row></table:table>" for name in ("Costs", "Sales 2026"))
    book = odf_file("spreadsheet", "spreadsheet", tables)
    assert (await read(book, last=1)).notes == ("sheets: 1 Costs, 2 Sales 2026",)
    assert (await read(book, first=2)).notes == ("sheets: 1 Costs, 2 Sales 2026",)
    assert (await read(book)).notes == ()


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [
        (word_file([Block("paragraph", [["x" * 4_000]])])[:-40], "a.docx", "its end is missing"),
        (b"%PDF-1.7\n1 0 obj\n", "a.pdf", "a part of it is missing, or it is no PDF$"),
    ],
)
async def test_a_file_without_its_end_says_so(data: bytes, name: str, why: str) -> None:
    pytest.importorskip("pypdfium2")
    with pytest.raises(ToolError, match=why):
        await read(data, name)


async def test_notes_comments_and_spaces_of_an_open_document() -> None:
    body = (
        '<text:p>A<text:s text:c="3"/>b<text:note><text:note-citation>1</text:note-citation><text:note-body>'
        "<text:p>the note</text:p></text:note-body></text:note><office:annotation><dc:creator>Ann</dc:creator>"
        "<dc:date>2026</dc:date><text:p>hm</text:p></office:annotation></text:p>"
    )
    found = await read(text_file([], body=body))
    assert found.text.splitlines() == ["A   b[^1][comment 2]", "[^1]: the note", "[comment 2 by Ann]: hm"]
    cell = "<table:table-cell{}><text:p>x</text:p></table:table-cell>"
    row = f'<table:table-row table:number-rows-repeated="900000">{cell.format("")}</table:table-row>'
    sheets = odf_file("spreadsheet", "spreadsheet", f'<table:table table:name="T">{row}</table:table>')
    assert (await read(sheets)).text == "--- sheet 1: T ---\nx\n[this row stands 900,000 times]"


async def test_a_notebook_and_a_mail_say_what_is_not_text() -> None:
    notebook = await read(notebook_file([Block("paragraph", [["Intro"]])]), "a.ipynb")
    assert notebook.text.splitlines() == [
        *("--- cell 1: markdown ---", "Intro", "", "--- cell 2: code ---", "```python", "print('sum')", "```"),
        *("[output]", "forty-two", "[picture: image/png, 3 kB]"),
    ]
    mail = await read(mail_file([], html="<p>Hello <b>you</b></p><script>x()</script>"), "a.eml")
    assert mail.title == "Wetter 天气"
    assert mail.text.splitlines() == [
        *("From: Ann <ann@example.com>", "To: bob@example.com", "Subject: Wetter 天气", "", "Hello you", ""),
        *("Attachments:", "- plan.pdf (application/pdf, 1,234 bytes)"),
    ]


find_hostile = cache(lambda: {one.name: one for one in list_hostile_files()})
CHOSEN = str.split("""
    bomb.docx words.docx one_word.docx notes.docx lies.zip overlap.zip locked.docx laughs.docx outside.xlsx
    remote.odt deep.docx encoding.docx far.xlsx repeated.ods encrypted.xlsx old.doc bomb.pdf encrypted.pdf
    deep.ipynb parts.eml deep.epub pixels.png bomb.png pixels.jpg boxes.heic
""")


@pytest.mark.parametrize("name", CHOSEN)
async def test_a_hostile_file_is_read_or_refused_by_name(name: str) -> None:
    for library in ("PIL", "pypdfium2", "pi_heif", "python_calamine"):
        pytest.importorskip(library)
    one = find_hostile()[name]
    kind = recognize_file(one.data[:HEAD_BYTES], name)
    file = create_memory_file("hostile", one.data)
    try:
        if kind == "picture":
            await take_picture(file)
        else:
            await read_document(file, DocumentWindow(), kind)
        assert one.is_read
    except ToolError as error:
        assert not one.is_read and "reader ended" not in error.message
    finally:
        os.close(file)


async def test_broken_files_end_nothing() -> None:
    for one in list_broken_files(12, 3):
        file = create_memory_file("broken", one.data)
        try:
            await run_reader(file, {"want": "text", "kind": "mail"})
        except ToolError as error:
            assert "reader ended" not in error.message
        finally:
            os.close(file)


async def test_a_picture_of_a_phone_is_made_to_fit_and_loses_what_is_no_part_of_it() -> None:
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("pi_heif")
    file = create_memory_file("picture")
    with os.fdopen(os.dup(file), "wb") as target:
        exif = pillow.Exif()
        exif[0x0112], exif[0x010F] = 6, "a camera"
        pillow.new("RGB", (8_000, 6_000), "blue").save(target, "JPEG", exif=exif, comment=b"somewhere")
    found = await take_picture(file)
    again = await take_picture(file)
    os.close(file)
    assert found.original == (8_000, 6_000) and found.size == (1_500, TAKEN_SIDE)
    assert found.data == again.data and b"camera" not in found.data and b"somewhere" not in found.data
    file = create_memory_file("picture", base64.b64decode(SMALL_HEIC))
    found = await take_picture(file)
    os.close(file)
    assert (found.media_type, found.size) == ("image/jpeg", (64, 48))
