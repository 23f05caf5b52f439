"""What is put into the input line, or comes out of an answer, does nothing by itself; what went out waits no more."""

import asyncio
import os

from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux

pytestmark = NEEDED


async def test_a_long_paste_that_begins_with_a_mark_is_no_command() -> None:
    page = "!echo Release notes; touch ran\n" + "true words of a page\n" * 20
    async with ScriptedServer([Say("read")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.paste(page)
                await screen.shows("[pasted 1")
                await screen.press("Enter")
                await screen.until(lambda shown: "read" in shown or "Release notes" in shown, "nothing happens")
                await asyncio.sleep(1)
                assert not (home.cwd / "ran").exists(), await screen.everything()


async def test_a_long_paste_that_begins_with_a_slash_is_no_command() -> None:
    page = "/yolo\n" + "\n" * 20
    async with ScriptedServer([Say("read")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.paste(page)
                await screen.shows("[pasted 1")
                await screen.press("Enter")
                await asyncio.sleep(2)
                shown = await screen.screen()
                assert "NO QUESTIONS" not in shown, shown


async def test_a_queued_message_comes_back_as_a_message() -> None:
    async with ScriptedServer([Say("read"), Say("read again")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("/queue !touch ran")
                await screen.shows("read")
                await screen.enter("/undo")
                await screen.shows("taken back")
                await screen.press("Enter")
                await asyncio.sleep(2)
                assert not (home.cwd / "ran").exists(), await screen.everything()


async def test_a_copied_answer_holds_nothing_that_a_terminal_obeys() -> None:
    async with ScriptedServer([Say("ls\x1b[201~\x1b[2Jtouch \u202eran\r and that")]) as server:
        with TempHome.for_server(server.url) as home:
            bin_ = home.root / "bin"
            bin_.mkdir()
            (bin_ / "xclip").write_text(f"#!/bin/sh\ncat > {home.root}/copied\n")
            (bin_ / "xclip").chmod(0o700)
            more = {"DISPLAY": ":9", "PATH": f"{bin_}:{os.environ['PATH']}"}
            async with in_tmux(home, more=more) as screen:
                await screen.shows("mock-model")
                await screen.enter("hello")
                await screen.answers("and that")
                await screen.enter("/copy")
                await screen.shows("Copied with xclip")
                copied = (home.root / "copied").read_text()
                assert "\x1b" not in copied and "\u202e" not in copied, repr(copied)


async def test_what_has_gone_out_does_not_wait_any_more() -> None:
    slow = Say(calls=(Call("terminal", {"command": "sleep 1"}),))
    async with ScriptedServer([slow, *(Say(f"answer {n}") for n in range(20))]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                await screen.shows("answer 0")
                for number in range(12):
                    await screen.type(f"words {number}")
                    await screen.press("Enter")
                words = [f"words {number}" for number in range(12)]
                await screen.wait_for(
                    lambda: all(one in server.requests[-1].body.decode() for one in words), "not all words are sent"
                )
                await screen.until(lambda shown: "waiting" not in shown and "queued:" not in shown, "it still waits")


async def test_a_short_paste_runs_nothing_and_a_command_takes_the_place_of_what_was_taken_back() -> None:
    async with ScriptedServer([Say(f"answer {number}") for number in range(3)]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.paste("!touch ran")
                await screen.shows("touch ran")
                await screen.press("Enter")
                await screen.answers("answer 0")
                assert not (home.cwd / "ran").exists()
                await screen.enter("a second thing")
                await screen.answers("answer 1")
                await screen.enter("/undo")
                await screen.shows("taken back", "› a second thing\n")
                await screen.type("!touch mine")
                await screen.shows("› !touch mine")
                await screen.press("Enter")
                await screen.wait_for((home.cwd / "mine").exists, "the command does not run")
                await screen.hides("› !touch mine")
                await screen.press("Up", "Up")
                await screen.shows("› a second thing")


async def test_a_question_that_waits_and_a_command_that_failed_say_so() -> None:
    calls = [Say(calls=(Call("terminal", {"command": one}),)) for one in ("rm -r old", "seq 5; exit 3")]
    async with ScriptedServer([*calls, Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "old").mkdir()
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("go")
                shown = await screen.shows("Enter takes it", "Esc means no")
                assert "preparing a call" not in shown
                await screen.press("Escape")
                shown = await screen.shows("✗ $ seq 5", "exit code 3", "done")
                assert "✓ $ seq 5" not in shown


async def test_messages_go_out_in_the_order_in_which_they_were_said() -> None:
    wait = Call("terminal", {"command": "until [ -e go ]; do sleep 0.05; done; echo went"})
    async with ScriptedServer([Say(calls=(wait,)), *(Say(f"answer {number}") for number in range(3))]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("begin")
                await screen.shows("until [ -e go ]")
                await screen.enter("words one")
                await screen.shows("joins soon: words one")
                await screen.enter("/queue words two")
                await screen.shows("queued: words two")
                await screen.enter("words three")
                await screen.shows("queued: words three", "joins soon: words one")
                (home.cwd / "go").touch()
                shown = await screen.answers("answer 2")
                places = [shown.index(one) for one in ("› words one", "answer 0", "› words two", "› words three")]
                assert places == sorted(places) and "queued:" not in shown, shown


async def test_right_behind_an_answer_a_command_runs_and_the_chat_can_be_left() -> None:
    async with ScriptedServer([Say("answer 0"), Say("answer 1"), Say("answer 2")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home) as screen:
                await screen.shows("mock-model")
                await screen.enter("begin")
                await screen.shows("answer 0")
                await screen.type("!echo mine")
                await screen.press("Enter")
                await screen.shows("! echo mine\n  mine")
                await screen.enter("/retry")
                shown = await screen.answers("answer 1")
                assert "Again:" not in shown and shown.count("› begin") == 2
                await screen.press("C-d")
                await screen.ends()
