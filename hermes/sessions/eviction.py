"""What would be missed of a live session if it left the memory now, and how much it takes there."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.sessions.session_builder import Live

_MEMORY_PER_BYTE = 2
"""Bytes of memory for one of the encoded conversation: the buffer with room to grow, and the packed messages."""


def is_wanted(live: "Live") -> bool:
    """Whether the person would miss something that only a live session has: what they allowed or chose for it, and
    programs that run in the background."""
    leave, manner = live.tools.gate.leave, live.manner
    allowed = bool(leave.grants or leave.refused or leave.yolo)
    chosen = manner.effort is not None or manner.personality is not None or manner.enabled is not None
    return allowed or chosen or bool(live.tools.state.processes.running())


def is_at_rest(live: "Live", cwd: str) -> bool:
    """Whether nothing of it would be missed at all: also no folder, variable or plan that its tools have now."""
    state = live.tools.state
    elsewhere = str(state.cwd) != cwd or bool(state.environment or state.unset or state.todos or state.openings)
    return not elsewhere and not is_wanted(live)


def weight(live: "Live") -> int:
    """About how many bytes of memory its conversation takes."""
    return live.actor.conversation.lineage.message_bytes * _MEMORY_PER_BYTE
