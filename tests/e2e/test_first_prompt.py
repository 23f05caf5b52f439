"""What is said on the command line, on a terminal: a chat that begins with it, and one message with its answer."""

import pytest

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux

pytestmark = NEEDED


@pytest.mark.parametrize("words", [("fix the tests",), ("chat", "fix the tests"), ("-c", "fix the tests")])
async def test_a_prompt_opens_the_chat_with_it(words: tuple[str, ...]) -> None:
    async with ScriptedServer([Say("Earlier."), Say("They pass now."), Say("Still here.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, "chat", "-q", "before") as screen:
                await screen.shows("left with 0")
            async with in_tmux(home, *words) as screen:
                await screen.shows("› fix the tests")
                await screen.answers("They pass now.")
                await screen.enter("and you?")
                await screen.answers("Still here.")
                await screen.leave()
        assert server.requests[1].last_user_text.startswith("fix the tests")


async def test_what_begins_like_a_command_is_a_message_all_the_same() -> None:
    async with ScriptedServer([Say("I see.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, "!touch made here") as screen:
                await screen.answers("I see.")
                await screen.leave()
            assert not (home.cwd / "made").exists()


async def test_the_plain_chat_begins_with_it_too() -> None:
    async with ScriptedServer([Say("They pass now.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, "--plain", "fix the tests") as screen:
                await screen.shows("They pass now.")
                await screen.press("C-d")
                await screen.shows("left with 0")


async def test_one_message_on_a_terminal_renders_its_markdown() -> None:
    said = "**bold** and\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nls\n```\nThe end."
    async with ScriptedServer([Say(said)] * 3) as server:
        with TempHome.for_server(server.url) as home:
            async with in_tmux(home, "chat", "-q", "show") as screen:
                shown = await screen.shows("The end.", "left with 0")
                assert "bold and" in shown and "**" not in shown and "|---" not in shown
            async with in_tmux(home, "chat", "-q", "show", "--plain") as screen:
                assert "**bold**" in await screen.shows("The end.", "left with 0")
            async with in_tmux(home, "-z", "show") as screen:
                assert "**bold**" in await screen.shows("The end.", "left with 0")
