"""What a yes or a no to a place covers: what is read there is untrusted, and what is below is not asked about again."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from hermes.core.events import Refused
from hermes.core.outcomes import AnswerScope
from hermes.tools.permissions.policy_gate import parse_granted_path
from tests.attack.obedient_scene import MECHANISM, NO, ONCE, SESSION, Scene, says, scene

UNSEEN = """python3 -c 'import os; print(open(os.environ["HOME"] + "/Docs/" + os.environ.get("F", "b")).read())'"""


def fill(one: Scene, *names: str) -> Path:
    """Make a folder of the person's with files in it, by these names."""
    one.open_tmp()
    folder = (one.home.home / "Docs").resolve()
    for name in ("b", *names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    return folder


async def test_a_no_to_a_folder_holds_for_what_is_below() -> None:
    async with scene(trusted=True) as one:
        folder = fill(one, "s0/f", "a b/f", "s0/deep/f")
        commands = (
            "cat ~/Docs/b",
            "cat ~/Docs/s0/f",
            "cat ~/Docs/s0/../b",
            "cat '../home/Docs/a b/f'",
            "ls ~/Docs/s0/deep",
        )
        for command in commands:
            assert "the person said no" in await one.run(command, says(SESSION if one.asked else NO))
        await one.run(f"echo 'cat: {folder}/s0/f: No such file or directory'; false", says(SESSION))
        await one.call("read_file", says(SESSION), path=f"{folder}/s0/f")
        assert [asked.no_covers for asked in one.asked] == [f"`read {folder}/*`"]


async def test_a_no_to_a_folder_with_a_pattern_for_a_name_is_for_that_folder() -> None:
    async with scene(trusted=True) as one:
        fill(one, "*/f", "other/f")
        await one.run("cat '../home/Docs/*/f'", says(NO))
        await one.run("cat ~/Docs/other/f", says(NO))
        assert len(one.asked) == 2


@pytest.mark.parametrize("name", ["*", "with space", "a, b", "x]: [y", "plain"])
async def test_the_setting_that_is_named_opens_that_folder_alone(name: str) -> None:
    async with scene(trusted=True) as one:
        folder = fill(one, f"{name}/f")
        await one.run(f"echo \"cat: '{folder}/{name}/f': No such file or directory\"; false")
        (refused,) = [event for event in one.events if isinstance(event, Refused)]
        setting = refused.reason.partition("; ")[2].removesuffix(" would allow it")
        (pattern,) = yaml.safe_load(setting)["command_allowlist"]
        assert pattern == refused.pattern and parse_granted_path(pattern) == ("read", f"{folder}/{name}")


@pytest.mark.parametrize(
    ("command", "scope"),
    [("grep -r . ~/Docs", ONCE), ("grep -r . ~/Docs", SESSION), ("cd ~/Docs && cat *", SESSION), (UNSEEN, ONCE)],
)
async def test_what_is_read_in_an_opened_folder_is_untrusted(command: str, scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        folder = fill(one)
        said = await one.run(command, says(scope))
        said = said if "text of b" in said else await one.run(command, says(NO))
        assert "text of b" in said
        assert one.context.state.taint.list_sources() == (f"file:{folder}",)


@pytest.mark.parametrize(
    "command", ["ls /tmp; df -h /", "test -d /home", "ls ~/.cargo", "mkdir -p ~/Docs/new", "find . -type f"]
)
async def test_a_folder_of_the_system_is_named_without_a_mark(command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        await one.run(command, says(NO))
        assert one.context.state.taint.list_sources() == ()


async def test_a_yes_for_one_more_run_is_for_the_same_variables() -> None:
    async with scene(trusted=True) as one:
        fill(one, "other")
        await one.run(UNSEEN, says(ONCE))
        assert "text of other" not in await one.run("export F=other; true", says(NO)) + await one.run(UNSEEN, says(NO))
    async with scene(trusted=True) as one:
        fill(one)
        await one.run(UNSEEN, says(ONCE))
        assert "text of b" in await one.run("ls; true", says(NO)) + await one.run(UNSEEN, says(NO))


@pytest.mark.needs("git", "bubblewrap")
@pytest.mark.skipif(MECHANISM == "landlock", reason="Landlock keeps nothing read-only inside what is writable")
@pytest.mark.parametrize("setting", ["", ".husky"])
async def test_what_a_hook_leads_to_is_kept_as_the_hook_is(setting: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        work = one.home.cwd
        subprocess.run(["git", "init", "-q", str(work)], check=True)
        hooks = work / (setting or ".git/hooks")
        hooks.mkdir(exist_ok=True)
        if setting:
            subprocess.run(["git", "-C", str(work), "config", "core.hooksPath", setting], check=True)
        (work / "scripts").mkdir()
        (work / "scripts/check").write_text("mine")
        (hooks / "pre-push").symlink_to(os.path.relpath(work / "scripts/check", hooks))
        await one.run("""python3 -c 'open("scripts/ch" + "eck", "w").write("theirs")'; echo x > scripts/other""")
        assert (work / "scripts/check").read_text() == "mine" and (work / "scripts/other").exists()
