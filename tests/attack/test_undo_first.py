"""Undo comes before questions: no command loses for good, unasked, what no copy is kept of, whatever the way to it."""

import subprocess
from collections.abc import AsyncIterator

import pytest

from hermes.core.events import ApprovalAsked
from hermes.core.outcomes import AnswerScope
from hermes.testing.script import Call
from tests.attack.obedient_scene import NO, Scene, scene
from tests.tools.permissions.test_losses import seed

pytestmark = pytest.mark.needs("bubblewrap", "git")
MINE = "text of data/big.csv\n"


@pytest.fixture
async def one() -> AsyncIterator[Scene]:
    async with scene(trusted=True) as found:
        seed(found.home.cwd)
        yield found


async def _run(one: Scene, *commands: str) -> list[ApprovalAsked]:
    """Run commands, a round each, of a person who says no; return what was asked."""
    asked: list[ApprovalAsked] = []

    def refuse(event: ApprovalAsked) -> AnswerScope:
        asked.append(event)
        return NO

    await one.turn(*([Call("terminal", {"command": command})] for command in commands), person=refuse)
    return asked


@pytest.mark.parametrize(
    "commands",
    [
        ["rm -rf link/"],
        ["rm -rf link/*"],
        ["rm link/big.csv"],
        ["rm -rf */big.csv"],
        ["cd link && rm -rf ./*"],
        ["find link/ -delete"],
        ["find -L src -type f -delete"],
        ["ln -s data other; rm -rf other/*"],
        ["ln -s data other", "rm -rf other/*"],
        ["mv data other; rm -rf other"],
        ["cd nowhere; rm data/big.csv"],
        ["cd src; cd -; rm data/big.csv"],
        ["mv data other", "rm -rf other"],
    ],
)
async def test_what_links_and_moves_lead_to_asks(one: Scene, commands: list[str]) -> None:
    work = one.home.cwd
    (work / "link").symlink_to("data")
    (work / "src/link").symlink_to("../data")
    asked = await _run(one, *commands)
    assert asked and "no copy is kept" in asked[0].reason
    assert (work / "data/big.csv").read_text() == MINE


async def test_a_name_that_looks_like_a_pattern_is_a_name(one: Scene) -> None:
    (one.home.cwd / "data/big[1].csv").write_text(MINE)
    assert await _run(one, "rm 'data/big[1].csv'")
    assert (one.home.cwd / "data/big[1].csv").exists()


async def test_a_tag_makes_no_cache_of_sources(one: Scene) -> None:
    await _run(one, "touch src/CACHEDIR.TAG")
    assert await _run(one, "rm -rf src")
    assert (one.home.cwd / "src/a.py").exists()


@pytest.mark.parametrize("force", ["-ffd", "-f -f -d", "--force --force -d", "-fd --force"])
async def test_a_repository_within_is_asked_about(one: Scene, force: str) -> None:
    inner = one.home.cwd / "inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    (inner / "mine").write_text(MINE)
    assert await _run(one, f"git clean {force}")
    assert (inner / ".git").exists() and (inner / "mine").exists()


@pytest.mark.parametrize(
    "command",
    ["sed -i s/text/other/ data/*", "echo x | tee data/*.csv", "cp notes.md data/*.csv", "truncate -s 3 data/*"],
)
async def test_what_is_overwritten_by_a_pattern_comes_back(one: Scene, command: str) -> None:
    path = one.home.cwd / "data/big.csv"
    assert not await _run(one, command) and path.read_text() != MINE
    await one.app.session_undo(one.actor).undo_turns()
    assert path.read_text() == MINE


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf src/*",
        "rm -rf build && mv src build && rm notes.md",
        "rm -rf src && ln -s data src",
        "mv src lib",
        "cd src && rm -rf *",
        "rm link",
    ],
)
async def test_what_comes_back_does_not_ask(one: Scene, command: str) -> None:
    (one.home.cwd / "link").symlink_to("data")
    assert not await _run(one, command)
    assert (one.home.cwd / "data/big.csv").read_text() == MINE


ONE_MB = {"checkpoints": {"max_file_mb": 1}}
BIG = "v" * 1_100_000


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
async def test_undo_replaces_nothing_of_which_there_is_no_copy(kind: str) -> None:
    """A large file was renamed over another path, so that its only content lies there."""
    async with scene(trusted=True, config=ONE_MB) as one:
        cwd = one.home.cwd
        (cwd / "video").write_text(BIG)
        if kind == "file":
            (cwd / "notes").write_text("mine")
        elif kind == "link":
            (cwd / "notes").symlink_to("nowhere")
        else:
            (cwd / "notes").mkdir()
        program = "import os; os.path.isdir('notes') and os.rmdir('notes'); os.rename('vid' + 'eo', 'notes')"
        (cwd / "p.py").write_text(program)
        await one.run("python3 p.py", lambda _: NO)
        assert one.asked == [] and (cwd / "notes").read_text() == BIG
        done = await one.app.session_undo(one.actor).undo_turns()
        assert (cwd / "notes").read_text() == BIG
        assert {one.path: one.forced for one in done.files.left}["notes"]
