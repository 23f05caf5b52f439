"""Standing goals: the session goes on by itself, in the person's words only, and whatever is odd pauses it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hermes.core.events import Notice, TurnEnded
from hermes.core.sub_agents import SubAgentState
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.background.goals import ACTIVE, PAUSED, REACHED, GoalPursuit
from hermes.sessions.options import SessionOptions
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say
from tests.commands.chat_surfaces import Chat, chat
from tests.sessions.sub_agents.rig import Rig, rig
from tests.sessions.sub_agents.team_model import delegate, find_goal

GOAL = "write the three chapters"
JUDGE = "You judge whether a goal"


def is_judged(request: RecordedRequest) -> bool:
    return JUDGE in request.body.decode()


class Working:
    """Answers turns with `answers`, and the judge with `verdicts`, in order."""

    def __init__(self, answers: list[Reply], verdicts: list[Reply]) -> None:
        self.answers, self.verdicts = answers, verdicts

    def reply(self, request: RecordedRequest) -> Reply:
        return (self.verdicts if is_judged(request) else self.answers).pop(0)


async def rested(here: Chat) -> GoalPursuit:
    pursuit = await here.app.background_work.open_pursuit(here.desk.actor)
    async with asyncio.timeout(60):
        await pursuit.wait_until_idle()
    return pursuit


def notices(here: Chat) -> str:
    return "\n".join(event.text for event in here.events if isinstance(event, Notice))


async def test_it_goes_on_until_the_judge_says_that_it_is_reached() -> None:
    answers: list[Reply] = [Say("chapter one"), Say("chapter two"), Say("all three")]
    verdicts: list[Reply] = [
        Say("NOT REACHED: two are missing, SECRETWORD"),
        Say("NOT REACHED: one is missing"),
        Say("REACHED: all are there"),
    ]
    async with chat(Working(answers, verdicts)) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        pursuit = await rested(here)
        assert pursuit.row is not None and (pursuit.row.state, pursuit.row.turns) == (REACHED, 3)
        turns = [request for request in here.server.requests if not is_judged(request)]
        assert len(turns) == 3
        said = {request.last_user_text.split("\n\n[Now")[0] for request in turns}
        assert all(GOAL in text for text in said)
        assert not any("SECRETWORD" in request.body.decode() for request in turns)
        assert "SECRETWORD" in notices(here) and "reached: all are there" in notices(here)
        assert pursuit.word == ""
        assert "It is reached" in await here.desk.type_line("/goal")


async def test_it_pauses_after_so_many_turns() -> None:
    answers: list[Reply] = [Say("a"), Say("b")]
    verdicts: list[Reply] = [Say("NOT REACHED: no"), Say("NOT REACHED: no")]
    async with chat(Working(answers, verdicts), config={"goals": {"max_turns": 2}}) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        pursuit = await rested(here)
        assert pursuit.row is not None and (pursuit.row.state, pursuit.row.turns) == (PAUSED, 2)
        assert "2 turns were made" in notices(here) and pursuit.word == "goal paused"


async def test_a_failing_turn_and_a_failing_judge_pause_it() -> None:
    refused = Fail(400, message="no")
    async with chat(Working([refused], [])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        pursuit = await rested(here)
        assert pursuit.row is not None and "failed" in pursuit.row.why
    async with chat(Working([Say("a")], [refused])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        pursuit = await rested(here)
        assert pursuit.row is not None and "could not be judged" in pursuit.row.why
    async with chat(Working([Say("a")], [Say("I am not sure")])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        pursuit = await rested(here)
        assert pursuit.row is not None and "no clear answer" in pursuit.row.why


async def test_a_stop_pauses_it_in_a_turn_and_while_it_is_judged() -> None:
    hanging = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
    async with chat(Working([hanging], [])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        await here.server.wait_for(1)
        pursuit = await here.app.background_work.open_pursuit(here.desk.actor)
        pursuit.stop()
        await rested(here)
        assert pursuit.row is not None and "you stopped it" in pursuit.row.why
    async with chat(Working([Say("a")], [hanging])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        await here.server.wait_for(2)
        pursuit = await here.app.background_work.open_pursuit(here.desk.actor)
        pursuit.stop()
        await rested(here)
        assert pursuit.row is not None and "you stopped it" in pursuit.row.why


async def test_a_message_of_the_persons_pauses_it_and_resume_goes_on() -> None:
    answers: list[Reply] = [Say("a"), Say("hello to you"), Say("b")]
    held = Say("NOT REACHED: no", delivery=ReplyDelivery(hold_at=1))
    async with chat(Working(answers, [held, Say("REACHED: yes")])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        await here.server.wait_held(await here.server.wait_for(2))
        await here.say("hello")
        here.server.release()
        pursuit = await rested(here)
        assert pursuit.row is not None and "you said something else" in pursuit.row.why
        await here.desk.type_line("/goal resume")
        pursuit = await rested(here)
        assert pursuit.row is not None and pursuit.row.state == REACHED
        await here.desk.type_line("/goal clear")
        assert await here.app.services.store.goals.get(here.desk.actor.session_id) is None
        assert "no goal" in await here.desk.type_line("/goal")


async def test_words_said_into_its_turn_pause_it() -> None:
    held = Say(calls=(Call("todo", {"todos": []}),), delivery=ReplyDelivery(hold_at=1))
    async with chat(Working([held, Say("done")], [])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        await here.server.wait_held(await here.server.wait_for(1))
        here.desk.actor.steer(InboundMessage(text="wait, do it differently"))
        here.server.release()
        pursuit = await rested(here)
        assert pursuit.row is not None and "you said something else" in pursuit.row.why


async def test_it_survives_a_restart_and_waits_there() -> None:
    hanging = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
    async with chat(Working([Say("a")], [hanging])) as here:
        await here.desk.type_line(f"/goal {GOAL}")
        await here.server.wait_for(2)
        session_id = here.desk.actor.session_id
        await here.app.close_session(here.desk.actor)
        row = await here.app.services.store.goals.get(session_id)
        assert row is not None and row.state == ACTIVE and row.turns == 1
        async with App(here.home.environ, SessionOptions(cwd=str(here.home.cwd))) as other:
            actor = await other.open_session(session_id)
            pursuit = other.background_work.find_pursuit(actor)
            assert pursuit is not None and pursuit.row is not None
            assert (pursuit.row.text, pursuit.row.state) == (GOAL, PAUSED)
            assert pursuit.word == "goal paused"


class WorkingTeam(Working):
    """Answers sub-agents, too; `agent` may hold their answer back."""

    def __init__(self, answers: list[Reply], verdicts: list[Reply], agent: Reply) -> None:
        super().__init__(answers, verdicts)
        self.agent = agent

    def reply(self, request: RecordedRequest) -> Reply:
        return self.agent if find_goal(request) else super().reply(request)


@asynccontextmanager
async def pursuing(model: WorkingTeam) -> AsyncIterator[tuple[Rig, App, GoalPursuit, SessionActor]]:
    async with rig(model) as here, here.process() as (app, actor):  # type: ignore[arg-type]
        pursuit = await app.background_work.open_pursuit(actor)
        await pursuit.set_goal(GOAL)
        yield here, app, pursuit, actor


async def test_a_turn_that_leaves_sub_agents_is_judged_after_their_reports() -> None:
    answers: list[Reply] = [delegate("one", "two", background=True), Say("They work on it."), Say("All is written.")]
    held = Say("a chapter", delivery=ReplyDelivery(hold_at=2))
    async with pursuing(WorkingTeam(answers, [Say("REACHED: yes")], held)) as (here, _app, pursuit, actor):
        await here.server.wait_until(lambda: sum(one.held for one in here.server.requests) == 2)
        await here.wait_for(lambda: any(isinstance(one, TurnEnded) for one in here.events))
        await actor.idle()
        assert not any(is_judged(one) for one in here.server.requests) and pursuit.active
        here.server.release()
        async with asyncio.timeout(30):
            await pursuit.wait_until_idle()
        judged = [one for one in here.server.requests if is_judged(one)]
        assert len(judged) == 1 and "All is written." in judged[0].body.decode()
        assert pursuit.row is not None and (pursuit.row.state, pursuit.row.turns) == (REACHED, 2)


async def test_a_stop_reaches_sub_agents_in_the_background_and_wakes_nobody() -> None:
    answers: list[Reply] = [delegate("one", background=True), Say("It works on it.")]
    hanging = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
    async with pursuing(WorkingTeam(answers, [], hanging)) as (here, app, pursuit, actor):
        await here.wait_for(lambda: any(isinstance(one, TurnEnded) for one in here.events))
        await actor.idle()
        await here.wait_for(lambda: any(one.state is SubAgentState.RUNNING for one in here.changes))
        assert pursuit.stop()
        async with asyncio.timeout(30):
            await pursuit.wait_until_idle()
            await app.sub_agents.open_team(actor.session_id).wait_until_finished()
        assert pursuit.row is not None and (pursuit.row.state, pursuit.row.why) == (PAUSED, "you stopped it")
        assert here.changes[-1].state is SubAgentState.STOPPED and not actor.busy and not len(actor.mailbox)
        assert not any(is_judged(one) for one in here.server.requests) and not answers


async def test_sub_agents_that_somebody_stopped_do_not_hold_the_judge_up() -> None:
    answers: list[Reply] = [delegate("one", background=True), Say("It works on it.")]
    hanging = Say("never ends", delivery=ReplyDelivery(ending=Ending.HANG, at=2))
    async with pursuing(WorkingTeam(answers, [Say("REACHED: enough")], hanging)) as (here, app, pursuit, actor):
        await here.wait_for(lambda: any(isinstance(one, TurnEnded) for one in here.events))
        await actor.idle()
        app.sub_agents.open_team(actor.session_id).stop_all(wakes=False)
        async with asyncio.timeout(30):
            await pursuit.wait_until_idle()
        assert pursuit.row is not None and pursuit.row.state == REACHED
