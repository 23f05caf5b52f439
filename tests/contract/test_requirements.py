"""What tests need, what CI installs, and which tests are the fast ones: three lists that have to agree."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import SLOW_FOLDERS
from tests.requirements import COMPLETE, REQUIREMENTS, describe_missing, find_program, require

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
CI = (ROOT / ".ci" / "run").read_text("utf-8")
CALL = re.compile(r"\b(?:needs|require|skip)\s*\(")


def list_needs(path: Path) -> Iterator[ast.expr]:
    """Yield what is asked for by marks and by `require` in a file."""
    for call in list_calls(path):
        if ast.unparse(call.func) in ("pytest.mark.needs", "require"):
            yield from call.args


def is_slow_file(tree: ast.Module) -> bool:
    """Return whether a mark at the top of a file makes all of its tests slow."""
    marks = (
        one.value for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"
    )
    return any("pytest.mark.slow" in ast.unparse(one) for one in marks)


@cache
def list_files() -> list[Path]:
    return sorted(TESTS.rglob("*.py"))


@cache
def read_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def list_calls(path: Path) -> list[ast.Call]:
    """Return the calls of what is named `needs`, `require` or `skip`, of which the tests look at the whole name."""
    if not CALL.search(path.read_text("utf-8")):
        return []  # six files of seven, which need not be parsed
    calls = (node for node in ast.walk(read_tree(path)) if isinstance(node, ast.Call))
    return [one for one in calls if get_last_name(one.func) in ("needs", "require", "skip")]


def get_last_name(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def test_every_need_names_a_program_that_is_known_and_every_program_is_needed() -> None:
    named = set()
    for path in list_files():
        if path.name in ("requirements.py", Path(__file__).name):
            continue
        for argument in list_needs(path):
            assert isinstance(argument, ast.Constant), f"{path}: {ast.unparse(argument)} is not written out"
            assert argument.value in REQUIREMENTS, f"{path} needs {argument.value}"
            named.add(argument.value)
    by_program = {"fish", "zsh", "sqlite3", "poppler"}  # found by the name of a shell, or of what a skill needs
    assert named == REQUIREMENTS.keys() - by_program


def test_programs_are_looked_for_in_one_place() -> None:
    for path in list_files():
        for call in list_calls(path):
            if ast.unparse(call.func) == "pytest.skip":
                assert "installed" not in ast.unparse(call) or path.name == "requirements.py", path


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_ci_installs_each_program_or_names_it_as_optional(name: str) -> None:
    needed = REQUIREMENTS[name]
    installed = {one for found in re.findall(r"missing\+=\(([^)]*)\)", CI) for one in found.split()}
    before, export, after = CI.partition(f"export {COMPLETE}=1\n")
    assert export and "missing+=" in before and "missing+=" not in after
    if needed.is_optional:
        assert needed.package not in installed and re.search(rf"\b{needed.package}\b", after)
    else:
        assert needed.package in installed


def test_a_missing_program_is_a_skip_and_in_ci_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = next((name for name, one in REQUIREMENTS.items() if not one.is_installed() and not one.is_optional), "")
    monkeypatch.delenv(COMPLETE, raising=False)
    for name, needed in REQUIREMENTS.items():
        assert not needed.is_expected()
        monkeypatch.setenv(COMPLETE, "1")
        assert needed.is_expected() is not needed.is_optional, name
        monkeypatch.delenv(COMPLETE)
    if missing:
        with pytest.raises(pytest.skip.Exception, match=f"{missing} is not installed"):
            require(missing)
        monkeypatch.setenv(COMPLETE, "1")
        with pytest.raises(pytest.fail.Exception, match="says that nothing is missing"):
            require(missing)
    assert find_program("sh") and find_program("no-such-program") is None


def test_what_was_not_run_is_counted_by_program() -> None:
    reasons = ["Skipped: git is not installed", "Skipped: curl, git are not installed", "Skipped: containers are slow"]
    assert describe_missing(reasons) == "not run here: 2 tests need git, 1 test needs curl"
    assert describe_missing(reasons[2:]) == ""


def test_the_fast_tests_reach_every_folder() -> None:
    missing = {path.parent.name for path in (ROOT / "hermes").glob("*/__init__.py")}
    for path in list_files():
        if missing and path.name.startswith("test_") and path.relative_to(TESTS).parts[0] not in SLOW_FOLDERS:
            missing -= list_imported_folders(read_tree(path))
    assert not missing


def list_imported_folders(tree: ast.Module) -> set[str]:
    """Return the folders of `hermes` from which a file of tests imports; none of a slow one."""
    if is_slow_file(tree):
        return set()
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules += [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
    return {one.split(".")[1] for one in modules if one.startswith("hermes.")}
