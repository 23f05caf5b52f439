"""`docs/write-a-plugin.md`: its package is laid out from the page, its tests run, and all that it names exists."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest

from hermes.hooks.hook import HookCall, HookOutcome
from hermes.plugins import GROUPS
from hermes.testing.plugins import write_package
from hermes.tools.tool import ToolTraits

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write-a-plugin.md").read_text("utf-8")
FILES = dict(re.findall(r"^`([\w./-]+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
TESTS = [name for name in FILES if name.startswith("tests/")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the page, as an installer leaves it."""
    made = tmp_path_factory.mktemp("page")
    project = tomllib.loads(FILES["pyproject.toml"])["project"]
    offers = {GROUPS[group]: entries for group, entries in project["entry-points"].items()}
    write_package(made, project["name"], {"hermes_dice/__init__.py": "", **FILES}, offers, version=project["version"])
    return made


def test_the_page_has_a_tool_a_hook_a_command_and_a_platform() -> None:
    assert {"pyproject.toml", "no-force-push.sh", "hermes_dice/tools.py", "hermes_dice/hooks.py"} <= FILES.keys()
    assert {"hermes_dice/commands.py", "hermes_dice/folder_platform.py"} <= FILES.keys() and len(TESTS) == 5


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_the_page_pass(folder: Path, name: str) -> None:
    environ = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_that_it_names_exists() -> None:
    for name in re.findall(r"`(hermes\.[\w.]+)`", PAGE):
        if name not in GROUPS:
            assert importlib.import_module(name)
    for path in re.findall(r"`(hermes/[\w./]+)`", PAGE):
        assert (ROOT / path).exists(), path
    rows = re.findall(r"^\| (`hermes\.testing.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 6
    for modules, said in rows:
        named = re.findall(r"`(hermes\.[\w.]+)`", modules + said)
        for thing in re.findall(r"`([A-Za-z_]+)`", said):
            assert any(hasattr(importlib.import_module(one), thing) for one in named), thing
    for group in re.findall(r"`(hermes\.(?:\w+_)?\w+s)`", PAGE):
        assert group in GROUPS or resolve_name(group)
    for field in ("arguments", "context", "text", "notice"):
        assert field in HookOutcome.__struct_fields__
    assert "tool" in HookCall.__struct_fields__
    for trait in ("paths", "command", "hosts", "keeps", "requirements", "availability", "deferred", "brief"):
        assert f"`{trait}`" in PAGE or f"{trait}=" in PAGE
        assert trait in ToolTraits.__annotations__
