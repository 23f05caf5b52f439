"""Markdown as lines of a terminal: each construct, exactly."""

import pytest

from hermes.cli.render.markdown import MarkdownRenderer
from hermes.cli.render.theme import ColorDepth, Theme
from hermes.markup.blocks import BlockKind, BlockSplitter
from hermes.markup.cells import measure_width, truncate_text
from tests.case_tables import each_case
from tests.cpu_cost import measure_growth

PLAIN = Theme({}, ColorDepth.PLAIN)
"""No colours, so that lines can be read here; boxes and marks as ever."""


def shown(text: str, width: int = 60, theme: Theme = PLAIN) -> list[str]:
    markdown = MarkdownRenderer(theme, lambda: width)
    return [*markdown.feed(text), *markdown.close()]


@each_case(
    ("text", "lines"),
    [
        ("", []),
        ("\n\n \n", []),
        ("one\ntwo\n\nthree", ["one", "two", "", "three"]),
        ("# Top\ntext", ["# Top", "", "text"]),
        ("### Deep ##\n", ["### Deep"]),
        ("Title\n=====\ntext", ["# Title", "", "text"]),
        ("a **b** *c* ***d*** ~~e~~ `f`", ["a b c d e f"]),
        ("**好。**再见，**“引用”**的话", ["好。再见，“引用”的话"]),
        ("a|b\n-|-\n1|2|3", ["a  b", "─  ─────", "1  2 | 3"]),
        ("snake_case_name 2 * 3 * 4 a*b", ["snake_case_name 2 * 3 * 4 a*b"]),
        ("**open and *half", ["**open and *half"]),
        (r"\*not\* \_that\_ &lt;b&gt; &amp;", ["*not* _that_ <b> &"]),
        ("``a ` b`` and `open", ["a ` b and `open"]),
        ("[words](https://a.b/c) [https://x.y](https://x.y)", ["words (https://a.b/c) https://x.y"]),
        ("![plot](img.png) <https://a.b> [a](b_(c))", ["plot (img.png) https://a.b a (b_(c))"]),
        ("[![x](i.png)](https://t)", ["x (i.png) (https://t)"]),
        (r"$x_1*y_2*z$ and \(a_b_c\) cost $5 and $6 *x*", [r"$x_1*y_2*z$ and \(a_b_c\) cost $5 and $6 x"]),
        ("$$\na_1 * b\n$$\ntext", ["$$", "a_1 * b", "$$", "text"]),
        ("- a\n- b\n  - c\n    - d\n- e", ["• a", "• b", "  ◦ c", "    ▪ d", "• e"]),
        ("1. a\n1. b\n1. c", ["1. a", "2. b", "3. c"]),
        ("7) a\n8) b\n", ["7) a", "8) b"]),
        ("1. a\n  - b\n2. c", ["1. a", "   ◦ b", "2. c"]),
        ("- a\n  goes on\n\n  more\n- b", ["• a", "  goes on", "", "  more", "• b"]),
        ("- [ ] do\n- [x] did", ["[ ] do", "[x] did"]),
        ("in\n1984. It was", ["in", "1984. It was"]),
        ("```diff\n+a\n```", ["+a"]),
        ("> q\n> - a\n>\n> > deep\n\nout", ["│ q", "│ • a", "│", "│ │ deep", "", "out"]),
        ("a\n\n---\n\nb", ["a", "", "─" * 60, "", "b"]),
        ("<div>\n**x**\n</div>\n\n**y**", ["<div>", "**x**", "</div>", "", "y"]),
        ("<b>x</b> **y**", ["<b>x</b> y"]),
        ("```python\n\tx = 1\n\n    y\n```\nz", ["python", "    x = 1", "", "    y", "", "z"]),
        ("~~~\n```\n~~~", ["```"]),
        ("```\nnever closed", ["never closed"]),
        ("1. Run:\n   ```sh\n   ls\n     -l\n   ```\n2. b", ["1. Run:", "", "sh", "ls", "  -l", "", "2. b"]),
        ("a\n\n    code\n    more\n\nb", ["a", "", "code", "more", "", "b"]),
        ("a\\\nb", ["a", "b"]),
    ],
)
def test_a_construct_is_shown_as_these_lines(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


@each_case(
    ("text", "lines"),
    [
        ("- > a\n  > b\n- c", ["• │ a", "  │ b", "• c"]),
        ("- a\n  > e\n  > f\n- b", ["• a", "  │ e", "  │ f", "• b"]),
        ("1. a\n\n   > e\n   >\n   > f\n\nout", ["1. a", "", "   │ e", "   │", "   │ f", "", "out"]),
        ("- > a\n> b", ["• │ a", "", "│ b"]),
        ("> a\n- > b", ["│ a", "", "• │ b"]),
        ("> - > x\n>   > y\n>   z\n>\n>   w", ["│ • │ x", "│   │ y", "│   │ z", "│", "│   w"]),
        ("> a\nb\nc\n\nd", ["│ a", "│ b", "│ c", "", "d"]),
        ("> > a\nb", ["│ │ a", "│ │ b"]),
        ("> - a\nb\n- c", ["│ • a", "│   b", "", "• c"]),
        ("> a\n# b", ["│ a", "", "# b"]),
        ("> # a\nb", ["│ # a", "", "b"]),
        ("> a\n```\nb\n```", ["│ a", "", "b"]),
        ("> ```\n> a\nb", ["│ a", "", "b"]),
        ("> ```sh\n> a\n>\n>   b\n> ```\n> c", ["│ sh", "│ a", "│", "│   b", "│", "│ c"]),
        ("> $$\n> a\nb", ["│ $$", "│ a", "", "b"]),
        ("- ```sh\n  ls\n    -l\n  ```\n- b", ["• sh", "ls", "  -l", "", "• b"]),
        ("1. ```\n   ls\n   ```\n   then", ["1.", "ls", "", "   then"]),
        ("- > ```\n  > ls\n  > ```", ["• │", "  │ ls"]),
        ("- ```\n  ```\n- b", ["•", "", "• b"]),
        ("- a\n\n      code\n\n  b", ["• a", "", "  code", "", "  b"]),
        ("1. a\n\n    b\n\n       code\n", ["1. a", "", "   b", "", "   code"]),
        ("-\n- b\n-\n  c\n-", ["•", "• b", "• c", "•"]),
        ("-\nb", ["•", "", "b"]),
        ("- # a\n  b", ["• # a", "", "  b"]),
        ("- - a\n  - b\n- 1. c\n  2. d", ["• ◦ a", "  ◦ b", "• 1. c", "  2. d"]),
        ("- | a | b |\n  |--|--|\n  | 1 | 2 |", ["• a  b", "  ─  ─", "  1  2"]),
        ("- a\n\n  <div>\n    x\n  </div>", ["• a", "", "  <div>", "    x", "  </div>"]),
        ("- $$\n  a\n    b\n  $$\n- c", ["• $$", "  a", "    b", "  $$", "• c"]),
        ("- a\n---\nb", ["• a", "", "─" * 60, "b"]),
        ("- [x] a\n  b\n  - c\n1. [ ] d\n   e", ["[x] a", "    b", "  ◦ c", "1. [ ] d", "       e"]),
        ("a\n    > b", ["a", "> b"]),
        ("> " * 9 + "a", ["│ " * 6 + "> > > a"]),
        ("- " * 18 + "a", [" ".join("•◦▪" * 5 + "•") + " - - a"]),
    ],
)
def test_what_stands_in_quotes_and_items_keeps_their_place(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


def test_lists_that_are_nested_too_deep_go_on_beside_the_innermost() -> None:
    lines = shown("".join("  " * depth + f"- {depth}\n" for depth in range(40)))
    assert [line.split()[1] for line in lines] == [str(depth) for depth in range(40)]
    assert {len(line) - len(line.lstrip()) for line in lines[15:]} == {30}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("&copy; &#42;a&#42; &#x2764; &hellip; &frac12;", "© *a* ❤ … ½"),
        ("&AMP; &nosuch; &ampx; &; &#; &#x; R&D; AT&T", "& &nosuch; &ampx; &; &#; &#x; R&D; AT&T"),
        ("a&nbsp;b&#10;c&Tab;d&NewLine;e", "a b c    d e"),
        (
            "&#27;[31m &#x81; &#x202e; &zwj; &shy; &#xfeff; &#xE0041; &#7;",
            "&#27;[31m &#x81; &#x202e; &zwj; &shy; &#xfeff; &#xE0041; &#7;",
        ),
        ("&#0; &#xd800; &#9999999; &#128;", "\ufffd \ufffd \ufffd €"),
        ("`&copy;` \\&copy; [&lt;a](http://x?a&amp;b)", "&copy; &copy; <a (http://x?a&b)"),
    ],
)
def test_entities_are_what_they_stand_for_unless_that_is_unseen(text: str, line: str) -> None:
    assert shown(text, 200) == [line]


def test_headings_are_seen_as_such_without_colours() -> None:
    text = "# A\n## B\n### C"
    assert shown(text) == ["# A", "", "## B", "", "### C"]
    assert shown(text, 60, Theme({}, ColorDepth.NONE))[2] == "\x1b[1mB\x1b[0m"


def test_words_are_wrapped_and_addresses_left_whole() -> None:
    text = "The quick brown fox jumps over https://example.org/a/very/long/address/that/goes/on and rests."
    assert shown(text, 20) == [
        "The quick brown fox",
        "jumps over",
        "https://example.org/a/very/long/address/that/goes/on",
        "and rests.",
    ]
    assert shown(text, 200) == [text]


def test_chinese_is_wrapped_anywhere_but_before_its_marks() -> None:
    assert shown("- 一二三四五六七八，九十。", 20) == ["• 一二三四五六七八，", "  九十。"]
    assert shown("一二三四五六七八九，十", 20) == ["一二三四五六七八九，", "十"]
    assert shown("一二三四五六七八九十，", 20) == ["一二三四五六七八九", "十，"]


def test_emoji_take_two_cells() -> None:
    assert shown("😀😀😀😀😀😀", 10) == ["😀" * 5, "😀"]


FAMILY, FLAG, THUMB, HEART = "👨\u200d👩\u200d👧", "🇩🇪", "👍🏽", "❤\ufe0f"


def test_joined_emoji_take_two_cells_and_are_never_parted() -> None:
    for sign in (FAMILY, FLAG, THUMB, HEART, "1\ufe0f\u20e3"):
        assert measure_width(sign) == 2
        assert shown(sign * 6, 10) == [sign * 5, sign]
        assert truncate_text(sign * 3, 5, ".") == sign * 2 + "."
    assert shown(f"| {FAMILY} | a |\n|--|--|\n| b | {FLAG}{THUMB} |") == [
        f"{FAMILY}  a",
        "──  ────",
        f"b   {FLAG}{THUMB}",
    ]


def test_a_sign_of_very_many_characters_does_not_stretch_a_line() -> None:
    text = "\u1100" * 40 + HEART
    assert [measure_width(line) for line in shown(text, 20)] == [20, 20, 20, 20, 2]


def test_a_table_has_aligned_columns() -> None:
    text = "| Name | Count | Middle |\n|:--|--:|:-:|\n| a | 1 | x |\n| 中文 | 1,024 | **yes** |\n| a \\| b |\n"
    assert shown(text) == [
        "Name   Count  Middle",
        "─────  ─────  ──────",
        "a          1    x",
        "中文   1,024   yes",
        "a | b",
    ]


def test_a_wide_table_shrinks_its_widest_columns_and_then_becomes_a_list() -> None:
    text = "| id | words |\n|---|---|\n| 1 | some words that are long |\n| 2 | few |\n"
    assert shown(text, 20) == [
        "id  words",
        "──  ────────────────",
        "1   some words that",
        "    are long",
        "",
        "2   few",
    ]
    five = "| a | b | c | d | e |\n|---|---|---|---|---|\n| 1234567 | 2 | 3 | 4 | 5555555 |\n| 1 | | 3 | 4 | 5 |\n"
    assert shown(five, 20) == [
        *("a: 1234567", "b: 2", "c: 3", "d: 4", "e: 5555555", ""),
        *("a: 1", "c: 3", "d: 4", "e: 5"),
    ]


def test_a_table_of_many_rows_comes_in_parts_with_the_same_columns() -> None:
    rows = "".join(f"| row {n} | {n} |\n" for n in range(200))
    markdown = MarkdownRenderer(PLAIN, lambda: 60)
    first = markdown.feed(f"| a | b |\n|---|--:|\n{rows}")
    assert len(first) > 150
    lines = [*first, *markdown.close()]
    assert lines[2] == "row 0          0"
    assert lines[201] == "row 199      199"
    assert len(lines) == 202


@pytest.mark.parametrize("width", [20, 60, 80, 200, 400])
def test_no_line_is_wider_than_asked_for(width: int) -> None:
    text = (
        "# A heading of some words that goes on and on\n\nwords and words 中文字符 and more 😀 of them " * 6
        + "\n\n- item with words and words and words\n  - inner with words and words\n\n"
        + "> quoted words and words and words and some\n\n"
        + "| one | two | three |\n|---|---|---|\n| some words | and some more words | 中文字符 |\n"
    )
    assert max(measure_width(line) for line in shown(text, width)) <= width


def test_plain_has_words_instead_of_marks() -> None:
    theme = Theme({}, ColorDepth.TRUE, plain=True)
    text = "## H\n- a\n- [x] b\n\n```sh\nls\n```\n| n | v |\n|---|---|\n| a | 1 |\n\n---\n> q\n"
    lines = shown(text, 60, theme)
    assert lines == [
        *("## H", "", "- a", "- done: b", "", "(code, sh)", "ls", "(end of code)", ""),
        *("n: a", "v: 1", "", "---", "", "> q"),
    ]


def test_colours_end_with_every_line() -> None:
    theme = Theme({}, ColorDepth.BASIC)
    assert shown("a **bold text that wraps** b", 16, theme) == [
        "a \x1b[1mbold text that\x1b[0m",
        "\x1b[1mwraps\x1b[0m b",
    ]
    assert shown("# H `c`", 60, theme) == ["\x1b[1;36mH \x1b[0m\x1b[1;36mc\x1b[0m"]


def test_code_is_coloured_over_several_lines() -> None:
    theme = Theme({}, ColorDepth.BASIC)
    lines = shown('```py\ndef f():\n    """a\n    b"""\n    return 1  # c\n```', 60, theme)
    assert lines == [
        "\x1b[2mpy\x1b[0m",
        "\x1b[35mdef\x1b[0m \x1b[34mf\x1b[0m():",
        '    \x1b[32m"""a\x1b[0m',
        '\x1b[32m    b"""\x1b[0m',
        "    \x1b[35mreturn\x1b[0m \x1b[33m1\x1b[0m  \x1b[2;3m# c\x1b[0m",
    ]


def test_long_code_is_given_out_line_by_line() -> None:
    markdown = MarkdownRenderer(PLAIN, lambda: 60)
    assert markdown.feed("```\n") == []
    assert [markdown.feed(f"line {n}\n") for n in range(3)] == [["line 0"], ["line 1"], ["line 2"]]


def test_the_tail_is_what_is_not_given_out_yet() -> None:
    markdown = MarkdownRenderer(PLAIN, lambda: 20)
    assert markdown.feed("done\n\nsome words that are") == ["done"]
    assert markdown.tail(5) == ["", "some words that are"]
    assert markdown.feed(" not **over** yet") == []
    assert markdown.tail(5) == ["", "some words that are", "not over yet"]
    assert markdown.tail(1) == ["not over yet"]
    assert markdown.tail(0) == []
    assert markdown.close() == ["", "some words that are", "not over yet"]
    assert markdown.tail(5) == []


def test_the_tail_of_a_table_has_its_head_and_last_rows() -> None:
    markdown = MarkdownRenderer(PLAIN, lambda: 20)
    markdown.feed("| a | b |\n|---|---|\n" + "".join(f"| {n} | x |\n" for n in range(30)))
    assert markdown.tail(3) == ["27  x", "28  x", "29  x"]


def test_a_megabyte_without_an_end_is_given_out_in_parts() -> None:
    for text in ("x" * 1_000_000, "word " * 200_000, "- " + "w " * 500_000, "| a" * 300_000, "> " * 300_000):
        markdown = MarkdownRenderer(PLAIN, lambda: 80)
        lines = markdown.feed(text)
        assert sum(map(len, lines)) > len(text) * 0.5
        assert max(map(len, lines)) <= 80
        assert len(markdown.tail(10)) <= 10


@pytest.mark.parametrize(
    "bad",
    [
        ("*", 50000, ""),
        ("[", 50000, ""),
        ("`a``b", 10000, ""),
        ("[a](", 12000, ""),
        ("**a _b ", 8000, ""),
        ("<a ", 16000, ""),
        ("$a ", 16000, ""),
        ("\\", 50000, ""),
        ("> ", 3000, "\n"),
        ("![[", 16000, ""),
        ("*a **b ", 8000, ""),
        ("~~", 25000, ""),
        ("| ", 25000, "\n|-|\n"),
    ],
)
def test_nothing_takes_long(bad: tuple[str, int, str]) -> None:
    piece, count, end = bad
    growth = measure_growth(lambda size: lambda: shown(piece * (count * size // 16) + end, 80), 1, 16, tries=3)
    assert growth < 48  # linear is 16, quadratic would be 256


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("so:\n\n    # a comment\n    ***\n    ---\n    x = 1\n\nend\n", ["# a comment", "***", "---", "x = 1"]),
        ("    # first\n    ---\n", ["# first", "---"]),
        ("- item\n\n      # deep\n      ***\n", ["# deep", "***"]),
        ("> q\n>\n>     # code\n>     ---\n", ["# code", "---"]),
        ("\t# tab\n\t===\n", ["# tab", "==="]),
    ],
)
def test_code_that_is_only_indented_keeps_what_its_lines_begin_with(text: str, code: list[str]) -> None:
    for size in (1, 7, len(text)):
        splitter = BlockSplitter()
        pieces = [text[place : place + size] for place in range(0, len(text), size)]
        blocks = [block for piece in pieces for block in splitter.feed(piece)] + splitter.close()
        assert [block.text for block in blocks if block.kind is BlockKind.INDENTED] == code
        assert not {BlockKind.HEADING, BlockKind.RULE} & {block.kind for block in blocks}
    assert all(any(line in one for one in shown(text, 80)) for line in code)


def test_headings_and_rules_in_items_stay_what_they_are() -> None:
    splitter = BlockSplitter()
    blocks = splitter.feed("- a\n    # head\n\n  ---\n# out\n") + splitter.close()
    assert [block.kind for block in blocks if block.kind is not BlockKind.PARAGRAPH] == [
        BlockKind.HEADING,
        BlockKind.RULE,
        BlockKind.HEADING,
    ]
