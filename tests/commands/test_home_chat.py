"""`/sethome`: the chat in which it is typed gets what has no other place, at once and after a restart."""

import pytest
import yaml

from hermes.core.errors import UsageError
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.commands.chat_surfaces import chat
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow


async def test_a_chat_becomes_the_home_chat_at_once_and_for_good() -> None:
    async with ScriptedServer([Say("One.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person]) as home:
            config = home.hermes / "config.yaml"
            config.write_text("# mine\n" + config.read_text())
            async with running(home) as on:
                assert (await run_hermes(home, "send", "too early")).code == 1
                await fake.say("/sethome")
                await fake.until(lambda: "This is the home chat now" in fake.text())
                chat_id = str(yaml.safe_load(config.read_text())["platforms"]["telegram"]["home"])
                assert config.read_text().startswith("# mine\n") and f"telegram:{chat_id}" in fake.text()
                assert on.gateway.accounts["telegram"].plan.settings.home == chat_id
                done = await run_hermes(home, "send", "The backup is done.")
                assert done.code == 0, done.stderr
                await fake.until(lambda: "The backup is done." in fake.text())
                assert "Accounts that changed: none" in (await on.gateway.reload_settings()).said


async def test_nobody_but_an_owner_may() -> None:
    async with ScriptedServer([Say("One.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, admins=[fake.person]) as home:
            before = (home.hermes / "config.yaml").read_text()
            async with running(home):
                await fake.say("/sethome")
                await fake.until(fake.shown)
            assert "home chat now" not in fake.text() and (home.hermes / "config.yaml").read_text() == before


async def test_a_terminal_has_no_home_chat() -> None:
    async with chat([Say("x")]) as here:
        with pytest.raises(UsageError):
            await here.desk.type_line("/sethome")
