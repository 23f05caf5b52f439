"""The arguments that programs give to agents of this kind and that `AIAgent` has no use for.

Each is taken by name. Where its value asks for nothing it changes nothing; else `AIAgent` raises UsageError with one
sentence that says what to use, so that no program believes in something that does not happen. `docs/library.md` has
the table of all arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_

_OF_GATEWAY = N_("Chats belong to the gateway; give each user or chat a session_id of its own.")
_OTHER_PROGRAM = N_("Hermes drives no other agent's program; name a provider and a model.")
_CHECKPOINTS = N_("Set `checkpoints.*` in config.yaml; copies of files are on by default.")
_EVENTS = N_("Use tool_progress_callback, status_callback and notice_callback.")
INSTEAD: Mapping[str, str] = {
    "log_prefix": N_("Add a filter to the logger `hermes`."),
    "verbose_logging": N_("Set the level of the logger `hermes` to DEBUG."),
    "session_db": N_("Hermes keeps sessions itself; HERMES_HOME names where, session_id which."),
    "parent_session_id": N_("Give conversation_history: one that differs begins a branch."),
    "pass_session_id": N_("Put the id into ephemeral_system_prompt."),
    "iteration_budget": N_("Use max_iterations."),
    "openrouter_min_coding_score": N_("Give it in request_overrides."),
    "requested_provider": N_("Use provider."),
    **dict.fromkeys(("user_id", "user_id_alt", "user_name", "chat_id", "chat_name", "chat_type"), _OF_GATEWAY),
    **dict.fromkeys(("thread_id", "gateway_session_key"), _OF_GATEWAY),
    **dict.fromkeys(("acp_command", "acp_args", "command", "args"), _OTHER_PROGRAM),
    **dict.fromkeys(("checkpoints_enabled", "checkpoint_max_snapshots"), _CHECKPOINTS),
    **dict.fromkeys(("checkpoint_max_total_size_mb", "checkpoint_max_file_size_mb"), _CHECKPOINTS),
    **dict.fromkeys(("event_callback", "reaction_callback", "notice_clear_callback"), _EVENTS),
    **dict.fromkeys(("read_terminal_callback", "read_preview_callback"), _EVENTS),
}
"""The sentence that says what to use instead, by the argument's name."""


@dataclass(kw_only=True)
class UsualArguments:
    """Arguments that are taken without effect, and those that are refused by name (`INSTEAD`)."""

    quiet_mode: object = None
    """No effect: the library prints nothing."""
    log_prefix_chars: object = None
    """No effect: no texts are logged."""
    persist_session: bool = True
    """False is refused: every session is kept."""
    log_prefix: object = None
    verbose_logging: object = None
    session_db: object = None
    parent_session_id: object = None
    pass_session_id: object = None
    iteration_budget: object = None
    user_id: object = None
    user_id_alt: object = None
    user_name: object = None
    chat_id: object = None
    chat_name: object = None
    chat_type: object = None
    thread_id: object = None
    gateway_session_key: object = None
    acp_command: object = None
    acp_args: object = None
    command: object = None
    args: object = None
    checkpoints_enabled: object = None
    checkpoint_max_snapshots: object = None
    checkpoint_max_total_size_mb: object = None
    checkpoint_max_file_size_mb: object = None
    openrouter_min_coding_score: object = None
    requested_provider: object = None
    event_callback: object = None
    reaction_callback: object = None
    notice_clear_callback: object = None
    read_terminal_callback: object = None
    read_preview_callback: object = None

    def check_usual_arguments(self) -> None:
        """Raise UsageError for the first argument that asks for what this agent does not do."""
        for name, instead in INSTEAD.items():
            if asks_for_something(getattr(self, name)):
                raise UsageError(N_("AIAgent takes no {name}.", name=name), instead)
        if not self.persist_session:
            raise UsageError("AIAgent keeps every session.", "`hermes sessions delete` removes one.")


def asks_for_something(value: object) -> bool:
    """Return whether a value of an unused argument means that something is to be done: not None, False, or empty."""
    if value is None or value is False:
        return False
    return not (isinstance(value, str | Mapping | Sequence) and not value)
