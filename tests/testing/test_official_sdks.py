"""The official SDKs as judges: what the scripted server sends is what they parse, on every wire, streamed and whole."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError, RateLimitError

from hermes.core.usage import Usage
from hermes.testing.script import Call, Fail, ReplyDelivery, Say, ScriptedModel, StreamError
from hermes.testing.server import ScriptedServer

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

pytestmark = pytest.mark.slow

TEXT = "It says hello. 你好，世界 🙂 and goodbye."
FULL = Say(
    TEXT,
    reasoning="First I look, then I speak.",
    calls=(Call("read_file", {"path": "a.txt", "limit": 3}, "call_a"), Call("list", '{"deep": true}', "call_b")),
    usage=Usage(input=100, output=40, cache_read=60, cache_write=10, reasoning=9),
    chunk=5,
)
SAID = [("read_file", '{"path":"a.txt","limit":3}', "call_a"), ("list", '{"deep": true}', "call_b")]
CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read_file", "list")
]


def make_anthropic(server: ScriptedServer, **settings: int) -> "AsyncAnthropic":
    """Import the package where it is needed: it takes a second, in every worker, of which one runs these tests."""
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(base_url=server.url.removesuffix("/v1"), api_key="x", **settings)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(ScriptedModel(lambda _: FULL)) as running:
        yield running


@pytest.fixture
async def openai(server: ScriptedServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0) as client:
        yield client


@pytest.fixture
async def anthropic(server: ScriptedServer) -> AsyncIterator["AsyncAnthropic"]:
    async with make_anthropic(server, max_retries=0) as client:
        yield client


@pytest.mark.parametrize("streamed", [True, False])
async def test_chat(openai: AsyncOpenAI, streamed: bool) -> None:
    ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": CHAT_TOOLS}
    if streamed:
        async with openai.chat.completions.stream(**ask, stream_options={"include_usage": True}) as stream:
            kinds = [event.type async for event in stream]
            answer = await stream.get_final_completion()
        assert kinds.count("content.delta") == len(TEXT) // 5 + 1
        assert kinds.count("tool_calls.function.arguments.done") == 2
    else:
        answer = await openai.chat.completions.create(**ask)
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == TEXT
    assert choice.message.reasoning_content == FULL.reasoning
    assert [(c.function.name, c.function.arguments, c.id) for c in choice.message.tool_calls] == SAID
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (100, 40, 140)
    assert answer.usage.prompt_tokens_details.cached_tokens == 60
    assert answer.usage.completion_tokens_details.reasoning_tokens == 9


async def test_chat_sends_usage_only_when_asked(openai: AsyncOpenAI) -> None:
    ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    plain = [chunk async for chunk in await openai.chat.completions.create(**ask)]
    assert all(chunk.usage is None and chunk.choices for chunk in plain)
    asked = [
        chunk async for chunk in await openai.chat.completions.create(**ask, stream_options={"include_usage": True})
    ]
    assert [chunk.usage for chunk in asked[:-1]] == [None] * (len(asked) - 1)
    assert asked[-1].choices == [] and asked[-1].usage.total_tokens == 140
    first = plain[0].choices[0].delta
    assert (first.role, first.content) == ("assistant", "")


@pytest.mark.parametrize("streamed", [True, False])
async def test_responses(openai: AsyncOpenAI, streamed: bool) -> None:
    ask = {"model": "m", "input": "hi", "include": ["reasoning.encrypted_content"]}
    if streamed:
        async with openai.responses.stream(**ask) as stream:
            events = [event async for event in stream]
            answer = await stream.get_final_response()
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TEXT
    else:
        answer = await openai.responses.create(**ask)
    reasoning, message, *calls = answer.output
    assert reasoning.summary[0].text == FULL.reasoning and reasoning.encrypted_content == FULL.signature
    assert message.content[0].text == answer.output_text == TEXT
    assert [(call.name, call.arguments, call.call_id) for call in calls] == SAID
    assert answer.status == "completed" and answer.usage.total_tokens == 140
    assert answer.usage.input_tokens_details.cached_tokens == 60
    assert answer.usage.output_tokens_details.reasoning_tokens == 9


async def test_responses_encrypts_only_when_asked(openai: AsyncOpenAI) -> None:
    answer = await openai.responses.create(model="m", input="hi")
    assert answer.output[0].encrypted_content is None


@pytest.mark.parametrize("streamed", [True, False])
async def test_anthropic(anthropic: "AsyncAnthropic", streamed: bool) -> None:
    ask = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}]}
    if streamed:
        async with anthropic.messages.stream(**ask) as stream:
            kinds = [event.type async for event in stream]
            answer = await stream.get_final_message()
        assert {"text", "thinking", "signature", "input_json", "message_stop"} <= set(kinds)
    else:
        answer = await anthropic.messages.create(**ask)
    thinking, text, *calls = answer.content
    assert (thinking.thinking, thinking.signature) == (FULL.reasoning, FULL.signature)
    assert text.text == TEXT
    assert [(call.name, call.input, call.id) for call in calls] == [
        ("read_file", {"path": "a.txt", "limit": 3}, "call_a"),
        ("list", {"deep": True}, "call_b"),
    ]
    assert answer.stop_reason == "tool_use"
    used = answer.usage
    assert (used.input_tokens, used.cache_read_input_tokens, used.cache_creation_input_tokens) == (30, 60, 10)
    assert used.output_tokens == 40


async def test_a_conversation_with_results_is_read_alike_on_every_wire(
    server: ScriptedServer, openai: AsyncOpenAI, anthropic: "AsyncAnthropic"
) -> None:
    function = {"name": "t", "arguments": "{}"}
    await openai.chat.completions.create(
        model="m",
        messages=[
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "done"},
        ],
        tools=CHAT_TOOLS,
    )
    await openai.responses.create(
        model="m",
        instructions="be good",
        input=[
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "done"},
        ],
        tools=[{"type": "function", **tool["function"], "strict": False} for tool in CHAT_TOOLS],
    )
    await anthropic.messages.create(
        model="m",
        max_tokens=9,
        system="be good",
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "t", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "done"}]},
        ],
        tools=[{"name": tool["function"]["name"], "input_schema": {"type": "object"}} for tool in CHAT_TOOLS],
    )
    first = server.requests[0]
    assert [step.role.value for step in first.conversation] == ["system", "user", "assistant", "tool"]
    for request in server.requests:
        assert request.conversation == first.conversation
        assert (request.system, request.last_user_text, request.results) == ("be good", "hi", {"c": "done"})
        assert request.tool_names == ["read_file", "list"]
        assert request.result_count == 1


async def test_models(openai: AsyncOpenAI, anthropic: "AsyncAnthropic", server: ScriptedServer) -> None:
    assert [model.id for model in (await openai.models.list()).data] == ["mock-model"]
    assert [model.id for model in (await anthropic.models.list()).data] == ["mock-model"]
    assert server.requests == [] and len(server.others) == 2


async def test_errors_are_the_vendors(http: httpx2.AsyncClient) -> None:
    replies = [Fail(429, headers={"retry-after": "7"}, code="rate_limit_exceeded"), Fail(400, "<html>no</html>")]
    async with (
        ScriptedServer(replies) as server,
        AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0) as client,
    ):
        with pytest.raises(RateLimitError) as limited:
            await client.responses.create(model="m", input="hi")
        assert limited.value.code == "rate_limit_exceeded" and limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(BadRequestError):
            await client.responses.create(model="m", input="hi")
        with pytest.raises(BadRequestError, match="the script has no reply for request 2"):
            await client.responses.create(model="m", input="hi")


@pytest.mark.parametrize("wire", ["chat", "responses", "anthropic"])
async def test_an_error_inside_the_stream_reaches_the_sdk(wire: str) -> None:
    error = StreamError(message="we are full", type="overloaded_error")
    async with ScriptedServer([Say(TEXT, delivery=ReplyDelivery(error=error, error_at=4))]) as server:
        client = AsyncOpenAI(base_url=server.url, api_key="x", max_retries=0)
        claude = make_anthropic(server, max_retries=0)
        messages = [{"role": "user", "content": "hi"}]
        async with client, claude:
            with pytest.raises(Exception, match="we are full"):
                match wire:
                    case "chat":
                        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
                    case "responses":
                        stream = await client.responses.create(model="m", input="hi", stream=True)
                    case _:
                        stream = await claude.messages.create(model="m", max_tokens=9, messages=messages, stream=True)
                async for _ in stream:
                    pass


@pytest.mark.parametrize(
    ("finish", "chat", "status", "anthropic"),
    [
        ("", "stop", "completed", "end_turn"),
        ("length", "length", "incomplete", "max_tokens"),
        ("content_filter", "content_filter", "incomplete", "refusal"),
    ],
)
async def test_finish_reasons(finish: str, chat: str, status: str, anthropic: str) -> None:
    async with ScriptedServer(ScriptedModel(lambda _: Say("a", finish=finish))) as server:
        client = AsyncOpenAI(base_url=server.url, api_key="x")
        claude = make_anthropic(server)
        messages = [{"role": "user", "content": "hi"}]
        async with client, claude:
            completion = await client.chat.completions.create(model="m", messages=messages)
            assert completion.choices[0].finish_reason == chat
            stream = await client.responses.create(model="m", input="hi", stream=True)
            assert [event async for event in stream][-1].response.status == status
            message = await claude.messages.create(model="m", max_tokens=9, messages=messages)
            assert message.stop_reason == anthropic
