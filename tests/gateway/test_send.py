"""Messages from outside a session: `hermes send` tells what became of it, people are reached by name."""

import json

import pytest

from hermes.admin.cron import CronAdmin, open_cron_admin
from hermes.core.errors import ConfigError
from hermes.gateway.gateway import check_settings
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes
from tests.gateway.gateway_rig import home_for, running
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow


async def test_send_tells_delivered_from_refused_and_from_stored() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, allow=[fake.person]) as home:
            async with running(home):
                await fake.say("hi")
                await fake.until(lambda: "Hello." in fake.text())
                done = await run_hermes(home, "send", "--to", f"telegram:{fake.person}", "one")
                assert done.code == 0 and f"Delivered: telegram:{fake.person}" in done.stdout, done.stderr
                assert "one" in fake.text()
                fake.blocked.add(int(fake.person))
                done = await run_hermes(home, "send", "--to", f"telegram:{fake.person}", "two")
                assert done.code == 1 and "refused" in done.stderr and not done.stdout
                for wrong in ("telegramm:5", "Ana", "nobody:x"):
                    assert (await run_hermes(home, "send", "--to", wrong, "x")).code == 1
                fake.blocked.clear()
                done = await run_hermes(home, "send", "--to", f"telegram:{fake.person}", stdin=b"piped\n")
                assert done.code == 0 and "piped" in fake.text(), done.stderr
                done = await run_hermes(home, "send", "--to", f"telegram:{fake.person}", stdin=b"")
                assert done.code == 2 and "There is nothing to send." in done.stderr
            done = await run_hermes(home, "send", "--to", f"telegram:{fake.person}", "three")
            assert done.code == 75 and "No gateway runs" in done.stdout


async def test_a_person_is_reached_by_name_everywhere() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}) as home:
            assert (await run_hermes(home, "people", "add", "anna", "--name", "Anna")).code == 0
            assert (await run_hermes(home, "people", "link", "anna", "telegram", fake.person)).code == 0
            early = await run_hermes(home, "send", "--to", "Anna", "too early")
            assert early.code == 1 and "has not written from a direct chat" in early.stderr
            async with running(home):
                await fake.say("hi")
                await fake.until(lambda: "Hello." in fake.text())
                done = await run_hermes(home, "send", "--to", "Anna", "Dinner is ready.")
                assert done.code == 0, done.stderr
                assert "Dinner is ready." in fake.text()
                near = await run_hermes(home, "send", "--to", "Ana", "x")
                assert near.code == 1 and "Did you mean 'Anna'?" in near.stderr
                made = await run_hermes(home, "cron", "add", "@daily", "say hello", "--name", "hi", "--deliver", "anna")
                assert made.code == 0 and f"Anna (telegram:{fake.person})" in made.stderr, made.stderr
                shown = await run_hermes(home, "cron", "show", "hi")
                assert f"deliver: Anna (telegram:{fake.person})" in shown.stdout
                await run_hermes(home, "people", "remove", "anna", "--yes")
                gone = await run_hermes(home, "send", "--to", "anna", "x")
                assert gone.code == 1


async def test_a_job_says_where_its_output_goes() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person]) as home:
            made = await run_hermes(home, "cron", "add", "30m", "Remind me of the oven.", "--name", "oven")
            assert made.code == 0 and "goes to a file only" in made.stderr
            assert "deliver: a file only" in (await run_hermes(home, "cron", "show", "oven")).stdout
            unseen = await run_hermes(home, "cron", "add", "30m", "x", "--name", "y", "--deliver", "telegram:999")
            assert unseen.code == 0 and "Nobody wrote from telegram:999 yet" in unseen.stderr
            async with running(home):
                await fake.say('/cron add "2m" say hi')
                await fake.until(lambda: "Its output goes to origin" in fake.text())
            rows = json.loads((await run_hermes(home, "cron", "list", "--json")).stdout)
            assert rows[-1]["spec"]["origin"] == f"telegram:{fake.person}"
            assert rows[-1]["spec"]["deliver"] == ["origin"]


async def test_a_job_is_enough_to_run_for() -> None:
    async with ScriptedServer([Say("x")]) as server:
        with home_for(server, {}) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                with pytest.raises(ConfigError, match="No platform and no job is set up"):
                    await check_settings(app)
            async with open_cron_admin(home.environ) as cron:
                await cron.add_job(CronAdmin.build_wish(name="tea", schedule="every 1h", prompt="say it"))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await check_settings(app)
