"""Words that stand for the folder around the workspace, or for one that it holds, are taken for what they stand for."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.attack.obedient_scene import MECHANISM, NO, SESSION, Scene, says, scene

GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@y.z", "-c", "init.defaultBranch=main")
DOTS = {
    "a folder": "rm -r src .*/other/part",
    "a file": "rm .*/other/mine",
    "one sign": "rm .?/other/mine",
    "a bracket": "rm -r src .[.]/other/part",
    "a bracket with a sign": "cp new .[^.]/other/mine",
    "a class": "cp new .[[:punct:]]/other/mine",
    "two stars": "cp new .**/other/mine",
    "moved away": "mv .*/other/mine x",
    "replaced": "cp new .*/other/mine",
    "edited": "sed -i s/mine/x/ .?/other/mine",
    "a loop": "for f in .*/other/mine; do echo gone > $f; done",
    "behind a pattern": "rm -f */.*/.*/other/mine",
    "before what goes back": "cp new .*/../other/mine",
    "deleted before what goes back": "rm .*/../other/mine",
    "two that go back": "rm .*/x/../../other/mine",
    "through a link": "rm link/.*/mine",
    "found": "find .* -name mine -delete",
    "from another folder": "cd src; rm .*/.*/other/mine",
}


@pytest.mark.parametrize("line", DOTS.values(), ids=DOTS)
async def test_dots_of_a_pattern_may_be_the_folder_around(line: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        other = one.home.cwd.resolve().with_name("other")
        (other / "part").mkdir(parents=True)
        for folder in ("src", "x"):
            (one.home.cwd / folder).mkdir(parents=True)
        (one.home.cwd / "new").write_text("new")
        (one.home.cwd / "link").symlink_to(other / "part")
        for path in (other / "part/mine", other / "mine"):
            path.write_text("mine")
        await one.run(f"echo x > {other}/new", says(SESSION))
        await one.run(f"sh -c '{line}'", says(NO))
        await one.app.session_undo(one.actor).undo_turns()
        assert [path.read_text() for path in other.rglob("mine")] == ["mine", "mine"]


def make_repositories(one: Scene) -> Path:
    """Make the workspace a repository with a commit, and bare ones around it; the folder around all."""
    one.open_tmp()
    beside = one.home.cwd.resolve().parent
    for words in (
        ("init", "-q", str(one.home.cwd)),
        ("-C", str(one.home.cwd), "commit", "-q", "--allow-empty", "-mx"),
        *(("init", "-q", "--bare", f"{beside}/{name}") for name in ("remotes/shop.git", "shop.git")),
    ):
        subprocess.run([*GIT, *words], check=True, env={**os.environ, **one.home.environ})
    for name in ("another/x", "remotes/other/x"):
        (beside / name).parent.mkdir(parents=True)
        (beside / name).write_text("another's")
    return beside


ADDRESSES = {
    "relative": "../remotes/shop.git main",
    "beside": "../shop.git main",
    "with more dots": "./../remotes/shop.git main",
    "an address": "file://{beside}/remotes/shop.git main",
    "an encoded address": "file://{beside}/remotes/sh%6fp%2egit main",
    "an option": "--repo=../remotes/shop.git --all",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
async def test_a_push_to_a_path_opens_that_repository_alone(address: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        beside = make_repositories(one)
        said = await one.run(f"git push -q {address.format(beside=beside)}", says(SESSION))
        # Older kernels let no program move files between folders under Landlock, so that git cannot store what it got.
        assert "exit code 0" in said or (MECHANISM == "landlock" and "cross-device" in said), said
        assert len(one.asked) == 1
        folder = beside / ("shop.git" if address.startswith("../shop.git") else "remotes/shop.git")
        assert one.asked[0].reason.endswith(f"all of {folder}")
        for name in ("another/x", "remotes/other/x"):
            assert "another's" not in await one.run(f"cat {beside}/{name}", says(NO))


@pytest.mark.needs("git")
async def test_an_encoded_address_is_read_as_git_reads_it() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        beside = make_repositories(one)
        said = await one.run(f"git ls-remote -q file://{beside}/remotes/sh%6fp.git", says(SESSION))
        assert "exit code 0" in said and [asked.reason for asked in one.asked if "shop.git" not in asked.reason] == []
