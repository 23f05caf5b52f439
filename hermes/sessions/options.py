"""What a front-end may choose for a run."""

from hermes.config.settings import ModelReference
from hermes.core.messages import Message
from hermes.core.secret import KeyHolder


class Options(KeyHolder, frozen=True, kw_only=True):
    """What a front-end chooses; what it leaves empty comes from the settings."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    credential_pool: tuple[str, ...] = ()
    api_mode: str = ""
    context_length: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""
    max_turns: int | None = None
    max_cost: float | None = None
    """Dollars that this run may spend; takes the place of `spending.run.usd`."""
    max_total_tokens: int | None = None
    tool_delay: float | None = None
    enabled_toolsets: tuple[str, ...] | None = None
    disabled_toolsets: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    platform: str = "cli"
    fallback_models: tuple[ModelReference, ...] = ()
    """Stand-ins that come before the configured ones."""
    save_trajectories: bool = False
    ephemeral_system_prompt: str = ""
    """More of a system prompt, sent and never stored."""
    prefill_messages: tuple[Message, ...] = ()
    """Messages that come first in every request and are never stored."""
    reviews: bool = False
    """Whether the agent looks back at its work now and then, as in a chat that goes on."""
    share_home: bool = False
    cwd: str = ""
    toolset_limit: tuple[str, ...] | None = None
    """No tool that is in none of these sets, whatever else is switched on; None: no limit."""
    person: str = ""
    """Whom a session works for: the id of somebody who talks from a chat; empty: the owner."""
    remembers: bool = True
    """Whether it has memory: notes, earlier sessions."""
    confined: bool = False
    """Whether its tools see nothing of this machine but its own folder and the system's programs."""
    usd_per_day: float | None = None
    """Dollars a day that all sessions of this person may spend."""
    origin: str = ""
    """The chat that a session is held in, as a target of deliveries (`PLATFORM:CHAT[:THREAD]`)."""
