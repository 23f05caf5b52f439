"""Sub-agents: they work beside each other, report to their parent, and end with it."""

import asyncio

from hermes.core.events import SubAgentChanged
from hermes.core.sub_agents import SubAgentState
from hermes.testing.script import Ending, ReplyDelivery, Say
from tests.commands.chat_surfaces import chat
from tests.sessions.sub_agents.team_model import TeamModel, delegate, find_goal, read_results

HANGING = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))


async def test_a_task_is_done_and_only_its_report_comes_back() -> None:
    model = TeamModel([delegate("count the files", context="they are blue"), Say("Forty-two.")])
    async with chat(model) as here:
        ended = await here.say("how many files?")
        assert ended.text == "Forty-two."
        child = next(one for one in here.server.requests if find_goal(one))
        assert "they are blue" in child.conversation[1].text
        report = read_results(here.server.requests[-1])[-1]
        print(report)
        print([e for e in here.events if isinstance(e, SubAgentChanged)])
        assert "[sub-agent 1: done] count the files" in report and "report on count the files" in report
        assert here.app.live_count == 1


async def test_many_tasks_are_done_three_at_a_time() -> None:
    model = TeamModel([delegate(*(f"task {n}" for n in range(7))), Say("All done.")])
    async with chat(model) as here:
        assert (await here.say("go")).text == "All done."
        states = [one for one in here.events if isinstance(one, SubAgentChanged)]
        running: set[int] = set()
        most = 0
        for one in states:
            (running.discard if one.state.has_ended else running.add)(one.number)
            most = max(most, len(running))
        assert most == 3
        assert sum(one.state is SubAgentState.DONE for one in states) == 7


async def test_a_stop_ends_all() -> None:
    model = TeamModel([delegate("a", "b", "c"), Say("no")], {"a": [HANGING], "b": [HANGING], "c": [HANGING]})
    async with chat(model) as here:
        turn = asyncio.ensure_future(here.say("go"))
        await here.server.wait_for(4)
        here.desk.actor.stop()
        ended = await turn
        print(ended)
        print([(e.number, e.state) for e in here.events if isinstance(e, SubAgentChanged)])
        rows = await here.app.services.store.sub_agents.list_tree(here.desk.actor.session_id)
        assert [row.state for row in rows] == [SubAgentState.STOPPED] * 3


async def test_a_report_from_the_background_wakes_the_session() -> None:
    pass
