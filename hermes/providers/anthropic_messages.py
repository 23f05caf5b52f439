"""Anthropic's API format: `POST /v1/messages`. Source: the Anthropic API reference, chapters Messages and Streaming.

Content is always a list of blocks, the system prompt too, so that a cache mark is one more member of a block.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from hermes.core.frame import EpochFrame, ToolSchema
from hermes.core.messages import (
    FinishReason,
    ImagePart,
    Message,
    Origin,
    Part,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)
from hermes.core.stream import Answer, ReasoningDelta, StreamDelta, TextDelta
from hermes.core.usage import Usage
from hermes.providers import decoding as d
from hermes.providers import encoding as e
from hermes.providers.wire import Endpoint, ServerEvent, matches_model

_FALLBACK_MAX_TOKENS = 16_384
_TEXT_DELTAS = frozenset({"text_delta", "thinking_delta", ""})
_TO_LAST_BLOCK = len("}]}")
_LEAST_BUDGET = 1_024
_FINISH = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_use": FinishReason.TOOL_CALLS,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.CONTENT_FILTER,
}


class AnthropicMessagesWire:
    """The encoder of Anthropic's API format. Pure; one instance serves every endpoint."""

    name = "anthropic_messages"
    version = 1
    path = "/v1/messages"

    def build_headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Return the key in a header of its own, the API's version, and what the record adds."""
        fields = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
        }
        if endpoint.api_key:
            fields["x-api-key"] = endpoint.api_key
        return {**fields, **endpoint.record.quirks.extra_headers}

    def encode_message(self, message: Message, endpoint: Endpoint) -> bytes:
        """Encode the message as one element of `messages`; results first, then the text that joins them."""
        if message.role is Role.ASSISTANT:
            own = e.is_same_origin(message, endpoint)
            blocks = [block for part in message.parts for block in _answer_block(part, endpoint, own=own)]
            return e.encode_json({"role": "assistant", "content": blocks or [_text_block("(no text)")]})
        ordered = [*message.tool_results(), *(part for part in message.parts if not isinstance(part, ToolResultPart))]
        blocks = [block for part in ordered for block in _input_block(part, endpoint)]
        return e.encode_json({"role": "user", "content": blocks or [_text_block("(no text)")]})

    def find_mark_offset(self, message: Message, encoded: bytes, endpoint: Endpoint) -> int:
        """Return the place behind the last member of the last block.

        Thinking takes no mark (the API's page on prompt caching).
        """
        own = e.is_same_origin(message, endpoint)
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
        """Encode a whole request; the system prompt is separate from the messages."""
        quirks = endpoint.record.quirks
        head: dict[str, e.Json] = {"model": endpoint.model, "stream": frame.streams}
        head |= e.build_sampling_members(frame, endpoint)
        head |= _reasoning_members(frame, endpoint, head)
        if frame.system:
            head["system"] = [{**_text_block(frame.system), **e.build_cache_mark(endpoint)}]
        if frame.tools:
            head["tools"] = _encode_tools(frame.tools)
        none = final and frame.tools and quirks.tool_choice_none
        tail = b',"tool_choice":{"type":"none"}' if none else b""
        return e.build_body(
            head, "messages", [e.splice_cache_marks(messages, places, endpoint)], tail, quirks.extra_body
        )

    def create_decoder(self, endpoint: Endpoint) -> "AnthropicDecoder":
        """Create a decoder for one answer."""
        return AnthropicDecoder(endpoint)


def _reasoning_members(frame: EpochFrame, endpoint: Endpoint, head: dict[str, e.Json]) -> dict[str, e.Json]:
    """Return the limit of tokens, which this format demands, and thinking: as an effort, or as a budget for older
    models.
    """
    quirks = endpoint.record.quirks
    set_limit = head.get(quirks.max_tokens_field)
    limit = set_limit if isinstance(set_limit, int) else _FALLBACK_MAX_TOKENS
    members: dict[str, e.Json] = {quirks.max_tokens_field: limit}
    effort = e.resolve_effort(frame)
    if not effort or effort == "none" or matches_model(endpoint.model, quirks.unreasoning_models):
        return members
    if matches_model(endpoint.model, quirks.budget_models):
        budget = frame.sampling.reasoning_tokens or e.REASONING_BUDGETS.get(effort, e.REASONING_BUDGETS["medium"])
        if frame.sampling.ceiling:
            return members | _thinking_under_limit(limit, budget)
        members["thinking"] = {"type": "enabled", "budget_tokens": budget}
        members[quirks.max_tokens_field] = max(limit, budget + 4_096)
        return members
    members["thinking"] = {"type": "adaptive"}
    members["output_config"] = {"effort": "low" if effort == "minimal" else effort}
    return members


def _thinking_under_limit(limit: int, budget: int) -> dict[str, e.Json]:
    """Return thinking that leaves half of a fixed limit to the answer; none where less than the least would remain."""
    budget = min(budget, limit // 2)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


@lru_cache(maxsize=16)
def _encode_tools(tools: tuple[ToolSchema, ...]) -> msgspec.Raw:
    """Return the tools as JSON; they are the same in every request of an epoch."""
    return msgspec.Raw(e.encode_json([_tool_definition(tool) for tool in tools]))


def _tool_definition(tool: ToolSchema) -> e.Json:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": e.parse_raw_json(tool.parameters.decode(), "{"),
    }


def _text_block(text: str) -> dict[str, e.Json]:
    return {"type": "text", "text": text}


def _image_block(image: ImagePart) -> e.Json:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def _input_block(part: Part, endpoint: Endpoint) -> list[e.Json]:
    """Return the blocks of a part of a user's or a tool's message; blank text has none, since the API refuses it."""
    if isinstance(part, TextPart):
        return [_text_block(part.text)] if part.text.strip() else []
    if isinstance(part, ImagePart):
        return [_image_block(part)]
    if not isinstance(part, ToolResultPart):
        return []
    content: list[e.Json] = [_text_block(part.text)] if part.text.strip() else []
    content += [_image_block(image) for image in part.images]
    block: dict[str, e.Json] = {
        "type": "tool_result",
        "tool_use_id": e.encode_call_id(part.call_id, endpoint.record.quirks, strict=True),
    }
    if content:
        block["content"] = content
    if part.status is not ToolStatus.OK:
        block["is_error"] = True
    return [block]


def _answer_block(part: Part, endpoint: Endpoint, *, own: bool) -> list[e.Json]:
    if isinstance(part, TextPart):
        return [_text_block(part.text)] if part.text.strip() else []
    if isinstance(part, ToolCallPart):
        call_id = e.encode_call_id(part.call_id, endpoint.record.quirks, strict=True)
        arguments = e.encode_call_arguments(part.arguments)
        return [{"type": "tool_use", "id": call_id, "name": e.encode_call_name(part.name), "input": arguments}]
    if isinstance(part, ReasoningPart) and own:
        if part.kind == "redacted_thinking" and part.opaque:
            return [{"type": "redacted_thinking", "data": part.opaque}]
        if part.signature or (endpoint.record.quirks.reasoning_replay and part.text):
            return [{"type": "thinking", "thinking": part.text, "signature": part.signature}]
    return []


class _ContentBlock:
    """One content block while it arrives."""

    def __init__(self, start: d.Table) -> None:
        self.kind = d.get_text(start, "type")
        self.text = d.TextPieces()
        self.signature = d.get_text(start, "signature")
        self.data = d.get_text(start, "data")
        self.call = d.CallPieces(d.get_text(start, "id"), d.get_text(start, "name"))
        self.done = False
        given = start.get("input")
        if isinstance(given, dict) and given:
            self.call.add_arguments(d.to_json_text(given))

    @property
    def is_unbegun_call(self) -> bool:
        """Return whether this is a call of which no argument has come."""
        return self.kind == "tool_use" and not self.call.arguments

    def to_part(self, *, whole: bool) -> Part | None:
        """Return the block as a stored part; None for what is empty, unknown or cut."""
        text = self.text.join_text()
        if self.kind == "text":
            return TextPart(text=text) if text else None
        if self.kind == "thinking":
            return (
                ReasoningPart(text=text, kind=self.kind, signature=self.signature) if text or self.signature else None
            )
        if self.kind == "redacted_thinking":
            return ReasoningPart(kind=self.kind, opaque=self.data) if self.data else None
        return self._call_part(whole=whole) if self.kind == "tool_use" else None

    def _call_part(self, *, whole: bool) -> ToolCallPart | None:
        # The limit of tokens closes a block, too, and the stop reason that says so may be lost.
        closed = self.done and (not self.call.arguments or self.call.is_complete)
        if not self.call.name or not (whole or closed):
            return None
        part = self.call.to_part()
        # A tool without parameters is called without a single argument delta: its block starts with `{}`.
        arguments = part.arguments or ("{}" if self.done else "")
        return ToolCallPart(call_id=part.call_id, name=part.name, arguments=arguments)


def _join_parts(blocks: Sequence[_ContentBlock], *, whole: bool) -> tuple[Part, ...]:
    """Return the blocks as parts, texts side by side as one: an answer with citations is cut within its sentences."""
    parts: list[Part] = []
    follows_text = False
    for block in blocks:
        part = block.to_part(whole=whole)
        last = parts[-1] if parts else None
        if follows_text and isinstance(part, TextPart) and isinstance(last, TextPart):
            parts[-1] = TextPart(text=last.text + part.text)
        elif part is not None:
            parts.append(part)
        follows_text = block.kind == "text"
    return tuple(parts)


class AnthropicDecoder:
    """Follows the blocks of one answer. A whole `message` object counts as all of them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._blocks: dict[int, _ContentBlock] = {}
        self._stop = ""
        self._ended = False
        self._model = ""
        self._counts: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        """Return whether a stop reason has come."""
        return bool(self._stop) or self._ended

    @property
    def ended(self) -> bool:
        """Return whether `message_stop` has come."""
        return self._ended

    @property
    def pieces(self) -> int:
        """Return pieces of all calls."""
        return sum(block.call.pieces for block in self._blocks.values())

    def feed(self, event: ServerEvent) -> list[StreamDelta]:
        """Take the next event; unknown ones and pings are passed over, as the API asks."""
        if self._ended or event.data.strip() == "[DONE]":
            return []
        data = d.parse_event(event.data, event.event)
        kind = d.get_event_kind(event, data)
        if kind == "content_block_delta":
            return self._apply_delta(self._find_block(data), d.get_object(data, "delta"))
        if kind == "content_block_start":
            return self._start_block(data)
        if kind == "message":
            return self._read_whole_message(data)
        d.raise_if_error(kind, data)
        self._record_event(kind, data)
        return []

    def _record_event(self, kind: str, data: d.Table) -> None:
        """Take an event that shows nothing."""
        if kind == "content_block_stop":
            self._find_block(data).done = True
        elif kind == "message_start":
            self._read_message(d.get_object(data, "message"))
        elif kind == "message_delta":
            self._stop = d.get_text(d.get_object(data, "delta"), "stop_reason") or self._stop
            self._merge_counts(d.get_object(data, "usage"))
        elif kind == "message_stop":
            self._ended = True

    def build_answer(self) -> Answer:
        """Return what has arrived."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        finish = _FINISH.get(self._stop, FinishReason.UNKNOWN if self._stop else FinishReason.STOP)
        if finish is FinishReason.LENGTH and blocks and blocks[-1].is_unbegun_call:
            blocks.pop()
        parts = _join_parts(blocks, whole=self.finished)
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
        return Answer(message=message, usage=self._build_usage(), served_model=self._model)

    def _find_block(self, data: d.Table) -> _ContentBlock:
        """Return the block that an event is about; a start that was left out is inferred from the delta's type."""
        index = d.get_count(data, "index")
        block = self._blocks.get(index)
        if block is None:
            kinds = {"thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}
            kind = kinds.get(d.get_text(d.get_object(data, "delta"), "type"), "text")
            block = self._blocks[index] = _ContentBlock({"type": kind})
        return block

    def _start_block(self, data: d.Table) -> list[StreamDelta]:
        start = d.get_object(data, "content_block")
        block = self._blocks[d.get_count(data, "index")] = _ContentBlock(start)
        if block.kind == "tool_use":
            return list(block.call.announce_start())
        return self._add_text(block, d.get_text(start, "text") or d.get_text(start, "thinking"))

    def _apply_delta(self, block: _ContentBlock, delta: d.Table) -> list[StreamDelta]:
        kind = d.get_text(delta, "type")
        if kind == "input_json_delta":
            block.call.add_arguments(d.get_text(delta, "partial_json"))
        elif kind == "signature_delta":
            block.signature += d.get_text(delta, "signature")
        elif kind in _TEXT_DELTAS:
            return self._add_text(block, d.get_text(delta, "text") or d.get_text(delta, "thinking"))
        return []

    def _add_text(self, block: _ContentBlock, text: str) -> list[StreamDelta]:
        shown = block.text.add_piece(text) if block.kind in ("text", "thinking") else ""
        if not shown:
            return []
        return [ReasoningDelta(text=shown) if block.kind == "thinking" else TextDelta(text=shown)]

    def _read_message(self, message: d.Table) -> None:
        self._model = d.get_text(message, "model") or self._model
        self._merge_counts(d.get_object(message, "usage"))

    def _read_whole_message(self, message: d.Table) -> list[StreamDelta]:
        deltas: list[StreamDelta] = []
        self._read_message(message)
        self._stop = d.get_text(message, "stop_reason") or self._stop
        if self._blocks:  # a stream that ends with all that it has said (MiniMax); usage may still follow
            self._stop = self._stop or "end_turn"
            return []
        for index, content in enumerate(d.get_objects(message, "content")):
            deltas += self._start_block({"index": index, "content_block": content})
            self._blocks[index].done = True
        self._ended = True
        return deltas

    def _merge_counts(self, usage: d.Table) -> None:
        """Merge counts: later ones replace earlier ones, since the API's `message_delta` counts are cumulative."""
        given = {**usage, **d.get_object(usage, "output_tokens_details")}
        for key in given:
            self._counts[key] = d.get_count(given, key) or self._counts.get(key, 0)

    def _build_usage(self) -> Usage | None:
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
        ).clamp_counts()


WIRE = AnthropicMessagesWire()
