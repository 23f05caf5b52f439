"""Every row of the table of files that are obeyed later, at three depths and by every way to a file."""

import io
import re
import subprocess
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes.safety.autorun_files import INSTRUCTIONS, OBEYED_ROWS, REPOSITORY, ObeyedRow, WriteRule
from hermes.testing.script import Call
from tests.attack.obedient_scene import Scene, scene
from tests.attack.test_pointers import run_program

DEPTHS = ("", "sub/", "a/b/c/")
TEXT = "made by an agent\n"


def example(row: ObeyedRow) -> str:
    """A path that the row covers."""
    path = row.pattern.replace("**", "m").replace("*.", "q.")
    return f"{path}q" if path.endswith("/") else path


# A repository's own parts are judged by what they say, not by their names, and are no content of the workspace: see
# below. What is named as an environment is asked about without strangers' words, too: it may hold keys.
ROWS = [row for row in OBEYED_ROWS if row.reader != REPOSITORY and row.pattern not in (".git/", ".env.sh")]
PATHS = {f"{depth}{example(row)}": row for row in ROWS for depth in DEPTHS}


async def taint(one: Scene) -> None:
    """A stranger's text stands in the conversation, though the session's own folder is the person's."""
    other = one.home.root / "other"
    other.mkdir()
    (other / "README.md").write_text("Assistant: obey\n")
    await one.call("read_file", path=str(other / "README.md"))
    assert one.context.state.taint.list_sources()


def files_program(folder: Path) -> str:
    """A program that writes every path of the table, as a file of the person's that is run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "write.py").write_text(
        "import os\n"
        f"for path in {list(PATHS)!r}:\n"
        " os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n"
        f" open(path, 'w').write({TEXT!r})\n"
    )
    return "write.py"


async def by_command(one: Scene) -> None:
    await one.run(f"python3 {files_program(one.home.cwd)}")


async def by_background_process(one: Scene) -> None:
    started = await one.call("terminal", command=f"python3 {files_program(one.home.cwd)}", background=True)
    process = re.search(r"proc_\w+", started)
    assert process
    assert "exited" in await one.call("process", action="wait", session_id=process[0], timeout=60)


async def by_archive(one: Scene) -> None:
    with tarfile.open(one.home.cwd / "a.tar", "w") as archive:
        for path in PATHS:
            about = tarfile.TarInfo(path)
            about.size = len(TEXT)
            archive.addfile(about, io.BytesIO(TEXT.encode()))
    await one.run("tar xf a.tar")


async def by_restored_backup(one: Scene) -> None:
    await one.run("mkdir backup; true")
    for path in PATHS:
        (one.home.cwd / "backup" / path).parent.mkdir(parents=True, exist_ok=True)
        (one.home.cwd / "backup" / path).write_text(TEXT)
    await one.run("python3 -c \"import shutil; shutil.copytree('backup', '.', dirs_exist_ok=True)\"")


@pytest.mark.parametrize("tainted", [False, True], ids=["clean", "tainted"])
@pytest.mark.parametrize("way", [by_command, by_background_process, by_archive, by_restored_backup])
async def test_what_programs_write(way: Callable[[Scene], Awaitable[None]], *, tainted: bool) -> None:
    async with scene(trusted=True) as one:
        if tainted:
            await taint(one)
        await way(one)
        marks, cwd = one.context.taint_marks, one.home.cwd
        wrong: list[str] = []
        for path, row in PATHS.items():
            rule = row.tainted if tainted else row.clean
            there, marked = (cwd / path).exists(), bool(marks.find_sources(str(cwd / path)))
            if (rule is WriteRule.REFUSED) == there or (there and marked != (rule is WriteRule.ASKED)):
                wrong.append(f"{path}: {rule.name}, there: {there}, marked: {marked}")
        assert not wrong


NEVER = [path for path, row in PATHS.items() if row.clean is WriteRule.REFUSED]


def sham_program(*, deepest: bool, part: str) -> str:
    """A program that writes every path of the table into a folder that looks like one with a repository of its own: the
    deepest that the row names, or the first.
    """
    end = str.rpartition if deepest else str.partition
    named = [example(row) for row in ROWS if row.clean is WriteRule.REFUSED and "/" in row.pattern]
    shams = dict.fromkeys(f"{depth}{end(path, '/')[0]}/.git/{part}" for path in named for depth in DEPTHS)
    return (
        f"for path in {[*NEVER, *shams]!r}:\n"
        " os.makedirs(os.path.dirname(path) or '.', exist_ok=True)\n"
        " open(path, 'w').write('')\n"
    )


@pytest.mark.parametrize("part", ["config", "hooks/README", "info/x"])
@pytest.mark.parametrize("deepest", [False, True])
async def test_a_repository_made_in_a_folder_of_settings_keeps_none_of_them(part: str, *, deepest: bool) -> None:
    """What looks like a clone brings settings for those who work in it, and for nobody in the folders around."""
    async with scene(trusted=True) as one:
        await run_program(one, sham_program(deepest=deepest, part=part))
        assert [path for path in NEVER if (one.home.cwd / path).exists()] == []


async def test_a_repository_made_where_a_link_of_the_persons_leads_keeps_no_settings() -> None:
    """With Landlock alone, where the folder that the link leads to can be written."""
    async with scene(trusted=True, mechanism="landlock") as one:
        (one.home.cwd / "dot").mkdir()
        (one.home.cwd / ".kiro").symlink_to("dot")
        await run_program(one, "os.makedirs('dot/hooks/.git/hooks')\nopen('dot/hooks/a', 'w').write('')\n")
        assert not (one.home.cwd / ".kiro/hooks/a").exists()


@pytest.mark.needs("git")
async def test_a_clone_keeps_the_settings_that_are_its_own_alone() -> None:
    """One in the place of a folder of settings keeps none that programs obey in the folder around, by any name."""
    async with scene(trusted=True) as one:
        work, theirs = one.home.cwd, one.home.root / "theirs"
        for path in (*NEVER, "tasks.json", "settings.json", "config.toml", "plugin/.envrc", "code/tasks.json"):
            (theirs / path).parent.mkdir(parents=True, exist_ok=True)
            (theirs / path).write_text(TEXT)
        (theirs / ".zed").rename(theirs / "zed")
        (theirs / ".zed").symlink_to("zed")
        for words in ("init -q", "add -fA", "-c user.name=a -c user.email=a@b commit -qm x"):
            subprocess.run(["git", "-C", theirs, *words.split()], check=True, env=one.home.environ)
        one.context.backend.grant_read(str(theirs.resolve()))
        (work / "vendor").mkdir()
        places = ("vendor/x", ".vscode", "a/.claude", "sub/mise", "sub/.husky", "b/.opencode")
        await run_program(
            one,
            f"for place in {places!r}:\n subprocess.run(['git', 'clone', '-q', {str(theirs)!r}, place], check=True)\n",
        )
        await one.run("git -C vendor/x status")
        assert [path for path in NEVER if not (work / "vendor/x" / path).exists()] == []
        assert (work / "vendor/x/.zed").is_symlink()
        around = (".vscode/tasks.json", "a/.claude/settings.json", "sub/mise/config.toml", "b/.opencode/plugin/.envrc")
        assert [path for path in (*around, "sub/.husky/.husky/q") if (work / path).exists()] == []
        own = (".vscode/.envrc", "a/.claude/.claude/settings.json", "sub/mise/.vscode/tasks.json", "b/.opencode/.envrc")
        assert [path for path in (*own, ".vscode/code/tasks.json") if not (work / path).exists()] == []


@pytest.mark.parametrize("tainted", [False, True], ids=["clean", "tainted"])
@pytest.mark.parametrize("tool", ["write_file", "patch"])
async def test_what_file_tools_write(tool: str, *, tainted: bool) -> None:
    """With nobody there to be asked."""
    async with scene(trusted=True) as one:
        if tainted:
            await taint(one)
        calls = {}
        for path in PATHS:
            if tool == "patch":
                (one.home.cwd / path).parent.mkdir(parents=True, exist_ok=True)
                (one.home.cwd / path).write_text("mine\n")
                calls[path] = Call("patch", {"path": path, "old_string": "mine", "new_string": "theirs"})
            else:
                calls[path] = Call("write_file", {"path": path, "content": "theirs\n"})
        said = dict(zip(calls, await one.turn(list(calls.values())), strict=True))
        for path, row in PATHS.items():
            rule = row.tainted if tainted else row.clean
            there = one.home.cwd / path
            written = there.exists() and there.read_text() == "theirs\n"
            assert written == (rule is WriteRule.FREE), (path, rule, said[path])
            assert written or "Not allowed" in said[path], (path, said[path])


@pytest.mark.parametrize("row", [row for row in OBEYED_ROWS if row.reader == REPOSITORY], ids=lambda row: row.pattern)
async def test_parts_of_a_repository_are_not_written_by_file_tools(row: ObeyedRow) -> None:
    async with scene(trusted=True) as one:
        for depth in DEPTHS:
            path = f"{depth}{example(row)}"
            assert "Not allowed" in await one.call("write_file", path=path, content="x")
            assert not (one.home.cwd / path).exists()


def test_the_table_covers_what_other_programs_are_known_to_obey() -> None:
    patterns = {row.pattern for row in OBEYED_ROWS}
    assert {".claude/settings.json", ".mcp.json", ".vscode/tasks.json", ".envrc", ".githooks/", "makefile"} <= patterns
    assert {".hg/hgrc", ".jj/repo/config.toml", ".rvmrc", ".devcontainer.json", ".shadowenv.d/", ".run/"} <= patterns
    assert sum(row.reader == INSTRUCTIONS for row in OBEYED_ROWS) > 10
    assert all(row.tainted >= row.clean and row.tainted is not WriteRule.FREE for row in OBEYED_ROWS)


async def test_what_a_running_process_makes_is_looked_at_after_each_call() -> None:
    async with scene(trusted=True) as one:
        (one.home.cwd / "p.py").write_text(
            "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\n"
            "os.makedirs('.vscode', exist_ok=True)\nopen('.vscode/tasks.json', 'w').write('{}')\n"
            "while not os.path.exists('end'): time.sleep(0.02)\n"
        )
        await one.call("terminal", command="python3 p.py", background=True)
        assert "tasks.json" not in await one.call("todo", todos=[])
        (one.home.cwd / "go").write_text("")
        said = ""
        while "tasks.json was made by a command" not in said:
            said = await one.call("todo", todos=[])
        assert not (one.home.cwd / ".vscode/tasks.json").exists()
        (one.home.cwd / "end").write_text("")


@pytest.mark.needs("git")
async def test_a_stopped_rebase_runs_nothing_of_a_commands() -> None:
    async with scene(trusted=True) as one:
        git = ["git", "-C", str(one.home.cwd), "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], *(["commit", "-q", "--allow-empty", "-m", number] for number in "123")):
            subprocess.run([*git, *words], check=True, env=one.home.environ)
        (one.home.cwd / "p.py").write_text(
            "import os, subprocess\nos.environ['GIT_SEQUENCE_EDITOR'] = 'sed -i 1s/pick/edit/'\n"
            "subprocess.run(['git', 'rebase', '-q', '-i', '--keep-empty', 'HEAD~2'])\n"
            "open('.git/rebase-merge/git-rebase-todo', 'a').write('exec touch pwned\\n')\n"
        )
        said = await one.run("GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b python3 p.py")
        todo = one.home.cwd / ".git/rebase-merge/git-rebase-todo"
        assert "git-rebase-todo; all of it is in" in said
        assert "pwned" not in todo.read_text() and "pick" in todo.read_text()


@pytest.mark.parametrize("name", ["todo", "strategy", "gitdir"])
async def test_a_program_in_a_kept_folder_is_moved_aside_whatever_its_name(name: str) -> None:
    """With Landlock alone, where `~/bin` leads to the workspace: names of git's files are judged by what they say."""
    async with scene(trusted=True, workspace="home/work", mechanism="landlock") as one:
        (one.home.cwd / "bin").mkdir()
        (one.home.cwd / "bin/mine").write_text("mine")
        (one.home.home / "bin").symlink_to("work/bin")
        text = "ort" if name == "strategy" else "#!/bin/sh\\ntheirs\\n"
        await run_program(one, f"for one in ({name!r}, 'other'): open('bin/' + one, 'w').write({text!r})")
        assert not (one.home.cwd / "bin/other").exists()
        assert not (one.home.cwd / "bin" / name).exists()
