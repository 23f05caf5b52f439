"""Sessions beside the one that is talked with, and titles: neither holds anything up."""

import asyncio

import pytest

from hermes.core.errors import NotFoundError, UsageError
from hermes.core.sub_agents import SubAgentState, SubAgentTask
from hermes.sessions.app import App
from hermes.store.sub_agents import ReportDelivery, SubAgentRow
from hermes.testing.command_context import RecordingContext
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
        await here.app.sub_agents.open_team(here.desk.actor.session_id).wait_until_finished()
        (row,) = await list_rows(here)
        assert row.state is SubAgentState.DONE and row.delivery is ReportDelivery.DELIVERED
        assert row.session_id in await here.desk.type_line("/bg")
        other = await here.desk.open_session(row.session_id)
        assert "six times seven" in other.conversation.messages[0].text


async def test_one_is_stopped_by_number_and_listed_while_it_works() -> None:
    async with chat([HANGING]) as here:
        await here.desk.type_line("/btw think")
        await here.server.wait_for(1)
        assert "works" in await here.desk.type_line("/background list")
        assert "1 think · works" in await here.desk.type_line("/agents")
        await here.desk.type_line("/background stop 1")
        await here.desk.wait_for_text("was stopped")
        with pytest.raises(NotFoundError):
            await here.desk.type_line("/background stop 1")
        with pytest.raises(UsageError):
            await here.desk.type_line("/background stop")


async def test_one_that_is_stopped_before_its_session_is_open_begins_nothing() -> None:
    async with chat([]) as here:
        session_id = here.desk.actor.session_id
        row = await here.app.sub_agents.begin_for_person(session_id, SubAgentTask(goal="dig", name="dig"))
        here.app.sub_agents.open_team(session_id).stop(row.number)
        await here.desk.wait_for_text("was stopped (dig)")
        assert not here.server.requests and "stopped" in await here.desk.type_line("/background list")


async def test_one_that_is_left_goes_on_in_the_next_process_and_its_answer_is_shown_once() -> None:
    async with chat([HANGING, Say("thought of it"), Say("no more")]) as here:
        await here.desk.type_line("/background think")
        await here.server.wait_for(1)
        session_id = here.desk.actor.session_id
        await here.app.close_session(here.desk.actor)
        assert "thought" not in here.desk.text
        async with App(here.home.environ, here.app.options) as later:
            desk = RecordingContext(later, await later.open_session(session_id))
            await desk.wait_for_text("/resume")
            assert "Background session 1 is done (think):" in desk.text and "thought of it" in desk.text
        async with App(here.home.environ, here.app.options) as later:
            desk = RecordingContext(later, await later.open_session(session_id))
            assert "thought of it" not in desk.text and len(here.server.requests) == 2
            assert "1  done" in await desk.type_line("/background")


async def test_what_nobody_could_be_shown_is_shown_where_somebody_can_be() -> None:
    async with chat([Say("forty-two")]) as here:
        here.app.person_reports = None
        await here.desk.type_line("/background think")
        team = here.app.sub_agents.open_team(here.desk.actor.session_id)
        await team.wait_until_finished()
        assert (await list_rows(here))[0].delivery is ReportDelivery.PERSON
        session_id = here.desk.actor.session_id
        await here.app.close_session(here.desk.actor)
        here.app.person_reports = here.desk
        here.desk.actor = await here.app.open_session(session_id)
        assert "forty-two" in here.desk.text
        assert (await list_rows(here))[0].delivery is ReportDelivery.DELIVERED


async def test_it_has_all_tools_of_the_session_and_takes_no_place_of_its_sub_agents() -> None:
    delegation = {"delegation": {"max_concurrent_children": 1}}
    held = Say("held", delivery=ReplyDelivery(hold_at=1))
    script = [Say("hello"), held, held, held]
    async with chat(script, config=delegation) as here:
        await here.say("hello")
        for _ in range(3):
            await here.desk.type_line("/background think")
        await here.server.wait_until(lambda: sum(one.held for one in here.server.requests) == 3)
        first, *others = here.server.requests
        assert [set(one.tool_names) ^ set(first.tool_names) for one in others] == [set()] * 3
        assert all(one.last_user_text.startswith("think") for one in others)
        here.server.release()
        await here.desk.wait_for_text("Background session 3 is done")


async def list_rows(here: Chat) -> list[SubAgentRow]:
    return await here.app.services.store.sub_agents.list_for_person(here.desk.actor.session_id)


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
