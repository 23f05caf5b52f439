"""A session's messages in memory, packed: whoever needs one decodes it anew.

Most turns need none of them: what is sent is the lineage's own buffer. As values the messages of a chat
take five times their text, packed a fifth of it.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import msgspec

from hermes.core.messages import Message
from hermes.store.transcript import encode_message

_PACK_SIZE = 64
"""Messages that are compressed together once so many have come."""
_DECODER = msgspec.json.Decoder(list[Message])


class PackedTranscript(Sequence[Message]):
    """Messages in order. Each access decodes the value anew: none is the same object twice."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._packed: list[bytes] = []
        self._unpacked: list[bytes] = []
        self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append messages."""
        for message in messages:
            self._unpacked.append(encode_message(message))
            if len(self._unpacked) == _PACK_SIZE:
                self._packed.append(zlib.compress(b",".join(self._unpacked), 1))
                self._unpacked.clear()

    def replace_all(self, messages: Iterable[Message]) -> None:
        """Replace all messages by these."""
        made = list(messages)
        self._packed.clear()
        self._unpacked.clear()
        self.extend(made)

    def __len__(self) -> int:
        return len(self._packed) * _PACK_SIZE + len(self._unpacked)

    def __iter__(self) -> Iterator[Message]:
        for part in range(len(self._packed) + 1):
            yield from self._decode_part(part)

    def __reversed__(self) -> Iterator[Message]:
        for part in range(len(self._packed), -1, -1):
            yield from reversed(self._decode_part(part))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        return self._decode_part(place // _PACK_SIZE)[place % _PACK_SIZE]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _decode_part(self, number: int) -> list[Message]:
        body = zlib.decompress(self._packed[number]) if number < len(self._packed) else b",".join(self._unpacked)
        return _DECODER.decode(b"[" + body + b"]")
