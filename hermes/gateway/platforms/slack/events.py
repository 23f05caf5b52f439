"""What happens on Slack, as arrivals, and what has to be known for that: people's names, and what was read last."""

import asyncio
import html
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Sender
from hermes.gateway.http.errors import describe_error
from hermes.gateway.http.json_values import SeenEvents, decode_json
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.gateway.platforms.slack.api import (
    Command,
    Event,
    File,
    Frame,
    Happened,
    Known,
    Message,
    Page,
    Pressed,
    Web,
    decoded,
)
from hermes.i18n.messages import phrase

PAGE = 100
"""Messages that are read at most of what was missed in a channel or thread."""
MISSED_SECONDS = 6 * 3600.0
"""How far back what was missed is read."""
LANES = 40
"""Channels and threads in which it is looked for, those first in which something was said last.

Slack allows fifty calls a minute."""
FORGOTTEN_SECONDS = 7 * 24 * 3600.0
"""After how long a thread is not looked into any more."""
PEOPLE = 2_000
"""People whose names are known at most."""
TOLD = 50
NAME_SECONDS = 2.0
"""How long a name is waited for: an event has to be acknowledged within three seconds."""
NAMELESS_SECONDS = 60.0
SAID = (None, "file_share", "thread_broadcast", "bot_message", "me_message")
"""Kinds of messages that somebody says."""


class Work(Struct):
    """What was read and is not on disk yet."""

    arrivals: list[InboundEvent] = []
    newest: dict[str, str] = {}
    """By channel, or channel and thread with a colon between: the message that was read last."""
    envelopes: list[str] = []


class News:
    """Reads events and histories. What it reads goes into a `Work`; what it knows moves on by `done` only."""

    def __init__(self, web: Web, around: PlatformContext, *, in_thread: bool) -> None:
        self._web = web
        self._around = around
        self._in_thread = in_thread
        self.me = ""
        self.bot = ""
        self.known = _stored(around.cursors)
        self._names: dict[str, tuple[str, bool]] = {}
        self._nameless = 0.0
        """Until when (monotonic) nobody's name is asked for, because Slack did not say one in time."""
        self._seen = SeenEvents()
        self._told: set[str] = set()

    def done(self, work: Work) -> None:
        """It is on disk: go on from there."""
        self.known |= work.newest
        self._seen.add_events(work.arrivals)

    def tell(self, kind: str, line: str) -> None:
        """Say that something cannot be read: once of each kind."""
        if kind not in self._told and len(self._told) < TOLD:
            self._told.add(kind)
            self._around.report(line)

    async def happened(self, frame: Frame, work: Work) -> None:
        """Take up an envelope; one that cannot be read is told, passed over and acknowledged all the same."""
        if frame.envelope_id:
            work.envelopes.append(frame.envelope_id)
        try:
            match frame.type:
                case "events_api":
                    raw = decode_json(frame.payload, Event).event
                    if decode_json(raw, Happened).type in ("message", "app_mention"):
                        await self.heard(decode_json(raw, Message), work)
                case "interactive":
                    self._pressed(decode_json(frame.payload, Pressed), work)
                case "slash_commands":
                    self._commanded(decode_json(frame.payload, Command), work)
                case _:
                    pass
        except (msgspec.DecodeError, ValueError) as error:
            said = phrase(
                "Slack sent {kind} that cannot be read: {error}",
                kind=describe_error(frame.type),
                error=describe_error(error),
            )
            self.tell(frame.type, said)

    async def heard(self, message: Message, work: Work) -> None:
        """Take up a message."""
        at = float(message.ts)
        event_id = f"{message.channel}:{message.ts}"
        if self._is_own(message) or not message.channel or self._seen.has_event(event_id, work.arrivals):
            return
        lane = f"{message.channel}:{message.thread_ts}" if _inside(message) else message.channel
        if at > float(work.newest.get(lane) or self.known.get(lane) or 0):
            work.newest[lane] = message.ts
        place = self._place(message)
        text = message.text or ""
        work.arrivals.append(
            InboundEvent(
                event_id=event_id,
                place=place,
                sender=await self._sender(message),
                text=await self._words(text),
                message_id=message.ts,
                attachments=tuple(_attachment(one) for one in message.files),
                mentioned=f"<@{self.me}>" in text or (_inside(message) and message.parent_user_id == self.me),
                at=at,
            )
        )

    def _is_own(self, message: Message) -> bool:
        """Whether the bot said it, or nobody: joining a channel is a message, too."""
        by_bot = bool(message.bot_id) and message.bot_id == self.bot
        return by_bot or message.user == self.me or message.subtype not in SAID

    def _place(self, message: Message) -> Place:
        direct = message.channel_type == "im" or (not message.channel_type and message.channel.startswith("D"))
        thread = message.thread_ts or ""
        if not thread and not direct and self._in_thread:
            thread = message.ts
        return Place(self._around.name, message.channel, thread, ChatKind.DM if direct else ChatKind.GROUP)

    def _pressed(self, pressed: Pressed, work: Work) -> None:
        if pressed.type != "block_actions":
            return
        where = pressed.container
        for action in pressed.actions:
            if action.type != "button" or not where.channel_id:
                continue
            kind = ChatKind.DM if where.channel_id.startswith("D") else ChatKind.GROUP
            arrival = InboundEvent(
                event_id=f"{where.channel_id}:{where.message_ts}:{action.action_ts}:{pressed.user.id}",
                place=Place(self._around.name, where.channel_id, where.thread_ts, kind),
                sender=Sender(pressed.user.id, pressed.user.username or pressed.user.name),
                message_id=where.message_ts,
                press=action.value or action.action_id,
                at=float(action.action_ts or 0),
            )
            work.arrivals.append(arrival)

    def _commanded(self, command: Command, work: Work) -> None:
        text = command.text if command.command == "/hermes" else f"{command.command} {command.text}".strip()
        kind = ChatKind.DM if command.channel_id.startswith("D") else ChatKind.GROUP
        arrival = InboundEvent(
            event_id=f"command:{command.trigger_id}",
            place=Place(self._around.name, command.channel_id, "", kind, command.channel_name),
            sender=Sender(command.user_id, command.user_name),
            text=html.unescape(text),
            mentioned=True,
            at=self._around.clock.now(),
        )
        work.arrivals.append(arrival)

    # People.

    async def _sender(self, message: Message) -> Sender:
        if message.user:
            name, bot = await self._name(message.user)
            return Sender(message.user, name, bot=bot or bool(message.bot_id))
        return Sender(message.bot_id or "?", message.username or "", bot=True)

    async def _name(self, user: str) -> tuple[str, bool]:
        """A person's name, and whether it is a program. Not known now: no name."""
        if user not in self._names:
            now = self._around.clock.monotonic()
            if now < self._nameless:
                return "", False
            try:
                person = (await self._web.call("users.info", Known, {"user": user}, limit=NAME_SECONDS)).user
            except PlatformRefusedError:
                raise
            except PlatformError:
                self._nameless = now + NAMELESS_SECONDS
                return "", False
            if len(self._names) >= PEOPLE:
                self._names.clear()
            self._names[user] = (person.profile.display_name or person.profile.real_name or person.name, person.is_bot)
        return self._names[user]

    async def _words(self, text: str) -> str:
        """What is said, without Slack's markup: people by their names, links as they lead.

        How the bot is addressed at the beginning is left out.
        """
        text = text.strip()
        while text.startswith(f"<@{self.me}>"):
            text = text.removeprefix(f"<@{self.me}>").lstrip(" ,:\n")
        people = sorted(set(_PERSON.findall(text)))[:20]
        names = dict(zip(people, await asyncio.gather(*map(self._name, people)), strict=True))

        return html.unescape(_MARK.sub(lambda match: _shown(match[1], names), text))

    # What was missed.

    def lanes(self) -> list[tuple[str, str]]:
        """Channels and threads with the message that was read last in each, the most lively ones first."""
        return sorted(self.known.items(), key=lambda one: -float(one[1]))[:LANES]

    def forget(self) -> tuple[tuple[str, str], ...]:
        """Threads in which nothing was said for long are not looked into any more: what is stored of them instead."""
        limit = self._around.clock.now() - FORGOTTEN_SECONDS
        old = [lane for lane, ts in self.known.items() if ":" in lane and float(ts) < limit]
        for lane in old:
            del self.known[lane]
        return tuple((f"lane:{lane}", "") for lane in old)

    async def missed(self, lane: str, newest: str, work: Work) -> None:
        """Take up what was said after a message in a channel or thread."""
        channel, _, thread = lane.partition(":")
        oldest = max(float(newest), self._around.clock.now() - MISSED_SECONDS)
        try:
            page = await self.page(channel, thread, oldest, "")
        except SendError as error:
            if error.fault in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                return
            raise
        found = [one for one in self.messages(page) if float(one.ts) > oldest and (not thread or one.ts != thread)]
        for one in sorted(found, key=lambda one: float(one.ts)):
            one.channel = channel
            await self.heard(one, work)
        if page.response_metadata is not None and page.response_metadata.next_cursor:
            said = phrase(
                "More than {n} messages were missed in {channel}; the others are not read.", n=PAGE, channel=channel
            )
            self._around.report(said)

    async def page(self, channel: str, thread: str, oldest: float, cursor: str) -> Page:
        """A part of a channel's or thread's history after a time."""
        wanted: dict[str, object] = {"channel": channel, "oldest": f"{oldest:.6f}", "limit": PAGE}
        wanted["include_all_metadata"] = True
        if cursor:
            wanted["cursor"] = cursor
        if thread:
            wanted["ts"] = thread
        return await self._web.call("conversations.replies" if thread else "conversations.history", Page, wanted)

    def messages(self, page: Page) -> list[Message]:
        """The messages of a page that can be read."""
        found: list[Message] = []
        for raw in page.messages:
            try:
                message = decoded(raw, Message)
                float(message.ts)
            except (PlatformError, ValueError) as error:
                self.tell(
                    "history",
                    phrase("A message in Slack's history cannot be read: {error}", error=describe_error(error)),
                )
            else:
                found.append(message)
        return found


def cursors(work: Work) -> tuple[tuple[str, str], ...]:
    """From where it goes on once this is on disk."""
    return tuple((f"lane:{lane}", ts) for lane, ts in work.newest.items())


def _stored(stored: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix("lane:"): value for name, value in stored.items() if name.startswith("lane:") and value}


def _inside(message: Message) -> bool:
    """Whether it was said in a thread, and not only there where a thread begins."""
    return message.thread_ts not in (None, "", message.ts)


def _shown(mark: str, names: Mapping[str, tuple[str, bool]]) -> str:
    """What stands between Slack's angle brackets, as people read it."""
    said, _, label = mark.partition("|")
    match said[:1]:
        case "@":
            return "@" + (names.get(said[1:], ("", False))[0] or label or said[1:])
        case "#":
            return "#" + (label or said[1:])
        case "!":
            return "@" + said[1:] if said in ("!here", "!channel", "!everyone") else label or said[1:]
    return f"{label} ({said})" if label and label != said.removeprefix("mailto:") else label or said


def _attachment(file: File) -> Attachment:
    kind = _KINDS.get((file.mimetype or "").partition("/")[0], MediaKind.DOCUMENT)
    if file.subtype == "slack_audio":
        kind = MediaKind.VOICE
    problem = ""
    if file.is_external or not (file.url_private_download or file.url_private):
        problem = phrase("the file is not on Slack")
    return Attachment(
        kind,
        file.name or file.id,
        file.mimetype or "",
        file.size,
        ref="" if problem else file.url_private_download or file.url_private,
        problem=problem,
    )


_PERSON = re.compile(r"<@([A-Z0-9]+)(?:\|[^>]*)?>")
_MARK = re.compile(r"<([@#!]?[^<>\n]+)>")
_KINDS = {"image": MediaKind.IMAGE, "audio": MediaKind.AUDIO, "video": MediaKind.VIDEO}
