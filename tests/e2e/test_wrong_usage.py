"""What wrong words on the command line are answered with: the usage line of the verb, and one line of what is wrong."""

import json
import os
import shlex
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import on_a_terminal
from tests.e2e.tmux import NEEDED, in_tmux
from tests.forked_hermes import run_hermes, start_hermes

UNATTENDED = ("--yolo", "--dangerously-skip-permissions", "--full-auto", "--auto")


@pytest.mark.parametrize(
    ("words", "usage", "says"),
    [
        ("trust a b", "hermes trust [--remove]", "Unexpected argument 'b'"),
        ("mcp add", "hermes mcp add [options] name [command ...]", "arguments are required: name"),
        ("mcp list --no-test", "hermes mcp list [--no-connect]", "--no-test belongs to `hermes mcp add`"),
        ("backup --qick", "hermes backup [--quick]", "Did you mean '--quick'?"),
        ("setup --providr x", "hermes setup [options]", "Did you mean '--provider'?"),
        ("config set agent.max_turns", "hermes config set [--json] key value", "are required: value"),
        ("--nothing-like-it", "hermes chat [options] [prompt]", "there is no option --nothing-like-it"),
        ("chat --max-turns many", "hermes chat [options] [prompt]", "takes a whole number"),
        ("guard", "hermes guard [options] {command", "are required: subject"),
        ("cron add", "hermes cron add [options] schedule [prompt ...]", "are required: schedule"),
    ],
)
async def test_the_usage_line_and_one_line_of_what_is_wrong(words: str, usage: str, says: str) -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, *words.split())
    first, second = done.stderr.splitlines()
    assert (done.code, done.stdout) == (2, "")
    assert first.startswith(f"usage: {usage}") and second.startswith("hermes: ") and says in second


@pytest.mark.parametrize("before", [(), ("chat",), ("-z", "x")])
async def test_a_task_in_the_place_of_a_models_name_is_refused_with_the_option_for_tasks(
    before: tuple[str, ...],
) -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, *before, "-m", "fix the bug")
    assert (done.code, done.stdout) == (2, "")
    assert "which has no spaces, and 'fix the bug' has some. To ask something: hermes -z" in done.stderr


@pytest.mark.parametrize("option", UNATTENDED)
async def test_an_option_of_another_program_is_answered_with_what_there_is_instead(option: str) -> None:
    with TempHome({}) as home:
        done = await run_hermes(home, "-z", "hi", option)
    *_, said = done.stderr.splitlines()
    assert done.code == 2 and done.stderr.count("\n") == 2
    assert f"there is no option {option}." in said and "--allow" in said and "--mode auto" in said


async def test_a_session_is_named_or_chosen_to_go_on_with() -> None:
    async with ScriptedServer([Say("one"), Say("two"), Say("three"), Say("four")]) as server:
        with TempHome.for_server(server.url) as home:
            nothing = await run_hermes(home, "resume", "-z", "more")
            assert nothing.code == 2 and "No session is named. `hermes sessions list` shows them" in nothing.stderr
            assert (await run_hermes(home, "-z", "about lighthouses")).stdout == "one\n"
            (row,) = json.loads((await run_hermes(home, "sessions", "list", "--json")).stdout)
            assert (await run_hermes(home, "resume", row["id"], "-z", "more")).stdout == "two\n"
            assert (await run_hermes(home, "resume", "-c", "-z", "more")).stdout == "three\n"
            async with on_a_terminal(home, "--resume", "-z", "still more", "--no-gateway") as screen:
                await screen.shows_next("Which session?")
                await screen.shows_next("about lighthouses")
                screen.type("1\n")
                await screen.shows_next("four")
                assert await screen.end() == 0
    assert [len(one.messages) for one in server.requests] == [2, 4, 6, 8]


@NEEDED
async def test_esc_leaves_the_list_of_sessions() -> None:
    async with ScriptedServer([Say("one")]) as server:
        with TempHome.for_server(server.url) as home:
            assert (await run_hermes(home, "-z", "about lighthouses")).stdout == "one\n"
            async with in_tmux(home, "--resume") as screen:
                await screen.shows("Which session?", "> 1. about lighthouses", "Esc leaves")
                await screen.press("Down", "Escape")
                await screen.shows("No session was chosen.")
                shown = await screen.ends(130)
                assert "> 1." not in shown
    assert len(server.requests) == 1


async def test_the_pipe_is_the_question_where_no_text_is_given() -> None:
    async with ScriptedServer([Say("four"), Say("six")]) as server:
        with TempHome.for_server(server.url) as home:
            done = await run_hermes(home, "-z", stdin=b"What is 2 + 2?")
            assert (done.code, done.stdout) == (0, "four\n")
            assert (await run_hermes(home, "--json", "-z", stdin=b"And 3 + 3?")).code == 0
            empty = await run_hermes(home, "-z")
            assert empty.code == 2 and "The task is empty." in empty.stderr
            done = await run_hermes(home, "-z", "--json", stdin=b"What is 2 + 2?")
    assert [one.messages[-1]["content"].splitlines()[0] for one in server.requests] == ["What is 2 + 2?", "And 3 + 3?"]
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == "hermes: -z takes the text right behind it, and --json is an option.\n"


async def test_a_folder_is_entered_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome.for_server(server.url) as home:
            for option in ("-C", "--cd"):
                done = await run_hermes(home, option, str(tmp_path / "below"), "-z", "hi", "-o", "answer.txt")
                assert done.code == 0, done
                (tmp_path / "below" / "answer.txt").unlink()
            gone = await run_hermes(home, "-C", str(tmp_path / "gone"), "-z", "hi")
    said = f"hermes: {tmp_path / 'gone'} cannot be the working folder: No such file or directory.\n"
    assert (gone.code, gone.stderr) == (2, said)
    assert all(f"working folder {tmp_path / 'below'}" in str(one.messages[-1]["content"]) for one in server.requests)


async def test_config_show_prints_the_settings() -> None:
    with TempHome({"agent": {"max_turns": 7}}) as home:
        shown = await run_hermes(home, "config", "show")
        assert shown.code == 0 and "agent.max_turns = 7" in shown.stdout
        assert shown.stdout == (await run_hermes(home, "config", "list")).stdout


async def test_an_output_that_nobody_reads_is_said_and_one_that_is_read_is_written(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome.for_server(server.url) as home:
            done = await run_hermes(home, "-z", "hi", "-o", str(pipe))
            assert (done.code, done.stdout) == (0, "one\n")
            assert done.stderr == f"hermes: {pipe} cannot be written: nobody reads it.\n"
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            try:
                process = await start_hermes(home, "-z", "hi", "-o", str(pipe), stdin=PIPE, stdout=PIPE, stderr=PIPE)
                out, err = await process.communicate()
                assert (process.returncode, out, err) == (0, b"two\n", b"")
                assert os.read(reader, 100) == b"two\n"
            finally:
                os.close(reader)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/title", "title": "x"},
        {"properties": {"a": {"$ref": "#/required"}}, "required": ["a"]},
        {"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": {"type": "nothing"}}},
        {"properties": {"a": {"$ref": "#/x/y"}}, "x": {"y": ["a"]}},
        {"properties": {"a": {"$ref": "#/x/first"}}, "x": ["a"]},
    ],
)
async def test_a_reference_to_what_is_no_schema_is_one_line(schema: object, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    async with ScriptedServer([Say("{}")]) as server:
        with TempHome.for_server(server.url) as home:
            done = await run_hermes(home, "-z", "hi", "--output-schema", str(file))
    assert (done.code, done.stdout, server.requests, done.stderr.count("\n")) == (2, "", [], 1)
    assert "The JSON Schema refers to #/" in done.stderr and "which is not a schema" in done.stderr


async def test_a_backup_names_the_command_that_restores_it() -> None:
    with TempHome({"agent": {"max_turns": 7}}) as home:
        for words in ((), (str(home.cwd / "my copy.zip"), "--commands-may-read")):
            made = await run_hermes(home, "backup", *words)
            (line,) = (line for line in made.stdout.splitlines() if line.startswith("To restore it: "))
            program, *rest = shlex.split(line.removeprefix("To restore it: "))
            assert (made.code, program, bool(rest)) == (0, "hermes", True)
            shown = await run_hermes(home, *rest, "--dry-run")
            assert shown.code == 0 and "backup of" in shown.stdout
