"""Which lines stay, and how new ones are indented."""

import pytest

from hermes.tools.block_merge import Indentation, find_kept_lines, merge_lines


def test_lines_that_stay_are_those_at_their_places_where_there_are_no_more_others() -> None:
    assert find_kept_lines("abca", "xbcy") == [(1, 1), (2, 2)]
    assert find_kept_lines("aab", "xab") == [(1, 1), (2, 2)]
    assert find_kept_lines("abc", "bcd") == [(1, 0), (2, 1)]
    assert find_kept_lines("abc", "ac") == [(0, 0), (2, 1)]
    assert find_kept_lines("aa", "a") == [(0, 0)]


@pytest.mark.parametrize(
    ("old", "there", "indent", "moved"),
    [
        (["    a", "        b"], ["\ta", "\t\tb"], "            ", "\t\t\t"),
        (["        a"], ["\t\ta"], "    ", "\t"),
        (["\ta"], ["    a"], "\t\t", "        "),
        (["  a", "    b"], ["    a", "        b"], "      ", "            "),
        (["a", "        b"], ["    a", "        b"], "            ", "            "),
        (["a"], ["    a"], "    ", "        "),
        (["    a"], ["    a"], "  ", "  "),
    ],
)
def test_new_lines_are_indented_as_the_file_is(old: list[str], there: list[str], indent: str, moved: str) -> None:
    assert Indentation(old, there).shift_indent(indent) == moved


@pytest.mark.parametrize(
    ("there", "old", "new", "merged"),
    [
        ("f(a, b)", "f(a,b)", "f(a,c)", "f(a, c)"),
        ("a = b", "a=b", "a+=b", "a += b"),
        ("x ,y", "x,y", "x", "x"),
        ("say “a…”  ", 'say "a..."', 'say "b..."', "say “b…”  "),
        ("a  b", "a b", "a b c", "a  b c"),
        ("a\u200bb = 1", "ab = 1", "ab = 2", "a\u200bb = 2"),
        ("한 = 1", "\u1112\u1161\u11ab = 1", "\u1112\u1161\u11ab = 2", "\u1112\u1161\u11ab = 2"),
    ],
)
def test_a_changed_line_keeps_what_does_not_change(there: str, old: str, new: str, merged: str) -> None:
    assert merge_lines([there], [old], [new], []) == [merged]
