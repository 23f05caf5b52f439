"""Whatever happens to a sub-agent, its end has a name and is within its budget, and its parent goes on."""

import pytest

from hermes.core.sub_agents import SubAgentState
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say
from tests.sessions.sub_agents.rig import HANGING, list_rows, rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate, read_results

SAME = Say("again", calls=(Call("read_file", {"path": "nowhere"}),))
TOO_LONG = Fail(400, message="This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.")
CASES: dict[str, tuple[list[Reply], set[SubAgentState], str]] = {
    "stalls": ([HANGING], {SubAgentState.PARTIAL, SubAgentState.FAILED}, "sign of life"),
    "stalls after words": (
        [Say("half of it", calls=(Call("todo", {}),)), HANGING],
        {SubAgentState.PARTIAL},
        "sign of life",
    ),
    "loops": ([SAME] * 40, {SubAgentState.PARTIAL, SubAgentState.FAILED}, ""),
    "uses up its steps": (
        [Say(calls=(Call("todo", {"todos": [{"content": f"step {n}"}]}),)) for n in range(40)],
        {SubAgentState.BUDGET},
        "delegation.max_iterations",
    ),
    "asks where nobody is": (
        [Say(calls=(Call("terminal", {"command": "sudo true"}),)), Say("I was not allowed.")],
        {SubAgentState.DONE},
        "",
    ),
    "overflows": ([TOO_LONG] * 9, {SubAgentState.FAILED, SubAgentState.PARTIAL}, ""),
    "loses its provider": ([Fail(500)] * 9, {SubAgentState.FAILED}, ""),
    "is refused its key": ([Fail(401)] * 9, {SubAgentState.FAILED}, ""),
    "is cut off": (
        [Say("some words of an answer", delivery=ReplyDelivery(ending=Ending.CUT, at=2))] * 9,
        {SubAgentState.PARTIAL, SubAgentState.FAILED, SubAgentState.DONE},
        "",
    ),
}


def make_config(name: str) -> dict[str, object]:
    """Return settings; only what stalls has little time, since a busy machine gives no sign of life for a while."""
    return {
        "delegation": {"idle_timeout": 1.5 if name.startswith("stalls") else 60.0, "max_iterations": 8},
        "agent": {"api_max_retries": 1, "api_retry_minutes": 0.001},
    }


@pytest.mark.parametrize("name", CASES)
async def test_every_end_has_a_name_and_the_parent_goes_on(name: str) -> None:
    replies, states, error = CASES[name]
    model = TeamModel([delegate("it"), Say("I go on.")], {"it": replies})
    async with rig(model, make_config(name)) as here, here.process(allow=()) as (app, actor):
        assert (await here.say(actor)).text == "I go on."
        row = (await list_rows(app, actor))[0]
        assert row.state in states, (row.state, row.report)
        assert error in row.report.error
        assert bool(row.report.error) == (row.state is not SubAgentState.DONE)
        assert row.steps <= 8 + 2
        report = read_results(here.server.requests[-1])[-1]
        assert f"[sub-agent 1: {row.state}]" in report and row.report.error in report
        assert here.changes[-1].state is row.state and here.changes[-1].doing == row.report.error
        assert app.live_count == 1
