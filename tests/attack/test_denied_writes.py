"""What the sandbox kept a command from: a question where a person may open it, a line of why where nobody may."""

import os
import subprocess
from pathlib import Path

import pytest

from hermes.core.events import Refused
from hermes.core.outcomes import AnswerScope
from hermes.execution.layout import PathAccess
from hermes.execution.sandbox.support import landlock_version
from hermes.testing.script import Call
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


async def test_a_refusal_without_a_name_is_about_the_folder_in_which_the_command_ran() -> None:
    """As archivers print it."""
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        other = one.home.cwd.resolve().with_name("other")
        other.mkdir()
        (other / "read").write_text("mine")
        program = "import sys\ntry:\n    open('made', 'w')\nexcept OSError as error:\n    sys.exit(error.strerror)\n"
        (one.home.cwd / "w.py").write_text(program)
        await one.run(f"cat {other}/read", says(YES))
        await one.run(f"cd {other} && python3 ../work/w.py", says(YES))
        await one.run(f"cd {other} && python3 {one.home.cwd}/w.py", says(NO))
        assert (other / "made").exists(), [asked.reason for asked in one.asked]


@pytest.mark.parametrize("command", ["cat ~/Missing/b", "cat ~/.ssh/id_rsa", "cat ~/x"])
async def test_what_is_hidden_is_said(command: str) -> None:
    async with scene(trusted=True) as one:
        one.open_tmp()
        (one.home.home / ".ssh").mkdir()
        (one.home.home / ".ssh/id_rsa").write_text("mine")
        said = await one.run(command, says(YES))
        assert f"the sandbox hides {one.home.home.resolve()}/" in said and "mine" not in said
        assert one.asked == []


UNSEEN = """python3 -c 'import os; print(open(os.environ["HOME"] + "/Documents/b").read())'"""


def fill_documents(one: Scene) -> Path:
    """Make a folder of the person's with a key in it."""
    one.open_tmp()
    folder = one.home.home / "Documents"
    (folder / "deep").mkdir(parents=True)
    (folder / "b").write_text("mine")
    (folder / "deep/.env").write_text("K" + "EY=1")
    return folder.resolve()


@pytest.mark.parametrize("command", ["cat ~/Documents/b", "ls ~/Documents", "cd ~/Documents && ls; cat b", UNSEEN])
async def test_a_folder_of_the_persons_is_asked_about(command: str) -> None:
    async with scene(trusted=True) as one:
        folder = fill_documents(one)
        said = await one.run(command, says(NO))
        assert len(one.asked) == 1 and "mine" not in said and "the person said no" in said
        assert one.asked[0].no_covers == f"`read {folder}/*`"
        said = await one.run(command, says(YES))
        assert len(one.asked) == 1 and "mine" not in said, "a no holds for the session"


@pytest.mark.parametrize(
    "command", ["cat ~/Documents/b", "cat ../home/Documents/b", "ls ~/Documents && cat ~/Documents/b"]
)
@pytest.mark.parametrize("scope", [ONCE, YES])
async def test_a_yes_to_what_a_command_names_comes_before_it_runs(command: str, scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        folder = fill_documents(one)
        said = await one.run(f"echo ran >> count; {command}", says(scope))
        assert "mine" in said and (one.home.cwd / "count").read_text() == "ran\n"
        assert [asked.session_covers for asked in one.asked] == [f"`read {folder}/*`"]
        said = await one.run("cat ~/Documents/b ~/Documents/deep/.env", says(NO))
        assert ("mine" in said) is (scope is YES) and "EY=1" not in said
        assert "Not allowed" in await one.run("echo theirs > ~/Documents/b", says(NO))
        assert (folder / "b").read_text() == "mine"


@pytest.mark.parametrize("scope", [ONCE, YES])
async def test_a_yes_to_what_a_program_missed_is_for_its_next_run(scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        folder = fill_documents(one)
        assert "mine" not in await one.run(UNSEEN, says(scope))
        (asked,) = one.asked
        assert asked.subject == f"read {folder}/*"
        assert asked.once_covers == f"that this command, run once more as it is, may {asked.subject}"
        assert "mine" in await one.run(UNSEEN, says(NO))
        assert ("mine" in await one.run(UNSEEN, says(NO))) is (scope is YES)


async def test_what_a_command_names_is_refused_where_nobody_is_asked() -> None:
    async with scene(trusted=True) as one:
        fill_documents(one)
        said = await one.run("echo ran > count; cat ~/Documents/b")
        assert "Not allowed" in said and "commands do not see" in said and not (one.home.cwd / "count").exists()


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
        assert asked.no_covers == f"`write {other.resolve()}/*`"


@pytest.mark.needs("bubblewrap")
async def test_a_folder_of_the_home_that_a_command_enters_is_the_persons() -> None:
    async with scene(trusted=True) as one:
        folder = fill_documents(one)
        await one.run("cd ~/Documents && echo theirs > b", says(YES))
        assert [asked.session_covers for asked in one.asked] == [f"`write {folder}/*`"]
        assert (folder / "b").read_text() == "theirs\n"


WRITES = (
    "cp a ~/Documents/copy",
    "echo x > ~/Documents/copy",
    "sed -i s/mine/theirs/ ~/Documents/b",
    "mkdir ~/Documents/copy && touch ~/Documents/copy/x",
    "sqlite3 ~/Documents/x.db 'create table t (a)' || touch ~/Documents/x.db",
    "gcc --output=../home/Documents/copy a || touch ../home/Documents/copy",
    "mv ~/Documents/b .",
)


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("scope", [ONCE, YES])
async def test_landlock_alone_makes_nothing_beside_a_key_and_says_so(scope: AnswerScope) -> None:
    async with scene(trusted=True, mechanism="landlock") as one:
        folder = fill_documents(one)
        (one.home.cwd / "a").write_text("x")
        said = await one.run("cp a ~/Documents/copy", says(scope))
        assert len(one.asked) == 1
        assert f"commands make nothing new in {folder}, since a key is in it" in said


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("command", WRITES)
@pytest.mark.parametrize("scope", [ONCE, YES])
async def test_a_yes_to_what_a_command_writes_comes_before_it_runs(command: str, scope: AnswerScope) -> None:
    async with scene(trusted=True) as one:
        folder = fill_documents(one)
        (one.home.cwd / "a").write_text("x")
        before = sorted(folder.rglob("*")), (folder / "b").read_text()
        said = await one.run(f"echo ran >> count; {command}", says(NO))
        assert "Not allowed" in said and not (one.home.cwd / "count").exists()
        assert [asked.no_covers for asked in one.asked] == [f"`write {folder}/*`"]
    async with scene(trusted=True) as one:
        folder = fill_documents(one)
        (one.home.cwd / "a").write_text("x")
        await one.run(f"echo ran >> count; {command}", says(scope))
        assert (one.home.cwd / "count").read_text() == "ran\n"
        after = sorted(folder.rglob("*")), (folder / "b").read_text() if (folder / "b").exists() else ""
        assert [asked.session_covers for asked in one.asked] == [f"`write {folder}/*`"] and after != before
        await one.run("echo more > ~/Documents/more", says(NO))
        assert (folder / "more").exists() is (scope is YES)


@pytest.mark.parametrize(
    "command",
    [
        "test -d ../missing || echo none",
        "echo ../missing/x",
        "grep -r ../missing .",
        "git log ..origin/main; true",
        "sed -i 's#../old#../new#' a",
        "bash -c 'true # ../missing/x'",
        "make -f /dev/null VAR=http://example.com/../../x; true",
        "echo x > /tmp/new; cp a /tmp/copy",
        "python3 -c 'print(1)' ./new ../work/new",
    ],
)
async def test_a_path_that_is_not_written_is_not_asked_about(command: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        (one.home.cwd / "a").write_text("x")
        assert "exit code" in await one.run(command, says(NO))
        assert one.asked == []


@pytest.mark.needs("git", "bubblewrap")
async def test_a_work_tree_beside_the_workspace_is_asked_about() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        beside(one)
        command = "git worktree add -q ../fix && touch ../fix/x"
        assert "exit code 0" in await one.run(command, says(YES))
        assert (one.home.cwd.parent / "fix/x").exists()
        assert [asked.session_covers for asked in one.asked] == [f"`write {one.home.cwd.resolve().parent}/fix/*`"]


@pytest.mark.needs("git", "bubblewrap")
@pytest.mark.parametrize("mark", [".git", "pyvenv.cfg"])
async def test_a_project_is_opened_as_a_whole(mark: str) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        project = one.home.cwd.parent.resolve() / "other"
        (project / "deep/er").mkdir(parents=True)
        (project / mark).touch()
        (project / "deep/er/b").write_text("mine")
        (project / "a").write_text("theirs")
        assert "mine" in await one.run("cat ../other/deep/er/b", says(ONCE))
        assert "mine" in await one.run("cat ../other/deep/er/b", says(YES))
        assert "theirs" in await one.run("cat ../other/a", says(NO))
        await one.run("echo x > ../other/deep/new", says(YES))
        (one.home.cwd / "write.py").write_text("open('../other/newer', 'w')")
        assert "exit code 0" in await one.run("python3 write.py", says(NO))
        read, write = f"`read {project}/*`", f"`write {project}/*`"
        assert [asked.session_covers for asked in one.asked] == [read, read, write]


async def test_a_path_that_the_person_named_opens_no_more_than_itself() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        project = one.home.cwd.parent.resolve() / "other"
        (project / ".git").mkdir(parents=True)
        for name in "ab":
            (project / name).write_text(f"text of {name}")
        (said,) = await one.turn([Call("terminal", {"command": "cat ../other/*"})], text=f"See {project}/a")
        assert "text of b" not in said
        (said,) = await one.turn([Call("terminal", {"command": f"cat {project}/a; ls {project}"})], text="go on")
        assert "Not allowed" in said


@pytest.mark.needs("git", "bubblewrap")
async def test_a_repository_around_what_was_written_is_asked_about() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        other = one.home.cwd.parent.resolve() / "other"
        subprocess.run(["git", "init", "-q", str(other)], check=True, env=one.home.environ)
        (other / "a").touch()
        command = "cd ../other && git add -A && git -c user.name=a -c user.email=a@b.test commit -qm x"
        await one.run(command, says(YES))
        assert "exit code 0" in await one.run(command, says(YES))
        assert one.asked[-1].session_covers == f"`write {other}/*`"
        await one.run("cd ../other && echo 'exit 1' > .git/hooks/pre-commit", says(YES))
        assert not (other / ".git/hooks/pre-commit").exists()


@pytest.mark.parametrize("command", ["cat ~/Documents/b", "echo theirs > ~/Documents/b", "mkdir -p ~/new/x"])
async def test_where_no_command_is_asked_about_places_are(command: str) -> None:
    async with scene(trusted=True, config={"approvals": {"mode": "off", "off_in": "sandbox"}}) as one:
        folder = fill_documents(one)
        assert "Not allowed" in await one.run(command)
        assert "Not allowed" in await one.run(command, says(NO)) and len(one.asked) == 1
        assert (folder / "b").read_text() == "mine" and not (one.home.home / "new").exists()
        assert "exit code 0" in await one.run("touch a && git status; rm a", says(NO)) and len(one.asked) == 1


@pytest.mark.needs("bubblewrap")
@pytest.mark.parametrize("scope", [ONCE, YES])
async def test_a_new_folder_in_the_home_is_made_with_a_yes(scope: AnswerScope) -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        home = one.home.home.resolve()
        command = "mkdir -p ~/reports && echo x > ~/reports/a"
        await one.run(command, says(NO))
        assert not (home / "reports").exists() and one.asked[0].no_covers == f"`write {home}/reports/*`"
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        home = one.home.home.resolve()
        assert "exit code 0" in await one.run(command, says(scope))
        assert (home / "reports/a").read_text() == "x\n"
        assert ("exit code 0" in await one.run("cat ~/reports/a", says(NO))) is (scope is YES)
        for other in ("echo x > ~/plain", "mkdir ~/.config2 && touch ~/.config2/x", "mkdir -p ~/.ssh/x"):
            await one.run(other, says(YES))
        assert not any((home / name).exists() for name in ("plain", ".config2", ".ssh"))


@pytest.mark.needs("git", "bubblewrap")
async def test_dotfiles_in_the_workspace_are_seen_by_their_links_and_kept() -> None:
    async with scene(trusted=True, workspace="home/code/work") as one:
        one.open_tmp()
        home = one.home.home.resolve()
        (one.home.cwd / "tmux").mkdir()
        (one.home.cwd / "tmux/tmux.conf").write_text("set a 1\n")
        (home / ".tmux.conf").symlink_to("code/work/tmux/tmux.conf")
        (home / ".secret").mkdir()
        (home / ".notes").symlink_to(".secret")
        said = await one.run("cat ~/.tmux.conf; ls -A ~", says(NO))
        assert "set a 1" in said and ".secret" not in said and ".notes" not in said and one.asked == []
        said = await one.run("sed -i s/1/2/ tmux/tmux.conf", says(YES))
        assert "tmux/tmux.conf from being written" in said and f"{home}/.tmux.conf leads to it" in said
        assert (home / ".tmux.conf").read_text() == "set a 1\n"


async def test_a_yes_that_would_do_nothing_is_not_asked_for() -> None:
    async with scene(trusted=True) as one:
        said = await one.run("echo x > .envrc; mkdir -p .vscode; echo '{}' > .vscode/tasks.json", says(YES))
        assert "Not allowed" in said and "run what it says" in said and one.asked == []
        assert not list(one.home.cwd.glob(".*"))


async def test_the_pattern_that_a_refusal_names_lets_the_command_run() -> None:
    command = "echo DATA=1 > .env"
    async with scene(trusted=True) as one:
        await one.run(command)
        (refused,) = (event for event in one.events if isinstance(event, Refused))
    async with scene(trusted=True, config={"command_allowlist": [refused.pattern]}) as one:
        await one.run(command)
        assert (one.home.cwd / ".env").read_text() == "DATA=1\n"


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
        (asked,) = one.asked
        assert f"read and write all of {one.home.cwd.resolve().parent / 'b.git'}" in asked.reason


async def test_what_may_not_be_read_is_no_write() -> None:
    async with scene(trusted=True) as one:
        said = await one.run("echo 'cat: /etc/nobody/x: Permission denied'; exit 1", says(NO))
        assert "being written" not in said and one.asked == []


@pytest.mark.needs("bubblewrap")
async def test_a_command_that_misses_a_process_of_another_one_is_told_what_it_sees() -> None:
    async with scene(trusted=True, mechanism="bubblewrap") as one:
        assert "`process` stops" in await one.run("kill 4000000")
        assert "`process` stops" not in await one.run("kill 4000000 || true")
