"""The command line where streams, folders and options are not what they should be: one line, no traceback."""

import sys

import pytest

from hermes.testing.home import ProgramResult, TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer


async def shell(script: str, answer: str = "fine", **environ: str) -> tuple[ProgramResult, ScriptedServer]:
    """Run a shell script in which `hermes` is the program."""
    replies = ScriptedModel([], then=Say(answer))
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            home.more |= environ
            program = f'hermes() {{ "{sys.executable}" -m hermes "$@"; }}\n'
            done = await home.run("bash", "-c", program + script, timeout=60)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done, server


@pytest.mark.parametrize("how", ["-z", "chat -q"])
async def test_an_answer_that_the_output_has_no_letters_for_is_still_shown(how: str) -> None:
    done, _ = await shell(f"hermes {how} hi", answer="答案 ok", PYTHONIOENCODING="ascii")
    assert (done.code, done.stdout.strip()) == (0, r"\u7b54\u6848 ok")


@pytest.mark.parametrize("how", ["-z", "chat -q"])
async def test_closed_streams_are_no_error(how: str) -> None:
    done, server = await shell(f"hermes {how} hi >&- 2>&- <&-")
    assert (done.code, len(server.requests)) == (0, 1)


@pytest.mark.parametrize("command", ["hermes", "hermes -z -"])
async def test_no_input_at_all_is_nothing_to_do(command: str) -> None:
    _, server = await shell(f"{command} <&-")
    assert server.requests == []


@pytest.mark.parametrize("command", ["hermes -z hi", "hermes chat -q hi", "hermes --help", "hermes sessions list"])
async def test_a_reader_that_left_and_a_full_disk_are_told_by_the_exit_code(command: str) -> None:
    done, _ = await shell(f"hermes -z before; {command} > /dev/full; echo $? >&2")
    assert done.stderr.split()[-1] == "74"
    assert "No space left" in done.stderr
    done, _ = await shell(f"hermes -z before; {command} | true; echo ${{PIPESTATUS[0]}} >&2")
    assert done.stderr.split() in (["141"], ["0"])


@pytest.mark.parametrize("text", ["=foo", "-x=foo bar", "--model=x", "=", "-"])
async def test_a_prompt_arrives_as_it_was_written(text: str) -> None:
    done, server = await shell(f"printf %s '{text}' | hermes -z '{text}'")
    assert done.code == 0
    assert server.requests[0].last_user_text.startswith(text)


@pytest.mark.parametrize("options", ["--resume ''", "--resume="])
async def test_an_empty_name_of_a_session_begins_no_new_one(options: str) -> None:
    done, server = await shell(f"hermes -z hi {options}")
    assert done.code != 0
    assert "session" in done.stderr
    assert server.requests == []


BAD = [
    "mkdir gone; cd gone; rmdir ../gone; hermes -z hi",
    "hermes -z hi -m $'\\xff'",
    "hermes -z hi --max-turns -5",
    "hermes -z hi --max-turns 0",
    "mkfifo pipe; hermes -z hi --image pipe",
    "hermes -z before; hermes sessions list --limit 99999999999999999999",
    "hermes -z before; hermes sessions search x --limit 99999999999999999999",
    "hermes -z before; hermes sessions list --limit -1",
    "printf 'a: &a\\n  - *a\\n' > $HERMES_HOME/config.yaml; hermes -z hi",
    "printf 'agent: {api_max_retries: -5}' > $HERMES_HOME/config.yaml; hermes -z hi --provider custom -m m",
    "printf 'agent: {tool_delay: .nan}' > $HERMES_HOME/config.yaml; hermes -z hi --provider custom -m m",
]


@pytest.mark.parametrize("script", BAD)
async def test_nonsense_is_one_line_and_an_exit_code(script: str) -> None:
    done, _ = await shell(script)
    assert done.code in (1, 2, 78)
    assert len(done.stderr.splitlines()) == 1


async def test_a_folder_whose_name_is_not_utf_8_can_be_worked_in_and_gone_on_in() -> None:
    done, server = await shell("mkdir $'b\\xff'; cd $'b\\xff'; hermes -z one && hermes -z two --continue")
    assert (done.code, len(server.requests)) == (0, 2)
    assert server.requests[1].body.startswith(server.requests[0].body[:-2])
