"""Words that stand for the folder around the workspace, or for one that it holds, are taken for what they stand for."""

import pytest

from tests.attack.obedient_scene import NO, SESSION, says, scene

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
