"""The JSON of the door for programs: what the API server sends, its OpenAPI file describes and the client reads.

Times are in seconds since the epoch. Within a version of the event schema, fields and kinds of events are added, and
never changed or taken away: programs pass over what they do not know.
"""

from collections.abc import Mapping

from msgspec import Struct

from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Notice,
    Queued,
    Refused,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes.core.outcomes import AnswerScope
from hermes.core.usage import Usage

EVENT_SCHEMA_VERSION = 1
"""The version of the events of runs, which each of them carries."""
RUN_RESUMED = "run.resumed"
"""The kind of the event with which another process goes on with a run."""
RUN_ENDED = "run.ended"
"""The kind of a run's last event."""


class InputDetails(Struct, frozen=True):
    """What of the prompt's tokens came from the provider's cache."""

    cached_tokens: int


class OutputDetails(Struct, frozen=True):
    """What of the generated tokens was reasoning."""

    reasoning_tokens: int


class TokenCounts(Struct, frozen=True):
    """The tokens of all model calls of a turn."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int

    @classmethod
    def from_usage(cls, usage: Usage) -> "TokenCounts":
        """Return the counts of a usage."""
        details = InputDetails(usage.cache_read), OutputDetails(usage.reasoning)
        return cls(usage.input, details[0], usage.output, details[1], usage.total)


class RunRequest(Struct, frozen=True):
    """The body of a request for a run."""

    input: str | list[object]
    session_id: str | None = ""
    model: str = ""
    instructions: str | None = ""


class Run(Struct, frozen=True, kw_only=True):
    """A run. `status` is queued, running, waiting_for_approval, completed, stopped or failed; `output` is the answer
    once it has ended; `approvals` are the questions that nobody has answered.
    """

    id: str
    object: str = "run"
    status: str
    session_id: str
    created_at: float
    ended_at: float | None = None
    output: str | None = None
    reason: str | None = None
    error: str | None = None
    usage: TokenCounts | None = None
    approvals: list[ApprovalAsked] = []


class ApprovalDecision(Struct, frozen=True):
    """The answer to an approval question."""

    approval_id: str
    decision: AnswerScope


class RunEvent(Struct, frozen=True):
    """An event of a run. `data` depends on the kind, `type`; `id` is the number of the event in its stream, by which
    a program goes on behind it, and is empty where it has none.
    """

    version: int
    type: str
    run_id: str
    data: dict[str, object]
    id: str = ""


class RunEventBody(Struct, frozen=True):
    """A run's event as it is sent. Its id stands beside it in the stream."""

    type: str
    run_id: str
    data: object
    version: int = EVENT_SCHEMA_VERSION


class TextPiece(Struct, frozen=True):
    """More of the answer's text; in `run.resumed` all that stands of it so far, in the place of what came before."""

    text: str


class EventGap(Struct, frozen=True):
    """So many events are missing here, because the server does not keep them any more."""

    missed: int


RUN_EVENTS: Mapping[str, type[Struct]] = {
    "run.queued": Queued,
    "run.text_delta": TextPiece,
    "run.tool_started": ToolStarted,
    "run.tool_ended": ToolEnded,
    "run.refused": Refused,
    "run.approval_asked": ApprovalAsked,
    "run.approval_answered": ApprovalAnswered,
    "run.notice": Notice,
    "run.gap": EventGap,
    RUN_RESUMED: TextPiece,
    RUN_ENDED: Run,
}
"""The kinds of events with the type of their data."""


class NewSessionRequest(Struct, frozen=True):
    """A request for a new session."""

    id: str | None = ""


class RenameSessionRequest(Struct, frozen=True):
    """A change to a session."""

    title: str


class ForkSessionRequest(Struct, frozen=True):
    """A request for a branch of a session: after so many turns, or after all of them."""

    turns: int | None = None
    title: str = ""
    id: str | None = ""


class SessionMessageRequest(Struct, frozen=True):
    """A message to a session."""

    input: str | list[object]
    model: str = ""
    instructions: str | None = ""


class SessionObject(Struct, frozen=True, kw_only=True):
    """A session of the key. `cost_usd` is null while no provider has named a price."""

    id: str
    object: str = "session"
    title: str
    model: str
    created_at: float
    updated_at: float
    message_count: int
    tool_call_count: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None = None


class DeletedSession(Struct, frozen=True, kw_only=True):
    """A session that is deleted."""

    id: str
    object: str = "session"
    deleted: bool = True


class SessionAnswer(Struct, frozen=True, kw_only=True):
    """The answer to a message in a session."""

    object: str = "session.answer"
    session_id: str
    turn_id: str
    text: str
    reason: str
    usage: TokenCounts


class SessionEvent(Struct, frozen=True):
    """An event of the streamed answer to a message in a session. `data` depends on the kind, `type`."""

    type: str
    data: dict[str, object]


class SessionPage(Struct, frozen=True, kw_only=True):
    """A page of a list of sessions."""

    object: str = "list"
    data: list[SessionObject]
    has_more: bool


_Message = dict[str, object]


class MessagePage(Struct, frozen=True, kw_only=True):
    """A page of a session's messages, in the format of chat completions."""

    object: str = "list"
    data: list[_Message]
    has_more: bool


class ApprovalReceipt(Struct, frozen=True):
    """An approval question whose answer was taken."""

    approval_id: str
    decision: AnswerScope


class ErrorObject(Struct, frozen=True):
    """What is wrong with a request, and which field it is about."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorResponse(Struct, frozen=True):
    """The body of every response that is no success."""

    error: ErrorObject


TURN_ENDED = "turn_ended"
"""The kind of the last event of a streamed answer."""
TURN_FAILED = "error"
"""The kind of the last event of a streamed answer that could not go on."""
SESSION_EVENTS: Mapping[str, type[Struct]] = {
    "text_delta": TextPiece,
    "tool_started": ToolStarted,
    "tool_ended": ToolEnded,
    "refused": Refused,
    "approval_asked": ApprovalAsked,
    "approval_answered": ApprovalAnswered,
    "notice": Notice,
    TURN_ENDED: TurnEnded,
    TURN_FAILED: ErrorObject,
}
"""The kinds of events of a streamed answer with the type of their data."""
