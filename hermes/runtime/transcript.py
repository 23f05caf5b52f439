"""A session's messages in memory, as small as they can be had: whoever needs one has it made anew.

Most turns need none of them: what is sent is the lineage's own buffer. As values a message of a chat takes five times
what it says, packed a fifth of it.
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import msgspec

from hermes.core.messages import Message
from hermes.store.transcript import encode

_PACKED = 64
"""Messages that are packed together once so many have come."""
_DECODER = msgspec.json.Decoder(list[Message])


class Transcript(Sequence[Message]):
    """Messages in order. Each look at one makes the value anew: none is the same object twice."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._packed: list[bytes] = []
        self._fresh: list[bytes] = []
        self.extend(messages)

    def extend(self, messages: Iterable[Message]) -> None:
        """Put messages behind the others."""
        for message in messages:
            self._fresh.append(encode(message))
            if len(self._fresh) == _PACKED:
                self._packed.append(zlib.compress(b",".join(self._fresh), 1))
                self._fresh.clear()

    def restart(self, messages: Iterable[Message]) -> None:
        """Be these messages from now on."""
        made = list(messages)
        self._packed.clear()
        self._fresh.clear()
        self.extend(made)

    def __len__(self) -> int:
        return len(self._packed) * _PACKED + len(self._fresh)

    def __iter__(self) -> Iterator[Message]:
        for part in range(len(self._packed) + 1):
            yield from self._part(part)

    def __reversed__(self) -> Iterator[Message]:
        for part in range(len(self._packed), -1, -1):
            yield from reversed(self._part(part))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return list(self)[index]
        place = range(len(self))[index]
        return self._part(place // _PACKED)[place % _PACKED]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == two for one, two in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def _part(self, number: int) -> list[Message]:
        body = zlib.decompress(self._packed[number]) if number < len(self._packed) else b",".join(self._fresh)
        return _DECODER.decode(b"[" + body + b"]")
