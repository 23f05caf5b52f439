"""What is said to a session and waits: messages for turns of their own, and words for the turn that runs."""

import asyncio
from collections import deque
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from hermes.core.errors import BusyError
from hermes.core.events import TurnEnded
from hermes.core.parts import ImagePart, TextPart

LIMIT = 256


class Inbound(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person says: text, pictures, and the folder they said it in."""

    text: str
    images: tuple[ImagePart, ...] = ()
    cwd: str = ""
    quoted: tuple[TextPart, ...] = ()
    """What comes along and is not the person's own words, each with where it comes from."""

    def encode(self) -> bytes:
        """The form in which it waits in the store."""
        return msgspec.json.encode(self)

    @staticmethod
    def decode(body: bytes) -> "Inbound":
        """Back from that form."""
        return msgspec.json.decode(body, type=Inbound)


class Letter:
    """One message on its way: `ended` is the end of the turn that answers it.

    `letter_id` names its row in the store's inbox; empty for one that never had to wait. With `joins_only` it is given
    back, by cancelling `ended`, when it could not join the turn that runs.
    """

    def __init__(self, inbound: Inbound, letter_id: str = "", *, joins_only: bool = False) -> None:
        self.inbound = inbound
        self.letter_id = letter_id
        self.joins_only = joins_only
        self.ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()

    @property
    def failed(self) -> bool:
        """Whether it could not be stored; whoever waits knows it already."""
        return self.ended.done() and not self.ended.cancelled() and self.ended.exception() is not None

    def settle(self, ended: TurnEnded) -> None:
        """Tell whoever waits how the turn ended."""
        if not self.ended.done():
            self.ended.set_result(ended)

    def fail(self, error: Exception) -> None:
        """Tell whoever waits why there was no end."""
        if not self.ended.done():
            self.ended.set_exception(error)


class Mailbox:
    """Letters in the order in which they are answered, and those that want to join the running turn."""

    def __init__(self) -> None:
        self._waiting: deque[Letter] = deque()
        self._steering: deque[Letter] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._steering)

    def __iter__(self) -> Iterator[Letter]:
        return iter((*self._steering, *self._waiting))

    def put(self, letter: Letter, *, first: bool = False) -> None:
        """Let a letter wait for a turn of its own, behind the others or (`first`) before them."""
        if first:
            self._waiting.appendleft(letter)
        else:
            self._waiting.append(letter)
        self._arrived.set()

    def restore(self, letter: Letter) -> None:
        """Let a letter wait that a process before this one has stored, however many there are."""
        self._waiting.append(letter)

    @property
    def crowded(self) -> bool:
        """Whether letters wait for turns of their own."""
        return bool(self._waiting)

    def check_room(self) -> None:
        """Raise BusyError when no more can wait; before anything is stored of what would."""
        if len(self) >= LIMIT:
            raise BusyError(f"{LIMIT} messages are waiting in this session already.", "Try later.")

    def steer(self, letter: Letter) -> None:
        """Let a letter wait for the next boundary of the running turn."""
        self._steering.append(letter)

    def take_steering(self) -> list[Letter]:
        """The letters that join the running turn now."""
        taken = list(self._steering)
        self._steering.clear()
        return taken

    def turn_is_over(self) -> None:
        """What could not join the turn gets turns of its own, before what has come later, or is given back."""
        for letter in reversed(self._steering):
            if letter.joins_only:
                letter.ended.cancel()
            else:
                self._waiting.appendleft(letter)
        self._steering.clear()
        if self._waiting:
            self._arrived.set()

    async def next(self) -> Letter:
        """The letter whose turn it is."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.popleft()

    def empty(self) -> list[Letter]:
        """Take everything out."""
        letters = list(self)
        self._waiting.clear()
        self._steering.clear()
        return letters
