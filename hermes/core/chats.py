"""Values of the gateway: inbound events of chat platforms, outgoing messages, the outbox and people."""

from enum import StrEnum

from msgspec import Struct

from hermes.util.renamed import renamed_names


class ChatKind(StrEnum):
    """The kind of a chat: it says who can read what is said there."""

    DM = "dm"
    """One person and the agent."""
    GROUP = "group"
    """Several people, all of whom may speak."""
    CHANNEL = "channel"
    """A place where few speak to many."""


class Place(Struct, frozen=True, omit_defaults=True):
    """The chat or thread in which something is said.

    `platform` is the name under which the account is set up; `chat` and `thread` are the platform's own ids.
    """

    platform: str
    chat: str
    thread: str = ""
    kind: ChatKind = ChatKind.DM
    name: str = ""
    """The chat's name for people; it is only shown."""

    @property
    def lane(self) -> str:
        """Return the key of the queue that keeps the order of everything said in this chat or thread."""
        return f"{self.platform}:{self.chat}:{self.thread}"

    @property
    def session_key(self) -> str:
        """Return the key of the chat session of a direct chat; that of a group's begins so."""
        return ":".join(filter(None, ("agent:main", self.platform, str(self.kind), self.chat, self.thread)))


class Sender(Struct, frozen=True, omit_defaults=True):
    """The account that said something: the platform's own id of it, which nobody can choose, and a name, which anybody
    can.
    """

    id: str
    name: str = ""
    bot: bool = False


class MediaKind(StrEnum):
    """The kind of an attachment, as a person sees it."""

    IMAGE = "image"
    VOICE = "voice"
    """A voice message."""
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
    """The message that another one answers."""

    message_id: str
    text: str = ""
    author: str = ""
    own: bool = False
    """True if the agent wrote it."""


class InboundEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event that happened on a platform: a message, or (`press`) a pressed button."""

    event_id: str
    """The platform's id of the event in this account; it is the same when the event is delivered twice."""
    place: Place
    sender: Sender
    text: str = ""
    message_id: str = ""
    """The id by which it can be answered and reacted to; for a press, of the message that holds the button."""
    attachments: tuple[Attachment, ...] = ()
    reply: Reply | None = None
    mentioned: bool = False
    """True if the agent was addressed by name."""
    forwarded: bool = False
    """True if the text was forwarded and is somebody else's."""
    press: str = ""
    """The token of the button."""
    album: str = ""
    """The id that messages share that were sent as one album."""
    verified: bool = True
    """True if the platform has verified the sender; a mail without valid signatures is not verified."""
    at: float = 0.0
    """The time at which it was said by the platform's clock, in seconds since the epoch; 0 if unknown."""


class Batch(Struct, frozen=True):
    """Inbound events that are stored together, with the cursors that hold once they are stored."""

    arrivals: tuple[InboundEvent, ...] = ()
    cursors: tuple[tuple[str, str], ...] = ()
    """Names and values of the platform's own cursors: where it continues after a restart."""


class Button(Struct, frozen=True):
    """A button below a message. `token` comes back when it is pressed: at most 64 bytes of ASCII."""

    label: str
    token: str
    danger: bool = False


class Outgoing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message to a platform: a text, or one file with a text."""

    place: Place
    text: str = ""
    """The text in Markdown, short enough for one message; each platform renders it in its own format."""
    key: str = ""
    """The idempotency key, the same for every attempt to send it; where a platform can, it is not shown twice."""
    since: float = 0.0
    """The time of the first attempt to send it, in seconds since the epoch: it can be on the platform since
    then; 0 if unknown.
    """
    reply_to: str = ""
    """The message that it answers."""
    buttons: tuple[tuple[Button, ...], ...] = ()
    """Rows of buttons."""
    file: str = ""
    """The path of a file to send."""
    kind: MediaKind = MediaKind.DOCUMENT
    """The kind as which the file is shown."""
    plain: bool = False
    """Send the text without any markup, because the platform did not accept it with markup."""
    silent: bool = False
    """Send it without a notification sound."""


class DeliveryState(StrEnum):
    """The delivery state of an outbox message."""

    OPEN = "open"
    """It is still being written; what exists of it is shown already."""
    PENDING = "pending"
    ATTEMPTING = "attempting"
    DELIVERED = "delivered"
    UNCERTAIN = "uncertain"
    """The platform cannot tell whether it arrived: it was sent again with a mark, or is known to be in doubt."""
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Return whether nothing more will be done about it."""
        return self in (DeliveryState.DELIVERED, DeliveryState.UNCERTAIN, DeliveryState.FAILED)


class StoredInboundEvent(Struct, frozen=True):
    """An inbound event with its number in the journal."""

    id: int
    arrival: InboundEvent
    letter_id: str = ""
    turn_id: str = ""


class Delivery(Struct, frozen=True, kw_only=True):
    """A message in the outbox, retried until delivered.

    `message_id` is the platform's message in which it is shown already; times are in seconds since the epoch.
    """

    id: int
    key: str
    lane: str
    message: Outgoing
    state: DeliveryState
    first: Outgoing | None = None
    """The first version of it that was shown, where it was shown while it was written."""
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
    """The binding of a conversation to its session and its person, with the time of the last message."""

    key: str
    session_id: str
    place: Place
    person: str
    last_at: float = 0.0


_BESIDE = ":beside:"


def make_beside_key(key: str, session_id: str) -> str:
    """Return the key under which a session stays bound to a chat that goes on with another one."""
    return f"{key.partition(_BESIDE)[0]}{_BESIDE}{session_id}"


def is_beside_key(key: str) -> bool:
    """Return whether the key is of a session that stays beside the one with which its chat goes on."""
    return _BESIDE in key


class DirectChat(Struct, frozen=True, kw_only=True):
    """The direct chat of a person on a platform, with the time at which they were heard there last."""

    person: str
    place: Place
    last_at: float = 0.0


class BackgroundRecord(Struct, frozen=True, kw_only=True):
    """A session that works beside that of a chat, and what it was asked."""

    session_id: str
    place: Place
    prompt: str


class Posting(Struct, frozen=True, kw_only=True):
    """Inbound events that are posted to a session together."""

    arrivals: tuple[int, ...]
    letter_id: str
    body: bytes
    first: bool = False
    """True if it goes before everything that waits there."""


class UnansweredEvents(Struct, frozen=True, kw_only=True):
    """Inbound events that became part of a session's work and have no answer in the outbox yet."""

    session_id: str
    turn_id: str
    """The turn that works on them; empty while they wait in the session's inbox."""
    over: bool
    """True if the turn has ended."""
    reason: str = ""
    error: str = ""
    arrivals: tuple[InboundEvent, ...] = ()


class KnownPerson(Struct, frozen=True, kw_only=True):
    """A person who was paired or added."""

    id: str
    name: str
    role: str
    since: float = 0.0


class PlatformHandle(Struct, frozen=True, kw_only=True):
    """A person's account on a platform; `account` is the platform's own id of it."""

    platform: str
    account: str
    person: str
    name: str = ""
    since: float = 0.0


class NewPairingCode(Struct, frozen=True, kw_only=True):
    """A pairing code as it is offered; `person` is empty for somebody who is not known yet."""

    code: str
    platform: str
    role: str
    person: str
    name: str


class PendingPairingCode(Struct, frozen=True, kw_only=True):
    """A pairing code that has not been used yet. `id` is made from its hash; the code itself is not kept."""

    id: str
    platform: str
    role: str
    person: str
    name: str
    expires_at: float


class PairingRequest(Struct, frozen=True, kw_only=True):
    """Somebody's request to be let in, who is not known yet. `place` is where they wrote."""

    platform: str
    account: str
    name: str
    place: Place
    expires_at: float = 0.0


class PairingQuestion(Struct, frozen=True, kw_only=True):
    """The question about a request to be let in: who asks, the chat in which it is shown, and its text there."""

    code: str
    platform: str
    account: str
    name: str
    place: Place
    text: str
    closed: bool = False
    """Whether it shows what became of the request."""

    @property
    def key(self) -> str:
        """The key of its delivery."""
        return f"pairing:{self.code}"


class AuditEntry(Struct, frozen=True, kw_only=True):
    """An entry of the audit trail: something that somebody did from outside."""

    platform: str
    account: str
    person: str
    what: str
    detail: str = ""
    at: float = 0.0


__getattr__ = renamed_names(__name__)
