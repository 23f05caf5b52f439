"""The growing request of one lineage (provider, model, wire, epoch).

Each message is encoded once, when it joins; a request is the same bytes with more behind them (promise P3). The buffer
is a cache: extended anew with the same messages it comes out the same.
"""

from collections.abc import Iterable

from msgspec import structs

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.llm.rewrites import rewritten
from hermes.providers.wire import Endpoint
from hermes.providers.wires import wire


class Lineage:
    """The encoded messages of an epoch, and the requests made of them."""

    def __init__(self, frame: EpochFrame, endpoint: Endpoint) -> None:
        self.frame = frame
        self.endpoint = endpoint
        self._wire = wire(endpoint.wire)
        self._messages = bytearray()

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
