"""Code that calls tools, through the terminal, the library, a program that reads JSON, and a chat; and over a kill."""

import asyncio
import json
import os
import sys
import sysconfig
from pathlib import Path

import pytest

import hermes
from hermes.config.trusted_folders import set_trust
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.ntfy import Fake
from tests.vendors.telegram import Fake as TelegramFake

LOOK = 'for name in ("a", "b"):\n    print(name, read_file(path=name).split("|")[-1].strip())'
SCRIPT = "def both():\n    yield from ('a', 'b')\n" + LOOK.replace('("a", "b")', "both()")


def replies(code: str = LOOK) -> list[Say]:
    return [
        Say(calls=(Call("tool_search", {"query": "code"}),)),
        Say(calls=(Call("tool_call", {"name": "execute_code", "arguments": {"code": code}}),)),
        Say("Both are fruit."),
    ]


def plant(folder: Path) -> None:
    (folder / "a").write_text("apple\n")
    (folder / "b").write_text("banana\n")


def trust(home: TempHome) -> None:
    """The person vouches for the folder: without a sandbox, Python does nothing with strangers' text unasked."""
    set_trust(home.hermes / "trust.json", str(home.cwd), trusted=True)


def check_result(server: ScriptedServer) -> None:
    """The model was told what the code printed, and nothing that it read beside it."""
    told = server.requests[-1].conversation[-1].text
    assert "a apple" in told
    assert "b banana" in told
    assert len(server.requests) == 3


@pytest.mark.parametrize("code", [LOOK, SCRIPT])
async def test_in_a_terminal_its_calls_stand_below_it(code: str) -> None:
    async with ScriptedServer(replies(code)) as server:
        with TempHome.for_server(server.url, more_config={"display": {"tool_progress": "all"}}) as home:
            plant(home.cwd)
            trust(home)
            done = await run_hermes(home, "chat", "-q", "What are a and b?")
        check_result(server)
    assert "Both are fruit." in done.stdout
    lines = done.stdout.splitlines() + done.stderr.splitlines()
    assert any(line.startswith("· execute_code") for line in lines), lines
    assert any(line.startswith("  · read") for line in lines), lines


async def test_a_program_that_reads_json_sees_its_calls() -> None:
    async with ScriptedServer(replies()) as server:
        with TempHome.for_server(server.url) as home:
            plant(home.cwd)
            done = await run_hermes(home, "-z", "What are a and b?", "--stream-json")
        check_result(server)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    started = [one for one in events if one.get("type") == "tool_started"]
    names = {one["call_id"]: one["name"] for one in started}
    outer = next(call_id for call_id, name in names.items() if name == "execute_code")
    assert names[f"{outer}.1"] == names[f"{outer}.2"] == "read_file"


async def test_the_library_tells_of_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(replies()) as server:
        with TempHome.for_server(server.url) as home:
            plant(home.cwd)
            program = (
                "from hermes import AIAgent\n"
                "told = []\n"
                "with AIAgent(tool_start_callback=lambda call_id, name, given: told.append(name)) as agent:\n"
                "    print(agent.chat('What are a and b?'), told)\n"
            )
            done = await home.run(sys.executable, "-c", program)
        assert done.code == 0, done.stderr
        check_result(server)
    assert "Both are fruit." in done.stdout
    assert "'execute_code', 'read_file', 'read_file'" in done.stdout


async def test_a_chat_gets_the_answer() -> None:
    code = 'todo(todos=[])\nprint("a apple")\nprint("b banana")'
    async with ScriptedServer(replies(code)) as server, Fake() as chat:
        with home_for(server, {"ntfy": chat}) as home:
            async with running(home):
                await chat.say("What are a and b?")
                await chat.until(lambda: "Both are fruit." in chat.text())
        check_result(server)


async def test_a_question_of_code_is_answered_after_a_restart_and_the_code_goes_on_there() -> None:
    code = (
        'terminal(command="echo before >> steps")\n'
        "try:\n"
        '    terminal(command="git push --force")\n'
        "except ToolError as error:\n"
        '    print("heard:", str(error)[:11])\n'
        'terminal(command="echo after >> steps")\n'
        'print(read_file(path="steps").count("before"), read_file(path="steps").count("after"))'
    )
    async with ScriptedServer([*replies(code)[1:2], Say("It was not allowed.")]) as server, TelegramFake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home):
                await chat.say("go")
                await chat.until(lambda: any(one.buttons for one in chat.shown()))
            question = next(one for one in chat.shown() if one.buttons)
            async with running(home):
                await chat.press(question.message_id, dict(question.buttons)["No"])
                await chat.until(lambda: "It was not allowed." in chat.text())
    assert sum("Allow" in one.text for one in chat.shown()) == 1
    assert "heard: Not allowed\n1 1" in server.requests[-1].conversation[-1].text


def program_without_interpreter(folder: Path) -> str:
    """Return a program that is `hermes` in an environment with every package but the interpreter's."""
    folder.mkdir()
    for one in os.scandir(sysconfig.get_path("purelib")):
        if "monty" not in one.name:
            (folder / one.name).symlink_to(one.path)
    path = [str(folder), str(Path(hermes.__file__).parents[1])]
    return f"import sys; sys.path[:0] = {path!r}; from hermes.__main__ import main; sys.exit(main())"


async def test_without_the_extra_python_runs_it_and_doctor_says_what_to_install(tmp_path: Path) -> None:
    start = (sys.executable, "-S", "-c", program_without_interpreter(tmp_path / "packages"))
    async with ScriptedServer(replies()) as server:
        with TempHome.for_server(server.url) as home:
            plant(home.cwd)
            trust(home)
            done = await home.run(*start, "-z", "What are a and b?", "--stream-json")
            assert done.code == 0, done.stderr
            checked = await home.run(*start, "doctor", "--json")
        check_result(server)
    names = [json.loads(line).get("name") for line in done.stdout.splitlines()]
    assert "python_script" in names
    (code,) = [one for one in json.loads(checked.stdout)["checks"] if one["name"] == "code"]
    assert "runs in Python" in code["said"]
    assert "hermes-anew[code]" in code["advice"] or "[code]" in code["advice"]


async def test_a_kill_in_the_middle_of_a_call_is_gone_on_with() -> None:
    code = (
        "try:\n"
        '    terminal(command="echo one >> effects; sleep 30")\n'
        "except OutcomeUnknown:\n"
        '    print("unknown;", read_file(path="effects").split("|")[-1].strip())\n'
    )
    async with ScriptedServer(replies(code)) as server:
        more = {"command_allowlist": ["*"], "terminal": {"backend": "local"}}
        with TempHome.for_server(server.url, more_config=more) as home:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "hermes", "-z", "go"), cwd=home.cwd, env=home.environ
            )
            ending = asyncio.ensure_future(process.wait())
            while not (home.cwd / "effects").exists():
                await asyncio.wait({ending}, timeout=0.02)
                assert not ending.done()
            process.kill()
            await ending
            done = await run_hermes(home, "--continue")
            assert done.code == 0, done.stderr
            assert (home.cwd / "effects").read_text() == "one\n"
        assert "unknown; one" in server.requests[-1].conversation[-1].text
