"""The settings of the API server."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from hermes.admin.people.identity import PersonRole
from hermes.core.secret import KeyHolder
from hermes.gateway.platform import PlatformOptions

SHORTEST_KEY = 16
"""Characters of a key at least: shorter ones can be guessed."""


class ApiScope(StrEnum):
    """The operations that a key allows."""

    CHAT = "chat"
    """Chat completions and responses."""
    RUNS = "runs"
    SESSIONS = "sessions"
    """To look at the key's own sessions, to change them and to talk in them."""
    JOBS = "jobs"
    """To see and change jobs on a clock; the role must be owner or admin, too."""
    APPROVE = "approve"
    """To answer questions of the key's own runs; the role must be one that may approve, too."""
    ADMIN = "admin"
    """To see how the gateway is, with its metrics, its skills and tool sets."""


class KeySettings(KeyHolder, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key (`platforms.api_server.keys`)."""

    key: str
    """What a program sends as `Authorization: Bearer KEY`; 16 characters at least."""
    name: str
    """What the key is called: the sessions of its programs are found by it, so a key can be replaced under its name."""
    scopes: tuple[ApiScope, ...] = (ApiScope.CHAT, ApiScope.RUNS, ApiScope.SESSIONS)
    """What it is for: `chat`, `runs`, `sessions`, `jobs`, `approve`, `admin`."""
    role: PersonRole = PersonRole.OWNER
    """What who holds it may do: `owner`, `admin`, `user`, `guest`."""


class ApiOptions(PlatformOptions, KeyHolder, frozen=True, kw_only=True):
    """The API server."""

    key: str = ""
    """A key for everything, of the role `owner`; 16 characters at least."""
    keys: tuple[KeySettings, ...] = ()
    """More keys, each for what it is needed for."""
    host: str = "127.0.0.1"
    """The address to listen on; `0.0.0.0` or `::` is every address of this machine."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8642
    """The port to listen on."""
    allowed_hosts: tuple[str, ...] = ()
    """Names by which this machine is reached from elsewhere, for the Host header; loopback's names are known."""
    cors: tuple[str, ...] = ()
    """Origins of web pages that may use it, each exact, such as `https://chat.example.org`."""
    models: tuple[str, ...] = ()
    """Models that programs may ask for by name, beside the usual one."""
    body_limit: Annotated[int, Meta(ge=1024)] = 10 * 1024 * 1024
    """Bytes of the largest request."""
    connections: Annotated[int, Meta(ge=1)] = 2_048
    """Connections at once at most."""
    turns: Annotated[int, Meta(ge=1)] = 1_024
    """Turns of one key at once at most; more are told to come again later."""
    open_metrics: bool = False
    """Whether `/metrics` is given without a key to programs on this machine; only where `host` is loopback."""
