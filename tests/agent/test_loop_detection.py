"""Turns that go round in circles are noticed, and those that do not are left alone."""

import pytest

from hermes.agent.loop_detection import CallRound, LoopDetector, LoopLimits
from hermes.core.events import TurnEnded
from hermes.core.messages import ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Reply, Say
from hermes.testing.server import ScriptedServer
from hermes.tools.registry import Toolbox, ToolRegistry


async def turn(replies: list[Reply], **guards: object) -> tuple[TurnEnded, ScriptedServer]:
    async with ScriptedServer(replies) as server:
        config = {"tool_loop_guardrails": guards} if guards else {}
        with TempHome.for_server(server.url, more_config=config) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                ended = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
        check_prefixes(server.requests)
        return ended, server


def run(command: str) -> Say:
    return Say(calls=(Call("terminal", {"command": command}),))


async def test_the_same_failing_call_is_told_after_two_and_ends_the_turn_after_five() -> None:
    ended, server = await turn([*[run("echo no >&2; exit 1")] * 5, Say("I could not")])
    assert (ended.reason, len(server.requests)) == (ExitReason.GUARDRAIL_HALT, 6)
    assert "failed 5 times" in ended.error and ended.text == "I could not"
    assert [b"will not help" in request.body for request in server.requests] == [False, False, True, True, True, True]
    assert [b"This turn ends here" in request.body for request in server.requests] == [False] * 5 + [True]


async def test_a_halted_turn_has_an_answer_even_from_a_model_that_only_calls() -> None:
    ended, server = await turn([run("exit 1")] * 9)
    assert (ended.reason, len(server.requests)) == (ExitReason.GUARDRAIL_HALT, 6)
    assert ended.text == ended.error and "failed 5 times" in ended.text


async def test_one_tool_that_fails_whatever_it_is_given_ends_the_turn_after_eight() -> None:
    replies: list[Reply] = [Say(calls=(Call("read_file", {"path": f"missing{n}"}),)) for n in range(12)]
    ended, server = await turn(replies)
    assert (ended.reason, len(server.requests)) == (ExitReason.GUARDRAIL_HALT, 9)
    assert "read_file has failed 8 times" in ended.error


async def test_the_same_result_again_and_again_ends_the_turn_after_five() -> None:
    ended, server = await turn([Say(calls=(Call("search_files", {"pattern": "x"}),))] * 9)
    assert (ended.reason, len(server.requests)) == (ExitReason.GUARDRAIL_HALT, 6)


async def test_test_edit_test_is_no_circle() -> None:
    replies: list[Reply] = []
    for n in range(7):
        replies += [run("false"), Say(calls=(Call("write_file", {"path": "a", "content": str(n)}),)), run(f"echo {n}")]
    ended, _ = await turn([*replies, Say("done")])
    assert ended.reason is ExitReason.TEXT_RESPONSE


async def test_waiting_for_a_process_is_no_circle() -> None:
    start = Say(calls=(Call("terminal", {"command": "sleep 60", "background": True}),))
    replies: list[Reply] = [start, *[Say(calls=(Call("process", {"action": "list"}),))] * 9, Say("done")]
    ended, _ = await turn(replies)
    assert ended.reason is ExitReason.TEXT_RESPONSE


@pytest.mark.parametrize(
    "command",
    ["sleep 0.01; cat a", "sleep .01 && cat missing", "cat missing || { sleep 0.01; false; }"],
)
async def test_a_command_that_sleeps_is_no_circle(command: str) -> None:
    ended, server = await turn([*[run(command)] * 9, Say("done")])
    assert ended.reason is ExitReason.TEXT_RESPONSE
    assert not any(b"will not help" in request.body for request in server.requests)


async def test_a_command_that_does_not_sleep_at_all_is_one() -> None:
    ended, _ = await turn([run("sleep 0; echo same")] * 9)
    assert ended.reason is ExitReason.GUARDRAIL_HALT


async def test_a_command_that_takes_real_time_is_no_circle() -> None:
    detector, box = LoopDetector(LoopLimits()), Toolbox([])
    call = ToolCallPart(call_id="a", name="terminal", arguments='{"command": "make"}')
    result = {"a": ToolResultPart(call_id="a", name="terminal", text="same", status=ToolStatus.OK)}
    for _ in range(9):
        found = detector.observe_round(CallRound(calls=[call], results=result, slow={"a"}), box)
        assert not found.stop and not found.warning


async def test_a_batch_counts_once() -> None:
    calls = tuple(Call("read_file", {"path": f"missing{n}"}) for n in range(8))
    ended, server = await turn([Say(calls=calls), Say("I see")])
    assert (ended.reason, len(server.requests)) == (ExitReason.TEXT_RESPONSE, 2)


@pytest.mark.parametrize(("key", "halts"), [("hard_stop_enabled", False), ("warnings_enabled", True)])
async def test_each_half_can_be_turned_off(key: str, halts: bool) -> None:
    ended, server = await turn([*[run("exit 1")] * 6, Say("done")], **{key: False})
    assert (ended.reason is ExitReason.GUARDRAIL_HALT) is halts
    assert any(b"will not help" in request.body for request in server.requests) is not halts


def test_other_limits_count() -> None:
    guard = LoopDetector(LoopLimits())
    toolbox: Toolbox = ToolRegistry().select_tools(("terminal",))
    call = ToolCallPart(call_id="c", name="terminal", arguments="{}")
    result = ToolResultPart(call_id="c", name="terminal", text="no", status=ToolStatus.REFUSED)
    found = [guard.observe_round(CallRound(calls=(call,), results={"c": result}), toolbox) for _ in range(5)]
    assert [bool(one.warning) for one in found] == [False, True, True, True, False]
    assert found[-1].stop
