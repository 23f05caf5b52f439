"""Whatever a text holds: nothing but colours of ours reaches the terminal, nothing is lost, and how the text was cut up
while it streamed makes no difference."""

import re

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.cli.render.diff import format_diff, parse_diff
from hermes.cli.render.markdown import MarkdownRenderer
from hermes.cli.render.theme import ColorDepth, Theme
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings
from hermes.markup.cells import measure_width, sanitize_line, truncate_text, wrap_text

pytestmark = pytest.mark.slow

COLOURED = Theme({}, ColorDepth.TRUE)
BARE = Theme({}, ColorDepth.PLAIN)
_OURS = re.compile(r"\x1b\[[0-9;]*m")
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)

PIECES = st.sampled_from(
    [
        *(
            "\n",
            "\n\n",
            " ",
            "word",
            "two words ",
            "- ",
            "  - ",
            "1. ",
            "> ",
            "```",
            "```py\n",
            "| a | b |\n",
            "|--|--|\n",
        ),
        *(
            "**",
            "*",
            "_",
            "~~",
            "`",
            "[x](y)",
            "[",
            "](",
            "<div>",
            "# ",
            "---\n",
            "$$",
            "\\",
            "    ",
            "\t",
            "\r\n",
            "\r",
        ),
        *(
            "\x1b[31m",
            "\x1b]52;c;aGk=\x07",
            "\x1b]8;;http://x\x1b\\",
            "\x9b2J",
            "\x07",
            "\x00",
            "\u202e",
            "\u2066",
            "\u200b",
        ),
        *("\U000e0041", "\ud800", "\u2028", "\x85", "中文字符", "，", "😀", "👨\u200d👩\u200d👧", "❤\ufe0f", "e\u0301"),
        *("- > ", "> - ", "  > ", "- ```\n", "- - ", "&copy;", "&#27;[31m", "&#x202e;", "🇩🇪", "👍🏽", "🇩", "\u1100"),
        *("https://example.org/a_b/c", "&lt;", "\x1b", "\x1bc", "\x1bP", "[0m", "x" * 90),
    ]
)
TEXTS = st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text(st.characters(), max_size=200))


def whole(text: str, width: int = 40, theme: Theme = COLOURED) -> list[str]:
    markdown = MarkdownRenderer(theme, lambda: width)
    return [*markdown.feed(text), *markdown.close()]


def bare(lines: list[str]) -> str:
    return _OURS.sub("", "\n".join(lines))


@settings(max_examples=400, deadline=None)
@given(TEXTS, st.integers(10, 120))
def test_nothing_but_our_colours_is_obeyed(text: str, width: int) -> None:
    lines = whole(text, width)
    assert not _FORBIDDEN.search(bare(lines).replace("\n", ""))
    assert not any("\n" in line for line in lines)
    look = TerminalStyle(DisplaySettings(), lambda: width, depth=ColorDepth.TRUE)
    for line in [
        *look.wrap_paragraphs("person", text, indent=2),
        look.cut_text(text, 20),
        look.paint("error", text),
        look.format_call(text, 1.0),
        *look.render_diff(parse_diff(text.split("\n")), 9),
        *format_diff(COLOURED, parse_diff(["@@ -1 +1 @@", *text.split("\n")]), width, 9),
    ]:
        assert not _FORBIDDEN.search(_OURS.sub("", line))


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_how_a_text_is_cut_up_makes_no_difference(text: str, sizes: list[int]) -> None:
    markdown = MarkdownRenderer(COLOURED, lambda: 40)
    lines: list[str] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        lines += markdown.feed(text[at : at + size])
        tail = markdown.tail(5)
        assert len(tail) <= 5
        assert not _FORBIDDEN.search(bare(tail).replace("\n", ""))
        at, turn = at + size, turn + 1
    assert [*lines, *markdown.close()] == whole(text)


WORDS = st.lists(
    st.sampled_from(
        [
            "\n",
            "\n\n",
            " ",
            "- ",
            "  - ",
            "2. ",
            "> ",
            "  > ",
            "- > ",
            "    ",
            "# ",
            "| c",
            " | ",
            "\n|--|--|\n",
            "\n```\n",
            "**",
            "`",
        ]
    )
    | st.integers(0, 9999).map(lambda number: f" word{number} "),
    max_size=60,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(WORDS)
def test_no_word_is_lost_or_told_twice(text: str) -> None:
    said = re.findall(r"word\d+", text)
    told = re.findall(r"word\d+", bare(whole(text, 200)))
    # A row of a table has the cells that its head has, and the first word behind a fence is a language.
    if "|" not in text and "```" not in text:
        assert told == said
    assert len(told) <= len(said) + text.count("|--|--|") * 4


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("ab  中文，（）“”😀é\u0301-👍🏽❤\u200d\ufe0f🇩🇪\u1100"), max_size=120), st.integers(4, 30)
)
def test_lines_hold_all_of_a_text_within_the_width(text: str, width: int) -> None:
    text = sanitize_line(text)
    ranges = wrap_text(text, width)
    assert "".join(text[start:end] for start, end in ranges).replace(" ", "") == text.replace(" ", "")
    assert all(measure_width(text[start:end].rstrip()) <= width for start, end in ranges)
    assert measure_width(truncate_text(text, width)) <= width


def test_a_screen_shows_the_text_and_is_as_before() -> None:
    text = (
        "before \x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]52;c;aGFjaw==\x07 \x1b[2J\x1b[H \x9b5A \u202etxt.exe\n"
        "over\rwritten \x08\x08 \x1b]8;;https://evil\x1b\\link\x1b]8;;\x1b\\ a\u200bb \U000e0041\x00\x07\n\n"
        "```\n\x1b[?1049h\x1b[5;5Hcode\x1bc\n```\nafter"
    )
    screen = pyte.Screen(80, 20)
    pyte.Stream(screen).feed("\r\n".join(whole(text, 79)))
    assert [line.rstrip() for line in screen.display if line.strip()] == [
        "before red ]0;title ]52;c;aGFjaw==   txt.exe",
        "over written  ]8;;https://evil\\link]8;;\\ ab",
        "codec",
        "after",
    ]
    assert screen.title == ""
    assert (screen.cursor.attrs.fg, screen.cursor.attrs.bold, screen.cursor.hidden) == ("default", False, False)
    assert screen.mode == pyte.Screen(80, 20).mode


def test_emoji_and_scripts_keep_their_joiners() -> None:
    assert sanitize_line("👨\u200d👩 می\u200cخواهم ❤\ufe0f a\u200db x\ufe0f") == "👨\u200d👩 می\u200cخواهم ❤\ufe0f ab x"


@pytest.mark.parametrize("depth", list(ColorDepth))
def test_only_colours_of_the_terminal_are_sent(depth: ColorDepth) -> None:
    theme = Theme({"heading": "bold #ff8700 bg:#000000"}, depth)
    expected = {
        ColorDepth.PLAIN: "",
        ColorDepth.NONE: "\x1b[1m",
        ColorDepth.BASIC: "\x1b[1;33;40m",
        ColorDepth.INDEXED: "\x1b[1;38;5;208;48;5;16m",
        ColorDepth.TRUE: "\x1b[1;38;2;255;135;0;48;2;0;0;0m",
    }
    assert theme.begin_style("heading") == expected[depth]
