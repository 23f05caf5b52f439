"""The events of a session, in the order in which they happen.

The loop emits them, the runtime stores and publishes them, front-ends render them.
"""

from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType

from hermes.core.messages import Message, ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.core.stream import CallStarted, ReasoningDelta, TextDelta
from hermes.core.sub_agents import SubAgentState
from hermes.core.usage import Cost, Usage


class Level(StrEnum):
    """The severity of a notice."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TurnStarted(Struct, frozen=True, tag="turn_started"):
    """A turn has begun; `text` is the person's message."""

    turn_id: str
    session_id: str
    text: str


class TurnResumed(Struct, frozen=True, tag="turn_resumed"):
    """A turn whose process died goes on from its last stored step; `calls` model calls had been made."""

    turn_id: str
    session_id: str
    text: str
    calls: int


class Queued(Struct, frozen=True, tag="queued"):
    """A message waits for its turn, and is stored; `ahead` counts what is answered before it.

    `joins`: it becomes part of the running turn at that turn's next model call.
    """

    text: str
    ahead: int
    joins: bool = False


class FellBack(Struct, frozen=True, tag="fell_back"):
    """A fallback model answers, because the one before could not; `reason` says why."""

    provider: str
    model: str
    reason: str


class EpochBegan(Struct, frozen=True, tag="epoch_began"):
    """Requests start from a fresh prefix. `reason` names the event that ended the one before.

    `bytes` of the conversation are sent without help from the provider's cache: the event's cost.
    """

    number: int
    reason: str
    provider: str
    model: str
    bytes: int = 0


class RequestStarted(Struct, frozen=True, tag="request_started"):
    """A model call is about to be made; `number` counts the turn's calls from 1."""

    number: int
    bytes: int


class RequestEnded(Struct, frozen=True, tag="request_ended"):
    """A model call gave a whole answer; `seconds` is from sending to the last byte."""

    number: int
    seconds: float
    usage: Usage | None = None


class Retrying(Struct, frozen=True, tag="retrying", omit_defaults=True):
    """A model call failed and is tried again after `delay` seconds.

    `attempt` counts the new tries from 1; they go on at most until the moment `until` (wall time), or where their
    number ends them, there are `most` of them.
    """

    attempt: int
    delay: float
    reason: str
    message: str
    until: float = 0.0
    most: int = 0


class MessageAppended(Struct, frozen=True, tag="message_appended"):
    """The transcript has grown by this message."""

    message: Message
    usage: Usage | None = None


class ToolStarted(Struct, frozen=True, tag="tool_started"):
    """A tool call has passed the gate and runs; `summary` says in a few words what it does."""

    call_id: str
    name: str
    arguments: str
    summary: str = ""


class ToolEnded(Struct, frozen=True, tag="tool_ended"):
    """A tool call has ended, one way or another; `preview` is the first lines of its result.

    `failed`: what was run says itself that it failed, though the tool has done its work; `code` is its exit code.
    `lines` is how many lines the result has, and `tail` the last of them where the preview does not hold all.
    """

    call_id: str
    name: str
    status: ToolStatus
    seconds: float
    preview: str = ""
    failed: bool = False
    code: int = 0
    lines: int = 0
    tail: str = ""


WHILE_UNCHANGED = ", while the files that it runs stay unchanged"
"""What stands in `session_covers` of an answer that holds only for files as they are."""


class ApprovalAsked(Struct, frozen=True, tag="approval_asked"):
    """A person is asked whether this may happen; answered through the runtime by `approval_id`."""

    approval_id: str
    call_id: str
    tool: str
    subject: str
    rule: str
    reason: str
    cwd: str = ""
    once_covers: str = ""
    """A description of what the answer "once" covers."""
    session_covers: str = ""
    """A description of what an answer for the session covers; empty where there is no such answer."""
    always_covers: str = ""
    """A description of what an answer for good covers."""
    no_covers: str = ""
    """A description of what a no covers until the session ends; empty where it is for this call only."""
    asker: str | UnsetType = UNSET
    """The name of the sub-agent that asks; not there where the session itself does."""
    asker_id: str | UnsetType = UNSET
    """The session of that sub-agent."""


class ApprovalAnswered(Struct, frozen=True, tag="approval_answered"):
    """The question has an answer; `by` says whose (a person, a pattern, no person present)."""

    approval_id: str
    allowed: bool
    by: str


class Refused(Struct, frozen=True, tag="refused"):
    """A call was not run because it was not allowed; the person sees this line.

    `pattern` is filled only when there was no person to ask: allowing it beforehand would have let the call run.
    """

    call_id: str
    tool: str
    subject: str
    reason: str
    pattern: str = ""
    asker: str | UnsetType = UNSET
    """The name of the sub-agent whose call it was; not there for the session's own."""


class Notice(Struct, frozen=True, tag="notice"):
    """A line for the person."""

    level: Level
    text: str


class WorkStarted(Struct, frozen=True, tag="work_started"):
    """Work between two turns has begun that may take its time; `doing` says what it does."""

    doing: str


class WorkEnded(Struct, frozen=True, tag="work_ended"):
    """That work has ended, whether it was done, has failed or was stopped."""


class SubAgentChanged(Struct, frozen=True, kw_only=True, tag="sub_agent_changed", omit_defaults=True):
    """A sub-agent of the session, or one of theirs, has come a step further."""

    session_id: str
    number: int
    """By which people name it: unique among all sub-agents below one session."""
    name: str
    state: SubAgentState
    depth: int = 1
    """1 for one of the session's own, 2 for one of theirs."""
    parent: int = 0
    """The number of the sub-agent for which it works; 0 for one of the session's own."""
    step: int = 0
    """The model calls that it has made."""
    max_steps: int = 0
    cost: Cost = Cost()
    seconds: float = 0.0
    """The time since it began to work."""
    doing: str = ""
    """The call that it makes now, in a few words; once it has ended, why it is not done."""


class TurnEnded(Struct, frozen=True, kw_only=True, tag="turn_ended"):
    """The turn's named end. `text` is the final answer (may be empty); `error` says what went wrong and what to do."""

    turn_id: str
    reason: ExitReason
    text: str = ""
    error: str = ""
    calls: int = 0
    refused: int = 0
    usage: Usage = Usage()
    last_prompt_tokens: int = 0
    cost: Cost = Cost()


Event = (
    TurnStarted
    | TurnResumed
    | Queued
    | FellBack
    | EpochBegan
    | RequestStarted
    | RequestEnded
    | Retrying
    | MessageAppended
    | TextDelta
    | ReasoningDelta
    | CallStarted
    | ToolStarted
    | ToolEnded
    | ApprovalAsked
    | ApprovalAnswered
    | Refused
    | Notice
    | WorkStarted
    | WorkEnded
    | SubAgentChanged
    | TurnEnded
)
