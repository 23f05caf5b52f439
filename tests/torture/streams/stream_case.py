"""A stream of a vendor, made together with its meaning: the bytes that come, and what each event of them says.

Nothing here decodes: who makes a stream knows what it says. An event says what it adds to the text and the thoughts,
the usage it brings, and whether the answer counts as whole once it is known.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Self

from msgspec import Struct, structs

from hermes.core.messages import FinishReason
from hermes.core.outcomes import FailureKind
from hermes.core.usage import Usage

Json = Mapping[str, object]
EVENT_STREAM = "text/event-stream; charset=utf-8"
JSON_BODY = "application/json"


class SaidCall(Struct, frozen=True):
    """A tool call that a stream means. An empty id stands where the vendor gives none; any will do."""

    name: str
    arguments: object
    """The object of the arguments, or a string where they end early."""
    call_id: str = ""


class SaidEvent(Struct, frozen=True, kw_only=True):
    """One event, and what it adds to the answer."""

    data: str
    name: str = ""
    text: str = ""
    reasoning: str = ""
    usage: Usage | None = None
    is_final: bool = False
    """Whether the answer is whole, or has failed, once this event is known."""


class Framing(Struct, frozen=True, kw_only=True):
    """The form in which events are written."""

    newline: str = "\n"
    space: str = " "
    mark: bytes = b""
    """What the stream begins with, such as a byte order mark."""
    between: str = ""
    """Lines before every event (comments, ids, unknown fields), each with `\n`."""
    lines: bool = False
    """Whether the data is broken into several lines, which the standard joins."""
    name_last: bool = False
    """Whether an event's name stands behind its data."""
    tail: str = ""
    """What follows the last event."""
    open_end: bool = False
    """Whether the empty line behind the last event is missing."""


class StreamCase(Struct, frozen=True, kw_only=True):
    """A stream and its meaning."""

    name: str
    vendor: str
    kind: str
    """What the stream is about, for the table."""
    events: tuple[SaidEvent, ...]
    wire: str = "chat_completions"
    provider: str = "custom"
    model: str = "m"
    framing: Framing = Framing()
    content_type: str = EVENT_STREAM
    raw: bytes | None = None
    """The body, where it is not the framed events."""
    calls: tuple[SaidCall, ...] = ()
    finish: FinishReason = FinishReason.STOP
    failure: FailureKind | None = None
    words: str = ""
    """What the failure's message repeats of the vendor's."""
    text: str | None = None
    """The answer's text, where it is not what the events add up to (tags in it, for instance)."""
    reasoning: str | None = None
    is_stepwise: bool = True
    """Whether what is shown grows exactly as the events say."""
    sdk: str = ""
    """Why the vendor's official SDK reads it in another way; empty: it must read the same."""
    has_sdk: bool = True
    """Whether an SDK is asked at all."""

    @property
    def body(self) -> bytes:
        """Return the bytes of the body."""
        return self.raw if self.raw is not None else frame_events(self.events, self.framing)[0]

    @property
    def said_text(self) -> str:
        """Return the text that the whole stream means."""
        return join_halves(event.text for event in self.events) if self.text is None else self.text

    @property
    def said_reasoning(self) -> str:
        """Return the thoughts that the whole stream means."""
        return join_halves(event.reasoning for event in self.events) if self.reasoning is None else self.reasoning

    @property
    def said_usage(self) -> Usage | None:
        """Return the last usage that the stream brings."""
        return next((event.usage for event in reversed(self.events) if event.usage is not None), None)

    def replace(self, **changes: object) -> Self:
        """Return the case with other members."""
        return structs.replace(self, **changes)


def join_halves(pieces: Iterable[str]) -> str:
    """Return the pieces as one text, in which halves of surrogate pairs have met; one left alone is U+FFFD."""
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def dump(value: object) -> str:
    """Return JSON as vendors write it, text in its own letters; half a surrogate pair only fits as an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def say(data: object, **said: object) -> SaidEvent:
    """Return an event with this data, an object or a text."""
    return SaidEvent(data=data if isinstance(data, str) else dump(data), **said)


DONE = say("[DONE]")


def frame_events(events: Sequence[SaidEvent], framing: Framing) -> tuple[bytes, list[int], list[int]]:
    """Return the body; for each event where its last data ends, and where the standard says that it is dispatched."""
    body = bytearray(framing.mark)
    ends: list[int] = []
    dispatched: list[int] = []
    newline = framing.newline.encode()
    for event in events:
        lines = [*framing.between.split("\n")[:-1], *_field_lines(event, framing)]
        body += newline.join(line.encode() for line in lines)
        ends.append(len(body))
        if not (framing.open_end and event is events[-1]):
            body += newline * 2
            dispatched.append(len(body) - len(newline) + 1)
        else:
            dispatched.append(len(body) + 1)
    body += framing.tail.replace("\n", framing.newline).encode()
    return bytes(body), ends, dispatched


def _field_lines(event: SaidEvent, framing: Framing) -> Iterator[str]:
    name = [f"event:{framing.space}{event.name}"] if event.name else []
    data = event.data
    pieces = _break_lines(data) if framing.lines else [data]
    written = [f"data:{framing.space}{piece}" for piece in pieces]
    yield from [*written, *name] if framing.name_last else [*name, *written]


def _break_lines(data: str) -> list[str]:
    """Return JSON in several lines that mean the same when they are joined."""
    if not data.startswith("{"):
        return [data]
    return json.dumps(json.loads(data), ensure_ascii="\\ud" in data, indent=1).split("\n")
