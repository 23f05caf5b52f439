"""A live session as a front-end sees it, wherever it lives: in this process, or in another one of this home."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from hermes.core.events import Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.runtime.mailbox import Inbound


class Answering(Protocol):
    """The questions of a session."""

    can_ask: bool
    """Whether somebody is there who answers them."""

    @property
    def unasked(self) -> int:
        """Questions that were answered with no because nobody could be asked."""
        ...

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        """Answer a question; False when nobody waits for it any more, as far as that is known here."""
        ...


class SessionPort(Protocol):
    """What a front-end says to a session, and hears of it. `SessionActor` is one; `RemoteSession` is the other."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def approvals(self) -> Answering:
        """Its questions."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is about to."""
        ...

    @property
    def unfinished(self) -> int:
        """How much a process that died has left, until it is gone on with."""
        ...

    def subscribe(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        """Show every event from now on; returns how to stop that."""
        ...

    def post(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Say something; the end of the turn that answers it."""
        ...

    def steer(
        self, inbound: Inbound, *, joins_only: bool = False, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Let words join the running turn."""
        ...

    def interrupt(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Stop the running turn, and answer this next."""
        ...

    def forward(
        self, letter_id: str, inbound: Inbound, *, joins: bool = False, first: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Say what stands in the store's inbox already."""
        ...

    def resume(self) -> "asyncio.Future[TurnEnded] | None":
        """Go on with what a process that died has left."""
        ...

    async def idle(self) -> None:
        """Wait until nothing runs and nothing waits, as far as that is known here."""
        ...

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        ...
