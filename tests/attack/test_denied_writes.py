"""What the sandbox kept a command from: a question where a person may open it, a line of why where nobody may."""

import subprocess

import pytest

from hermes.core.outcomes import AnswerScope
from tests.attack.obedient_scene import NO, ONCE, Scene, says, scene
from tests.attack.obedient_scene import SESSION as YES


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


@pytest.mark.parametrize("command", ["cat ~/.app/b", "cat ~/Missing/b", "cat ~/.ssh/id_rsa", "cat ~/x"])
async def test_what_is_hidden_is_said(command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        for name in (".app", ".ssh"):
            (one.home.home / name).mkdir()
            (one.home.home / name / "b").write_text("mine")
        said = await one.run(command, says(YES))
        assert f"the sandbox hides {one.home.home.resolve()}/" in said and "mine" not in said
        assert one.asked == []


@pytest.mark.parametrize("command", ["cat ~/Documents/b", "ls ~/Documents", "cd ~/Documents && ls; cat b"])
async def test_a_folder_of_the_persons_is_asked_about(command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        (one.home.home / "Documents/deep").mkdir(parents=True)
        (one.home.home / "Documents/b").write_text("mine")
        (one.home.home / "Documents/deep/.env").write_text("K" + "EY=1")
        said = await one.run(command, says(NO))
        subject = f"read {one.home.home.resolve()}/Documents/*"
        assert [asked.subject for asked in one.asked] == [subject] and "mine" not in said
        assert "the person said no); do not try again" in said
        assert "the person said no" in await one.run(command, says(YES)) and len(one.asked) == 1


@pytest.mark.parametrize("scope", [ONCE, YES])
async def test_a_yes_opens_the_folder_to_read_but_no_key_in_it(scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        (one.home.home / "Documents/deep").mkdir(parents=True)
        (one.home.home / "Documents/b").write_text("mine")
        (one.home.home / "Documents/deep/.env").write_text("K" + "EY=1")
        command = "cat ~/Documents/b ~/Documents/deep/.env; echo theirs > ~/Documents/b"
        assert "mine" not in await one.run(command, says(scope))
        said = await one.run(command, says(NO))
        assert "mine" in said and "EY=1" not in said
        assert ("mine" in await one.run("cat ~/Documents/b", says(NO))) is (scope is YES)
        assert (one.home.home / "Documents/b").read_text() == "mine"


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("command", ["(cd ../other && echo x >> file)", "true; cd ../other; cd .; touch ./new; false"])
async def test_a_folder_that_a_command_enters_is_asked_about(command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        other = one.home.cwd.parent / "other"
        other.mkdir()
        (other / "file").write_text("mine")
        await one.run(command, says(NO))
        (asked,) = one.asked
        assert asked.subject in (f"write {other.resolve()}/file", f"write {other.resolve()}/*")


@pytest.mark.needs("git", "bubblewrap")
async def test_a_work_tree_beside_the_workspace_is_asked_about() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        beside(one)
        command = "git worktree add -q ../fix && touch ../fix/x"
        await one.run(command, says(YES))
        assert "exit code 0" in await one.run(command, says(YES))
        assert (one.home.cwd.parent / "fix/x").exists()
        assert [asked.subject for asked in one.asked] == [f"write {one.home.cwd.resolve().parent}/*"]


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
