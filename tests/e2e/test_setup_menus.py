"""`hermes setup` on a terminal that can show menus: arrow keys, Enter, letters that narrow down."""

import json

from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.e2e.tmux import NEEDED, in_tmux
from tests.forked_hermes import run_hermes

pytestmark = NEEDED
ENGLISH = {"LANG": "en_US.UTF-8"}


async def test_arrows_and_letters_choose() -> None:
    async with ScriptedServer([Say("ready")]) as server:
        key = "sk-" + "q7" * 12
        with TempHome(more={**ENGLISH, "OPENROUTER_BASE_URL": server.url}) as home:
            async with in_tmux(home, "setup", "--no-import") as screen:
                await screen.shows("Which provider?", "> 1. A provider for which", "↑ ↓ choose, Enter takes it")
                await screen.press("Down")
                await screen.shows("> 2. A server, by its address")
                await screen.press("Up", "Up", "Enter")
                await screen.shows("> 1. ", "letters narrow them down", "Esc goes back")
                await screen.press("Escape")
                await screen.shows("> 1. A provider for which")
                await screen.press("Enter")
                await screen.shows("> 1. ", "letters narrow them down")
                await screen.type("openr")
                await screen.shows("Which provider? openr", "> 1. OpenRouter")
                await screen.press("Enter")
                await screen.shows("Which provider? OpenRouter", "The key (not shown")
                await screen.type(key)
                await screen.press("Enter")
                await screen.shows("It answered in", "[Y/n]")
                await screen.press("Enter")
                await screen.shows("Anything else?", "> 1. No, that is all")
                await screen.press("Enter")
                shown = await screen.shows("What next:", "left with 0")
                assert key not in shown and "^[[" not in shown
            found = json.loads((await run_hermes(home, "config", "get", "model.provider", "--json")).stdout)
            assert found["value"] == "openrouter"


async def test_ctrl_c_and_ctrl_d_leave_a_menu_and_the_terminal_is_as_before() -> None:
    for key in ("C-c", "C-d"):
        with TempHome(more=ENGLISH) as home:
            async with in_tmux(home, "setup", "--no-import") as screen:
                await screen.shows("> 1. A provider")
                await screen.press(key)
                await screen.shows("Only what you confirmed was changed", "left with 130")
                assert (screen.folder / "before").read_text() == (screen.folder / "after").read_text()
            assert list(home.hermes.iterdir()) == []
