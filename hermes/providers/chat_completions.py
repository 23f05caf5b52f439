"""The API format that OpenAI began and most vendors speak: `POST /chat/completions`.

Source: the OpenAI API reference, chapter Chat Completions, and the vendors' own deviations named where they are met.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from hermes.core.frame import EpochFrame, ToolSchema
from hermes.core.messages import FinishReason, ImagePart, Message, Origin, ReasoningPart, Role, TextPart
from hermes.core.stream import Answer, ReasoningDelta, StreamDelta, TextDelta
from hermes.core.usage import Usage
from hermes.providers import decoding as d
from hermes.providers import encoding as e
from hermes.providers.wire import Endpoint, ServerEvent, WireError, matches_model

if TYPE_CHECKING:
    from hermes.providers.think_tags import ThinkTagSplitter

_FINISH = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "complete": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "blocklist": FinishReason.CONTENT_FILTER,
    "prohibited_content": FinishReason.CONTENT_FILTER,
    "spii": FinishReason.CONTENT_FILTER,
    "guardrail_intervened": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "network_error": FinishReason.CUT,
    "insufficient_system_resource": FinishReason.CUT,
    "abort": FinishReason.CUT,
}
"""By a vendor's word in small letters, without what a colon sets off behind it (Gemini: `content_filter: SAFETY`)."""


_OPENED_BY_TEMPLATE = re.compile(r"deepseek[-_]?r1|qwq|[-_:]think(ing)?\b", re.IGNORECASE)
"""Models whose template ends with the tag that opens a thought, so that their answers hold only the closing one."""


class ChatCompletionsWire:
    """The encoder of the chat completions format. Pure; one instance serves every endpoint."""

    name = "chat_completions"
    version = 2
    path = "/chat/completions"

    def build_headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Return a bearer token, and what the record adds."""
        return e.build_bearer_headers(endpoint)

    def encode_message(self, message: Message, endpoint: Endpoint) -> bytes:
        """Encode the message as elements of `messages`."""
        if message.role is Role.ASSISTANT:
            return e.encode_json(_assistant_element(message, endpoint))
        if message.role is Role.TOOL:
            return b",".join(e.encode_json(element) for element in _tool_elements(message, endpoint))
        return e.encode_json({"role": "user", "content": _user_content(message, endpoint)})

    def find_mark_offset(self, message: Message, encoded: bytes, endpoint: Endpoint) -> int:
        """Return the place behind the last member of the last block; of a result, or of calls without text, of the
        message itself.

        An empty message takes no mark. Source: OpenRouter's own client (`convert-to-openrouter-chat-messages.ts`).
        """
        if not e.supports_cache_marks(endpoint) or encoded.endswith(b'"content":""}'):
            return -1
        texts = bool(e.join_text(message))
        if message.role is Role.ASSISTANT and not texts:
            return len(encoded) - len("}") if any(message.tool_calls()) else -1
        alone = message.role is Role.TOOL and not texts and not any(result.images for result in message.tool_results())
        return len(encoded) - len("}" if alone else "}]}")

    def encode_body(
        self,
        frame: EpochFrame,
        messages: bytes | bytearray,
        endpoint: Endpoint,
        *,
        final: bool,
        places: Sequence[int] = (),
    ) -> bytes:
        """Encode a whole request."""
        quirks = endpoint.record.quirks
        head: dict[str, e.Json] = {"model": endpoint.model, "stream": frame.streams, **_stream_options(frame, endpoint)}
        head |= e.build_sampling_members(frame, endpoint)
        head |= _effort_members(frame, endpoint)
        if frame.tools:
            head["tools"] = _encode_tools(frame.tools)
        system = (
            e.encode_json({"role": "system", "content": _system_content(frame.system, endpoint)})
            if frame.system
            else b""
        )
        none = final and frame.tools and quirks.tool_choice_none
        tail = b',"tool_choice":"none"' if none else b""
        return e.build_body(
            head, "messages", [[system], e.splice_cache_marks(messages, places, endpoint)], tail, quirks.extra_body
        )

    def create_decoder(self, endpoint: Endpoint) -> "ChatDecoder":
        """Create a decoder for one answer."""
        return ChatDecoder(endpoint)


def _stream_options(frame: EpochFrame, endpoint: Endpoint) -> dict[str, e.Json]:
    usage = frame.streams and endpoint.record.quirks.stream_usage
    return {"stream_options": {"include_usage": True}} if usage else {}


def _effort_members(frame: EpochFrame, endpoint: Endpoint) -> dict[str, e.Json]:
    """Return how much the model is to think, in the provider's own form; empty where it takes no such thing."""
    quirks, effort, tokens = endpoint.record.quirks, e.resolve_effort(frame), frame.sampling.reasoning_tokens
    if not effort or not quirks.effort or matches_model(endpoint.model, quirks.unreasoning_models):
        return {}
    if quirks.effort != "reasoning":
        return {quirks.effort: effort}
    return {quirks.effort: {"effort": effort} if tokens is None else {"max_tokens": tokens}}


@lru_cache(maxsize=16)
def _encode_tools(tools: tuple[ToolSchema, ...]) -> msgspec.Raw:
    """Return the tools as JSON; they are the same in every request of an epoch."""
    return msgspec.Raw(e.encode_json([_tool_definition(tool) for tool in tools]))


def _tool_definition(tool: ToolSchema) -> dict[str, e.Json]:
    parameters = e.parse_raw_json(tool.parameters.decode(), "{")
    function: dict[str, e.Json] = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _system_content(text: str, endpoint: Endpoint) -> e.Json:
    return (
        [{"type": "text", "text": text, **e.build_cache_mark(endpoint)}] if e.supports_cache_marks(endpoint) else text
    )


def _text_content(text: str, endpoint: Endpoint) -> e.Json:
    """Return a user's text: one string, or a block where marks are possible.

    Empty text is never a block: that is refused.
    """
    return [{"type": "text", "text": text}] if text and e.supports_cache_marks(endpoint) else text


def _user_content(message: Message, endpoint: Endpoint) -> e.Json:
    """Return the text alone when all is text; else the parts in order."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return _text_content(e.join_text(message), endpoint)
    content: list[e.Json] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append(_image_content(part))
    return content


def _image_content(image: ImagePart) -> e.Json:
    return {"type": "image_url", "image_url": {"url": e.get_image_url(image)}}


def _tool_elements(message: Message, endpoint: Endpoint) -> list[e.Json]:
    """Return one `tool` element a result; then one `user` element with their pictures and the text that joins here."""
    quirks = endpoint.record.quirks
    results = list(message.tool_results())
    elements: list[e.Json] = [
        {"role": "tool", "tool_call_id": e.encode_call_id(result.call_id, quirks), "content": result.text}
        for result in results
    ]
    pictures = e.collect_result_images(results)
    text = e.join_text(message)
    content: list[e.Json] = []
    for label, image in pictures:
        content += [{"type": "text", "text": label}, _image_content(image)]
    if text and content:
        content.append({"type": "text", "text": text})
    if content or text:
        elements.append({"role": "user", "content": content or _text_content(text, endpoint)})
    return elements


def _assistant_element(message: Message, endpoint: Endpoint) -> dict[str, e.Json]:
    quirks = endpoint.record.quirks
    own = e.is_same_origin(message, endpoint)
    calls: list[e.Json] = []
    for call in message.tool_calls():
        arguments = bytes(e.encode_call_arguments(call.arguments)).decode()
        element: dict[str, e.Json] = {
            "id": e.encode_call_id(call.call_id, quirks),
            "type": "function",
            "function": {"name": e.encode_call_name(call.name), "arguments": arguments},
        }
        calls.append({**element, **(e.decode_call_extra(call) if own else {})})
    text = e.join_text(message)
    head: dict[str, e.Json] = {"role": "assistant"}
    content: dict[str, e.Json] = {"content": None if calls and not text else _text_content(text, endpoint)}
    more = _replayed_reasoning(message, endpoint, own=own)
    if calls:
        more["tool_calls"] = calls
    # Where marks are possible, a list of blocks stands last: so the mark's place is known by its distance to the end.
    return head | more | content if text and e.supports_cache_marks(endpoint) else head | content | more


def _replayed_reasoning(message: Message, endpoint: Endpoint, *, own: bool) -> dict[str, e.Json]:
    """Return reasoning in the field that the record names, only for the model that wrote it."""
    quirks = endpoint.record.quirks
    parts = [part for part in message.parts if isinstance(part, ReasoningPart)]
    replayed = _reasoning_members(parts, quirks.reasoning_field) if own and quirks.reasoning_replay else {}
    return replayed or ({quirks.reasoning_field: " "} if quirks.reasoning_required else {})


def _reasoning_members(parts: list[ReasoningPart], field: str) -> dict[str, e.Json]:
    """Return the provider's own details untouched where that is its field, else the text."""
    text = "".join(part.text for part in parts)
    if field != "reasoning_details":
        return {field: text} if text else {}
    details = next((raw for part in parts if (raw := e.parse_raw_json(part.opaque, "[")) is not None), None)
    if details is not None:
        return {field: details}
    return {"reasoning": text} if text else {}


class ChatDecoder:
    """Joins the deltas of one answer. A whole `chat.completion` object counts as one delta."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._text = d.TextPieces()
        self._reasoning = d.TextPieces()
        self._tags: ThinkTagSplitter | None = None
        """Set where the content may begin with a thought."""
        self._begun = False
        """Whether content has come that is more than blank, or thoughts in a field of their own."""
        self._reasoning_kind = ""
        self._details: list[dict[str, object]] = []
        self._calls: list[d.CallPieces] = []
        self._slots: dict[int, d.CallPieces] = {}
        self._finish = ""
        self._ended = False
        self._usage: Usage | None = None
        self._model = ""

    @property
    def finished(self) -> bool:
        """Return whether a finish reason or the end mark has come."""
        return bool(self._finish) or self._ended

    @property
    def ended(self) -> bool:
        """Return whether the end mark has come."""
        return self._ended

    @property
    def pieces(self) -> int:
        """Return pieces of all calls."""
        return sum(call.pieces for call in self._calls)

    def feed(self, event: ServerEvent) -> list[StreamDelta]:
        """Take the next chunk."""
        if self._ended:
            return []
        if event.data[:1] != "{" and event.data.strip() == "[DONE]":
            self._ended = True
            return self._settle_content()
        chunk = d.parse_event(event.data, event.event)
        d.raise_if_error(event.event, chunk)
        self._model = self._model or d.get_text(chunk, "model")
        choice = next(iter(d.get_objects(chunk, "choices")), d.EMPTY)
        if choice.get("error"):
            d.raise_error(choice.get("error"))
        self._take_usage(chunk, choice)
        deltas = self._apply_delta(d.get_object(choice, "delta") or self._find_unsaid(choice))
        finish = d.get_text(choice, "finish_reason")
        if finish in ("error", "ERROR"):
            raise WireError("The provider broke the answer off with the finish reason `error`.", code="error")
        self._finish = finish or self._finish
        self._ended = chunk.get("object") == "chat.completion"
        return deltas + self._settle_content() if self._finish or self._ended else deltas

    def _find_unsaid(self, choice: d.Table) -> d.Table:
        """Return what of a whole message no delta has brought: some vendors end a stream with all of it (MiniMax)."""
        message = choice.get("message")
        if not isinstance(message, dict):
            return d.EMPTY
        texts, thoughts = bool(self._text) or self._tags is not None, bool(self._reasoning) or bool(self._details)
        said = {"content": texts, "refusal": texts, "tool_calls": bool(self._calls)}
        return {key: value for key, value in message.items() if not said.get(key, thoughts and "reasoning" in key)}

    def _take_usage(self, chunk: d.Table, choice: d.Table) -> None:
        """Take the usage from the chunk, its choice (Moonshot) or `x_groq`; the last report counts."""
        if "usage" not in chunk and "usage" not in choice and "x_groq" not in chunk:
            return
        usage = d.get_object(chunk, "usage") or d.get_object(choice, "usage")
        usage = usage or d.get_object(d.get_object(chunk, "x_groq"), "usage")
        if usage:
            self._usage = _parse_usage(usage)

    def _split_content(self, text: str) -> list[StreamDelta]:
        """Take more content, in which an answer may begin with a thought."""
        if self._tags is None and not self._begun:
            self._begun = bool(text.strip())
            self._tags = self._create_splitter(text.lstrip())
        if self._tags is None:
            return self._add_content("", text)
        thought, text = self._tags.feed(text)
        if self._tags.is_taken_back:
            self._reasoning, self._tags.is_taken_back = d.TextPieces(), False
        return self._add_content(thought, text)

    def _create_splitter(self, beginning: str) -> "ThinkTagSplitter | None":
        opened = (
            self._endpoint.record.quirks.think_tags and _OPENED_BY_TEMPLATE.search(self._endpoint.model) is not None
        )
        if not opened and beginning[:1] not in ("", "<", "["):
            return None
        from hermes.providers.think_tags import ThinkTagSplitter

        return ThinkTagSplitter(opened=opened)

    def _settle_content(self) -> list[StreamDelta]:
        """Split what is left of the content, once. A thought that never ended is the answer: nothing is lost.

        It stays a thought where the answer was cut off within it, and beside calls; one that only its model's name
        made a thought of does not.
        """
        tags, self._tags, self._begun = self._tags, None, True
        if tags is None:
            return []
        deltas = self._add_content(*tags.close())
        whole = self.finished and _parse_finish(self._finish) is not FinishReason.LENGTH and not self._calls
        if not tags.is_unclosed or not (whole or tags.is_guessed):
            return deltas
        self._reasoning = d.TextPieces()
        return [*deltas, *self._add_content("", tags.raw)]

    def _add_content(self, thought: str, text: str) -> list[StreamDelta]:
        deltas: list[StreamDelta] = []
        if thought and (shown := self._reasoning.add_piece(thought)):
            deltas.append(ReasoningDelta(text=shown))
        if text and (shown := self._text.add_piece(text)):
            deltas.append(TextDelta(text=shown))
        return deltas

    def build_answer(self) -> Answer:
        """Return what has arrived."""
        self._settle_content()
        text = self._text.join_text()
        calls = d.build_call_parts(self._calls, whole=self.finished)
        finish = _parse_finish(self._finish)
        calls = d.drop_unbegun_call(calls, finish)
        if not self.finished:
            finish = FinishReason.CUT
        elif calls and finish in (FinishReason.STOP, FinishReason.UNKNOWN):
            finish = FinishReason.TOOL_CALLS
        elif not self._finish or (finish is FinishReason.TOOL_CALLS and not calls):
            finish = FinishReason.STOP
        origin = Origin(provider=self._endpoint.record.name, model=self._endpoint.model, wire=self._endpoint.wire)
        message = Message(
            role=Role.ASSISTANT,
            parts=d.order_parts(self._reasoning_parts(), text, calls),
            finish=finish,
            origin=origin,
        )
        return Answer(message=message, usage=self._usage, served_model=self._model)

    def _reasoning_parts(self) -> list[ReasoningPart]:
        text = self._reasoning.join_text()
        opaque = d.to_json_text(self._details) if self._details else ""
        if not text and not opaque:
            return []
        kind = "reasoning_details" if opaque else self._reasoning_kind
        return [ReasoningPart(text=text, kind=kind, opaque=opaque)]

    def _apply_delta(self, delta: d.Table) -> list[StreamDelta]:
        if not delta:
            return []
        reasoning, text = self._read_reasoning(delta), ""
        content = delta.get("content")
        if isinstance(content, str):
            text = content
        elif isinstance(content, list):
            thought, text = _split_content_chunks(content)
            reasoning += thought
        deltas: list[StreamDelta] = []
        if reasoning:
            self._begun = True
            deltas += self._add_content(reasoning, "")
        if text:
            deltas += self._split_content(text)
        if "refusal" in delta:
            deltas += self._add_content("", d.get_text(delta, "refusal"))
        if "tool_calls" in delta:
            for call in d.get_objects(delta, "tool_calls"):
                deltas += self._apply_call_delta(call)
        return deltas

    def _read_reasoning(self, delta: d.Table) -> str:
        """Return the new reasoning of a delta. Vendors that send it in two fields at once mean it once."""
        text = ""
        for detail in d.get_objects(delta, "reasoning_details") if "reasoning_details" in delta else ():
            self._add_detail(dict(detail))
            text += d.get_text(detail, "text") + d.get_text(detail, "summary")
        for kind in ("reasoning_content", "reasoning"):
            if kind in delta and (named := d.get_text(delta, kind)):
                self._reasoning_kind = self._reasoning_kind or kind
                return named
        return text

    def _add_detail(self, detail: dict[str, object]) -> None:
        """Join the pieces of one `reasoning_details` entry: same index and type, texts in order, marks kept."""
        last = self._details[-1] if self._details else None
        if last is None or last.get("type") != detail.get("type") or last.get("index") != detail.get("index"):
            self._details.append(detail)
            return
        for key, value in detail.items():
            old = last.get(key)
            if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(old, str):
                last[key] = old + value
            elif value is not None:
                last[key] = value

    def _apply_call_delta(self, delta: d.Table) -> list[StreamDelta]:
        function = d.get_object(delta, "function")
        name, call_id = d.get_text(function, "name"), d.get_text(delta, "id")
        given = function.get("arguments")
        arguments = given if isinstance(given, str) else d.to_json_text(given) if isinstance(given, dict) else ""
        call = self._find_call(d.get_index(delta, "index"), call_id, name, arguments)
        if name:
            call.add_name(name)
        call.call_id = call.call_id or call_id
        if isinstance(given, dict):
            call.replace_arguments(arguments)
        elif arguments:
            call.add_arguments(arguments)
        if delta.get("extra_content") is not None:
            call.extra["extra_content"] = delta["extra_content"]
        return list(call.announce_start())

    def _find_call(self, index: int | None, call_id: str, name: str, arguments: str) -> d.CallPieces:
        """Return the call that a delta belongs to.

        By index, unless the delta names another call (vendors that number every call 0 are known, with ids and
        without); without an index by id; without either a name begins a new call once the last one is whole or has
        another name.
        """
        if index is None:
            slot = self._find_unnumbered_call(call_id, name)
        else:
            slot = self._slots.get(index)
            if slot is not None and name:
                if slot.call_id and call_id not in ("", slot.call_id):
                    slot = self._find_call_by_id(call_id)
                elif slot.is_followed_by(name, arguments):
                    slot = None
        if slot is None:
            slot = d.CallPieces(call_id=call_id)
            self._calls.append(slot)
        if index is not None:
            self._slots[index] = slot
        return slot

    def _find_call_by_id(self, call_id: str) -> d.CallPieces | None:
        return next((call for call in self._calls if call.call_id == call_id), None)

    def _find_unnumbered_call(self, call_id: str, name: str) -> d.CallPieces | None:
        if call_id:
            known = self._find_call_by_id(call_id)
            if known is not None or name or not self._calls:
                return known
        last = self._calls[-1] if self._calls else None
        if last is not None and name and (last.name != name or last.is_complete):
            return None
        return last


def _split_content_chunks(chunks: list[object]) -> tuple[str, str]:
    """Reasoning and text of Mistral's content list (`thinking` chunks hold a list of text chunks)."""
    reasoning, text = "", ""
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        text += d.get_text(chunk, "text")
        reasoning += d.get_text(chunk, "thinking")
        reasoning += "".join(d.get_text(inner, "text") for inner in d.get_objects(chunk, "thinking"))
    return reasoning, text


def _parse_finish(reason: str) -> FinishReason:
    return _FINISH.get(reason.lower().partition(":")[0], FinishReason.UNKNOWN)


def _parse_usage(usage: d.Table) -> Usage:
    """Return token counts under the names that vendors use for them.

    Gemini and xAI leave reasoning out of `completion_tokens` but not out of `total_tokens`; the larger figure is right.
    """
    prompt, completion = d.get_count(usage, "prompt_tokens"), d.get_count(usage, "completion_tokens")
    details = d.get_object(usage, "prompt_tokens_details")
    cached = (
        d.get_count(details, "cached_tokens")
        or d.get_count(usage, "prompt_cache_hit_tokens")
        or d.get_count(usage, "cached_tokens")
    )
    return Usage(
        input=prompt,
        output=max(completion, d.get_count(usage, "total_tokens") - prompt),
        cache_read=cached,
        cache_write=d.get_count(details, "cache_write_tokens"),
        reasoning=d.get_count(d.get_object(usage, "completion_tokens_details"), "reasoning_tokens"),
        cost_usd=d.parse_cost(usage),
    )


WIRE = ChatCompletionsWire()
