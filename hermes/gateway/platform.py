"""The platform contract: a descriptor with the platform's capabilities, and an object that receives and sends.

One file in `platforms/` (or an entry point `hermes.platforms`) is one platform: its settings, a `PLATFORM`
descriptor, and a subclass of `Platform`. The gateway does the rest: it stores what comes in before it asks for
more, reconnects, orders, splits, streams, retries, and keeps the outbox.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from hermes.core.chats import Attachment, Batch, Outgoing, Place
from hermes.core.errors import HermesError
from hermes.util.clock import Clock
from hermes.util.renamed import renamed_names

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from hermes.core.messages import Message
    from hermes.runtime.actor import SessionActor
    from hermes.sessions.app import App
    from hermes.sessions.options import SessionOptions

MEDIA_LIMIT = 128 * 1024 * 1024
"""Bytes of the largest file that is received."""


class PlatformError(HermesError):
    """A platform cannot be used now: it is retried after growing pauses."""


class PlatformRefusedError(PlatformError):
    """A platform refuses the account as it is configured, for example for a wrong token; nothing is retried until
    the settings are read again.
    """


class SendFault(StrEnum):
    """The reason why a message could not be sent."""

    RATE_LIMITED = "rate_limited"
    TOO_LONG = "too_long"
    NOT_FOUND = "not_found"
    """The chat, or the message that was to be edited, is gone."""
    TRANSIENT = "transient"
    BAD_FORMAT = "bad_format"
    """The platform rejects the markup, or the file; the text alone may work."""
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"


class SendError(PlatformError):
    """A message could not be sent, or (`uncertain`) may have been: the connection broke before the platform answered.

    `retry_after` is the number of seconds that the platform asks to wait.
    """

    def __init__(
        self, fault: SendFault, message: str, *, retry_after: float | None = None, uncertain: bool = False
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_after = retry_after
        self.uncertain = uncertain


class Resend(StrEnum):
    """What happens when a message with the same key is sent a second time."""

    SAFE = "safe"
    """The platform shows it once."""
    CHECK = "check"
    """`Platform.find_sent` can tell whether it is there."""
    BLIND = "blind"
    """Nobody can tell; it is sent again with a mark."""


def utf16(text: str) -> int:
    """Return a text's length in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8(text: str) -> int:
    """Return a text's length in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class PlatformOptions(Struct, frozen=True, kw_only=True):
    """The settings of one account that its platform adds to the common ones; each platform has its own."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a platform can do; the contract suite tests every promise made here."""

    limit: int
    """The longest text of one message, in units of `measure`."""
    measure: Callable[[str], int] = len
    """The length of a piece of markdown as the platform counts it."""
    edit: bool = False
    """A message can be changed: answers are streamed by edits."""
    edit_seconds: float = 0.8
    """Seconds between two edits at least."""
    draft: bool = False
    """In a direct chat, what is being written can be shown (`Platform.draft`) without being sent."""
    typing: float = 0.0
    """Seconds after which "is typing" must be said again; 0: it cannot be said."""
    reactions: bool = False
    threads: bool = False
    media: bool = False
    """Files can be sent and received."""
    media_limit: int = 20_000_000
    """Bytes of the largest file that can be sent."""
    buttons: bool = False
    history: bool = False
    """Messages from while the gateway was away are fetched when it is back."""
    redelivers: bool = True
    """The platform delivers unacknowledged messages again."""
    resend: Resend = Resend.BLIND
    senders: bool = True
    """The sender of a message is known; off where whoever may write is one and the same."""
    dm_only: bool = False
    """There are no groups."""
    batch_seconds: float = 0.8
    """Seconds to wait for the rest of what a person sends in pieces."""
    captions: bool = False
    """A file and a text of any length are one message."""
    menu: bool = False
    """A menu of commands can be set (`Platform.set_menu`)."""
    answers: bool = True
    """Messages are answered in the same place; off for platforms that only listen or only send."""


class MenuEntry(Struct, frozen=True):
    """A command in a platform's menu."""

    name: str
    about: str


class PlatformMenu(Struct, frozen=True, kw_only=True):
    """The menus of commands for a platform to show, most used first, 100 entries at most."""

    everybody: tuple[MenuEntry, ...]
    """What people may use that are nowhere else named."""
    everything: tuple[MenuEntry, ...]
    """All that there is, for platforms that show everybody the same."""
    people: Mapping[str, tuple[MenuEntry, ...]] = {}
    """What single people may use, by the platform's own ids of them."""


class PlatformContext(Struct, frozen=True, kw_only=True):
    """Everything outside a platform that it may use."""

    name: str
    """The name under which the account is configured: `Place.platform`."""
    http: "aiohttp.ClientSession"
    """With this machine's trusted certificates and proxies, and no time limit of its own: each request says one."""
    clock: Clock
    media: Path
    """A private folder for files that come in."""
    cursors: Mapping[str, str]
    """The newest values of `Batch.cursors`, from before a restart too."""
    report: Callable[[str], None]
    """Report a line to the operator."""
    gateway: "GatewayFacade | None" = None
    """The gateway itself, for platforms that answer requests at once, such as the API server."""
    is_known_sender: Callable[[str], Awaitable[bool]] | None = None
    """Whether the platform's id of somebody belongs to a person who may use Hermes; None: nobody can tell."""
    tls: "Callable[[], ssl.SSLContext] | None" = None
    """For platforms that do not speak HTTP: a fresh context with this machine's trusted certificates."""


class Platform(ABC):
    """One account on a platform. `receive` and `send` run side by side; methods raise `PlatformError` or `SendError`.

    A platform does not retry, split, order or remember. What it holds open is closed by `close`, whatever state it is
    in.
    """

    own_name: str = ""
    """The name or address under which people find this account, once it is connected; empty where there is none."""

    @abstractmethod
    def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, and yield what comes in; an empty `Batch` says that the connection is up.

        **When the next batch is asked for, the one before is on disk**: only then may it be acknowledged. Ends or
        raises when the connection is lost, and is called again after a pause. Raises `PlatformRefusedError` when it
        makes no sense to try again.
        """

    @abstractmethod
    async def send(self, message: Outgoing) -> str:
        """Send a message and return its id. Raises `SendError`."""

    @abstractmethod
    async def close(self) -> None:
        """Close everything; nothing is sent or received afterwards."""

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a message that was sent by `message`. Raises `SendError`."""
        raise NotImplementedError

    async def draft(self, message: Outgoing) -> None:
        """Show an unfinished message; the same `key` continues it."""
        raise NotImplementedError

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written."""
        raise NotImplementedError

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; empty takes the reaction back."""
        raise NotImplementedError

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Save a file that came in to `target`, at most `MEDIA_LIMIT` bytes of it."""
        raise NotImplementedError

    async def set_menu(self, menu: PlatformMenu) -> None:
        """Replace the menu of commands."""
        raise NotImplementedError

    async def find_sent(self, message: Outgoing) -> str | None:
        """Return the id of the message with this key if it was sent; None when it is known not to be there."""
        raise NotImplementedError


class Descriptor(Struct, frozen=True, kw_only=True):
    """The static description of a platform. Its module imports no client library at its top."""

    title: str
    """Its name, as people write it."""
    options: type[PlatformOptions]
    can: Capabilities
    open: Callable[[PlatformOptions, PlatformContext], Awaitable[Platform]]
    """Start one account with its options (of the type above). Raises `PlatformRefusedError`."""
    variables: Mapping[str, str] = {}
    """Options that may stand in the environment or `.env` instead: the variable of each."""
    secrets: tuple[str, ...] = ()
    """Options that are secrets."""
    needs_option: str = ""
    """The secret without which no account can be started."""
    identity: Callable[[PlatformOptions], str] | None = None
    """Return what two gateways must not use at once, made of the options: the token, or host and account."""
    hint: str = ""
    """What the model is told of the platform's format."""
    example: str = ""
    """Options as they would stand in `config.yaml`, for the set-up's help."""
    asked: tuple[str, ...] = ()
    """Options that the set-up asks for; where there are none it only prints the steps."""
    preparation: str = ""
    """What is done on the platform first, in a sentence for the set-up."""


class SessionRequest(Struct, frozen=True, kw_only=True):
    """A request to open a session."""

    session_id: str
    options: "SessionOptions"
    create: bool = True
    """Whether the session is created where it does not exist."""
    system: str | None = None
    history: "tuple[Message, ...]" = ()
    """Messages that stand before its first one, for a session that has none."""


class GatewayFacade(Protocol):
    """The interface of the gateway for platforms."""

    @property
    def app(self) -> "App":
        """The process's App."""
        ...

    def hold_session(self, request: SessionRequest) -> "AbstractAsyncContextManager[SessionActor]":
        """Open a session and keep it live while the context lasts; it stays in memory for a while afterwards. Raises
        what `App.open_session` raises.
        """
        ...

    async def drop_session(self, session_id: str) -> None:
        """Remove a session from memory, even while it works; its unfinished work goes on when it is opened next."""
        ...

    async def deliver_text(self, target: str, text: str, *, key: str) -> None:
        """Put a text for a delivery target (`PLATFORM:CHAT[:THREAD]`, `all`) into the outbox; the same key again adds
        nothing. Raises NotFoundError where the target reaches nobody.
        """
        ...

    async def deliver_to_place(self, place: Place, text: str, *, key: str) -> None:
        """Put a text for a place of an account into the outbox; the same key again adds nothing."""
        ...

    async def measure_backlog(self) -> None:
        """Refresh the store's part of what is reported."""
        ...

    def health_report(self) -> Mapping[str, object]:
        """Return the state of the accounts, the sessions and the outbox, as of the last measurement."""
        ...

    def metrics_text(self) -> str:
        """Return the same and more, in the text format of Prometheus."""
        ...


__getattr__ = renamed_names(__name__)
