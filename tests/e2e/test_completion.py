"""Completion, asked of real shells."""

import json
import resource
import shutil
import sys
from pathlib import Path

import pytest

from hermes.testing.home import TempHome
from tests.forked_hermes import run_hermes
from tests.requirements import require_program
from tests.sessions.stored_sessions import say_in

BASH = r"""
source {script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
{last}
_hermes
printf '%s\n' "${{COMPREPLY[@]}}"
"""
ZSH = r"""
compadd() {{
  while [[ $1 == -* ]]; do
    case $1 in
      --) shift; break ;;
      -d) shift 2 ;;
      -a) shift; print -l -- ${{(P)1}}; return ;;
      *) shift ;;
    esac
  done
  print -l -- "$@"
}}
compdef() {{ :; }}
_files() {{ print FILES; }}
source {script}
words=({words}); CURRENT=$#words
{last}
_hermes
"""


def find_shell(shell: str) -> str:
    require_program(shell)
    return shutil.which(shell) or shell


class Shells:
    """A home with a session, and what the shells complete there."""

    def __init__(self, home: TempHome) -> None:
        self.home = home
        folder = home.root / "bin"
        folder.mkdir()
        program = folder / "hermes"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m hermes "$@"\n')
        program.chmod(0o755)
        home.more["PATH"] = f"{folder}:{home.environ['PATH']}"

    async def complete(self, shell: str, line: str) -> list[str]:
        """What the shell offers for the last word of a line (empty behind a space)."""
        program = find_shell(shell)
        script = self.home.root / f"completion.{shell}"
        if not script.exists():
            made = await self.home.run("hermes", "completion", shell)
            script.write_text(made.stdout)
        words = line.split()
        last = 'COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1))' if shell == "bash" else 'words+=(""); CURRENT=$#words'
        given = {"script": script, "words": " ".join(words), "last": last if line.endswith(" ") else ""}
        if shell == "fish":
            text = f"source {script}; complete -C {json.dumps(line)}"
        else:
            text = (BASH if shell == "bash" else ZSH).format(**given)
        options = {"bash": ["--norc", "-c"], "zsh": ["-f", "-c"], "fish": ["--no-config", "-c"]}[shell]
        done = await self.home.run(program, *options, text)
        assert done.stderr == "", done
        return [one.partition("\t")[0] for one in done.stdout.splitlines() if one]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_a_shell_completes_verbs_options_and_names(shell: str) -> None:
    with TempHome(
        {"model": {"default": "some/model-1", "provider": "custom", "base_url": "http://127.0.0.1:9/v1"}}
    ) as home:
        await say_in(home, "20261101_abc", "x")
        shells = Shells(home)
        assert "sessions" in await shells.complete(shell, "hermes ses")
        assert "search" in await shells.complete(shell, "hermes sessions se")
        assert "--limit" in await shells.complete(shell, "hermes sessions list --l")
        assert "--model" in await shells.complete(shell, "hermes --mod")
        assert "20261101_abc" in await shells.complete(shell, "hermes sessions show 2026")
        assert "20261101_abc" in await shells.complete(shell, "hermes --resume ")
        assert "some/model-1" in await shells.complete(shell, "hermes chat -m som")
        assert "default" in await shells.complete(shell, "hermes -p d")
        assert "html" in await shells.complete(shell, "hermes sessions export --format h")
        assert "20261101_abc" not in await shells.complete(shell, "hermes sessions export --format ")
        assert "fish" in await shells.complete(shell, "hermes completion f")
        (home.cwd / "some-file.zip").touch()
        assert (await shells.complete(shell, "hermes backup some-")) in (
            ["some-file.zip"],
            ["FILES"],
        ) or shell != "bash"


async def test_what_stands_in_a_title_is_quoted_by_bash() -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "x")
        title = "about $(touch pwned); `id` 'x"
        assert (await run_hermes(home, "sessions", "rename", "s1", title)).code == 0
        shells = Shells(home)
        offered = await shells.complete("bash", "hermes --resume abo")
        assert len(offered) == 1
        echoed = await home.run(find_shell("bash"), "-c", f"printf %s {offered[0]}")
        assert echoed.stdout == title and not Path(home.cwd, "pwned").exists()


async def test_names_come_at_once_and_nothing_is_made() -> None:
    with TempHome({}) as home:
        for kind in ("session", "model", "profile", "skill", "worktree", "backup", "nonsense"):
            done = await run_hermes(home, "__complete", kind, "")
            assert (done.code, done.stderr) == (0, ""), kind
        assert list(home.hermes.iterdir()) == [home.hermes / "config.yaml"]
        for number in range(30):
            await say_in(home, f"s{number}", "x")
        names, least = [], []
        for _ in range(5):
            names.append(await children_cost(home, "-m", "hermes", "__complete", "session", "s"))
            least.append(await children_cost(home, "-c", "import json, sqlite3"))
        done = await run_hermes(home, "__complete", "session", "s")
        # Twice what any Python program costs that reads the database; a verb that loads what turns need costs 16 times.
        assert len(done.stdout.splitlines()) == 30 and min(names) / min(least) < 8


async def children_cost(home: TempHome, *arguments: str) -> float:
    """The processor time of a Python program and of what it started."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (await home.run(sys.executable, *arguments)).code == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
