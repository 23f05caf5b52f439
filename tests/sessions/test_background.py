"""Sessions beside the one that is talked with, and titles: neither holds anything up."""

import asyncio

import pytest

from hermes.core.errors import NotFoundError, UsageError
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending, Reply, ReplyDelivery, Say
from tests.commands.chat_surfaces import Chat, chat

HANGING = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))


async def test_it_answers_beside_and_says_so() -> None:
    async with chat([Say("forty-two")]) as here:
        told = await here.desk.type_line("/background what is six times seven?")
        assert "1 works" in told
        await here.desk.wait_for_text("/resume")
        assert "forty-two" in here.desk.text and "/resume" in here.desk.text
        assert here.desk.actor.conversation.messages == []
        task = here.app.background_work.background.list_tasks("")[0]
        assert task.session_id in await here.desk.type_line("/bg")
        other = await here.desk.open_session(task.session_id)
        assert "six times seven" in other.conversation.messages[0].text


async def test_one_is_stopped_by_number_and_listed_while_it_works() -> None:
    async with chat([HANGING]) as here:
        await here.desk.type_line("/btw think")
        await here.server.wait_for(1)
        assert "works" in await here.desk.type_line("/background list")
        assert "In the background" in await here.desk.type_line("/agents")
        await here.desk.type_line("/background stop 1")
        await here.desk.wait_for_text("was stopped")
        with pytest.raises(NotFoundError):
            await here.desk.type_line("/background stop 1")
        with pytest.raises(UsageError):
            await here.desk.type_line("/background stop")


async def test_leaving_ends_it() -> None:
    async with chat([HANGING]) as here:
        await here.desk.type_line("/background think")
        await here.server.wait_for(1)
        background = here.app.background_work.background
    assert background.list_tasks("", running=True) == []


class Titled:
    """Gives titles and answers."""

    def reply(self, request: RecordedRequest) -> Reply:
        return Say("“Lighthouses of the north.”") if "You name conversations" in request.body.decode() else Say("Yes.")


TITLES: dict[str, object] = {"auxiliary": {"title": {"enabled": True}}}


async def title_of(here: Chat) -> str:
    return str((await here.app.session_row(here.desk.actor))["title"])


async def named(here: Chat) -> str:
    async with asyncio.timeout(60):
        while (title := await title_of(here)).startswith("tell me"):  # noqa: ASYNC110 - only the store tells
            await asyncio.sleep(0.005)
    return title


async def test_a_chat_is_named_after_its_first_answer() -> None:
    async with chat(Titled(), config=TITLES, reviews=True) as here:
        await here.say("tell me about lighthouses")
        assert await named(here) == "Lighthouses of the north"
        await here.say("more")
        assert len(here.server.requests) == 3


async def test_a_title_that_a_person_gave_stays() -> None:
    async with chat(Titled(), config=TITLES, reviews=True) as here:
        await here.desk.type_line("/title mine")
        await here.say("tell me about lighthouses")
        await here.say("more")
        assert await title_of(here) == "mine" and len(here.server.requests) == 2


async def test_nothing_is_named_where_nobody_wants_it() -> None:
    async with chat(Titled(), reviews=True) as here:
        await here.say("tell me about lighthouses")
        await here.say("more")
        assert len(here.server.requests) == 2
