"""What the full chat tells the terminal and is told by it: who is away hears of the end, and no answer is typed."""

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.screen import on_a_terminal

TOLD = "\x1b]9;The turn has ended.\x07\x1b]777;notify;Hermes;The turn has ended.\x07"


@pytest.mark.parametrize(("mode", "told"), [("osc", TOLD), ("bell", "\x07"), ("off", "")])
async def test_who_is_away_is_told_and_who_is_here_is_not(mode: str, told: str) -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    focus, away = ("\x1b[I", "\x1b[O") if mode != "off" else ("", "")
    async with ScriptedServer([Say("first answer"), remove, Say("second answer")]) as server:
        config = {"display": {"notify": mode, "title": False, "skin": "light"}}
        with TempHome.for_server(server.url, more_config=config) as home:
            (home.cwd / "old").mkdir()
            home.more["TERM"] = "xterm-256color"
            async with on_a_terminal(home, size=(90, 40)) as screen:
                await screen.shows("mock-model")
                screen.type(f"{away}hello\r")
                await screen.shows("first answer")
                await screen.shows(told)
                screen.type("then\r")
                await screen.shows_next("Run this command?")
                screen.type(f"{focus}\x03")
                await screen.shows_next("second answer")
                screen.type("/quit\r")
                assert await screen.end() == 0
                shown = screen.text
            # The question comes right after a key: who is back within ten seconds is not told.
            assert shown.count("\x07") == (0 if mode == "off" else 2 if mode == "osc" else 1)
            assert "A question waits for you." not in shown
            assert ("\x1b[?1004h" in shown) is ("\x1b[?1004l" in shown) is (mode != "off")
            assert shown.rfind("\x1b[?1004l") >= shown.rfind("\x1b[?1004h")


@pytest.mark.parametrize("answer", ["\x1b]11;rgb:ffff/ffff/ffff\x07", "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"])
async def test_the_answer_about_the_background_is_not_typed(answer: str) -> None:
    write = Say(calls=(Call("write_file", {"path": "a.txt", "content": "one\n"}),))
    async with ScriptedServer([write, Say("done with it")]) as server:
        with TempHome.for_server(server.url) as home:
            home.more |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            async with on_a_terminal(home, size=(90, 40)) as screen:
                await screen.shows("\x1b]11;?\x1b\\")
                screen.type("g" + answer[:9])
                await screen.shows("mock-model")
                screen.type(answer[9:] + "o\r")
                await screen.shows("done with it")
                screen.type("/quit\r")
                assert await screen.end() == 0
            assert "48;2;230;255;236" in screen.text and "rgb:" not in screen.text
            sent = server.requests[0].body.decode()
            assert '"go' in sent and "rgb" not in sent


async def test_a_terminal_that_never_answers_is_not_waited_for() -> None:
    async with ScriptedServer([Say("an answer")]) as server:
        with TempHome.for_server(server.url) as home:
            home.more["TERM"] = "xterm-256color"
            async with on_a_terminal(home, size=(90, 40)) as screen:
                await screen.shows("mock-model")
                screen.type("hello\r")
                await screen.shows("an answer")
                screen.type("/quit\r")
                assert await screen.end() == 0
