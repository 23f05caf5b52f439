"""Turn Discord's events and histories into inbound events; remember channels, roles and read positions."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Reply, Sender
from hermes.gateway.http.client import OnceReporter, SeenEvents, decode_json, decode_response, describe_error
from hermes.gateway.platform import PlatformContext, PlatformError, SendError, SendFault
from hermes.gateway.platforms.discord.api import (
    DISCORD_EPOCH,
    DiscordChannel,
    DiscordClient,
    DiscordFile,
    DiscordFrame,
    DiscordGuild,
    DiscordInteraction,
    DiscordMember,
    DiscordMessage,
    DiscordUser,
)
from hermes.i18n.messages import N_

PAGE_SIZE = 100
"""Messages fetched at most per channel when missed messages are read."""
MAX_KNOWN_CHANNELS = 2_000
"""Channels that are remembered at most."""
FORGET_AFTER_SECONDS = 30 * 24 * 3600.0
"""After this time without a message a channel is not checked for missed messages any more."""
MAX_REMEMBERED = 500
"""Reports about unreadable events, and roles, that are remembered at most."""
VOICE_FLAG = 1 << 13
WRITTEN_TYPES = (0, 19)
"""Types of messages that people write: a plain one and a reply."""


class ChannelPosition(Struct, frozen=True):
    """The newest message read in a channel, and the channel's server, which messages in a history do not name."""

    newest: int
    guild: str = ""


class UnsavedDiscordEvents(Struct):
    """What was read from Discord and is not on disk yet."""

    sequence: int
    events: list[InboundEvent] = []
    newest: dict[str, ChannelPosition] = {}
    presses: list[DiscordInteraction] = []
    roles: str | None = None


class DiscordEventReader:
    """Reads Discord's events and histories.

    Results go into an `UnsavedDiscordEvents`; the reader's positions move on only by `mark_saved`.
    """

    def __init__(self, client: DiscordClient, context: PlatformContext) -> None:
        self._client = client
        self._context = context
        self.me = ""
        """The bot's own id."""
        self.sequence = int(context.cursors.get("sequence") or 0)
        """Of the newest event that is on disk."""
        self._channels: dict[str, DiscordChannel] = {}
        self._roles = context.cursors.get("roles", "")
        self.positions = _parse_positions(context.cursors)
        self._seen = SeenEvents()
        self.report_once = OnceReporter(context.report)

    def mark_saved(self, unsaved: UnsavedDiscordEvents) -> None:
        """Move the positions on: these events are on disk."""
        self.sequence = unsaved.sequence
        self.positions |= unsaved.newest
        self._seen.add_events(unsaved.events)
        if unsaved.roles is not None:
            self._roles = unsaved.roles

    def forget_old_channels(self) -> tuple[tuple[str, str], ...]:
        """Drop channels without messages for a long time; return the cursors that delete them from the store."""
        limit = first_id_at(self._context.clock.now() - FORGET_AFTER_SECONDS)
        old = [channel for channel, one in self.positions.items() if one.newest < limit]
        for channel in old:
            del self.positions[channel]
        return tuple((f"channel:{channel}", "") for channel in old)

    async def fetch_missed(self, channel: str, newest: int) -> list[DiscordMessage]:
        """Return what was written in a channel after a message, newest first."""
        for _ in range(5):
            try:
                page = await self.fetch_page(channel, newest)
            except SendError as error:
                if error.fault in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    return []
                if error.fault is not SendFault.RATE_LIMITED:
                    raise
                await self._context.clock.sleep(error.retry_after or 1.0)
                continue
            if len(page) == PAGE_SIZE:
                said = N_(
                    "More than {n} messages were missed in {channel}; older ones are not read.",
                    n=PAGE_SIZE,
                    channel=channel,
                )
                self._context.report(said)
            return page
        raise PlatformError(N_("Discord's history cannot be read now."))

    async def fetch_page(self, channel: str, after: int) -> list[DiscordMessage]:
        """Return the newest messages of a channel that are newer than `after`, newest first."""
        raw = await self._client.call_api("GET", f"channels/{channel}/messages", query={"limit": str(PAGE_SIZE)})
        found: list[DiscordMessage] = []
        for one in decode_response(raw, list[msgspec.Raw], "Discord"):
            try:
                message = decode_json(one, DiscordMessage)
            except msgspec.DecodeError as error:
                self.report_once(
                    "history",
                    N_("A message in Discord's history cannot be read: {error}", error=describe_error(error)),
                )
                continue
            if message.id.isdigit() and int(message.id) > after:
                found.append(message)
        return found

    async def handle_event(self, frame: DiscordFrame, unsaved: UnsavedDiscordEvents) -> None:
        """Read one event; an unreadable one is reported and skipped."""
        try:
            match frame.t:
                case "MESSAGE_CREATE":
                    await self.handle_message(decode_json(frame.d, DiscordMessage), unsaved)
                case "INTERACTION_CREATE":
                    await self._handle_press(decode_json(frame.d, DiscordInteraction), unsaved)
                case "GUILD_CREATE":
                    self._learn_guild(decode_json(frame.d, DiscordGuild), unsaved)
                case "GUILD_MEMBER_UPDATE":
                    self._learn_member_roles(decode_json(frame.d, DiscordMember), unsaved)
                case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                    self._learn_channels([decode_json(frame.d, DiscordChannel)])
                case _:
                    pass
        except (msgspec.DecodeError, ValueError) as error:
            kind = frame.t or ""
            self.report_once(
                kind,
                N_(
                    "Discord sent a {kind} that cannot be read: {error}",
                    kind=describe_error(kind),
                    error=describe_error(error),
                ),
            )

    async def handle_message(self, message: DiscordMessage, unsaved: UnsavedDiscordEvents) -> None:
        """Add a message to the unsaved events."""
        number = int(message.id)
        if number > max(
            unsaved.newest.get(message.channel_id, _NOTHING_READ).newest, self._newest_read(message.channel_id)
        ):
            unsaved.newest[message.channel_id] = ChannelPosition(number, message.guild_id or "")
        if (
            message.type not in WRITTEN_TYPES
            or message.author.id == self.me
            or self._seen.has_event(message.id, unsaved.events)
        ):
            return
        roles = self._roles if unsaved.roles is None else unsaved.roles
        called = any(one.id == self.me for one in message.mentions)
        called = called or bool(set(message.mention_roles) & set(roles.split()))
        unsaved.events.append(
            InboundEvent(
                event_id=message.id,
                place=await self._find_place(message.channel_id, message.guild_id),
                sender=_make_sender(message.author, webhook=bool(message.webhook_id)),
                text=_clean_text(message, self.me, roles.split()),
                message_id=message.id,
                attachments=_make_attachments(message),
                reply=_make_reply(message.referenced_message, self.me),
                mentioned=called,
                forwarded=bool(message.message_snapshots),
                at=time_of_id(number),
            )
        )

    def _newest_read(self, channel: str) -> int:
        return self.positions.get(channel, _NOTHING_READ).newest

    async def _handle_press(self, interaction: DiscordInteraction, unsaved: UnsavedDiscordEvents) -> None:
        user = interaction.user or (interaction.member.user if interaction.member else None)
        if interaction.type == COMMAND_TYPE and user is not None and interaction.data is not None:
            await self._handle_command(interaction, user, unsaved)
            return
        if interaction.type != 3 or user is None or interaction.data is None or interaction.message is None:
            return
        unsaved.presses.append(interaction)
        unsaved.events.append(
            InboundEvent(
                event_id=interaction.id,
                place=await self._find_place(interaction.channel_id, interaction.guild_id),
                sender=_make_sender(user),
                message_id=interaction.message.id,
                press=interaction.data.custom_id,
                at=time_of_id(int(interaction.id)),
            )
        )

    async def _handle_command(
        self, interaction: DiscordInteraction, user: DiscordUser, unsaved: UnsavedDiscordEvents
    ) -> None:
        """Read a command of the menu as the same line that somebody has typed."""
        unsaved.presses.append(interaction)
        unsaved.events.append(
            InboundEvent(
                event_id=interaction.id,
                place=await self._find_place(interaction.channel_id, interaction.guild_id),
                sender=_make_sender(user),
                text=format_command(interaction),
                mentioned=True,
                at=time_of_id(int(interaction.id)),
            )
        )

    def _learn_guild(self, guild: DiscordGuild, unsaved: UnsavedDiscordEvents) -> None:
        """Learn a server's channels, and the roles by which the bot is addressed there."""
        for one in guild.threads + guild.channels:
            one.guild_id = guild.id
        self._learn_channels(guild.threads + guild.channels)
        roles = {one.id for one in guild.roles if one.tags is not None and one.tags.bot_id == self.me}
        roles |= {role for one in guild.members if one.user and one.user.id == self.me for role in one.roles}
        self._add_roles(roles, unsaved)

    def _learn_member_roles(self, member: DiscordMember, unsaved: UnsavedDiscordEvents) -> None:
        if member.user is not None and member.user.id == self.me:
            self._add_roles(set(member.roles), unsaved)

    def _add_roles(self, roles: Iterable[str], unsaved: UnsavedDiscordEvents) -> None:
        known = self._roles if unsaved.roles is None else unsaved.roles
        every = " ".join(sorted({*known.split(), *roles})[:MAX_REMEMBERED])
        if every != known:
            unsaved.roles = every

    def _learn_channels(self, channels: Sequence[DiscordChannel]) -> None:
        if len(self._channels) + len(channels) > MAX_KNOWN_CHANNELS:
            self._channels.clear()
        self._channels |= {one.id: one for one in channels}

    async def _find_place(self, channel: str, guild: str | None) -> Place:
        if not guild:
            return Place(self._context.name, channel)
        if channel not in self._channels:
            try:
                self._learn_channels(
                    [
                        decode_response(
                            await self._client.call_api("GET", f"channels/{channel}"), DiscordChannel, "Discord"
                        )
                    ]
                )
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise
                self._learn_channels([DiscordChannel(channel)])
        known = self._channels[channel]
        kind = ChatKind.CHANNEL if known.type in (5, 10) else ChatKind.GROUP
        if known.is_thread and known.parent_id:
            return Place(self._context.name, known.parent_id, channel, kind, known.name or "")
        return Place(self._context.name, channel, "", kind, known.name or "")


def format_command(interaction: DiscordInteraction) -> str:
    """Return the line that a command of the menu stands for."""
    data = interaction.data
    if data is None:
        return ""
    behind = next((str(one.value) for one in data.options if one.name == COMMAND_OPTION), "")
    return f"/{data.name} {behind}".rstrip()


def format_cursors(unsaved: UnsavedDiscordEvents) -> tuple[tuple[str, str], ...]:
    """Return the cursors to store with these events; the sequence comes first."""
    found = [("sequence", str(unsaved.sequence))]
    found += [(f"channel:{name}", f"{one.newest} {one.guild}".rstrip()) for name, one in unsaved.newest.items()]
    if unsaved.roles is not None:
        found.append(("roles", unsaved.roles))
    return tuple(found)


def first_id_at(at: float) -> int:
    """Return the smallest id of a message written at this time."""
    return max(0, int((at - DISCORD_EPOCH) * 1000)) << 22


def time_of_id(number: int) -> float:
    """Return the time at which the message with this id was written."""
    return (number >> 22) / 1000 + DISCORD_EPOCH


def _parse_positions(cursors: Mapping[str, str]) -> dict[str, ChannelPosition]:
    found: dict[str, ChannelPosition] = {}
    for name, value in cursors.items():
        newest, _, guild = value.partition(" ")
        if name.startswith("channel:") and newest.isdigit():
            found[name.removeprefix("channel:")] = ChannelPosition(int(newest), guild)
    return found


def _make_sender(user: DiscordUser, *, webhook: bool = False) -> Sender:
    return Sender(user.id, user.global_name or user.username, bot=user.bot or webhook)


def _make_attachments(message: DiscordMessage) -> tuple[Attachment, ...]:
    files = [*message.attachments, *(file for one in message.message_snapshots for file in one.message.attachments)]
    return tuple(_make_attachment(file, message.flags) for file in files)


def _make_attachment(file: DiscordFile, flags: int) -> Attachment:
    media_type = (file.content_type or "").partition(";")[0]
    kind = MediaKind.VOICE if flags & VOICE_FLAG else _MEDIA_KINDS.get(media_type.partition("/")[0], MediaKind.DOCUMENT)
    return Attachment(kind, file.filename, media_type, file.size, ref=file.url)


def _make_reply(message: DiscordMessage | None, me: str) -> Reply | None:
    if message is None:
        return None
    author = message.author
    return Reply(message.id, message.content, author.global_name or author.username, own=author.id == me)


def _clean_text(message: DiscordMessage, me: str, roles: Sequence[str]) -> str:
    """Return a message's text with people's names in it, without the bot's mention at its beginning."""
    text = "\n".join([message.content, *(one.message.content for one in message.message_snapshots)]).strip()
    calls = [f"<@{me}>", f"<@!{me}>", *(f"<@&{role}>" for role in roles)]
    while call := next((one for one in calls if text.startswith(one)), ""):
        text = text.removeprefix(call).lstrip(" ,:\n")
    for one in message.mentions:
        text = text.replace(f"<@{one.id}>", f"@{one.username}").replace(f"<@!{one.id}>", f"@{one.username}")
    stickers = [f"[sticker: {one.name}]" for one in message.sticker_items]
    return "\n".join([text, *stickers] if text else stickers)


COMMAND_TYPE = 2
"""The type of an interaction that calls a command of the menu."""
COMMAND_OPTION = "text"
"""The name of the option that holds what is typed behind a command."""
_NOTHING_READ = ChannelPosition(0)
_MEDIA_KINDS = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
