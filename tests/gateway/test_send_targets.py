"""Targets through the real surfaces: `hermes send` says what became of it, people are reached by name."""

import json

import pytest

from hermes.testing.home import TempHome
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


async def test_what_is_meant_for_a_person_does_not_go_to_an_account_that_was_theirs() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}) as home:
            assert (await run_hermes(home, "people", "add", "anna", "--name", "Anna")).code == 0
            assert (await run_hermes(home, "people", "link", "anna", "telegram", fake.person)).code == 0
            async with running(home):
                await fake.say("hi")
                await fake.until(lambda: "Hello." in fake.text())
                assert (await run_hermes(home, "send", "--to", "Anna", "for Anna")).code == 0
                assert (await run_hermes(home, "people", "unlink", "telegram", fake.person)).code == 0
                done = await run_hermes(home, "send", "--to", "Anna", "a secret")
                assert done.code == 1 and "has not written from a direct chat" in done.stderr
                assert "a secret" not in fake.text()


async def test_without_a_home_chat_it_goes_to_the_owner_and_says_so() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person]) as home:
            async with running(home):
                early = await run_hermes(home, "send", "--to", "telegram", "too early")
                assert early.code == 1 and "telegram has no home chat" in early.stderr
                await fake.say("/start")  # a command is enough to be known
                await fake.until(lambda: "Hello" in fake.text())
                for words in (("--to", "telegram", "one"), ("two",), ("--to", "owner", "three")):
                    done = await run_hermes(home, "send", *words)
                    assert done.code == 0 and f"Delivered: telegram:{fake.person}" in done.stdout, done.stderr
                    assert ("the owner's direct chat" in done.stdout) == (words[-1] != "three")
                    assert words[-1] in fake.text()
                listed = await run_hermes(home, "send", "--list")
                assert f"telegram:{fake.person}" in listed.stdout


async def test_two_accounts_of_the_owner_are_no_default() -> None:
    async with ScriptedServer([Say("Hello.")]) as server, Fake() as fake:
        with home_for(server, {"telegram": fake}, owners=[fake.person, "1007"]) as home:
            async with running(home):
                await fake.say("hi")
                await fake.until(lambda: "Hello." in fake.text())
                done = await run_hermes(home, "send", "--to", "telegram", "one")
                assert done.code == 1 and "no home chat" in done.stderr


async def test_a_target_without_its_option_is_told_how_it_is_written() -> None:
    with TempHome({"platforms": {"telegram": {"token": "x"}}}) as home:
        done = await run_hermes(home, "send", "telegram", "hello", "you")
        assert done.code == 2 and "hermes send --to telegram 'hello you'" in done.stderr
        joined = await run_hermes(home, "send", "the", "build", "is", "done")
        assert "no home chat" in joined.stderr


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
