"""The growing request of one lineage (provider, model, wire, epoch).

Each message is encoded once, when it joins; a request is the same bytes with more behind them (promise P3). The buffer
is a cache: extended anew with the same messages it comes out the same.
"""

from collections.abc import Iterable

import msgspec

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.providers.wire import Endpoint
from hermes.providers.wires import wire


class Lineage:
    """The encoded messages of an epoch, and the requests made of them."""

    def __init__(self, frame: EpochFrame, endpoint: Endpoint) -> None:
        self.frame = frame
        self.endpoint = endpoint
        self._wire = wire(endpoint.wire)
        self._messages = bytearray()
        self._starts: list[int] = []

    def extend(self, messages: Iterable[Message]) -> None:
        """Append messages in the order of the transcript."""
        buffer = self._messages
        for message in messages:
            encoded = self._wire.encode_message(message, self.endpoint)
            if not encoded:
                continue
            if buffer:
                buffer += b","
            self._starts.append(len(buffer))
            buffer += encoded

    def body(self, *, final: bool = False) -> bytes:
        """The request for the next answer; `final` asks for one without further calls."""
        return self._wire.encode_body(self.frame, self._messages, self.endpoint, final=final)

    @property
    def message_bytes(self) -> int:
        """The size of the encoded messages, without system prompt and tools."""
        return len(self._messages)

    def last_starts(self, count: int = 3) -> list[int]:
        """Where the last messages begin in the encoded messages, oldest first; one message may be several elements."""
        return self._starts[-count:]


def prefix_elements(body: bytes) -> list[bytes]:
    """A request in canonical form: first its tools and system prompt, then each message element.

    Keys are sorted, cache marks removed, and a text given as one plain string stands as one text block. The elements
    of a request are a prefix of those of the next one of its lineage, whatever wire it is.
    """
    request: dict[str, object] = msgspec.json.decode(body, type=dict[str, object])
    fixed = {key: request[key] for key in ("tools", "system", "instructions") if key in request}
    listed = request.get("messages", request.get("input"))
    messages = listed if isinstance(listed, list) else []
    return [_canonical(fixed), *(_canonical(message) for message in messages)]


def _canonical(value: object) -> bytes:
    import json  # sorts keys; only checks need it

    return json.dumps(_without_marks(value), sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _without_marks(value: object) -> object:
    if isinstance(value, list):
        return [_without_marks(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_marks(item) for key, item in value.items() if key != "cache_control"}
    for key in ("content", "system"):
        if isinstance(plain.get(key), str) and ("role" in plain or key == "system"):
            plain[key] = [{"type": "text", "text": plain[key]}]
    return plain
