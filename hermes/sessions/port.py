"""The interface of a live session for front-ends, in this process or in another one of this home."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from hermes.core.events import Event, TurnEnded
from hermes.core.outcomes import AnswerScope
from hermes.runtime.mailbox import InboundMessage

if TYPE_CHECKING:
    from hermes.core.sub_agents import SubAgentTask
    from hermes.tools.session import ToolContext
    from hermes.tools.tool import ToolOutput


class ApprovalPort(Protocol):
    """The approval prompts of a session, as a front-end answers them."""

    can_ask: bool
    """Whether somebody is there to answer them."""

    @property
    def unasked(self) -> int:
        """Number of prompts that were denied because nobody could be asked."""
        ...

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        """Answer a prompt; return False when it is known that nobody waits for it any more."""
        ...


class SessionPort(Protocol):
    """What a front-end sends to a session and receives from it, implemented by `SessionActor` and `RemoteSession`."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        ...

    @property
    def approvals(self) -> ApprovalPort:
        """Its approval prompts."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is about to run."""
        ...

    doing: str
    """What works between two turns, as a person reads it; empty while nothing does that may take its time."""

    @property
    def unfinished(self) -> int:
        """Number of turns and messages that a dead process left, until they are resumed."""
        ...

    def subscribe(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        """Call `subscriber` with every event from now on; return a function that unsubscribes it."""
        ...

    def post(self, inbound: InboundMessage) -> "asyncio.Future[TurnEnded]":
        """Queue a message; the future ends with the turn that answers it."""
        ...

    def steer(
        self, inbound: InboundMessage, *, joins_only: bool = False, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Add a message to the running turn."""
        ...

    def interrupt(self, inbound: InboundMessage) -> "asyncio.Future[TurnEnded]":
        """Stop the running turn, and answer this message next."""
        ...

    def forward(
        self, letter_id: str, inbound: InboundMessage, *, joins: bool = False, first: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Process a message that is stored in the inbox already."""
        ...

    def resume(self) -> "asyncio.Future[TurnEnded] | None":
        """Resume what a dead process left, or return None when it left nothing."""
        ...

    async def idle(self) -> None:
        """Wait until nothing runs and nothing is queued, as far as that is known here."""
        ...

    def stop(self) -> bool:
        """Stop the running turn; return False when none runs."""
        ...


class Delegator(Protocol):
    """Has tasks done by sub-agents of one session."""

    async def run_tasks(
        self, context: "ToolContext", tasks: "Sequence[SubAgentTask]", *, background: bool
    ) -> "ToolOutput":
        """Have the tasks done and return the reports; with `background` return at once, and the reports come as a
        message. A call that is made again after a crash takes its sub-agents up. Raises ToolError.
        """
        ...
