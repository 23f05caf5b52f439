"""The files that patterns stand for, as the standard library finds them, and the bound on the search."""

import glob
from pathlib import Path

import pytest

from hermes.tools.path_patterns import EVERYWHERE, FoundPlace, PatternBudget, list_matches


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/x/1.txt", "a/y/2.txt", "a/.hidden/3.txt", "b/x/4.txt", ".c/x/5", "[d]/6", "e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "broken").symlink_to("nosuch")
    return tmp_path


def find(pattern: str, budget: PatternBudget | None = None) -> list[str]:
    """Return the files that a pattern stands for; all of them are known."""
    found = list(list_matches(pattern, budget or PatternBudget()))
    assert not any(one.is_whole for one in found)
    return [one.path for one in found]


PATTERNS = """
    * ? [ab] [!ab] .[c] */x/*.txt */x */ a/*/ l*/x/1.txt nosuch/* */*/* */nosuch [[]d]/* b* a/../*
    */../e e/* [z]* [ a//x/*
"""


@pytest.mark.parametrize("pattern", [*PATTERNS.split(), "*\0"])
def test_a_pattern_stands_for_what_the_standard_library_finds(folder: Path, pattern: str) -> None:
    assert find(f"{folder}/{pattern}") == glob.glob(f"{folder}/{pattern}", include_hidden=True)


SHELL_PATTERNS = {
    "**": "a a/x a/x/1.txt e [d]/6",
    "**/x": "a/x b/x .c/x",
    "[[:lower:]]": "a b e",
    "[[=a=]]/x": "a/x",
    "[x[^a]]": "[d]",
    "[][:lower:]]/x": "a/x b/x",
    "@(a|?)/x": "a/x b/x",
    r"?\a": "a",
    "{a,b}/x": "a/x b/x",
    "A/X/*": "",
    "A*/x": "a/x",
    "[z-a]*": "a b",
}


@pytest.mark.parametrize("pattern", SHELL_PATTERNS)
def test_whatever_shells_may_match_otherwise_is_found(folder: Path, pattern: str) -> None:
    assert set(find(f"{folder}/{pattern}")) >= {f"{folder}/{one}" for one in SHELL_PATTERNS[pattern].split()}


@pytest.mark.parametrize("pattern", ["vid?o", "vid??o", "VID[!x]*", "vid[\u00e9]o", "vid\u00e9*", "VID\u00c9O*"])
def test_a_letter_may_be_several_signs(tmp_path: Path, pattern: str) -> None:
    (tmp_path / "vid\u00e9o").write_text("")
    assert find(f"{tmp_path}/{pattern}") == [f"{tmp_path}/vid\u00e9o"]


@pytest.mark.parametrize("number", ["$?", "${#}", "${RANDOM}", "%+", "$$"])
def test_a_number_of_the_shell_is_any_number(tmp_path: Path, number: str) -> None:
    (tmp_path / "a17").write_text("")
    assert f"{tmp_path}/a17" in find(f"{tmp_path}/a{number}")


def test_both_signs_of_shells_negate_a_bracket(folder: Path) -> None:
    assert find(f"{folder}/[^ab]*/6") == [f"{folder}/[d]/6"]


@pytest.mark.parametrize("part", [".*", ".?", ".[.]", ".[^.]", ".**", ".[[:punct:]]"])
def test_a_dot_before_a_pattern_may_stand_for_the_folder_itself_and_the_one_around(folder: Path, part: str) -> None:
    found = {str(Path(one)) for one in find(f"{folder}/a/{part}/b/x")}
    assert f"{folder}/b/x" in found
    assert f"{folder}/b/x" in set(find(f"{folder}/link/{part}/b/x"))
    for plain in (".c*", ".[!.]c", "?.*"):
        assert f"{folder}/b/x" not in set(find(f"{folder}/a/{plain}/b/x"))


def test_a_name_that_looks_like_a_pattern_is_itself_too(folder: Path) -> None:
    assert find(f"{folder}/[d]") == [f"{folder}/[d]"]
    assert find(f"{folder}/a") == [f"{folder}/a"]


@pytest.mark.parametrize("pattern", ["*/*/*/*/*/*/*", "*/*/*/*/*/*/nosuch", "{0,1/2}/*"])
def test_anything_counts_where_too_much_would_be_looked_at(tmp_path: Path, pattern: str) -> None:
    """Also elsewhere: a link may lead there."""
    for number in range(9):
        (tmp_path / str(number)).symlink_to(".")
    assert list(list_matches(f"{tmp_path}/{pattern}", PatternBudget())) == [FoundPlace(str(tmp_path), True), EVERYWHERE]


def test_all_patterns_of_a_call_share_the_bound(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / str(number)).symlink_to(".")
    budget = PatternBudget()
    assert len(find(f"{tmp_path}/*/*", budget)) == 81
    assert EVERYWHERE in list_matches(f"{tmp_path}/*/*/*/*/*/*/nosuch", budget)
    assert list(list_matches(f"{tmp_path}/*", budget)) == [FoundPlace(str(tmp_path), True)]


def test_many_files_in_a_large_folder_are_found(tmp_path: Path) -> None:
    for number in range(3_000):
        (tmp_path / f"{number}.{'a' if number % 100 else 'b'}").symlink_to(".")
    budget = PatternBudget()
    for _ in range(20):
        assert len(find(f"{tmp_path}/*.b", budget)) == 30
    assert list(list_matches(f"{tmp_path}/*.a", budget)) == [FoundPlace(str(tmp_path), True)]
