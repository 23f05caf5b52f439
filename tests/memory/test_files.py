"""The two files: their form, and what is not one."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import HermesError, UsageError
from hermes.memory.files import (
    DELIMITER,
    GUIDANCE,
    MemoryFileSection,
    MemoryGuidanceSection,
    MemoryNotebook,
    MemoryTarget,
    clean_entry,
    count_characters,
    split_entries,
)


def book(folder: Path, limit: int = 2_200) -> MemoryNotebook:
    return MemoryNotebook(MemoryTarget.MEMORY, folder / "memories", limit)


@given(st.lists(st.text(min_size=1), max_size=6))
def test_what_is_written_is_read_again(texts: list[str]) -> None:
    entries = []
    for text in texts:
        try:
            entries.append(clean_entry(text))
        except UsageError:
            continue
    assert split_entries(DELIMITER.join(entries)) == tuple(dict.fromkeys(entries))


@pytest.mark.parametrize(
    "text", ["a\n§\nb", "a\r\n§\r\nb\r\n", "\ufeffa\n\n § \n\nb\n", "§\na\n§\n§\nb\n§", "a\n§\nb\n§\na"]
)
def test_a_hand_edited_file_is_read_by_its_words(text: str, tmp_path: Path) -> None:
    one = book(tmp_path)
    one.folder.mkdir()
    one.path.write_bytes(text.encode())
    assert one.read_entries() == ("a", "b")


def test_a_sign_within_a_line_parts_nothing() -> None:
    assert split_entries("see § 5\n§\nand §§\n6") == ("see § 5", "and §§\n6")


def test_what_is_written_is_private_and_exact(tmp_path: Path) -> None:
    one = book(tmp_path)
    one.write_entries(("first", "second\nline"))
    assert one.path.read_text() == "first\n§\nsecond\nline"
    assert one.path.stat().st_mode & 0o777 == 0o600 and one.folder.stat().st_mode & 0o777 == 0o700
    one.path.chmod(0o640)
    one.write_entries(("first",))
    assert one.path.stat().st_mode & 0o777 == 0o640 and os.listdir(one.folder) == ["MEMORY.md"]


@pytest.mark.parametrize("kind", ["binary", "latin", "link", "fifo", "folder", "unreadable", "huge"])
def test_what_is_no_memory_is_named_and_left_alone(kind: str, tmp_path: Path) -> None:
    one = book(tmp_path)
    one.folder.mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    if kind == "binary":
        one.path.write_bytes(b"a\0b")
    elif kind == "latin":
        one.path.write_bytes("größer".encode("latin-1"))
    elif kind == "link":
        one.path.symlink_to(elsewhere)
    elif kind == "fifo":
        os.mkfifo(one.path)
    elif kind == "folder":
        one.path.mkdir()
    elif kind == "huge":
        one.path.write_bytes(b"a" * (2 << 20))
    else:
        one.path.write_text("mine")
        one.path.chmod(0)
        if os.access(one.path, os.R_OK):
            pytest.skip("this user may read everything")
    before = os.lstat(one.path)
    with pytest.raises(UsageError, match=r"MEMORY.md .*left unchanged"):
        one.read_entries()
    section = MemoryFileSection(one)
    assert section.render_text() == "" and "Nothing of it is in the prompt" in section.list_remarks()[0]
    assert os.lstat(one.path) == before and elsewhere.read_text() == "theirs"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    one = book(tmp_path)
    one.folder.mkdir()
    (tmp_path / "elsewhere").write_text("theirs")
    one.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HermesError, match="a link leads out of its folder"):
        one.write_entries(("x",))
    assert (tmp_path / "elsewhere").read_text() == "theirs"


def test_a_folder_that_takes_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "memories").write_text("a file in its place")
    with pytest.raises(HermesError, match="cannot be written") as caught:
        book(tmp_path).write_entries(("x",))
    assert "Make" in caught.value.hint


def test_the_section_has_its_header_and_usage(tmp_path: Path) -> None:
    one = book(tmp_path)
    assert MemoryFileSection(one).render_text() == ""
    one.write_entries(("The build needs \x1b[31mmake all.", "Likes tea\u202e."))
    text = MemoryFileSection(one).render_text()
    header, _, rest = text.partition("\n")
    assert header == f"MEMORY (your personal notes) [{count_characters(one.read_entries())}/2,200 characters]"
    assert rest == "The build needs make all.\n§\nLikes tea\\u{202e}."
    assert MemoryTarget.USER.header == "USER PROFILE (who the user is)"
    assert len(GUIDANCE) <= 400 and MemoryGuidanceSection().render_text() == GUIDANCE


def test_of_a_file_over_the_limit_the_prompt_has_the_beginning(tmp_path: Path) -> None:
    one = book(tmp_path, 100)
    one.write_entries(("a" * 80, "b" * 80))
    section = MemoryFileSection(one)
    text = section.render_text()
    assert len(text) < 250 and "over the limit" in text and "163/100" in section.list_remarks()[0]
    assert one.path.stat().st_size == 164
