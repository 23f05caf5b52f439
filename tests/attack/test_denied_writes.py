"""A write that the sandbox refused: a question where a person may open the place, a line of why where nobody may."""

import os
import subprocess

import pytest

from hermes.safety.layout import PathAccess
from tests.attack.obedient_scene import NO, Scene, says, scene


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize(
    ("command", "place"),
    [("touch /etc/foo", "/etc"), ("echo x >/etc/foo", "/etc"), ("mkdir /usr/foo", "/usr")],
)
async def test_what_is_never_opened_is_said_with_its_reason(command: str, place: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        (one.home.cwd / "a").write_text("x")
        said = await one.run(command, says(NO))
        assert f"the sandbox keeps {place} from being written and never opens it: " in said
        assert one.asked == []


@pytest.mark.needs("bubblewrap")
@pytest.mark.skipif(not os.path.isdir("/srv"), reason="this machine has no /srv")
async def test_a_folder_that_only_the_settings_open_is_said_with_the_setting() -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        said = await one.run("touch /srv/foo", says(NO))
        assert "keeps /srv from being written and no answer opens it, only terminal.sandbox.writable" in said
        assert one.asked == []
    async with scene(trusted=True, config={"terminal": {"sandbox": {"writable": ["/srv"]}}}) as one:
        one.open_tmp()
        layout = one.context.backend.current_layout()
        assert layout is not None and layout.access_of("/srv/foo") is PathAccess.WRITE


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("command", ["cp a ~/b", "cat ~/Documents/b", "ls ~/Documents", "cd ~/Documents && ls"])
async def test_what_is_hidden_is_said(command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        (one.home.cwd / "a").write_text("x")
        (one.home.home / "Documents").mkdir()
        (one.home.home / "Documents/b").write_text("mine")
        said = await one.run(command, says(NO))
        assert f"the sandbox hides {one.home.home.resolve()}/" in said and "mine" not in said
        assert one.asked == []


def beside(one: Scene) -> None:
    """A repository with a commit, and a bare one beside it."""
    for words in (
        ("init", "-q", "-b", "main", "."),
        ("init", "-q", "--bare", "../b.git"),
        ("-c", "user.name=a", "-c", "user.email=a@b.test", "commit", "-q", "--allow-empty", "-m", "x"),
        ("remote", "add", "o", "../b.git"),
    ):
        subprocess.run(["git", "-C", str(one.home.cwd), *words], check=True, env=one.home.environ)


@pytest.mark.needs("git")
async def test_a_repository_beside_the_workspace_is_asked_about() -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        beside(one)
        await one.run("git push o main", says(NO))
        assert [asked.subject for asked in one.asked] == [f"write {one.home.cwd.resolve().parent / 'b.git'}/*"]


async def test_what_may_not_be_read_is_no_write() -> None:
    async with scene(trusted=True) as one:
        said = await one.run("echo 'cat: /etc/nobody/x: Permission denied'; exit 1", says(NO))
        assert "being written" not in said and one.asked == []
