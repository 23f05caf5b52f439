"""Sub-agents of chats: what they bring wakes the chat, over restarts too; their questions are asked there."""

from collections.abc import Callable

import pytest

from hermes.core.sub_agents import SubAgentState
from hermes.gateway.session_pool import SessionEvictor
from hermes.store.sub_agents import ReportDelivery, SubAgentRow
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer
from tests.gateway.chat_stage import BEN, ChatStage, chat_stage
from tests.gateway.gateway_rig import home_for
from tests.gateway.served_gateway import served
from tests.gateway.test_reload import change_config
from tests.sessions.sub_agents.team_model import TeamModel, count_rounds, delegate, find_goal, last_text, read_results
from tests.vendors.telegram import Fake

pytestmark = pytest.mark.slow

BEHIND = delegate("look it up", background=True)
PUSH = Say(calls=(Call("terminal", {"command": "git push --force"}),))
HELD = ReplyDelivery(delay=600)
REPORTED = "sub-agents in the background have ended"


def answer_reports(request: RecordedRequest) -> Reply:
    """Delegate in the background; answer the report with a text of its own."""
    if REPORTED in last_text(request):
        return Say("The report is here.")
    return Say("It is looked up.") if count_rounds(request) else BEHIND


def once_held(
    server: Callable[[], ScriptedServer], is_meant: Callable[[RecordedRequest], bool]
) -> Callable[..., Reply]:
    """Hold the first request that is meant, so that a process can be killed while it waits."""

    def reply(request: RecordedRequest) -> Reply:
        said = Say(f"report on {find_goal(request)}") if find_goal(request) else answer_reports(request)
        if is_meant(request) and sum(map(is_meant, server().requests)) == 1 and isinstance(said, Say):
            return Say(said.text, calls=said.calls, delivery=HELD)
        return said

    return reply


async def settle(chat: Fake) -> None:
    """Have an answer sent behind all that was sent before, so that a kill does not find it on its way."""
    before = len(chat.shown())
    await chat.say("/background list")
    await chat.until(lambda: "ackground" in "".join(one.text for one in chat.shown()[before:]), timeout=20)


async def list_rows(here: ChatStage, session_id: str) -> list[SubAgentRow]:
    return await here.on.app.services.store.sub_agents.list_tree(session_id)


async def test_a_report_from_the_background_wakes_the_chat_and_is_answered_once() -> None:
    async with chat_stage(TeamModel(answer_reports)) as here:
        await here.ask("look", "It is looked up.")
        await here.chat.until(lambda: "The report is here." in here.chat.text())
        session_id = await here.session_of()
        (row,) = await list_rows(here, session_id)
        assert row.state is SubAgentState.DONE and row.delivery is ReportDelivery.DELIVERED
        await here.on.gateway.outbox.wait_until_idle(60)
        assert await here.on.app.services.store.chats.list_unanswered() == []
        assert here.chat.text().count("The report is here.") == 1


@pytest.mark.parametrize(
    "is_meant",
    [
        pytest.param(lambda request: bool(find_goal(request)), id="sub-agent"),
        pytest.param(lambda request: REPORTED in last_text(request), id="answer"),
        pytest.param(lambda request: not find_goal(request) and bool(read_results(request)), id="parent"),
    ],
)
async def test_after_a_kill_it_goes_on_without_anybody_writing_and_answers_once(
    is_meant: Callable[[RecordedRequest], bool],
) -> None:
    servers: list[ScriptedServer] = []
    reply = once_held(lambda: servers[0], is_meant)
    async with ScriptedServer(TeamModel(reply, {"look": reply})) as server, Fake() as chat:
        servers.append(server)
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with served(home) as process:
                await chat.say("look")
                await server.wait_until(lambda: any(map(is_meant, server.requests)))
                process.kill()
                await process.wait()
            for _ in range(2):
                async with served(home):
                    await chat.until(lambda: "The report is here." in chat.text())
                    await settle(chat)
            assert chat.text().count("The report is here.") == 1
            assert chat.text().count("It is looked up.") == 1


async def test_a_question_of_a_sub_agent_is_asked_with_its_name_and_answered_after_a_restart() -> None:
    agents = {"push": [PUSH, Say("it was refused")]}

    def top(request: RecordedRequest) -> Reply:
        if REPORTED in last_text(request):
            return Say("The report is here.")
        return Say("It is pushed.") if count_rounds(request) else delegate("push it", background=True)

    async with ScriptedServer(TeamModel(top, agents)) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with served(home) as process:
                await chat.say("push")
                await chat.until(lambda: any(one.buttons for one in chat.shown()))
                (question,) = [one for one in chat.shown() if one.buttons]
                assert "push it" in question.text and "git push --force" in question.text
                await settle(chat)
                process.kill()
                await process.wait()
            async with served(home):
                before = len(server.requests)
                await chat.press(question.message_id, dict(question.buttons)["No"])
                await server.wait_for(before + 1)
                await chat.until(lambda: "The report is here." in chat.text())
            asked = [one for one in chat.shown() if "asks:" in one.text]
            assert len(asked) == 1 and not asked[0].buttons, [one.text for one in chat.shown()]


@pytest.mark.parametrize("word", ["/approve", "/deny"])
async def test_a_question_of_a_sub_agent_is_answered_by_a_word(word: str) -> None:
    agents = {"push": [PUSH, Say("that was it")]}
    async with chat_stage(TeamModel([delegate("push it"), Say("All told.")], agents)) as here:
        await here.ask("push", "Sub-agent “push it” asks:")
        await here.ask(word, "All told.")
        result = read_results(next(one for one in reversed(here.server.requests) if find_goal(one)))[-1]
        assert ("refused" in result or "said no" in result or "denied" in result) is (word == "/deny"), result


async def test_the_chat_shows_how_many_work_and_which() -> None:
    held = Say("a report", delivery=ReplyDelivery(hold_at=2))
    model = TeamModel([delegate("count ants", "count bees"), Say("All told.")], {"count": [held]})
    async with chat_stage(model) as here:
        await here.chat.say("count")
        await here.chat.until(lambda: "2 sub-agents, 2 at work: count ants (works), count bees" in here.chat.text())
        shown = here.chat.shown()[-1]
        await here.server.wait_for(3)
        here.server.release()
        await here.chat.until(lambda: "All told." in here.chat.text())
        assert [one.text for one in here.chat.shown() if one.message_id == shown.message_id] == ["All told."]
        assert here.chat.shown()[-1].edits <= 8


async def test_what_is_said_before_the_sub_agents_stands_above_them_and_the_answer() -> None:
    held = Say("a report", delivery=ReplyDelivery(hold_at=2))
    top = Say("I have it counted.", calls=delegate("count ants").calls)
    async with chat_stage(TeamModel([top, Say("All told.")], {"count": [held]})) as here:
        await here.chat.say("count")
        await here.chat.until(lambda: "1 sub-agent, 1 at work" in here.chat.text())
        assert next(one.text for one in here.chat.shown()) == "I have it counted."
        here.server.release()
        await here.chat.until(lambda: "All told." in here.chat.text())
        assert [one.text for one in here.chat.shown()] == ["I have it counted.", "All told."]


async def test_a_session_whose_sub_agents_work_stays_in_memory() -> None:
    held = Say("a report", delivery=ReplyDelivery(hold_at=2))
    model = TeamModel([BEHIND, Say("It is looked up.")], {"look": [held]})
    async with chat_stage(model) as here:
        await here.ask("look", "It is looked up.")
        pool = here.on.gateway.pool
        (entry,) = pool.live_sessions
        await entry.actor.idle()
        await here.server.wait_until(lambda: any(one.held for one in here.server.requests))
        evictor = SessionEvictor(here.on.app, {entry.actor.session_id: entry}, pool.drop_session)
        assert entry.is_idle and evictor.list_idle() == []
        here.server.release()
        await here.chat.until(lambda: evictor.list_idle() == [entry])
        assert here.chat.text().count("It is looked up.") == 2


async def test_a_members_sub_agent_has_no_more_than_the_member_and_loses_what_they_lose() -> None:
    run = Call("terminal", {"command": "echo hello"})
    held = Say(calls=(run,), delivery=ReplyDelivery(hold_at=1))
    model = TeamModel([delegate("run it", background=True), Say("It runs.")], {"run": [held, Say("tried")]})
    async with chat_stage(model, _limit_users("terminal", "file", "delegation")) as here:
        await here.ask("run", "It runs.", person=BEN)
        await here.server.wait_until(lambda: any(one.held for one in here.server.requests))
        child = next(one for one in here.server.requests if find_goal(one))
        top = next(one for one in here.server.requests if not find_goal(one))
        assert set(child.tool_names) <= set(top.tool_names) and "terminal" in child.tool_names
        change_config(here.home, _limit_users("file"))
        assert (await here.on.gateway.reload_settings()).code == 0
        here.server.release()
        await here.server.wait_until(lambda: any(find_goal(one) and read_results(one) for one in here.server.requests))
        result = read_results([one for one in here.server.requests if find_goal(one)][-1])[-1]
        assert "taken away" in result, result


def _limit_users(*toolsets: str) -> dict[str, object]:
    return {"gateway": {"roles": {"user": {"toolsets": [*toolsets]}}}}


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_session_that_is_left_while_its_sub_agents_work_still_answers_in_the_chat(*, is_killed: bool) -> None:
    def reply(request: RecordedRequest) -> Reply:
        is_held = len(server.requests) <= 3
        return Say("dug up", delivery=HELD if is_held and is_killed else ReplyDelivery(hold_at=2 if is_held else None))

    def top(request: RecordedRequest) -> Reply:
        if "dig" in request.last_user_text:
            return reply(request)
        return answer_reports(request) if "look" in request.conversation[1].text else Say("a new one")

    async with ScriptedServer(TeamModel(top, {"look": reply})) as server, Fake() as chat:
        with home_for(server, {"telegram": chat}, owners=[chat.person]) as home:
            async with served(home) as process:
                await chat.say("look")
                await chat.until(lambda: "It is looked up." in chat.text())
                await chat.say("/background dig")
                await chat.until(lambda: "Background session 2 works" in chat.text())
                await server.wait_for(4)
                await chat.say("/new")
                await chat.until(lambda: "A new session" in chat.text())
                await chat.say("hello")
                await chat.until(lambda: "a new one" in chat.text())
                if is_killed:
                    process.kill()
                    await process.wait()
                else:
                    server.release()
                    await chat.until(lambda: _is_told(chat))
                    await settle(chat)
            for _ in range(2):
                async with served(home):
                    await chat.until(lambda: _is_told(chat))
                    await settle(chat)
            assert chat.text().count("The report is here.") == chat.text().count("Background session 2 is done") == 1


def _is_told(chat: Fake) -> bool:
    return "The report is here." in chat.text() and "Background session 2 is done" in chat.text()
