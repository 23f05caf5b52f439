"""Menus of commands: Telegram's by who may use what, Discord's application commands with their interactions."""

import pytest

from hermes.testing.script import ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.gateway.chat_stage import chat_stage, repeat_words
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.discord import Fake as Discord

pytestmark = pytest.mark.slow


async def test_telegram_shows_each_what_they_may_use_and_is_called_again_only_when_it_changes() -> None:
    async with chat_stage() as here:
        chat, menus = here.chat, here.on.gateway.menus
        await chat.until(lambda: chat.commands)
        assert {"new", "stop", "resume", "help"} <= set(chat.menu()) and "model" not in chat.menu()
        assert all(one["description"] for one in chat.commands)
        await here.ask("alpha", "heard alpha")  # now the owner has a direct chat
        (here.home.hermes / "commands").mkdir()
        (here.home.hermes / "commands" / "say-hi.md").write_text("Say hi to $1.")
        await menus.refresh()
        mine = [str(one["command"]) for one in chat.chat_commands[chat.person]]
        assert {"model", "sethome", "say_hi", "csv_analysis"} <= set(mine) and len(mine) <= 100
        assert mine[0] == "new"
        chat.commands.clear()
        await menus.refresh()
        assert not chat.commands  # nothing has changed, so nothing was called
        await here.ask("/say_hi Bo", "heard Say")
        await here.ask("/reload_mcp", "MCP")
        assert not chat.refused or all("chat not found" in one for one in chat.refused)


async def test_who_looks_after_it_gets_their_menu_from_their_first_message_on() -> None:
    """Nobody has written when the gateway starts, so no menu of a single chat can be set then."""
    async with chat_stage() as here:
        chat, menus = here.chat, here.on.gateway.menus
        await menus.refresh()
        assert chat.commands and chat.person not in chat.chat_commands
        await menus.refresh()
        tries = sum("chat not found" in one for one in chat.refused)
        await here.ask("/start", "Hello")
        await menus.refresh()
        assert {"model", "sethome"} <= {str(one["command"]) for one in chat.chat_commands[chat.person]}
        chat.chat_commands.clear()
        await menus.refresh()
        assert not chat.chat_commands, "what has not changed is not set again"
        assert sum("chat not found" in one for one in chat.refused) == tries


async def test_discord_registers_commands_and_acknowledges_them() -> None:
    async with ScriptedServer(ScriptedModel(repeat_words)) as server, Discord() as chat:
        with home_for(server, {"discord": chat}, owners=[chat.person], groups=["*"]) as home:
            async with running(home):
                await chat.until(lambda: chat.rest.commands)
                assert {"new", "status", "model"} <= set(chat.menu())
                number = await chat.call_command("title", "family")
                await chat.until(lambda: "“family”" in chat.text())
                await chat.until(lambda: chat.rest.waiting[number] == 4)
                assert chat.rest.shown_callbacks == ["/title family"]
                number = await chat.call_command("status", person=chat.stranger)
                await chat.until(lambda: chat.rest.waiting[number])
                number = await chat.call_command("whoami", chat="group1")
                await chat.until(lambda: "every command" in chat.text("group1"))
        assert not chat.refused and not server.requests
