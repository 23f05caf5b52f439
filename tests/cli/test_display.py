"""Width, colours and marks of the chat."""

import pytest
from prompt_toolkit.styles import Style

from hermes.cli.render.theme import DEFAULT_SKIN, SKINS, ColorDepth, detect_color_depth
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError


def look(
    width: int = 40, *, unicode: bool = True, depth: ColorDepth = ColorDepth.PLAIN, **settings: object
) -> TerminalStyle:
    return TerminalStyle(DisplaySettings(**settings), lambda: width, unicode=unicode, depth=depth)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("environ", "depth"),
    [
        ({}, ColorDepth.PLAIN),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, ColorDepth.PLAIN),
        ({"TERM": "xterm"}, ColorDepth.BASIC),
        ({"TERM": "xterm-256color"}, ColorDepth.INDEXED),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, ColorDepth.TRUE),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, ColorDepth.NONE),
        ({"TERM": "dumb", "NO_COLOR": "1"}, ColorDepth.PLAIN),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, ColorDepth.INDEXED),
        ({"TERM": "dumb", "FORCE_COLOR": "3"}, ColorDepth.TRUE),
        ({"TERM": "xterm-256color", "FORCE_COLOR": "1"}, ColorDepth.BASIC),
    ],
)
def test_the_environment_says_how_many_colours_there_are(environ: dict[str, str], depth: ColorDepth) -> None:
    assert detect_color_depth(environ) is depth


def test_lines_after_the_first_one_are_indented() -> None:
    assert look(24).wrap_paragraphs("person", "› some words that have to be wrapped", indent=2) == [
        "› some words that have",
        "  to be wrapped",
    ]
    assert look(14).wrap_paragraphs("person", "› 一二三四五六七", indent=2) == ["› 一二三四五", "  六七"]
    assert look().wrap_paragraphs("text", "a\n\nb") == ["a", "", "b"]


def test_a_call_that_has_ended_is_one_line() -> None:
    assert look().format_call("read a.py", 1.23) == "✓ read a.py · 1.2 s"
    assert look().format_call("read a.py", 1.23, failed=True) == "✗ read a.py · 1.2 s"
    assert look(unicode=False).format_call("read a.py", 1.23) == "+ read a.py - 1.2 s"
    assert look(plain=True).format_call("read a.py", 1.23) == "done: read a.py, 1.2 s"
    assert look(20).format_call("read a/very/long/name.py", 1.23) == "✓ read a/ve… · 1.2 s"


def test_marks_are_ascii_where_nothing_else_is_shown() -> None:
    assert [look().get_mark(name) for name in ("person", "warning", "notice", "prompt")] == ["›", "!", "·", "›"]
    assert [look(unicode=False).get_mark(name) for name in ("person", "warning", "notice", "prompt")] == [
        ">",
        "!",
        "-",
        ">",
    ]
    assert look(plain=True).get_mark("person") == ">"


def test_text_is_cut_by_cells() -> None:
    assert look().cut_text("一二三四", 8) == "一二三四"
    assert look().cut_text("一二三四", 7) == "一二三…"
    assert look(unicode=False).cut_text("abcdefgh", 6) == "abc..."


def test_a_diff_has_the_numbers_of_its_lines() -> None:
    lines = ["--- a", "+++ b", "@@ -9,3 +9,3 @@", " x", "-y", "+z", "--- w", " end"]
    assert look().render_diff(lines, 20) == [
        *("     --- a", "     +++ b", "     @@ -9,3 +9,3 @@"),
        *("   9  x", "  10 -y", "  10 +z", "  11 --- w", "  11  end"),
    ]
    assert look().render_diff(lines, 3)[-1] == "  … 5 more lines"
    assert look(plain=True).render_diff(lines, 6)[3:] == ["   x", "  -y", "  +z", "  ... 2 more lines"]
    coloured = look(depth=ColorDepth.BASIC).render_diff(lines, 6)
    assert coloured[4:6] == ["  \x1b[2m10 \x1b[0m\x1b[31m-y\x1b[0m", "  \x1b[2m10 \x1b[0m\x1b[32m+z\x1b[0m"]


def test_a_skin_of_ones_own_is_worn() -> None:
    own = look(depth=ColorDepth.TRUE, skin="mine", skins={"mine": {"person": "bold #010203"}})
    assert own.paint("person", "x") == "\x1b[1;38;2;1;2;3mx\x1b[0m"
    assert own.list_skins() == (*SKINS, "mine")


@pytest.mark.parametrize(
    ("skins", "words"),
    [
        ({}, "There is no skin 'mine'"),
        ({"mine": {"nose": "bold"}}, "a part that does not exist: 'nose'"),
        ({"mine": {"person": "fat"}}, "'fat' is no style"),
        ({"mine": {"person": "#12"}}, "'#12' is no style"),
    ],
)
def test_a_skin_that_cannot_be_worn_is_told_and_changes_nothing(skins: dict[str, dict[str, str]], words: str) -> None:
    display = DisplaySettings(skin="mine", skins=skins)
    worn = look(depth=ColorDepth.BASIC)
    with pytest.raises(UsageError, match=words):
        worn.apply_display(display)
    assert worn.display.skin == DEFAULT_SKIN
    assert words in TerminalStyle(display, lambda: 40).skin_error


@pytest.mark.parametrize("name", list(SKINS))
def test_built_in_skins_name_what_there_is(name: str) -> None:
    assert set(SKINS[name]) <= set(SKINS[DEFAULT_SKIN])
    worn = look(depth=ColorDepth.TRUE, skin=name)
    Style.from_dict(worn.theme.resolve_styles())
    look(skin="copy", skins={"copy": SKINS[name]})


def test_without_colours_attributes_stay_and_in_plain_nothing_does() -> None:
    assert look(depth=ColorDepth.NONE).theme.resolve_styles()["status.alarm"] == "bold"
    assert set(look(depth=ColorDepth.TRUE, plain=True).theme.resolve_styles().values()) == {""}


def test_a_text_wears_what_is_worn_when_it_begins() -> None:
    worn = look(depth=ColorDepth.BASIC)
    stream = worn.open_stream()
    stream.feed("# A")
    worn.apply_display(DisplaySettings(skin="mono"))
    assert stream.close() == ["\x1b[1;36mA\x1b[0m"]
    stream.feed("# A")
    assert stream.close() == ["\x1b[1;4mA\x1b[0m"]
    assert stream.close() == stream.tail(3) == []
