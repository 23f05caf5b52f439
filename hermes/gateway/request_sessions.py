"""What the gateway offers to platforms that are asked and answer at once, such as the API server and webhooks."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from hermes.core.messages import Message
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.options import Options


class Wish(Struct, frozen=True, kw_only=True):
    """A session that is wanted."""

    session_id: str
    options: Options
    create: bool = True
    """Whether it is made when there is none."""
    system: str | None = None
    history: tuple[Message, ...] = ()
    """What was said before its first message, where it has none."""


class Front(Protocol):
    """The gateway, as a platform sees it."""

    @property
    def app(self) -> App:
        """The process's Hermes."""
        ...

    def session(self, wish: Wish) -> AbstractAsyncContextManager[SessionActor]:
        """A live session, held for as long as the context lasts: it is opened where it is not open yet, and stays in
        memory for a while behind it. Raises what `App.open_session` raises."""
        ...

    async def drop(self, session_id: str) -> None:
        """Take a session out of memory, whatever it does; what it leaves goes on when it is opened next."""
        ...

    async def deliver(self, target: str, text: str, *, key: str) -> None:
        """Owe a text to a target of deliveries (`PLATFORM:CHAT[:THREAD]`, `all`); the same key again owes nothing more.
        Raises NotFoundError where nobody is reached by it."""
        ...

    def health(self) -> Mapping[str, object]:
        """How things stand: the accounts and their state, sessions, what is owed."""
        ...

    def metrics(self) -> str:
        """The same and more, in the text format of Prometheus."""
        ...
