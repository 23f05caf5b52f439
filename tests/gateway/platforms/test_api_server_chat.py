"""Chat completions and responses, judged by the official client."""

import asyncio
import base64

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import Response

from hermes.testing.script import Call, Fail, ReplyDelivery, Say, ScriptedModel
from tests.gateway.gateway_rig import said
from tests.gateway.platforms.api_server_rig import Api, api

pytestmark = pytest.mark.slow

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def user(text: str) -> ChatCompletionMessageParam:
    return {"role": "user", "content": text}


def assistant(text: str) -> ChatCompletionMessageParam:
    return {"role": "assistant", "content": text}


async def streamed(it: Api, messages: list[ChatCompletionMessageParam]) -> tuple[str, list[str], int]:
    """The text of a streamed answer, its finish reasons and its tokens."""
    async with it.openai() as client:
        stream = await client.chat.completions.create(
            model="hermes", messages=messages, stream=True, stream_options={"include_usage": True}
        )
        text, ends, tokens = "", list[str](), 0
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                ends += [choice.finish_reason] if choice.finish_reason else []
            tokens = chunk.usage.total_tokens if chunk.usage else tokens
    return text, ends, tokens


async def test_an_answer_whole_and_streamed() -> None:
    async with api([Say("Hello back."), Say("A longer answer, in several pieces of text.", chunk=7)]) as it:
        async with it.openai() as client:
            whole = await client.chat.completions.create(model="hermes", messages=[user("hello")])
        assert whole.choices[0].message.content == "Hello back."
        assert whole.choices[0].finish_reason == "stop"
        assert whole.usage is not None
        assert whole.usage.total_tokens > 0
        text, ends, tokens = await streamed(it, [user("more")])
        assert (text, ends) == ("A longer answer, in several pieces of text.", ["stop"])
        assert tokens > 0
        assert said(it.model, 0) == "hello"


async def test_a_client_that_sends_all_each_time_goes_on_in_one_session() -> None:
    async with api([Say("one"), Say("two"), Say("three"), Say("other")]) as it:
        first = [user("a")]
        await streamed(it, first)
        second = [*first, assistant("one"), user("b")]
        await streamed(it, second)
        third = [*second, assistant("two"), user("c")]
        await streamed(it, third)
        sent = [request.messages for request in it.model.requests]
        assert sent[2][: len(sent[1])] == sent[1]  # what was sent stays sent: the provider's cache stays warm
        assert len(it.gateway.pool) == 1
        # An answer that is asked for anew begins from what was said before it, in a session of its own.
        await streamed(it, third)
        assert len(it.gateway.pool) == 2
        assert [str(one["content"]).split("\n\n[Now")[0] for one in it.model.requests[3].messages[1:]] == [
            "a",
            "one",
            "b",
            "two",
            "c",
        ]


async def test_two_at_once_from_one_history_do_not_share_a_session() -> None:
    model = ScriptedModel(
        lambda request: Say("one" if request.number == 0 else "x", delivery=ReplyDelivery(delay=0.05))
    )
    async with api(model) as it:
        await streamed(it, [user("a")])
        history = [user("a"), assistant("one")]
        await asyncio.gather(*(streamed(it, [*history, user(text)]) for text in ("b", "c")))
        assert len(it.gateway.pool) == 2
        assert all(len(request.messages) == 4 for request in it.model.requests[1:])


async def test_a_session_is_named_by_a_header_and_only_its_own_key_has_it() -> None:
    other = "o" * 32
    keys = [{"key": other, "name": "other"}]
    async with api([Say("one"), Say("two"), Say("three")], keys=keys) as it:
        headers = {"X-Hermes-Session-Id": "reading"}
        async with it.openai() as mine, it.openai(other) as theirs:
            for client, text in ((mine, "a"), (mine, "b"), (theirs, "c")):
                await client.chat.completions.create(model="hermes", messages=[user(text)], extra_headers=headers)
        sizes = [len(request.messages) for request in it.model.requests]
        assert sizes == [2, 4, 2]
        status, found = await it.ask("GET", "/v1/sessions/reading/messages", key=other)
        assert status == 200
        assert "'content': 'a'" not in str(found)
        hidden = next(iter(it.gateway.pool.live_sessions)).actor.session_id
        assert (await it.ask("GET", f"/v1/sessions/{hidden}", key=other))[0] == 404


async def test_instructions_pictures_and_files_come_along() -> None:
    picture = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    file = f"data:text/plain;base64,{base64.b64encode(b'the contents').decode()}"
    async with api([Say("I see.")]) as it, it.openai() as client:
        await client.chat.completions.create(
            model="hermes",
            messages=[
                {"role": "system", "content": "Speak like a pirate."},
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": picture}},
                        {"type": "file", "file": {"filename": "../../notes.txt", "file_data": file}},
                    ],
                },
            ],
        )
        sent = it.model.requests[0].body.decode()
        assert "Speak like a pirate." in sent
        assert "Be brief." in sent
        assert base64.b64encode(PIXEL).decode() in sent
        saved = [one for one in (it.home.hermes / "media" / "api_server").rglob("*") if one.is_file()]
        assert [(one.name, one.read_bytes()) for one in saved] == [("_.._notes.txt", b"the contents")]
        assert str(saved[0]) in sent


async def test_what_tools_do_is_told_where_it_is_asked_for() -> None:
    call = Call("read_file", {"path": "a.txt"})
    replies = [Say("Let me look.", calls=(call,)), Say("It says hi."), Say("", calls=(call,)), Say("Again.")]
    async with api(replies) as it:
        workspace = it.home.hermes / "workspace"
        (workspace / "a.txt").write_text("hi")
        text, _, _ = await streamed(it, [user("look")])
        assert text == "Let me look.\n\nIt says hi."
        body = {"model": "hermes", "messages": [user("again")], "stream": True}
        async with await it.stream("POST", "/v1/chat/completions", body, X_Hermes_Events="1") as answer:
            told = await answer.rest()
        assert '"type":"tool_started"' in told
        assert '"type":"tool_ended"' in told
        assert told.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "custom", "name": "f"}]}, "tools[0]"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}}, "response_format"),
        ({"stop": ["x"]}, "stop"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "owner", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "file:///etc/passwd"}]}]}, None),
        ({"messages": "x"}, "messages"),
    ],
    ids=str,
)
async def test_what_cannot_be_done_is_refused_by_name(change: dict[str, object], param: str | None) -> None:
    async with api([]) as it:
        status, told = await it.ask(
            "POST", "/v1/chat/completions", {"model": "hermes", "messages": [user("x")], **change}
        )
        error = told["error"]
        assert isinstance(error, dict)
        assert (status, error["type"]) == (400, "invalid_request_error")
        assert param is None or error["param"] == param
        assert not it.model.requests


async def test_errors_have_the_codes_that_clients_know() -> None:
    async with api([Fail(400, message="no such thing"), Fail(400, message="again")]) as it, it.openai() as client:
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="gpt-none", messages=[user("x")])
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.APIStatusError) as failed:
            await client.chat.completions.create(model="hermes", messages=[user("x")])
        assert failed.value.status_code == 502
        assert "no such thing" in str(failed.value)
        stream = await client.chat.completions.create(model="hermes", messages=[user("y")], stream=True)
        with pytest.raises(openai.APIError, match="again"):
            async with stream:
                async for _ in stream:
                    pass
        async with it.openai("x" * 32) as stranger:
            with pytest.raises(openai.AuthenticationError):
                await stranger.models.list()
        names = [one.id async for one in await client.models.list()]
        assert names == ["hermes", "mock-model"]
        assert (await client.models.retrieve("mock-model")).owned_by == "hermes"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/sessions/s/chat"])
async def test_who_goes_away_stops_the_turn(path: str, stream: bool) -> None:
    slow = Say("word " * 200, chunk=5, delivery=ReplyDelivery(hold_at=3))  # it has no end of its own
    path += "/stream" if stream and path.endswith("/chat") else ""
    body: dict[str, object] = {"model": "hermes", "messages": [user("x")], "stream": stream}
    if "chat/completions" not in path:
        body = {"input": "x"} | ({"stream": True} if stream and "responses" in path else {})
    async with api([slow]) as it:
        asking = asyncio.create_task(it.http.post(f"{it.url}{path}", json=body, headers=bearer(it)))
        await it.until(lambda: it.model.requests)
        answer = await asking if stream else None
        if answer is not None:
            await answer.content.readany()
            answer.close()
        else:
            asking.cancel()
        await it.until(lambda: it.model.requests[0].closed_early_at is not None)
        await it.until(lambda: not it.gateway.pool.working_count)


def bearer(it: Api) -> dict[str, str]:
    return {"Authorization": f"Bearer {it.key}"}


async def test_a_turn_that_goes_in_circles_is_an_answer_that_nobody_asks_for_again() -> None:
    circle = [*[Say(calls=(Call("read_file", {"path": "/no/such/file"}),)) for _ in range(5)], Say(""), Say("")]
    async with api([*circle, *circle, *circle]) as it:
        async with it.openai() as client:
            whole = await client.chat.completions.create(model="hermes", messages=[user("look")])
            assert "failed 5 times" in (whole.choices[0].message.content or "")
            assert whole.choices[0].finish_reason == "length"
            text, ends, _ = await streamed(it, [user("look there")])
            assert "failed 5 times" in text and ends == ["length"]
            answer = await client.responses.create(model="hermes", input="look again")
        assert (answer.status, "failed 5 times" in answer.output_text) == ("incomplete", True)
        assert len(it.model.requests) == 21


async def test_responses_whole_and_streamed() -> None:
    async with api([Say("one"), Say("two pieces of it", chunk=4), Say("three")]) as it, it.openai() as client:
        first = await client.responses.create(model="hermes", input="a", instructions="Be kind.")
        assert (first.status, first.output_text) == ("completed", "one")
        kinds, done = list[str](), None
        async with client.responses.stream(
            model="hermes", input="b", previous_response_id=first.id, store=True
        ) as stream:
            async for event in stream:
                kinds.append(event.type)
            done = await stream.get_final_response()
        assert done.output_text == "two pieces of it"
        assert done.usage is not None
        assert done.usage.output_tokens > 0
        assert list(dict.fromkeys(kinds)) == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert len(it.model.requests[1].messages) == 4
        # From the first one again: a branch, which knows nothing of the second.
        await client.responses.create(model="hermes", input="c", previous_response_id=first.id)
        assert "two pieces" not in it.model.requests[2].body.decode()
        assert it.model.requests[2].messages[1:3] == it.model.requests[1].messages[1:3]
        assert (await client.responses.retrieve(first.id)).output_text == "one"
        await client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(first.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="hermes", input="d", previous_response_id=first.id)


async def test_a_response_in_the_background_is_waited_for_or_cancelled() -> None:
    slow = Say("word " * 100, delivery=ReplyDelivery(pace=0.1))
    async with api([Say("done", delivery=ReplyDelivery(delay=0.1)), slow]) as it, it.openai() as client:
        begun = await client.responses.create(model="hermes", input="a", background=True)
        assert begun.status == "queued"

        async def ended(response_id: str) -> Response:
            async with asyncio.timeout(60):
                while True:
                    found = await client.responses.retrieve(response_id)
                    if found.status not in ("queued", "in_progress"):
                        return found
                    await asyncio.sleep(0.02)

        assert (await ended(begun.id)).output_text == "done"
        second = await client.responses.create(model="hermes", input="b", background=True)
        await it.until(lambda: len(it.model.requests) == 2)
        cancelled = await client.responses.cancel(second.id)
        assert cancelled.status == "cancelled"
        await it.until(lambda: it.model.requests[1].closed_early_at is not None)


ENDS = {
    "invalid_tool_calls_exhausted": (Say(calls=(Call("no_such_tool", {}),)), 422, 4),
    "thinking_budget_exhausted": (Say("", finish="length"), 422, 1),
    "provider_error": (Fail(400, message="no"), 502, 1),
}


@pytest.mark.parametrize("code", ENDS)
async def test_a_turn_that_has_ended_is_not_begun_again_by_a_client(code: str) -> None:
    """Its tools have run: the same request once more would have them run twice."""
    reply, status, requests = ENDS[code]
    async with api([reply] * 40) as it, it.openai() as careful:
        client = careful.with_options(max_retries=2)
        for path, ask in (
            ("chat", client.chat.completions.create(model="hermes", messages=[user("x")])),
            ("responses", client.responses.create(model="hermes", input="y")),
        ):
            with pytest.raises(openai.APIStatusError) as failed:
                await ask
            assert (failed.value.status_code, failed.value.code) == (status, code), path
        status_given, body = await it.ask("POST", "/v1/sessions/s/chat", {"input": "z"})
        assert status_given == status, body
        assert len(it.model.requests) == 3 * requests
