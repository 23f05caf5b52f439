"""Conversations with models that are sent cache marks, and a server that caches as Anthropic's does."""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from hermes.core.events import Event
from hermes.core.frame import EpochFrame, ToolSchema
from hermes.core.messages import (
    FinishReason,
    ImagePart,
    Message,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    user_message,
)
from hermes.core.protocols import HttpTimeouts
from hermes.core.stream import Answer
from hermes.core.usage import Usage
from hermes.llm.client import ModelClient, RetryLimits
from hermes.llm.lineage import Lineage
from hermes.providers.http import create_http_transport
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import Endpoint, load_wire
from hermes.testing.clock import ManualClock
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Reply, Say

NATIVE, PROXIED = ("anthropic", "claude-sonnet-5"), ("openrouter", "anthropic/claude-sonnet-5")
PICTURE = ImagePart(media_type="image/png", data="aGk=")
PARAMETERS = b'{"type":"object","properties":{"path":{"type":"string"}}}'
TOOLS = (ToolSchema(name="read_file", description="Read a file.", parameters=PARAMETERS),)


def endpoint(kind: tuple[str, str], url: str = "http://127.0.0.1:9/v1", ttl: str = "5m") -> Endpoint:
    provider, model = kind
    return resolve_endpoint(ModelChoice(model, provider, base_url=url, api_key="k" * 12, cache_ttl=ttl), {})


def frame(to: Endpoint, system: str = "Be brief.") -> EpochFrame:
    version = load_wire(to.wire).version
    return EpochFrame(
        provider=to.record.name, model=to.model, wire=to.wire, encoder_version=version, system=system, tools=TOOLS
    )


def calling(*ids: str, text: str = "") -> Message:
    said = (TextPart(text=text),) if text else ()
    calls = (ToolCallPart(call_id=one, name="read_file", arguments='{"path":"a"}') for one in ids)
    return Message(role=Role.ASSISTANT, parts=(*said, *calls), finish=FinishReason.TOOL_CALLS)


def results(*ids: str, text: str = "42", images: tuple[ImagePart, ...] = ()) -> Message:
    found = (ToolResultPart(call_id=one, name="read_file", text=text, images=images) for one in ids)
    return Message(role=Role.TOOL, parts=tuple(found))


def answer(text: str) -> Message:
    return Message(role=Role.ASSISTANT, parts=(TextPart(text=text),), finish=FinishReason.STOP)


def talk(count: int) -> list[Message]:
    """The first messages of a conversation with a batch of calls, a picture and an answer in it."""
    whole = [
        user_message("Look at this.", PICTURE),
        calling("a", "b", "c", text="I look."),
        results("a", "b", "c"),
        answer("It is 42."),
        user_message("And now?"),
        calling("d"),
        results("d", images=(PICTURE,)),
        answer("Still 42."),
    ]
    return whole[:count]


def places(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Where cache marks stand in a request, and what they are."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "cache_control":
                yield path, inner
            else:
                yield from places(inner, f"{path}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, f"{path}[{index}]")


def unmarked(value: object) -> object:
    """The value without cache marks."""
    if isinstance(value, dict):
        return {name: unmarked(inner) for name, inner in value.items() if name != "cache_control"}
    return [unmarked(inner) for inner in value] if isinstance(value, list) else value


class Talk:
    """One client, its events, and the clock that it looks at."""

    def __init__(self, to: Endpoint, system: str = "Be brief.") -> None:
        self.clock = ManualClock()
        self.events: list[Event] = []
        timeouts = HttpTimeouts(connect=60.0, read=60.0)
        self.client = ModelClient(
            to, create_http_transport({}), self.clock, limits=RetryLimits(retries=0), timeouts=timeouts
        )
        self.lineage = Lineage(frame(to, system), to)

    async def emit(self, event: Event) -> None:
        self.events.append(event)

    async def ask(self, *messages: Message) -> Message:
        """Say something, hear the answer, and keep it."""
        self.lineage.append_messages(messages)
        outcome = await self.client.request_answer(self.lineage, self.emit)
        assert isinstance(outcome, Answer), outcome
        self.lineage.append_messages((outcome.message,))
        return outcome.message


@asynccontextmanager
async def talking(to: Endpoint, system: str = "Be brief.") -> AsyncIterator[Talk]:
    one = Talk(to, system)
    try:
        yield one
    finally:
        await one.client.close()


class CachingModel:
    """Counts a token for four bytes, and reads as many from its cache as a request begins with that it has kept.

    Kept is what stands before a mark, as at Anthropic; without `marks` everything is. `keeps` off: nothing any more.
    """

    def __init__(self, *, marks: bool = True, replies: Sequence[Say] = ()) -> None:
        self.keeps = True
        self._marks = marks
        self._kept: set[bytes] = set()
        self._replies = list(replies)

    def reply(self, request: RecordedRequest) -> Reply:
        body = request.json
        listed = body["messages"]
        assert isinstance(listed, list)
        elements = [body.get("tools"), body.get("system"), *listed]
        prefixes, marked, whole = [], [], b""
        for element in elements:
            whole += json.dumps(unmarked(element)).encode() + b"\n"
            prefixes.append(whole)
            marked.append(not self._marks or any(places(element)))
        if not self.keeps:
            self._kept.clear()
        read = max((len(one) for one in prefixes if one in self._kept), default=0) // 4
        kept = [one for one, is_marked in zip(prefixes, marked, strict=True) if is_marked]
        self._kept.update(kept)
        wrote = max((len(one) for one in kept), default=0) // 4 - read
        usage = Usage(input=len(whole) // 4, output=9, cache_read=read, cache_write=max(wrote, 0) if self._marks else 0)
        said = self._replies.pop(0) if self._replies else Say(f"answer {request.number}")
        return Say(said.text, calls=said.calls, usage=usage)
