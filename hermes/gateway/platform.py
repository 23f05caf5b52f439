"""What a chat platform is: a descriptor that says what it can do, and an object that receives and sends.

One file in `platforms/` (or an entry point `hermes.platforms`) is one platform: its settings, a `PLATFORM` descriptor,
and a subclass of `Platform`. The gateway does the rest: it writes down what comes in before it asks for more, connects
again, orders, splits, streams, retries, and keeps what is owed.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.core.chats import Attachment, Batch, Outgoing, Place
from hermes.core.errors import HermesError
from hermes.util.clock import Clock

if TYPE_CHECKING:
    import ssl

    import aiohttp

    from hermes.gateway.request_sessions import Front


class PlatformError(HermesError):
    """A platform could not be used now: it is tried again, later and later."""


class PlatformRefusedError(PlatformError):
    """A platform will not be had as it is set up, a wrong token for one; nothing is tried again until the settings are
    read anew."""


class Fault(StrEnum):
    """Why something could not be sent (D3 of the list of platforms)."""

    RATE_LIMITED = "rate_limited"
    TOO_LONG = "too_long"
    NOT_FOUND = "not_found"
    """The chat, or the message that was to be changed, is gone."""
    TRANSIENT = "transient"
    BAD_FORMAT = "bad_format"
    """The platform does not take the markup, or the file; the text alone may do."""
    FORBIDDEN = "forbidden"
    UNKNOWN = "unknown"


class SendError(PlatformError):
    """A message was not sent, or (`uncertain`) may have been: the connection broke before the platform answered.

    `retry_after` are the seconds that the platform asks to wait.
    """

    def __init__(
        self, fault: Fault, message: str, *, retry_after: float | None = None, uncertain: bool = False
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_after = retry_after
        self.uncertain = uncertain


class Resend(StrEnum):
    """What it means to send the same key a second time."""

    SAFE = "safe"
    """The platform shows it once."""
    CHECK = "check"
    """`Platform.find_sent` can tell whether it is there."""
    BLIND = "blind"
    """Nobody can tell; it is sent again with a mark."""


def utf16(text: str) -> int:
    """A text's length in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8(text: str) -> int:
    """A text's length in bytes of UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


class Options(Struct, frozen=True, kw_only=True):
    """The settings of one account on a platform, beside those that every account has; each platform has its own."""


class Capabilities(Struct, frozen=True, kw_only=True):
    """What a platform can do; what is said here is what the contract suite holds it to."""

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
    """What was said while the gateway was away is fetched when it is back."""
    redelivers: bool = True
    """What was not acknowledged comes again by itself."""
    resend: Resend = Resend.BLIND
    senders: bool = True
    """It is known who wrote something; off where whoever may write is one and the same."""
    dm_only: bool = False
    """There are no groups."""
    batch_seconds: float = 0.8
    """How long to wait for the rest of what a person sends in pieces (row GW-06)."""
    answers: bool = True
    """What is said is answered in the same place; off for platforms that only listen or only send."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """What a platform is given: everything outside it that it may use."""

    name: str
    """The name under which the account is set up: `Place.platform`."""
    http: "aiohttp.ClientSession"
    """With this machine's trusted certificates and proxies, and no time limit of its own: each request says one."""
    clock: Clock
    media: Path
    """A private folder for files that come in."""
    cursors: Mapping[str, str]
    """What `Batch.cursors` said last, from before a restart too."""
    report: Callable[[str], None]
    """Say a line to whoever looks after the gateway."""
    front: "Front | None" = None
    """The gateway itself, for platforms that are asked and answer at once, such as the API server."""
    knows: Callable[[str], Awaitable[bool]] | None = None
    """Whether the platform's id of somebody belongs to a person who may use Hermes; None: nobody can tell."""
    tls: "Callable[[], ssl.SSLContext] | None" = None
    """For platforms that do not speak HTTP: a fresh context with this machine's trusted certificates."""


class Platform(ABC):
    """One account on a platform. `receive` and `send` run side by side; methods raise `PlatformError` or `SendError`.

    A platform keeps no promise by itself: it does not retry, split, order or remember. What it holds open is closed by
    `close`, whatever state it is in.
    """

    @abstractmethod
    def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, and give what comes in; an empty `Batch` says that the connection stands.

        **When the next batch is asked for, the one before is on disk**: only then may it be acknowledged. Ends or
        raises when the connection is lost, and is called again after a pause. Raises `PlatformRefusedError` when it
        makes no sense to try again.
        """

    @abstractmethod
    async def send(self, message: Outgoing) -> str:
        """Send a message; its id. Raises `SendError`."""

    @abstractmethod
    async def close(self) -> None:
        """Close everything; nothing is sent or received afterwards."""

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Put `message` in the place of one that was sent. Raises `SendError`."""
        raise NotImplementedError

    async def draft(self, message: Outgoing) -> None:
        """Show what is being written; the same `key` goes on with it."""
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

    async def find_sent(self, message: Outgoing) -> str | None:
        """The id of the message with this key if it was sent; None when it is known not to be there."""
        raise NotImplementedError


MEDIA_LIMIT = 128 * 1024 * 1024
"""Bytes of the largest file that is taken in (D3)."""


class Descriptor(Struct, frozen=True, kw_only=True):
    """What is known of a platform before it is started. Its module imports no client library at its top."""

    title: str
    """Its name, as people write it."""
    options: type[Options]
    can: Capabilities
    open: Callable[[Options, Surroundings], Awaitable[Platform]]
    """Start one account with its options (of the type above). Raises `PlatformRefusedError`."""
    variables: Mapping[str, str] = {}
    """Options that may stand in the environment or `.env` instead: the variable of each."""
    secrets: tuple[str, ...] = ()
    """Options that are secrets."""
    identity: Callable[[Options], str] | None = None
    """What two gateways must not use at once, made of the options: the token, or host and account."""
    hint: str = ""
    """What the model is told of the platform's form."""
    example: str = ""
    """Options as they would stand in `config.yaml`, for the set-up's help."""
