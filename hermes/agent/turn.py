"""The one mutable thing of a turn, and the fixed things it works with."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct, field

from hermes.agent.budget import Budget
from hermes.agent.loop_detection import Guard
from hermes.core.events import Event, MessageAppended, TurnResumed, TurnStarted
from hermes.core.frame import Rewrite
from hermes.core.messages import Message, Role
from hermes.core.outcomes import ExitReason
from hermes.core.parts import TextPart, ToolResultPart
from hermes.core.protocols import EffectJournal
from hermes.core.scrub import Redact, scrubbed_message
from hermes.core.stream import Failure
from hermes.core.usage import Usage
from hermes.llm.client import ModelClient
from hermes.llm.lineage import Lineage
from hermes.llm.metering import Meter
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.registry import Toolbox
from hermes.tools.session import ToolContext
from hermes.tools.taint import Taint
from hermes.util.clock import Clock

Emit = Callable[[Event], Awaitable[None]]
"""Where events go. When it returns from `MessageAppended` the message is on its way to disk, in order;
when it returns from `RequestStarted`, everything before it is there."""


class Epochs(Protocol):
    """How a turn gets another epoch: each ends the one before by name, stores and shows that, and gives the turn's
    state its new lineage. False when it cannot be done; nothing has changed then."""

    async def fall_back(self, state: "TurnState", failure: Failure, emit: Emit) -> bool:
        """Go on with the next model that may answer."""
        ...

    async def rewrite(self, state: "TurnState", how: Rewrite, emit: Emit) -> bool:
        """Send what was refused in another form; False when this epoch does so already."""
        ...

    async def prepare(self, state: "TurnState", emit: Emit) -> None:
        """Asked before each request: go on with a shorter transcript when this one nears the end of the window."""
        ...

    async def compress(self, state: "TurnState", emit: Emit) -> bool:
        """Go on with a shorter transcript: the provider finds this one too long."""
        ...

    def can_fall_back(self, state: "TurnState") -> bool:
        """Whether another model is left to try."""
        ...


class Deps(Struct, frozen=True):
    """What a turn works with; the same for all turns of a session."""

    toolbox: Toolbox
    executor: Executor
    context: ToolContext
    journal: EffectJournal
    clock: Clock
    epochs: Epochs
    meter: Meter
    """Whose leave every model call of the session has, whichever model is called, and which adds up their cost."""
    publish: Callable[[Event], None]
    """Shows an event that needs not be stored."""
    steering: Callable[[], Sequence[TextPart]]
    """Takes what wants to join the conversation at the next boundary: news of background processes, words that the
    person said meanwhile. Empty when there is nothing."""


class Resumed(Struct, frozen=True, kw_only=True):
    """A turn that another process began: its messages (the person's first), and what came of its open calls."""

    turn_id: str
    fence: int
    messages: tuple[Message, ...]
    results: dict[str, ToolResultPart]
    """By call id, of the last message's calls: known results, and uncertain ones. Calls without one may be run."""
    stopping: bool = False
    """The person had asked for it to stop."""


class TurnState(Struct):
    """Everything that changes while a turn runs."""

    turn_id: str
    session_id: str
    user: Message
    lineage: Lineage
    model: ModelClient
    budget: Budget
    guard: Guard
    taint: Taint
    redact: Redact
    resumed: "Resumed | None" = None
    """What is known of this turn when its first process died."""
    messages: list[Message] = field(default_factory=list)
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    last_prompt_tokens: int = 0
    used: Counter[str] = field(default_factory=Counter)
    """How often each recovery row was used in this turn."""
    invalid_rounds: int = 0
    refused: int = 0
    housekeeping: frozenset[str] = frozenset()
    """Names of the tools that only keep the agent's own house in order."""
    final: bool = False
    """The budget is spent: the next answer is the last."""
    batch: CallBatch | None = None
    """The calls of the last assistant message while their results are not in the transcript yet."""
    answered: dict[str, ToolResultPart] = field(default_factory=dict)
    """Results of that message's calls that were answered without being run, by call id."""
    answer: list[str] = field(default_factory=list)
    """The final answer, in the pieces it came in."""
    exit: ExitReason | None = None
    error: str = ""

    async def append(self, message: Message, emit: Emit, usage: Usage | None = None) -> Message:
        """Let the transcript grow: the lineage, the turn's own list and, through `emit`, the store.

        This is where secrets leave a message, before anybody gets it; the message as it was appended.
        """
        message = scrubbed_message(message, self.redact)
        self.lineage.extend((message,))
        self.taint.add_message(message)
        self.messages.append(message)
        if message.role is not Role.ASSISTANT:
            self.batch, self.answered = None, {}
        await emit(MessageAppended(message=message, usage=usage))
        return message

    @property
    def opening(self) -> TurnStarted | TurnResumed:
        """The event that this turn begins with."""
        if self.resumed is None:
            return TurnStarted(turn_id=self.turn_id, session_id=self.session_id, text=self.user.text)
        return TurnResumed(self.turn_id, self.session_id, self.user.text, self.requests)

    def known_results(self) -> dict[str, ToolResultPart]:
        """What is known about the open calls, by call id; for a batch that was cut short, that it was."""
        ran = self.batch.collect_results() if self.batch is not None else ()
        return self.answered | {result.call_id: result for result in ran}

    def end(self, reason: ExitReason, error: str = "") -> None:
        """Name the turn's end; the first name stands."""
        if self.exit is None:
            self.exit = reason
            self.error = error
