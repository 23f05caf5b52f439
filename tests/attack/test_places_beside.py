"""Ordinary work with what lies beside the workspace: what is asked for before is what the command needs, and works."""

import subprocess
from pathlib import Path

import pytest

from tests.attack.obedient_scene import MECHANISM, NO, SESSION, Scene, says, scene

WORK = "home/code/work"
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@y.z", "-c", "init.defaultBranch=main")


def run_git(folder: Path, *words: str) -> None:
    subprocess.run([*GIT, "-C", folder, *words], check=True, capture_output=True)


def make_repository(one: Scene) -> Path:
    """Make a repository of the workspace with a commit, and return the folder around it."""
    one.open_tmp()
    run_git(one.home.cwd, "init", "-q")
    run_git(one.home.cwd, "commit", "-q", "--allow-empty", "-m", "x")
    return one.home.cwd.resolve().parent


def list_questions(one: Scene) -> list[str]:
    return [str(asked.reason) for asked in one.asked]


@pytest.mark.skipif(MECHANISM == "landlock", reason="Landlock alone lets git move no objects into a repository")
@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "url", ["../remotes/shop.git", "{beside}/remotes/shop.git", "file://{beside}/remotes/shop.git"]
)
async def test_a_remote_beside_the_workspace_is_asked_about_before(url: str) -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        beside = make_repository(one)
        remote = beside / "remotes/shop.git"
        (beside / "remotes").mkdir()
        (beside / "remotes/other").write_text("another's")
        run_git(beside, "init", "-q", "--bare", str(remote))
        run_git(one.home.cwd, "remote", "add", "origin", url.format(beside=beside))
        (one.home.cwd / "below").mkdir()
        said = await one.run("cd below && git push -q origin main && echo 'it is there'", says(SESSION))
        assert "it is there" in said, said
        (asked,) = list_questions(one)
        assert f"read and write all of {remote}" in asked
        assert "it is there" in await one.run("git fetch origin && echo 'it is there'", says(NO))
        assert "another's" not in await one.run(f"cat {beside}/remotes/other", says(NO))


@pytest.mark.needs("git")
async def test_what_is_fetched_from_beside_the_workspace_opens_that_to_be_read() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        beside = make_repository(one)
        run_git(beside, "clone", "-q", "--bare", str(one.home.cwd), str(beside / "shop.git"))
        run_git(one.home.cwd, "remote", "add", "origin", "../shop.git")
        said = await one.run("git fetch -q origin && git branch -r", says(SESSION))
        assert "origin/main" in said, said
        (asked,) = list_questions(one)
        assert f"{beside}/shop.git" in asked and "write" not in asked
        await one.run("git push -q origin main:other", says(NO))
        assert "read and write all of" in list_questions(one)[1]


@pytest.mark.needs("git")
async def test_a_remote_that_is_a_folder_of_keys_is_not_opened() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        make_repository(one)
        ssh = one.home.home / ".ssh"
        ssh.mkdir()
        (ssh / "id_rsa").write_text("KEPT")
        run_git(one.home.cwd, "remote", "add", "origin", str(ssh))
        await one.run("git fetch origin", says(SESSION))
        await one.run("git push origin main", says(SESSION))
        assert "KEPT" not in await one.run(f"cat {ssh}/id_rsa", says(SESSION))


@pytest.mark.needs("git")
async def test_a_work_tree_with_a_blank_in_its_name_has_that_folder_alone_opened() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        beside = make_repository(one)
        said = await one.run(
            'git worktree add -q -b hotfix/t "../work hotfix" && ls -A "../work hotfix"', says(SESSION)
        )
        (asked,) = list_questions(one)
        assert f"read and write all of {beside}/work hotfix" in asked
        assert (beside / "work hotfix/.git").exists(), said


@pytest.mark.parametrize(
    "command",
    [
        "find . -name __pycache__ -prune -exec rm -rf {} +",
        "find . -name Utils -type d -empty -delete",
        "find {work} -name '*.pyc' -delete; ls",
    ],
)
async def test_a_search_in_the_workspace_asks_for_nothing_around_it(command: str) -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        one.open_tmp()
        (one.home.cwd / "a/__pycache__").mkdir(parents=True)
        await one.run(command.replace("{work}", str(one.home.cwd)), says(NO))
        assert not any("outside" in asked for asked in list_questions(one)), list_questions(one)


@pytest.mark.needs("make")
async def test_a_folder_that_make_goes_to_is_asked_about_once_it_failed_there() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        one.open_tmp()
        lib = one.home.cwd.resolve().with_name("lib")
        lib.mkdir()
        (lib / "Makefile").write_text("all:\n\techo built > out.a\n")
        (one.home.cwd / "Makefile").write_text("all:\n\t$(MAKE) -C ../lib all\n")
        await one.run(f"ls {lib} && make", says(SESSION))
        said = await one.run("make", says(NO))
        assert (lib / "out.a").exists(), (said, list_questions(one))


@pytest.mark.parametrize("command", ["mv {docs}/data ./d", "mv -t . {docs}/data", "mv {docs}/* ."])
async def test_a_folder_that_is_moved_out_of_an_opened_place_comes_back(command: str) -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        one.open_tmp()
        docs = one.home.cwd.resolve().with_name("docs")
        (docs / "data/deep").mkdir(parents=True)
        (docs / "data/deep/mine").write_text("mine")
        await one.run(f"echo x > {docs}/new", says(SESSION))
        await one.run(command.format(docs=docs), says(NO))
        await one.app.session_undo(one.actor).undo_turns()
        assert (docs / "data/deep/mine").read_text() == "mine", list_questions(one)
