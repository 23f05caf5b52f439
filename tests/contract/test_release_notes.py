"""Release notes are the section of the changelog that was asked for, and nothing else."""

import subprocess
import sys
from pathlib import Path

import hermes

ROOT = Path(hermes.__file__).parent.parent


def notes(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "release_notes.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_section_is_printed_without_its_neighbours() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    done = notes("unreleased", "--base", "https://example.org/tree/")
    assert done.returncode == 0, done.stderr
    body = text.split("\n## Unreleased\n", 1)[1].split("\n## ", 1)[0].strip()
    assert done.stdout.strip().splitlines()[0] == body.splitlines()[0]
    assert len(done.stdout.strip().splitlines()) == len(body.splitlines())
    assert "](docs/" in body and "](docs/" not in done.stdout
    assert "](https://example.org/tree/docs/" in done.stdout


def test_a_version_may_have_been_built_in_steps() -> None:
    done = notes("v0.1.0")
    assert done.returncode == 0 and done.stdout.count("\n## 0.1.0") == 5, done.stderr


def test_a_version_that_is_not_there_is_told_with_those_that_are() -> None:
    done = notes("9.9.9")
    assert done.returncode == 1 and "Unreleased" in done.stderr and done.stdout == ""
