"""`/resume` and `/sessions` in chats: they look up, always answer, and hand a session over from another place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import Struct

from hermes.sessions.options import SessionOptions
from hermes.store.records import NewSession
from hermes.testing.home import TempHome
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.gateway.gateway_rig import Running, home_for, running
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow

ANNA, BEN = "1002", "1003"


class Stage(Struct):
    """A gateway with an owner and two users."""

    server: ScriptedServer
    chat: Fake
    home: TempHome
    on: Running

    async def ask(self, text: str, expected: str, *, person: str = "", chat: str = "") -> str:
        """Say something, and wait until the expected words have been shown since; return what has."""
        before = len(self.chat.shown())
        await self.chat.say(text, person=person, chat=chat, mention=bool(chat))
        await self.chat.until(lambda: expected in self._since(before))
        return self._since(before)

    def _since(self, before: int) -> str:
        return "\n".join(one.text for one in self.chat.shown()[before:])

    async def session_of(self, user_id: str = "") -> str:
        """The newest session of a person."""
        row = await self.on.app.services.store.sessions.get_latest(person=user_id)
        assert row is not None
        return row.id

    async def count_sessions(self) -> int:
        """How many sessions are stored, empty ones too."""
        return len(await self.on.app.services.store.sessions.find("2", limit=99)) + len(
            await self.on.app.services.store.sessions.find("nothing", limit=99)
        )


def repeat_words(request: RecordedRequest) -> Reply:
    """Answer with what was said, and with how many messages the model was sent."""
    return Say(f"heard {request.last_user_text.split()[0]} of {len(request.messages)}")


@asynccontextmanager
async def stage(model: ScriptedModel | None = None) -> AsyncIterator[Stage]:
    async with ScriptedServer(model or ScriptedModel(repeat_words)) as server, Fake() as chat:
        group = chat.chat_id("group1")
        with home_for(server, {"telegram": chat}, owners=[chat.person], allow=[ANNA, BEN], groups=[group]) as home:
            async with running(home) as on:
                yield Stage(server, chat, home, on)


@pytest.mark.parametrize("how", ["id", "beginning", "title"])
async def test_a_session_is_found_by_id_beginning_and_title_and_the_chat_is_told_where_it_is(how: str) -> None:
    async with stage() as here:
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
    async with stage() as here:
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
    async with stage() as here:
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

    async with stage(ScriptedModel(answer)) as here:
        await here.chat.say("slow", chat="group1", mention=True)
        await here.server.wait_for(1)
        await here.ask("beta", "heard beta of 2")
        slow = next(iter(await here.on.app.services.store.chats.list_platform_bindings("telegram")))
        names = [one for one in here.on.gateway.pool.live_sessions if one.actor.busy]
        (busy,) = [one.actor.session_id for one in names]
        del slow
        await here.ask(f"/resume {busy}", "is at work in telegram")
        await here.ask("gamma", "heard gamma of 4")
        await here.chat.say("/stop", chat="group1", mention=True)
        await here.chat.until(lambda: "Stopped" in here.chat.text())
        await here.ask(f"/resume {busy}", "goes on with")


async def test_nobody_reaches_another_persons_session() -> None:
    async with stage() as here:
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
    async with stage() as here:
        await here.ask("alpha", "heard alpha")
        store = here.on.app.services.store
        for source in ("cron", "api_server"):
            async with running_session(here, source):
                pass
        listed = await here.ask("/sessions", "There is no other session yet.")
        assert "heard" not in listed
        await here.chat.say("/sessions --all")
        await here.chat.until(lambda: any(one.buttons for one in here.chat.shown()))
        question = next(one for one in here.chat.shown() if one.buttons)
        assert len(question.buttons) == 3
        latest = await store.sessions.get_latest(person="", without=("cron", "api_server"))
        assert latest is not None and latest.source == "telegram"


@asynccontextmanager
async def running_session(here: Stage, source: str) -> AsyncIterator[None]:
    """A session of a job or of a program, in which something was said."""
    from hermes.runtime.mailbox import InboundMessage

    app = here.on.app
    actor = await app.open_session(None, options=SessionOptions(platform=source, cwd=str(here.home.cwd)))
    await actor.post(InboundMessage(text="tick"))
    await app.close_session(actor)
    yield
