"""What no rule sees is copied: files that git ignores come back whatever way a sandboxed command lost them."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.events import ApprovalAsked, Notice
from hermes.core.outcomes import AnswerScope
from hermes.testing.script import Call
from tests.attack.obedient_scene import NO, ONCE, Scene, scene
from tests.tools.permissions.test_losses import seed

pytestmark = pytest.mark.needs("bubblewrap", "git")
KEYS = "NAME=" + "value-of-the-person" * 2 + "\n"
FILES = {
    "data/big.csv": "text of data/big.csv\n",
    "data/deep/more.csv": "more\n",
    "x.log": "text of x.log\n",
    ".env": KEYS,
}
FIX = "import glob\nfor name in [*glob.glob('data/**/*.csv', recursive=True), 'x.log', '.e' + 'nv']:\n    open(name, 'w')\n"


def git(work: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=u", "-c", "user.email=u@h", *words], cwd=work, check=True, capture_output=True
    )


def plant(work: Path) -> None:
    """A repository whose branch `other` tracks what the first branch ignores, an archive and a tree with those names."""
    seed(work)
    git(work, "commit", "-qam", "second")
    git(work, "checkout", "-qb", "other")
    for name in FILES:
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text("theirs\n")
    git(work, "add", "-f", *FILES)
    git(work, "commit", "-qm", "theirs")
    subprocess.run(["tar", "cf", "theirs.tar", *FILES], cwd=work, check=True)
    (work / "theirs").mkdir()
    subprocess.run(["tar", "xf", "theirs.tar", "-C", "theirs"], cwd=work, check=True)
    git(work, "checkout", "-q", "-")
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    (work / "fix.py").write_text(FIX)
    (work / "Makefile").write_text("clean:\n\trm -rf data .e[n]v x.log\n")
    git(work, "add", "Makefile", "fix.py")
    git(work, "commit", "-qm", "tools")


@pytest.fixture
async def one() -> AsyncIterator[Scene]:
    async with scene(trusted=True) as found:
        plant(found.home.cwd)
        yield found


async def _run(one: Scene, *commands: str, answer: AnswerScope = NO) -> tuple[list[str], list[ApprovalAsked]]:
    """Run commands, a round each; return what they said and what was asked, which is answered with `answer`."""
    asked: list[ApprovalAsked] = []

    def reply(event: ApprovalAsked) -> AnswerScope:
        asked.append(event)
        return answer

    said = await one.turn(*([Call("terminal", {"command": command})] for command in commands), person=reply)
    return said, asked


def read(work: Path) -> dict[str, str | None]:
    return {name: (work / name).read_text() if (work / name).is_file() else None for name in FILES}


LOSING = {
    "git checkout -f other": set(FILES),
    "git checkout other": {"x.log"},
    "git merge other": {"x.log"},
    "git stash -a": set(FILES),
    "git read-tree -m -u HEAD other || git reset --hard other": set(FILES),
    'for f in data/*.csv .en[v]; do echo > "$f"; done': {"data/big.csv", ".env"},
    "for f in $(git ls-files -oi --exclude-standard data); do rm $f; done": {"data/big.csv", "data/deep/more.csv"},
    "tar xf theirs.tar": set(FILES),
    "cd theirs && cp -r . ..": set(FILES),
    "rsync -a --delete theirs/ ./data/": {"data/deep/more.csv"},
    "python3 fix.py": set(FILES),
    "make clean": set(FILES),
    "sed -i s/value/other/ .e*": {".env"},
    "echo > .e*": {".env"},
}


@pytest.mark.parametrize("command", LOSING)
async def test_what_no_rule_sees_comes_back(one: Scene, command: str) -> None:
    work = one.home.cwd
    if shutil.which(command.split()[0]) is None and command.split()[0] in ("rsync", "make"):
        pytest.skip("the program is not installed")
    said, asked = await _run(one, command, answer=ONCE)
    assert not asked, [event.reason for event in asked]
    lost = {name for name, text in read(work).items() if text != FILES[name]}
    assert lost >= LOSING[command], (lost, said)
    await one.app.session_undo(one.actor).undo_turns()
    assert read(work) == FILES
