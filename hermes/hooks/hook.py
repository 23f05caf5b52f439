"""What a hook is given and what it answers, whoever runs it: a program, a folder plug-in, or installed code."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from hermes.core.messages import Provenance
from hermes.hooks.events import HookEvent


class HookCall(Struct, frozen=True, kw_only=True):
    """What a hook is told of a moment. Which fields are set depends on the event."""

    event: HookEvent
    session_id: str = ""
    turn_id: str = ""
    folder: str = ""
    """The working folder of the session, absolute."""
    mode: str = ""
    """The work mode of the session, as `WorkMode` names it, or `yolo`."""
    tool: str = ""
    """The tool of the call, as it is called here."""
    call_id: str = ""
    arguments: Mapping[str, object] = {}
    """The arguments of the call."""
    text: str = ""
    """The text of the moment: a message, a result, an answer, a notice."""
    source: str = ""
    """Which kind of the moment it is: `startup` or `resume` of a session, `manual` or `auto` of a compression."""
    details: Mapping[str, object] = {}
    """What else there is to say, as JSON values."""
    sources: tuple[str, ...] = ()
    """The untrusted sources whose text stands in the conversation."""


class HookDecision(StrEnum):
    """What a hook decides. It never widens what the gate allows."""

    NONE = "none"
    ASK = "ask"
    """A person is asked, though the rules may allow the call."""
    DENY = "deny"


class HookOutcome(Struct, frozen=True, kw_only=True):
    """The answer of a hook."""

    decision: HookDecision = HookDecision.NONE
    reason: str = ""
    """Why, for the model and the person."""
    arguments: Mapping[str, object] | None = None
    """Arguments in the place of the call's; the gate decides about them."""
    context: str = ""
    """A text for the model."""
    text: str | None = None
    """A text in the place of the result or the answer."""
    notice: str = ""
    """A line for the person."""
    ends_turn: bool = False
    """Whether the turn is to end, with `reason`."""
    provenance: Provenance | None = None
    """Where its texts come from; None: from code that the person has enabled and that reaches no others."""


NO_OUTCOME = HookOutcome()


class HookError(Exception):
    """A hook could not answer; the text says why, in a line for the person."""


class HookSource(Protocol):
    """Where hooks come from: each has a name that people know it by."""

    @property
    def name(self) -> str:
        """The name in messages, lists and the log."""
        ...

    def handles(self, call: HookCall) -> bool:
        """Return whether it wants to be told of this moment. Cheap; it starts nothing."""
        ...

    async def run_hook(self, call: HookCall) -> HookOutcome:
        """Run the hook and return its answer. Raises HookError for whatever kept it from answering, its own time
        limit included. Cancelling it ends what it has started.
        """
        ...

    async def close(self) -> None:
        """End what it keeps running."""
        ...
