"""How the gateway runs (`gateway:`), and what every account on a platform has in common (`platforms:`)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from hermes.config.display import BusyMode

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Hour = Annotated[int, Meta(ge=0, le=23)]


class ResetMode(StrEnum):
    """When a chat begins with a fresh session by itself."""

    NONE = "none"
    """Never; `/new` does."""
    DAILY = "daily"
    """At the first message after `at_hour`."""
    IDLE = "idle"
    """At the first message after `idle_minutes` without one."""
    BOTH = "both"


class ResetSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """When a chat starts a new session by itself (`session_reset:`)."""

    mode: ResetMode = ResetMode.NONE
    """`none`, `daily`, `idle` or `both`."""
    at_hour: Hour = 4
    """The hour of the day, in this machine's time zone."""
    idle_minutes: Annotated[int, Meta(ge=1)] = 1440
    """Minutes without a message."""


class Streaming(StrEnum):
    """How an answer is shown while it is written."""

    AUTO = "auto"
    """By edits where the platform can, else when it is done."""
    OFF = "off"
    """When it is done."""


class ChannelSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What holds in one chat (`platforms.NAME.channels.ID`)."""

    prompt: str = ""
    """More of a system prompt for this chat."""
    model: str = ""
    """The model that answers here."""
    toolsets: tuple[str, ...] = ()
    """The tool sets that are on here."""
    require_mention: bool | None = None
    """Whether the agent must be addressed here; empty: as in the rest of the account."""
    ignore: bool = False
    """Whether what is said here is not for the agent at all."""


class AccountSettings(Struct, frozen=True, kw_only=True):
    """What every account has, beside what its platform needs (`platforms.NAME:`)."""

    platform: str = ""
    """Which platform it is; empty: the one of that name. So there can be several accounts on one."""
    enabled: bool = True
    """Whether it is used."""
    owners: tuple[str, ...] = ()
    """Ids of people who own this Hermes: they may do everything."""
    admins: tuple[str, ...] = ()
    """Ids of people who may look after it."""
    allow: tuple[str, ...] = ()
    """Ids of people who may use it. Who is nowhere listed, and was not paired, gets no answer."""
    guests: tuple[str, ...] = ()
    """Ids of people who may talk with it and nothing else: no files, no commands, no memory."""
    groups: tuple[str, ...] = ()
    """Ids of groups in which it listens; empty: in none. `*` means in every group that it is added to, where still only
    people who may use it are answered."""
    require_mention: bool = True
    """Whether it must be addressed in groups: by name, or by an answer to a message of its own."""
    mention_patterns: tuple[str, ...] = ()
    """Words by which it is addressed, too."""
    observe: bool = False
    """Whether what people say in groups without addressing it is kept, and told to it when it is addressed."""
    pairing: bool = False
    """Whether unknown people who write are shown a code, by which who looks after Hermes can let them in."""
    allow_bots: bool = False
    """Whether other programs' accounts can be people who may use it."""
    shared: bool = False
    """Whether all people of a group share one session; else each has their own there. Threads are shared always."""
    home: str = ""
    """The chat to which jobs and notices go that have no other place."""
    batch_seconds: Seconds | None = None
    """How long to wait for the rest of what is sent in pieces; empty: as suits the platform."""
    busy: BusyMode | None = None
    """What a message does while a turn runs: `steer`, `queue`, `interrupt`; empty: as `display.busy_input_mode`."""
    streaming: Streaming = Streaming.AUTO
    """How an answer is shown while it is written: `auto` or `off`."""
    progress: bool = True
    """Whether it is shown which tools are at work."""
    reactions: bool = False
    """Whether a message that is worked on is marked with a reaction."""
    session_reset: ResetSettings | None = None
    """When chats start a new session; empty: as `gateway.session_reset`."""
    prompt: str = ""
    """More of a system prompt for all chats of this account."""
    model: str = ""
    """The model that answers here; empty: the usual one."""
    toolsets: tuple[str, ...] = ()
    """The tool sets that are on here; empty: those of the person's role."""
    cwd: str = ""
    """The folder in which its sessions work; empty: `gateway.cwd`."""
    channels: Mapping[str, ChannelSettings] = {}
    """What is different in single chats, by their ids."""


class RoleSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What people of a role may do (`gateway.roles.ROLE`)."""

    toolsets: tuple[str, ...] | None = None
    """The tool sets that they may use; empty: all that are on."""
    memory: bool | None = None
    """Whether the agent remembers things of them, each person's apart."""
    approve: bool | None = None
    """Whether they may answer questions about what their own session wants to do."""
    turns_per_hour: Count | None = None
    """Turns in an hour; 0 or empty: no limit."""
    usd_per_day: float | None = None
    """Dollars a day for each person; empty: no limit but those of `spending`."""


class GatewaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the gateway runs (`gateway:`)."""

    cwd: str = ""
    """The folder in which sessions of chats work; empty: `workspace` in the home."""
    session_reset: ResetSettings = ResetSettings()
    """When chats start a new session by themselves."""
    roles: Mapping[str, RoleSettings] = {}
    """What people may do, by role: `admin`, `user`, `guest`. An owner may do everything."""
    idle_minutes: Annotated[float, Meta(gt=0)] = 15.0
    """Minutes after which a session that nobody uses leaves the memory; its next message brings it back."""
    max_live: Annotated[int, Meta(ge=1)] = 2_000
    """Sessions in memory at most; more messages wait."""
    turn_timeout: Annotated[float, Meta(gt=0)] = 1800.0
    """Seconds without a sign of life after which a turn is stopped."""
    drain_seconds: Seconds = 60.0
    """Seconds that running turns have to end when the gateway is stopped; what is not done then goes on at the next
    start."""
    metrics: str = ""
    """`HOST:PORT` where health and Prometheus metrics are served, on loopback unless there is a token; empty: nowhere
    (the API server has both)."""
    metrics_token: str = ""
    """What who asks for metrics must send as `Authorization: Bearer`, 16 characters at least; `${NAME}` is filled in
    from the environment or `.env`."""
