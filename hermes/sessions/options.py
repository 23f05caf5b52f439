"""Per-session options that a front-end may choose."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes.config.settings import McpServerSettings, ModelReference
from hermes.core.messages import Message
from hermes.core.secret import KeyHolder
from hermes.core.work_mode import WorkMode

if TYPE_CHECKING:
    from hermes.sessions.editors.open_buffers import EditorFiles
    from hermes.tools.tool import Tool


class SessionOptions(KeyHolder, frozen=True, kw_only=True):
    """Options that a front-end chooses for a session; an empty one is taken from the settings."""

    model: str = ""
    provider: str = ""
    base_url: str = ""
    api_key: str = ""
    credential_pool: tuple[str, ...] = ()
    key_organisations: tuple[str, ...] = ()
    """The organisations of the keys in `credential_pool`, in the same order; empty ones are unknown."""
    api_mode: str = ""
    context_length: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str = ""
    reasoning_tokens: int | None = None
    """The tokens that reasoning may take, for providers that take a number; for others the effort that is nearest."""
    request_members: bytes = b""
    """What is added to every request to the chosen model, as the inside of a JSON object."""
    max_turns: int | None = None
    max_cost: float | None = None
    """Dollars that this run may spend; overrides `spending.run.usd`."""
    max_total_tokens: int | None = None
    tool_delay: float | None = None
    enabled_toolsets: tuple[str, ...] | None = None
    disabled_toolsets: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    mode: WorkMode = WorkMode.ASK
    """The mode in which sessions begin."""
    platform: str = "cli"
    surroundings: str = ""
    """What the model is told of the place in which it talks; empty: what is told of the platform."""
    fallback_models: tuple[ModelReference, ...] = ()
    """Fallback models that come before the configured ones."""
    save_trajectories: bool = False
    ephemeral_system_prompt: str = ""
    """A part of the system prompt that is sent and never stored."""
    prefill_messages: tuple[Message, ...] = ()
    """Messages that come first in every request and are never stored."""
    unattended: bool = False
    """Whether nobody waits for the answer, so that failing model calls may be tried again for longer."""
    reviews: bool = False
    """Whether background reviews are made, as in a chat that goes on."""
    share_home: bool = False
    cwd: str = ""
    toolset_limit: tuple[str, ...] | None = None
    """The only tool sets whose tools may be used, whatever else is enabled; None means no limit."""
    tool_names: tuple[str, ...] | None = None
    """The only tools, by name, of those that its sets hold, and `mcp-NAME` for those of a server; None: all of them."""
    role: str = ""
    """The role of that person; empty for the owner."""
    person: str = ""
    """The id of the person whom a session works for, for people who talk from a chat; empty for the owner."""
    remembers: bool = True
    """Whether the session has memory: notes and earlier sessions."""
    confined: bool = False
    """Whether its tools see nothing of this machine but its own folder and the system's programs."""
    usd_per_day: float | None = None
    """Dollars per day that all sessions of this person may spend together."""
    ignore_config: bool = False
    """Whether the defaults hold in place of `config.yaml`."""
    skip_context_files: bool = False
    """Whether the files by which a project instructs an agent stay unread."""
    skip_identity: bool = False
    """Whether the home's `SOUL.md` stays unread."""
    trusted_folders: tuple[str, ...] = ()
    """Folders, absolute and resolved, whose files count as the person's own beside those of `hermes trust`."""
    extra_tools: "tuple[Tool, ...]" = ()
    """Tools of the program that uses the library."""
    editor_files: "EditorFiles | None" = None
    """The files of the editor that shows the session; None where there is none, or it offers none."""
    handed_servers: Mapping[str, McpServerSettings] = {}
    """MCP servers that an editor hands in with the session, by name: a person is asked before they are started."""
    keeps_unused: bool = False
    """Whether a session in which nothing is said stays stored when it is closed: somebody keeps its id."""
    root_id: str = ""
    """Of a sub-agent: the session at the top of its tree, for whose cap its spending counts; else empty."""
    max_session_cost: float | None = None
    """Dollars that this one session may spend."""
    depth: int = 0
    """How many levels of sub-agents are above: 1 for a sub-agent of a session that a person talks with."""
    goes_on: bool = False
    """Whether the session stays open after its answer, so that sub-agents may go on in the background."""
    origin: str = ""
    """The chat of a session, as a delivery target (`PLATFORM:CHAT[:THREAD]`)."""
