"""The growing request of one lineage (provider, model, wire, epoch).

Each message is encoded once, when it joins; a request is the same bytes with more behind them (promise P3). The buffer
is a cache: extended anew with the same messages it comes out the same.
"""

from collections.abc import Iterable

from msgspec import structs

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.core.parts import ImagePart, Part, ToolResultPart
from hermes.llm.rewrites import rewritten
from hermes.providers.wire import Endpoint
from hermes.providers.wires import wire

_BYTES_PER_TOKEN = 4
_TOKENS_PER_IMAGE = 1_500


class Lineage:
    """The encoded messages of an epoch, and the requests made of them."""

    def __init__(self, frame: EpochFrame, endpoint: Endpoint) -> None:
        self.frame = frame
        self.endpoint = endpoint
        self._wire = wire(endpoint.wire)
        self._messages = bytearray()
        self._image_bytes = 0
        self._images = 0
        self._counted: tuple[int, int] | None = None

    def extend(self, messages: Iterable[Message], *, carried: bool = False) -> None:
        """Append messages in the order of the transcript; `carried` ones were written before the epoch began."""
        buffer = self._messages
        rewrites = self.frame.rewrites
        for message in messages:
            sent = rewritten(message, rewrites, carried=carried) if rewrites else message
            encoded = self._wire.encode_message(sent, self.endpoint)
            if not encoded:
                continue
            if buffer:
                buffer += b","
            buffer += encoded
            for part in sent.parts:
                for image in _images(part):
                    self._images += 1
                    self._image_bytes += len(image.data)

    def body(self, *, final: bool = False, max_tokens: int | None = None) -> bytes:
        """The request for the next answer; `final` asks for one without further calls.

        `max_tokens` takes the place of the epoch's own limit for this request; it is no part of the cached prefix.
        """
        frame = self.frame
        if max_tokens is not None:
            frame = structs.replace(frame, sampling=structs.replace(frame.sampling, max_tokens=max_tokens))
        return self._wire.encode_body(frame, self._messages, self.endpoint, final=final)

    @property
    def message_bytes(self) -> int:
        """The size of the encoded messages, without system prompt and tools."""
        return len(self._messages)

    def counted(self, size: int, tokens: int) -> None:
        """The provider has counted the tokens of a request of so many bytes; later estimates start from there."""
        if tokens > 0:
            self._counted = (self._estimate(size), tokens)

    def tokens(self, size: int) -> int:
        """The tokens of a request of so many bytes: the provider's last count, and an estimate of what came since."""
        if self._counted is None:
            return self._estimate(size)
        estimated, tokens = self._counted
        return tokens + max(0, self._estimate(size) - estimated)

    def _estimate(self, size: int) -> int:
        """Four bytes a token, pictures by their number: their bytes say nothing about their tokens."""
        return max(0, size - self._image_bytes) // _BYTES_PER_TOKEN + self._images * _TOKENS_PER_IMAGE


def _images(part: Part) -> tuple[ImagePart, ...]:
    """The pictures in a part."""
    if isinstance(part, ImagePart):
        return (part,)
    return part.images if isinstance(part, ToolResultPart) else ()
