"""A batch of nothing but code costs no step, and ids of calls cannot be taken for those of the calls of code."""

import json

import pytest

from hermes.agent.calls import is_free_call
from hermes.agent.turn import TurnBudget
from hermes.core.messages import Role, ToolCallPart
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from hermes.tools.registry import ToolRegistry

CODE = Call("tool_call", {"name": "execute_code", "arguments": {"code": "1 + 1"}})


@pytest.mark.parametrize(
    ("name", "arguments", "free"),
    [
        ("execute_code", {"code": "1"}, True),
        ("tool_call", {"name": "execute_code", "arguments": {"code": "1"}}, True),
        ("tool_call", {"name": "execute_code", "arguments": '{"code": "1"}'}, True),
        ("tool_call", {"name": "read_file", "arguments": {"path": "a"}}, False),
        ("tool_call", {"name": "nothing", "arguments": {}}, False),
        ("tool_call", {"name": 1}, False),
        ("tool_call", {"name": "tool_call", "arguments": {"name": "execute_code", "arguments": {}}}, False),
        ("read_file", {"path": "a"}, False),
    ],
)
def test_only_code_is_free_through_the_call_that_stands_for_it(name: str, arguments: object, free: bool) -> None:
    call = ToolCallPart(call_id="c", name=name, arguments=json.dumps(arguments))
    assert is_free_call(call, ToolRegistry().select_tools()) is free


def test_steps_are_refunded_as_often_as_there_are_steps() -> None:
    budget = TurnBudget(3)
    taken = 0
    while budget.take_step():
        taken += 1
        budget.refund_step()
    assert taken == 6


@pytest.mark.parametrize(("times", "asked"), [(3, 4), (9, 5)])
async def test_a_turn_makes_more_steps_of_code_than_it_has_and_no_end_of_them(times: int, asked: int) -> None:
    async with ScriptedServer([*[Say(calls=(CODE,))] * times, Say("done")]) as server:
        more = {"agent": {"max_turns": 2}}
        with TempHome.for_server(server.url, more_config=more) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                ended = await actor.post(InboundMessage(text="go"))
        assert len(server.requests) >= asked
        if times == 3:
            assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "done")


async def test_an_id_that_could_be_that_of_a_call_of_code_is_made_another() -> None:
    calls = (Call("todo", {}, call_id="a"), Call("todo", {"todos": []}, call_id="a.1"))
    async with ScriptedServer([Say(calls=calls), Say("done")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                await actor.post(InboundMessage(text="go"))
                asked = next(one for one in actor.conversation.messages if one.role is Role.ASSISTANT)
                assert [one.call_id for one in asked.tool_calls()] == ["a", "a.1_"]
