"""Turn Slack's events and histories into inbound events; remember people's names and read positions."""

import asyncio
import html
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Sender
from hermes.gateway.http.client import OnceReporter, SeenEvents, decode_json, decode_response, describe_error
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.gateway.platforms.slack.api import (
    SlackClient,
    SlackCommand,
    SlackEventPayload,
    SlackEventType,
    SlackFile,
    SlackFrame,
    SlackHistoryPage,
    SlackInteraction,
    SlackMessage,
    SlackUserResponse,
)
from hermes.i18n.messages import N_

PAGE_SIZE = 100
"""Messages read at most per channel or thread when missed messages are read."""
MISSED_SECONDS = 6 * 3600.0
"""How far back missed messages are read."""
MAX_MISSED_LANES = 40
"""Channels and threads that are checked for missed messages at most, the most recently active first.

Slack allows fifty calls a minute.
"""
FORGET_AFTER_SECONDS = 7 * 24 * 3600.0
"""After this time without a message a thread is not checked for missed messages any more."""
MAX_KNOWN_PEOPLE = 2_000
"""People whose names are remembered at most."""
NAME_SECONDS = 2.0
"""How long to wait for a name: an event has to be acknowledged within three seconds."""
NAME_RETRY_SECONDS = 60.0
WRITTEN_SUBTYPES = (None, "file_share", "thread_broadcast", "bot_message", "me_message")
"""Subtypes of messages that somebody writes."""


class UnsavedSlackEvents(Struct):
    """What was read from Slack and is not on disk yet."""

    events: list[InboundEvent] = []
    newest: dict[str, str] = {}
    """The newest message read, by channel, or by channel and thread with a colon between."""
    envelopes: list[str] = []


class SlackEventReader:
    """Reads Slack's events and histories.

    Results go into an `UnsavedSlackEvents`; the reader's positions move on only by `mark_saved`.
    """

    def __init__(self, client: SlackClient, context: PlatformContext, *, in_thread: bool) -> None:
        self._client = client
        self._context = context
        self._in_thread = in_thread
        self.me = ""
        self.bot = ""
        self.positions = _parse_positions(context.cursors)
        self._names: dict[str, tuple[str, bool]] = {}
        self._names_paused_until = 0.0
        """Monotonic time before which no name is asked for, because Slack did not answer in time."""
        self._seen = SeenEvents()
        self.report_once = OnceReporter(context.report)

    def mark_saved(self, unsaved: UnsavedSlackEvents) -> None:
        """Move the positions on: these events are on disk."""
        self.positions |= unsaved.newest
        self._seen.add_events(unsaved.events)

    async def handle_event(self, frame: SlackFrame, unsaved: UnsavedSlackEvents) -> None:
        """Read one envelope; an unreadable one is reported, skipped and still acknowledged."""
        if frame.envelope_id:
            unsaved.envelopes.append(frame.envelope_id)
        try:
            match frame.type:
                case "events_api":
                    raw = decode_json(frame.payload, SlackEventPayload).event
                    if decode_json(raw, SlackEventType).type in ("message", "app_mention"):
                        await self.handle_message(decode_json(raw, SlackMessage), unsaved)
                case "interactive":
                    self._handle_press(decode_json(frame.payload, SlackInteraction), unsaved)
                case "slash_commands":
                    self._handle_command(decode_json(frame.payload, SlackCommand), unsaved)
                case _:
                    pass
        except (msgspec.DecodeError, ValueError) as error:
            said = N_(
                "Slack sent {kind} that cannot be read: {error}",
                kind=describe_error(frame.type),
                error=describe_error(error),
            )
            self.report_once(frame.type, said)

    async def handle_message(self, message: SlackMessage, unsaved: UnsavedSlackEvents) -> None:
        """Add a message to the unsaved events."""
        at = float(message.ts)
        event_id = f"{message.channel}:{message.ts}"
        if self._is_own(message) or not message.channel or self._seen.has_event(event_id, unsaved.events):
            return
        lane = f"{message.channel}:{message.thread_ts}" if _is_in_thread(message) else message.channel
        if at > float(unsaved.newest.get(lane) or self.positions.get(lane) or 0):
            unsaved.newest[lane] = message.ts
        place = self._make_place(message)
        text = message.text or ""
        unsaved.events.append(
            InboundEvent(
                event_id=event_id,
                place=place,
                sender=await self._make_sender(message),
                text=await self._clean_text(text),
                message_id=message.ts,
                attachments=tuple(_make_attachment(one) for one in message.files),
                mentioned=f"<@{self.me}>" in text or (_is_in_thread(message) and message.parent_user_id == self.me),
                at=at,
            )
        )

    def _is_own(self, message: SlackMessage) -> bool:
        """Return whether the message is the bot's own or written by nobody: joining a channel is a message, too."""
        by_bot = bool(message.bot_id) and message.bot_id == self.bot
        return by_bot or message.user == self.me or message.subtype not in WRITTEN_SUBTYPES

    def _make_place(self, message: SlackMessage) -> Place:
        direct = message.channel_type == "im" or (not message.channel_type and message.channel.startswith("D"))
        thread = message.thread_ts or ""
        if not thread and not direct and self._in_thread:
            thread = message.ts
        return Place(self._context.name, message.channel, thread, ChatKind.DM if direct else ChatKind.GROUP)

    def _handle_press(self, interaction: SlackInteraction, unsaved: UnsavedSlackEvents) -> None:
        if interaction.type != "block_actions":
            return
        where = interaction.container
        for action in interaction.actions:
            if action.type != "button" or not where.channel_id:
                continue
            kind = ChatKind.DM if where.channel_id.startswith("D") else ChatKind.GROUP
            inbound_event = InboundEvent(
                event_id=f"{where.channel_id}:{where.message_ts}:{action.action_ts}:{interaction.user.id}",
                place=Place(self._context.name, where.channel_id, where.thread_ts, kind),
                sender=Sender(interaction.user.id, interaction.user.username or interaction.user.name),
                message_id=where.message_ts,
                press=action.value or action.action_id,
                at=float(action.action_ts or 0),
            )
            unsaved.events.append(inbound_event)

    def _handle_command(self, command: SlackCommand, unsaved: UnsavedSlackEvents) -> None:
        text = command.text if command.command == "/hermes" else f"{command.command} {command.text}".strip()
        kind = ChatKind.DM if command.channel_id.startswith("D") else ChatKind.GROUP
        inbound_event = InboundEvent(
            event_id=f"command:{command.trigger_id}",
            place=Place(self._context.name, command.channel_id, "", kind, command.channel_name),
            sender=Sender(command.user_id, command.user_name),
            text=html.unescape(text),
            mentioned=True,
            at=self._context.clock.now(),
        )
        unsaved.events.append(inbound_event)

    # People.

    async def _make_sender(self, message: SlackMessage) -> Sender:
        if message.user:
            name, bot = await self._find_name(message.user)
            return Sender(message.user, name, bot=bot or bool(message.bot_id))
        return Sender(message.bot_id or "?", message.username or "", bot=True)

    async def _find_name(self, user: str) -> tuple[str, bool]:
        """Return a person's name, and whether it is a bot. The name is empty while Slack does not answer."""
        if user not in self._names:
            now = self._context.clock.monotonic()
            if now < self._names_paused_until:
                return "", False
            try:
                person = (
                    await self._client.call_method("users.info", SlackUserResponse, {"user": user}, limit=NAME_SECONDS)
                ).user
            except PlatformRefusedError:
                raise
            except PlatformError:
                self._names_paused_until = now + NAME_RETRY_SECONDS
                return "", False
            if len(self._names) >= MAX_KNOWN_PEOPLE:
                self._names.clear()
            self._names[user] = (person.profile.display_name or person.profile.real_name or person.name, person.is_bot)
        return self._names[user]

    async def _clean_text(self, text: str) -> str:
        """Return a message's text without Slack's markup, with people's names and the links' addresses.

        The bot's mention at the beginning is left out.
        """
        text = text.strip()
        while text.startswith(f"<@{self.me}>"):
            text = text.removeprefix(f"<@{self.me}>").lstrip(" ,:\n")
        people = sorted(set(_PERSON_MARKUP.findall(text)))[:20]
        names = dict(zip(people, await asyncio.gather(*map(self._find_name, people)), strict=True))

        return html.unescape(_MARKUP.sub(lambda match: _render_markup(match[1], names), text))

    # What was missed.

    def recent_lanes(self) -> list[tuple[str, str]]:
        """Return channels and threads with the newest message read in each, the most recently active first."""
        return sorted(self.positions.items(), key=lambda one: -float(one[1]))[:MAX_MISSED_LANES]

    def forget_old_threads(self) -> tuple[tuple[str, str], ...]:
        """Drop threads without messages for a long time; return the cursors that delete them from the store."""
        limit = self._context.clock.now() - FORGET_AFTER_SECONDS
        old = [lane for lane, ts in self.positions.items() if ":" in lane and float(ts) < limit]
        for lane in old:
            del self.positions[lane]
        return tuple((f"lane:{lane}", "") for lane in old)

    async def fetch_missed(self, lane: str, newest: str, unsaved: UnsavedSlackEvents) -> None:
        """Add what was written after a message in a channel or thread to the unsaved events."""
        channel, _, thread = lane.partition(":")
        oldest = max(float(newest), self._context.clock.now() - MISSED_SECONDS)
        try:
            page = await self.fetch_page(channel, thread, oldest, "")
        except SendError as error:
            if error.fault in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                return
            raise
        found = [
            one for one in self.decode_messages(page) if float(one.ts) > oldest and (not thread or one.ts != thread)
        ]
        for one in sorted(found, key=lambda one: float(one.ts)):
            one.channel = channel
            await self.handle_message(one, unsaved)
        if page.response_metadata is not None and page.response_metadata.next_cursor:
            said = N_(
                "More than {n} messages were missed in {channel}; the others are not read.",
                n=PAGE_SIZE,
                channel=channel,
            )
            self._context.report(said)

    async def fetch_page(self, channel: str, thread: str, oldest: float, cursor: str) -> SlackHistoryPage:
        """Fetch one page of a channel's or thread's history after a time."""
        arguments: dict[str, object] = {"channel": channel, "oldest": f"{oldest:.6f}", "limit": PAGE_SIZE}
        arguments["include_all_metadata"] = True
        if cursor:
            arguments["cursor"] = cursor
        if thread:
            arguments["ts"] = thread
        return await self._client.call_method(
            "conversations.replies" if thread else "conversations.history", SlackHistoryPage, arguments
        )

    def decode_messages(self, page: SlackHistoryPage) -> list[SlackMessage]:
        """Return the readable messages of a page."""
        found: list[SlackMessage] = []
        for raw in page.messages:
            try:
                message = decode_response(raw, SlackMessage, "Slack")
                float(message.ts)
            except (PlatformError, ValueError) as error:
                self.report_once(
                    "history",
                    N_("A message in Slack's history cannot be read: {error}", error=describe_error(error)),
                )
            else:
                found.append(message)
        return found


def format_cursors(unsaved: UnsavedSlackEvents) -> tuple[tuple[str, str], ...]:
    """Return the cursors to store with these events."""
    return tuple((f"lane:{lane}", ts) for lane, ts in unsaved.newest.items())


def _parse_positions(stored: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("lane:"): value for name, value in stored.items() if name.startswith("lane:") and value}


def _is_in_thread(message: SlackMessage) -> bool:
    """Return whether a message was written in a thread; the message that begins the thread is not."""
    return message.thread_ts not in (None, "", message.ts)


def _render_markup(mark: str, names: Mapping[str, tuple[str, bool]]) -> str:
    """Return the content of Slack's angle brackets as people read it."""
    said, _, label = mark.partition("|")
    match said[:1]:
        case "@":
            return "@" + (names.get(said[1:], ("", False))[0] or label or said[1:])
        case "#":
            return "#" + (label or said[1:])
        case "!":
            return "@" + said[1:] if said in ("!here", "!channel", "!everyone") else label or said[1:]
    return f"{label} ({said})" if label and label != said.removeprefix("mailto:") else label or said


def _make_attachment(file: SlackFile) -> Attachment:
    kind = _MEDIA_KINDS.get((file.mimetype or "").partition("/")[0], MediaKind.DOCUMENT)
    if file.subtype == "slack_audio":
        kind = MediaKind.VOICE
    problem = ""
    if file.is_external or not (file.url_private_download or file.url_private):
        problem = N_("the file is not on Slack")
    return Attachment(
        kind,
        file.name or file.id,
        file.mimetype or "",
        file.size,
        ref="" if problem else file.url_private_download or file.url_private,
        problem=problem,
    )


_PERSON_MARKUP = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_MARKUP = re.compile(r"<([@#!]?[^<>\n]+)>")
_MEDIA_KINDS = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
