"""The gateway as platforms use it that answer requests at once, such as the API server and webhooks."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from hermes.core.messages import Message
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions


class SessionRequest(Struct, frozen=True, kw_only=True):
    """A request to open a session."""

    session_id: str
    options: SessionOptions
    create: bool = True
    """Whether the session is created where it does not exist."""
    system: str | None = None
    history: tuple[Message, ...] = ()
    """Messages that stand before its first one, for a session that has none."""


class GatewayFacade(Protocol):
    """The interface of the gateway for platforms."""

    @property
    def app(self) -> App:
        """The process's App."""
        ...

    def hold_session(self, request: SessionRequest) -> AbstractAsyncContextManager[SessionActor]:
        """Open a session and keep it live while the context lasts; it stays in memory for a while afterwards. Raises
        what `App.open_session` raises.
        """
        ...

    async def drop_session(self, session_id: str) -> None:
        """Remove a session from memory, even while it works; its unfinished work goes on when it is opened next."""
        ...

    async def deliver_text(self, target: str, text: str, *, key: str) -> None:
        """Put a text for a delivery target (`PLATFORM:CHAT[:THREAD]`, `all`) into the outbox; the same key again adds
        nothing. Raises NotFoundError where the target reaches nobody.
        """
        ...

    def health_report(self) -> Mapping[str, object]:
        """Return the state of the accounts, the sessions and the outbox."""
        ...

    def metrics_text(self) -> str:
        """Return the same and more, in the text format of Prometheus."""
        ...
