"""Width, colours and marks of the chat."""

import re

import pytest
from prompt_toolkit.styles import Style

from hermes.cli.render.diff import count_changes, parse_diff
from hermes.cli.render.theme import DEFAULT_SKIN, SKINS, Background, ColorDepth, detect_color_depth, read_background
from hermes.cli.tui.plan_view import PlanView
from hermes.cli.tui.terminal_style import TerminalStyle, strip_styles
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.markup.cells import measure_width


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
    lines = parse_diff(["--- a", "+++ b", "@@ -9,3 +9,3 @@", " x", "-y", "+z", "--- w", " end", "@@ -30 +30 @@", "+q"])
    assert count_changes(lines) == (2, 2)
    assert look().render_diff(lines, 20) == [
        *("  --- a", "  +++ b", "   9  x", "  10 -y", "  10 +z", "  11 --- w", "  11  end", "   ⋮", "  30 +q"),
    ]
    assert look().render_diff(lines, 3)[-1] == "  … +6 lines"
    assert look(plain=True).render_diff(lines, 5)[2:] == ["   x", "  -y", "  +z", "  ... +4 lines"]


def test_a_long_line_of_a_diff_is_wrapped_and_not_cut() -> None:
    words = "one two three four five six seven eight nine ten"
    shown = look(30).render_diff(parse_diff(["@@ -1 +1 @@", f"+{words}"]), 9)
    assert len(shown) == 2 and all(measure_width(line) < 30 for line in shown)
    assert " ".join(" ".join(line.strip(" 1+") for line in shown).split()) == words


def test_a_wrapped_line_of_code_keeps_its_indent() -> None:
    code = "        return compute(first_argument, second_argument, third_argument)"
    shown = look(40).render_diff(parse_diff(["@@ -1 +1 @@", f"+{code}"]), 9)
    assert shown[0] == "  1 +        return" and len(shown) > 2
    assert all(re.match(" {4} {9}[a-z]", line) and measure_width(line) < 40 for line in shown[1:]), shown
    words = "".join(line[5:].strip() for line in shown)
    assert words == code.replace(" ", "")
    banded = TerminalStyle(DisplaySettings(), lambda: 40, depth=ColorDepth.TRUE, background=Background.DARK)
    lines = banded.render_diff(parse_diff(["@@ -1 +1 @@", f"+{code}"]), 9)
    assert {measure_width(strip_styles(line)) for line in lines} == {39}


CHANGED = ["@@ -3 +3 @@", "-    return one + two", "+    return one + three"]


@pytest.mark.parametrize(
    ("depth", "band", "word"),
    [
        (ColorDepth.TRUE, "48;2;18;40;29", "48;2;31;95;58"),
        (ColorDepth.INDEXED, "48;5;22", "48;5;28"),
        (ColorDepth.BASIC, "32m", "1;4;32m"),
        (ColorDepth.NONE, "", "\x1b[1;4m"),
    ],
)
def test_the_words_that_differ_are_marked_at_every_depth(depth: ColorDepth, band: str, word: str) -> None:
    worn = TerminalStyle(DisplaySettings(), lambda: 60, depth=depth, background=Background.DARK)
    removed, added = worn.render_diff(parse_diff(CHANGED), 9, "a.py")
    assert band in added and f"{word}" in added.partition("three")[0].rpartition("\x1b[0m")[2]
    assert "three" in strip_styles(added) and "two" in strip_styles(removed)
    is_wide = measure_width(strip_styles(added)) == 59  # a band is as wide as a line may be
    assert is_wide is (depth >= ColorDepth.INDEXED)


def test_a_diff_of_long_lines_of_signs_is_marked_as_far_as_that_is_cheap() -> None:
    lines = ["@@ -1,40 +1,40 @@", *(f"{sign}{',;' * 200}{sign}{number}" for sign in "-+" for number in range(40))]
    diff = parse_diff(lines)
    look().render_diff(diff, len(diff))
    assert 0 < sum(bool(one.marked) for one in diff if one.sign == "+") < 10


def test_a_line_that_was_replaced_by_several_is_compared_with_the_one_most_like_it() -> None:
    diff = parse_diff(
        [
            "@@ -1,1 +1,3 @@",
            "-    return read(path)",
            "+    if not path:",
            "+        return []",
            "+    return read(path, 1)",
        ]
    )
    terminal_style = look(60, depth=ColorDepth.TRUE)
    terminal_style.set_background(Background.DARK)
    shown = terminal_style.render_diff(diff, 9)
    marked = [bool({"48;2;125;43;52", "48;2;31;95;58"} & set(re.findall(r"48;[0-9;]+", line))) for line in shown]
    assert marked == [False, False, False, True], shown


def test_the_step_under_way_is_shown_whole_and_others_are_cut_while_the_plan_moves() -> None:
    plan = PlanView(look(40))
    words = "word " * 15
    plan.apply_result("\n".join((f"[>] 1: {words}first", *(f"[ ] {number}: {words}" for number in range(2, 9)))))
    live = plan.render_live(20)
    assert live[2].startswith("  ▸ word") and live[3].startswith("    word") and "first" in live[4], live
    assert [line[:4] for line in live[5:]] == ["  ☐ "] * 7 and all(line.endswith("…") for line in live[5:])
    assert all(measure_width(line) <= 39 for line in live)
    assert "first" in "".join(plan.render_live(6)), "the step under way has the room that there is"
    assert not any("…" in line for line in plan.format_plan())


def test_a_step_that_was_told_is_not_in_the_plan_that_moves() -> None:
    plan = PlanView(look(40))
    plan.apply_result("[x] 1: one\n[>] 2: two\n[ ] 3: three")
    assert "  ✔ one" in plan.render_live(9)  # the person wants no calls shown: nothing was printed
    assert plan.format_change() == ["✔ one"]
    assert plan.render_live(9) == ["", "Plan: 1 of 3 done", "  ▸ two", "  ☐ three"]
    plan.apply_result("[x] 1: one\n[x] 2: two\n[>] 3: three")
    assert plan.format_change() == ["✔ two"]
    assert plan.render_live(9) == ["", "Plan: 2 of 3 done", "  ▸ three"]
    plan.apply_result("[>] 1: one\n[x] 2: two\n[ ] 3: three")  # a step that has begun again
    assert "  ▸ one" in plan.render_live(9)


def test_bands_follow_the_background_and_an_unknown_one_has_none() -> None:
    worn = TerminalStyle(DisplaySettings(), lambda: 60, depth=ColorDepth.TRUE)
    assert not worn.theme.has_bands and worn.fits_background
    assert worn.set_background(Background.LIGHT) and not worn.set_background(Background.LIGHT)
    assert "48;2;230;255;236" in worn.render_diff(parse_diff(CHANGED), 9)[1]
    assert worn.paint("warning", "x") == "\x1b[38;2;135;95;0mx\x1b[0m"
    chosen = TerminalStyle(DisplaySettings(skin="light"), lambda: 60, depth=ColorDepth.TRUE, background=Background.DARK)
    assert not chosen.fits_background and "48;2;230;255;236" in chosen.render_diff(parse_diff(CHANGED), 9)[1]
    chosen = TerminalStyle(DisplaySettings(skin="mono"), lambda: 60, depth=ColorDepth.TRUE, background=Background.DARK)
    assert not chosen.theme.has_bands


@pytest.mark.parametrize(
    ("value", "background"),
    [
        ("0;15", Background.LIGHT),
        ("15;0", Background.DARK),
        ("15;default;0", Background.DARK),
        ("0;7", Background.LIGHT),
        ("12;8", Background.DARK),
        ("0;default", Background.UNKNOWN),
        ("", Background.UNKNOWN),
    ],
)
def test_the_environment_may_say_what_the_background_is(value: str, background: Background) -> None:
    assert read_background({"COLORFGBG": value}) is background


def test_prose_is_no_wider_than_a_hundred_columns_and_code_is() -> None:
    stream = look(200).open_stream()
    lines = [*stream.feed("word " * 60 + "\n\n```\n" + "code " * 30 + "\n```\n"), *stream.close()]
    assert max(measure_width(line) for line in lines if "word" in line) in range(90, 101)
    assert any(measure_width(line) > 140 for line in lines if "code" in line)


def test_a_heading_of_a_low_level_has_no_hashes_where_it_is_bold() -> None:
    stream = look(depth=ColorDepth.BASIC).open_stream()
    assert [*stream.feed("### Three\n"), *stream.close()] == ["\x1b[1mThree\x1b[0m"]


def test_a_skin_of_ones_own_is_worn() -> None:
    own = look(depth=ColorDepth.TRUE, skin="mine", skins={"mine": {"person": "bold #010203"}})
    assert own.paint("person", "x") == "\x1b[1;38;2;1;2;3mx\x1b[0m"
    assert own.list_skins() == (*SKINS, "mine")


@pytest.mark.parametrize(
    ("skins", "words"),
    [
        ({}, "There is no skin 'mine'"),
        ({"mine": {"nose": "bold"}}, "a part that does not exist: 'nose'"),
        ({"mine": {"person": "fat"}}, "'fat' is not a style"),
        ({"mine": {"person": "#12"}}, "'#12' is not a style"),
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
