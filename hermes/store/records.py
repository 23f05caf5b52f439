"""Values that the store returns. Times are seconds since the Unix epoch."""

from enum import IntEnum, StrEnum

from msgspec import Struct

from hermes.core.frame import EpochFrame
from hermes.core.messages import Message, Role, ToolResultPart
from hermes.core.usage import Certainty, Cost, Price, Usage

ARCHIVED = "compression"
"""The end reason of a session that holds what a compression covered; nobody continues it."""


class NewSession(Struct, frozen=True, kw_only=True):
    """A session as it is created. `source` names the front-end; `parent_id` the session that it continues.

    `branched_at` is set for a branch: the number of turns of its parent that it began with.
    """

    id: str
    source: str = ""
    user_id: str = ""
    title: str = ""
    provider: str = ""
    model: str = ""
    cwd: str = ""
    parent_id: str | None = None
    branched_at: int | None = None


SUB_AGENT_SOURCE = "delegation"
PROGRAM_SOURCES = ("cron", "api_server", "mcp_server", "webhook", SUB_AGENT_SOURCE)
"""Where nobody talks: runs of jobs, programs, reports, and sub-agents; lists of sessions leave them out."""


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

    @property
    def kind(self) -> str:
        """`archive` for what holds only what a compression covered, `branch`, or empty for a session of its own."""
        if self.end_reason == ARCHIVED:
            return "archive"
        return "branch" if self.branched_at is not None else ""


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
    """Undone by the person; kept until the session is deleted, not found by search."""


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


class CompactionRow(Struct, frozen=True):
    """The effect of one compaction, by message ids. `memo` is what its engine noted for the next one."""

    epoch: int
    """The number of the epoch that it began."""
    covered: tuple[int, ...]
    made: tuple[int, ...]
    memo: bytes
    undone: bool


class TurnRowState(StrEnum):
    """Whether a turn is still open."""

    RUNNING = "running"
    ENDED = "ended"


class TurnRow(Struct, frozen=True, kw_only=True):
    """A turn. `text` is the person's message as long as it is not in the transcript yet, then empty."""

    id: str
    session_id: str
    state: TurnRowState
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
    """A message that waits for a session; `body` is the runtime's own encoding of it."""

    id: str
    body: bytes
    posted_at: float


class SpendOrigin(Struct, frozen=True, kw_only=True):
    """The origin of a model call: `purpose` tells the main conversation (`turn`) from auxiliary calls.

    `owner` is the identity of the process. The user is the session's.
    """

    provider: str
    model: str
    session_id: str = ""
    turn_id: str | None = None
    run_id: str = ""
    purpose: str = "turn"
    owner: str = ""
    root_id: str | None = None
    """Of a sub-agent's call: the session at the top of its tree."""


class CallSpend(Struct, frozen=True, kw_only=True):
    """The tokens and the cost of a call; with an unknown cost `nano` says nothing."""

    usage: Usage = Usage()
    cost: Cost = Cost(certainty=Certainty.UNKNOWN)


class SpendCap(Struct, frozen=True, kw_only=True):
    """The most that may be spent: in nano-dollars, in tokens (prompt and output), or both.

    It counts the calls whose `column` (`run_id`, `session_id`, `root_id` or `user_id`) has this `value`; with `root_id`
    a session's own calls and those of its sub-agents. Without a column it counts those from `since` on, without an end:
    what a clock that was ahead has dated into the future counts already. With the column `person` it counts those of
    that person from `since` on.
    """

    name: str
    nano: int | None = None
    tokens: int | None = None
    column: str = ""
    value: str = ""
    since: float = 0.0


class SpendRequest(Struct, frozen=True, kw_only=True):
    """The most that a call may use: its prompt's tokens at worst, and the output that is wanted for it.

    Output is lowered to what the caps leave, not below `least`; below `enough` only when nothing under way
    could leave more. With `share` a call takes a quarter of what is left at most, and `enough` in any case.
    """

    prompt: int
    output: int
    enough: int
    least: int
    price: Price | None
    share: bool = False


class CapUsage(Struct, frozen=True, kw_only=True):
    """The use of a cap. `nano` and `tokens` are settled; `held_nano` and `held_tokens` are reserved by
    calls under way.
    """

    cap: SpendCap
    nano: int
    tokens: int
    held_nano: int
    held_tokens: int


class SpendReservation(Struct, frozen=True, kw_only=True):
    """A reservation for a call: the id of its row, and the output that fits.

    `tightest` is the cap that lowered the output, where one did.
    """

    id: int
    output: int
    tightest: CapUsage | None = None


class SpendRefusal(Struct, frozen=True, kw_only=True):
    """A refused reservation: the tightest cap, and whether calls under way may leave room."""

    tightest: CapUsage
    may_come: bool


class SpendTotal(Struct, frozen=True, kw_only=True):
    """A sum of calls; `uncounted` of them have no known cost, `bounds` are counted at their worst case."""

    key: str = ""
    calls: int = 0
    usage: Usage = Usage()
    nano: int = 0
    reported: int = 0
    bounds: int = 0
    uncounted: int = 0


class ToolTotal(Struct, frozen=True, kw_only=True):
    """How often a tool was called; `ended` calls took `seconds` together, the effect of `uncertain` ones is unknown."""

    tool: str
    calls: int
    seconds: float
    ended: int
    uncertain: int


class SessionTotal(Struct, frozen=True, kw_only=True):
    """Numbers of sessions with messages, of turns, and of failed turns."""

    sessions: int
    turns: int
    failed: int


class OpenCall(Struct, frozen=True, kw_only=True):
    """A call under way that holds a reservation under the caps."""

    at: float
    provider: str
    model: str
    session_id: str
    nano: int | None
    tokens: int


class SessionExport(Struct, frozen=True, kw_only=True):
    """Everything that is stored about a session's conversation, compacted and undone messages included."""

    session: SessionRow
    epochs: tuple[StoredEpoch, ...]
    messages: tuple[StoredMessage, ...]


class SearchQuery(Struct, frozen=True, kw_only=True):
    """A search: the query and its limits. `offset` skips hits of earlier pages."""

    query: str
    limit: int = 20
    offset: int = 0
    newest: bool = True
    session: str | None = None
    roles: tuple[Role, ...] = ()
    source: str | None = None
    person: str | None = None
    """Limits to sessions of this person; empty means the owner's, None all."""


class SearchHit(Struct, frozen=True, kw_only=True):
    """A message that search has found; `snippet` is one line of its text around the first word found."""

    session_id: str
    title: str
    message_id: int
    role: Role
    created_at: float
    snippet: str


class SessionPreview(Struct, frozen=True, kw_only=True):
    """A preview of a session: its first and last messages that somebody wrote."""

    session: SessionRow
    first: tuple[StoredMessage, ...]
    last: tuple[StoredMessage, ...]


class IndexReport(Struct, frozen=True):
    """The result of an update of the search index."""

    messages: int
    seconds: float
