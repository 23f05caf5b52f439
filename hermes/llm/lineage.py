"""The growing request of one lineage (provider, model, wire, epoch), and the watch over the prompt cache that it fits.

Each message is encoded once, when it joins; a request is the same bytes with more behind them. The buffer is a cache:
extended again with the same messages it comes out the same. Where a provider refused messages as they were, they are
rewritten as they are sent, by pure functions of a message and the epoch's rewrites, so that a restored epoch sends the
same bytes again. A `CacheWatch` belongs to a client, a `PrefixFingerprint` to the messages of one lineage: while all
is well a request costs a checksum of the bytes that are new in it; what is older is checked when hits are missing.
"""

import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.frame import PICTURE_REWRITES, EpochFrame, Rewrite, ToolSchema
from hermes.core.messages import PROGRAM, ImagePart, Message, Part, ReasoningPart, TextPart, ToolResultPart
from hermes.core.usage import Usage
from hermes.i18n.messages import N_
from hermes.providers.encoding import is_same_origin
from hermes.providers.wire import Endpoint, load_wire

if TYPE_CHECKING:
    from hermes.llm.role_order import RoleArranger

MIN_CACHED_PROMPT = 1_024
"""Tokens: no provider caches a shorter prompt."""
MIN_REPORTED_LOSS = 2_048
"""Tokens that may be missing before a warning, or a fifth of what was expected, whichever is more."""
TTL_SECONDS = {"5m": 300.0, "1h": 3_600.0}
_USUAL_TTL = TTL_SECONDS["5m"]
_MAX_POINTS = 64
_RECENT_POINTS = 16


class ChecksumPoint(Struct):
    """The end of a message in the buffer: its number, its offset, the checksum of all bytes up to it."""

    number: int
    end: int
    checksum: int | None = None


class PrefixFingerprint:
    """Checksums of encoded messages at a few message ends: the last sixteen, and ever fewer of the older ones.

    There are at most 64 of them, however long the conversation.
    """

    def __init__(self) -> None:
        self._points: list[ChecksumPoint] = []
        self._at = 0
        self._checksum = 0

    def add_message_end(self, number: int, end: int) -> None:
        """Note that a message ends at this offset; one of a rebuilt buffer that is known already is ignored."""
        if end <= (self._points[-1].end if self._points else 0):
            return
        self._points.append(ChecksumPoint(number, end))
        if len(self._points) > _MAX_POINTS:
            self._points[:-_RECENT_POINTS] = self._points[:-_RECENT_POINTS:2]

    def checksum_sent(self, messages: bytearray) -> None:
        """Take the checksum of what is new in messages that were sent as they are."""
        with memoryview(messages) as view:
            for point in self._points:
                if point.checksum is None and point.end <= len(view):
                    self._checksum = zlib.crc32(view[self._at : point.end], self._checksum)
                    self._at, point.checksum = point.end, self._checksum

    def find_difference(self, messages: bytearray) -> str:
        """Describe where messages first differ from what was sent; empty when they begin with all of it."""
        before = ChecksumPoint(0, 0, 0)
        with memoryview(messages) as view:
            for point in self._points:
                if point.checksum is None:
                    break
                checksum = zlib.crc32(view[before.end : point.end], before.checksum or 0)
                if checksum != point.checksum:
                    return _describe_range(before, point)
                before = point
        return ""


def _describe_range(before: ChecksumPoint, point: ChecksumPoint) -> str:
    first, last = before.number + 1, point.number
    which = (
        N_("message {last}", last=last)
        if first == last
        else N_("one of the messages {first} to {last}", first=first, last=last)
    )
    return N_(
        "{which} (bytes {end} to {end_2} of the messages)",
        which=which,
        end=format(before.end, ","),
        end_2=format(point.end, ","),
    )


class AnsweredRequest(Struct):
    """The last answered request of a lineage."""

    fingerprint: PrefixFingerprint
    frame: EpochFrame | None = None
    usage: Usage = Usage()
    at: float = 0.0
    key: str = ""
    warned: bool = False
    """Whether the user was told of missing hits; once an epoch is enough."""

    def __repr__(self) -> str:
        """Return a form without the key."""
        return f"Sent(at={self.at})"


class CacheWatch:
    """Watches the cache hits of one client's lineages. It judges only a provider that has reported some."""

    def __init__(self, title: str, ttl: str) -> None:
        self._title = title
        self._seconds = TTL_SECONDS.get(ttl, _USUAL_TTL)
        self._reads = False
        self._writes = False

    def check_answer(
        self, sent: AnsweredRequest, messages: bytearray, frame: EpochFrame, latest: AnsweredRequest
    ) -> str:
        """Note an answered request; return a line for the user when expected cache hits are missing.

        `latest` has when it was sent, with which key, and what the provider counted.
        """
        line = ""
        expected = self._expected_hits(sent, latest)
        lost = expected - latest.usage.cache_read
        if lost > max(MIN_REPORTED_LOSS, expected // 5) and not sent.warned:
            sent.warned = True
            line = self._format_warning(expected, latest.usage, find_change(sent, messages, frame))
        usage = latest.usage
        self._reads = self._reads or usage.cache_read > 0
        self._writes = self._writes or usage.cache_write > 0
        if self._reads or self._writes:
            sent.fingerprint.checksum_sent(messages)
        sent.frame, sent.usage, sent.at, sent.key = frame, usage, latest.at, latest.key
        return line

    def _expected_hits(self, sent: AnsweredRequest, latest: AnsweredRequest) -> int:
        """Return the tokens that should have come from the cache; 0 when nothing can be expected.

        A provider that counts what it writes has said what it keeps; of another it is the whole prompt. Keys
        may belong to accounts with caches of their own.
        """
        pause = latest.at - sent.at
        if sent.frame is None or not 0 <= pause < self._seconds or sent.key != latest.key:
            return 0
        kept = sent.usage.cache_read + sent.usage.cache_write if self._writes else sent.usage.input
        known = self._reads or self._writes
        return min(kept, latest.usage.input) if known and kept >= MIN_CACHED_PROMPT else 0

    def _format_warning(self, expected: int, usage: Usage, where: str) -> str:
        rate, hoped = usage.cache_read / usage.input, expected / usage.input
        why = (
            N_("The request differs from the one before at {where}.", where=where)
            if where
            else N_("It began with the same bytes as the one before: {title} did not keep them.", title=self._title)
        )
        return N_(
            "Prompt cache: {rate} of the prompt came from {title}'s cache where {hoped} was "
            "expected, so {expected} tokens were paid for again. {why}",
            rate=format(rate, ".0%"),
            title=self._title,
            hoped=format(hoped, ".0%"),
            expected=format(expected - usage.cache_read, ","),
            why=why,
        )


def find_change(sent: AnsweredRequest, messages: bytearray, frame: EpochFrame) -> str:
    """Return the first element of a request that is not what was sent before: a tool, the
    system prompt, or a message.
    """
    before = sent.frame
    if before is None:
        return ""
    if before.tools != frame.tools:
        pairs = zip(before.tools, frame.tools, strict=False)
        number = next((at for at, (old, new) in enumerate(pairs) if old != new), None)
        if number is None:
            return N_("the tools ({tools}, there were {tools_2})", tools=len(frame.tools), tools_2=len(before.tools))
        return N_("tool {number} ({name})", number=number + 1, name=frame.tools[number].name)
    if before.system != frame.system:
        return N_(
            "the system prompt (byte {count_same_bytes} of it)",
            count_same_bytes=format(_count_same_bytes(before.system, frame.system), ","),
        )
    return sent.fingerprint.find_difference(messages)


def _count_same_bytes(old: str, new: str) -> int:
    """Return how many bytes two texts share at their beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
    return len(old[:at].encode("utf-8", "replace"))


_PATTERN_KEYS = ("pattern", "format", "patternProperties")


_PICTURE_REWRITES = frozenset(PICTURE_REWRITES)
_IMAGE_REWRITES = _PICTURE_REWRITES | {Rewrite.NO_IMAGES, Rewrite.TEXT_RESULTS}
_IMAGE_NOTE = "[A picture stood here ({media_type}); this model's provider does not take it.]"
_NAMED_IMAGE = (
    "[A picture ({media_type}) stands here that you cannot see. The tool vision_analyze can look at it for you: "
    "image_url {reference}]"
)


def rewrite_message(message: Message, rewrites: Sequence[Rewrite], *, carried: bool) -> Message:
    """Return the message as this epoch sends it. `carried` says that it was written before the epoch began."""
    parts = message.parts
    if Rewrite.NO_REASONING in rewrites and carried:
        parts = tuple(part for part in parts if not isinstance(part, ReasoningPart))
    if not _IMAGE_REWRITES.isdisjoint(rewrites):
        parts = tuple(_rewrite_images(part, rewrites) for part in parts)
    return message if parts == message.parts else structs.replace(message, parts=parts)


def _rewrite_images(part: Part, rewrites: Sequence[Rewrite]) -> Part:
    """Return the part with its pictures as they are sent."""
    if Rewrite.NO_IMAGES in rewrites:
        return _name_images(part)
    if Rewrite.TEXT_RESULTS in rewrites and isinstance(part, ToolResultPart):
        return _replace_images(part)
    return part if _PICTURE_REWRITES.isdisjoint(rewrites) else _shrink_images(part, rewrites)


def simplify_schemas(tools: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
    """Return the tools without what some servers cannot turn into a grammar; arguments
    are checked here all the same.
    """
    return tuple(
        structs.replace(tool, parameters=to_json(_simplify_schema(msgspec.json.decode(tool.parameters))))
        for tool in tools
    )


def _simplify_schema(schema: object) -> object:
    if isinstance(schema, dict):
        properties = schema.get("properties")
        kept = {
            key: _simplify_schema(value)
            for key, value in schema.items()
            if key not in _PATTERN_KEYS and key != "properties"
        }
        if isinstance(properties, dict):  # a property may be called `pattern`
            kept["properties"] = {name: _simplify_schema(value) for name, value in properties.items()}
        return {key: kept[key] for key in schema if key in kept}
    if isinstance(schema, list):
        return [_simplify_schema(item) for item in schema]
    return schema


def _replace_images(result: ToolResultPart) -> ToolResultPart:
    if not result.images:
        return result
    notes = [_IMAGE_NOTE.format(media_type=image.media_type) for image in result.images]
    return structs.replace(result, images=(), text="\n".join([result.text, *notes]).strip("\n"))


def _name_images(part: Part) -> Part:
    """Return the part with words in the place of its pictures, by which a tool can look at them."""
    images = _images_in(part)
    if not images:
        return part
    notes = [_NAMED_IMAGE.format(media_type=image.media_type, reference=image.reference) for image in images]
    if isinstance(part, ToolResultPart):
        return structs.replace(part, images=(), text="\n".join([part.text, *notes]).strip("\n"))
    return TextPart(text=notes[0], provenance=PROGRAM)


def _shrink_images(part: Part, rewrites: Sequence[Rewrite]) -> Part:
    """Return the part with its pictures as they are sent at the step among the rewrites.

    A note stands for a picture that is left out.
    """
    images = _images_in(part)
    if not images:
        return part
    from hermes.llm.pictures import TOO_LARGE_NOTE, fit_picture

    step = next(one for one in rewrites if one in _PICTURE_REWRITES)
    fitting = [fit_picture(image, step) for image in images]
    notes = [
        TOO_LARGE_NOTE.format(media_type=one.media_type) for one, fit in zip(images, fitting, strict=True) if not fit
    ]
    if isinstance(part, ToolResultPart):
        kept = tuple(image for image in fitting if image is not None)
        return structs.replace(part, images=kept, text="\n".join([part.text, *notes]).strip("\n"))
    return fitting[0] or TextPart(text=notes[0], provenance=PROGRAM)


MAX_IMAGE_TOKENS = 50_000
"""The most prompt tokens of one picture. The dearest known is a large one for gpt-4o-mini (48,169: OpenAI's guide to
images and vision, 2,833 and 5,667 for each of eight tiles); others stay below 17,000."""
MAX_UNSEEN_TOKENS = 1_024
"""The most prompt tokens that a provider adds by itself: marks between messages, and what it tells a model about tools
(up to 804 at Anthropic: its page on tool use)."""
_LONGEST_LIMIT = 1 << 40
_MARKS = 4
_BYTES_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1_500


def _with_replay(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that is sent reasoning with every answer."""
    quirks = structs.replace(endpoint.record.quirks, reasoning_replay=True, reasoning_required=True)
    return structs.replace(endpoint, record=structs.replace(endpoint.record, quirks=quirks))


class Lineage:
    """The encoded messages of an epoch, and the requests made of them."""

    def __init__(self, frame: EpochFrame, endpoint: Endpoint, *, sent: AnsweredRequest | None = None) -> None:
        """`last_answered` is handed on by a lineage of the same epoch whose place this one takes."""
        self.frame = frame
        self.endpoint = _with_replay(endpoint) if Rewrite.REPLAYED_REASONING in frame.rewrites else endpoint
        self._wire = load_wire(endpoint.wire)
        self._messages = bytearray()
        self._count = 0
        self.holds_answers = False
        """Whether the model that is asked has written one of the messages."""
        self._last = sent or AnsweredRequest(PrefixFingerprint())
        self._places: deque[int] = deque(maxlen=_MARKS)
        """Where the last messages can carry cache marks."""
        self._image_bytes = 0
        self._images = 0
        self._counted: tuple[int, int] | None = None
        self._head_bytes: int | None = None
        self._bounded = (0, 0)
        """A bound that was asked for, and the tokens that the provider then counted."""
        self._sent = frame.request_frame
        self._arranger: RoleArranger | None = None
        if frame.rewrites:
            from hermes.llm.role_order import create_arranger

            self._arranger = create_arranger(frame.rewrites, self._sent.system)
        if Rewrite.NO_SYSTEM_ROLE in frame.rewrites:
            self._sent = structs.replace(self._sent, system="")
        self.append_messages(frame.aside.prefill, carried=True)

    def append_messages(self, messages: Iterable[Message], *, carried: bool = False) -> None:
        """Append messages in the order of the transcript; `carried` ones were written before the epoch began."""
        rewrites = self.frame.rewrites
        for message in messages:
            sent = rewrite_message(message, rewrites, carried=carried) if rewrites else message
            self.holds_answers = self.holds_answers or is_same_origin(message, self.endpoint)
            if self._arranger is None:
                self._append_encoded(sent)
                continue
            for one in self._arranger.arrange_message(sent):
                self._append_encoded(one)

    @property
    def shrinks_pictures(self) -> bool:
        """Return whether pictures are made smaller when they join, which takes seconds: not for the event loop."""
        return not _PICTURE_REWRITES.isdisjoint(self.frame.rewrites)

    def prepare_pictures(self, message: Message) -> None:
        """Make the pictures of a message smaller, so that it joins at once afterwards."""
        rewrite_message(message, self.frame.rewrites, carried=False)

    def _append_encoded(self, sent: Message) -> None:
        """Encode a message as it is sent, and append it."""
        buffer = self._messages
        encoded = self._wire.encode_message(sent, self.endpoint)
        if not encoded:
            return
        if buffer:
            buffer += b","
        buffer += encoded
        place = self._wire.find_mark_offset(sent, encoded, self.endpoint) if self.endpoint.cache_ttl else -1
        if place >= 0:
            self._places.append(len(buffer) - len(encoded) + place)
        self._count += 1
        self._last.fingerprint.add_message_end(self._count, len(buffer))
        for part in sent.parts:
            for image in _images_in(part):
                self._images += 1
                self._image_bytes += len(image.data)

    def _join_messages(self) -> bytes | bytearray:
        """Return the messages of a request: the buffer, and what must stand behind it there.

        That is no part of the buffer: an answer that follows is encoded with the same bytes before it.
        """
        ending = self._arranger.ending if self._arranger is not None else None
        if ending is None:
            return self._messages
        return b",".join((self._messages, self._wire.encode_message(ending, self.endpoint)))

    def build_body(self, *, final: bool = False, max_tokens: int | None = None, tools: bool = True) -> bytes:
        """Build the request for the next answer; `final` asks for one without further calls, and without `tools` it
        offers none, which no prompt cache survives.

        `max_tokens` replaces the epoch's own limit for this request, and nothing in it asks for more; it is no
        part of the cached prefix. Cache marks stand at the system prompt and the last three messages that can
        carry one, without a system prompt at the last four.
        """
        frame = self._sent if max_tokens is None else self._frame_with_limit(max_tokens)
        frame = frame if tools else structs.replace(frame, tools=())
        places = tuple(self._places)[-(_MARKS - bool(frame.system)) :]
        return self._wire.encode_body(frame, self._join_messages(), self.endpoint, final=final, places=places)

    @property
    def max_text_tokens(self) -> int:
        """Return the most tokens that system prompt, tools and messages can be, on any tokenizer, before one has
        counted.

        One token a byte: byte-level tokenizers make at most that of any text, rare Chinese characters and emoji come
        near it, and JSON is longer than the text in it. Half of it would hold for most texts, and a cap must hold for
        all.
        """
        text = len(self._messages) - self._image_bytes
        return self._head_size() + text + self._images * MAX_IMAGE_TOKENS

    @property
    def max_input_tokens(self) -> int:
        """Return the most prompt tokens of the next request: what was counted already, and the bound for what came
        since.
        """
        bound, counted = self._bounded
        return counted + self.max_text_tokens - bound + MAX_UNSEEN_TOKENS

    def learn_input_tokens(self, bound: int, tokens: int) -> None:
        """Note that the provider counted so many prompt tokens when `max_text_tokens` was `bound`."""
        self._bounded = (bound, tokens)

    def _head_size(self) -> int:
        """Return the bytes of a request without messages."""
        if self._head_bytes is None:
            head = self._wire.encode_body(self._frame_with_limit(_LONGEST_LIMIT), b"", self.endpoint, final=True)
            self._head_bytes = len(head)
        return self._head_bytes

    def _frame_with_limit(self, max_tokens: int) -> EpochFrame:
        sampling = structs.replace(self._sent.sampling, max_tokens=max_tokens, ceiling=True)
        return structs.replace(self._sent, sampling=sampling)

    @property
    def last_answered(self) -> AnsweredRequest:
        """Return what is known of the last request that was answered."""
        return self._last

    def check_cache_hits(self, watch: CacheWatch, usage: Usage, *, at: float, key: str) -> str:
        """Let a watch judge the cache hits of a request sent at `at` with `key`; return a line for the
        user, or empty.
        """
        latest = AnsweredRequest(self._last.fingerprint, usage=usage, at=at, key=key)
        return watch.check_answer(self._last, self._messages, self._sent, latest)

    @property
    def size(self) -> int:
        """Return the bytes of the next request, to a few; nothing is encoded for that."""
        return self._head_size() + len(self._messages)

    @property
    def image_bytes(self) -> int:
        """Return the bytes that pictures take in it."""
        return self._image_bytes

    @property
    def estimated_tokens(self) -> int:
        """Return an estimate of the next request's tokens that ignores what a provider has counted."""
        return self._estimate_tokens(self.size)

    @property
    def frame_estimate(self) -> int:
        """Return the part of `estimated_tokens` that the system prompt and the tools take."""
        return self._head_size() // _BYTES_PER_TOKEN

    @property
    def last_count(self) -> tuple[int, int] | None:
        """Return what the last counted request was estimated at, and the tokens that the provider counted; None
        when there is none yet.
        """
        return self._counted

    @property
    def message_bytes(self) -> int:
        """Return the size of the encoded messages, without system prompt and tools."""
        return len(self._messages)

    def record_count(self, size: int, tokens: int) -> None:
        """Note the tokens that the provider counted for a request of so many bytes; later
        estimates start from there.
        """
        if tokens > 0:
            self._counted = (self._estimate_tokens(size), tokens)

    def count_tokens(self, size: int) -> int:
        """Return the tokens of a request of so many bytes: the provider's last count, and an estimate of what came
        since.
        """
        if self._counted is None:
            return self._estimate_tokens(size)
        estimated, tokens = self._counted
        return tokens + max(0, self._estimate_tokens(size) - estimated)

    def _estimate_tokens(self, size: int) -> int:
        """Estimate tokens: four bytes each, and pictures by their number, since their bytes say nothing about their
        tokens.
        """
        return max(0, size - self._image_bytes) // _BYTES_PER_TOKEN + self._images * _TOKENS_PER_IMAGE


def _images_in(part: Part) -> tuple[ImagePart, ...]:
    """Return the pictures in a part."""
    if isinstance(part, ImagePart):
        return (part,)
    return part.images if isinstance(part, ToolResultPart) else ()
