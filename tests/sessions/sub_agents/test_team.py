"""Sub-agents: they work beside each other, report to their parent, and end with it."""

import asyncio
import sqlite3

import pytest

from hermes.core.events import ApprovalAsked, Event, SubAgentChanged, ToolStarted, TurnEnded
from hermes.core.outcomes import AnswerScope, ExitReason
from hermes.core.sub_agents import SubAgentState
from hermes.core.work_mode import WorkMode
from hermes.sessions.app import set_mode
from hermes.testing.conversation import StepRole
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from tests.sessions.sub_agents.rig import HANGING, list_rows, rig
from tests.sessions.sub_agents.team_model import TeamModel, delegate, find_goal, last_text, read_results

ORCHESTRATE = delegate("leaf one", "leaf two")


async def test_a_task_is_done_and_only_its_report_comes_back() -> None:
    model = TeamModel([delegate("count the files", context="they are blue"), Say("Forty-two.")])
    async with rig(model) as here, here.process() as (app, actor):
        ended = await here.say(actor)
        assert ended.text == "Forty-two."
        child = next(one for one in here.server.requests if find_goal(one))
        assert "they are blue" in child.conversation[1].text and str(here.home.cwd) in child.conversation[1].text
        assert not {"clarify", "memory", "send_message", "delegate_task"} & {*child.tool_names}
        report = read_results(here.server.requests[-1])[-1]
        assert "[sub-agent 1: done] count the files" in report and "report on count the files" in report
        assert app.live_count == 1
        row = (await list_rows(app, actor))[0]
        assert row.state is SubAgentState.DONE and row.steps == 1 and row.task.goal == ""


async def test_many_tasks_are_done_three_at_a_time_and_the_first_begins_alone() -> None:
    held = Say("a report", delivery=ReplyDelivery(hold_at=2))
    model = TeamModel([delegate(*(f"task {n}" for n in range(7))), Say("All done.")], {"task": [held]})
    async with rig(model) as here, here.process() as (_app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        for arrived, at_once in ((4, 3), (7, 3), (8, 1)):
            await here.server.wait_for(arrived)
            await here.server.wait_until(lambda n=at_once: sum(one.held for one in here.server.requests) == n)
            assert len(here.server.requests) == arrived
            here.server.release()
            await here.server.wait_until(lambda: not any(one.held for one in here.server.requests))
        assert (await turn).text == "All done."
        assert sum(one.state is SubAgentState.DONE for one in here.changes) == 7
        asked = [one for one in here.server.requests if find_goal(one)]
        assert find_goal(asked[0]) == "task 0"
        assert asked[1].arrived_at > asked[0].arrived_at
        assert len({one.body.partition(b'"role":"user"')[0] for one in asked}) == 1


async def test_a_stop_ends_all_and_theirs() -> None:
    agents = {"boss": [ORCHESTRATE], "leaf": [HANGING], "b": [HANGING]}
    top = Say(
        calls=(
            Call("tool_call", {"name": "delegate_task", "arguments": {"goal": "boss", "role": "orchestrator"}}),
            Call("tool_call", {"name": "delegate_task", "arguments": {"goal": "b"}}),
        )
    )
    async with rig(TeamModel([top, Say("no")], agents)) as here, here.process() as (app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        await here.server.wait_for(5)
        actor.stop()
        assert (await turn).reason is ExitReason.INTERRUPTED
        assert [row.state for row in await list_rows(app, actor)] == [SubAgentState.STOPPED] * 4
        assert here.server.open_connections == 0 or all(one.closed_early_at for one in here.server.requests[2:])
        assert app.live_count == 1 and len(here.server.requests) == 5


async def test_reports_from_the_background_wake_the_session_once() -> None:
    model = TeamModel([delegate("a", "b", background=True), Say("They work."), Say("I heard of it.")])
    async with rig(model) as here, here.process() as (app, actor):
        assert (await here.say(actor)).text == "They work."
        await here.wait_for(lambda: sum(isinstance(one, TurnEnded) for one in here.events) == 2)
        assert here.events[-1].text == "I heard of it."  # type: ignore[union-attr]
        woken = last_text(here.server.requests[-1])
        assert "report on a" in woken and "report on b" in woken
        assert not app.sub_agents.open_team(actor.session_id).has_unfinished


async def test_where_nobody_stays_a_call_in_the_background_is_waited_for() -> None:
    model = TeamModel([delegate("a", background=True), Say("Heard.")])
    async with rig(model) as here, here.process(goes_on=False) as (_app, actor):
        assert (await here.say(actor)).text == "Heard."
        assert "report on a" in read_results(here.server.requests[-1])[-1]


async def test_a_question_goes_to_the_person_of_the_parent() -> None:
    write = Say(calls=(Call("terminal", {"command": "sudo true"}),))
    model = TeamModel([delegate("write it"), Say("ok")], {"write it": [write, Say("It was refused.")]})
    async with rig(model) as here, here.process(allow=()) as (app, actor):
        actor.approvals.can_ask = True

        def answer(event: Event) -> None:
            if isinstance(event, ApprovalAsked):
                assert event.asker == "write it" and event.asker_id
                assert actor.approvals.answer(event.approval_id, scope=AnswerScope.DENY, by="person")

        actor.subscribe(answer)
        assert (await here.say(actor)).text == "ok"
        assert SubAgentState.WAITING in [one.state for one in here.changes]
        assert (await list_rows(app, actor))[0].state is SubAgentState.DONE


async def test_its_steps_are_its_own_and_those_of_all_have_a_limit() -> None:
    loop = Say(calls=(Call("todo", {}),))
    config: dict[str, object] = {"delegation": {"max_iterations": 3, "max_total_iterations": 4}}
    calls = [loop] * 9
    model = TeamModel([delegate("a", "b"), Say("ok")], {"a": calls, "b": calls})
    async with rig(model, config) as here, here.process() as (app, actor):
        assert (await here.say(actor)).text == "ok"
        rows = await list_rows(app, actor)
        assert [row.state for row in rows] == [SubAgentState.BUDGET, SubAgentState.BUDGET]
        assert "delegation.max_iterations" in rows[0].report.error
        assert "max_total_iterations" in rows[1].report.error


async def test_one_that_gives_no_sign_of_life_is_ended_and_the_parent_goes_on() -> None:
    config: dict[str, object] = {"delegation": {"idle_timeout": 0.3}}
    model = TeamModel([delegate("a"), Say("ok")], {"a": [HANGING]})
    async with rig(model, config) as here, here.process() as (app, actor):
        assert (await here.say(actor)).text == "ok"
        row = (await list_rows(app, actor))[0]
        assert row.state in (SubAgentState.PARTIAL, SubAgentState.FAILED) and "sign of life" in row.report.error


async def test_work_in_the_background_goes_on_in_the_next_process() -> None:
    held: list[bool] = [True]

    def slow(request: object) -> Say:
        return HANGING if held[0] else Say("late report")

    model = TeamModel([delegate("a", background=True), Say("It works."), Say("Heard.")], {"a": slow})
    async with rig(model) as here:
        async with here.process() as (_app, actor):
            assert (await here.say(actor)).text == "It works."
            await here.server.wait_for(3)
            session_id = actor.session_id
        held[0] = False
        here.events.clear()
        async with here.process(session_id) as (app, actor):
            await here.wait_for(lambda: any(isinstance(one, TurnEnded) for one in here.events))
            assert "late report" in last_text(here.server.requests[-1])
            assert (await list_rows(app, actor))[0].state is SubAgentState.DONE


async def test_a_call_that_is_cut_off_takes_up_its_sub_agents() -> None:
    held: list[bool] = [True]

    def slow(request: object) -> Say:
        return HANGING if held[0] else Say("late report")

    model = TeamModel([delegate("a", "b"), Say("Heard.")], {"a": slow, "b": [Say("b is done")]})
    async with rig(model) as here:
        async with here.process() as (app, actor):
            turn = asyncio.ensure_future(here.say(actor))
            await here.server.wait_for(2)
            await asyncio.wait({turn}, timeout=0.2)
            actor.stays_open = True
            session_id = actor.session_id
        turn.cancel()
        held[0] = False
        async with here.process(session_id) as (app, actor):
            ended = await actor.resume()  # type: ignore[misc]
            assert ended.text == "Heard."
            rows = await list_rows(app, actor)
            assert [row.state for row in rows] == [SubAgentState.DONE] * 2
            assert len(rows) == 2 and app.live_count == 1
            assert "late report" in read_results(here.server.requests[-1])[-1]


async def test_what_a_sub_agent_changed_is_undone_with_the_turn_that_waited_for_it() -> None:
    writes = (
        Call("write_file", {"path": "made.txt", "content": "x"}),
        Call("terminal", {"command": "echo changed > old.txt"}),
    )
    model = TeamModel([delegate("a"), Say("ok")], {"a": [Say(calls=writes), Say("done")]})
    async with rig(model) as here:
        old, made = here.home.cwd / "old.txt", here.home.cwd / "made.txt"
        old.write_text("before")
        async with here.process() as (app, actor):
            await here.say(actor)
            assert made.exists() and old.read_text() == "changed\n"
            assert {*(await list_rows(app, actor))[0].report.files} == {str(old), str(made)}
            await app.session_undo(actor).undo_turns(1)
            assert not made.exists() and old.read_text() == "before"


async def test_a_session_that_wakes_itself_comes_to_an_end() -> None:
    again = delegate("a", background=True)
    config: dict[str, object] = {"delegation": {"max_iterations": 3, "max_total_iterations": 5}}

    def top(request: RecordedRequest) -> Reply:
        return Say("I wait.") if request.conversation[-1].role is StepRole.TOOL else again

    async with rig(TeamModel(top), config) as here, here.process() as (app, actor):
        await here.say(actor)
        async with asyncio.timeout(30):
            while (rows := await list_rows(app, actor))[-1].state is not SubAgentState.BUDGET:  # noqa: ASYNC110 - only the store tells
                await asyncio.sleep(0.01)
        await actor.idle()
        assert len({row.root_turn_id for row in rows}) == 1
        assert rows[-1].state is SubAgentState.BUDGET and sum(row.steps for row in rows) <= 5
        await here.say(actor, "once more")
        assert (await list_rows(app, actor))[-1].root_turn_id != rows[0].root_turn_id


async def test_what_the_person_restricts_holds_below_at_once() -> None:
    model = TeamModel([delegate("a"), Say("ok")], {"a": [HANGING]})
    async with rig(model) as here, here.process() as (app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        await here.server.wait_for(2)
        set_mode(app, actor, WorkMode.PLAN)
        child = app.sub_agents.open_team(actor.session_id).list_live_sessions()[0]
        assert child.tools.state.mode is WorkMode.PLAN
        app.set_yolo(actor, on=True)
        app.set_yolo(actor, on=False)
        assert not child.tools.gate.session_grants.yolo
        actor.stop()
        await turn


async def test_a_stop_reaches_those_in_the_background_of_a_sub_agent() -> None:
    boss = [delegate("deep", background=True), HANGING, Say("woken")]
    model = TeamModel([delegate("boss", role="orchestrator"), Say("ok")], {"boss": boss, "deep": [HANGING]})
    async with rig(model) as here, here.process() as (app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        await here.server.wait_for(4)
        actor.stop()
        async with asyncio.timeout(20):
            await turn
        assert [row.state for row in await list_rows(app, actor)] == [SubAgentState.STOPPED] * 2
        assert app.live_count == 1 and len(here.server.requests) == 4


@pytest.mark.parametrize("loop_steps", [*range(12), 14, 16, 20, 25, 30, 40, 60, 100])
async def test_a_stop_while_a_call_begins_leaves_nothing(loop_steps: int) -> None:
    model = TeamModel([delegate("a", "b"), Say("ok")], {"a": [HANGING], "b": [HANGING]})
    async with rig(model) as here, here.process() as (app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        await here.wait_for(lambda: any(isinstance(one, ToolStarted) for one in here.events))
        for _ in range(loop_steps):
            await asyncio.sleep(0)
        actor.stop()
        async with asyncio.timeout(20):
            await turn
            if (team := app.sub_agents.find_team(actor.session_id)) is not None:
                await team.wait_until_finished()
        assert all(row.state is SubAgentState.STOPPED for row in await list_rows(app, actor))
        assert app.live_count == 1


async def test_sub_agents_that_cannot_begin_wake_a_session_only_so_often() -> None:
    def top(request: RecordedRequest) -> Reply:
        is_result = request.conversation[-1].role is StepRole.TOOL
        return Say("I wait.") if is_result else delegate("a", background=True)

    delegation = {"model": "x", "provider": "nowhere", "max_total_iterations": 5, "max_iterations": 3}
    async with rig(TeamModel(top), {"delegation": delegation}) as here, here.process() as (app, actor):
        await here.say(actor)
        async with asyncio.timeout(30):
            while (rows := await list_rows(app, actor))[-1].state is not SubAgentState.BUDGET:  # noqa: ASYNC110 - only the store tells
                await asyncio.sleep(0.01)
        assert len(rows) <= 6


async def test_the_steps_of_one_are_for_all_its_turns() -> None:
    def boss(request: RecordedRequest) -> Reply:
        is_result = request.conversation[-1].role is StepRole.TOOL
        return Say("I wait.") if is_result else delegate("deep", background=True)

    model = TeamModel([delegate("boss", role="orchestrator"), Say("ok")], {"boss": boss})
    config: dict[str, object] = {"delegation": {"max_total_iterations": 100, "max_iterations": 4}}
    async with rig(model, config) as here, here.process() as (app, actor):
        await here.say(actor)
        first, *others = await list_rows(app, actor)
        assert first.state is SubAgentState.BUDGET
        assert first.steps <= 4 + 2  # its last answer, asked for twice where it calls again
        assert len(others) == 2


@pytest.mark.parametrize("loop_steps", range(0, 60, 4))
async def test_a_mode_that_changes_while_one_begins_is_its_mode(loop_steps: int) -> None:
    model = TeamModel([delegate("a"), Say("ok")], {"a": [HANGING]})
    async with rig(model) as here, here.process() as (app, actor):
        turn = asyncio.ensure_future(here.say(actor))
        await here.wait_for(lambda: any(isinstance(one, SubAgentChanged) for one in here.events))
        for _ in range(loop_steps):
            await asyncio.sleep(0)
        set_mode(app, actor, WorkMode.PLAN)
        await here.server.wait_for(2)
        child = app.sub_agents.open_team(actor.session_id).list_live_sessions()[0]
        assert child.tools.state.mode is WorkMode.PLAN
        actor.stop()
        await turn


async def test_one_that_cannot_be_opened_again_ends_with_its_own_and_keeps_its_sources() -> None:
    boss = [Say(calls=(Call("read_file", {"path": "notes.txt"}),)), delegate("deep"), Say("never")]
    top = [delegate("boss", role="orchestrator", background=True), Say("ok"), Say("Heard.")]
    model = TeamModel(top, {"boss": boss, "deep": [HANGING]})
    async with rig(model) as here:
        (here.home.cwd / "notes.txt").write_text("hello")
        async with here.process() as (app, actor):
            await here.say(actor)
            await here.server.wait_for(5)
            first = (await list_rows(app, actor))[0]
        here.events.clear()
        async with (
            here.process(first.session_id),
            here.process(actor.session_id) as (app, actor),
        ):  # it is open elsewhere
            await here.wait_for(lambda: any(isinstance(one, TurnEnded) for one in here.events))
            one, deep = await list_rows(app, actor)
            assert (one.state, deep.state) == (SubAgentState.FAILED, SubAgentState.STOPPED)
            assert one.report.sources and deep.ended_at is not None


async def test_a_report_that_cannot_be_stored_holds_nobody_up() -> None:
    boss = [delegate("deep", background=True), Say("I wait."), Say("woken")]
    model = TeamModel([delegate("boss", role="orchestrator"), Say("ok")], {"boss": boss, "deep": [HANGING]})
    async with rig(model) as here:
        async with here.process() as (app, actor):
            turn = asyncio.ensure_future(here.say(actor))
            await here.server.wait_for(4)
            database = sqlite3.connect(app.services.home.root / "hermes.db")
            database.execute(
                "CREATE TRIGGER full BEFORE UPDATE OF delivery ON sub_agents WHEN NEW.delivery = 'delivered'"
                " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
            database.commit()
            app.sub_agents.open_team(actor.session_id).stop(2)
            async with asyncio.timeout(20):
                await turn
            assert not app.sub_agents.open_team(actor.session_id).has_unfinished
            database.execute("DROP TRIGGER full")
            database.commit()
            database.close()
        async with here.process(actor.session_id) as (app, actor):
            await app.sub_agents.open_team(actor.session_id).wait_until_finished()
            assert all(row.ended_at is not None for row in await list_rows(app, actor))


async def test_a_session_whose_opening_is_cancelled_is_not_left_open() -> None:
    model = TeamModel([delegate("a", background=True), Say("ok")], {"a": [HANGING]})
    async with rig(model) as here:
        async with here.process() as (_app, actor):
            await here.say(actor)
        async with here.process() as (app, _):
            for milliseconds in range(60):
                opening = asyncio.create_task(app.open_session(actor.session_id))
                await asyncio.wait({opening}, timeout=milliseconds / 2_000)
                opening.cancel()
                await asyncio.wait({opening})
                if not opening.cancelled():
                    await app.close_session(opening.result())
                assert app.live_count == 1
            await app.open_session(actor.session_id)


async def test_many_at_once_get_their_steps_when_they_begin_from_what_those_before_have_left() -> None:
    names = [f"task {number}" for number in range(30)]
    model = TeamModel([delegate(*names), Say("ok")], {name: [Say("Done.")] for name in names})
    config: dict[str, object] = {"delegation": {"max_iterations": 10, "max_total_iterations": 60}}
    async with rig(model, config) as here, here.process() as (app, actor):
        assert (await here.say(actor)).text == "ok"
        rows = await list_rows(app, actor)
        assert [row.state for row in rows] == [SubAgentState.DONE] * 30
        assert sum(row.steps for row in rows) == 30


async def test_no_more_are_queued_than_there_are_steps() -> None:
    names = [f"task {number}" for number in range(9)]
    model = TeamModel([delegate(*names), Say("ok")], {name: [Say("Done.")] for name in names})
    config: dict[str, object] = {"delegation": {"max_iterations": 2, "max_total_iterations": 6}}
    async with rig(model, config) as here, here.process() as (app, actor):
        assert (await here.say(actor)).text == "ok"
        rows = await list_rows(app, actor)
        assert [row.state for row in rows[5:]] == [SubAgentState.BUDGET] * 4
        assert all("max_total_iterations" in row.report.error for row in rows[5:])
        assert sum(row.steps for row in rows) <= 6
