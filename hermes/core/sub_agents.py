"""Sub-agents: sessions that work for another session. What one is asked, its states, and what it reports."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from hermes.core.messages import Message, TextPart
from hermes.core.usage import Cost

Role = Literal["leaf", "orchestrator"]
TASK_HEADING = "Your task:"
"""The line above the task in the first message of a sub-agent."""
REPORTS_HEADING = "[Your sub-agents in the background have ended.]"
"""The first line of a message that brings reports."""


class SubAgentState(StrEnum):
    """The states of a sub-agent; from `DONE` on it has ended."""

    QUEUED = "queued"
    """It waits for a place: only so many work at the same time."""
    RUNNING = "running"
    WAITING = "waiting"
    """It waits for a person's answer to a question."""
    DONE = "done"
    PARTIAL = "partial"
    """It ended before it was done, and has said something by then."""
    FAILED = "failed"
    STOPPED = "stopped"
    BUDGET = "budget"
    """Its steps, or the money that it may spend, are used up."""

    @property
    def has_ended(self) -> bool:
        """Return whether nothing more comes."""
        return self not in (SubAgentState.QUEUED, SubAgentState.RUNNING, SubAgentState.WAITING)


class SubAgentTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sub-agent is asked to do, and with what. An empty field is inherited from whoever asks."""

    goal: str
    context: str = ""
    """What it has to know; it sees nothing of the conversation of whoever asks."""
    name: str = ""
    """A few words by which people are shown it."""
    toolsets: tuple[str, ...] = ()
    role: Role = "leaf"
    """An orchestrator may have sub-agents of its own."""
    model: str = ""
    is_model_trusted: bool = False
    """Whether the person names the model, in a file or in the settings, so that it need not be set up elsewhere."""
    agent: str = ""
    """The name of the described agent that it is."""
    instructions: str = ""
    """What that agent is told beside what all sub-agents are."""
    tools: tuple[str, ...] | None = None
    """The only tools that it has of its parent's, and `mcp-NAME` for those of a server; None: no such limit."""
    max_tokens: int | None = None
    """Tokens of one of its answers."""
    max_cost: float | None = None
    """Dollars that it may spend, beside every other cap."""
    worktree: bool = False
    """Whether it works in a git worktree of its own."""
    sources: tuple[str, ...] = ()
    """The untrusted sources whose text stood in the conversation in which the task was written."""


class SubAgentReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a sub-agent, beside its answer, which stands in its own transcript."""

    turn_id: str = ""
    """Its turn that ended with the answer."""
    error: str = ""
    """Why it is not done; empty where it is."""
    files: tuple[str, ...] = ()
    """The files that it changed."""
    open_items: tuple[str, ...] = ()
    """What is left: steps of its plan, and programs that ended with it."""
    steps: int = 0
    """The model calls that it made."""
    cost: Cost = Cost()
    """What it and its own sub-agents cost."""
    seconds: float = 0.0
    sources: tuple[str, ...] = ()
    """The untrusted sources whose text stood in its conversation when it ended."""
    branch: str = ""
    """The branch of its worktree where that holds work."""
    folder: str = ""
    """That worktree."""
    work: str = ""
    """What it holds, in words."""


class BackgroundEnd(Struct, frozen=True, kw_only=True):
    """How a background session has ended: one that a person asked to work beside theirs, which is `parent_id`."""

    session_id: str
    parent_id: str
    number: int
    name: str
    state: SubAgentState
    answer: str
    report: SubAgentReport


def brings_reports(message: Message) -> bool:
    """Return whether nobody has said anything in a message that reports of sub-agents stand in."""
    texts = (part.text for part in message.parts if isinstance(part, TextPart))
    return not message.text.strip() and any(text.startswith(REPORTS_HEADING) for text in texts)
