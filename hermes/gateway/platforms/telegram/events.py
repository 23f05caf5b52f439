"""What Telegram's updates mean. Pure: updates in, arrivals out."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Reply, Sender
from hermes.i18n.messages import phrase

FETCH_LIMIT = 20 * 1024 * 1024
"""Bytes of the largest file that the Bot API gives to bots."""
GENERAL = 1
"""The topic of a forum that has no topic: it is not named when something is sent there."""
_KINDS = {"private": ChatKind.DM, "channel": ChatKind.CHANNEL}


class User(Struct, frozen=True):
    """An account."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.first_name} {self.last_name}".strip() or self.username


class Chat(Struct, frozen=True):
    """Where something is said."""

    id: int
    type: str = "private"
    title: str = ""
    first_name: str = ""
    last_name: str = ""

    @property
    def name(self) -> str:
        """What people call it."""
        return self.title or f"{self.first_name} {self.last_name}".strip()


class Entity(Struct, frozen=True):
    """A range of a text, in UTF-16 code units."""

    type: str
    offset: int
    length: int
    user: User | None = None


class File(Struct, frozen=True):
    """A photo's size, a document, a voice and the like."""

    file_id: str
    file_size: int | None = None
    file_name: str = ""
    mime_type: str = ""
    emoji: str = ""
    """Of a sticker."""


class Location(Struct, frozen=True):
    """A point on the map."""

    latitude: float
    longitude: float


class Venue(Struct, frozen=True):
    """A point with a name."""

    title: str = ""
    address: str = ""


class Contact(Struct, frozen=True):
    """Somebody's card."""

    phone_number: str = ""
    first_name: str = ""
    last_name: str = ""


class Question(Struct, frozen=True):
    """A poll."""

    question: str = ""


class Origin(Struct, frozen=True):
    """Where something that is handed on comes from."""

    type: str = ""


class Quote(Struct, frozen=True):
    """The part of a message that an answer is about."""

    text: str = ""


class Message(Struct, frozen=True, rename={"sender": "from"}):
    """Something that was said; only what is used here."""

    message_id: int
    chat: Chat
    date: int = 0
    sender: User | None = None
    sender_chat: Chat | None = None
    message_thread_id: int = 0
    is_topic_message: bool = False
    text: str = ""
    caption: str = ""
    entities: tuple[Entity, ...] = ()
    caption_entities: tuple[Entity, ...] = ()
    photo: tuple[File, ...] = ()
    document: File | None = None
    voice: File | None = None
    audio: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    sticker: File | None = None
    location: Location | None = None
    venue: Venue | None = None
    contact: Contact | None = None
    poll: Question | None = None
    media_group_id: str = ""
    reply_to_message: "Message | None" = None
    quote: Quote | None = None
    forward_origin: Origin | None = None


class Press(Struct, frozen=True, rename={"sender": "from"}):
    """A button was pressed."""

    id: str
    sender: User
    message: Message | None = None
    data: str = ""


class Member(Struct, frozen=True):
    """What the bot is in a chat."""

    status: str = ""


class Membership(Struct, frozen=True, rename={"sender": "from"}):
    """The bot was added to a chat, or taken out of it."""

    chat: Chat
    sender: User
    new_chat_member: Member


class Update(Struct, frozen=True):
    """One thing that happened."""

    update_id: int
    message: Message | None = None
    edited_message: Message | None = None
    channel_post: Message | None = None
    callback_query: Press | None = None
    my_chat_member: Membership | None = None


class Numbered(Struct, frozen=True):
    """Of an update that cannot be read, its number."""

    update_id: int


def arrival_of(update: Update, me: User, platform: str) -> InboundEvent | None:
    """What an update means; None for one that says nothing to the agent."""
    event = str(update.update_id)
    if update.callback_query is not None:
        return _pressed(event, update.callback_query, platform)
    edited = update.edited_message
    message = update.message or edited or update.channel_post
    if message is None:
        return None
    arrival = _said(event, message, me, platform)
    if not (arrival.text or arrival.attachments):
        return None
    if edited is None:
        return arrival
    if edited.location is not None:
        return None  # somebody who shares their way: every step of it is an edit
    return msgspec.structs.replace(arrival, text=f"[edited] {arrival.text}".rstrip())


def _pressed(event: str, press: Press, platform: str) -> InboundEvent | None:
    if press.message is None or not press.data:
        return None
    return InboundEvent(
        event_id=event,
        place=place_of(press.message, platform),
        sender=_sender(press.sender),
        message_id=str(press.message.message_id),
        press=press.data,
        mentioned=True,
    )


def _said(event: str, message: Message, me: User, platform: str) -> InboundEvent:
    text, mentioned = _addressed(message.text or message.caption, message.entities or message.caption_entities, me)
    return InboundEvent(
        event_id=event,
        place=place_of(message, platform),
        sender=_speaker(message),
        text="\n".join(one for one in (text, *_described(message)) if one),
        message_id=str(message.message_id),
        attachments=_attachments(message),
        reply=_reply(message, me),
        mentioned=mentioned,
        forwarded=message.forward_origin is not None,
        album=message.media_group_id,
        at=float(message.date),
    )


def place_of(message: Message, platform: str) -> Place:
    """Where a message stands."""
    chat = message.chat
    thread = message.message_thread_id if message.is_topic_message else 0
    return Place(
        platform=platform,
        chat=str(chat.id),
        thread=str(thread) if thread and thread != GENERAL else "",
        kind=_KINDS.get(chat.type, ChatKind.GROUP),
        name=chat.name,
    )


def _speaker(message: Message) -> Sender:
    """Who said it; where somebody speaks in the name of a group or channel, that."""
    if message.sender_chat is not None:
        return Sender(id=str(message.sender_chat.id), name=message.sender_chat.name)
    if message.sender is not None:
        return _sender(message.sender)
    return Sender(id=str(message.chat.id), name=message.chat.name)


def _sender(user: User) -> Sender:
    return Sender(id=str(user.id), name=user.name, bot=user.is_bot)


def _addressed(text: str, entities: Sequence[Entity], me: User) -> tuple[str, bool]:
    """The text without the bot's name where that only says to whom it is said, and whether it is named."""
    own = f"@{me.username}".lower() if me.username else "@"
    raw = text.encode("utf-16-le", "surrogatepass")
    mentioned = False
    for one in reversed(entities):
        begin, end = 2 * one.offset, 2 * (one.offset + one.length)
        said = raw[begin:end].decode("utf-16-le", "replace").lower()
        if one.type == "bot_command" and said.endswith(own):
            mentioned = True
            raw = raw[: end - 2 * len(own)] + raw[end:]
        elif said == own or (one.user is not None and one.user.id == me.id):
            mentioned = True
            if not raw[:begin].decode("utf-16-le", "replace").strip():
                raw = raw[:begin] + raw[end:]
    return (raw.decode("utf-16-le", "replace").strip() if mentioned else text), mentioned


def _described(message: Message) -> list[str]:
    """What is neither words nor a file, in words."""
    found: list[str] = []
    if message.sticker is not None:
        found.append(f"[sticker {message.sticker.emoji}]" if message.sticker.emoji else "[sticker]")
    if message.venue is not None:
        found.append(f"[place: {message.venue.title}, {message.venue.address}]")
    if message.location is not None:
        found.append(f"[location: {message.location.latitude:.6f}, {message.location.longitude:.6f}]")
    if message.contact is not None:
        card = message.contact
        found.append(f"[contact: {f'{card.first_name} {card.last_name}'.strip()}, {card.phone_number}]")
    if message.poll is not None:
        found.append(f"[poll: {message.poll.question}]")
    return found


def _attachments(message: Message) -> tuple[Attachment, ...]:
    found: list[Attachment] = []
    if message.photo:
        largest = max(message.photo, key=lambda one: one.file_size or 0)
        found.append(_attachment(MediaKind.IMAGE, largest, "photo.jpg", "image/jpeg"))
    for kind, file, name in (
        (MediaKind.VOICE, message.voice, "voice.ogg"),
        (MediaKind.AUDIO, message.audio, "audio.mp3"),
        (MediaKind.VIDEO, message.video or message.video_note or message.animation, "video.mp4"),
        (MediaKind.DOCUMENT, message.document if message.animation is None else None, "document"),
    ):
        if file is not None:
            pictured = kind is MediaKind.DOCUMENT and file.mime_type.startswith("image/")
            found.append(_attachment(MediaKind.IMAGE if pictured else kind, file, name, ""))
    return tuple(found)


def _attachment(kind: MediaKind, file: File, name: str, media_type: str) -> Attachment:
    too_large = file.file_size is not None and file.file_size > FETCH_LIMIT
    return Attachment(
        kind=kind,
        name=file.file_name or name,
        media_type=file.mime_type or media_type,
        size=file.file_size,
        ref=file.file_id,
        problem=phrase("Telegram gives bots no files of more than 20 MB") if too_large else "",
    )


def _reply(message: Message, me: User) -> Reply | None:
    to = message.reply_to_message
    if to is None or (message.is_topic_message and to.message_id == message.message_thread_id):
        return None  # what is said in a topic answers the message that began it
    return Reply(
        message_id=str(to.message_id),
        text=(message.quote.text if message.quote else "") or to.text or to.caption,
        author=_speaker(to).name,
        own=to.sender is not None and to.sender.id == me.id,
    )
