"""A turn's one mutable state, and the fixed dependencies it works with.

The number of model calls that a turn may make.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from hermes.agent import prompts
from hermes.agent.loop_detection import LoopDetector
from hermes.core.events import Event, MessageAppended, TurnResumed, TurnStarted
from hermes.core.frame import Rewrite
from hermes.core.messages import Message, Role, TextPart, ToolCallPart, ToolResultPart, ToolStatus, program_message
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import EffectJournal
from hermes.core.stream import Failure
from hermes.core.usage import Usage
from hermes.i18n.messages import N_
from hermes.llm.client import ModelClient
from hermes.llm.exchange import Meter
from hermes.llm.lineage import Lineage
from hermes.tools.executor import CallBatch, Executor
from hermes.tools.registry import Toolbox
from hermes.tools.session import ToolContext
from hermes.tools.taint import Taint
from hermes.util.clock import Clock


class TurnBudget:
    """Counts down from `total`; once spent it stays spent until a call is refunded, at most `total` times."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self._refunds = 0

    @property
    def remaining(self) -> int:
        """The calls that are left."""
        return max(self.total - self.used, 0)

    def take_step(self) -> bool:
        """Use one call; return False when none is left."""
        if self.used >= self.total:
            return False
        self.used += 1
        return True

    def refund_step(self) -> None:
        """Refund one call: a batch of calls that only ran code costs nothing, as often as there are steps."""
        if self._refunds < self.total:
            self._refunds += 1
            self.used = max(self.used - 1, 0)


Emit = Callable[[Event], Awaitable[None]]
"""The function that takes events. When it returns from `MessageAppended` the message is on its way to disk, in order;
when it returns from `RequestStarted`, everything before it is there.
"""


class TurnEpochs(Protocol):
    """Switches a turn to another epoch.

    Each method ends the epoch before by name, stores and shows that, and gives the turn's state its new
    lineage. False means that it cannot be done; nothing has changed then.
    """

    async def fall_back(self, state: "TurnState", failure: Failure, emit: Emit) -> bool:
        """Switch to the next model that may answer."""
        ...

    async def rewrite_request(self, state: "TurnState", how: Rewrite, emit: Emit) -> bool:
        """Send what was refused in another form; False when this epoch does so already."""
        ...

    async def prepare_request(self, state: "TurnState", emit: Emit) -> None:
        """Shorten the transcript before a request when it nears the end of the window; called before each request."""
        ...

    async def shrink_pictures(self, state: "TurnState", failure: Failure, emit: Emit) -> bool:
        """Send pictures smaller: the provider finds one of them too large."""
        ...

    async def shrink_request(self, state: "TurnState", failure: Failure, emit: Emit) -> bool:
        """Make the request smaller, in one epoch: pictures, old results, then older messages."""
        ...

    def can_fall_back(self, state: "TurnState") -> bool:
        """Return whether another model is left to try."""
        ...


class TurnJournal(EffectJournal, Protocol):
    """The journal of the effects of a session's turns."""

    async def keep_results(self, results: Sequence[ToolResultPart]) -> None:
        """Keep the results of a turn that ends before its batch is complete, for the turn that completes it."""
        ...


class TurnHooks(Protocol):
    """Other people's code at the steps of a turn. No method raises anything but CancelledError."""

    @property
    def holds_answers(self) -> bool:
        """Whether answers are shown only once `transform_answer` has had them."""
        ...

    async def review_request(self, number: int) -> str:
        """Return why the turn ends before its next request; empty where it goes on."""
        ...

    async def review_answer(self, text: str, *, asked_before: bool) -> str:
        """Return what is left to do before an answer may end the turn; empty where nothing is."""
        ...

    async def transform_answer(self, text: str) -> TextPart:
        """Return an answer as hooks leave it."""
        ...


class TurnDeps(Struct, frozen=True):
    """The dependencies of a turn; the same for all turns of a session."""

    toolbox: Toolbox
    executor: Executor
    context: ToolContext
    journal: TurnJournal
    clock: Clock
    epochs: TurnEpochs
    meter: Meter
    """Approves every model call of the session, whichever model is called, and sums up their cost."""
    publish: Callable[[Event], None]
    """Shows an event that needs no storing."""
    steering: Callable[[], Sequence[TextPart]]
    """Takes the parts that join the conversation at the next boundary: reports of background processes, and
    what the person said meanwhile. Empty when there is nothing.
    """
    hooks: TurnHooks | None = None


class ResumedTurn(Struct, frozen=True, kw_only=True):
    """A turn that another process began: its messages (the person's first), and the results of its open calls."""

    turn_id: str
    fence: int
    messages: tuple[Message, ...]
    results: dict[str, ToolResultPart]
    """By call id of the last message's calls: known results, and uncertain ones. Calls without one may be run."""
    stopping: bool = False
    """Whether the person had asked for it to stop."""


class TurnState(Struct):
    """Everything that changes while a turn runs."""

    turn_id: str
    session_id: str
    user: Message
    """The person's message; without parts when the turn only completes a batch of calls."""
    lineage: Lineage
    model: ModelClient
    budget: TurnBudget
    loop_detector: LoopDetector
    taint: Taint
    redact_message: Callable[[Message], Message]
    """Takes the secrets out of a message; what it returns is emitted as it is."""
    started_at: float = 0.0
    """The clock's monotonic seconds when this process began it."""
    resumed: "ResumedTurn | None" = None
    """What is known of this turn when its first process died."""
    messages: list[Message] = field(default_factory=list)
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    last_prompt_tokens: int = 0
    recovery_counts: Counter[str] = field(default_factory=Counter)
    """How often each recovery rule was used in this turn."""
    verifications: int = 0
    """How often hooks wanted the model to go on after an answer."""
    invalid_rounds: int = 0
    refused: int = 0
    housekeeping: frozenset[str] = frozenset()
    """Names of the tools that only do housekeeping for the agent."""
    final: bool = False
    """Whether the budget is spent, or the turn halted: the next answer is the last."""
    without_tools: bool = False
    """Whether the last answer is asked for without tools, since its model went on calling them."""
    halt_reason: str = ""
    """Why the turn was halted, for the person; empty when it was not."""
    batch: CallBatch | None = None
    """The calls of the last assistant message while their results are not in the transcript yet."""
    answered_results: dict[str, ToolResultPart] = field(default_factory=dict)
    """Results of that message's calls that were answered without being run, by call id."""
    unfinished: Message | None = None
    """What had come of the answer that was under way when the turn was stopped."""
    late_results: Message | None = None
    """Completes the calls with which the turn before has ended; it comes before the person's message."""
    answer: list[str] = field(default_factory=list)
    """The final answer, in the pieces it came in."""
    exit_reason: ExitReason | None = None
    error: str = ""

    async def append_message(self, message: Message, emit: Emit, usage: Usage | None = None) -> Message:
        """Append a message to the lineage, the turn's own list and, through `emit`, the store; return it as appended.

        Secrets are redacted here, before anybody gets the message.
        """
        message = self.redact_message(message)
        if self.lineage.shrinks_pictures and any(message.images()):
            await asyncio.to_thread(self.lineage.prepare_pictures, message)
        self.lineage.append_messages((message,))
        self.taint.add_message(message)
        self.messages.append(message)
        if message.role is not Role.ASSISTANT:
            self.batch, self.answered_results = None, {}
        await emit(MessageAppended(message=message, usage=usage))
        return message

    @property
    def opening(self) -> TurnStarted | TurnResumed:
        """The event that this turn begins with."""
        if self.resumed is None:
            return TurnStarted(turn_id=self.turn_id, session_id=self.session_id, text=self.user.text)
        return TurnResumed(self.turn_id, self.session_id, self.user.text, self.requests)

    def known_results(self) -> dict[str, ToolResultPart]:
        """Return the known results of the open calls, by call id; an interrupted batch gives interrupted ones."""
        ran = self.batch.collect_results() if self.batch is not None else ()
        return self.answered_results | {result.call_id: result for result in ran}

    def halt_turn(self, found: str) -> None:
        """Let the next answer be the last, because the turn goes round in circles."""
        self.final = True
        self.halt_reason = N_("{found} The turn was stopped. Say how to go on, or ask for less.", found=found)

    def end_final(self) -> None:
        """End the turn with its last answer, by the name of why it is the last."""
        if not self.halt_reason:
            if not "".join(self.answer).strip():
                self.answer = [prompts.BUDGET_ANSWER]
            said = N_("The limit of steps for one turn (agent.max_turns) was reached.")
            self.end_turn(ExitReason.BUDGET_EXHAUSTED, said)
            return
        if not "".join(self.answer).strip():
            self.answer = [self.halt_reason]
        self.end_turn(ExitReason.GUARDRAIL_HALT, self.halt_reason)

    def end_turn(self, reason: ExitReason, error: str = "") -> None:
        """Name the turn's end; the first name stands."""
        if self.exit_reason is None:
            self.exit_reason = reason
            self.error = error


def build_closing_messages(last: Message | None, results: Mapping[str, ToolResultPart], note: str) -> list[Message]:
    """Return the messages that close a turn whose transcript ends with `last`; empty when it is closed already.

    An open call gets a stored result, and a transcript that ends with a person's or a tool's message gets a stored
    note, so that it stays legal in every API format.
    """
    if last is None or (last.role is Role.ASSISTANT and not any(last.tool_calls())):
        return []
    closing = []
    if last.role is Role.ASSISTANT:
        closing.append(Message(role=Role.TOOL, parts=tuple(find_result(call, results) for call in last.tool_calls())))
    closing.append(program_message(Role.ASSISTANT, note))
    return closing


def find_result(call: ToolCallPart, results: Mapping[str, ToolResultPart]) -> ToolResultPart:
    """Return the result of a call; one that has none was not started."""
    known = results.get(call.call_id)
    if known is not None:
        return known
    return ToolResultPart(
        call_id=call.call_id, name=call.name, text=prompts.NOT_STARTED_CALL, status=ToolStatus.INTERRUPTED
    )
