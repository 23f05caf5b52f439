"""Decide whether a live session may be evicted, and estimate the memory that it takes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.sessions.session_builder import LiveSession

_MEMORY_PER_BYTE = 2
"""Bytes of memory per byte of the encoded conversation: the buffer with room to grow, and the packed messages."""


def has_live_state(live_session: "LiveSession") -> bool:
    """Return whether the session holds something that only a live session has.

    That is what the user allowed or chose for it, and programs that run in the background.
    """
    leave, overrides = live_session.tools.gate.session_grants, live_session.overrides
    allowed = bool(leave.grants or leave.refused_subjects or leave.yolo)
    chosen = overrides.effort is not None or overrides.personality is not None or overrides.enabled is not None
    return allowed or chosen or bool(live_session.tools.state.processes.list_running())


def is_evictable(live_session: "LiveSession", cwd: str) -> bool:
    """Return whether nothing would be lost: also no folder, variable or todo list of its tools."""
    state = live_session.tools.state
    elsewhere = str(state.cwd) != cwd or bool(state.environment or state.unset or state.todos or state.one_time_writes)
    return not elsewhere and not has_live_state(live_session)


def memory_bytes(live_session: "LiveSession") -> int:
    """Estimate the bytes of memory that its conversation takes."""
    return live_session.actor.conversation.lineage.message_bytes * _MEMORY_PER_BYTE
