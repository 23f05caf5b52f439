"""What a sub-agent begins with: no more than its parent has, and what stood in its parent's conversation counts."""

import asyncio
import json
from collections.abc import Iterable

import pytest

from hermes.admin.models.session_overrides import OverrideEditor
from hermes.core.messages import Message
from hermes.core.sub_agents import SubAgentState
from hermes.sessions.app import forget_allowed
from hermes.sessions.caller_tools import make_caller_tool
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, Say
from hermes.tools.taint import find_untrusted_provenances, sources_from_provenance
from tests.sessions.sub_agents.rig import HANGING, list_rows, rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate, find_goal, read_results

READ = Say(calls=(Call("read_file", {"path": "notes.txt"}),))


def list_untrusted(messages: Iterable[Message]) -> list[str]:
    """Return the untrusted sources of messages."""
    found = [origin for message in messages for origin in find_untrusted_provenances(message)]
    return [source for origin in found for source in sources_from_provenance(origin)]


async def test_it_has_the_tools_that_are_asked_for_and_the_parent_has() -> None:
    model = TeamModel([delegate("a", toolsets=["file"]), Say("ok")])
    async with rig(model) as here, here.process() as (_app, actor):
        await here.say(actor)
        child = next(one for one in here.server.requests if find_goal(one))
        assert {*child.tool_names} == {"read_file", "write_file", "patch", "search_files"}


@pytest.mark.parametrize("wanted", ["terminal", "all", "mcp", "nonsense", "hermes-cli"])
async def test_tools_that_the_parent_has_not_are_refused(wanted: str) -> None:
    model = TeamModel([delegate("a", toolsets=[wanted]), Say("ok")])
    options: dict[str, object] = {"enabled_toolsets": ("file", "delegation")}
    async with rig(model) as here, here.process(**options) as (app, actor):
        await here.say(actor)
        assert "You do not have the tool set" in read_results(here.server.requests[-1])[-1]
        assert await list_rows(app, actor) == []


async def test_a_parent_with_few_tools_has_sub_agents_with_few() -> None:
    model = TeamModel([delegate("a"), Say("ok")])
    async with rig(model) as here, here.process(enabled_toolsets=("search", "delegation")) as (_app, actor):
        await here.say(actor)
        child = next(one for one in here.server.requests if find_goal(one))
        assert child.tool_names == ["web_search"]


async def test_only_an_orchestrator_delegates_and_only_so_deep() -> None:
    deeper = delegate("third", role="orchestrator")
    agents: dict[str, list[Reply]] = {
        "leaf": [delegate("x"), Say("I cannot.")],
        "first": [delegate("second", role="orchestrator"), delegate("second"), Say("first is done")],
        "second": [deeper, Say("second is done")],
    }
    top = [delegate("leaf"), delegate("first", role="orchestrator"), Say("ok")]
    async with rig(TeamModel(top, agents)) as here, here.process() as (app, actor):
        assert (await here.say(actor)).text == "ok"
        rows = await list_rows(app, actor)
        assert [(row.task.name, row.depth) for row in rows] == [("leaf", 1), ("first", 1), ("second", 2)]
        asked = [one for one in here.server.requests if find_goal(one) == "first"]
        assert "use the role leaf" in read_results(asked[-1])[0]


async def test_a_model_that_nobody_has_set_up_is_refused() -> None:
    model = TeamModel([delegate("a", model="dear-model"), delegate("a", model="mock-model"), Say("ok")])
    async with rig(model) as here, here.process() as (app, actor):
        await here.say(actor)
        assert "not set up for sub-agents" in read_results(here.server.requests[1])[-1]
        assert [row.state for row in await list_rows(app, actor)] == [SubAgentState.DONE]


async def test_the_model_of_the_settings_is_used() -> None:
    model = TeamModel([delegate("a"), Say("ok")])
    async with rig(model, {"delegation": {"model": "small-model"}}) as here, here.process() as (_app, actor):
        await here.say(actor)
        assert [one.model for one in here.server.requests] == ["mock-model", "small-model", "mock-model"]


async def test_untrusted_text_in_the_conversation_counts_in_the_task() -> None:
    async with rig(TeamModel([READ, delegate("after"), Say("ok")])) as here, here.process() as (app, actor):
        (here.home.cwd / "notes.txt").write_text("hello")
        await here.say(actor)
        row = (await list_rows(app, actor))[0]
        assert row.task.sources and row.report.sources == row.task.sources
        first = (await app.services.store.messages.read(row.session_id))[0].message
        assert {*row.task.sources} == {*list_untrusted([first])}


async def test_untrusted_text_that_a_sub_agent_reads_counts_in_its_report() -> None:
    model = TeamModel([delegate("reader"), Say("ok")], {"reader": [READ, Say("It says hello.")]})
    async with rig(model) as here, here.process() as (_app, actor):
        (here.home.cwd / "notes.txt").write_text("hello")
        await here.say(actor)
        assert list_untrusted(actor.conversation.messages)
        assert read_results(here.server.requests[-1])[-1].startswith("<untrusted")


async def test_a_long_answer_is_shortened_and_all_of_it_is_in_a_file() -> None:
    long = "word " * 8_000
    model = TeamModel([delegate("a"), Say("ok")], {"a": [Say(long)]})
    async with rig(model) as here, here.process() as (app, actor):
        await here.say(actor)
        report = read_results(here.server.requests[-1])[-1]
        assert len(report) < 24_700 and "characters left out" in report
        folder = app.live_session(actor).tools.context.spill_folder
        assert long.strip() in (folder / "sub-agent-1.txt").read_text()


async def test_a_source_that_is_trusted_below_counts_in_the_report() -> None:
    model = TeamModel([delegate("reader"), Say("ok")], {"reader": [READ, HANGING]})
    async with rig(model) as here, here.process() as (app, actor):
        (here.home.cwd / "notes.txt").write_text("hello")
        turn = asyncio.ensure_future(here.say(actor))
        await here.server.wait_for(3)
        child = app.sub_agents.open_team(actor.session_id).list_live_sessions()[0]
        taint = child.tools.state.taint
        for source in taint.list_sources():
            taint.trust_source(source)
        child.actor.stop()
        await turn
        assert (await list_rows(app, actor))[0].report.sources
        assert actor.conversation.messages and list_untrusted(actor.conversation.messages)


async def test_tools_that_are_switched_off_are_off_below_and_others_stay() -> None:
    wait = Say(calls=(Call("terminal", {"command": "while [ ! -e go ]; do sleep 0.02; done"}),))
    write = Say(calls=(Call("terminal", {"command": "echo hello > made"}),))
    model = TeamModel([delegate("a", background=True), Say("ok"), Say("ok")], {"a": [wait, write, Say("end")]})
    async with rig(model) as here, here.process() as (app, actor):
        await here.say(actor)
        await here.server.wait_for(3)
        choices = OverrideEditor(app.services, app.live_session(actor))
        await choices.switch_toolsets(["terminal"], on=False)
        (here.home.cwd / "go").write_text("")
        await app.sub_agents.open_team(actor.session_id).wait_until_finished()
        assert not (here.home.cwd / "made").exists()
    model = TeamModel([Say("hi"), delegate("a"), Say("ok")])
    async with rig(model) as here, here.process() as (app, actor):
        await here.say(actor)
        await OverrideEditor(app.services, app.live_session(actor)).switch_toolsets(["web"], on=False)
        await here.say(actor)
        assert "terminal" in list_tools(here.server.requests[2])


async def test_tools_of_the_program_that_asks_are_not_handed_down() -> None:
    model = TeamModel([delegate("a"), Say("ok")])
    mine = make_caller_tool("mine", "Does something.", None)
    async with rig(model) as here, here.process(extra_tools=(mine,)) as (_app, actor):
        await here.say(actor)
        assert ["mine" in list_tools(one) for one in here.server.requests] == [True, False, True]


def list_tools(request: RecordedRequest) -> list[str]:
    return [one["function"]["name"] for one in json.loads(request.body)["tools"]]


async def test_what_is_asked_about_again_is_asked_about_below() -> None:
    model = TeamModel([delegate("a"), delegate("b"), Say("ok")], {"a": [HANGING], "b": [HANGING]})
    async with rig(model) as here, here.process(allow=("one", "two")) as (app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        await here.server.wait_for(2)
        team = app.sub_agents.open_team(actor.session_id)
        first = team.list_live_sessions()[0].tools.gate
        first.session_grants.always.append("one")
        forget_allowed(app, actor, "one")
        assert first.policy.allow == ("two",) and first.session_grants.always == []
        team.stop(1)
        await here.server.wait_for(4)
        assert team.list_live_sessions()[0].tools.gate.policy.allow == ("two",)
        actor.stop()
        await turn
