"""What is done with answers that are cut, empty, broken or full of calls that cannot be run."""

import asyncio

import pytest

from hermes.core.events import Event, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.stream import TextDelta
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say
from hermes.testing.server import ScriptedServer


async def turn(replies: list[Reply], **options: int) -> tuple[TurnEnded, ScriptedServer]:
    async with ScriptedServer(replies) as server:
        config = {"agent": {"api_max_retries": 0}}
        with TempHome.for_server(server.url, more_config=config) as home:
            (home.cwd / "a").write_text("apple\n")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), max_turns=options.get("max_turns"))) as app:
                actor = await app.open_session()
                ended = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
        check_prefixes([request for request in server.requests if request.tools])
        return ended, server


async def test_a_cut_answer_is_continued_and_joined() -> None:
    ended, server = await turn([Say("one ", finish="length"), Say("two ", finish="length"), Say("three")])
    assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "one two three")
    assert "Go on exactly where it stopped" in server.requests[1].last_user_text


async def test_an_answer_that_is_cut_four_times_ends_as_truncated() -> None:
    ended, _ = await turn([Say("x", finish="length")] * 4)
    assert (ended.reason, ended.text) == (ExitReason.TRUNCATED, "xxxx")


async def test_a_truncated_call_is_not_run_and_the_model_is_asked_to_split_it() -> None:
    call = Call("write_file", '{"path": "b", "content": "quokk')
    ended, server = await turn([Say(calls=(call,), finish="length"), Say("smaller then")])
    assert ended.text == "smaller then"
    assert "write_file" in server.requests[1].last_user_text
    assert "quokk" not in server.requests[1].body.decode()


async def test_thinking_that_uses_up_the_answer_is_an_error() -> None:
    ended, server = await turn([Say("", reasoning="hm " * 50, finish="length")])
    assert ended.reason is ExitReason.THINKING_EXHAUSTED
    assert "max_tokens" in ended.error
    assert len(server.requests) == 1


async def test_empty_answers_are_asked_for_again_and_end_by_name() -> None:
    ended, server = await turn([Say("")] * 4)
    assert (ended.reason, ended.text, len(server.requests)) == (ExitReason.EMPTY_RESPONSE, "(empty)", 4)
    ended, server = await turn([Say(""), Say("here")])
    assert (ended.text, len(server.requests)) == ("here", 2)


async def test_an_empty_answer_after_tools_is_nudged_once() -> None:
    ended, server = await turn([Say(calls=(Call("read_file", {"path": "a"}),)), Say(""), Say("apple")])
    assert ended.text == "apple"
    assert "last answer was empty" in server.requests[2].last_user_text


@pytest.mark.parametrize(
    "name",
    ["Read_File", "readfile", "functions.read_file:0", "read_file<|channel|>commentary", "default_api.read_file"],
)
async def test_a_mistyped_tool_is_mended(name: str) -> None:
    ended, server = await turn([Say(calls=(Call(name, {"path": "a"}),)), Say("ok")])
    assert ended.text == "ok"
    assert "apple" in next(iter(server.requests[1].results.values()))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", '{"path": "a",}'),
        ("read_file", '"{\\"path\\": \\"a\\"}"'),
        ("read_file", '```json\n{"path": "a"}\n```'),
        ("read_file", "{'path': 'a'}"),
        ("call_tool", '{"name": "read_file", "arguments": {"path": "a"}}'),
    ],
)
async def test_arguments_whose_meaning_is_clear_are_mended_before_they_are_stored(name: str, arguments: str) -> None:
    ended, server = await turn([Say(calls=(Call(name, arguments),)), Say("ok")])
    assert ended.text == "ok"
    assert "apple" in next(iter(server.requests[1].results.values()))
    (call,) = server.requests[1].messages[2]["tool_calls"]
    assert (call["function"]["name"], call["function"]["arguments"].replace(" ", "")) == ("read_file", '{"path":"a"}')


async def test_an_unknown_tool_is_told_three_times_and_ends_the_turn_at_the_fourth() -> None:
    ended, server = await turn([Say(calls=(Call("frobnicate", {"n": n}),)) for n in range(5)])
    assert (ended.reason, len(server.requests)) == (ExitReason.INVALID_CALLS, 4)
    assert "read_file" in next(iter(server.requests[1].results.values()))


async def test_broken_arguments_are_never_run_as_empty_ones() -> None:
    broken = Say(calls=(Call("todo", '{"todos": [{"id"'),))
    ended, server = await turn([broken, broken, broken, broken])
    assert (ended.reason, len(server.requests)) == (ExitReason.INVALID_CALLS, 4)
    ended, server = await turn([broken, Say("fine")])
    assert ended.text == "fine"
    assert "JSON" in next(iter(server.requests[1].results.values())) or "cut off" in server.requests[1].body.decode()


async def test_the_same_call_twice_in_a_batch_runs_once() -> None:
    twice = (Call("terminal", {"command": "echo x >> log"}), Call("terminal", {"command": "echo x >> log"}))
    ended, server = await turn([Say(calls=twice), Say(calls=(Call("read_file", {"path": "log"}),)), Say("ok")])
    assert ended.text == "ok"
    assert list(server.requests[2].results.values())[2].count("|x") == 1


async def test_results_stand_in_call_order() -> None:
    calls = tuple(Call("terminal", {"command": f"sleep 0.{3 - n}; echo n{n}"}) for n in range(3))
    _, server = await turn([Say(calls=calls), Say("ok")])
    assert ["n0" in text or "n1" in text or "n2" in text for text in server.requests[1].results.values()] == [True] * 3
    assert [f"n{n}" in text for n, text in enumerate(server.requests[1].results.values())] == [True] * 3


async def test_a_stream_that_breaks_is_continued() -> None:
    cut = ReplyDelivery(ending=Ending.CUT, at=-3)
    ended, server = await turn([Say("one two three four", delivery=cut, chunk=4), Say(" and the rest")])
    assert ended.reason is ExitReason.TEXT_RESPONSE
    assert ended.text.startswith("one ")
    assert ended.text.endswith(" and the rest")
    assert "connection broke" in server.requests[1].last_user_text


async def test_what_was_said_before_a_truncated_call_is_not_the_answer() -> None:
    call = Call("write_file", '{"path": "b", "content": "lon')
    replies = [Say("first I ", finish="length"), Say("write", calls=(call,), finish="length"), Say("done")]
    ended, _ = await turn(replies)
    assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "done")


async def test_a_cut_answer_stands_when_only_empty_ones_follow() -> None:
    ended, server = await turn([Say("half of it", finish="length"), *[Say("")] * 4])
    assert (ended.reason, ended.text, len(server.requests)) == (ExitReason.PARTIAL_STREAM, "half of it", 5)


async def test_a_failure_names_what_the_provider_said() -> None:
    ended, _ = await turn([Fail(400, message="temperature must be a fish")])
    assert ended.reason is ExitReason.PROVIDER_ERROR
    assert "temperature must be a fish" in ended.error


async def test_calls_after_the_last_step_are_not_run() -> None:
    calling = Say("thinking", calls=(Call("terminal", {"command": "touch ran"}),))
    ended, server = await turn(
        [calling, Say("the end", calls=(Call("terminal", {"command": "touch ran2"}),))], max_turns=1
    )
    assert (ended.reason, ended.text) == (ExitReason.BUDGET_EXHAUSTED, "the end")
    assert len(server.requests) == 2


async def test_news_of_background_processes_joins_the_conversation() -> None:
    start = Call("terminal", {"command": "sleep 0.05; echo built", "background": True, "notify_on_complete": True})
    wait = Call("terminal", {"command": "sleep 0.3"})
    ended, server = await turn([Say(calls=(start,)), Say(calls=(wait,)), Say("ok")])
    assert ended.text == "ok"
    assert "exited with code 0" in server.requests[2].last_user_text


async def test_an_answer_beside_housekeeping_is_the_answer() -> None:
    call = Call("todo", {"todos": [{"id": "1", "content": "x", "status": "completed"}]})
    ended, server = await turn([Say("All is done.", calls=(call,)), Say("")])
    assert (ended.reason, ended.text, len(server.requests)) == (ExitReason.PRIOR_CONTENT, "All is done.", 2)


async def test_thoughts_without_an_answer_are_gone_on_from() -> None:
    ended, server = await turn([Say("", reasoning="hm"), Say("so")])
    assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "so")
    assert [one["role"] for one in server.requests[1].messages] == ["system", "user", "user"]
    assert "not answered" in server.requests[1].last_user_text


async def test_thoughts_alone_for_ever_end_by_name() -> None:
    ended, server = await turn([Say("", reasoning="hm")] * 9)
    assert (ended.reason, ended.text, len(server.requests)) == (ExitReason.EMPTY_RESPONSE, "(empty)", 6)


async def test_thoughts_in_tags_are_no_part_of_the_answer() -> None:
    look = Say("<think>\nI look.\n</think>\n\nLooking.", calls=(Call("read_file", {"path": "a"}),), chunk=3)
    ended, server = await turn([look, Say("<think>hm</think>", chunk=2), Say("<thinking>hm</thinking>\n\nso", chunk=5)])
    assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, "so")
    assert [one["content"] for one in server.requests[2].messages if one["role"] == "assistant"] == ["Looking."]
    assert "think>" not in server.requests[2].body.decode().partition('"messages"')[2]


async def test_a_server_that_goes_on_calling_at_the_end_is_asked_without_tools() -> None:
    look = Say(calls=(Call("read_file", {"path": "a"}),))
    ended, server = await turn([look, look, Say("I have read it once.")], max_turns=1)
    assert (ended.reason, ended.text) == (ExitReason.BUDGET_EXHAUSTED, "I have read it once.")
    assert [bool(request.tools) for request in server.requests] == [True, True, False]
    assert "no tool can be called" in server.requests[2].last_user_text
    assert server.requests[1].json["tool_choice"] == "none"


@pytest.mark.parametrize("last", [Say(calls=(Call("read_file", {"path": "a"}),)), Fail(400, message="tools!"), Say("")])
async def test_a_spent_budget_never_ends_in_an_empty_answer(last: Reply) -> None:
    look = Say(calls=(Call("read_file", {"path": "a"}),))
    ended, server = await turn([look, look, last], max_turns=1)
    assert (ended.reason, len(server.requests)) == (ExitReason.BUDGET_EXHAUSTED, 3)
    assert ended.text == "(The limit of steps for one turn was reached before an answer was written.)"


async def test_thoughts_alone_at_the_end_are_asked_for_in_words_with_the_same_tools() -> None:
    look = Say(calls=(Call("read_file", {"path": "a"}),))
    ended, server = await turn([look, Say("", reasoning="hm"), Say("so")], max_turns=1)
    assert (ended.reason, ended.text) == (ExitReason.BUDGET_EXHAUSTED, "so")
    assert server.requests[2].tools == server.requests[0].tools


WORDS = "The quick brown fox jumps over the lazy dog. "


@pytest.mark.parametrize("wire", ["chat_completions", "responses", "anthropic_messages"])
@pytest.mark.parametrize(
    "again", ["jumps over the lazy dog. It sleeps.", WORDS + "It sleeps.", "It sleeps.", " the lazy dog. It sleeps."]
)
async def test_what_a_continuation_repeats_is_neither_shown_nor_stored_twice(wire: str, again: str) -> None:
    cut = ReplyDelivery(ending=Ending.CUT, at=-4 if wire == "responses" else -3)
    shown: list[str] = []
    async with ScriptedServer([Say(WORDS, chunk=5, delivery=cut), Say(again, chunk=5), Say("next")]) as server:
        with TempHome.for_server(server.url, api_mode=wire) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                actor.subscribe(lambda event: shown.append(event.text) if isinstance(event, TextDelta) else None)
                ended = await actor.post(InboundMessage(text="go"))
                told = "".join(shown)
                await actor.post(InboundMessage(text="on"))
        check_prefixes(server.requests)
    assert ended.reason is ExitReason.TEXT_RESPONSE
    assert ended.text == told == WORDS + "It sleeps."
    assert server.requests[2].body.decode().count("lazy dog") == 1


async def test_a_continuation_that_only_repeats_ends_the_turn_with_what_was_said() -> None:
    cut = ReplyDelivery(ending=Ending.CUT, at=-3)
    ended, _ = await turn([Say(WORDS, chunk=5, delivery=cut), Say(WORDS)])
    assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, WORDS)


async def test_a_continuation_that_breaks_off_while_it_repeats_is_asked_for_again() -> None:
    cut = ReplyDelivery(ending=Ending.CUT, at=-3)
    short = ReplyDelivery(ending=Ending.CUT, at=3)
    replies: list[Reply] = [Say(WORDS, chunk=5, delivery=cut), Say(WORDS, chunk=5, delivery=short), Say("It sleeps.")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=ManualClock(auto=True)) as app:
                ended = await (await app.open_session()).post(InboundMessage(text="go"))
    assert (ended.reason, ended.text) == (ExitReason.TEXT_RESPONSE, WORDS + "It sleeps.")
    assert server.requests[1].body == server.requests[2].body


@pytest.mark.parametrize("wire", ["chat_completions", "anthropic_messages", "responses"])
async def test_what_was_said_before_a_stop_is_kept_and_told_to_the_model(wire: str) -> None:
    said = "The first half is this. " * 8
    held = Say(said + "The second half is that.", reasoning="hm", chunk=4, delivery=ReplyDelivery(hold_at=50))
    async with ScriptedServer([held, Say("That is the rest.")]) as server:
        with TempHome.for_server(server.url, api_mode=wire) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                shown: list[str] = []
                enough = asyncio.Event()

                def watch(event: Event) -> None:
                    if isinstance(event, TextDelta):
                        shown.append(event.text)
                        if len("".join(shown)) > 60:
                            enough.set()

                actor.subscribe(watch)
                running = actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                async with asyncio.timeout(60):
                    await enough.wait()
                actor.stop()
                ended = await running
                assert ended.reason is ExitReason.INTERRUPTED
                kept = "".join(shown).strip()
                rows = await app.services.store.messages.read(actor.session_id, everything=True)
                assert rows[-1].message.text.strip() == kept
                hasty = actor.post(InboundMessage(text="wait", cwd=str(home.cwd)))
                await asyncio.sleep(0)
                actor.stop()  # nothing was said in this turn, so nothing of the one before is kept again
                await hasty
                await actor.post(InboundMessage(text="go on", cwd=str(home.cwd)))
        second = server.requests[-1].body.decode()
        assert second.count(kept) == 1 and "Stopped by the user" in second and "hm" not in kept
        check_prefixes([request for request in server.requests if request.tools])


async def test_a_stop_before_a_word_leaves_only_the_note() -> None:
    async with ScriptedServer([Say("never", delivery=ReplyDelivery(hold_at=0)), Say("Here.")]) as server:
        with TempHome.for_server(server.url) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                running = actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                await server.wait_for(1)
                actor.stop()
                assert (await running).reason is ExitReason.INTERRUPTED
                await actor.post(InboundMessage(text="go on", cwd=str(home.cwd)))
        assert "(Stopped by the user before an answer was finished.)" in server.requests[-1].body.decode()
