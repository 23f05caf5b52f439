"""What the store gives back, as values. Times are seconds since the Unix epoch."""

from enum import IntEnum, StrEnum

from msgspec import Struct

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role
from hermes.core.parts import ToolResultPart
from hermes.core.usage import Usage


class NewSession(Struct, frozen=True, kw_only=True):
    """A session as it is created. `source` names the front-end; `parent_id` the session that it goes on from."""

    id: str
    source: str = ""
    user_id: str = ""
    title: str = ""
    provider: str = ""
    model: str = ""
    cwd: str = ""
    parent_id: str | None = None


class SessionRow(NewSession, frozen=True, kw_only=True):
    """A session with its totals. `cost_usd` is None as long as no provider has named a price."""

    created_at: float
    updated_at: float
    ended_at: float | None = None
    end_reason: str = ""
    message_count: int = 0
    tool_call_count: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None


class StoredEpoch(Struct, frozen=True, kw_only=True):
    """An epoch; its frame is equal, byte for byte, to the one that was stored."""

    session_id: str
    number: int
    frame: EpochFrame
    began_at: float
    begin_reason: str
    ended_at: float | None = None
    end_reason: str = ""


class MessageState(IntEnum):
    """Whether a message is part of the conversation as it stands."""

    ACTIVE = 0
    COMPACTED = 1
    """A summary stands for it; the words can still be found and restored."""
    UNDONE = 2
    """Taken back by the person; kept until the session is deleted, not found by search."""


class StoredMessage(Struct, frozen=True):
    """A message with its place. The token counts are of the model call that wrote it, where there was one."""

    id: int
    epoch: int
    turn_id: str | None
    state: MessageState
    created_at: float
    prompt_tokens: int | None
    output_tokens: int | None
    message: Message


class TurnState(StrEnum):
    """Whether a turn is still somebody's work."""

    RUNNING = "running"
    ENDED = "ended"


class TurnRow(Struct, frozen=True, kw_only=True):
    """A turn. `text` is the person's message as long as it is not in the transcript yet, then empty."""

    id: str
    session_id: str
    state: TurnState
    text: str
    started_at: float
    ended_at: float | None
    reason: str
    error: str
    calls: int
    usage: Usage
    owner_pid: int | None
    fence: int
    stopping: bool = False


class EffectState(StrEnum):
    """What is known about a call's effect."""

    INTENDED = "intended"
    DONE = "done"
    UNCERTAIN = "uncertain"


class EffectRow(Struct, frozen=True, kw_only=True):
    """A call with its effect. `arguments` and `result` are kept until the turn ends."""

    turn_id: str
    call_id: str
    tool: str
    arguments: str
    repeatable: bool
    state: EffectState
    result: ToolResultPart | None
    intended_at: float
    done_at: float | None
    message_id: int | None = None


class InboxRow(Struct, frozen=True):
    """Something that was said to a session and waits; `body` is the runtime's own encoding of it."""

    id: str
    body: bytes
    posted_at: float


class Spend(Struct, frozen=True, kw_only=True):
    """One model call's tokens and money; `purpose` tells the main conversation (`turn`) from auxiliary calls."""

    provider: str
    model: str
    usage: Usage
    session_id: str | None = None
    turn_id: str | None = None
    purpose: str = "turn"


class SessionExport(Struct, frozen=True, kw_only=True):
    """Everything that is stored about a session's conversation, compacted and undone messages included."""

    session: SessionRow
    epochs: tuple[StoredEpoch, ...]
    messages: tuple[StoredMessage, ...]


class Search(Struct, frozen=True, kw_only=True):
    """What is looked for, and where. `offset` skips hits of earlier pages."""

    query: str
    limit: int = 20
    offset: int = 0
    newest: bool = True
    session: str | None = None
    roles: tuple[Role, ...] = ()
    source: str | None = None


class Hit(Struct, frozen=True, kw_only=True):
    """A message that search has found; `snippet` is one line of its text around the first word found."""

    session_id: str
    title: str
    message_id: int
    role: Role
    created_at: float
    snippet: str


class IndexReport(Struct, frozen=True):
    """What a catching-up of the search index did."""

    messages: int
    seconds: float
