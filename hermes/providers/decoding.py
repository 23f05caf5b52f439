"""How answers arrive, for all decoders: server-sent events, JSON whose shape nobody guarantees, text in pieces.

Server-sent events are read as WHATWG HTML, section 9.2.6 "Interpreting an event stream", has them.
"""

from collections.abc import Mapping

import msgspec

from hermes.core.ids import new_call_id
from hermes.core.messages import FinishReason, Part, ReasoningPart, TextPart, ToolCallPart
from hermes.core.stream import CallStarted
from hermes.core.usage import MAX_CALL_TOKENS, MAX_CALL_USD
from hermes.i18n.messages import N_
from hermes.providers.wire import ServerEvent, WireError
from hermes.util.text import clean_surrogates

MAX_EVENT_BYTES = 32 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class SseReader:
    """Takes bytes cut anywhere, returns whole events.

    Fields other than `event`, `data` and `id` are ignored. An event without data is not dispatched, as the standard
    says. Beyond the standard, the field `error` of llama-servers before October 2025 is an error's data, and JSON that
    stands in no field is data up to the next empty line: so answer servers that do not stream. Raises `WireError` for
    an event larger than `limit` bytes. Bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._scanned = 0
        self._started = False
        self._skip_lf = False
        self._event = ""
        self._id = ""
        self._data: list[bytes] = []
        self._bare = False
        """Whether the lines are those of JSON without a field."""
        self._size = 0

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """Return the events that `chunk` completes, in order."""
        if not self._started:
            chunk = self._strip_bom(chunk)
        if self._is_between_events:
            whole = _parse_whole_lines(chunk)
            if whole is not None:
                return whole
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk[1:] if chunk[:1] == b"\n" else chunk
        self._rest += chunk
        events: list[ServerEvent] = []
        for line in self._cut_lines():
            self._take_line(line, events)
        if len(self._rest) + self._size > self._limit:
            raise WireError(N_("The provider sent one event of more than {limit} bytes.", limit=self._limit))
        return events

    def close(self) -> list[ServerEvent]:
        """Return the event that the stream ended in the middle of, if its data line is there.

        The standard discards it; providers that forget the last empty line are common, and a line of JSON that
        was cut is noticed by its decoder.
        """
        events: list[ServerEvent] = []
        if self._rest:
            self._take_line(bytes(self._rest), events)
            self._rest.clear()
        self._take_line(b"", events)
        return events

    @property
    def _is_between_events(self) -> bool:
        """Whether nothing of an event is held."""
        return not (self._rest or self._data or self._event or self._id or self._skip_lf)

    def _strip_bom(self, chunk: bytes) -> bytes:
        """Hold back what may still become a byte order mark; drop a whole one."""
        head = bytes(self._rest) + chunk
        self._rest.clear()
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._rest += head
            return b""
        self._started = True
        return head.removeprefix(_BOM)

    def _cut_lines(self) -> list[bytes]:
        """Cut the whole lines off the buffer. CR, LF and CR LF end a line; an LF after a final CR may come later."""
        if not self._started:
            return []
        rest = self._rest
        end = max(rest.rfind(b"\n", self._scanned), rest.rfind(b"\r", self._scanned))
        if end < 0:
            self._scanned = len(rest)
            return []
        self._skip_lf = end == len(rest) - 1 and rest[end] == 0x0D
        block = bytes(rest[: end + 1])
        del rest[: end + 1]
        self._scanned = 0
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = block.split(b"\n")
        lines.pop()
        return lines

    def _take_line(self, line: bytes, events: list[ServerEvent]) -> None:
        if not line:
            if self._data:
                data = b"\n".join(self._data).decode("utf-8", "replace")
                events.append(ServerEvent(event=self._event, data=data, id=self._id))
            self._event = self._id = ""
            self._data = []
            self._bare = False
            self._size = 0
            return
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"event":
            self._event = value.decode("utf-8", "replace")
            return
        if name != b"data":
            if name == b"id":
                self._id = value.decode("utf-8", "replace")
                return
            if name == b"error":
                self._event = "error"
            elif self._bare or (not self._data and line.startswith((b"{", b"[{"))):
                self._bare, value = True, line
            else:
                return
        self._data.append(value)
        self._size += len(value) + 1


def _parse_whole_lines(chunk: bytes) -> list[ServerEvent] | None:
    """Parse a chunk that is nothing but whole `data: ...` lines, each followed by an empty line: the fast path."""
    if not chunk.startswith(b"data: ") or not chunk.endswith(b"\n\n") or b"\r" in chunk:
        return None
    blocks = chunk[:-2].split(b"\n\n")
    for block in blocks:
        if b"\n" in block or not block.startswith(b"data: "):
            return None
    return [ServerEvent(event="", data=block[6:].decode("utf-8", "replace")) for block in blocks]


Table = Mapping[str, object]
EMPTY: Table = {}
_BARE_MEMBERS = 4
"""An answer or one of its events has more members, or none of these names."""


def parse_event(data: str, name: str = "") -> Table:
    """Parse one event's JSON object, or the first of a list, which is how Google reports an error.

    Half of a surrogate pair (an emoji split over two deltas) is legal here and stays a lone surrogate until
    its other half arrives. Raises `WireError` when the text is not a JSON object; plain text of an event with the name
    `error` is the provider's message.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        import json  # msgspec takes no half of a surrogate pair

        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            if name == "error" and not data.startswith(("{", "[")):
                raise WireError(data) from None
            raise WireError(
                N_("The provider sent an event that is not JSON: {data}", data=repr(data[:2000])), code="not_json"
            ) from None
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        raise WireError(
            N_("The provider sent an event that is not an object: {data}", data=repr(data[:2000])), code="not_json"
        )
    return value


def get_event_kind(event: ServerEvent, data: Table) -> str:
    """Return the kind of an event: the `type` in its data, which gateways keep; an event named `error` is one in any
    case.

    llama-server's errors in the Anthropic format have the error's own type there (`server_error`).
    """
    return "error" if event.event == "error" else get_text(data, "type") or event.event


def get_text(table: Table, key: str) -> str:
    """Return the member as a string; empty when it is missing, null or anything else."""
    value = table.get(key)
    return value if isinstance(value, str) else ""


def get_count(table: Table, key: str) -> int:
    """Return the member as a count, at most `MOST_TOKENS`; 0 when it is missing, null, below zero or not a number."""
    value = table.get(key)
    return int(min(value, MAX_CALL_TOKENS)) if isinstance(value, int | float) and value >= 0 else 0


def get_amount(table: Table, key: str) -> float | None:
    """Return the member as dollars, at most `MOST_USD`; None when it is missing, null, below zero or not a number."""
    value = table.get(key)
    return float(min(value, MAX_CALL_USD)) if isinstance(value, int | float) and value >= 0 else None


def parse_cost(usage: Table) -> float | None:
    """Return what the provider says a call cost, in dollars.

    With the user's own key behind OpenRouter (`is_byok`), `cost` is OpenRouter's share alone and
    `cost_details.upstream_inference_cost` is billed beside it. Source: OpenRouter's guide "Usage Accounting".
    """
    own = get_amount(usage, "cost")
    upstream = get_amount(get_object(usage, "cost_details"), "upstream_inference_cost")
    return (own or 0.0) + upstream if usage.get("is_byok") is True and upstream is not None else own


def get_index(table: Table, key: str) -> int | None:
    """Return the member as a position, or None when there is none."""
    value = table.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_object(table: Table, key: str) -> Table:
    """Return the member as an object; empty when it is anything else."""
    value = table.get(key)
    return value if isinstance(value, dict) else EMPTY


def get_objects(table: Table, key: str) -> list[Table]:
    """Return the objects in a list member; TGI writes a list of one as that object alone."""
    value = table.get(key)
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return [value] if isinstance(value, dict) else []


def to_json_text(value: object) -> str:
    """Return a value of the provider as JSON text, to be stored and given back."""
    import json

    return clean_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def raise_error(error: object) -> None:
    """Raise the `WireError` that an error object (or a bare string) of any vendor describes."""
    if isinstance(error, dict):
        code = error.get("code")
        metadata = get_object(error, "metadata")
        named = code if isinstance(code, int) and 400 <= code < 600 else get_count(error, "status_code")
        message = get_text(error, "message") or to_json_text(error)
        raw = metadata.get("raw")
        if isinstance(raw, str) and raw and raw not in message:
            message = N_("{message}: {raw}", message=message, raw=raw)
        error_type = get_text(error, "type") or get_text(error, "status") or get_text(metadata, "error_type")
        raise WireError(message, code=str(code or ""), error_type=error_type, status=named, error=error)
    raise WireError(str(error))


def raise_if_error(kind: str, data: Table) -> None:
    """Raise the `WireError` that an event reports, if it reports one.

    It does by its kind, by an `error` member, by calling itself one (vLLM, Mistral), by a `base_resp` that
    counts no success (MiniMax), by `success: false` (Cloudflare, GLM), or as the bare `message` or `detail` of a
    gateway.
    """
    if _may_be_error(kind, data):
        _raise_reported_error(kind, data)


def _may_be_error(kind: str, data: Table) -> bool:
    """Return whether an event has one of the marks of errors; most have none, and are not looked at further."""
    marked = kind == "error" or len(data) <= _BARE_MEMBERS or "base_resp" in data
    return marked or bool(data.get("error")) or data.get("object") == "error"


def _raise_reported_error(kind: str, data: Table) -> None:
    refused = get_count(get_object(data, "base_resp"), "status_code")
    bare = len(data) <= _BARE_MEMBERS and ("detail" in data or bool(get_text(data, "message")))
    bare = bare or data.get("success") is False
    if refused or kind == "error" or data.get("error") or data.get("object") == "error" or bare:
        error = data.get("error") or next(iter(get_objects(data, "errors")), None)
        raise_error(error if error and not isinstance(error, bool) else dict(data))


def is_whole_object(text: str) -> bool:
    """Return whether the text is one complete JSON object."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return False
    import json

    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _is_same_json(text: str, other: str) -> bool:
    import json

    try:
        same: bool = json.loads(text) == json.loads(other)
    except (ValueError, RecursionError):
        return False
    return same


_BLOCK = 512
"""Pieces of a text that are kept apart before they are joined."""


class TextPieces:
    """Text that arrives in pieces; a surrogate pair cut between two pieces comes out whole."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._pieces: list[str] = []
        self._half = ""

    def add_piece(self, text: str) -> str:
        """Take a piece; return what can be shown now (a high surrogate at the end waits for its other half)."""
        if not text:
            return ""
        if len(self._pieces) >= _BLOCK:  # many small strings take ten times the room of their text
            self._blocks.append("".join(self._pieces))
            self._pieces.clear()
        if text.isascii() and not self._half:
            self._pieces.append(text)
            return text
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        text = clean_surrogates(text[:-1] if self._half else text)
        self._pieces.append(text)
        return text

    def join_text(self) -> str:
        """Return all of the text."""
        return "".join((*self._blocks, *self._pieces)) + ("\ufffd" if self._half else "")

    def __bool__(self) -> bool:
        return bool(self._blocks) or bool(self._pieces) or bool(self._half)


class CallPieces:
    """One tool call while its name, id and arguments arrive."""

    def __init__(self, call_id: str = "", name: str = "") -> None:
        self.call_id = call_id
        self.name = name
        self.extra: dict[str, object] = {}
        self.item_id = ""
        self.done = False
        self._announced = False
        self._arguments: list[str] = []
        self.pieces = 0
        """How many pieces of the arguments have come."""

    def add_name(self, text: str) -> None:
        """Take a name: whole, a piece of it, or again with what has come."""
        if text.startswith(self.name):
            self.name = text
        elif not self._arguments:
            self.name += text

    def is_followed_by(self, name: str, arguments: str) -> bool:
        """Return whether a piece with a name begins another call, though nothing else tells them apart: this one's
        arguments are whole, and the piece does not just repeat them.
        """
        if not self.name or not self.is_complete:
            return False
        if name != self.name:
            return True
        return arguments.lstrip()[:1] == "{" and not _is_same_json(arguments, self.arguments)

    def add_arguments(self, text: str) -> None:
        """Take a piece of the arguments; a whole object that is sent a second time is not taken twice."""
        if not text:
            return
        if text.lstrip()[:1] == "{" and self.is_complete:
            return
        self._arguments.append(text)
        self.pieces += 1

    def replace_arguments(self, text: str) -> None:
        """Take the provider's final word on the arguments."""
        self._arguments = [text]

    @property
    def arguments(self) -> str:
        """Return the raw JSON text so far."""
        return clean_surrogates("".join(self._arguments))

    @property
    def is_complete(self) -> bool:
        """Return whether the arguments are a whole object by now."""
        return (
            bool(self._arguments) and self._arguments[-1].rstrip()[-1:] in ("}", "") and is_whole_object(self.arguments)
        )

    def announce_start(self) -> list[CallStarted]:
        """Return the event that says a call has begun, once, as soon as its name is known."""
        if self._announced or not self.name:
            return []
        self._announced = True
        self.call_id = self.call_id or new_call_id()
        return [CallStarted(call_id=self.call_id, name=self.name)]

    def to_part(self) -> ToolCallPart:
        """Return the call as it is stored."""
        self.call_id = self.call_id or new_call_id()
        extra = to_json_text(self.extra) if self.extra else ""
        return ToolCallPart(
            call_id=clean_surrogates(self.call_id),
            name=clean_surrogates(self.name),
            arguments=self.arguments,
            extra=extra,
            item_id=clean_surrogates(self.item_id),
        )


def build_call_parts(calls: list[CallPieces], *, whole: bool) -> list[ToolCallPart]:
    """Return the calls as parts, each with an id of its own; of a cut answer only those whose arguments are complete.

    Providers that give two parallel calls the same id are known; a result must find its own call, so the second one
    gets a fresh id.
    """
    parts: list[ToolCallPart] = []
    seen: set[str] = set()
    for call in calls:
        closed = call.done and not call.arguments  # one without any; a limit closes a call within its arguments, too
        if not call.name or not (whole or closed or call.is_complete):
            continue
        part = call.to_part()
        if part.call_id in seen:
            part = ToolCallPart(
                call_id=new_call_id(), name=part.name, arguments=part.arguments, extra=part.extra, item_id=part.item_id
            )
        seen.add(part.call_id)
        parts.append(part)
    return parts


def drop_unbegun_call(calls: list[ToolCallPart], finish: FinishReason) -> list[ToolCallPart]:
    """Return the calls without a last one that an answer ended at, before its arguments: it is not one without any."""
    ended_early = finish in (FinishReason.LENGTH, FinishReason.CUT)
    return calls[:-1] if ended_early and calls and not calls[-1].arguments else calls


def order_parts(reasoning: list[ReasoningPart], text: str, calls: list[ToolCallPart]) -> tuple[Part, ...]:
    """Return the parts in the order in which a model produces them: reasoning, text, calls."""
    return (*reasoning, *([TextPart(text=text)] if text else []), *calls)
