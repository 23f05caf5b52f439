"""Every slash command, held to the same few promises, on both desks."""

import asyncio
import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from hermes.cli.plain.renderer import PlainRenderer
from hermes.cli.plain.repl import PlainCommandContext
from hermes.cli.plain.terminal import InputSignal
from hermes.commands.command import CommandGroup, SlashCommand
from hermes.commands.context import Surface
from hermes.commands.registry import command_registry, load_commands
from hermes.core.errors import HermesError
from hermes.testing.script import Say
from tests.commands.chat_surfaces import chat

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
COMMANDS = tuple(one for one in load_commands() if Surface.TERMINAL in one.surfaces)
NOTHING_BEHIND = ("image", "steer", "queue", "interrupt")
"""What needs words, and says so without them."""
BELOW = "new reset clear redraw history save retry prompt compose undo title branch fork compress compact rollback"
BELOW += " snapshot snap stop background bg btw agents tasks queue q steer goal subgoal status whoami profile resume"
BELOW += " sessions config model personality statusbar sb timestamps ts verbose footer yolo reasoning fast skin busy"
BELOW += " indicator tools toolsets skills memory bundles learn cron curator reload reload-mcp reload_mcp reload-skills"
BELOW += " reload_skills plugins help usage insights copy paste image update version v debug quit exit journey learning"
BELOW += " memory-graph approve deny commands redo diff export approvals sandbox trust doctor context mcp provider moa"
NOT_HERE = "kanban pet hatch browser platforms gateway subscription topup blueprint suggestions topic"


def named(command: SlashCommand) -> str:
    return command.name


def test_names_are_unique_and_the_known_ones_are_there() -> None:
    commands = command_registry(Surface.TERMINAL)
    names = [name for one in load_commands() for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))
    assert [name for name in BELOW.split() if commands.find_command(name) is None] == []
    assert [name for name in NOT_HERE.split() if commands.find_command(name) is not None] == []


async def test_help_tells_of_each_command() -> None:
    async with chat() as here:
        whole = await here.desk.type_line("/help all")
        for command in COMMANDS:
            told = await here.desk.type_line(f"/help {command.name}")
            assert told.startswith(f"/{command.name}") and command.about in told, command.name
            listed = any(f"{line} ".startswith(f"  /{command.name} ") for line in whole.split("\n"))
            assert listed is (command.group is not CommandGroup.ELSEWHERE), command.name


@pytest.mark.parametrize("command", COMMANDS, ids=named)
async def test_it_runs_on_a_fresh_session(command: SlashCommand) -> None:
    async with chat([Say("done")]) as here:
        await quietly(here.desk.type_line(f"/{command.name}"), needs_words=command.name in NOTHING_BEHIND)
        if command.complete is not None:
            from hermes.commands.command import CommandCall

            call = CommandCall(here.desk, command.name, "", command_registry(Surface.TERMINAL))
            with contextlib.suppress(HermesError):
                assert all(option.label for option in await command.complete(call))


@pytest.mark.parametrize("command", COMMANDS, ids=named)
async def test_it_runs_in_lines(command: SlashCommand) -> None:
    async with chat([Say("done")]) as here:
        desk = PlainCommandContext(here.app, Nobody(), PlainRenderer(), None, {"TERM": "dumb", "EDITOR": "true"})
        await desk.open_first_session(None, latest=False)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            await quietly(command_registry(Surface.TERMINAL).run_command(desk, command.name, ""))
        assert "Traceback" not in out.getvalue() and "\x1b" not in out.getvalue()


@pytest.mark.parametrize("command", COMMANDS, ids=named)
async def test_what_is_no_argument_of_it_gives_a_clear_sentence(command: SlashCommand) -> None:
    async with chat([Say("done")]) as here:
        try:
            told = await here.desk.type_line(f"/{command.name} --zzz '")
        except HermesError as error:
            assert 10 < len(error.message) < 300 and "Traceback" not in error.message and "\n" not in error.message
        else:
            assert told or here.desk.questions or here.desk.posted or here.desk.exit_mode or command.name in SILENT


SILENT = ("image",)
"""What does its work without a word."""


async def quietly(work: object, *, needs_words: bool = False) -> None:
    """Only what is meant for a person may come out of it."""
    assert asyncio.iscoroutine(work)
    try:
        await work
    except HermesError as error:
        assert error.message and "\n" not in error.message
    else:
        assert not needs_words


class Nobody:
    """A person who never answers."""

    interactive = True

    def current_prompt(self) -> str:
        return ""

    async def read_line(self, prompt: str) -> InputSignal:
        return InputSignal.END

    def handle_interrupts(self, stop: Callable[[], object]) -> AbstractContextManager[None]:
        return contextlib.nullcontext()


def test_the_document_is_what_the_registry_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/commands.py")], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == (ROOT / "docs/commands.md").read_text("utf-8"), "run scripts/commands.py --write"
    for command in COMMANDS:
        assert f"| `/{command.name}" in done.stdout
