"""What comes in from chat platforms, and what is owed to them."""

from enum import StrEnum

from msgspec import Struct


class ChatKind(StrEnum):
    """Who can read what is said somewhere."""

    DM = "dm"
    """One person and the agent."""
    GROUP = "group"
    """Several people who all may speak."""
    CHANNEL = "channel"
    """A place where few speak to many."""


class Place(Struct, frozen=True, omit_defaults=True):
    """Where something is said. `platform` is the name under which the account is set up; `chat` and `thread` are the
    platform's own ids."""

    platform: str
    chat: str
    thread: str = ""
    kind: ChatKind = ChatKind.DM
    name: str = ""
    """What people call the chat; for showing only."""

    @property
    def lane(self) -> str:
        """What keeps its order: everything that is said in one chat or thread."""
        return f"{self.platform}:{self.chat}:{self.thread}"


class Sender(Struct, frozen=True, omit_defaults=True):
    """Who said something: the platform's own id of the account, which nobody can choose, and a name, which anybody
    can."""

    id: str
    name: str = ""
    bot: bool = False


class MediaKind(StrEnum):
    """What an attachment is to a person."""

    IMAGE = "image"
    VOICE = "voice"
    """Somebody speaks."""
    AUDIO = "audio"
    VIDEO = "video"
    DOCUMENT = "document"


class Attachment(Struct, frozen=True, omit_defaults=True):
    """A file that came with a message. It is fetched by `ref` once its message is on disk, or lies at `path` already;
    `problem` says why it cannot be had."""

    kind: MediaKind
    name: str = ""
    media_type: str = ""
    size: int | None = None
    """Bytes, where the platform says so."""
    ref: str = ""
    path: str = ""
    problem: str = ""


class Reply(Struct, frozen=True, omit_defaults=True):
    """The message that another one is an answer to."""

    message_id: str
    text: str = ""
    author: str = ""
    own: bool = False
    """Whether the agent wrote it."""


class InboundEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event that happened on a platform: a message, or (`press`) a pressed button."""

    event_id: str
    """The platform's id of it in this account: what is delivered twice carries the same."""
    place: Place
    sender: Sender
    text: str = ""
    message_id: str = ""
    """By which it can be answered and reacted to; of a press the message that holds the button."""
    attachments: tuple[Attachment, ...] = ()
    reply: Reply | None = None
    mentioned: bool = False
    """Whether the agent was addressed by name."""
    forwarded: bool = False
    """Whether the words are somebody else's, handed on."""
    press: str = ""
    """The token of the button."""
    album: str = ""
    """What messages share that were sent as one."""
    verified: bool = True
    """Whether the platform vouches for the sender; a mail without valid signatures is not."""
    at: float = 0.0
    """When it was said, in seconds since the epoch, by the platform's clock; 0: unknown."""


class Batch(Struct, frozen=True):
    """Arrivals that are written down together, and the cursors that are true once they are."""

    arrivals: tuple[InboundEvent, ...] = ()
    cursors: tuple[tuple[str, str], ...] = ()
    """Names and values of the platform's own: from where it goes on after a restart."""


class Button(Struct, frozen=True):
    """A button below a message. `token` comes back when it is pressed: at most 64 bytes of ASCII."""

    label: str
    token: str
    danger: bool = False


class Outgoing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to a platform: a text, or one file with a text."""

    place: Place
    text: str = ""
    """In markdown, short enough for one message; each platform writes it in its own dialect."""
    key: str = ""
    """The same for every attempt to send it; where a platform can, it is not shown twice."""
    since: float = 0.0
    """When it was first tried to send it, in seconds since the epoch: it can be on the platform since then; 0: unknown.
    """
    reply_to: str = ""
    """The message that it answers."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons."""
    file: str = ""
    """The path of a file to send."""
    kind: MediaKind = MediaKind.DOCUMENT
    """How the file is shown."""
    plain: bool = False
    """Send the text without any markup: the platform did not take it with."""
    silent: bool = False
    """Nobody's device need ring."""


class DeliveryState(StrEnum):
    """What has become of something that is owed."""

    OPEN = "open"
    """It is still being written; what there is of it is shown already."""
    PENDING = "pending"
    ATTEMPTING = "attempting"
    DELIVERED = "delivered"
    UNCERTAIN = "uncertain"
    """The platform cannot tell whether it arrived: it was sent again with a mark, or is known to be in doubt."""
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        """Whether nothing more will be done about it."""
        return self in (DeliveryState.DELIVERED, DeliveryState.UNCERTAIN, DeliveryState.FAILED)


class StoredArrival(Struct, frozen=True):
    """Something that came in, with its number in the journal."""

    id: int
    arrival: InboundEvent
    letter_id: str = ""
    turn_id: str = ""


class Delivery(Struct, frozen=True, kw_only=True):
    """Something that is owed. `message_id` is what is shown of it already; times in seconds since the epoch."""

    id: int
    key: str
    lane: str
    message: Outgoing
    state: DeliveryState
    first: Outgoing | None = None
    """What was shown first of it, where it was shown while it was written."""
    message_id: str = ""
    attempts: int = 0
    next_at: float = 0.0
    made_at: float = 0.0
    turn_id: str = ""


class OutboxItem(Struct, frozen=True, kw_only=True):
    """A message that is to be put into the outbox. With `state` open it is still being written."""

    key: str
    message: Outgoing
    session_id: str = ""
    turn_id: str = ""
    state: DeliveryState = DeliveryState.PENDING


class Binding(Struct, frozen=True, kw_only=True):
    """Which session a conversation is, whose it is, and when something was said in it last."""

    key: str
    session_id: str
    place: Place
    person: str
    last_at: float = 0.0


class Posting(Struct, frozen=True, kw_only=True):
    """Arrivals that are said to a session together."""

    arrivals: tuple[int, ...]
    letter_id: str
    body: bytes
    first: bool = False
    """Before all that waits there."""


class Unanswered(Struct, frozen=True, kw_only=True):
    """Arrivals that became part of a session's work, whose answer nobody owes yet."""

    session_id: str
    turn_id: str
    """Empty: they wait in the session's inbox."""
    over: bool
    """Whether the turn has ended."""
    reason: str = ""
    error: str = ""
    arrivals: tuple[InboundEvent, ...] = ()


class KnownPerson(Struct, frozen=True, kw_only=True):
    """Somebody who was paired or added."""

    id: str
    name: str
    role: str
    since: float = 0.0


class Handle(Struct, frozen=True, kw_only=True):
    """Somebody's account on a platform; `account` is the platform's own id of it."""

    platform: str
    account: str
    person: str
    name: str = ""
    since: float = 0.0


class WaitingCode(Struct, frozen=True, kw_only=True):
    """A pairing code that nobody has sent yet. `id` is made from its hash; the code itself is not kept."""

    id: str
    platform: str
    role: str
    person: str
    name: str
    expires_at: float


class AuditEntry(Struct, frozen=True, kw_only=True):
    """An entry of the audit trail: something that somebody did from outside."""

    platform: str
    account: str
    person: str
    what: str
    detail: str = ""
    at: float = 0.0
