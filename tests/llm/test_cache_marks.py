"""Cache marks in real requests (rows PC-01 to PC-06): how many, where, of what kind; messages stay as they are."""

import json
from collections.abc import Sequence

import pytest

from hermes.core.messages import Message, Origin, ReasoningPart, Role, TextPart, user_message
from hermes.llm.client import ModelClient, SideTask
from hermes.llm.lineage import Lineage
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import Endpoint
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Say
from hermes.testing.server import ScriptedServer
from tests.llm.caching_model import (
    NATIVE,
    PICTURE,
    PROXIED,
    CachingModel,
    answer,
    calling,
    endpoint,
    frame,
    places,
    results,
    talk,
    talking,
    unmarked,
)

EACH = pytest.mark.parametrize("kind", [NATIVE, PROXIED], ids=["anthropic", "openrouter"])
MARK = {"type": "ephemeral"}


def body(to: Endpoint, messages: Sequence[Message], system: str = "Be brief.") -> dict[str, object]:
    lineage = Lineage(frame(to, system), to)
    lineage.append_messages(messages)
    found = json.loads(lineage.build_body())
    assert isinstance(found, dict)
    return found


def at(to: Endpoint, *messages: Message, system: str = "") -> list[str]:
    return [path for path, _ in places(body(to, messages, system))]


@EACH
@pytest.mark.parametrize("system", ["Be brief.", ""])
@pytest.mark.parametrize("ttl", ["5m", "1h"])
async def test_at_most_four_marks_are_sent(kind: tuple[str, str], system: str, ttl: str) -> None:
    async with ScriptedServer(CachingModel(), strict=False) as server:
        for count in range(9):
            async with talking(endpoint(kind, server.url, ttl), system) as one:
                await one.ask(*talk(count))
    for count, request in enumerate(server.requests):
        found = list(places(request.json))
        assert len(found) == (bool(system) + min(count, 3) if system else min(count, 4)), (count, found)
        assert all(mark == (MARK | {"ttl": "1h"} if ttl == "1h" else MARK) for _, mark in found)
        assert sum(path.startswith(("system", "messages[0].content[0]")) for path, _ in found) >= bool(system)


@EACH
def test_the_messages_are_the_same_with_and_without_marks(kind: tuple[str, str]) -> None:
    marked, plain = endpoint(kind), endpoint(kind, ttl="")
    for count in range(9):
        assert unmarked(body(marked, talk(count))) == body(plain, talk(count))
    lineage = Lineage(frame(marked), marked)
    lineage.append_messages(talk(5))
    first = lineage.build_body()
    assert lineage.build_body() == first
    lineage.append_messages(talk(8)[5:])
    whole = Lineage(frame(marked), marked)
    whole.append_messages(talk(8))
    assert lineage.build_body() == whole.build_body()


def test_where_anthropic_wants_them() -> None:
    to = endpoint(NATIVE)
    assert at(to, user_message("hi"), system="s") == ["system[0]", "messages[0].content[0]"]
    assert at(to, user_message("hi", PICTURE)) == ["messages[0].content[1]"]
    batch = [user_message("hi"), calling("a", "b"), results("a", "b", text="")]
    assert at(to, *batch) == ["messages[0].content[0]", "messages[1].content[1]", "messages[2].content[1]"]
    silent = Message(role=Role.ASSISTANT, parts=())
    assert at(to, user_message("hi"), silent)[-1] == "messages[1].content[0]"


def test_thinking_takes_no_mark() -> None:
    to = endpoint(NATIVE)
    thought = ReasoningPart(text="Hm.", kind="thinking", signature="c2ln")
    origin = Origin(provider=to.record.name, model=to.model, wire=to.wire)
    only = Message(role=Role.ASSISTANT, parts=(thought,), origin=origin)
    assert at(to, user_message("a"), only, user_message("b")) == ["messages[0].content[0]", "messages[2].content[0]"]
    elsewhere = Message(role=Role.ASSISTANT, parts=(TextPart(text="x"), thought))
    assert at(to, user_message("a"), elsewhere)[-1] == "messages[1].content[0]"
    blank = Message(role=Role.ASSISTANT, parts=(TextPart(text="x"), TextPart(text=" ")), origin=origin)
    assert at(to, user_message("a"), blank)[-1] == "messages[1].content[0]"


def test_where_openrouter_wants_them() -> None:
    to = endpoint(PROXIED)
    assert at(to, user_message("hi"), system="s") == ["messages[0].content[0]", "messages[1].content[0]"]
    assert at(to, user_message("hi", PICTURE)) == ["messages[0].content[1]"]
    batch = [user_message("hi"), calling("a", "b"), results("a", "b")]
    assert at(to, *batch) == ["messages[0].content[0]", "messages[1]", "messages[3]"]
    said = [user_message("hi"), calling("a", text="I look."), results("a", images=(PICTURE,))]
    assert at(to, *said) == ["messages[0].content[0]", "messages[1].content[0]", "messages[3].content[1]"]
    joined = Message(role=Role.TOOL, parts=(*results("a").parts, TextPart(text="And hurry.")))
    assert at(to, calling("a"), joined) == ["messages[0]", "messages[2].content[0]"]


def test_what_is_empty_passes_its_mark_on() -> None:
    to = endpoint(PROXIED)
    silent = Message(role=Role.ASSISTANT, parts=())
    talked = [user_message("a"), answer("b"), user_message("c"), silent]
    assert at(to, *talked, system="s")[1:] == [f"messages[{number}].content[0]" for number in (1, 2, 3)]
    assert at(to, user_message("a"), calling("x"), results("x", text="")) == ["messages[0].content[0]", "messages[1]"]
    assert at(to, user_message("")) == []


@pytest.mark.parametrize(
    ("provider", "model", "mode", "marks"),
    [
        ("anthropic", "claude-opus-5", "", True),
        ("anthropic", "anthropic/claude-opus-5", "", True),
        ("anthropic", "something-else", "", False),
        ("openrouter", "anthropic/claude-haiku-4.5", "", True),
        ("openrouter", "openai/gpt-6", "", False),
        ("openrouter", "anthropic/claude-haiku-4.5", "responses", False),
        ("openai", "claude-opus-5", "", False),
        ("custom", "m", "anthropic_messages", False),
    ],
)
def test_who_is_sent_marks(provider: str, model: str, mode: str, marks: bool) -> None:
    choice = ModelChoice(model, provider, base_url="http://127.0.0.1:9/v1", api_mode=mode, cache_ttl="5m")
    to = resolve_endpoint(choice, {})
    assert bool(to.cache_ttl) is marks
    assert bool(at(to, user_message("hi"), system="s")) is marks


@EACH
async def test_the_prefix_stands_while_the_marks_move(kind: tuple[str, str]) -> None:
    replies = [Say("Looking.", calls=(Call("read_file", {"path": "a"}),)) if n % 2 else Say(f"{n}") for n in range(60)]
    async with (
        ScriptedServer(CachingModel(replies=replies)) as server,
        talking(endpoint(kind, server.url), "Be brief. " * 500) as one,
    ):
        for turn in range(30):
            reply = await one.ask(user_message(f"turn {turn} " + "x" * 400))
            while ids := [call.call_id for call in reply.tool_calls()]:
                reply = await one.ask(results(*ids, text="y" * 300))
    assert len(server.requests) >= 45
    assert check_prefixes(server.requests) == len(server.requests) - 1
    assert all(len(list(places(request.json))) == 4 for request in server.requests[3:])
    assert [event for event in one.events if "cache" in str(event)] == []


async def test_the_marks_are_there_after_an_epoch_ends() -> None:
    """Row PC-10: the system prompt's bytes are the same, and the rolling marks are back with the next turns."""
    async with (
        ScriptedServer(CachingModel()) as server,
        talking(endpoint(NATIVE, server.url), "Be brief. " * 500) as one,
    ):
        for turn in range(4):
            await one.ask(user_message(f"turn {turn}"))
        one.lineage = Lineage(one.lineage.frame, one.lineage.endpoint)
        for turn in range(3):
            await one.ask(user_message("summary" if not turn else f"more {turn}"))
    before, after = server.requests[3], server.requests[4:]
    assert all(request.json["system"] == before.json["system"] for request in after)
    assert [len(list(places(request.json))) for request in after] == [2, 4, 4]


def _judged(request: RecordedRequest, kind: tuple[str, str]) -> None:
    """The official client's types take the request."""
    from pydantic import TypeAdapter

    if kind is NATIVE:
        from anthropic.types import MessageParam, TextBlockParam

        TypeAdapter(list[MessageParam]).validate_python(request.json["messages"])
        TypeAdapter(list[TextBlockParam]).validate_python(request.json["system"])
        return
    from openai.types.chat import ChatCompletionMessageParam

    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(unmarked(request.json["messages"]))


@pytest.mark.slow
@EACH
async def test_the_official_types_take_marked_requests(kind: tuple[str, str]) -> None:
    pytest.importorskip("anthropic")
    async with ScriptedServer(CachingModel()) as server, talking(endpoint(kind, server.url)) as one:
        await one.ask(*talk(5))
    _judged(server.requests[0], kind)


@EACH
async def test_a_side_task_is_not_marked(kind: tuple[str, str]) -> None:
    async with ScriptedServer(CachingModel()) as server, talking(endpoint(kind, server.url)) as one:

        async def opened() -> ModelClient:
            return one.client

        assert await SideTask([opened]).ask("Be brief.", "What is it?", one.emit) == "answer 0"
    assert list(places(server.requests[0].json)) == []
