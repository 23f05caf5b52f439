"""What a gateway says of its accounts when it starts: their names, and how the first person gets in."""

import asyncio
import re

import pytest

from hermes.testing.fake_platform import FakeChat
from hermes.testing.script import ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.gateway.chat_stage import repeat_words
from tests.gateway.gateway_rig import home_for, running
from tests.gateway.served_gateway import served
from tests.vendors.discord import Fake as Discord
from tests.vendors.email import Fake as Email
from tests.vendors.matrix import Fake as Matrix
from tests.vendors.slack import Fake as Slack
from tests.vendors.telegram import Fake as Telegram

pytestmark = pytest.mark.slow


async def _introduced() -> None:
    """Wait until every account was introduced."""
    tasks = [one for one in asyncio.all_tasks() if one.get_name().startswith("introduction of")]
    if tasks:
        await asyncio.wait(tasks, timeout=60)


@pytest.mark.parametrize("kind", [Telegram, Discord, Slack, Matrix, Email])
async def test_every_platform_says_its_name_and_how_its_owner_gets_in(kind: type[FakeChat]) -> None:
    async with ScriptedServer(ScriptedModel(repeat_words)) as server, kind() as chat:
        name = kind.__module__.rpartition(".")[2]
        with home_for(server, {name: chat}) as home:
            async with running(home) as on:
                await _introduced()
                (named,) = [line for line in on.lines if line.startswith(f"{name}: connected as ")]
                own = named.removeprefix(f"{name}: connected as ").rstrip(".")
                (asked,) = [line for line in on.lines if "pairing new" in line]
                assert f"`hermes pairing new --role owner --platform {name}`" in asked and f"to {own} in" in asked
                made = await run_hermes(home, "pairing", "new", "--role", "owner", "--platform", name)
                assert f"{name}: {own}" in made.stdout, made.stderr
                code = made.stdout.split()[0]
                await chat.say(code)
                await chat.until(lambda: "known here now, as owner" in chat.text())


async def test_nothing_is_asked_for_where_the_owner_is_known() -> None:
    async with ScriptedServer(ScriptedModel(repeat_words)) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with running(home) as on:
                await _introduced()
                await chat.say("alpha")
                await chat.until(lambda: "heard alpha" in chat.text())
                assert not any("pairing" in line for line in on.lines)


async def test_the_terminal_and_the_log_have_it_with_the_link() -> None:
    async with ScriptedServer(ScriptedModel(repeat_words)) as server, Telegram() as chat:
        with home_for(server, {"telegram": chat}) as home:
            async with served(home) as process:
                assert process.stdout is not None
                said = ""
                while "?start=CODE" not in said:
                    line = await process.stdout.readline()
                    assert line, said
                    said += line.decode()
                assert "connected as @hermes_test_bot" in said and "hermes pairing new --role owner" in said
                logged = await run_hermes(home, "gateway", "logs")
                assert "pairing new --role owner" in logged.stdout
                made = await run_hermes(home, "pairing", "new", "--role", "owner", "--platform", "telegram")
                link = re.search(r"start=([A-Z2-9]{8})", made.stdout)
                assert link is not None, made.stdout
                await chat.say(f"/start {link[1]}")
                await chat.until(lambda: "known here now, as owner" in chat.text())
