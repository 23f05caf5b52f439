"""The one mutable thing of a turn, and the fixed things it works with."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from hermes.agent.budget import Budget
from hermes.core.events import Event, MessageAppended
from hermes.core.messages import Message, Role
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ToolCallPart, ToolResultPart
from hermes.core.protocols import EffectJournal
from hermes.core.usage import Usage
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.tools.executor import Executor
from hermes.util.clock import Clock

Emit = Callable[[Event], Awaitable[None]]
"""Where events go. When it returns from `MessageAppended` the message is on its way to disk, in order;
when it returns from `RequestStarted`, everything before it is there."""


@dataclass(frozen=True, slots=True)
class Deps:
    """What a turn works with; the same for all turns of a session."""

    model: ModelClient
    executor: Executor
    journal: EffectJournal
    clock: Clock
    steering: Callable[[], Sequence[Message]]
    """Takes what the person said meanwhile and wants to join at the next boundary; empty when nothing."""


@dataclass(slots=True)
class TurnState:
    """Everything that changes while a turn runs."""

    turn_id: str
    session_id: str
    user: Message
    lineage: Lineage
    budget: Budget
    messages: list[Message] = field(default_factory=list)
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    last_prompt_tokens: int = 0
    used: Counter[str] = field(default_factory=Counter)
    """How often each recovery row was used in this turn."""
    invalid_rounds: int = 0
    refused: int = 0
    final: bool = False
    """The budget is spent: the next answer is the last."""
    open_calls: tuple[ToolCallPart, ...] = ()
    """Calls of the last assistant message that have no result in the transcript yet."""
    results: dict[str, ToolResultPart] = field(default_factory=dict)
    """Results of `open_calls` that are known already, by call id."""
    answer: list[str] = field(default_factory=list)
    """The final answer, in the pieces it came in."""
    exit: ExitReason | None = None
    error: str = ""

    async def append(self, message: Message, emit: Emit, usage: Usage | None = None) -> None:
        """Let the transcript grow: the lineage, the turn's own list and, through `emit`, the store."""
        self.lineage.extend((message,))
        self.messages.append(message)
        self.open_calls = tuple(message.calls()) if message.role is Role.ASSISTANT else ()
        if message.role is not Role.ASSISTANT:
            self.results = {}
        await emit(MessageAppended(message=message, usage=usage))

    def end(self, reason: ExitReason, error: str = "") -> None:
        """Name the turn's end; the first name stands."""
        if self.exit is None:
            self.exit = reason
            self.error = error
