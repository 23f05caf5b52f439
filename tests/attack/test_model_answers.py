"""Answers of a model or a server that no specification foresees: each ends by a name, and the session goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say, StreamError
from hermes.testing.server import ScriptedServer

DEEP = '{"a":' + "[" * 50_000 + "]" * 50_000 + "}"


@asynccontextmanager
async def raw_server(answer: bytes) -> AsyncIterator[str]:
    """A server that gives the same bytes to every request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


async def two_turns(home: TempHome) -> tuple[TurnEnded, TurnEnded]:
    async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
        actor = await app.open_session()
        first = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
        return first, await actor.post(InboundMessage(text="again", cwd=str(home.cwd)))


async def turns(*replies: Reply) -> tuple[TurnEnded, TurnEnded]:
    async with ScriptedServer([*replies, Say("fine"), Say("fine")]) as server:
        with TempHome.for_server(server.url, more_config={"agent": {"api_max_retries": 0}}) as home:
            return await two_turns(home)


ODD_CALLS = {
    "arguments nested too deeply": Call("todo", DEEP),
    "half a surrogate pair inside arguments of the wrong type": Call("todo", '{"todos": "\\ud83d"}'),
    "a number that no float holds": Call("todo", '{"todos": 1e999}'),
    "a null character in a path to read": Call("read_file", {"path": "a\0b"}),
    "a null character in a path to write": Call("write_file", {"path": "a\0b", "content": "x"}),
    "a null character in a folder to search": Call("search_files", {"pattern": "x", "path": "a\0b"}),
    "a null character in a path to patch": Call("patch", {"path": "\0", "old_string": "x", "new_string": "y"}),
    "a name of nonsense": Call("\0\ud83d" * 3000, "{}"),
    "an id of nonsense": Call("todo", "{}", call_id="\0\ud83d" * 300),
}


@pytest.mark.parametrize("call", ODD_CALLS.values(), ids=ODD_CALLS)
async def test_a_call_of_nonsense_is_answered_and_the_turn_goes_on(call: Call) -> None:
    first, second = await turns(Say(calls=(call,)))
    assert (first.reason, first.text) == (ExitReason.TEXT_RESPONSE, "fine")
    assert second.reason is ExitReason.TEXT_RESPONSE


@pytest.mark.parametrize("body", [DEEP, "null", '{"error": [1]}', '{"error": {"code": {}, "message": null}}'])
async def test_an_error_body_of_nonsense_is_an_error_by_name(body: str) -> None:
    first, second = await turns(Fail(400, body=body))
    assert first.reason is ExitReason.PROVIDER_ERROR
    assert second.reason is ExitReason.TEXT_RESPONSE


@pytest.mark.parametrize("number", ["1e999", "NaN", "-7", "9" * 30, '"5"', "null"])
async def test_usage_of_nonsense_loses_no_answer(number: str) -> None:
    events = [
        json.dumps({"choices": [{"delta": {"content": "kept"}, "finish_reason": "stop"}]}),
        f'{{"choices": [], "usage": {{"prompt_tokens": {number}, "completion_tokens": {number}}}}}',
        "[DONE]",
    ]
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with raw_server(head + body) as url:
        with TempHome.for_server(url) as home:
            first, second = await two_turns(home)
    assert (first.reason, first.text) == (ExitReason.TEXT_RESPONSE, "kept")
    assert second.reason is ExitReason.TEXT_RESPONSE


@pytest.mark.parametrize("length", [100, 110, 115, 385, 390, 395])
async def test_a_key_that_a_server_repeats_is_shown_in_no_part(length: int) -> None:
    key = "sk-" + "canary" * 6
    async with ScriptedServer([Fail(400, message="y" * length + key), Say("fine")]) as server:
        with TempHome.for_server(server.url) as home:
            home.write_config({"model": {"default": "m", "provider": "custom", "base_url": server.url, "api_key": key}})
            first, _ = await two_turns(home)
            stored = (home.hermes / "hermes.db").read_bytes()
    assert "sk-can" not in first.error
    assert b"sk-can" not in stored


async def test_an_answer_that_the_provider_could_not_finish_is_not_called_whole() -> None:
    first, _ = await turns(Say("half ", finish="network_error"), Say("and half"))
    assert first.text == "half and half"


async def test_an_answer_stopped_by_a_content_filter_is_not_called_whole() -> None:
    first, second = await turns(Say("half", finish="content_filter"))
    assert (first.reason, first.text) == (ExitReason.PROVIDER_ERROR, "half")
    assert "filter" in first.error
    assert second.reason is ExitReason.TEXT_RESPONSE


@pytest.mark.parametrize("api_mode", ["chat_completions", "responses", "anthropic_messages"])
@pytest.mark.parametrize(
    "broken",
    [
        Say("", reasoning="a long thought that is never finished", delivery=ReplyDelivery(ending=Ending.CUT, at=3)),
        Say("", calls=(Call("read_file", {"path": "x" * 200}),), delivery=ReplyDelivery(ending=Ending.CUT, at=3)),
        Say(
            "",
            reasoning="a long thought",
            delivery=ReplyDelivery(error=StreamError(type="overloaded_error"), error_at=3),
        ),
    ],
    ids=["thought", "call", "overloaded"],
)
async def test_a_stream_that_breaks_before_a_word_of_text_is_tried_again(api_mode: str, broken: Say) -> None:
    async with ScriptedServer([broken, Say("fine"), Say("fine")]) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd)), clock=ManualClock(auto=True)) as app:
                actor = await app.open_session()
                turn = actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
                assert (await turn).text == "fine"


@pytest.mark.parametrize("api_mode", ["chat_completions", "responses", "anthropic_messages"])
async def test_text_before_an_error_in_the_stream_is_kept(api_mode: str) -> None:
    broken = Say(
        "one two three four", chunk=4, delivery=ReplyDelivery(error=StreamError(type="overloaded_error"), error_at=5)
    )
    async with ScriptedServer([broken, Say("and the rest")]) as server:
        with TempHome.for_server(server.url, api_mode=api_mode) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                ended = await actor.post(InboundMessage(text="go", cwd=str(home.cwd)))
        assert ended.reason is ExitReason.TEXT_RESPONSE
        assert ended.text.startswith("one")
        assert ended.text.endswith("and the rest")
