"""The skills that come with Hermes: valid, short, and every command in them that is an example runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.skills.catalog import SkillCatalog, SkillRoots, SkillTier
from hermes.skills.files import read_folder
from hermes.skills.section import format_index
from hermes.skills.skill_library import list_problems
from tests.requirements import require_program

STARTER = Path(SkillRoots(own=Path(), cache=Path()).built_in)
SKILLS = sorted(path.name for path in STARTER.iterdir() if not path.name.startswith("_"))
EXAMPLE = re.compile(r"(?ms)^```sh example\n(.*?)^```$")

each = pytest.mark.parametrize("name", SKILLS)


def catalogue(folder: Path) -> SkillCatalog:
    return SkillCatalog(SkillRoots(own=folder / "skills", cache=folder / "cache"), dict(os.environ))


def test_there_are_twelve() -> None:
    assert len(SKILLS) == 12


@each
def test_it_is_valid_and_of_a_good_length(name: str) -> None:
    assert list_problems(str(STARTER / name)) == []
    lines = read_folder(str(STARTER / name))["SKILL.md"].decode().splitlines()
    assert 40 <= len(lines) <= 120
    assert max(map(len, lines)) <= 160


@each
def test_the_reference_tool_agrees(name: str) -> None:
    asked = [str(Path(sys.executable).with_name("agentskills")), "validate", str(STARTER / name)]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@each
def test_its_examples_run(name: str, tmp_path: Path) -> None:
    (skill,) = [one for one in catalogue(tmp_path).list_all() if one.name == name]
    for program in skill.missing:
        require_program(program.removeprefix("the program "))
    assert not skill.missing
    blocks = EXAMPLE.findall((STARTER / name / "SKILL.md").read_text("utf-8"))
    assert blocks
    work = tmp_path / "work"
    work.mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "SKILL": str(STARTER / name),
        "LANG": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        check=False,
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_whole_index_is_shown_with_descriptions(tmp_path: Path) -> None:
    found = [one for one in catalogue(tmp_path).list_all() if one.tier is SkillTier.BUILT_IN]
    text = format_index(found)
    assert all(f"- {name}: " in text for name in SKILLS)
    assert len(text) <= 1_200
    assert all(one.category for one in found)
