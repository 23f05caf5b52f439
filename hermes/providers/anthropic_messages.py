"""Anthropic's wire: `POST /v1/messages`. Source: the Anthropic API reference, chapters Messages and Streaming.

Content is always a list of blocks, the system prompt too, so that a cache mark is one more member of a block.
"""

from collections.abc import Sequence

from hermes.core.frame import EpochFrame, ToolSchema
from hermes.core.messages import FinishReason, Message, Origin, Role
from hermes.core.parts import ImagePart, Part, ReasoningPart, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.stream import Answer, ReasoningDelta, StreamDelta, TextDelta
from hermes.core.usage import Usage
from hermes.providers import decoding as d
from hermes.providers import encoding as e
from hermes.providers.wire import Endpoint, ServerEvent, matches

_FALLBACK_MAX_TOKENS = 16_384
_TO_LAST_BLOCK = len("}]}")
_LEAST_BUDGET = 1_024
_BUDGETS = {"minimal": 1_024, "low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 24_576}
_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
}


class AnthropicMessages:
    """The encoder. Pure; one instance serves every endpoint."""

    name = "anthropic_messages"
    version = 1
    path = "/v1/messages"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        """The key in a header of its own, the API's version, and what the record adds."""
        fields = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
        }
        if endpoint.api_key:
            fields["x-api-key"] = endpoint.api_key
        return {**fields, **endpoint.record.quirks.extra_headers}

    def encode_message(self, message: Message, endpoint: Endpoint) -> bytes:
        """The message as one element of `messages`; results first, then the text that joins them."""
        if message.role is Role.ASSISTANT:
            own = e.same_origin(message, endpoint)
            blocks = [block for part in message.parts for block in _answer_block(part, endpoint, own=own)]
            return e.encode({"role": "assistant", "content": blocks or [_text("(no text)")]})
        ordered = [*message.results(), *(part for part in message.parts if not isinstance(part, ToolResultPart))]
        blocks = [block for part in ordered for block in _input_block(part, endpoint)]
        return e.encode({"role": "user", "content": blocks or [_text("(no text)")]})

    def mark_place(self, message: Message, encoded: bytes, endpoint: Endpoint) -> int:
        """Behind the last member of the last block; thinking takes no mark (the API's page on prompt caching)."""
        own = e.same_origin(message, endpoint)
        for part in reversed(message.parts) if message.role is Role.ASSISTANT else ():
            if _answer_block(part, endpoint, own=own):
                return -1 if isinstance(part, ReasoningPart) else len(encoded) - _TO_LAST_BLOCK
        return len(encoded) - _TO_LAST_BLOCK

    def encode_body(
        self,
        frame: EpochFrame,
        messages: bytes | bytearray,
        endpoint: Endpoint,
        *,
        final: bool,
        places: Sequence[int] = (),
    ) -> bytes:
        """A whole request; the system prompt stands apart from the messages."""
        quirks = endpoint.record.quirks
        head: dict[str, e.Json] = {"model": endpoint.model, "stream": True}
        head |= e.sampling_members(frame, endpoint)
        head |= _reasoning_members(frame, endpoint, head)
        if frame.system:
            head["system"] = [{**_text(frame.system), **e.cache_mark(endpoint)}]
        if frame.tools:
            head["tools"] = [_tool(tool) for tool in frame.tools]
        none = final and frame.tools and quirks.tool_choice_none
        tail = b',"tool_choice":{"type":"none"}' if none else b""
        return e.body(head, "messages", [e.spliced(messages, places, endpoint)], tail, quirks.extra_body)

    def decoder(self, endpoint: Endpoint) -> "AnthropicDecoder":
        """A fresh decoder for one answer."""
        return AnthropicDecoder(endpoint)


def _reasoning_members(frame: EpochFrame, endpoint: Endpoint, head: dict[str, e.Json]) -> dict[str, e.Json]:
    """The limit of tokens, which this wire demands, and thinking: as an effort, or as a budget for older models."""
    quirks = endpoint.record.quirks
    set_limit = head.get(quirks.max_tokens_field)
    limit = set_limit if isinstance(set_limit, int) else _FALLBACK_MAX_TOKENS
    members: dict[str, e.Json] = {quirks.max_tokens_field: limit}
    effort = frame.sampling.reasoning_effort
    if not effort or effort == "none" or matches(endpoint.model, quirks.unreasoning_models):
        return members
    if matches(endpoint.model, quirks.budget_models):
        budget = _BUDGETS.get(effort, _BUDGETS["medium"])
        if frame.sampling.ceiling:
            return members | _thinking_below(limit, budget)
        members["thinking"] = {"type": "enabled", "budget_tokens": budget}
        members[quirks.max_tokens_field] = max(limit, budget + 4_096)
        return members
    members["thinking"] = {"type": "adaptive"}
    members["output_config"] = {"effort": "low" if effort == "minimal" else effort}
    return members


def _thinking_below(limit: int, budget: int) -> dict[str, e.Json]:
    """Thinking that leaves half of a limit that must stand to the answer; none where less than the least would be."""
    budget = min(budget, limit // 2)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


def _tool(tool: ToolSchema) -> e.Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": e.raw_json(tool.parameters.decode(), "{"),
    }


def _text(text: str) -> dict[str, e.Json]:
    return {"type": "text", "text": text}


def _image(image: ImagePart) -> e.Json:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _input_block(part: Part, endpoint: Endpoint) -> list[e.Json]:
    """A part of a user's or a tool's message; blank text has no block, the API refuses it."""
    if isinstance(part, TextPart):
        return [_text(part.text)] if part.text.strip() else []
    if isinstance(part, ImagePart):
        return [_image(part)]
    if not isinstance(part, ToolResultPart):
        return []
    content: list[e.Json] = [_text(part.text)] if part.text.strip() else []
    content += [_image(image) for image in part.images]
    block: dict[str, e.Json] = {
        "type": "tool_result",
        "tool_use_id": e.call_id(part.call_id, endpoint.record.quirks, strict=True),
    }
    if content:
        block["content"] = content
    if part.status is not ToolStatus.OK:
        block["is_error"] = True
    return [block]


def _answer_block(part: Part, endpoint: Endpoint, *, own: bool) -> list[e.Json]:
    if isinstance(part, TextPart):
        return [_text(part.text)] if part.text.strip() else []
    if isinstance(part, ToolCallPart):
        call_id = e.call_id(part.call_id, endpoint.record.quirks, strict=True)
        arguments = e.call_arguments(part.arguments)
        return [{"type": "tool_use", "id": call_id, "name": e.call_name(part.name), "input": arguments}]
    if isinstance(part, ReasoningPart) and own:
        if part.kind == "redacted_thinking" and part.opaque:
            return [{"type": "redacted_thinking", "data": part.opaque}]
        if part.signature or (endpoint.record.quirks.reasoning_replay and part.text):
            return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    return []


class _Block:
    """One content block while it arrives."""

    def __init__(self, start: d.Table) -> None:
        self.kind = d.text_of(start, "type")
        self.text = d.TextPieces()
        self.signature = d.text_of(start, "signature")
        self.data = d.text_of(start, "data")
        self.call = d.CallPieces(d.text_of(start, "id"), d.text_of(start, "name"))
        self.done = False
        given = start.get("input")
        if isinstance(given, dict) and given:
            self.call.add_arguments(d.json_text(given))

    def part(self, *, whole: bool) -> Part | None:
        """The block as a stored part; None for what is empty, unknown or cut."""
        text = self.text.whole()
        if self.kind == "text":
            return TextPart(text=text) if text else None
        if self.kind == "thinking":
            return (
                ReasoningPart(text=text, kind=self.kind, signature=self.signature) if text or self.signature else None
            )
        if self.kind == "redacted_thinking":
            return ReasoningPart(kind=self.kind, opaque=self.data) if self.data else None
        return self._call_part() if self.kind == "tool_use" and (whole or self.done) else None

    def _call_part(self) -> ToolCallPart | None:
        if not self.call.name:
            return None
        part = self.call.part()
        # A tool without parameters is called without a single argument delta: its block starts with `{}`.
        arguments = part.arguments or ("{}" if self.done else "")
        return ToolCallPart(call_id=part.call_id, name=part.name, arguments=arguments)


class AnthropicDecoder:
    """Follows the blocks of one answer. A whole `message` object counts as all of them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._blocks: dict[int, _Block] = {}
        self._stop = ""
        self._ended = False
        self._model = ""
        self._counts: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        """A stop reason has come."""
        return bool(self._stop) or self._ended

    @property
    def ended(self) -> bool:
        """`message_stop` has come."""
        return self._ended

    @property
    def pieces(self) -> int:
        """Pieces of all calls."""
        return sum(block.call.pieces for block in self._blocks.values())

    def feed(self, event: ServerEvent) -> list[StreamDelta]:
        """Take the next event; unknown ones and pings are passed over, as the API asks."""
        if event.data.strip() == "[DONE]":
            return []
        data = d.parse(event.data)
        kind = d.kind_of(event, data)
        if kind == "content_block_delta":
            return self._delta(self._block(data), d.table_of(data, "delta"))
        if kind == "content_block_start":
            return self._start(data)
        if kind == "message":
            return self._whole(data)
        d.raise_reported(kind, data)
        self._note(kind, data)
        return []

    def _note(self, kind: str, data: d.Table) -> None:
        """Take an event that shows nothing."""
        if kind == "content_block_stop":
            self._block(data).done = True
        elif kind == "message_start":
            self._message(d.table_of(data, "message"))
        elif kind == "message_delta":
            self._stop = d.text_of(d.table_of(data, "delta"), "stop_reason") or self._stop
            self._count(d.table_of(data, "usage"))
        elif kind == "message_stop":
            self._ended = True

    def answer(self) -> Answer:
        """What has arrived."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        found = (block.part(whole=self.finished) for block in blocks)
        parts = tuple(part for part in found if part is not None)
        finish = _FINISH.get(self._stop, FinishReason.UNKNOWN if self._stop else FinishReason.STOP)
        called = any(isinstance(part, ToolCallPart) for part in parts)
        if not self.finished:
            finish = FinishReason.CUT
        elif called and finish in (FinishReason.STOP, FinishReason.UNKNOWN):
            finish = FinishReason.TOOL_CALLS
        elif finish is FinishReason.TOOL_CALLS and not called:
            finish = FinishReason.STOP
        endpoint = self._endpoint
        origin = Origin(provider=endpoint.record.name, model=endpoint.model, wire=endpoint.wire)
        message = Message(role=Role.ASSISTANT, parts=parts, finish=finish, origin=origin)
        return Answer(message=message, usage=self._usage(), served_model=self._model)

    def _block(self, data: d.Table) -> _Block:
        """The block that an event is about; a start that was left out is made up for from the delta's type."""
        index = d.number_of(data, "index")
        block = self._blocks.get(index)
        if block is None:
            kinds = {"thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}
            kind = kinds.get(d.text_of(d.table_of(data, "delta"), "type"), "text")
            block = self._blocks[index] = _Block({"type": kind})
        return block

    def _start(self, data: d.Table) -> list[StreamDelta]:
        start = d.table_of(data, "content_block")
        block = self._blocks[d.number_of(data, "index")] = _Block(start)
        if block.kind == "tool_use":
            return list(block.call.announce())
        return self._shown(block, d.text_of(start, "text") or d.text_of(start, "thinking"))

    def _delta(self, block: _Block, delta: d.Table) -> list[StreamDelta]:
        kind = d.text_of(delta, "type")
        if kind == "input_json_delta":
            block.call.add_arguments(d.text_of(delta, "partial_json"))
        elif kind == "signature_delta":
            block.signature += d.text_of(delta, "signature")
        return self._shown(block, d.text_of(delta, "text") or d.text_of(delta, "thinking"))

    def _shown(self, block: _Block, text: str) -> list[StreamDelta]:
        shown = block.text.add(text)
        if not shown:
            return []
        return [ReasoningDelta(text=shown) if block.kind == "thinking" else TextDelta(text=shown)]

    def _message(self, message: d.Table) -> None:
        self._model = d.text_of(message, "model") or self._model
        self._count(d.table_of(message, "usage"))

    def _whole(self, message: d.Table) -> list[StreamDelta]:
        deltas: list[StreamDelta] = []
        self._message(message)
        for index, content in enumerate(d.tables_of(message, "content")):
            deltas += self._start({"index": index, "content_block": content})
            self._blocks[index].done = True
        self._stop = d.text_of(message, "stop_reason")
        self._ended = True
        return deltas

    def _count(self, usage: d.Table) -> None:
        """Later counts replace earlier ones: the API's `message_delta` counts are cumulative."""
        given = {**usage, **d.table_of(usage, "output_tokens_details")}
        for key in given:
            self._counts[key] = d.number_of(given, key) or self._counts.get(key, 0)

    def _usage(self) -> Usage | None:
        counts = self._counts
        if not any(counts.values()):
            return None
        read, write = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
        return Usage(
            input=counts.get("input_tokens", 0) + read + write,
            output=counts.get("output_tokens", 0),
            cache_read=read,
            cache_write=write,
            reasoning=counts.get("thinking_tokens", 0),
        ).bounded()


WIRE = AnthropicMessages()
