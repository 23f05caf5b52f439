"""However the full chat ends, the terminal is as it was: settings, cursor, modes, and a line of its own to go on with.

Judged by every mode that was ever set, as a pseudo-terminal has seen it, not by what a lenient terminal forgives.
"""

import os
import re
import signal
import sqlite3
import termios
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Ending, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import Screen, on_a_terminal

_MODE = re.compile("\x1b\\[\\?([0-9;]+)([hl])")
_ON_AT_FIRST = {7, 25}
"""Wrapping, and the cursor."""
_SECOND_SCREEN = {47: 1049, 1047: 1049}
HANG = ReplyDelivery(ending=Ending.HANG, at=4)


def modes_left(shown: str) -> set[int]:
    """The private modes that are not as they were at first."""
    now: dict[int, bool] = {}
    for numbers, switch in _MODE.findall(shown):
        for number in numbers.split(";"):
            now[_SECOND_SCREEN.get(int(number), int(number))] = switch == "h"
    return {number for number, on in now.items() if on != (number in _ON_AT_FIRST)}


def style_left(shown: str) -> str:
    """The last colours and weights that were switched on; empty when they were switched off again."""
    found = re.findall("\x1b\\[([0-9;]*)m", shown)
    return found[-1] if found and found[-1] not in ("", "0") else ""


class Chat:
    """A full chat on a pseudo-terminal."""

    def __init__(self, screen: Screen, home: TempHome, server: ScriptedServer) -> None:
        self.screen = screen
        self.home = home
        self.server = server
        self.before = termios.tcgetattr(screen.master)

    async def ended(self, code: int) -> None:
        """Wait for the end; look at what is left of the terminal."""
        assert await self.screen.end() == code, self.screen.text
        shown = self.screen.text
        assert modes_left(shown) == set(), shown[-500:]
        assert style_left(shown) == "", shown[-500:]
        assert termios.tcgetattr(self.screen.master) == self.before
        assert "Traceback" not in shown
        assert shown.endswith(("\n", "\x1b[?2026l", "\x1b[?25h", "\x1b[0m", "\x1b[?2004l", "\x1b[23;2t")), shown[-200:]


@asynccontextmanager
async def chatting(*replies: Reply) -> AsyncIterator[Chat]:
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = "xterm-256color"
            async with on_a_terminal(home, size=(90, 24)) as screen:
                chat = Chat(screen, home, server)
                await screen.shows("mock-model")
                yield chat


Way = Callable[[Chat], Awaitable[object]]


async def quits(chat: Chat) -> None:
    chat.screen.type("/quit\r")


async def exits(chat: Chat) -> None:
    chat.screen.type("exit\r")


async def ctrl_d(chat: Chat) -> None:
    chat.screen.type("\x04")


async def ctrl_c_twice(chat: Chat) -> None:
    chat.screen.type("\x03")
    await chat.screen.shows("Ctrl-C again")
    chat.screen.type("\x03")


async def term(chat: Chat) -> None:
    chat.screen.process.send_signal(signal.SIGTERM)


async def hup(chat: Chat) -> None:
    chat.screen.process.send_signal(signal.SIGHUP)


async def int_twice(chat: Chat) -> None:
    chat.screen.process.send_signal(signal.SIGINT)
    await chat.screen.shows("Ctrl-C again")
    chat.screen.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("way", "code"), [(quits, 0), (exits, 0), (ctrl_d, 0), (ctrl_c_twice, 0), (int_twice, 0), (term, 130), (hup, 130)]
)
async def test_the_ways_out(way: Way, code: int) -> None:
    async with chatting() as chat:
        await way(chat)
        await chat.ended(code)


@pytest.mark.parametrize("word", ["exit", "quit", ":q"])
async def test_a_leaving_word_behind_a_space_or_among_others_is_a_message(word: str) -> None:
    async with chatting(Say("first answer"), Say("second answer")) as chat:
        chat.screen.type(f" {word}\r")
        await chat.screen.shows("first answer")
        chat.screen.type(f"{word} how?\r")
        await chat.screen.shows("second answer")
        chat.screen.type(f"{word}\r")
        await chat.ended(0)
        assert len(chat.server.requests) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_in_the_middle_of_everything(number: signal.Signals) -> None:
    """An answer streams, a menu of completions is open, and half a message is typed."""
    async with chatting(Say("a tale that never ends", delivery=HANG)) as chat:
        chat.screen.type("go\r")
        await chat.screen.shows("a tale")
        chat.screen.type("/he")
        await chat.screen.shows("/help")
        chat.screen.process.send_signal(number)
        await chat.ended(130)


async def test_a_signal_while_a_question_is_open() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    async with chatting(remove) as chat:
        (chat.home.cwd / "old").mkdir()
        chat.screen.type("go\r")
        await chat.screen.shows("Run this command?")
        chat.screen.process.send_signal(signal.SIGTERM)
        await chat.ended(130)
        assert (chat.home.cwd / "old").exists()


async def test_a_command_that_kills_itself_and_one_that_leaves_the_terminal_raw() -> None:
    """Commands have no terminal of ours; what they do to `/dev/tty` is not our chat's end."""
    calls = [Say(calls=(Call("terminal", {"command": c}),)) for c in ("kill -9 $$", "stty raw -echo </dev/tty; true")]
    async with chatting(*calls, Say("Both were tried.")) as chat:
        chat.screen.type("/yolo\r")
        await chat.screen.shows("NO QUESTIONS")
        chat.screen.type("!stty raw -echo </dev/tty\r")
        await chat.screen.shows("exit code")
        chat.screen.type("go\r")
        await chat.screen.shows("Both were tried.")
        chat.screen.type("/quit\r")
        await chat.ended(0)


async def test_an_editor_that_is_killed_and_leaves_the_terminal_raw() -> None:
    async with ScriptedServer([Say("ok")]) as server:
        with TempHome.for_server(server.url) as home:
            editor = home.root / "editor.sh"
            editor.write_text("#!/bin/sh\nprintf '\\033[?1049h\\033[?1000h\\033[?25l'; stty raw -echo; kill -9 $$\n")
            editor.chmod(0o755)
            home.more |= {"TERM": "xterm-256color", "EDITOR": str(editor)}
            async with on_a_terminal(home, size=(90, 24)) as screen:
                chat = Chat(screen, home, server)
                await screen.shows("mock-model")
                screen.type("\x18\x05")
                await screen.shows("The editor ended with code")
                screen.type("hello\r")
                await screen.shows("ok")
                screen.type("/quit\r")
                await chat.ended(0)


async def test_the_database_is_broken_under_a_running_chat() -> None:
    async with chatting(Say("never said"), Say("never said")) as chat:
        with sqlite3.connect(chat.home.hermes / "hermes.db") as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            database.execute("PRAGMA foreign_keys = OFF")
            for name in tables:
                if name in ("inbox", "messages", "turns"):
                    database.execute(f"DROP TABLE {name}")
        database.close()
        chat.screen.type("hello\r")
        await chat.screen.shows("cannot be used")
        await chat.ended(1)


async def test_a_session_that_cannot_be_opened() -> None:
    async with ScriptedServer([]) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = "xterm-256color"
            async with on_a_terminal(home, "--resume", "nosuch", size=(90, 24)) as screen:
                chat = Chat(screen, home, server)
                await screen.shows("nosuch")
                await chat.ended(1)
            (home.hermes / "hermes.db").write_bytes(b"this is no database" * 400)
            async with on_a_terminal(home, size=(90, 24)) as screen:
                chat = Chat(screen, home, server)
                await screen.shows("hermes.db")
                await chat.ended(1)


async def test_a_terminal_that_goes_away_ends_the_program() -> None:
    async with chatting(Say("a tale that never ends", delivery=HANG)) as chat:
        chat.screen.type("go\r")
        await chat.screen.shows("a tale")
        chat.screen.process.send_signal(signal.SIGHUP)
        assert await chat.screen.end() == 130


async def test_what_kill_9_leaves() -> None:
    """Nobody can clean up after that. What is left is small: no mouse, no second screen, no hidden cursor, no colours;
    the terminal is in raw mode with marked pastes, which shells set anew at their prompt, and tells of its focus."""
    async with chatting(Say("a tale that never ends", delivery=HANG)) as chat:
        chat.screen.type("go\r")
        await chat.screen.shows("a tale")
        chat.screen.process.send_signal(signal.SIGKILL)
        assert await chat.screen.end() == -signal.SIGKILL
        assert modes_left(chat.screen.text) <= {1004, 2004, 2026}, chat.screen.text[-300:]
        assert os.get_terminal_size(chat.screen.master) == (90, 24)
