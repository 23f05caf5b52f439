"""Mixture of agents: several models answer, one weighs their answers, and the model of the session is back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.core.errors import HermesError, UsageError
from hermes.core.sub_agents import SubAgentState, SubAgentTask
from hermes.store.sub_agents import ReportDelivery, StepLimits, SubAgentCall
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Ending, Fail, Reply, ReplyDelivery, Say
from tests.commands.chat_surfaces import Chat, chat
from tests.sessions.sub_agents.rig import list_rows, rig
from tests.sessions.sub_agents.team_model import TeamModel

HANGING = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
PROMPT = "How many moons has Mars?"


class Models:
    """Answers by the name of the model that is asked."""

    def __init__(self, **replies: Reply) -> None:
        self.replies = replies

    def reply(self, request: RecordedRequest) -> Reply:
        return self.replies.get(request.model, Say(f"{request.model} says two"))


def settings(references: list[object], **fields: object) -> dict[str, object]:
    return {"moa": {"presets": {"default": {"reference_models": references, **fields}}}}


@asynccontextmanager
async def asking(models: Models, references: list[object], **fields: object) -> AsyncIterator[Chat]:
    async with chat(models, config=settings(references, **fields)) as here:
        yield here


async def ask(here: Chat, line: str = f"/moa {PROMPT}") -> str:
    """Type the command, and post what it posts; return the answer."""
    await here.desk.type_line(line)
    return (await here.desk.actor.post(here.desk.posted.pop())).text


def models_of(here: Chat) -> list[str]:
    return [one.model for one in here.server.requests]


async def test_references_answer_without_tools_and_the_sessions_model_weighs_them() -> None:
    async with asking(Models(), ["alpha", {"model": "beta"}], max_tokens=99) as here:
        own = here.app.endpoint.model
        assert await ask(here) == f"{own} says two"
        alpha, beta, last = here.server.requests
        assert {alpha.model, beta.model} == {"alpha", "beta"} and last.model == own
        assert alpha.tool_names == [] and alpha.last_user_text.startswith(PROMPT) and alpha.json["max_tokens"] == 99
        assert "You are one of several models" in alpha.system and "You are a sub-agent" not in alpha.system
        assert last.last_user_text.startswith(PROMPT)
        assert "[alpha]\nalpha says two" in last.last_user_text and "[beta]\nbeta says two" in last.last_user_text
        rows = await here.app.services.store.sub_agents.list_tree(here.desk.actor.session_id)
        assert [row.state for row in rows] == [SubAgentState.DONE] * 2 and here.app.live_count == 1
        assert not await here.app.services.store.sub_agents.list_open(here.desk.actor.session_id)


async def test_an_aggregator_answers_one_turn_and_the_sessions_model_goes_on() -> None:
    async with asking(Models(), ["alpha"], aggregator={"model": "judge"}) as here:
        own = here.app.endpoint.model
        assert await ask(here) == "judge says two"
        assert (await here.say("And Venus?")).text == f"{own} says two"
        assert models_of(here) == ["alpha", "judge", own]
        assert "judge says two" in here.server.requests[-1].body.decode()
        assert await ask(here) == "judge says two" and await ask(here) == "judge says two"
        assert (await here.say("Thanks.")).text == f"{own} says two"


async def test_another_message_that_comes_first_is_the_sessions_models() -> None:
    async with asking(Models(), ["alpha"], aggregator="judge") as here:
        own = here.app.endpoint.model
        await here.desk.type_line(f"/moa {PROMPT}")
        assert (await here.say("Wait.")).text == f"{own} says two"
        assert (await here.desk.actor.post(here.desk.posted.pop())).text == "judge says two"
        assert models_of(here) == ["alpha", own, "judge"]


async def test_one_that_fails_is_named_and_left_out_and_all_is_an_error() -> None:
    refused = Fail(400, message="no such model")
    async with asking(Models(beta=refused), ["alpha", "beta"]) as here:
        await ask(here)
        assert "beta is left out" in here.desk.text and "no such model" in here.desk.text
        assert "[beta]" not in here.server.requests[-1].last_user_text
    async with asking(Models(alpha=refused), ["alpha"]) as here:
        with pytest.raises(HermesError, match="None of the models has answered: alpha: "):
            await here.desk.type_line(f"/moa {PROMPT}")
        assert here.desk.posted == [] and (await here.say("hello")).text


async def test_eight_are_asked_at_once_and_a_stop_reaches_them() -> None:
    names = [f"model-{number}" for number in range(10)]
    held = Say("two", delivery=ReplyDelivery(hold_at=2))
    async with asking(Models(**dict.fromkeys(names, held)), [*names]) as here:
        asked = asyncio.ensure_future(here.desk.type_line(f"/moa {PROMPT}"))
        await here.server.wait_until(lambda: sum(one.held for one in here.server.requests) == 8)
        assert here.desk.actor.stop()
        assert "It was stopped" in await asked
        assert len(here.server.requests) == 8 and here.desk.posted == [] and here.app.live_count == 1
        rows = await here.app.services.store.sub_agents.list_tree(here.desk.actor.session_id)
        assert {row.state for row in rows} <= {SubAgentState.STOPPED} and len(rows) == 10


async def test_a_command_that_is_cancelled_leaves_no_reference_behind() -> None:
    async with asking(Models(alpha=HANGING), ["alpha"]) as here:
        asked = asyncio.ensure_future(here.desk.type_line(f"/moa {PROMPT}"))
        await here.server.wait_for(1)
        asked.cancel()
        await asyncio.wait({asked})
        rows = await here.app.services.store.sub_agents.list_tree(here.desk.actor.session_id)
        assert [row.state for row in rows] == [SubAgentState.STOPPED]


async def test_presets_are_chosen_by_name_and_what_is_missing_is_said() -> None:
    presets = {"quick": {"reference_models": ["alpha"]}, "deep": {"reference_models": ["beta"]}, "empty": {}}
    async with chat(Models(), config={"moa": {"presets": presets, "default_preset": "deep"}}) as here:
        await ask(here)
        await ask(here, f"/moa quick: {PROMPT}")
        own = here.app.endpoint.model
        assert models_of(here) == ["beta", own, "alpha", own]
        with pytest.raises(UsageError, match="names no models"):
            await here.desk.type_line(f"/moa empty: {PROMPT}")
        with pytest.raises(UsageError, match="takes a prompt"):
            await here.desk.type_line("/moa")
    async with chat(Models()) as here:
        with pytest.raises(HermesError, match="There is no mixture 'default'"):
            await here.desk.type_line(f"/moa {PROMPT}")


async def test_an_aggregator_that_cannot_be_used_is_said_before_anything_is_asked() -> None:
    async with asking(Models(), ["alpha"], aggregator={"model": "x", "provider": "nonesuch"}) as here:
        with pytest.raises(HermesError, match="nonesuch"):
            await here.desk.type_line(f"/moa {PROMPT}")
        assert here.server.requests == []


async def test_references_that_a_process_left_are_stopped_by_the_next() -> None:
    """A crash leaves a row for which nobody waits any more."""
    async with rig(TeamModel([Say("hello")])) as here:  # type: ignore[arg-type]
        async with here.process() as (app, actor):
            await here.say(actor)
            call = SubAgentCall(
                parent_id=actor.session_id,
                root_id=actor.session_id,
                root_turn_id="x",
                depth=1,
                delivery=ReportDelivery.AWAITED,
            )
            task = SubAgentTask(goal=PROMPT, name="alpha", tools=())
            await app.services.store.sub_agents.create_all(call, ["left-one"], [task], StepLimits(2, 9))
        async with here.process(actor.session_id) as (app, actor):
            await app.sub_agents.open_team(actor.session_id).wait_until_finished()
            assert [row.state for row in await list_rows(app, actor)] == [SubAgentState.STOPPED]
        assert len(here.server.requests) == 1
