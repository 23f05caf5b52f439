"""Turn Telegram's updates into inbound events, without side effects."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Reply, Sender
from hermes.i18n.messages import N_

FETCH_LIMIT = 20 * 1024 * 1024
"""Size in bytes of the largest file that the Bot API gives to bots."""
GENERAL_TOPIC = 1
"""The id of a forum's general topic: it is not named when something is sent there."""
_CHAT_KINDS = {"private": ChatKind.DM, "channel": ChatKind.CHANNEL}


class TelegramUser(Struct, frozen=True):
    """An account."""

    id: int
    is_bot: bool = False
    first_name: str = ""
    last_name: str = ""
    username: str = ""

    @property
    def name(self) -> str:
        """The display name."""
        return f"{self.first_name} {self.last_name}".strip() or self.username


class TelegramChat(Struct, frozen=True):
    """A private chat, a group or a channel."""

    id: int
    type: str = "private"
    title: str = ""
    first_name: str = ""
    last_name: str = ""

    @property
    def name(self) -> str:
        """The display name."""
        return self.title or f"{self.first_name} {self.last_name}".strip()


class TelegramEntity(Struct, frozen=True):
    """A range of a text, in UTF-16 code units."""

    type: str
    offset: int
    length: int
    user: TelegramUser | None = None


class TelegramFile(Struct, frozen=True):
    """A photo's size, a document, a voice and the like."""

    file_id: str
    file_size: int | None = None
    file_name: str = ""
    mime_type: str = ""
    emoji: str = ""
    """The emoji of a sticker."""


class TelegramLocation(Struct, frozen=True):
    """A point on the map."""

    latitude: float
    longitude: float


class TelegramVenue(Struct, frozen=True):
    """A named place."""

    title: str = ""
    address: str = ""


class TelegramContact(Struct, frozen=True):
    """A contact card."""

    phone_number: str = ""
    first_name: str = ""
    last_name: str = ""


class TelegramPoll(Struct, frozen=True):
    """A poll."""

    question: str = ""


class TelegramForwardOrigin(Struct, frozen=True):
    """The origin of a forwarded message."""

    type: str = ""


class TelegramQuote(Struct, frozen=True):
    """The part of a message that is answered."""

    text: str = ""


class TelegramMessage(Struct, frozen=True, rename={"sender": "from"}):
    """A message; only the fields that are used."""

    message_id: int
    chat: TelegramChat
    date: int = 0
    sender: TelegramUser | None = None
    sender_chat: TelegramChat | None = None
    message_thread_id: int = 0
    is_topic_message: bool = False
    text: str = ""
    caption: str = ""
    entities: tuple[TelegramEntity, ...] = ()
    caption_entities: tuple[TelegramEntity, ...] = ()
    photo: tuple[TelegramFile, ...] = ()
    document: TelegramFile | None = None
    voice: TelegramFile | None = None
    audio: TelegramFile | None = None
    video: TelegramFile | None = None
    video_note: TelegramFile | None = None
    animation: TelegramFile | None = None
    sticker: TelegramFile | None = None
    location: TelegramLocation | None = None
    venue: TelegramVenue | None = None
    contact: TelegramContact | None = None
    poll: TelegramPoll | None = None
    media_group_id: str = ""
    reply_to_message: "TelegramMessage | None" = None
    quote: TelegramQuote | None = None
    forward_origin: TelegramForwardOrigin | None = None


class TelegramCallbackQuery(Struct, frozen=True, rename={"sender": "from"}):
    """A press of a button."""

    id: str
    sender: TelegramUser
    message: TelegramMessage | None = None
    data: str = ""


class TelegramChatMember(Struct, frozen=True):
    """The bot's status in a chat."""

    status: str = ""


class TelegramMembership(Struct, frozen=True, rename={"sender": "from"}):
    """A change of the bot's membership in a chat."""

    chat: TelegramChat
    sender: TelegramUser
    new_chat_member: TelegramChatMember


class TelegramUpdate(Struct, frozen=True):
    """An update: one of its fields is set."""

    update_id: int
    message: TelegramMessage | None = None
    edited_message: TelegramMessage | None = None
    channel_post: TelegramMessage | None = None
    callback_query: TelegramCallbackQuery | None = None
    my_chat_member: TelegramMembership | None = None


class TelegramUpdateNumber(Struct, frozen=True):
    """The number of an update that cannot be read."""

    update_id: int


def inbound_from_update(update: TelegramUpdate, me: TelegramUser, platform: str) -> InboundEvent | None:
    """Return the inbound event for an update; None for one that does not concern the agent."""
    event_id = str(update.update_id)
    if update.callback_query is not None:
        return _inbound_from_press(event_id, update.callback_query, platform)
    edited = update.edited_message
    message = update.message or edited or update.channel_post
    if message is None:
        return None
    inbound_event = _inbound_from_message(event_id, message, me, platform)
    if not (inbound_event.text or inbound_event.attachments):
        return None
    if edited is None:
        return inbound_event
    if edited.location is not None:
        return None  # somebody who shares their way: every step of it is an edit
    return msgspec.structs.replace(inbound_event, text=f"[edited] {inbound_event.text}".rstrip())


def _inbound_from_press(event_id: str, press: TelegramCallbackQuery, platform: str) -> InboundEvent | None:
    if press.message is None or not press.data:
        return None
    return InboundEvent(
        event_id=event_id,
        place=place_from_message(press.message, platform),
        sender=_make_sender(press.sender),
        message_id=str(press.message.message_id),
        press=press.data,
        mentioned=True,
    )


def _inbound_from_message(event_id: str, message: TelegramMessage, me: TelegramUser, platform: str) -> InboundEvent:
    text, mentioned = _strip_bot_name(message.text or message.caption, message.entities or message.caption_entities, me)
    return InboundEvent(
        event_id=event_id,
        place=place_from_message(message, platform),
        sender=_find_sender(message),
        text="\n".join(one for one in (text, *_describe_content(message)) if one),
        message_id=str(message.message_id),
        attachments=_make_attachments(message),
        reply=_make_reply(message, me),
        mentioned=mentioned,
        forwarded=message.forward_origin is not None,
        album=message.media_group_id,
        at=float(message.date),
    )


def place_from_message(message: TelegramMessage, platform: str) -> Place:
    """Return the place of a message."""
    chat = message.chat
    thread = message.message_thread_id if message.is_topic_message else 0
    return Place(
        platform=platform,
        chat=str(chat.id),
        thread=str(thread) if thread and thread != GENERAL_TOPIC else "",
        kind=_CHAT_KINDS.get(chat.type, ChatKind.GROUP),
        name=chat.name,
    )


def _find_sender(message: TelegramMessage) -> Sender:
    """Return the sender of a message; the group or channel if somebody writes in its name."""
    if message.sender_chat is not None:
        return Sender(id=str(message.sender_chat.id), name=message.sender_chat.name)
    if message.sender is not None:
        return _make_sender(message.sender)
    return Sender(id=str(message.chat.id), name=message.chat.name)


def _make_sender(user: TelegramUser) -> Sender:
    return Sender(id=str(user.id), name=user.name, bot=user.is_bot)


def _strip_bot_name(text: str, entities: Sequence[TelegramEntity], me: TelegramUser) -> tuple[str, bool]:
    """Return the text without the bot's name where it only addresses the bot, and whether the bot is mentioned."""
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


def _describe_content(message: TelegramMessage) -> list[str]:
    """Describe in words what is neither text nor a file."""
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


def _make_attachments(message: TelegramMessage) -> tuple[Attachment, ...]:
    found: list[Attachment] = []
    if message.photo:
        largest = max(message.photo, key=lambda one: one.file_size or 0)
        found.append(_make_attachment(MediaKind.IMAGE, largest, "photo.jpg", "image/jpeg"))
    for kind, file, name in (
        (MediaKind.VOICE, message.voice, "voice.ogg"),
        (MediaKind.AUDIO, message.audio, "audio.mp3"),
        (MediaKind.VIDEO, message.video or message.video_note or message.animation, "video.mp4"),
        (MediaKind.DOCUMENT, message.document if message.animation is None else None, "document"),
    ):
        if file is not None:
            pictured = kind is MediaKind.DOCUMENT and file.mime_type.startswith("image/")
            found.append(_make_attachment(MediaKind.IMAGE if pictured else kind, file, name, ""))
    return tuple(found)


def _make_attachment(kind: MediaKind, file: TelegramFile, name: str, media_type: str) -> Attachment:
    too_large = file.file_size is not None and file.file_size > FETCH_LIMIT
    return Attachment(
        kind=kind,
        name=file.file_name or name,
        media_type=file.mime_type or media_type,
        size=file.file_size,
        ref=file.file_id,
        problem=N_("Telegram gives bots no files of more than 20 MB") if too_large else "",
    )


def _make_reply(message: TelegramMessage, me: TelegramUser) -> Reply | None:
    to = message.reply_to_message
    if to is None or (message.is_topic_message and to.message_id == message.message_thread_id):
        return None  # what is said in a topic answers the message that began it
    return Reply(
        message_id=str(to.message_id),
        text=(message.quote.text if message.quote else "") or to.text or to.caption,
        author=_find_sender(to).name,
        own=to.sender is not None and to.sender.id == me.id,
    )
