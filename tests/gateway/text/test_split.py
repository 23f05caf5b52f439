"""Texts are cut where a reader would, and nothing is lost."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hermes.gateway.platform import utf8, utf16
from hermes.gateway.text.split import split_markdown
from tests.cpu_cost import measure_growth

pytestmark = pytest.mark.slow

MEASURES = some.sampled_from([len, utf16, utf8])
WORDS = some.sampled_from(
    ["word", "天气", "👩‍👩‍👧", "🇩🇪", "e\u0301", "x" * 90, "`a b`", "[a b](http://x/y)", "**b**", "a.", "好。"]
)
LINES = some.lists(WORDS, max_size=12).map(" ".join)
PROSE = some.lists(LINES, max_size=30).map("\n".join)


def bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


@given(some.text(max_size=400), some.integers(16, 60), MEASURES)
def test_every_piece_is_within_the_limit(text: str, limit: int, measure) -> None:
    pieces = split_markdown(text, limit, measure)
    assert all(0 < measure(piece) <= limit and piece.strip() for piece in pieces)


@given(PROSE, some.integers(16, 200), MEASURES)
def test_of_prose_nothing_is_lost(text: str, limit: int, measure) -> None:
    pieces = split_markdown(text, limit, measure)
    assert all(measure(piece) <= limit for piece in pieces)
    assert bare("".join(pieces)) == bare(text)


BLOCKS = some.one_of(
    LINES,
    some.builds(
        lambda mark, label, lines: f"{mark}{label}\n" + "\n".join(lines) + f"\n{mark}",
        some.sampled_from(["```", "````", "~~~"]),
        some.sampled_from(["", "python", "c++"]),
        some.lists(
            some.sampled_from(["    x = 1", "", "print('天')", "y" * 70, "# no heading"]), min_size=1, max_size=20
        ),
    ),
    some.builds(
        lambda rows: "| a | b |\n|---|:-:|\n" + "\n".join(rows), some.lists(some.just("| 1 | two |"), max_size=20)
    ),
)


def fences(piece: str) -> int:
    """How deep in code the piece ends: the standard's rule for fences."""
    mark = ""
    for line in piece.split("\n"):
        match = re.match(r" {0,3}(`{3,}|~{3,})([^`]*)$", line)
        if match and not mark:
            mark = match[1]
        elif mark and line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            mark = ""
    return len(mark)


@given(some.lists(BLOCKS, max_size=6).map("\n\n".join), some.integers(60, 300), MEASURES)
def test_fences_are_closed_in_every_piece(text: str, limit: int, measure) -> None:
    pieces = split_markdown(text, limit, measure)
    assert all(measure(piece) <= limit for piece in pieces)
    assert not any(fences(piece) for piece in pieces)


@given(some.lists(some.integers(0, 9999), min_size=1, max_size=200), some.integers(40, 120))
def test_of_code_and_tables_nothing_is_lost(numbers: list[int], limit: int) -> None:
    code = "before\n\n```py\n" + "\n".join(f"n{number}" for number in numbers) + "\n```\n"
    rows = "\n| h |\n|---|\n" + "\n".join(f"| r{number} |" for number in numbers)
    whole = "\n".join(split_markdown(code + rows, limit))
    assert [int(one) for one in re.findall(r"^n(\d+)$", whole, re.MULTILINE)] == numbers
    assert [int(one) for one in re.findall(r"r(\d+) \|", whole)] == numbers


def test_code_goes_on_with_its_language_and_a_table_with_its_head() -> None:
    code = "Look:\n\n```python\n" + "\n".join(f"print({n})" for n in range(10)) + "\n```\nDone."
    first, *_, last = split_markdown(code, 60)
    assert first.startswith("Look:\n\n```python\nprint(0)\n") and first.endswith("\n```")
    assert last.startswith("```python\n") and last.endswith("Done.")
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n} |" for n in range(20))
    assert all(piece.startswith("| a | b |\n|---|---|\n| ") for piece in split_markdown(table, 80))


def test_cuts_stand_at_blank_lines_then_lines_then_sentences_then_words() -> None:
    assert split_markdown("one two\nthree\n\nfour five six seven", 30) == ["one two\nthree", "four five six seven"]
    assert split_markdown("one two three four\nfive six seven eight", 30) == [
        "one two three four",
        "five six seven eight",
    ]
    assert split_markdown("One two three four. Five six seven eight", 30) == [
        "One two three four.",
        "Five six seven eight",
    ]
    assert split_markdown("今天天气非常好啊我们。一起去公园吧好不好", 16) == [
        "今天天气非常好啊我们。",
        "一起去公园吧好不好",
    ]
    assert split_markdown("alpha beta gamma delta", 18) == ["alpha beta gamma", "delta"]


def test_code_links_and_signs_stay_whole() -> None:
    assert split_markdown("some words `code with spaces` end", 20) == ["some words", "`code with spaces`", "end"]
    assert split_markdown("go to [the page](http://a.example/b) now", 35) == [
        "go to",
        "[the page](http://a.example/b) now",
    ]
    for sign in ("👩‍👩‍👧", "🇩🇪", "e\u0301", "👍🏽"):
        pieces = split_markdown(sign * 40, 20, utf16)
        assert "".join(pieces) == sign * 40
        assert all(piece.count(sign) * len(sign) == len(piece) for piece in pieces)


def test_an_item_that_begins_a_piece_is_no_code() -> None:
    pieces = split_markdown("- a list\n    - with a sub item\n    - and one more of them", 34)
    assert pieces == ["- a list\n    - with a sub item", "- and one more of them"]


def test_a_heading_stays_with_what_it_heads() -> None:
    assert split_markdown("some words here\nand more\n## Heading\nwords of it", 38)[-1] == "## Heading\nwords of it"


def test_pieces_are_numbered_where_asked() -> None:
    pieces = split_markdown("word " * 100, 60, numbered=True)
    assert [piece.rsplit(" ", 1)[1] for piece in pieces] == [f"({n}/{len(pieces)})" for n in range(1, len(pieces) + 1)]
    assert max(map(len, pieces)) <= 60
    assert split_markdown("short", 60, numbered=True) == ["short"]
    assert split_markdown("```\n" + "x\n" * 50 + "```", 40, numbered=True)[0].endswith("\n```\n(1/5)")


def test_nothing_makes_no_piece() -> None:
    assert split_markdown("", 20) == split_markdown(" \n\n ", 20) == []
    with pytest.raises(ValueError, match="cut to 3"):
        split_markdown("words", 3)


@pytest.mark.parametrize("text", ["word ", "天气。", "` a", "[a", "👩‍👩‍👧", "```\nx\n", "\n| a |\n|---|\n", "a\n\n"])
def test_a_megabyte_is_split_in_linear_time(text: str) -> None:
    def make_splitting(size: int) -> Callable[[], object]:
        long = text * (size // len(text))
        return lambda: split_markdown(long, 4096, utf16)

    assert make_splitting(1 << 16)()
    assert measure_growth(make_splitting, 1 << 16, 1 << 20, tries=2) < 48  # linear is 16, quadratic would be 256
