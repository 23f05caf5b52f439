"""The wire that OpenAI began and most vendors speak: `POST /chat/completions`.

Source: the OpenAI API reference, chapter Chat Completions, and the vendors' own deviations named where they are met.
"""

from collections.abc import Sequence

from hermes.core.frame import EpochFrame, ToolSchema
from hermes.core.messages import FinishReason, Message, Origin, Role
from hermes.core.parts import ImagePart, ReasoningPart, TextPart
from hermes.core.stream import Answer, ReasoningDelta, StreamDelta, TextDelta
from hermes.core.usage import Usage
from hermes.providers import decoding as d
from hermes.providers import encoding as e
from hermes.providers.wire import Endpoint, ServerEvent, WireError, matches

_FINISH = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "eos": FinishReason.STOP,
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
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
    "network_error": FinishReason.CUT,
    "insufficient_system_resource": FinishReason.CUT,
}


class ChatCompletions:
    """The encoder. Pure; one instance serves every endpoint."""

    name = "chat_completions"
    version = 2
    path = "/chat/completions"

    def headers(self, endpoint: Endpoint) -> dict[str, str]:
        """A bearer token, and what the record adds."""
        return e.bearer_headers(endpoint)

    def encode_message(self, message: Message, endpoint: Endpoint) -> bytes:
        """The message as elements of `messages`."""
        if message.role is Role.ASSISTANT:
            return e.encode(_assistant(message, endpoint))
        if message.role is Role.TOOL:
            return b",".join(e.encode(element) for element in _tool_results(message, endpoint))
        return e.encode({"role": "user", "content": _user_content(message, endpoint)})

    def mark_place(self, message: Message, encoded: bytes, endpoint: Endpoint) -> int:
        """Behind the last member of the last block; of a result, or of calls without text, of the message itself.

        An empty message takes none. Source: OpenRouter's own client (`convert-to-openrouter-chat-messages.ts`).
        """
        if not e.marked_form(endpoint) or encoded.endswith(b'"content":""}'):
            return -1
        texts = bool(e.joined_text(message))
        if message.role is Role.ASSISTANT and not texts:
            return len(encoded) - len("}") if any(message.calls()) else -1
        alone = message.role is Role.TOOL and not texts and not any(result.images for result in message.results())
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
        """A whole request."""
        quirks = endpoint.record.quirks
        head: dict[str, e.Json] = {"model": endpoint.model, "stream": True}
        if quirks.stream_usage:
            head["stream_options"] = {"include_usage": True}
        head |= e.sampling_members(frame, endpoint)
        effort = frame.sampling.reasoning_effort
        if effort and quirks.effort and not matches(endpoint.model, quirks.unreasoning_models):
            head[quirks.effort] = {"effort": effort} if quirks.effort == "reasoning" else effort
        if frame.tools:
            head["tools"] = [_tool(tool) for tool in frame.tools]
        system = e.encode({"role": "system", "content": _system(frame.system, endpoint)}) if frame.system else b""
        none = final and frame.tools and quirks.tool_choice_none
        tail = b',"tool_choice":"none"' if none else b""
        return e.body(head, "messages", [[system], e.spliced(messages, places, endpoint)], tail, quirks.extra_body)

    def decoder(self, endpoint: Endpoint) -> "ChatDecoder":
        """A fresh decoder for one answer."""
        return ChatDecoder(endpoint)


def _tool(tool: ToolSchema) -> dict[str, e.Json]:
    parameters = e.raw_json(tool.parameters.decode(), "{")
    function: dict[str, e.Json] = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _system(text: str, endpoint: Endpoint) -> e.Json:
    return [{"type": "text", "text": text, **e.cache_mark(endpoint)}] if e.marked_form(endpoint) else text


def _plain_content(text: str, endpoint: Endpoint) -> e.Json:
    """A user's text: one string, or a block where marks are possible. Nothing is never a block: that is refused."""
    return [{"type": "text", "text": text}] if text and e.marked_form(endpoint) else text


def _user_content(message: Message, endpoint: Endpoint) -> e.Json:
    """The text alone when all is text; else the parts in order."""
    if not any(isinstance(part, ImagePart) for part in message.parts):
        return _plain_content(e.joined_text(message), endpoint)
    content: list[e.Json] = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, ImagePart):
            content.append(_image(part))
    return content


def _image(image: ImagePart) -> e.Json:
    return {"type": "image_url", "image_url": {"url": e.image_url(image)}}


def _tool_results(message: Message, endpoint: Endpoint) -> list[e.Json]:
    """One `tool` element a result; then one `user` element with their pictures and the text that joins here."""
    quirks = endpoint.record.quirks
    results = list(message.results())
    elements: list[e.Json] = [
        {"role": "tool", "tool_call_id": e.call_id(result.call_id, quirks), "content": result.text}
        for result in results
    ]
    pictures = e.result_pictures(results)
    text = e.joined_text(message)
    content: list[e.Json] = []
    for label, image in pictures:
        content += [{"type": "text", "text": label}, _image(image)]
    if text and content:
        content.append({"type": "text", "text": text})
    if content or text:
        elements.append({"role": "user", "content": content or _plain_content(text, endpoint)})
    return elements


def _assistant(message: Message, endpoint: Endpoint) -> dict[str, e.Json]:
    quirks = endpoint.record.quirks
    own = e.same_origin(message, endpoint)
    calls: list[e.Json] = []
    for call in message.calls():
        arguments = bytes(e.call_arguments(call.arguments)).decode()
        element: dict[str, e.Json] = {
            "id": e.call_id(call.call_id, quirks),
            "type": "function",
            "function": {"name": e.call_name(call.name), "arguments": arguments},
        }
        calls.append({**element, **(e.call_extra(call) if own else {})})
    text = e.joined_text(message)
    head: dict[str, e.Json] = {"role": "assistant"}
    content: dict[str, e.Json] = {"content": None if calls and not text else _plain_content(text, endpoint)}
    more = _replayed_reasoning(message, endpoint, own=own)
    if calls:
        more["tool_calls"] = calls
    # Where marks are possible, a list of blocks stands last: so the mark's place is known by its distance to the end.
    return head | more | content if text and e.marked_form(endpoint) else head | content | more


def _replayed_reasoning(message: Message, endpoint: Endpoint, *, own: bool) -> dict[str, e.Json]:
    """Reasoning in the field that the record names, only for the model that wrote it."""
    quirks = endpoint.record.quirks
    parts = [part for part in message.parts if isinstance(part, ReasoningPart)]
    replayed = _reasoning_members(parts, quirks.reasoning_field) if own and quirks.reasoning_replay else {}
    return replayed or ({quirks.reasoning_field: " "} if quirks.reasoning_required else {})


def _reasoning_members(parts: list[ReasoningPart], field: str) -> dict[str, e.Json]:
    """The provider's own details untouched where that is its field, else the text."""
    text = "".join(part.text for part in parts)
    if field != "reasoning_details":
        return {field: text} if text else {}
    details = next((raw for part in parts if (raw := e.raw_json(part.opaque, "[")) is not None), None)
    if details is not None:
        return {field: details}
    return {"reasoning": text} if text else {}


class ChatDecoder:
    """Joins the deltas of one answer. A whole `chat.completion` object counts as one delta."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._text = d.TextPieces()
        self._reasoning = d.TextPieces()
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
        """A finish reason has come, or the end mark has."""
        return bool(self._finish) or self._ended

    @property
    def ended(self) -> bool:
        """The end mark has come."""
        return self._ended

    @property
    def pieces(self) -> int:
        """Pieces of all calls."""
        return sum(call.pieces for call in self._calls)

    def feed(self, event: ServerEvent) -> list[StreamDelta]:
        """Take the next chunk."""
        if event.data.strip() == "[DONE]":
            self._ended = True
            return []
        chunk = d.parse(event.data)
        d.raise_reported(event.event, chunk)
        self._model = self._model or d.text_of(chunk, "model")
        choice = next(iter(d.tables_of(chunk, "choices")), d.EMPTY)
        if choice.get("error"):
            d.raise_error(choice.get("error"))
        self._take_usage(chunk, choice)
        deltas = self._delta(d.table_of(choice, "delta") or d.table_of(choice, "message"))
        finish = d.text_of(choice, "finish_reason")
        if finish == "error":
            raise WireError("The provider broke the answer off with the finish reason `error`.", code="error")
        self._finish = finish or self._finish
        self._ended = self._ended or d.text_of(chunk, "object") == "chat.completion"
        return deltas

    def _take_usage(self, chunk: d.Table, choice: d.Table) -> None:
        """Usage stands in the chunk, in its choice (Moonshot) or under `x_groq`; the last report counts."""
        usage = d.table_of(chunk, "usage") or d.table_of(choice, "usage")
        usage = usage or d.table_of(d.table_of(chunk, "x_groq"), "usage")
        if usage:
            self._usage = _usage(usage)

    def answer(self) -> Answer:
        """What has arrived."""
        text = self._text.whole()
        calls = d.call_parts(self._calls, whole=self.finished)
        finish = _FINISH.get(self._finish.lower(), FinishReason.UNKNOWN)
        if not self.finished:
            finish = FinishReason.CUT
        elif calls and finish in (FinishReason.STOP, FinishReason.UNKNOWN):
            finish = FinishReason.TOOL_CALLS
        elif not self._finish or (finish is FinishReason.TOOL_CALLS and not calls):
            finish = FinishReason.STOP
        origin = Origin(provider=self._endpoint.record.name, model=self._endpoint.model, wire=self._endpoint.wire)
        message = Message(
            role=Role.ASSISTANT,
            parts=d.plain_parts(self._reasoning_parts(), text, calls),
            finish=finish,
            origin=origin,
        )
        return Answer(message=message, usage=self._usage, served_model=self._model)

    def _reasoning_parts(self) -> list[ReasoningPart]:
        text = self._reasoning.whole()
        opaque = d.json_text(self._details) if self._details else ""
        if not text and not opaque:
            return []
        kind = "reasoning_details" if opaque else self._reasoning_kind
        return [ReasoningPart(text=text, kind=kind, opaque=opaque)]

    def _delta(self, delta: d.Table) -> list[StreamDelta]:
        if not delta:
            return []
        deltas: list[StreamDelta] = []
        reasoning, text = self._reasoning_text(delta), ""
        content = delta.get("content")
        if isinstance(content, str):
            text = content
        elif isinstance(content, list):
            thought, text = _content_chunks(content)
            reasoning += thought
        shown = self._reasoning.add(reasoning)
        if shown:
            deltas.append(ReasoningDelta(text=shown))
        shown = self._text.add(text + d.text_of(delta, "refusal"))
        if shown:
            deltas.append(TextDelta(text=shown))
        for call in d.tables_of(delta, "tool_calls"):
            deltas += self._call(call)
        return deltas

    def _reasoning_text(self, delta: d.Table) -> str:
        """The new reasoning of a delta. Vendors that send it in two fields at once mean it once."""
        details = d.tables_of(delta, "reasoning_details")
        text = ""
        for detail in details:
            self._add_detail(dict(detail))
            text += d.text_of(detail, "text") + d.text_of(detail, "summary")
        for kind in ("reasoning_content", "reasoning"):
            named = d.text_of(delta, kind)
            if named:
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

    def _call(self, delta: d.Table) -> list[StreamDelta]:
        function = d.table_of(delta, "function")
        name, call_id = d.text_of(function, "name"), d.text_of(delta, "id")
        call = self._slot(d.index_of(delta, "index"), call_id, name)
        call.name = call.name or name
        call.call_id = call.call_id or call_id
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            call.replace_arguments(d.json_text(arguments))
        elif isinstance(arguments, str) and arguments:
            call.add_arguments(arguments)
        if delta.get("extra_content") is not None:
            call.extra["extra_content"] = delta["extra_content"]
        return list(call.announce())

    def _slot(self, index: int | None, call_id: str, name: str) -> d.CallPieces:
        """The call that a delta belongs to.

        By index, unless the delta names another call (vendors that number every call 0 are known); without an index
        by id; without either a name begins a new call once the last one is whole or has another name.
        """
        if index is None:
            slot = self._unnumbered_slot(call_id, name)
        else:
            slot = self._slots.get(index)
            if slot is not None and name and call_id not in ("", slot.call_id) and slot.call_id:
                slot = self._by_id(call_id)
        if slot is None:
            slot = d.CallPieces(call_id=call_id)
            self._calls.append(slot)
        if index is not None:
            self._slots[index] = slot
        return slot

    def _by_id(self, call_id: str) -> d.CallPieces | None:
        return next((call for call in self._calls if call.call_id == call_id), None)

    def _unnumbered_slot(self, call_id: str, name: str) -> d.CallPieces | None:
        if call_id:
            known = self._by_id(call_id)
            if known is not None or name or not self._calls:
                return known
        last = self._calls[-1] if self._calls else None
        if last is not None and name and (last.name != name or last.complete):
            return None
        return last


def _content_chunks(chunks: list[object]) -> tuple[str, str]:
    """Reasoning and text of Mistral's content list (`thinking` chunks hold a list of text chunks)."""
    reasoning, text = "", ""
    for chunk in chunks:
        if not isinstance(chunk, dict):
            continue
        text += d.text_of(chunk, "text")
        reasoning += d.text_of(chunk, "thinking")
        reasoning += "".join(d.text_of(inner, "text") for inner in d.tables_of(chunk, "thinking"))
    return reasoning, text


def _usage(usage: d.Table) -> Usage:
    """Token counts under the names that vendors use for them.

    Gemini and xAI leave reasoning out of `completion_tokens` but not out of `total_tokens`; the larger figure is right.
    """
    prompt, completion = d.number_of(usage, "prompt_tokens"), d.number_of(usage, "completion_tokens")
    details = d.table_of(usage, "prompt_tokens_details")
    cached = (
        d.number_of(details, "cached_tokens")
        or d.number_of(usage, "prompt_cache_hit_tokens")
        or d.number_of(usage, "cached_tokens")
    )
    return Usage(
        input=prompt,
        output=max(completion, d.number_of(usage, "total_tokens") - prompt),
        cache_read=cached,
        cache_write=d.number_of(details, "cache_write_tokens"),
        reasoning=d.number_of(d.table_of(usage, "completion_tokens_details"), "reasoning_tokens"),
        cost_usd=d.cost_of(usage),
    )


WIRE = ChatCompletions()
