"""OpenAI's newer API format: `POST /responses`, used without storage on their side.

Source: the OpenAI API reference, chapters Responses and Streaming events. Nothing is stored there (`store: false`), so
reasoning goes back as the encrypted items themselves, without their ids: an id would be looked up and not be found.
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
)
from hermes.core.stream import Answer, ReasoningDelta, StreamDelta, TextDelta
from hermes.core.usage import Usage
from hermes.providers import decoding as d
from hermes.providers import encoding as e
from hermes.providers.wire import Endpoint, ServerEvent, matches_model

_NO_REASON = "The provider ended the answer as failed and gave no reason."
_FINAL = frozenset({"response.completed", "response.incomplete", "response.done", "response.failed"})
_UNFINISHED = frozenset({"queued", "in_progress", "cancelled"})
"""Statuses of a response whose answer is not there, or not whole."""
_DELTAS: dict[str, type[TextDelta] | type[ReasoningDelta]] = {
    "response.output_text.delta": TextDelta,
    "response.refusal.delta": TextDelta,
    "response.reasoning_summary_text.delta": ReasoningDelta,
    "response.reasoning_text.delta": ReasoningDelta,
}


class ResponsesWire:
    """The encoder of the Responses format. Pure; one instance serves every endpoint."""

    name = "responses"
    version = 1
    path = "/responses"

    def build_headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Return a bearer token, and what the record adds."""
        return e.build_bearer_headers(endpoint)

    def encode_message(self, message: Message, endpoint: Endpoint) -> bytes:
        """Encode the message as items of `input`."""
        if message.role is Role.ASSISTANT:
            items = _answer_items(message, endpoint)
        elif message.role is Role.TOOL:
            items = _tool_items(message, endpoint)
        else:
            items = [{"role": "user", "content": _user_content(message)}]
        return b",".join(e.encode_json(item) for item in items)

    def find_mark_offset(self, message: Message, encoded: bytes, endpoint: Endpoint) -> int:
        """Return -1: this format has no marks, its servers cache by themselves."""
        return -1

    def encode_body(
        self,
        frame: EpochFrame,
        messages: bytes | bytearray,
        endpoint: Endpoint,
        *,
        final: bool,
        places: Sequence[int] = (),
    ) -> bytes:
        """Encode a whole request; the system prompt is `instructions`."""
        quirks = endpoint.record.quirks
        head: dict[str, e.Json] = {"model": endpoint.model, "stream": frame.streams, "store": False}
        head |= e.build_sampling_members(frame, endpoint)
        if "max_completion_tokens" in head or "max_tokens" in head:
            head["max_output_tokens"] = head.pop("max_completion_tokens", None) or head.pop("max_tokens", None)
        for name in quirks.dropped_members:
            head.pop(name, None)
        if not matches_model(endpoint.model, quirks.unreasoning_models):
            head["include"] = ["reasoning.encrypted_content"]
            if effort := e.resolve_effort(frame):
                head["reasoning"] = {"effort": effort, "summary": "auto"}
        if frame.system:
            head["instructions"] = frame.system
        if frame.tools:
            head["tools"] = _encode_tools(frame.tools)
        none = final and frame.tools and quirks.tool_choice_none
        tail = b',"tool_choice":"none"' if none else b""
        return e.build_body(head, "input", [[messages]], tail, quirks.extra_body)

    def create_decoder(self, endpoint: Endpoint) -> "ResponsesDecoder":
        """Create a decoder for one answer."""
        return ResponsesDecoder(endpoint)


@lru_cache(maxsize=16)
def _encode_tools(tools: tuple[ToolSchema, ...]) -> msgspec.Raw:
    """Return the tools as JSON; they are the same in every request of an epoch."""
    return msgspec.Raw(e.encode_json([_tool_definition(tool) for tool in tools]))


def _tool_definition(tool: ToolSchema) -> e.Json:
    parameters = e.parse_raw_json(tool.parameters.decode(), "{")
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": False,
    }


def _image_content(image: ImagePart) -> e.Json:
    return {"type": "input_image", "detail": "auto", "image_url": e.get_image_url(image)}


def _user_content(message: Message) -> e.Json:
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return e.join_text(message)
    content: list[e.Json] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append(_image_content(part))
    return content


def _tool_items(message: Message, endpoint: Endpoint) -> list[e.Json]:
    """Return one output item a result; then one user message with their pictures and the text that joins here."""
    quirks = endpoint.record.quirks
    results = list(message.tool_results())
    items: list[e.Json] = []
    for result in results:
        given = e.encode_call_id(result.call_id, quirks)
        items.append({"type": "function_call_output", "call_id": given, "output": result.text})
    content: list[e.Json] = []
    for label, image in e.collect_result_images(results):
        content += [{"type": "input_text", "text": label}, _image_content(image)]
    text = e.join_text(message)
    if text and content:
        content.append({"type": "input_text", "text": text})
    if content or text:
        items.append({"role": "user", "content": content or text})
    return items


def _answer_items(message: Message, endpoint: Endpoint) -> list[e.Json]:
    """Return the answer's parts in order. Reasoning goes back encrypted, to its own
    model, and never as the last item.
    """
    quirks = endpoint.record.quirks
    own = e.is_same_origin(message, endpoint)
    items: list[e.Json] = []
    held: list[e.Json] = []
    for part in message.parts:
        if isinstance(part, ReasoningPart):
            if own and part.opaque:
                held.append(_reasoning_item(part))
            continue
        if isinstance(part, TextPart) and part.text:
            items += [*held, _message_item(part.text)]
            held = []
        elif isinstance(part, ToolCallPart):
            call: dict[str, e.Json] = {
                "type": "function_call",
                "call_id": e.encode_call_id(part.call_id, quirks),
                "name": e.encode_call_name(part.name),
                "arguments": bytes(e.encode_call_arguments(part.arguments)).decode(),
            }
            items += [*held, call]
            held = []
    return items or [_message_item("")]


def _message_item(text: str) -> e.Json:
    """Return the full form of an item, without an id: llama.cpp does not take the short one from an assistant."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _reasoning_item(part: ReasoningPart) -> e.Json:
    summary: list[e.Json] = [{"type": "summary_text", "text": part.text}] if part.text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": part.opaque}


class _OutputItem:
    """One output item while it arrives."""

    def __init__(self, start: d.Table) -> None:
        self.kind = d.get_text(start, "type")
        self.text = d.TextPieces()
        self.call = d.CallPieces()
        self.whole: d.Table | None = None
        self.update_item(start)

    def update_item(self, item: d.Table) -> None:
        """Take what the item says of itself."""
        self.kind = d.get_text(item, "type") or self.kind
        self.call.call_id = d.get_text(item, "call_id") or self.call.call_id
        self.call.name = d.get_text(item, "name") or self.call.name
        self.call.item_id = d.get_text(item, "id") or self.call.item_id

    def finish_item(self, item: d.Table) -> None:
        """Take the item's final form."""
        self.update_item(item)
        self.whole = item
        self.call.done = True
        arguments = d.get_text(item, "arguments")
        if arguments:
            self.call.replace_arguments(arguments)

    def to_parts(self, *, whole: bool) -> list[Part]:
        """Return the item as stored parts."""
        if self.kind == "message":
            text = self.text.join_text() or (_item_text(self.whole) if self.whole else "")
            return [TextPart(text=text)] if text else []
        if self.kind == "reasoning":
            final = self.whole or d.EMPTY
            opaque = d.get_text(final, "encrypted_content")
            text = _reasoning_text(final) or self.text.join_text()
            if not text and not opaque:
                return []
            return [ReasoningPart(text=text, kind="reasoning", opaque=opaque, item_id=self.call.item_id)]
        if self.kind == "function_call":
            return list(d.build_call_parts([self.call], whole=whole))
        return []


def _item_text(item: d.Table) -> str:
    return "".join(d.get_text(part, "text") or d.get_text(part, "refusal") for part in d.get_objects(item, "content"))


def _reasoning_text(item: d.Table) -> str:
    """Return the summary's paragraphs, or the open text of models that show it."""
    summary = [d.get_text(part, "text") for part in d.get_objects(item, "summary")]
    return "\n\n".join(text for text in summary if text) or _item_text(item)


class ResponsesDecoder:
    """Follows the items of one answer. A whole `response` object counts as all of them."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._items: dict[int | str, _OutputItem] = {}
        self._status = ""
        self._reason = ""
        self._usage: Usage | None = None
        self._model = ""

    @property
    def finished(self) -> bool:
        """Return whether the response is completed or says why it is not."""
        return bool(self._status)

    @property
    def ended(self) -> bool:
        """Return whether the final event has come; nothing follows it."""
        return bool(self._status)

    @property
    def pieces(self) -> int:
        """Return pieces of all calls."""
        return sum(item.call.pieces for item in self._items.values())

    def feed(self, event: ServerEvent) -> list[StreamDelta]:
        """Take the next event; unknown ones are passed over."""
        if self._status or event.data.strip() == "[DONE]":
            return []
        data = d.parse_event(event.data, event.event)
        kind = d.get_event_kind(event, data)
        shown = _DELTAS.get(kind)
        if shown is not None:
            return self._apply_text_delta(shown, data)
        if kind.startswith(("response.output_item.", "response.function_call_arguments.")):
            return self._apply_item_event(kind, data)
        if kind == "response.reasoning_summary_part.added":
            return self._begin_paragraph(data)
        if kind in _FINAL or data.get("object") == "response":
            return self._finish_response(d.get_object(data, "response") or data)
        d.raise_if_error(kind, data)
        self._model = d.get_text(d.get_object(data, "response"), "model") or self._model
        return []

    def _apply_text_delta(self, kind: type[TextDelta] | type[ReasoningDelta], data: d.Table) -> list[StreamDelta]:
        item = self._find_item(data, "message" if kind is TextDelta else "reasoning")
        text = item.text.add_piece(d.get_text(data, "delta"))
        return [kind(text=text)] if text else []

    def _begin_paragraph(self, data: d.Table) -> list[StreamDelta]:
        """Begin a paragraph for a further part of a summary."""
        if d.get_count(data, "summary_index") == 0:
            return []
        self._find_item(data, "reasoning").text.add_piece("\n\n")
        return [ReasoningDelta(text="\n\n")]

    def build_answer(self) -> Answer:
        """Return what has arrived."""
        found: list[Part] = []
        for item in self._items.values():
            found += item.to_parts(whole=self.finished)
        called = any(isinstance(part, ToolCallPart) for part in found)
        finish = FinishReason.TOOL_CALLS if called else FinishReason.STOP
        if not self.finished:
            finish = FinishReason.CUT
        elif self._status == "incomplete":
            finish = FinishReason.CONTENT_FILTER if self._reason == "content_filter" else FinishReason.LENGTH
            last = found[-1] if found else None
            if isinstance(last, ToolCallPart) and not last.arguments:  # the answer ended before they began
                found.pop()
        endpoint = self._endpoint
        origin = Origin(provider=endpoint.record.name, model=endpoint.model, wire=endpoint.wire)
        message = Message(role=Role.ASSISTANT, parts=tuple(found), finish=finish, origin=origin)
        return Answer(message=message, usage=self._usage, served_model=self._model)

    def _find_item(self, data: d.Table, kind: str) -> _OutputItem:
        """Return the item an event is about, by position, else by id, else the last of its kind."""
        index = d.get_index(data, "output_index")
        item = self._items.get(index) if index is not None else None
        if item is not None:
            return item
        item_id = d.get_text(data, "item_id") or d.get_text(d.get_object(data, "item"), "id")
        if index is None and (known := self._find_by_id(item_id, kind)) is not None:
            return known
        key = index if index is not None else item_id or f"{kind} {len(self._items)}"
        item = self._items[key] = _OutputItem({"type": kind, "id": item_id})
        return item

    def _find_by_id(self, item_id: str, kind: str) -> _OutputItem | None:
        """Return the item with that id, else the last one that is open and of the kind where not both have an id."""
        items = [*reversed(self._items.values())]
        known = next((item for item in items if item_id and item.call.item_id == item_id), None)
        opened = (item for item in items if item.whole is None and item.kind == kind)
        return known or next((item for item in opened if not item_id or not item.call.item_id), None)

    def _apply_item_event(self, kind: str, data: d.Table) -> list[StreamDelta]:
        given = d.get_object(data, "item")
        item = self._find_item(data, d.get_text(given, "type") or "function_call")
        if kind == "response.output_item.added":
            item.update_item(given)
        elif kind == "response.output_item.done":
            return self._finish_item(item, given)
        elif kind == "response.function_call_arguments.delta":
            item.call.add_arguments(d.get_text(data, "delta"))
        elif kind == "response.function_call_arguments.done" and d.get_text(data, "arguments"):
            item.call.replace_arguments(d.get_text(data, "arguments"))
        return list(item.call.announce_start()) if item.kind == "function_call" else []

    def _finish_item(self, item: _OutputItem, given: d.Table) -> list[StreamDelta]:
        """Close an item; text that came only now is shown now."""
        item.finish_item(given)
        if item.kind == "function_call":
            return list(item.call.announce_start())
        text = _item_text(given) if item.kind == "message" else _reasoning_text(given)
        if item.text or not text:
            return []
        shown = item.text.add_piece(text)
        return [TextDelta(text=shown) if item.kind == "message" else ReasoningDelta(text=shown)]

    def _finish_response(self, response: d.Table) -> list[StreamDelta]:
        """Take the final object: its status, its usage, and items that no event has brought."""
        if response.get("status") == "failed" or response.get("type") == "response.failed" or response.get("error"):
            d.raise_error(response.get("error") or _NO_REASON)
        if response.get("status") in _UNFINISHED:
            return []
        deltas = self._add_missing_items(d.get_objects(response, "output"))
        self._model = d.get_text(response, "model") or self._model
        usage = d.get_object(response, "usage")
        self._usage = _parse_usage(usage) if usage else self._usage
        self._reason = d.get_text(d.get_object(response, "incomplete_details"), "reason")
        self._status = d.get_text(response, "status") or "completed"
        return deltas

    def _add_missing_items(self, output: list[d.Table]) -> list[StreamDelta]:
        """Add items of the final object that no event has closed."""
        deltas: list[StreamDelta] = []
        unnumbered = [item for key, item in self._items.items() if isinstance(key, str)]
        for index, given in enumerate(output):
            item_id, kind = d.get_text(given, "id"), d.get_text(given, "type")
            item = self._items.get(index) or self._find_by_id(item_id, kind)
            if item is None and not item_id and index < len(unnumbered) and unnumbered[index].kind == kind:
                item = unnumbered[index]
            if item is None:
                item = self._items[index] = _OutputItem(given)
            if item.whole is None:
                deltas += self._finish_item(item, given)
        return deltas


def _parse_usage(usage: d.Table) -> Usage:
    read = d.get_object(usage, "input_tokens_details")
    return Usage(
        input=d.get_count(usage, "input_tokens"),
        output=d.get_count(usage, "output_tokens"),
        cache_read=d.get_count(read, "cached_tokens"),
        cache_write=d.get_count(read, "cache_write_tokens"),
        reasoning=d.get_count(d.get_object(usage, "output_tokens_details"), "reasoning_tokens"),
        cost_usd=d.parse_cost(usage),
    )


WIRE = ResponsesWire()
