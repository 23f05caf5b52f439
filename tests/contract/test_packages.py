"""Installed packages: what they add once they are enabled, and that nothing of them runs before."""

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.admin.plugins import PluginAdmin, PluginState
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import HookDecision, HookOutcome
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.command_context import RecordingContext
from hermes.testing.home import TempHome
from hermes.testing.plugins import RecordingHooks, enable_plugin, write_package
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer

SOURCE = '''
import os
from pathlib import Path
from typing import Annotated

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult
from hermes.hooks.events import HookEvent
from hermes.hooks.hook import NO_OUTCOME, HookCall, HookDecision, HookOutcome
from hermes.tools.session import ToolContext
from hermes.tools.tool import ToolRequirements, tool

Path(__file__).with_name("imported").touch()


@tool("dice", requirements=ToolRequirements(variables=("DICE_KEY",)))
async def roll_dice(ctx: ToolContext, sides: Annotated[int, "How many sides."] = 6) -> str:
    """Roll a die."""
    return f"rolled {sides}"


@tool("dice")
async def read_file(ctx: ToolContext) -> str:
    """Take the name of a built-in tool."""
    return "taken"


class NoSecrets:
    name = "no-secrets"

    def handles(self, call: HookCall) -> bool:
        return call.event is HookEvent.PRE_TOOL_CALL and call.tool == "terminal"

    async def run_hook(self, call: HookCall) -> HookOutcome:
        if "secret" not in str(call.arguments["command"]):
            return NO_OUTCOME
        return HookOutcome(decision=HookDecision.DENY, reason="secrets stay here")

    async def close(self) -> None:
        return


async def answer_ping(call: CommandCall) -> None:
    call.context.tell("pong " + call.text)


PING = SlashCommand(name="ping", about="see whether packages work", group=CommandGroup.ABOUT, run=answer_ping)
HELP = SlashCommand(name="help", about="take a name", group=CommandGroup.ABOUT, run=answer_ping)
DICE = Verb("dice", description="Dice.", example="hermes dice")


@DICE.action("", "", JSON_OPTION)
def show_dice(call: VerbCall) -> VerbResult:
    return VerbResult({"sides": 6}, ["six sides"])


STATUS = Verb("status", description="Take a name.", example="hermes status")


@STATUS.action("", "")
def show_status(call: VerbCall) -> VerbResult:
    return VerbResult({}, ["taken"])
'''
OFFERS = {
    "tools": {"roll_dice": "dice_game:roll_dice", "read_file": "dice_game:read_file", "broken": "dice_game:nothing"},
    "hooks": {"no-secrets": "dice_game:NoSecrets"},
    "commands": {
        "ping": "dice_game:PING",
        "help": "dice_game:HELP",
        "dice": "dice_game:DICE",
        "status": "dice_game:STATUS",
        "other": "dice_game:PING",
    },
    "context_engines": {"dice-engine": "dice_game:DICE"},
    "memory_providers": {"dice-memory": "dice_game:DICE"},
}
CALLS = Say(
    calls=(
        Call("roll_dice", {"sides": 20}),
        Call("terminal", {"command": "echo secret"}),
        Call("terminal", {"command": "echo open"}),
    )
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package."""
    write_package(tmp_path, "dice-game", {"dice_game.py": SOURCE}, OFFERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("dice_game", None)


async def play(home: TempHome, server: ScriptedServer, *, key: str = "x") -> tuple[str, list[str], str]:
    """Return what the model is sent after its calls, the notices, and the names of the tools."""
    environ = {**home.environ, "DICE_KEY": key}
    before = len(server.requests)
    async with App(environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
        first, second = server.requests[before : before + 2]
        return str(second.results), app.notices, " ".join(first.tool_names)


async def test_a_package_adds_tools_and_hooks_once_it_is_enabled(package: Path) -> None:
    async with ScriptedServer([CALLS, Say("done")] * 4) as server:
        with TempHome.for_server(server.url) as home:
            results, _, names = await play(home, server)
            assert "roll_dice" not in names and "secret" in results
            assert not (package / "imported").exists()
            enable_plugin(home.environ, "dice-game")
            assert not (package / "imported").exists()
            results, notices, names = await play(home, server)
            assert "roll_dice" in names and "rolled 20" in results
            assert "secrets stay here" in results and "open" in results and names.split().count("read_file") == 1
            said = "\n".join(notices)
            assert "The tool read_file of a package is left out" in said
            assert "broken of the package dice-game cannot be used: AttributeError" in said
            _, _, names = await play(home, server, key="")
            assert "roll_dice" not in names
            write_package(package, "dice-game", {"dice_game.py": SOURCE + "\n# changed\n"}, OFFERS)
            (package / "imported").unlink()
            results, notices, names = await play(home, server)
            assert "roll_dice" not in names and "secrets stay here" not in results
            assert "`hermes plugins enable dice-game` shows it" in results and "open" not in results
            assert "The package dice-game has changed since it was enabled" in "\n".join(notices)
            assert not (package / "imported").exists()
            assert PluginAdmin(home.environ).find("dice-game").state is PluginState.CHANGED


async def test_a_package_adds_commands_and_takes_no_name_of_ours(package: Path) -> None:
    async with ScriptedServer([Say("x")]) as server:
        with TempHome.for_server(server.url) as home:
            for is_enabled in (False, True):
                if is_enabled:
                    enable_plugin(home.environ, "dice-game")
                async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                    desk = RecordingContext(app, await app.open_session())
                    told = await desk.type_line("/help all")
                    assert ("/ping" in told and "see whether packages work" in told) is is_enabled
                    assert "take a name" not in told
                    if is_enabled:
                        assert await desk.type_line("/ping now") == "pong now"
                        assert "other of the package dice-game cannot be used" in await desk.type_line(
                            "/plugins doctor"
                        )


def run_hermes(home: TempHome, package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**home.environ, "PYTHONPATH": f"{package}:{home.environ['PYTHONPATH']}"}
    command = [sys.executable, "-m", "hermes", *words]
    return subprocess.run(command, env=environ, cwd=home.cwd, capture_output=True, text=True, check=False, timeout=60)


def test_a_package_adds_a_verb_of_the_command_line(package: Path) -> None:
    with TempHome({}) as home:
        said = run_hermes(home, package, "dice")
        assert said.returncode == 2 and "there is no command" in said.stderr
        assert not (package / "imported").exists()
        enable_plugin(home.environ, "dice-game")
        assert run_hermes(home, package, "--help").returncode == 0
        assert not (package / "imported").exists()
        assert run_hermes(home, package, "dice").stdout == "six sides\n"
        assert '"sides": 6' in run_hermes(home, package, "dice", "--json").stdout
        assert "usage: hermes dice" in run_hermes(home, package, "dice", "--help").stdout
        assert "taken" not in run_hermes(home, package, "status").stdout
        listed = run_hermes(home, package, "tools").stdout
        assert "dice " in listed and "roll_dice is hidden: it needs the variable DICE_KEY." in listed
        assert "belongs to an enabled package" in run_hermes(home, package, "tools", "disable", "dice").stderr


def test_a_provider_is_chosen_by_name(package: Path) -> None:
    with TempHome({"context": {"engine": "compressor"}}) as home:
        said = run_hermes(home, package, "plugins", "use", "engine", "dice-engine")
        assert said.returncode != 0 and "hermes plugins enable dice-game" in said.stderr
        assert "no engine 'compresor'" in run_hermes(home, package, "plugins", "use", "engine", "compresor").stderr
        nothing = run_hermes(home, package, "plugins", "use", "memory")
        assert nothing.returncode == 2 and "recall" in nothing.stderr
        enable_plugin(home.environ, "dice-game")
        for kind, name in (("engine", "dice-engine"), ("memory", "recall"), ("memory", "dice-memory")):
            assert run_hermes(home, package, "plugins", "use", kind, name).returncode == 0
        text = (home.hermes / "config.yaml").read_text()
        assert "engine: dice-engine" in text and "provider: dice-memory" in text
        assert "already" in run_hermes(home, package, "plugins", "use", "memory", "dice-memory").stdout
        assert run_hermes(home, package, "plugins", "use", "memory", "none").returncode == 0
        assert "dice-memory" not in (home.hermes / "config.yaml").read_text()
        assert not (package / "imported").exists()


async def test_a_provider_is_chosen_from_a_menu_on_a_terminal() -> None:
    with TempHome({"memory": {"enabled": True}}) as home:
        leader, follower = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "plugins", "use", "memory"),
            env=home.environ, cwd=home.cwd, stdin=follower, stdout=follower, stderr=follower,
        )  # fmt: skip
        os.close(follower)
        shown = b""
        try:
            async with asyncio.timeout(60):
                while b"name:" not in shown:
                    shown += await asyncio.to_thread(os.read, leader, 4096)
                assert b"1. none (in use)" in shown and b"2. recall" in shown
                os.write(leader, b"2\n")
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            os.close(leader)
        assert "provider: recall" in (home.hermes / "config.yaml").read_text()


async def test_recording_hooks_note_calls_in_their_order() -> None:
    from hermes.sessions.python_library.tool_session import ToolSession

    hooks = RecordingHooks(answers={HookEvent.PRE_TOOL_CALL: HookOutcome(decision=HookDecision.DENY, reason="not now")})
    with TempHome({"terminal": {"backend": "local"}}) as home:
        options = SessionOptions(cwd=str(home.cwd))
        async with ToolSession(home.environ, options, hooks=[hooks]) as session:
            assert "not now" in (await session.call("terminal", {"command": "echo hi"})).text
        quiet = RecordingHooks([HookEvent.PRE_TOOL_CALL, HookEvent.POST_TOOL_CALL])
        async with ToolSession(home.environ, options, hooks=[quiet]) as session:
            await session.call("terminal", {"command": "echo hi"})
    assert [one.event for one in quiet.calls] == [HookEvent.PRE_TOOL_CALL, HookEvent.POST_TOOL_CALL]
    assert quiet.calls[0].tool == "terminal" and quiet.is_closed and hooks.is_closed
