"""Model calls against a server on loopback: answers, failures as values, trying again, stopping."""

import asyncio
import itertools
import json
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from hermes.core.events import Event, Notice, Retrying
from hermes.core.frame import EpochFrame
from hermes.core.messages import FinishReason, Message, Origin, Role, TextPart, user_message
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import HttpTimeouts
from hermes.core.stream import Answer, CallStarted, Failure, ReasoningDelta, TextDelta
from hermes.core.usage import Usage
from hermes.llm.client import ModelClient, RetryLimits
from hermes.llm.key_pool import KeyPool, KeySlot
from hermes.llm.key_sources import LiteralKeySource
from hermes.llm.lineage import Lineage
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from tests.providers.loopback_server import Reply, chat_chunk, loopback, sse

KEY = "key-" + "5" * 20
HELLO = sse(chat_chunk({"content": "Hel"}), chat_chunk({"content": "lo"}, "stop", usage={"prompt_tokens": 3}))


class HeldClock:
    """A clock that only moves when somebody sleeps."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> float:
        return 1_700_000_000.0

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class HastyClock(HeldClock):
    """A clock on which a second passes between any two looks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


class Asked:
    """What one call gave: its outcome, its events, how long it slept."""

    def __init__(self, *, answered: bool = False, brief: bool = False, keys: KeyPool | None = None) -> None:
        self.keys = keys
        self.answered = answered
        self.brief = brief
        self.events: list[Event] = []
        self.clock = HeldClock()
        self.outcome: Answer | Failure | None = None

    async def emit(self, event: Event) -> None:
        self.events.append(event)

    async def ask(
        self, url: str, *, api_mode: str = "", read: float = 60.0, retries: int | None = None, seconds: float = 300.0
    ) -> "Asked":
        choice = ModelChoice("m", "custom", base_url=f"{url}/v1", api_key=KEY, api_mode=api_mode)
        endpoint = resolve_endpoint(choice, {})
        frame = EpochFrame(provider="custom", model="m", wire=endpoint.wire, encoder_version=1, system="s")
        lineage = Lineage(frame, endpoint)
        lineage.append_messages([user_message("hi")])
        if self.answered:
            origin = Origin("custom", "m", endpoint.wire)
            before = Message(Role.ASSISTANT, (TextPart("before"),), origin=origin)
            lineage.append_messages([before, user_message("and")])
        client = ModelClient(
            endpoint,
            create_http_transport({}),
            self.clock,
            keys=self.keys,
            limits=RetryLimits(retries=retries, seconds=seconds),
            timeouts=HttpTimeouts(connect=60.0, read=read),
        )
        try:
            self.outcome = await client.request_answer(lineage, self.emit, brief=self.brief)
        finally:
            await client.close()
        return self

    @property
    def failure(self) -> Failure:
        assert isinstance(self.outcome, Failure)
        return self.outcome

    @property
    def answer(self) -> Answer:
        assert isinstance(self.outcome, Answer), self.outcome
        return self.outcome


async def test_a_streamed_answer() -> None:
    async with loopback(HELLO) as server:
        asked = await Asked().ask(server.url)
    assert asked.events == [TextDelta("Hel"), TextDelta("lo")]
    assert asked.answer.message.text == "Hello"
    assert asked.answer.usage == Usage(input=3)
    [request] = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    assert request.json["messages"] == [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]


async def test_the_other_wires() -> None:
    message = {"type": "message", "id": "x", "content": [{"type": "output_text", "text": "Hi"}]}
    done = {"type": "response.completed", "response": {"status": "completed", "output": [message]}}
    async with loopback(sse(done, done=False)) as server:
        asked = await Asked().ask(server.url, api_mode="responses")
    assert (asked.answer.message.text, server.requests[0].path) == ("Hi", "/v1/responses")
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "Hm"}}
    call = {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "t"}}
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    events = [(event["type"], event) for event in (block, call, stop, {"type": "message_stop"})]
    async with loopback(sse(*events, done=False)) as server:
        asked = await Asked().ask(server.url, api_mode="anthropic_messages")
    assert asked.events == [ReasoningDelta("Hm"), CallStarted(call_id="a", name="t")]
    [request] = server.requests
    assert (request.path, request.headers["x-api-key"]) == ("/v1/messages", KEY)
    assert request.headers["anthropic-version"] == "2023-06-01"


async def test_texts_that_arrive_together_go_out_together() -> None:
    parts = sse(*(chat_chunk({"content": word}) for word in ("a", "b", "c")), chat_chunk({}, "stop")).parts
    reply = Reply(headers={"content-type": "text/event-stream"}, parts=[b"".join(parts)])
    async with loopback(reply) as server:
        assert (await Asked().ask(server.url)).events == [TextDelta("abc")]


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "text/plain", "text/html"])
async def test_answers_that_are_not_streamed(kind: str) -> None:
    choice = {"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    whole = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
    for parts in ([whole], HELLO.parts):
        async with loopback(Reply(headers={"content-type": kind}, parts=parts)) as server:
            assert (await Asked().ask(server.url)).answer.message.text.startswith("H")


@pytest.mark.parametrize("page", [b"<html><h1>Sign in</h1>", b"", b'{"ok": true}', b"[]", b"\xff\xfe"])
async def test_a_success_that_is_no_answer(page: bytes) -> None:
    async with loopback(Reply(headers={"content-type": "text/html"}, parts=[page] if page else [])) as server:
        failure = (await Asked().ask(server.url)).failure
    assert failure.kind is FailureKind.BAD_RESPONSE
    assert "text/html instead of an event stream" in failure.message and "base_url" in failure.hint
    assert len(server.requests) == 1


def refusal(status: int, body: object, **headers: str) -> Reply:
    return Reply(
        status=status, headers={"content-type": "application/json", **headers}, parts=[json.dumps(body).encode()]
    )


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_passes_is_tried_again(status: int) -> None:
    async with loopback(refusal(status, {"error": {"message": "later"}}), HELLO) as server:
        asked = await Asked().ask(server.url)
    assert asked.answer.message.text == "Hello"
    [retrying] = [event for event in asked.events if isinstance(event, Retrying)]
    assert retrying.attempt == 1 and retrying.message == f"{here(server.url)} answered {status}: later"
    assert asked.clock.slept == [retrying.delay] and 5.0 <= retrying.delay <= 7.5
    assert server.requests[0].body == server.requests[1].body


async def test_waiting_doubles_and_ends() -> None:
    async with loopback(refusal(500, {"error": "x"})) as server:
        asked = await Asked().ask(server.url)
    assert (asked.failure.kind, asked.failure.retryable) == (FailureKind.SERVER_ERROR, True)
    assert len(server.requests) == 1 + len(asked.clock.slept)
    for step, slept in zip((5, 10, 20, 40), asked.clock.slept, strict=False):
        assert step <= slept <= 1.5 * step
    # After them pauses have the same length until all of the time is used: the last one ends with it.
    assert set(asked.clock.slept[4:-1]) == {60.0} and sum(asked.clock.slept) == pytest.approx(300.0)
    retrying = [event for event in asked.events if isinstance(event, Retrying)]
    assert [event.attempt for event in retrying] == list(range(1, len(retrying) + 1))
    assert retrying[0].until == HeldClock().now() + 300.0


async def test_a_number_of_calls_can_be_set_and_no_second_try() -> None:
    async with loopback(refusal(500, {"error": "x"})) as server:
        asked = await Asked().ask(server.url, retries=1)
        assert (len(server.requests), len(asked.clock.slept)) == (2, 1)
        asked = await Asked().ask(server.url, seconds=0.0)
        assert (len(server.requests), asked.clock.slept) == (3, [])


async def test_a_key_whose_server_failed_before_still_gives_way_to_another() -> None:
    pool = KeyPool("p", [KeySlot(name, LiteralKeySource(name * 20, ""), key=name * 20) for name in "ab"], HeldClock())
    async with loopback(refusal(500, {}), refusal(402, {}), HELLO) as server:
        asked = await Asked(keys=pool).ask(server.url)
    assert asked.answer.message.text == "Hello"
    assert [request.headers["authorization"][-1] for request in server.requests] == ["a", "a", "b"]


async def test_where_another_model_can_answer_there_is_one_more_try() -> None:
    async with loopback(refusal(529, {"error": "x"})) as server:
        asked = await Asked(brief=True).ask(server.url)
        assert (len(server.requests), len(asked.clock.slept)) == (2, 1)
    async with loopback(refusal(429, {}, **{"retry-after": "16"})) as server:
        await Asked(brief=True).ask(server.url)
        assert len(server.requests) == 1
    async with loopback(refusal(429, {}, **{"retry-after": "15"}), HELLO) as server:
        assert (await Asked(brief=True).ask(server.url)).clock.slept == [15.0]


async def test_a_server_that_always_says_at_once_is_not_flooded() -> None:
    async with loopback(refusal(503, {}, **{"retry-after": "0"})) as server:
        asked = await Asked().ask(server.url)
    assert asked.clock.slept[:2] == [0.0, 0.0] and min(asked.clock.slept[2:-1]) >= 5.0
    assert len(server.requests) < 20


PAGES = [
    Reply(headers={"content-type": "text/html"}, parts=[b"<html><h1>Sign in</h1>"]),
    Reply(headers={"content-type": "text/html"}, parts=[]),
    Reply(status=302, headers={"location": "http://portal.example/"}),
    Reply(status=403, headers={"content-type": "text/html"}, parts=[b"<html>blocked"]),
    Reply(status=404, parts=[b"<!DOCTYPE html><p>Not here"]),
    Reply(raw=[], end="cut"),
]


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_in_the_place_of_a_known_server_passes(page: Reply) -> None:
    async with loopback(page, HELLO) as server:
        asked = await Asked(answered=True).ask(server.url)
    assert asked.answer.message.text == "Hello" and len(server.requests) == 2
    assert all(event.until for event in asked.events if isinstance(event, Retrying))


@pytest.mark.parametrize("page", PAGES[:-1])
async def test_a_page_of_an_unknown_server_is_told_at_once(page: Reply) -> None:
    async with loopback(page, HELLO) as server:
        asked = await Asked().ask(server.url)
    assert not asked.failure.retryable and len(server.requests) == 1


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:30 GMT"}, 10.0),
        ({"retry-after": "0"}, 0.0),
    ],
)
async def test_the_providers_own_wish(headers: dict[str, str], delay: float) -> None:
    async with loopback(refusal(429, {"error": {"message": "slow"}}, **headers), HELLO) as server:
        assert (await Asked().ask(server.url)).clock.slept == [delay]


async def test_a_wish_that_is_too_long_is_a_failure() -> None:
    async with loopback(refusal(429, {}, **{"retry-after": "3600"})) as server:
        asked = await Asked().ask(server.url)
    assert (asked.failure.kind, asked.failure.retry_after) == (FailureKind.RATE_LIMIT, 3600.0)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
async def test_what_does_not_pass_is_not_tried_again(status: int) -> None:
    async with loopback(refusal(status, {"error": {"message": "no"}})) as server:
        asked = await Asked().ask(server.url)
    assert (asked.failure.status, asked.failure.retryable, len(server.requests)) == (status, False, 1)


async def test_a_key_that_a_server_repeats_is_not_shown() -> None:
    async with loopback(refusal(401, {"error": {"message": f"Incorrect API key provided: {KEY}."}})) as server:
        failure = (await Asked().ask(server.url)).failure
    assert failure.kind is FailureKind.AUTH
    assert KEY not in failure.message and "[key]" in failure.message
    assert KEY not in repr(failure)


async def test_a_moved_api_is_named() -> None:
    async with loopback(Reply(status=308, headers={"location": "https://new.example/v1"})) as server:
        failure = (await Asked().ask(server.url)).failure
    assert "moved to https://new.example/v1" in failure.message and "model.base_url" in failure.hint


async def test_a_cut_stream_gives_what_had_arrived() -> None:
    call = chat_chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"x'}}]})
    for end in ("cut", "close"):
        async with loopback(sse(chat_chunk({"content": "Half"}), call, done=False, end=end)) as server:
            asked = await Asked().ask(server.url)
        assert (asked.failure.kind, len(server.requests), asked.clock.slept) == (FailureKind.CUT, 1, [])
        partial = asked.failure.partial
        assert partial is not None and partial.text == "Half" and partial.finish is FinishReason.CUT
        assert not list(partial.tool_calls())


async def test_a_stream_that_is_cut_before_any_word_came_is_tried_again() -> None:
    nothing = [
        sse(done=False, end="cut"),
        sse(done=False),
        sse(": hello", done=False, end="close"),
        sse(chat_chunk({"content": "\n\n"}), done=False, end="cut"),
        Reply(raw=[], end="cut"),
    ]
    for reply in nothing:
        async with loopback(reply, HELLO) as server:
            asked = await Asked().ask(server.url)
        assert (asked.answer.message.text, len(asked.clock.slept)) == ("Hello", 1)


async def test_an_answer_that_was_whole_is_not_lost_to_what_came_after() -> None:
    whole = [chat_chunk({"content": "Hi"}), chat_chunk({}, "stop")]
    for reply in (sse(*whole, done=False, end="cut"), sse(*whole, {"error": {"message": "late"}}), sse(*whole, "junk")):
        async with loopback(reply) as server:
            assert (await Asked().ask(server.url)).answer.message.text == "Hi"


def here(url: str) -> str:
    """How messages name a server of one's own."""
    return f"The server at {urlsplit(url).netloc}"


async def test_an_error_inside_the_stream() -> None:
    broken = {"error": {"message": "Overloaded", "type": "overloaded_error"}}
    async with loopback(sse(broken, done=False), HELLO) as server:
        assert (await Asked().ask(server.url)).answer.message.text == "Hello"
    async with loopback(sse(chat_chunk({"content": "Half"}), broken, done=False)) as server:
        failure = (await Asked().ask(server.url)).failure
    assert (failure.kind, failure.partial is not None) == (FailureKind.OVERLOADED, True)
    assert failure.message == f"{here(server.url)} broke the answer off: Overloaded"


async def test_garbage_instead_of_json() -> None:
    async with loopback(sse("{not json", done=False)) as server:
        asked = await Asked().ask(server.url, retries=1)
    assert (asked.failure.kind, len(server.requests)) == (FailureKind.BAD_RESPONSE, 2)


async def test_a_connection_serves_again_after_the_end_mark() -> None:
    clock, events = HeldClock(), Asked()
    async with loopback(HELLO) as server:
        endpoint = resolve_endpoint(ModelChoice("m", "custom", base_url=server.url), {})
        lineage = Lineage(
            EpochFrame(provider="c", model="m", wire=endpoint.wire, encoder_version=1, system=""), endpoint
        )
        client = ModelClient(endpoint, create_http_transport({}), clock)
        for _ in range(3):
            assert isinstance(await client.request_answer(lineage, events.emit), Answer)
        await client.close()
    assert server.connections == 1


async def test_a_server_that_never_ends_its_stream_is_not_waited_for() -> None:
    async with loopback(sse(chat_chunk({"content": "Hi"}, "stop"), end="hang")) as server, asyncio.timeout(60):
        assert (await Asked().ask(server.url, read=600.0)).answer.message.text == "Hi"


async def test_a_server_that_says_nothing() -> None:
    async with loopback(Reply(raw=[], end="hang"), HELLO) as server:
        asked = await Asked().ask(server.url, read=0.05, retries=50)  # a starved server may be late again
    assert asked.answer.message.text == "Hello"
    assert {event.reason for event in asked.events if isinstance(event, Retrying)} == {"timeout"}


async def test_nobody_listens() -> None:
    async with loopback(HELLO) as server:
        url = server.url
    asked = await Asked().ask(url, retries=2)
    assert (asked.failure.kind, len(asked.clock.slept)) == (FailureKind.UNREACHABLE, 2)
    assert asked.failure.message.startswith("Nothing answers at 127.0.0.1:")
    # One that was never there is told soon; one that has answered may come back.
    assert (await Asked().ask(url)).clock.slept == [0.5, 0.5]
    slept = (await Asked(answered=True).ask(url)).clock.slept
    assert sum(slept) == pytest.approx(300.0) and len(slept) > 8


async def test_cancelling_closes_the_connection_at_once() -> None:
    replies = [sse(chat_chunk({"content": "Hi"}), done=False, end="hang"), Reply(raw=[], end="hang")]
    for reply in replies:
        async with loopback(reply) as server:
            asked = Asked()
            task = asyncio.create_task(asked.ask(server.url, read=600.0))
            await asyncio.wait_for(server.asked.wait(), 60)
            task.cancel()
            await asyncio.wait_for(server.gone.wait(), 60)
            with pytest.raises(asyncio.CancelledError):
                await task


EMPTY = [{"content": ""}, {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]}]


@pytest.mark.parametrize("ping", [b": ping\n\n", *(sse(chat_chunk(delta), done=False).parts[0] for delta in EMPTY)])
async def test_pings_keep_an_answer_alive_for_a_while_only(ping: bytes) -> None:
    asked = Asked()
    asked.clock = HastyClock()
    reply = Reply(headers=HELLO.headers, parts=[ping] * 1_000, end="hang")
    async with loopback(reply) as server:
        await asked.ask(server.url, retries=0, read=5.0)
        await asyncio.wait_for(server.gone.wait(), 60)
    assert (asked.failure.kind, asked.failure.retryable) == (FailureKind.TIMEOUT, True)
    assert "alive for 15 s and said nothing" in asked.failure.message


async def test_a_long_call_is_no_silence() -> None:
    asked = Asked()
    asked.clock = HastyClock()
    start = {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "t", "arguments": '{"x": "'}}]}
    piece = chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": "yy"}}]})
    end = chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]}, "tool_calls")
    async with loopback(sse(chat_chunk(start), *[piece] * 300, end)) as server:
        await asked.ask(server.url, retries=0, read=20.0)
    [call] = asked.answer.message.tool_calls()
    assert len(call.arguments) == len('{"x": ""}') + 600


async def test_an_answer_without_end_is_ended() -> None:
    flood = sse(*[chat_chunk({"content": "y" * 2_000_000})] * 10, done=False)
    async with loopback(flood) as server:
        asked = await Asked().ask(server.url)
    assert (asked.failure.kind, asked.failure.retryable) == (FailureKind.BAD_RESPONSE, False)
    assert "more than 16,777,216 characters" in asked.failure.message


async def test_an_errors_body_is_not_waited_for_for_ever() -> None:
    head = b"HTTP/1.1 500 No\r\nconnection: close\r\n\r\nThe engine is on fire"
    async with loopback(Reply(raw=[head], end="hang")) as server:
        failure = (await Asked().ask(server.url, retries=0, read=0.2)).failure
    assert failure.status == 500 and "The engine is on fire" in failure.message
    async with loopback(Reply(raw=itertools.chain([head], itertools.repeat(b"!")), end="hang")) as server:
        failure = (await Asked().ask(server.url, retries=0, read=0.2)).failure
    assert failure.status == 500 and "on fire" in failure.message


REFUSED_BETA = json.dumps(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "The long context beta is not yet available for this subscription.",
        },
    }
).encode()


async def test_a_refused_beta_is_left_out_for_good() -> None:
    """RC-05. The person has named a beta in `headers:`, which the account has not."""
    refusal = Reply(status=400, headers={"content-type": "application/json"}, parts=[REFUSED_BETA])
    async with loopback(refusal, HELLO, HELLO) as server:
        endpoint = resolve_endpoint(ModelChoice("m", "custom", base_url=f"{server.url}/v1", api_key=KEY), {})
        fields = {"Anthropic-Beta": "context-1m", "x-team": "a"}
        quirks = structs.replace(endpoint.record.quirks, extra_headers=fields)
        endpoint = structs.replace(endpoint, record=structs.replace(endpoint.record, quirks=quirks))
        frame = EpochFrame(provider="custom", model="m", wire=endpoint.wire, encoder_version=1, system="s")
        lineage = Lineage(frame, endpoint)
        lineage.append_messages([user_message("hi")])
        asked = Asked()
        client = ModelClient(endpoint, create_http_transport({}), asked.clock)
        try:
            for _ in range(2):
                assert isinstance(await client.request_answer(lineage, asked.emit), Answer)
        finally:
            await client.close()
    assert ["anthropic-beta" in one.headers for one in server.requests] == [True, False, False]
    assert all(one.headers["x-team"] == "a" for one in server.requests) and not asked.clock.slept
    assert [one for one in asked.events if isinstance(one, Notice)]
    async with loopback(refusal) as server:
        asked = await Asked().ask(server.url)
    assert asked.failure.kind is FailureKind.LONG_CONTEXT_TIER and len(server.requests) == 1
