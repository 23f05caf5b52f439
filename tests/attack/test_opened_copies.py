"""What a person lets commands write outside of the workspace is copied as the workspace is, or it is asked about."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hermes.core.events import Notice
from hermes.core.outcomes import AnswerScope
from hermes.testing.script import Call
from tests.attack.obedient_scene import NO, ONCE, SESSION, Scene, says, scene
from tests.attack.test_opened_folders import read_all

WORK = "home/code/work"
SMALL = {"checkpoints": {"max_total_mb": 1}}
"""So the files of all folders may be half a megabyte."""
LOSES = "python3 lose.py ../other"


def fill(one: Scene, *, size: int = 10, files: int = 3) -> Path:
    """Make a folder beside the workspace with so many files of so many bytes."""
    one.open_tmp()
    other = one.home.cwd.resolve().with_name("other")
    fill_data(other, size=size, files=files)
    write_program(one)
    return other


def write_program(one: Scene) -> None:
    """Write a program that deletes data; no text tells of it."""
    (one.home.cwd / "lose.py").write_text("import shutil, sys\nshutil.rmtree(sys.argv[1] + '/data')")


def fill_data(folder: Path, *, size: int, files: int = 3) -> None:
    (folder / "data").mkdir(parents=True)
    for number in range(files):
        (folder / f"data/{number}").write_text(f"{number:0{size}}")


def count_questions(one: Scene, words: str) -> int:
    return sum(words in asked.reason for asked in one.asked)


@pytest.mark.parametrize("scope", [ONCE, SESSION])
async def test_what_a_program_deletes_in_an_opened_folder_comes_back(scope: AnswerScope) -> None:
    """An answer for one run opens the folder to that run alone."""
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one, files=2_500)  # more than are looked at for one command by their names
        before = read_all(other)
        await one.run(f"echo x > ../other/new && {LOSES}", says(scope))
        assert not (other / "data").exists() and len(one.asked) == 1
        await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before


async def test_a_folder_that_is_opened_in_the_middle_of_a_turn_is_copied() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one)
        before = read_all(other)
        (one.home.cwd / "a").write_text("a")
        commands = ("echo b > a", "echo x > ../other/new", LOSES)
        await one.turn(
            *([Call("terminal", {"command": one_}) for one_ in (command,)] for command in commands),
            person=says(SESSION),
        )
        assert not (other / "data").exists()
        await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before and (one.home.cwd / "a").read_text() == "a"


async def test_a_folder_around_one_that_was_opened_stays_as_it_was_before_both() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one)
        (other.parent / "third").mkdir()
        (other.parent / "third/mine").write_text("mine")
        before = read_all(other)
        await one.turn(
            [Call("terminal", {"command": f"echo x > ../other/new; {LOSES}"})],
            [Call("terminal", {"command": "echo x > ../new; rm -r ../third; ls .."})],
            person=says(SESSION),
        )
        assert not (other.parent / "third").exists() and not (other / "data").exists()
        await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before and (other.parent / "third/mine").read_text() == "mine"
        assert not (other.parent / "new").exists()


async def test_a_folder_too_large_for_copies_asks_once_before_anything_may_change_it() -> None:
    async with scene(trusted=True, workspace=WORK, config=SMALL) as one:
        other = fill(one, size=300_000)
        assert "Not allowed" in await one.run(f"{LOSES}; echo x > ../other/new", says(NO))
        assert count_questions(one, "too large to be copied") == 1 and (other / "data").exists()
        await one.run("echo x > ../other/new", says(SESSION))
        asked = len(one.asked)
        await one.run('echo x > made; python3 -c \'open("../other/more", "w")\'; ls -l', says(NO))
        assert len(one.asked) == asked and (other / "more").exists() and (one.home.cwd / "made").exists()
        assert "Not allowed" in await one.run("rm -r ../other/data", says(NO)) and (other / "data").exists()


async def test_a_yes_for_one_run_is_no_yes_to_lose_more_of_a_large_folder() -> None:
    async with scene(trusted=True, workspace=WORK, config=SMALL) as one:
        other = fill(one, size=300_000)
        await one.run("echo x > ../other/new", says(ONCE))
        assert "Not allowed" in await one.run("echo x > ../other/more", says(NO))
        assert (other / "new").exists() and not (other / "more").exists()
        asked = len(one.asked)
        await one.run("cat ../other/data/1 > /dev/null; ls -l", says(NO))
        assert count_questions(one, "too large to be copied") == 2 and len(one.asked) <= asked + 1


async def test_a_file_that_is_named_in_a_large_folder_is_copied() -> None:
    async with scene(trusted=True, workspace=WORK, config=SMALL) as one:
        other = fill(one, size=300_000)
        (other / "mine").write_text("mine")
        await one.run("echo x > ../other/mine", says(SESSION))
        await one.app.session_undo(one.actor).undo_turns()
        assert (other / "mine").read_text() == "mine"


@pytest.mark.parametrize("size", [10, 300_000])
async def test_a_folder_that_the_settings_open_is_copied_or_it_is_told_that_it_is_not(size: int) -> None:
    with TemporaryDirectory(dir="/var/tmp") as made:
        other = Path(made).resolve() / "other"
        config = {**SMALL, "terminal": {"backend": "sandbox", "sandbox": {"writable": [str(other)]}}}
        fill_data(other, size=size)
        before = read_all(other)
        async with scene(trusted=True, workspace=WORK, config=config) as one:
            write_program(one)
            for _ in range(2):
                await one.run(LOSES.replace("../other", str(other)), says(NO))
            told = [event.text for event in one.events if isinstance(event, Notice) and "too large" in event.text]
            assert one.asked == [] and not (other / "data").exists()
            await one.app.session_undo(one.actor).undo_turns(2)
            assert (read_all(other) == before, len(told)) == ((True, 0) if size == 10 else (False, 1))


async def test_a_workspace_in_an_opened_folder_is_listed_once() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        other, work = fill(one), one.home.cwd
        for number in range(50):
            (work / f"{number}").write_text("mine")
        await one.run(f"echo x > {other.parent}/new; rm [0-9]*; {LOSES}", says(SESSION))
        (recorder,) = [one.app.session_undo(one.actor)]
        await recorder.undo_turns()
        assert sorted(os.listdir(other / "data")) == ["0", "1", "2"] and len(list(work.glob("[0-9]*"))) == 50


async def test_a_single_file_that_was_opened_is_copied() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        one.open_tmp()
        note = one.home.home.resolve() / "note.txt"
        note.write_text("mine")
        await one.call("write_file", says(SESSION), path=str(note), content="first")
        (one.home.cwd / "w.py").write_text(f"open('{note.parent}/no' + 'te.txt', 'w').write('theirs')")
        await one.run("python3 w.py", says(NO))
        assert note.read_text() == "theirs"
        await one.app.session_undo(one.actor).undo_turns()
        assert note.read_text() == "first"


async def test_a_file_of_an_opened_folder_is_deleted_without_a_question_and_comes_back() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one)
        before = read_all(other)
        await one.run("echo x > ../other/new", says(SESSION))
        asked = len(one.asked)
        await one.run(f"rm ../other/data/0 && rm {other}/data/1", says(NO))
        assert len(one.asked) == asked and os.listdir(other / "data") == ["2"]
        await one.app.session_undo(one.actor).undo_turns(2)
        assert read_all(other) == before


KEPT = {"video": "v" * 1_100_000, "config/secrets.yaml": "password: words", "a.key": "words", "app.yaml": "a: 1"}
MOVING = [
    'python3 -c \'import os; os.rename("../other/video", "../other/video2")\'',
    "mv ../other/config ../other/settings",
    "mv ../other/a.key plain.txt",
]


@pytest.mark.parametrize("command", MOVING)
async def test_an_undo_deletes_nothing_that_has_no_copy(command: str) -> None:
    """A large file, or one that is named like a key, is there by its old name or by its new one."""
    async with scene(trusted=True, workspace=WORK, config={"checkpoints": {"max_file_mb": 1}}) as one:
        other = fill(one)
        for name, text in KEPT.items():
            (other / name).parent.mkdir(exist_ok=True)
            (other / name).write_text(text)
        await one.run("echo x > ../other/new", says(SESSION))
        await one.run(command, says(ONCE))
        await one.app.session_undo(one.actor).undo_turns()
        texts = {*read_all(other).values(), *read_all(one.home.cwd).values()}
        assert texts >= set(KEPT.values())


@pytest.mark.parametrize(
    "command",
    ["rm ../other/a.key", "rm -r ../other/config", "rm ../other/*", "echo x > ../other/a.key", "python3 lose.py"],
)
async def test_what_is_named_like_a_key_in_an_opened_folder_is_asked_about_or_comes_back(command: str) -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one)
        (other / "config").mkdir()
        (other / "a.key").write_text("words")
        (other / "config/credentials.json").write_text("words")
        await one.run("echo x > ../other/new", says(SESSION))
        (one.home.cwd / "lose.py").write_text("import os\nos.unlink('../other/a.key')\n")
        before, asked = read_all(other), len(one.asked)
        await one.run(command, says(NO))
        if len(one.asked) == asked:
            await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before


async def test_a_folder_with_more_that_git_ignores_than_is_copied_counts_as_too_large() -> None:
    async with scene(trusted=True, workspace=WORK, config=SMALL) as one:
        other = fill(one, size=60_000)
        (other / ".git").mkdir()
        (other / ".gitignore").write_text("data\n")
        await one.run("echo x > ../other/new", says(NO))
        assert count_questions(one, "too large to be copied") == 1


async def test_a_tag_of_a_cache_takes_no_copy_away() -> None:
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one)
        await one.run("touch ../other/data/CACHEDIR.TAG", says(ONCE))
        before = read_all(other)
        await one.run("echo x > here", says(NO))
        await one.run(f"echo x > ../other/new; {LOSES}", says(SESSION))
        assert not (other / "data").exists()
        await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before


@pytest.mark.parametrize(
    "command",
    [
        "rm thes[[:alpha:]]s",
        "echo x > thes[[:alpha:]]s",
        "shopt -s nocaseglob; rm THES*",
        "cp f0 thes[[:alpha:]]s",
        "cp put/* .",
        "cp -r put/. .",
        "rm link/../thesis",
        "echo x > link/../thesis",
        "cp put/thesis link/..",
    ],
)
async def test_a_small_file_of_a_large_folder_is_asked_about_or_copied(command: str) -> None:
    async with scene(trusted=True, workspace=WORK, config=SMALL) as one:
        other = fill(one, size=300_000)
        (other / "put/deep").mkdir(parents=True)
        (other / "data/link").symlink_to("../put")
        (other / "link").symlink_to("put/deep")
        for name in ("thesis", "put/thesis", "f0"):
            (other / name).write_text(f"mine: {name}")
        before = read_all(other)
        await one.run("echo x > ../other/new", says(SESSION))
        before["new"], asked = "x\n", len(one.asked)
        await one.run(f"cd ../other && {command}", says(NO))
        if len(one.asked) == asked:
            await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before


async def test_undo_keeps_the_files_of_a_large_folder_in_one_that_is_opened_later() -> None:
    """They have become few since, so that the folder around it is copied: nobody knows which of them are new."""
    async with scene(trusted=True, workspace=WORK, config=SMALL) as one:
        other = fill(one, size=300_000)
        (other / "old.txt").write_text("mine")
        await one.run("echo x > ../other/new", says(SESSION))
        for number in range(3):
            (other / f"data/{number}").unlink()
        before = read_all(other)
        rounds = ([Call("terminal", {"command": text})] for text in ("echo y > here", "echo x > ../new"))
        await one.turn(*rounds, person=says(SESSION))
        await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before


async def test_undo_leaves_what_a_person_did_in_a_folder_that_they_refused() -> None:
    """It is copied before the question, and no command can write it after."""
    async with scene(trusted=True, workspace=WORK) as one:
        other = fill(one)

        def refuse(_: object) -> AnswerScope:
            (other / "data/0").write_text("edited")
            (other / "new.txt").write_text("mine")
            return NO

        rounds = ([Call("terminal", {"command": text})] for text in ("echo x > ../other/x", "echo y > here"))
        await one.turn(*rounds, person=refuse)
        before = read_all(other)
        await one.app.session_undo(one.actor).undo_turns()
        assert read_all(other) == before and not (one.home.cwd / "here").exists()


@pytest.mark.parametrize("command", ["rm ideas.md", "echo x > ideas.md", "rm idea?.md", ""])
async def test_what_a_person_makes_during_a_turn_comes_back(command: str) -> None:
    """What a command makes is taken away, whatever names it later."""
    async with scene(trusted=True, workspace=WORK) as one:
        fill(one)
        cwd = one.home.cwd

        def person(_: object) -> AnswerScope:
            (cwd / "ideas.md").write_text("mine")
            return NO

        call = (
            Call("terminal", {"command": command})
            if command
            else Call("write_file", {"path": "ideas.md", "content": "x"})
        )
        rounds = (
            [Call("terminal", {"command": text})] for text in ("echo y > made", "echo x > ../other/x", "echo z > made")
        )
        await one.turn(*rounds, [call], person=person)
        assert len(one.asked) == 1
        await one.app.session_undo(one.actor).undo_turns()
        assert (cwd / "ideas.md").read_text() == "mine" and not (cwd / "made").exists()
