"""A turn whose process died goes on from its last stored step. The state that a dead process leaves is written by hand
here, step by step; `make torture` and tests/attack/test_crash.py kill real ones."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from hermes.agent import prompts
from hermes.core.errors import StoreError
from hermes.core.events import Event, RequestStarted, TurnResumed
from hermes.core.messages import (
    FinishReason,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    program_message,
    user_message,
)
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import Intent
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.store.messages import TranscriptEntry
from hermes.store.store import Store
from hermes.store.turns import TurnOwner
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Reply, Say
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock

ASKED = user_message("do it")


def said(text: str, finish: FinishReason = FinishReason.STOP) -> Message:
    return Message(role=Role.ASSISTANT, parts=(TextPart(text=text),), finish=finish)


def calling(*calls: tuple[str, str, str]) -> Message:
    parts = tuple(ToolCallPart(call_id=call_id, name=name, arguments=arguments) for call_id, name, arguments in calls)
    return Message(role=Role.ASSISTANT, parts=parts, finish=FinishReason.TOOL_CALLS)


@dataclass
class Left:
    """What a dead process has left behind."""

    messages: Sequence[Message]
    intents: Sequence[Intent] = ()
    done: Sequence[ToolResultPart] = ()
    stopping: bool = False


async def leave(home: TempHome, left: Left) -> str:
    """A session with one whole turn, and a second one that was cut off."""
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        await actor.post(InboundMessage(text="hi", cwd=str(home.cwd)))
        name = actor.session_id
    store = await Store.open(home.hermes, SystemClock())
    entries = [
        TranscriptEntry(session_id=name, epoch=1, turn_id="turn_1", messages=(one,), fence=1) for one in left.messages
    ]
    await store.messages.start_turn(entries[0])
    for entry in entries[1:]:
        await store.messages.append_with_next(entry)
    if left.intents:
        await store.turns.record_intents("turn_1", left.intents, fence=1)
    for result in left.done:
        await store.turns.record_result("turn_1", result, fence=1)
    if left.stopping:
        await store.turns.mark_stopping(TurnOwner("turn_1", 1))
    await store.close()
    return name


@dataclass
class Outcome:
    reason: ExitReason
    text: str
    events: list[Event]
    server: ScriptedServer


async def resumed(left: Left, replies: list[Reply], *, more: str = "") -> Outcome:
    """Resume what was left; with `more` by saying something."""
    async with ScriptedServer([Say("hello"), *replies]) as server:
        with TempHome.for_server(server.url) as home:
            (home.cwd / "a").write_text("apple\n")
            name = await leave(home, left)
            events: list[Event] = []
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session(name)
                actor.subscribe(events.append)
                ending = actor.post(InboundMessage(text=more)) if more else actor.resume()
                assert ending is not None
                async with asyncio.timeout(60):
                    ended = await ending
            store = await Store.open(home.hermes, SystemClock())
            assert await store.turns.list_open(name) == []
            turn = await store.turns.get("turn_1")
            assert turn is not None and turn.fence == 2
            await store.close()
        check_prefixes(server.requests)
        assert [event.turn_id for event in events if isinstance(event, TurnResumed)] == ["turn_1"]
        return Outcome(ended.reason, ended.text, events, server)


async def test_a_question_without_an_answer_is_asked_again() -> None:
    outcome = await resumed(Left([ASKED]), [Say("done")])
    assert (outcome.reason, outcome.text) == (ExitReason.TEXT_RESPONSE, "done")
    assert outcome.server.requests[1].last_user_text == "do it"


async def test_finished_calls_are_not_repeated_and_one_under_way_is_uncertain() -> None:
    batch = calling(
        ("c1", "terminal", '{"command": "echo x >> ran"}'), ("c2", "terminal", '{"command": "echo y >> ran"}')
    )
    intents = [Intent(f"c{n}", "terminal", "{}", False) for n in (1, 2)]
    done = [ToolResultPart(call_id="c1", name="terminal", text="the first result")]
    outcome = await resumed(Left([ASKED, batch], intents, done), [Say("seen")])
    assert outcome.text == "seen"
    results = outcome.server.requests[1].results
    assert results["c1"] == "the first result"
    assert "check before doing it again" in results["c2"]


async def test_a_repeatable_call_runs_again_and_one_that_was_never_begun_runs() -> None:
    batch = calling(("c1", "read_file", '{"path": "a"}'), ("c2", "terminal", '{"command": "echo fresh"}'))
    outcome = await resumed(Left([ASKED, batch], [Intent("c1", "read_file", "{}", True)]), [Say("seen")])
    results = outcome.server.requests[1].results
    assert "apple" in results["c1"]
    assert "fresh" in results["c2"]


async def test_an_id_used_again_does_not_get_its_namesakes_result() -> None:
    batch = calling(("c1", "terminal", '{"command": "echo one"}'))
    again = calling(("c1", "terminal", '{"command": "echo two"}'))
    tools = Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c1", name="terminal", text="one"),))
    outcome = await resumed(Left([ASKED, batch, tools, again]), [Say("seen")])
    assert "two" in outcome.server.requests[1].results["c1"]


async def test_a_closed_batch_goes_on_with_the_request() -> None:
    tools = Message(role=Role.TOOL, parts=(ToolResultPart(call_id="c1", name="terminal", text="one"),))
    outcome = await resumed(Left([ASKED, calling(("c1", "terminal", "{}")), tools]), [Say("done")])
    assert (outcome.text, len(outcome.server.requests)) == ("done", 2)


async def test_an_answer_that_was_written_only_lacks_its_end() -> None:
    outcome = await resumed(Left([ASKED, said("all done")]), [])
    assert (outcome.reason, outcome.text) == (ExitReason.TEXT_RESPONSE, "all done")
    assert len(outcome.server.requests) == 1
    assert not any(isinstance(event, RequestStarted) for event in outcome.events)


@pytest.mark.parametrize("asked", [False, True])
async def test_an_answer_in_pieces_goes_on(asked: bool) -> None:
    messages = [ASKED, said("one ", FinishReason.LENGTH)]
    if asked:
        messages.append(program_message(Role.USER, prompts.CONTINUE_TEXT))
    outcome = await resumed(Left(messages), [Say("two")])
    assert (outcome.reason, outcome.text) == (ExitReason.TEXT_RESPONSE, "one two")


async def test_what_was_said_before_a_truncated_call_is_no_piece_of_the_answer() -> None:
    note = program_message(Role.USER, prompts.CALL_CUT.format(names="write_file"))
    outcome = await resumed(Left([ASKED, said("I write it now", FinishReason.LENGTH), note]), [Say("done")])
    assert (outcome.reason, outcome.text) == (ExitReason.TEXT_RESPONSE, "done")


async def test_a_turn_that_was_being_stopped_is_closed_and_not_gone_on_with() -> None:
    batch = calling(("c1", "terminal", '{"command": "touch ran"}'))
    outcome = await resumed(Left([ASKED, batch], [Intent("c1", "terminal", "{}", False)], stopping=True), [])
    assert outcome.reason is ExitReason.INTERRUPTED
    assert len(outcome.server.requests) == 1


async def test_new_words_join_the_resumed_turn_at_its_boundary() -> None:
    batch = calling(("c1", "terminal", '{"command": "echo fresh"}'))
    outcome = await resumed(Left([ASKED, batch]), [Say("both done")], more="and hurry")
    assert outcome.text == "both done"
    assert "and hurry" in outcome.server.requests[1].body.decode()
    assert len(outcome.server.requests) == 2


async def test_new_words_get_their_own_turn_when_the_resumed_one_has_no_boundary() -> None:
    outcome = await resumed(Left([ASKED]), [Say("the old"), Say("the new")], more="next")
    assert outcome.text == "the new"
    assert outcome.server.requests[2].last_user_text.startswith("next")


async def test_who_was_taken_for_dead_can_write_no_more() -> None:
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            name = await leave(home, Left([ASKED]))
            store = await Store.open(home.hermes, SystemClock())
            assert await store.turns.adopt("turn_1") == 2
            entry = TranscriptEntry(session_id=name, epoch=1, turn_id="turn_1", messages=(said("late"),), fence=1)
            for write in (
                store.messages.append_with_next(entry),
                store.turns.record_intents("turn_1", [Intent("c", "terminal", "", False)], fence=1),
                store.turns.end("turn_1", ExitReason.TEXT_RESPONSE, fence=1),
            ):
                with pytest.raises(StoreError, match="another one went on"):
                    await write
            await store.close()


async def test_words_do_not_overtake_those_that_a_dead_process_has_left_waiting() -> None:
    batch = calling(("c1", "terminal", '{"command": "echo fresh"}'))
    replies = [Say("the old"), Say("the earlier"), Say("the later")]
    async with ScriptedServer([Say("hello"), *replies]) as server:
        with TempHome.for_server(server.url) as home:
            name = await leave(home, Left([ASKED, batch]))
            store = await Store.open(home.hermes, SystemClock())
            await store.inbox.enqueue(name, "letter_1", InboundMessage(text="earlier").encode())
            await store.close()
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session(name)
                async with asyncio.timeout(60):
                    assert (await actor.post(InboundMessage(text="later"))).text == "the later"
        said = [request.last_user_text.partition("\n")[0] for request in server.requests]
        assert said == ["hi", "do it", "earlier", "later"]
        check_prefixes(server.requests)


async def test_who_was_taken_for_dead_begins_no_epoch_either() -> None:
    async with ScriptedServer([Say("hello")]) as server:
        with TempHome.for_server(server.url) as home:
            name = await leave(home, Left([ASKED]))
            store = await Store.open(home.hermes, SystemClock())
            epoch = await store.epochs.get_open(name)
            assert epoch is not None
            await store.turns.adopt("turn_1")
            with pytest.raises(StoreError, match="another one went on"):
                await store.epochs.begin(name, epoch.frame, "late", TurnOwner("turn_1", 1))
            await store.turns.mark_stopping(TurnOwner("turn_1", 1))
            turn = await store.turns.get("turn_1")
            assert turn is not None and not turn.stopping
            await store.close()


async def test_thoughts_without_an_answer_are_asked_on() -> None:
    thought = Message(role=Role.ASSISTANT, parts=(ReasoningPart(text="hm"),), finish=FinishReason.STOP)
    outcome = await resumed(Left([ASKED, thought]), [Say("so")])
    assert (outcome.reason, outcome.text) == (ExitReason.TEXT_RESPONSE, "so")


CODE = json.dumps({"code": 'print(read_file(path="a").split("|")[-1].strip())'})
CALLED = ToolResultPart(call_id="c.1", name="terminal", text="done")


async def test_code_that_has_made_no_call_runs_again() -> None:
    left = Left([ASKED, calling(("c", "execute_code", CODE))], [Intent("c", "execute_code", CODE, True)])
    outcome = await resumed(left, [Say("an apple")])
    assert outcome.text == "an apple"
    assert "apple" in outcome.server.requests[-1].conversation[-1].text


async def test_what_the_model_is_told_of_stopped_code_is_that_its_outcome_is_unknown() -> None:
    intents = [Intent("c", "execute_code", CODE, True), Intent("c.1", "terminal", "{}", False)]
    left = Left([ASKED, calling(("c", "execute_code", CODE))], intents, [CALLED], stopping=True)
    outcome = await resumed(left, [Say("well")], more="And now?")
    told = outcome.server.requests[-1].body.decode()
    assert prompts.CRASHED_CALL[:60] in told


async def test_a_call_of_the_model_s_own_whose_id_looks_like_one_of_code_s_keeps_its_result() -> None:
    """As older versions have stored it: nothing is run twice for it."""
    calls = calling(("c", "read_file", '{"path": "a"}'), ("c.1", "terminal", '{"command": "echo again >> b"}'))
    intents = [Intent("c", "read_file", "{}", True), Intent("c.1", "terminal", "{}", False)]
    outcome = await resumed(Left([ASKED, calls], intents, [CALLED]), [Say("well")])
    assert outcome.text == "well"
    assert "done" in outcome.server.requests[-1].body.decode()
