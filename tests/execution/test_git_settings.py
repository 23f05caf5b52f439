"""Settings of git: they are read as git itself reads them, and changes beside those that were named are put back."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from hermes.execution.git_settings import (
    find_led_places,
    read_line,
    read_parts,
    strip_harmful_settings,
    trace_links,
)
from tests.cpu_cost import count_cpu_units

TEXTS = (
    "[core]\n\thooksPath = own # mine\n",
    '[core]\n\thooksPath = "own # mine" ; mine\n',
    "[CORE]hooksPath=own",
    "[core]\n\thooksPath\n",
    '[a "B \\"c\\\\"]\n\tkEy = 1\n[a.B]\n\tk = 2\n',
    "[core] ; a comment \\\n\tx = a \\\n   b  \n\ty = c\\\n",
    "[core]\r\n\tx = a\r\n# x\ry = b\r\n\tz = c\rd\n",
    '[core]\n\tx = "a \\t\\n\\b\\"" b\n',
    "\ufeff[core]\n\tx = y\n",
    '[core]\n\tx = "" a "" \n',
    "[core]\n\tx = a\\q\n",
    '[core]\n\tx = "a\n',
    "[core\n",
    "[]\n\tx = y\n",
    '[core "x\n"]\n',
    "[core ]\n",
    "[core]\n\t-x = y\n",
    "[core]\n\tx y\n",
    "\n\n[core]\n\n\n\tx = é\n\n",
)


def list_by_git(text: str, folder: Path) -> list[tuple[str, str | None]] | None:
    """The settings as git lists them, or None where it cannot read the file."""
    (folder / "config").write_bytes(text.encode())
    done = subprocess.run(["git", "config", "-zlf", folder / "config"], capture_output=True, check=False)
    entries = [one.partition("\n") for one in done.stdout.decode().split("\0")[:-1]]
    return [(name, value if sign else None) for name, sign, value in entries] if not done.returncode else None


def list_as_read(text: str) -> list[tuple[str, str | None]] | None:
    """The same as it is read here; a space stands for other signs between words, as in git's older versions."""
    parts = list(read_parts(text))
    assert "".join(part.text for part in parts) == text
    if any(part.is_broken for part in parts):
        return None
    return [(one.name, one.value) for part in parts if (one := part.setting) is not None]


@pytest.mark.needs("git")
@pytest.mark.parametrize("text", TEXTS)
def test_settings_are_read_as_git_reads_them(text: str, tmp_path: Path) -> None:
    ours, theirs = list_as_read(text), list_by_git(text, tmp_path)
    assert (ours is None) == (theirs is None)
    assert [(name, value and value.replace("\r", " ")) for name, value in ours or ()] == (theirs or [])


@pytest.mark.parametrize("text", TEXTS)
def test_harmless_settings_stay_as_they_are(text: str) -> None:
    clean = strip_harmful_settings(f"[user]\n\tname = Ann # x\n{text}")
    assert clean.startswith("[user]\n\tname = Ann # x\n")
    assert strip_harmful_settings(clean) == clean and "hooksPath" not in clean and "\ry" not in clean


def test_reading_takes_time_by_the_length_alone() -> None:
    for text in ("\n", "[core]\n\tx = a \\\n", '[core]\n\tx = "', " a", "x", "[", "\r", "[a]\\", '"', "x = a;"):
        short, long = ('[core]\nx = "' + text * (number // len(text)) for number in (20_000, 200_000))
        assert count_cpu_units(lambda text=long: list(read_parts(text))) < 60 + 30 * count_cpu_units(
            lambda text=short: list(read_parts(text))
        )


def test_what_settings_lead_to(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "home/work"
    git = work / ".git"
    (git / "worktrees/t").mkdir(parents=True)
    (git / "worktrees/t/gitdir").write_text(f"{tmp_path}/t/.git\n")
    (git / "hooks").mkdir()
    (git / "hooks/pre-commit").symlink_to("../../by/check")
    (work / "by").symlink_to("scripts")
    (git / "config").write_text('[include]\n\tpath = ../a\n[includeIf "onbranch:x"]\n\tpath = ~/b\n')
    (git / "config.worktree").write_text("[core]\n\thooksPath = ./own\n\thooksPath = .\n")
    (work / "a").write_text("[include]\n\tpath = a\n\tpath = c\n")
    (home / "b").write_text("[core]\n\thooksPath = ~/hooks # mine\n")
    (home / ".gitconfig").write_text("[include]\n\tpath = d\n")
    led = find_led_places(str(git), str(home))
    assert {*led.settings} == {f"{home}/d", f"{work}/a", f"{home}/b", f"{work}/c"}
    hooks = {f"{home}/hooks", f"{work}/own", f"{tmp_path}/t/own", f"{work}/by", f"{work}/scripts/check"}
    assert hooks < set(led.hooks) and f"{work}/pre-push" in led.hooks and str(work) not in led.hooks


def test_links_that_lead_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert str(tmp_path / "b") in trace_links(f"{tmp_path}/a/x")


async def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    """A command can put one where git keeps the path of a repository, and nobody ever writes to it."""
    os.mkfifo(tmp_path / ".git")
    async with asyncio.timeout(30):
        assert await asyncio.to_thread(read_line, str(tmp_path / ".git")) == ""
