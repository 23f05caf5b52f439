"""What every fake of a chat platform offers to tests: people who say things, and what they see."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from msgspec import Struct, structs

Self = TypeVar("Self", bound="FakeChat")


class ShownFile(Struct, frozen=True):
    """A file as people can open it."""

    name: str
    content: bytes
    media_type: str = ""
    voice_seconds: float = 0.0
    """The length that people see of it where it is shown as a voice message, else 0."""


class Shown(Struct, frozen=True, kw_only=True):
    """A message of the agent's, as people see it now."""

    message_id: str
    chat: str
    thread: str = ""
    text: str = ""
    markup: str = ""
    """How the platform was told to read the text; empty: as it is."""
    edits: int = 0
    reply_to: str = ""
    buttons: tuple[tuple[str, str], ...] = ()
    """Labels and tokens, row after row."""
    files: tuple[ShownFile, ...] = ()
    reactions: tuple[str, ...] = ()


class Failing(Struct, frozen=True):
    """How the next sends fail. With `after` the message is taken first, and only the answer is lost."""

    status: int = 500
    retry_after: float | None = None
    drop: bool = False
    """The connection breaks instead of an answer with a status."""
    after: bool = False


class FakeChat(ABC):
    """A platform's server on loopback. An async context; after `down` and `up` it listens on the same port, with all
    that was said to it still there."""

    def __init__(self) -> None:
        self.messages: dict[str, Shown] = {}
        """What the agent has sent, by message id, in the order in which it was sent; edits applied."""
        self.failing: list[Failing] = []
        """What happens to the next sends, one after the other."""
        self.typings: list[str] = []
        """The chats in which it was seen to be typing."""
        self.reactions: dict[str, tuple[str, ...]] = {}
        """What the agent has reacted with, by the message's id."""
        self.refused: list[str] = []
        """What clients did wrong: requests that the real platform would not take."""
        self._changed = asyncio.Event()

    @abstractmethod
    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME` so that the platform talks with this server."""

    @abstractmethod
    async def start(self) -> None:
        """Listen."""

    @abstractmethod
    async def close(self) -> None:
        """Stop, and free everything."""

    @abstractmethod
    async def down(self) -> None:
        """Stop listening and break every connection, without forgetting anything."""

    @abstractmethod
    async def up(self) -> None:
        """Listen again, on the same port."""

    @abstractmethod
    async def drop(self) -> None:
        """Break every connection that waits for news; the server goes on listening."""

    @abstractmethod
    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        person: str = "",
        thread: str = "",
        mention: bool = False,
        reply_to: str = "",
        files: Sequence[Path] = (),
    ) -> str:
        """A person says something; its message id. Without `chat` in their direct chat, without `person` the first
        person (`self.person`). A chat whose name begins with `group` is one with several people."""

    @abstractmethod
    async def again(self, message_id: str) -> None:
        """Deliver what was said once more, as platforms do that doubt that it arrived."""

    async def press(self, message_id: str, token: str, *, person: str = "") -> None:
        """A person presses a button."""
        raise NotImplementedError

    def menu(self) -> list[str]:
        """The names in the menu of commands that everybody sees."""
        raise NotImplementedError

    def chat_id(self, chat: str) -> str:
        """The platform's own id of a chat of that name: what `Place.chat` holds. Most take names as they are."""
        return chat

    topic = "77"
    """The id of a thread."""
    person = "1001"
    """The id of the first person."""
    stranger = "6660"
    """The id of an unknown sender."""

    def shown(self, chat: str = "", thread: str = "") -> list[Shown]:
        """What the agent has written in a chat, in order; without `chat` everywhere."""
        chat = chat and self.chat_id(chat)
        return [one for one in self.messages.values() if (not chat or one.chat == chat) and one.thread == thread]

    def text(self, chat: str = "", thread: str = "") -> str:
        """The same as one text."""
        return "\n".join(one.text for one in self.shown(chat, thread))

    async def until(self, seen: Callable[[], object], *, timeout: float = 60.0) -> None:  # noqa: ASYNC109 - a test's limit
        """Wait until something is so; looks again whenever something was sent. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            while not seen():
                self._changed.clear()
                await self._changed.wait()

    def put(self, message: Shown) -> None:
        """For the server: the agent has sent this."""
        self.messages[message.message_id] = message
        self.news()

    def change(self, message_id: str, text: str, buttons: tuple[tuple[str, str], ...] = (), markup: str = "") -> bool:
        """For the server: the agent has edited a message; False when there is no such message."""
        known = self.messages.get(message_id)
        if known is None:
            return False
        self.messages[message_id] = structs.replace(
            known, text=text, buttons=buttons, markup=markup, edits=known.edits + 1
        )
        self.news()
        return True

    def news(self) -> None:
        """For the server: something has changed; who waits looks again."""
        self._changed.set()

    def next_failure(self) -> Failing | None:
        """For the server: how this send fails."""
        return self.failing.pop(0) if self.failing else None

    async def __aenter__(self: Self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
