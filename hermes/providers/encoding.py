"""Shared by all encoders: JSON that is always valid, ids and names that vendors accept."""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hermes.core.encoding import to_json
from hermes.core.frame import EpochFrame
from hermes.core.messages import ImagePart, Message, TextPart, ToolCallPart, ToolResultPart
from hermes.providers.wire import Endpoint, Quirks, matches_model
from hermes.util.text import clean_surrogates

Buffer = bytes | bytearray | memoryview
Json = str | int | float | bool | None | msgspec.Raw | Mapping[str, "Json"] | list["Json"]

_RAW = msgspec.json.Decoder(msgspec.Raw)
_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_STRICT_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PRINTABLE_ID = re.compile(r"[!-~]+")
_PLAIN_ID = re.compile(r"[a-zA-Z0-9]+")


def encode_json(value: Json) -> bytes:
    """Encode the value as JSON in UTF-8; halves of surrogate pairs become U+FFFD. The
    same value gives the same bytes.
    """
    try:
        return to_json(value)
    except UnicodeEncodeError:
        return to_json(_clean_json(value))


def _clean_json(value: Json) -> Json:
    if isinstance(value, str):
        return clean_surrogates(value)
    if isinstance(value, list):
        return [_clean_json(item) for item in value]
    if isinstance(value, Mapping):
        return {clean_surrogates(key): _clean_json(item) for key, item in value.items()}
    return value


def parse_raw_json(text: str, opening: str) -> msgspec.Raw | None:
    """Return the text as JSON to be put into a request untouched, or None when it is not valid or opens with another
    sign.
    """
    stripped = text.strip()
    if not stripped.startswith(opening):
        return None
    try:
        return _RAW.decode(stripped)
    except RecursionError:
        return None
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _without_lone_surrogates(stripped)


def _without_lone_surrogates(text: str) -> msgspec.Raw | None:
    """Return JSON that only breaks the rules by halves of surrogate pairs, rewritten without them; else None."""
    if "\\ud" not in text.lower() and text == clean_surrogates(text):
        return None
    import json  # msgspec takes no half of a surrogate pair

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    try:
        return msgspec.Raw(
            json.dumps(_clean_json(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        )
    except ValueError:
        return None


def encode_call_arguments(text: str) -> msgspec.Raw:
    """Return a stored call's arguments as a JSON object, whatever the model wrote.

    An object stays as it was written; nothing at all becomes `{}`; anything else is wrapped as `{"_raw":
    "..."}`, so that the model sees its own broken text and the request is valid.
    """
    if not text.strip():
        return msgspec.Raw(b"{}")
    return parse_raw_json(text, "{") or msgspec.Raw(encode_json({"_raw": text}))


def encode_call_id(text: str, quirks: Quirks, *, strict: bool = False) -> str:
    """Return the call's id as this provider accepts it: its own, or a hash of it, the same one in call and result.

    `strict` demands letters, digits, `_` and `-` only.
    """
    allowed = _PLAIN_ID if quirks.call_id_exact else _STRICT_ID if strict else _PRINTABLE_ID
    long_enough = len(text) == quirks.call_id_limit or not quirks.call_id_exact
    if len(text) <= quirks.call_id_limit and long_enough and allowed.fullmatch(text):
        return text
    import hashlib  # only for ids of another vendor

    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return digest[: quirks.call_id_limit] if quirks.call_id_exact else f"call_{digest[:24]}"


def encode_call_name(text: str) -> str:
    """Return a tool's name as every vendor accepts it; a name that the model made up may hold anything."""
    return _BAD_NAME.sub("_", text)[:64] or "unknown"


def join_text(message: Message) -> str:
    """Return the message's text parts as one string."""
    return "\n\n".join(part.text for part in message.parts if isinstance(part, TextPart) and part.text)


def get_image_url(image: ImagePart) -> str:
    """Return a picture's address, or the picture itself as a data URL."""
    return image.url or f"data:{image.media_type};base64,{image.data}"


def is_same_origin(message: Message, endpoint: Endpoint) -> bool:
    """Return whether the very model that is asked now wrote the message; only then may its own marks go back to it."""
    origin = message.origin
    return (
        origin is not None
        and origin.provider == endpoint.record.name
        and origin.model == endpoint.model
        and origin.wire == endpoint.wire
    )


def collect_result_images(results: Iterable[ToolResultPart]) -> list[tuple[str, ImagePart]]:
    """Return pictures of tool results with a line that says whose they are, for formats
    whose results hold text only.
    """
    return [
        (f"[picture from the result of {encode_call_name(result.name)}, call {result.call_id}]", image)
        for result in results
        for image in result.images
    ]


def decode_call_extra(call: ToolCallPart) -> dict[str, Json]:
    """Return what the provider attached to the call and wants back, as members of the call's object."""
    raw = parse_raw_json(call.extra, "{") if call.extra else None
    if raw is None:
        return {}
    members: dict[str, msgspec.Raw] = msgspec.json.decode(bytes(raw), type=dict[str, msgspec.Raw])
    return dict(members)


def supports_cache_marks(endpoint: Endpoint) -> bool:
    """Return whether the endpoint's requests have the form that can carry cache marks, whether or not any are sent."""
    patterns = endpoint.record.quirks.cache_marks
    return bool(patterns) and matches_model(endpoint.model, patterns)


def build_cache_mark(endpoint: Endpoint) -> dict[str, Json]:
    """Return the member that marks the end of what is to be cached; nothing where no marks are sent."""
    if not endpoint.cache_ttl:
        return {}
    longer: dict[str, Json] = {"ttl": endpoint.cache_ttl} if endpoint.cache_ttl != "5m" else {}
    return {"cache_control": {"type": "ephemeral", **longer}}


def splice_cache_marks(messages: bytes | bytearray, places: Sequence[int], endpoint: Endpoint) -> list[Buffer]:
    """Return the messages with a cache mark at each place, in pieces that are joined once; nothing is copied here."""
    if not places or not endpoint.cache_ttl:
        return [messages]
    mark = b"," + encode_json(build_cache_mark(endpoint))[1:-1]
    view = memoryview(messages)
    starts = (0, *places)
    pieces: list[Buffer] = []
    for start, end in zip(starts, places, strict=False):
        pieces += [view[start:end], mark]
    return [*pieces, view[places[-1] :]]


def build_body(head: Mapping[str, Json], field: str, elements: list[list[Buffer]], tail: bytes, extra: bytes) -> bytes:
    """Build a whole request in one concatenation: `head`'s members, the record's own, `field` with its
    elements, `tail`.

    Each of `elements` comes in pieces; one without bytes is left out.
    """
    start = encode_json(head)[:-1]
    more = b"," + extra if extra else b""
    listed = [element for element in elements if any(element)]
    pieces: list[Buffer] = [start, more, b',"', field.encode(), b'":[']
    for index, element in enumerate(listed):
        if index:
            pieces.append(b",")
        pieces += element
    pieces += [b"]", tail, b"}"]
    return b"".join(pieces)


def build_sampling_members(frame: EpochFrame, endpoint: Endpoint) -> dict[str, Json]:
    """Return temperature, top_p and the limit of generated tokens, as far as they are set."""
    sampling = frame.sampling
    limit = sampling.max_tokens if sampling.max_tokens is not None else endpoint.record.quirks.default_max_tokens
    members: dict[str, Json] = {}
    if sampling.temperature is not None:
        members["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        members["top_p"] = sampling.top_p
    if limit is not None:
        members[endpoint.record.quirks.max_tokens_field] = limit
    return members


REASONING_BUDGETS = {
    "minimal": 1_024,
    "low": 4_096,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 24_576,
}
"""The tokens that an effort stands for, where a model takes a number and the caller gave a word, or the reverse."""


def resolve_effort(frame: EpochFrame) -> str:
    """Return the reasoning effort of a frame, for a number of tokens the nearest one; empty: the provider's default."""
    sampling = frame.sampling
    if sampling.reasoning_tokens is None or sampling.reasoning_effort:
        return sampling.reasoning_effort or ""
    wanted = sampling.reasoning_tokens
    return min((one for one in REASONING_BUDGETS if one != "max"), key=lambda one: abs(REASONING_BUDGETS[one] - wanted))


def build_bearer_headers(endpoint: Endpoint) -> dict[str, str]:
    """Return the fields of a request whose key goes as a bearer token, and what the record adds."""
    fields = {"content-type": "application/json", "accept": "text/event-stream"}
    if endpoint.api_key:
        fields["authorization"] = f"Bearer {endpoint.api_key}"
    quirks = endpoint.record.quirks
    if quirks.organisation_header and endpoint.organisation:
        fields[quirks.organisation_header] = endpoint.organisation
    return {**fields, **quirks.extra_headers}
