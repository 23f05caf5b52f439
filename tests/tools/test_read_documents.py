"""`read_file` shows documents as text, pages as pictures, and pictures themselves."""

import base64
import io

import pytest

from hermes.core.messages import Source, ToolStatus
from tests.media.hostile_files import MINIMAL_PDF
from tests.media.made_files import Block, notebook_file, sheet_file, slide_file, word_file
from tests.tools.tool_session import Session

pytestmark = pytest.mark.needs("bubblewrap")


async def test_a_document_is_told_by_its_content_and_shown_as_text(session: Session) -> None:
    (session.cwd / "report").write_bytes(word_file([Block("heading", [["Plan"]]), Block("paragraph", [["Go on."]])]))
    result = await session.call("read_file", path="report")
    assert result.text == "[report: Word document; lines 1-3 of 3]\n# Plan\n\nGo on."
    assert result.provenance is not None and result.provenance.source is Source.FILE
    assert len(session.state.seen_files) == 1
    assert "line 9 is after its end" in await session.text("read_file", path="report", offset=9)
    book = notebook_file([Block("paragraph", [["Intro"]])])
    (session.cwd / "a.ipynb").write_bytes(book)
    assert "--- cell 1: markdown ---\nIntro" in await session.text("read_file", path="a.ipynb")


async def test_pages_lines_and_what_is_wrong_with_them(session: Session) -> None:
    (session.cwd / "a.pptx").write_bytes(slide_file([[Block("paragraph", [[f"words {at}"]])] for at in range(9)]))
    text = await session.text("read_file", path="a.pptx", pages="2-3")
    head, _, shown = text.partition("\n")
    assert head == "[a.pptx: presentation; 9 slides; slides 2-3 shown; go on with pages=4-5]"
    assert shown == "--- slide 2 ---\nwords 1\n--- slide 3 ---\nwords 2"
    (session.cwd / "a.xlsx").write_bytes(sheet_file([[at, at] for at in range(700)]))
    text = await session.text("read_file", path="a.xlsx", limit=3)
    assert text.startswith("[a.xlsx: workbook; 1 sheet; sheet 1 shown; lines 1-3; go on with pages=1 and offset=4]\n")
    for pages, why in (
        ("x", "is a number or a range"),
        ("3-2", "is a number or a range"),
        ("10", "no such pages, only 9"),
    ):
        result = await session.call("read_file", path="a.pptx", pages=pages)
        assert result.status is ToolStatus.ERROR and why in result.text


async def test_what_cannot_be_read_is_said_by_name(session: Session) -> None:
    (session.cwd / "a.xlsx").write_bytes(base64.b64decode("0M8R4KGxGuE=") + "EncryptedPackage".encode("utf-16-le"))
    assert "a.xlsx cannot be read: it is encrypted; a copy" in await session.text("read_file", path="a.xlsx")
    (session.cwd / "page.html").write_text("<p>Words</p>")
    assert await session.text("read_file", path="page.html") == "1|<p>Words</p>"
    assert await session.text("read_file", path="page.html", pages="1") == "[page.html: page; lines 1-1 of 1]\nWords"


async def test_pages_of_a_pdf_are_pictures_where_they_have_no_text(session: Session) -> None:
    pytest.importorskip("pypdfium2")
    pytest.importorskip("PIL")
    (session.cwd / "a.pdf").write_bytes(MINIMAL_PDF)
    read = await session.call("read_file", path="a.pdf")
    assert read.text == "[a.pdf: PDF; 1 page; page 1 shown]\n--- page 1 ---\nHello reader" and not read.images
    seen = await session.call("read_file", path="a.pdf", pages="1p")
    assert seen.text == "[a.pdf: page 1 as pictures]" and len(seen.images) == 1
    (session.cwd / "scan.pdf").write_bytes(MINIMAL_PDF.replace(b"(Hello reader)", b"(            )"))
    scan = await session.call("read_file", path="scan.pdf")
    assert "as pictures: page 1]" in scan.text and "no text on this page" in scan.text and len(scan.images) == 1


async def test_a_picture_is_shown_small_enough_and_clean(session: Session) -> None:
    pillow = pytest.importorskip("PIL.Image")
    (session.cwd / "photo.txt").write_bytes(make_picture(pillow, (4_000, 1_000)))
    result = await session.call("read_file", path="photo.txt")
    assert result.text == "[photo.txt: a picture of 4000 x 1000 pixels, shown at 2000 x 500]"
    (image,) = result.images
    with pillow.open(io.BytesIO(base64.b64decode(image.data))) as found:
        assert found.size == (2_000, 500) and image.media_type == "image/jpeg"
    (session.cwd / "small.png").write_bytes(small := make_picture(pillow, (20, 10), "PNG"))
    (image,) = (await session.call("read_file", path="small.png")).images
    assert base64.b64decode(image.data) == small
    (session.cwd / "cut.png").write_bytes(make_picture(pillow, (200, 100), "PNG")[:60])
    assert "is a picture that cannot be shown: it is damaged" in await session.text("read_file", path="cut.png")


def make_picture(pillow: object, size: tuple[int, int], form: str = "JPEG") -> bytes:
    out = io.BytesIO()
    pillow.new("RGB", size, "red").save(out, form)  # type: ignore[attr-defined]
    return out.getvalue()
