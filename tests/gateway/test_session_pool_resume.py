"""`/resume` and `/sessions` in chats: they look up, always answer, and hand a session over from another place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.options import SessionOptions
from hermes.store.records import NewSession
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Reply, ReplyDelivery, Say, ScriptedModel
from tests.forked_hermes import run_hermes
from tests.gateway.chat_stage import ANNA, BEN, ChatStage, chat_stage, repeat_words

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("how", ["id", "beginning", "title"])
async def test_a_session_is_found_by_id_beginning_and_title_and_the_chat_is_told_where_it_is(how: str) -> None:
    async with chat_stage() as here:
        await here.ask("alpha", "heard alpha")
        first = await here.session_of()
        await here.ask("/title family", "family")
        await here.ask("/new", "A new session")
        await here.ask("beta", "heard beta of 2")
        name = {"id": first, "beginning": first[:-2], "title": "family"}[how]
        told = await here.ask(f"/resume {name}", "goes on with")
        assert "family" in told and first in told
        await here.ask("gamma", "heard gamma of 4")


async def test_what_means_no_session_is_answered_and_makes_none() -> None:
    async with chat_stage() as here:
        await here.ask("alpha", "heard alpha")
        first, there = await here.session_of(), await here.count_sessions()
        await here.ask("/resume nothing", "There is no session 'nothing'")
        await here.ask("/resume ../../etc", "There is no session")
        await here.on.app.services.store.sessions.create(NewSession(id=f"{first[:8]}_other", source="cli", model="m"))
        await here.ask(f"/resume {first[:8]}", "could be 2 sessions")
        assert await here.count_sessions() == there + 1
        assert first in await here.ask("/status", first)
        await here.ask("beta", "heard beta of 4")


async def test_a_session_goes_over_from_a_group_and_back() -> None:
    async with chat_stage() as here:
        await here.ask("alpha", "heard alpha", chat="group1")
        first = await here.session_of()
        await here.ask("beta", "heard beta of 2")
        await here.ask(f"/resume {first}", first)
        await here.ask("gamma", "heard gamma of 4")
        await here.ask("delta", "heard delta of 6", chat="group1")
        await here.ask("epsilon", "heard epsilon of 8")


async def test_a_session_that_works_elsewhere_is_not_waited_for() -> None:
    def answer(request: RecordedRequest) -> Reply:
        if "slow" in request.last_user_text:
            return Say("late", delivery=ReplyDelivery(delay=600))
        return repeat_words(request)

    async with chat_stage(ScriptedModel(answer)) as here:
        await here.chat.say("slow", chat="group1", mention=True)
        await here.server.wait_for(1)
        await here.ask("beta", "heard beta of 2")
        (busy,) = [one.actor.session_id for one in here.on.gateway.pool.live_sessions if one.actor.busy]
        await here.ask(f"/resume {busy}", "is at work in telegram")
        await here.ask("gamma", "heard gamma of 4")
        await here.chat.say("/stop", chat="group1", mention=True)
        await here.chat.until(lambda: "Stopped" in here.chat.text())
        await here.ask(f"/resume {busy}", "goes on with")


async def test_nobody_reaches_another_persons_session() -> None:
    async with chat_stage() as here:
        await here.ask("secret", "heard secret")
        owners = await here.session_of()
        await here.ask("alpha", "heard alpha", person=ANNA)
        annas = await here.session_of(f"telegram:{ANNA}")
        await here.ask("beta", "heard beta", person=BEN)
        for name in (owners, annas, owners[:6] if owners[:6] != annas[:6] else owners):
            told = await here.ask(f"/resume {name}", "There is no session", person=BEN)
            assert "heard" not in told
        await here.ask("/sessions", "There is no other session yet.", person=BEN)
        await here.ask("gamma", "heard gamma of 4", person=BEN)
        await here.ask(f"/resume {annas}", "somebody else's")


async def test_runs_of_jobs_and_of_programs_are_listed_only_when_asked_for() -> None:
    async with chat_stage() as here:
        await here.ask("alpha", "heard alpha")
        store = here.on.app.services.store
        for source in ("cron", "api_server"):
            async with running_session(here, source):
                pass
        listed = await here.ask("/sessions", "There is no other session yet.")
        assert "heard" not in listed
        listed = await run_hermes(here.home, "sessions", "list")
        assert len(listed.stdout.splitlines()) == 1
        everything = await run_hermes(here.home, "sessions", "list", "--all")
        assert len(everything.stdout.splitlines()) == 3
        await here.chat.say("/sessions --all")
        await here.chat.until(lambda: any(one.buttons for one in here.chat.shown()))
        question = next(one for one in here.chat.shown() if one.buttons)
        assert len(question.buttons) == 3
        latest = await store.sessions.get_latest(person="", without=("cron", "api_server"))
        assert latest is not None and latest.source == "telegram"


@asynccontextmanager
async def running_session(here: ChatStage, source: str) -> AsyncIterator[None]:
    """A session of a job or of a program, in which something was said."""
    app = here.on.app
    actor = await app.open_session(None, options=SessionOptions(platform=source, cwd=str(here.home.cwd)))
    await actor.post(InboundMessage(text="tick"))
    await app.close_session(actor)
    yield
