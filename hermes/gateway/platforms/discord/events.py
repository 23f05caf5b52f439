"""What happens on Discord, as arrivals, and what has to be known for that: channels, roles, and what was read last."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Reply, Sender
from hermes.gateway.http.errors import describe_error
from hermes.gateway.http.json_values import SeenEvents, decode_json
from hermes.gateway.platform import PlatformContext, PlatformError, SendError, SendFault
from hermes.gateway.platforms.discord.api import (
    EPOCH,
    Channel,
    File,
    Frame,
    Guild,
    Interaction,
    Member,
    Message,
    Rest,
    User,
    decoded,
)
from hermes.i18n.messages import phrase

PAGE = 100
"""Messages that are fetched at most of what was missed in a channel."""
CHANNELS = 2_000
"""Channels that are known at most."""
FORGOTTEN_SECONDS = 30 * 24 * 3600.0
"""After how long a channel is not looked into any more."""
TOLD = 500
"""Lines about what cannot be read, and roles, at most."""
VOICE = 1 << 13
SAID = (0, 19)
"""Types of messages that people write: a plain one and an answer."""


class Known(Struct, frozen=True):
    """What was read last in a channel, and its server, which messages in the history do not name."""

    newest: int
    guild: str = ""


class Work(Struct):
    """What was read and is not on disk yet."""

    sequence: int
    arrivals: list[InboundEvent] = []
    newest: dict[str, Known] = {}
    presses: list[Interaction] = []
    roles: str | None = None


class News:
    """Reads events and histories. What it reads goes into a `Work`; what it knows moves on by `done` only."""

    def __init__(self, rest: Rest, around: PlatformContext) -> None:
        self._rest = rest
        self._around = around
        self.me = ""
        """The bot's own id."""
        self.sequence = int(around.cursors.get("sequence") or 0)
        """Of the newest event that is on disk."""
        self._channels: dict[str, Channel] = {}
        self._roles = around.cursors.get("roles", "")
        self.known = _stored(around.cursors)
        self._seen = SeenEvents()
        self._told: set[str] = set()
        """Kinds of events that could not be read; each is told once."""

    def done(self, work: Work) -> None:
        """It is on disk: go on from there."""
        self.sequence = work.sequence
        self.known |= work.newest
        self._seen.add_events(work.arrivals)
        if work.roles is not None:
            self._roles = work.roles

    def forget(self) -> tuple[tuple[str, str], ...]:
        """Channels in which nothing was said for long are not looked into any more: what is stored of them instead."""
        limit = first_id(self._around.clock.now() - FORGOTTEN_SECONDS)
        old = [channel for channel, one in self.known.items() if one.newest < limit]
        for channel in old:
            del self.known[channel]
        return tuple((f"channel:{channel}", "") for channel in old)

    async def missed(self, channel: str, newest: int) -> list[Message]:
        """What was said in a channel after a message, newest first."""
        for _ in range(5):
            try:
                page = await self.page(channel, newest)
            except SendError as error:
                if error.fault in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    return []
                if error.fault is not SendFault.RATE_LIMITED:
                    raise
                await self._around.clock.sleep(error.retry_after or 1.0)
                continue
            if len(page) == PAGE:
                said = phrase(
                    "More than {n} messages were missed in {channel}; older ones are not read.", n=PAGE, channel=channel
                )
                self._around.report(said)
            return page
        raise PlatformError(phrase("Discord's history cannot be read now."))

    async def page(self, channel: str, after: int) -> list[Message]:
        """The newest messages of a channel that are newer than `after`, newest first."""
        raw = await self._rest.call("GET", f"channels/{channel}/messages", query={"limit": str(PAGE)})
        found: list[Message] = []
        for one in decoded(raw, list[msgspec.Raw]):
            try:
                message = decode_json(one, Message)
            except msgspec.DecodeError as error:
                self.tell(
                    "history",
                    phrase("A message in Discord's history cannot be read: {error}", error=describe_error(error)),
                )
                continue
            if message.id.isdigit() and int(message.id) > after:
                found.append(message)
        return found

    async def happened(self, frame: Frame, work: Work) -> None:
        """Take up an event; one that cannot be read is told and passed over."""
        try:
            match frame.t:
                case "MESSAGE_CREATE":
                    await self.heard(decode_json(frame.d, Message), work)
                case "INTERACTION_CREATE":
                    await self._pressed(decode_json(frame.d, Interaction), work)
                case "GUILD_CREATE":
                    self._joined(decode_json(frame.d, Guild), work)
                case "GUILD_MEMBER_UPDATE":
                    self._given(decode_json(frame.d, Member), work)
                case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                    self._learn([decode_json(frame.d, Channel)])
                case _:
                    pass
        except (msgspec.DecodeError, ValueError) as error:
            kind = frame.t or ""
            self.tell(
                kind,
                phrase(
                    "Discord sent a {kind} that cannot be read: {error}",
                    kind=describe_error(kind),
                    error=describe_error(error),
                ),
            )

    def tell(self, kind: str, line: str) -> None:
        """Say that something cannot be read: once of each kind."""
        if kind not in self._told and len(self._told) < TOLD:
            self._told.add(kind)
            self._around.report(line)

    async def heard(self, message: Message, work: Work) -> None:
        """Take up a message."""
        number = int(message.id)
        if number > max(work.newest.get(message.channel_id, _NOTHING).newest, self._newest(message.channel_id)):
            work.newest[message.channel_id] = Known(number, message.guild_id or "")
        if message.type not in SAID or message.author.id == self.me or self._seen.has_event(message.id, work.arrivals):
            return
        roles = self._roles if work.roles is None else work.roles
        called = any(one.id == self.me for one in message.mentions)
        called = called or bool(set(message.mention_roles) & set(roles.split()))
        work.arrivals.append(
            InboundEvent(
                event_id=message.id,
                place=await self._place(message.channel_id, message.guild_id),
                sender=_sender(message.author, webhook=bool(message.webhook_id)),
                text=_words(message, self.me, roles.split()),
                message_id=message.id,
                attachments=_attachments(message),
                reply=_reply(message.referenced_message, self.me),
                mentioned=called,
                forwarded=bool(message.message_snapshots),
                at=written(number),
            )
        )

    def _newest(self, channel: str) -> int:
        return self.known.get(channel, _NOTHING).newest

    async def _pressed(self, pressed: Interaction, work: Work) -> None:
        user = pressed.user or (pressed.member.user if pressed.member else None)
        if pressed.type != 3 or user is None or pressed.data is None or pressed.message is None:
            return
        work.presses.append(pressed)
        work.arrivals.append(
            InboundEvent(
                event_id=pressed.id,
                place=await self._place(pressed.channel_id, pressed.guild_id),
                sender=_sender(user),
                message_id=pressed.message.id,
                press=pressed.data.custom_id,
                at=written(int(pressed.id)),
            )
        )

    def _joined(self, guild: Guild, work: Work) -> None:
        """A server that the bot is in: its channels, and the roles by which the bot is addressed."""
        for one in guild.threads + guild.channels:
            one.guild_id = guild.id
        self._learn(guild.threads + guild.channels)
        roles = {one.id for one in guild.roles if one.tags is not None and one.tags.bot_id == self.me}
        roles |= {role for one in guild.members if one.user and one.user.id == self.me for role in one.roles}
        self._add_roles(roles, work)

    def _given(self, member: Member, work: Work) -> None:
        if member.user is not None and member.user.id == self.me:
            self._add_roles(set(member.roles), work)

    def _add_roles(self, roles: Iterable[str], work: Work) -> None:
        known = self._roles if work.roles is None else work.roles
        every = " ".join(sorted({*known.split(), *roles})[:TOLD])
        if every != known:
            work.roles = every

    def _learn(self, channels: Sequence[Channel]) -> None:
        if len(self._channels) + len(channels) > CHANNELS:
            self._channels.clear()
        self._channels |= {one.id: one for one in channels}

    async def _place(self, channel: str, guild: str | None) -> Place:
        if not guild:
            return Place(self._around.name, channel)
        if channel not in self._channels:
            try:
                self._learn([decoded(await self._rest.call("GET", f"channels/{channel}"), Channel)])
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise
                self._learn([Channel(channel)])
        known = self._channels[channel]
        kind = ChatKind.CHANNEL if known.type in (5, 10) else ChatKind.GROUP
        if known.is_thread and known.parent_id:
            return Place(self._around.name, known.parent_id, channel, kind, known.name or "")
        return Place(self._around.name, channel, "", kind, known.name or "")


def cursors(work: Work) -> tuple[tuple[str, str], ...]:
    """From where it goes on once this is on disk; the sequence comes first."""
    found = [("sequence", str(work.sequence))]
    found += [(f"channel:{name}", f"{one.newest} {one.guild}".rstrip()) for name, one in work.newest.items()]
    if work.roles is not None:
        found.append(("roles", work.roles))
    return tuple(found)


def first_id(at: float) -> int:
    """The smallest id of what was written at a time."""
    return max(0, int((at - EPOCH) * 1000)) << 22


def written(number: int) -> float:
    """When that was written which has this id."""
    return (number >> 22) / 1000 + EPOCH


def _stored(cursors: Mapping[str, str]) -> dict[str, Known]:
    found: dict[str, Known] = {}
    for name, value in cursors.items():
        newest, _, guild = value.partition(" ")
        if name.startswith("channel:") and newest.isdigit():
            found[name.removeprefix("channel:")] = Known(int(newest), guild)
    return found


def _sender(user: User, *, webhook: bool = False) -> Sender:
    return Sender(user.id, user.global_name or user.username, bot=user.bot or webhook)


def _attachments(message: Message) -> tuple[Attachment, ...]:
    files = [*message.attachments, *(file for one in message.message_snapshots for file in one.message.attachments)]
    return tuple(_attachment(file, message.flags) for file in files)


def _attachment(file: File, flags: int) -> Attachment:
    media_type = (file.content_type or "").partition(";")[0]
    kind = MediaKind.VOICE if flags & VOICE else _KINDS.get(media_type.partition("/")[0], MediaKind.DOCUMENT)
    return Attachment(kind, file.filename, media_type, file.size, ref=file.url)


def _reply(message: Message | None, me: str) -> Reply | None:
    if message is None:
        return None
    author = message.author
    return Reply(message.id, message.content, author.global_name or author.username, own=author.id == me)


def _words(message: Message, me: str, roles: Sequence[str]) -> str:
    """What is said, people by their names; how the bot is addressed at the beginning is left out."""
    text = "\n".join([message.content, *(one.message.content for one in message.message_snapshots)]).strip()
    calls = [f"<@{me}>", f"<@!{me}>", *(f"<@&{role}>" for role in roles)]
    while call := next((one for one in calls if text.startswith(one)), ""):
        text = text.removeprefix(call).lstrip(" ,:\n")
    for one in message.mentions:
        text = text.replace(f"<@{one.id}>", f"@{one.username}").replace(f"<@!{one.id}>", f"@{one.username}")
    stickers = [f"[sticker: {one.name}]" for one in message.sticker_items]
    return "\n".join([text, *stickers] if text else stickers)


_NOTHING = Known(0)
_KINDS = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
