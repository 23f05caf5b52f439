"""The files that patterns stand for, as the standard library finds them, and the bound on the search."""

import glob
from pathlib import Path

import pytest

from hermes.tools.path_patterns import PatternBudget, list_matches


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/x/1.txt", "a/y/2.txt", "a/.hidden/3.txt", "b/x/4.txt", ".c/x/5", "[d]/6", "e"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "broken").symlink_to("nosuch")
    return tmp_path


PATTERNS = """
    * ? [ab] [!ab] .[c] */x/*.txt */x */ a/*/ l*/x/1.txt nosuch/* */*/* */nosuch [[]d]/* b* a/../*
    */../e e/* [z-a]* [ a//x/*
"""


@pytest.mark.parametrize("pattern", [*PATTERNS.split(), "*\0"])
def test_a_pattern_stands_for_what_the_standard_library_finds(folder: Path, pattern: str) -> None:
    found = list(list_matches(f"{folder}/{pattern}", PatternBudget()))
    assert found == glob.glob(f"{folder}/{pattern}", include_hidden=True)


SHELL_PATTERNS = r"** **/x **x [[:lower:]] [[=a=]] [[.a.]]/* [][:lower:]]/x [x[^a]] @(a|?)/x ?\a"


@pytest.mark.parametrize("pattern", SHELL_PATTERNS.split())
def test_the_known_folder_counts_where_shells_match_otherwise(folder: Path, pattern: str) -> None:
    assert list(list_matches(f"{folder}/{pattern}", PatternBudget())) == [str(folder)]
    assert list(list_matches(f"{folder}/a/{pattern}", PatternBudget())) == [f"{folder}/a"]


def test_both_signs_of_shells_negate_a_bracket(folder: Path) -> None:
    assert list(list_matches(f"{folder}/[^ab]*/6", PatternBudget())) == [f"{folder}/[d]/6"]


@pytest.mark.parametrize("part", [".*", ".?", ".[.]", ".[^.]", ".**", ".[[:punct:]]"])
def test_a_dot_before_a_pattern_may_stand_for_the_folder_itself_and_the_one_around(folder: Path, part: str) -> None:
    found = {str(Path(one)) for one in list_matches(f"{folder}/a/{part}/b/x", PatternBudget())}
    assert f"{folder}/b/x" in found
    assert f"{folder}/b/x" in set(list_matches(f"{folder}/link/{part}/b/x", PatternBudget()))
    for plain in (".c*", ".[!.]c", "?.*"):
        assert f"{folder}/b/x" not in set(list_matches(f"{folder}/a/{plain}/b/x", PatternBudget()))


def test_a_name_that_looks_like_a_pattern_is_itself_too(folder: Path) -> None:
    assert list(list_matches(f"{folder}/[d]", PatternBudget())) == [f"{folder}/[d]"]
    assert list(list_matches(f"{folder}/a", PatternBudget())) == [f"{folder}/a"]


@pytest.mark.parametrize("pattern", ["*/*/*/*/*/*/*", "*/*/*/*/*/*/nosuch", "{0,1}/*", "*/{0,1}"])
def test_the_known_folder_counts_where_too_much_would_be_looked_at(tmp_path: Path, pattern: str) -> None:
    for number in range(9):
        (tmp_path / str(number)).symlink_to(".")
    assert list(list_matches(f"{tmp_path}/{pattern}", PatternBudget())) == [str(tmp_path)]


def test_all_patterns_of_a_call_share_the_bound(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / str(number)).symlink_to(".")
    budget = PatternBudget()
    assert len(list(list_matches(f"{tmp_path}/*/*", budget))) == 81
    assert list(list_matches(f"{tmp_path}/*/*/*/*/*/*/nosuch", budget)) == [str(tmp_path)]
    assert list(list_matches(f"{tmp_path}/*", budget)) == [str(tmp_path)]


def test_many_files_in_a_large_folder_are_found(tmp_path: Path) -> None:
    for number in range(3_000):
        (tmp_path / f"{number}.{'a' if number % 100 else 'b'}").symlink_to(".")
    assert len(list(list_matches(f"{tmp_path}/*.b", PatternBudget()))) == 30
    assert list(list_matches(f"{tmp_path}/*.a", PatternBudget())) == [str(tmp_path)]
