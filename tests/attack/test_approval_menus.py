"""Menus and answers, as an attacker and a newcomer met them: nothing that is typed answers a question."""

import asyncio

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux


@NEEDED
@pytest.mark.parametrize("size", [(80, 24), (80, 12)])
async def test_a_menu_shows_the_beginning_of_what_is_asked(size: tuple[int, int]) -> None:
    filler = "\n".join(f"echo '{number:02} {'all is well, only a report ' * 2}'" for number in range(11))
    command = f"echo BEGINS; cp notes.txt /tmp; rm -r old\n{filler}"
    async with ScriptedServer([Say(calls=(Call("terminal", {"command": command}),)), Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=size) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.shows("Enter takes it")
                assert "BEGINS" in shown or "not shown" in shown, await screen.everything()


@NEEDED
async def test_a_menu_shows_what_a_wider_answer_covers() -> None:
    name = "build/" + "reports-of-the-last-year-and-the-one-before/" * 2 + "x"
    command = f"rm -r {name} ~/everything"
    async with ScriptedServer([Say(calls=(Call("terminal", {"command": command}),)), Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, size=(80, 24)) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.shows("Enter takes it")
                wider = [line for line in shown.splitlines() if "for this session" in line or "always" in line]
                assert not any(line.rstrip().endswith("…") for line in wider), shown


@NEEDED
async def test_a_menu_that_nobody_could_see_does_not_listen() -> None:
    calls = [Say(calls=(Call("terminal", {"command": one}),)) for one in ("sleep 1.5", "rm -r old")]
    async with ScriptedServer([*calls, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            editor = home.root / "editor"
            editor.write_text(f"#!/bin/sh\nclear\necho editing\nsleep 5\n: > {home.root}/left\n")
            editor.chmod(0o700)
            async with in_tmux(home, more={"EDITOR": str(editor), "VISUAL": str(editor)}) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.type("a text")
                await screen.press("C-x", "C-e")
                await screen.shows("editing")
                await screen.wait_for((home.root / "left").exists, "the editor does not end")
                await asyncio.sleep(0.3)
                await screen.type("yes")
                await screen.press("Enter")
                await asyncio.sleep(2)
                assert (home.cwd / "old").exists(), await screen.everything()


@NEEDED
@pytest.mark.parametrize("key", ["Up", "Left", "BSpace"])
async def test_every_key_makes_a_menu_wait(key: str) -> None:
    remove = Say(calls=(Call("terminal", {"command": "sleep 1; rm -r old"}),))
    async with ScriptedServer([Say("read"), remove, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("first")
                await screen.shows("read")
                await screen.enter("second")
                await screen.type("a line that is not right yet")
                # A person who looks for an older line, or mends this one, presses such keys without a pause.
                for _ in range(12):
                    await screen.press(key)
                    await asyncio.sleep(0.15)
                shown = await screen.screen()
                assert "waiting until you stop" in shown, shown


@NEEDED
async def test_going_through_the_history_allows_nothing() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    async with ScriptedServer([Say("read"), remove, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("first")
                await screen.shows("read")
                await screen.enter("second")
                for _ in range(7):
                    await screen.press("Up")
                    await asyncio.sleep(0.12)
                for _ in range(3):  # however many of them were the menu's
                    await screen.press("Down")
                    await asyncio.sleep(0.12)
                await screen.press("Enter")
                await asyncio.sleep(2)
                assert (home.cwd / "old").exists(), await screen.everything()


@NEEDED
async def test_a_question_says_which_session_asks() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    async with ScriptedServer([remove, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("/background tidy up")
                shown = await screen.shows("Enter takes it")
                asked = (
                    shown[shown.index("Run this command?") :]
                    + shown[: shown.index("Run this command?")].splitlines()[-1]
                )
                assert "background" in asked or "tidy" in asked, shown


@NEEDED
@pytest.mark.parametrize("choices", [[], ["yes", "no"]])
async def test_what_was_being_typed_answers_no_question_of_the_models(choices: list[str]) -> None:
    ask = Say(calls=(Call("clarify", {"question": "May I publish it?", "choices": choices}),))
    async with ScriptedServer([Say(calls=(Call("terminal", {"command": "sleep 1"}),)), ask, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("first")
                for letter in "well, he had asked and I said yes":
                    await screen.type(letter)
                    await asyncio.sleep(0.08)
                await screen.press("Enter")
                await asyncio.sleep(1)
                shown = await screen.screen()
                assert "done" not in shown, (server.requests[-1].results, shown)


@NEEDED
async def test_a_sentence_that_is_typed_while_a_question_waits_is_a_message() -> None:
    remove = Say(calls=(Call("terminal", {"command": "rm -r old"}),))
    async with ScriptedServer([remove, Say("done"), Say("and that")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.shows("Enter takes it")
                await screen.type("say yes as always")
                await screen.shows("say yes as always")
                await screen.press("Enter")
                await screen.shows("Enter takes it")
                assert (home.cwd / "old").exists(), await screen.everything()
                await screen.press("C-c")
                await screen.shows("refused")
                assert (home.cwd / "old").exists(), await screen.everything()
