"""Turn Matrix's sync responses into inbound events; remember the agent's own messages and their buttons.

The rooms that are known: their members, their names, and which are direct chats.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, ChatKind, InboundEvent, MediaKind, Place, Reply, Sender
from hermes.gateway.http.client import Kind, OnceReporter, SeenEvents, decode_json, describe_error
from hermes.gateway.platform import PlatformContext, PlatformError, SendError, SendFault
from hermes.gateway.platforms.matrix.api import (
    V3,
    MatrixClient,
    MatrixContent,
    MatrixEmptyResponse,
    MatrixEvent,
    MatrixHistoryPage,
    MatrixInvitedRoom,
    MatrixJoinedRoom,
    MatrixMembers,
    MatrixProfile,
    MatrixRelation,
    MatrixRoomName,
    MatrixSync,
    MatrixTimeline,
    room_path,
)
from hermes.i18n.messages import N_, tr

MAX_KNOWN_ROOMS = 1_000
"""Rooms whose members are remembered at most."""


class MatrixRoom(Struct):
    """A room's name and members."""

    member_names: dict[str, str] = {}
    """The display names of the members, by user id."""
    name: str = ""


class MatrixRooms:
    """Fetches rooms on first use and keeps them up to date with the events."""

    def __init__(self, client: MatrixClient, context: PlatformContext, decoder: "_LenientDecoder") -> None:
        self._client = client
        self._context = context
        self._decoder = decoder
        self.me = ""
        self._rooms: dict[str, MatrixRoom] = {}
        self._direct_rooms: frozenset[str] = frozenset()

    def clear(self) -> None:
        """Forget the members of every room."""
        self._rooms.clear()

    def forget_room(self, room: str) -> None:
        """Forget a room that the agent has left."""
        self._rooms.pop(room, None)

    async def load_direct_chats(self) -> None:
        """Fetch which rooms are direct chats."""
        self._set_direct_chats(await self._fetch_direct_chats())

    async def mark_direct_chat(self, room: str, person: str) -> None:
        """Store in the account, as clients do, that a room is a direct chat."""
        known = await self._fetch_direct_chats()
        if room not in known.setdefault(person, []):
            known[person].append(room)
            await self._client.call_api("PUT", self._direct_chats_path, MatrixEmptyResponse, known)
        self._set_direct_chats(known)

    def update_direct_chats(self, event: MatrixEvent) -> None:
        """Apply a change of the direct chats that another of the agent's devices made."""
        known = self._decoder.decode(event.content, dict[str, list[str]], "m.direct")
        if known is not None:
            self._set_direct_chats(known)

    async def find_room(self, room: str) -> MatrixRoom:
        """Return a room, fetched on first use."""
        found = self._rooms.get(room)
        if found is None:
            people = await self._client.call_api("GET", room_path(room, "joined_members"), MatrixMembers)
            names = {user: member.display_name or "" for user, member in people.joined.items()}
            try:
                name = (
                    await self._client.call_api("GET", room_path(room, "state", "m.room.name"), MatrixRoomName)
                ).name
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise
                name = ""
            if len(self._rooms) >= MAX_KNOWN_ROOMS:
                self._rooms.clear()
            found = self._rooms[room] = MatrixRoom(names, name)
        return found

    def apply_membership(self, room: str, event: MatrixEvent) -> None:
        """Apply an event by which somebody joins, leaves or changes their name. Raises `msgspec.DecodeError`."""
        known = self._rooms.get(room)
        if event.type != "m.room.member" or known is None or event.state_key is None:
            return
        content = decode_json(event.content, MatrixContent)
        if content.membership == "join":
            known.member_names[event.state_key] = content.displayname or ""
        else:
            known.member_names.pop(event.state_key, None)

    def make_place(self, room: str, known: MatrixRoom, thread: str) -> Place:
        """Return the place for a room, or for a thread in it."""
        direct = room in self._direct_rooms or len(known.member_names) <= 2
        name = known.name or next((name for user, name in known.member_names.items() if direct and user != self.me), "")
        return Place(self._context.name, room, thread, ChatKind.DM if direct else ChatKind.GROUP, name)

    @property
    def _direct_chats_path(self) -> str:
        return f"{V3}/user/{quote(self.me, safe='')}/account_data/m.direct"

    async def _fetch_direct_chats(self) -> dict[str, list[str]]:
        """Return the direct chats by person, as clients store them in the account."""
        try:
            raw = await self._client.call_api("GET", self._direct_chats_path, msgspec.Raw)
        except SendError as error:
            if error.fault is not SendFault.NOT_FOUND:
                raise
            return {}
        return self._decoder.decode(raw, dict[str, list[str]], "m.direct") or {}

    def _set_direct_chats(self, known: dict[str, list[str]]) -> None:
        self._direct_rooms = frozenset(room for rooms in known.values() for room in rooms)


PAGE_SIZE = 100
MAX_GAP_PAGES = 5
"""Pages of a room's history that are read at most to fill a gap between two syncs."""
MAX_KNOWN_MESSAGES = 2_000
"""The agent's own messages that are remembered at most."""
BUTTON_REACTIONS = (
    *(f"{digit}\ufe0f\u20e3" for digit in "123456789"),
    "🔟",
    *(chr(0x1F1E6 + one) for one in range(26)),
)
"""The reactions that stand for buttons, in order."""
_MEDIA_KINDS = {
    "m.image": MediaKind.IMAGE,
    "m.audio": MediaKind.AUDIO,
    "m.video": MediaKind.VIDEO,
    "m.file": MediaKind.DOCUMENT,
}
_TEXT_TYPES = ("m.text", "m.emote", "m.notice", "m.location")
_COMMAND_PREFIX = re.compile(r"!(?=[a-z][\w-]*(?:\s|$))")


class UnsavedMatrixEvents(Struct):
    """What was read from Matrix and is not on disk yet."""

    events: list[InboundEvent] = []
    newest: dict[str, tuple[str, str]] = {}
    """By room, the id and the sender of the newest message read."""
    cursors: dict[str, str] = {}


class KnownMatrixMessage(Struct, frozen=True):
    """What is known of a message: its text, thread, button tokens and author."""

    text: str = ""
    thread: str = ""
    tokens: tuple[str, ...] = ()
    author: str = ""


class MatrixEventReader:
    """Reads sync responses.

    Results go into an `UnsavedMatrixEvents`; only `mark_saved` makes the reader count them as seen.
    """

    def __init__(self, client: MatrixClient, context: PlatformContext, invitation_policy: str) -> None:
        self._client = client
        self._context = context
        self._invitation_policy = invitation_policy
        self.me = ""
        self._display_name = ""
        self.report_once = OnceReporter(context.report)
        self._decoder = _LenientDecoder(self.report_once)
        self._rooms = MatrixRooms(client, context, self._decoder)
        self._known_messages: dict[str, KnownMatrixMessage] = {}
        self._seen = SeenEvents()
        self._name_pattern: re.Pattern[str] | None = None

    async def learn_own_names(self, user: str) -> None:
        """Learn the names by which people address the agent, and which rooms are direct chats."""
        self.me = user
        self._rooms.me = user
        self._rooms.clear()
        try:
            profile = await self._client.call_api("GET", f"{V3}/profile/{quote(user, safe='')}", MatrixProfile)
            self._display_name = profile.displayname or ""
        except SendError as error:
            if error.fault is not SendFault.NOT_FOUND:
                raise
        await self._rooms.load_direct_chats()
        names = [re.escape(one) for one in (self._display_name, user, user.partition(":")[0]) if one]
        self._name_pattern = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", re.IGNORECASE)

    def mark_saved(self, unsaved: UnsavedMatrixEvents) -> None:
        """Count these events as seen: they are on disk."""
        self._seen.add_events(unsaved.events)

    def remember_message(self, event_id: str, message: KnownMatrixMessage) -> None:
        """Remember a message that the agent sent or changed."""
        self._known_messages.pop(event_id, None)
        self._known_messages[event_id] = message
        if len(self._known_messages) > MAX_KNOWN_MESSAGES:
            del self._known_messages[next(iter(self._known_messages))]

    async def handle_sync(self, sync: MatrixSync, since: str, unsaved: UnsavedMatrixEvents) -> None:
        """Read a sync response; without `since` only memberships and invitations."""
        for event in self._decode_events(sync.account_data.events):
            if event.type == "m.direct":
                self._rooms.update_direct_chats(event)
        for room in sync.rooms.leave:
            self._rooms.forget_room(room)
        for room, raw in sync.rooms.invite.items():
            await self._handle_invitation(room, raw)
        for room, raw in sync.rooms.join.items():
            joined = self._decoder.decode(raw, MatrixJoinedRoom, room)
            if joined is None:
                continue
            for event in self._decode_events(joined.state.events):
                self._handle_state(room, event)
            if since:
                await self._handle_timeline(room, joined.timeline, since, unsaved)

    # Rooms.

    async def _handle_invitation(self, room: str, raw: msgspec.Raw) -> None:
        invited = self._decoder.decode(raw, MatrixInvitedRoom, room)
        for event in self._decode_events(invited.invite_state.events if invited is not None else ()):
            content = self._decode_content(event)
            if event.type != "m.room.member" or event.state_key != self.me or content is None:
                continue
            if content.membership != "invite" or not await self._can_invite(event.sender):
                continue
            try:
                await self._client.call_api("POST", room_path(room, "join"), MatrixEmptyResponse, {})
                if content.is_direct:
                    await self._rooms.mark_direct_chat(room, event.sender)
            except SendError as error:
                self.report_once(
                    f"join {room}",
                    N_(
                        "Matrix: the room {room} cannot be joined: {error}", room=describe_error(room), error=str(error)
                    ),
                )

    async def _can_invite(self, sender: str) -> bool:
        if self._invitation_policy != "people":
            return self._invitation_policy == "all"
        return self._context.is_known_sender is not None and await self._context.is_known_sender(sender)

    # What was said.

    async def _handle_timeline(
        self, room: str, timeline: MatrixTimeline, since: str, unsaved: UnsavedMatrixEvents
    ) -> None:
        events = list(self._decode_events(timeline.events))
        begun = self._find_join(events)
        if begun is not None:
            events = events[begun:]
        elif timeline.limited and timeline.prev_batch:
            events = [*await self._fetch_gap(room, timeline.prev_batch, since), *events]
        for event in events:
            try:
                await self._handle_event(room, event, unsaved)
            except msgspec.DecodeError as error:
                self._decoder.report_unreadable(event.type, error)

    def _find_join(self, events: list[MatrixEvent]) -> int | None:
        """Return where a room's events begin to concern the agent: its invitation or join.

        None if the agent was in the room before.
        """
        found: int | None = None
        for number, event in enumerate(events):
            if event.type == "m.room.member" and event.state_key == self.me:
                content = self._decode_content(event)
                before = event.unsigned.prev_content if event.unsigned is not None else None
                if content is not None and content.membership == "invite":
                    found = number
                elif found is None and content is not None and content.membership == "join":
                    found = None if before is not None and before.membership == "join" else number
        return found

    async def _fetch_gap(self, room: str, before: str, since: str) -> list[MatrixEvent]:
        """Fetch the messages between two syncs that did not fit into the later one."""
        found: list[MatrixEvent] = []
        place = before
        for _ in range(MAX_GAP_PAGES):
            query = {"from": place, "to": since, "dir": "b", "limit": str(PAGE_SIZE)}
            try:
                page = await self._client.call_api("GET", room_path(room, "messages"), MatrixHistoryPage, query=query)
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise
                break
            found += self._decode_events(page.chunk)
            if not page.end or not page.chunk or page.end == place:
                break
            place = page.end
        else:
            said = N_(
                "More than {n} messages were missed in {channel}; the others are not read.",
                n=PAGE_SIZE * MAX_GAP_PAGES,
                channel=describe_error(room),
            )
            self._context.report(said)
        return found[::-1]

    async def _handle_event(self, room: str, event: MatrixEvent, unsaved: UnsavedMatrixEvents) -> None:
        match event.type:
            case "m.room.message":
                await self._handle_message(room, event, unsaved)
            case "m.reaction":
                await self._handle_reaction(room, event, unsaved)
            case "m.room.encrypted":
                await self._handle_encrypted(room, event, unsaved)
            case _:
                self._rooms.apply_membership(room, event)

    def _handle_state(self, room: str, event: MatrixEvent) -> None:
        try:
            self._rooms.apply_membership(room, event)
        except msgspec.DecodeError as error:
            self._decoder.report_unreadable(event.type, error)

    async def _handle_message(self, room: str, event: MatrixEvent, unsaved: UnsavedMatrixEvents) -> None:
        content = decode_json(event.content, MatrixContent)
        if not self._is_new_message(event, content) or self._seen.has_event(event.event_id, unsaved.events):
            return
        known = await self._rooms.find_room(room)
        reply = await self._find_reply(room, content)
        body = _strip_quote(content.body) if reply is not None else content.body
        file = _make_attachment(content)
        if file is not None and (not content.filename or content.filename == content.body):
            body = ""
        text, called = self._clean_text(body, content)
        unsaved.newest[room] = (event.event_id, event.sender)
        unsaved.events.append(
            InboundEvent(
                event_id=event.event_id,
                message_id=event.event_id,
                place=self._rooms.make_place(room, known, _thread_id(content.relates_to)),
                sender=Sender(
                    event.sender, known.member_names.get(event.sender, ""), bot=content.msgtype == "m.notice"
                ),
                text=f"{content.body}\n{content.geo_uri}" if content.msgtype == "m.location" else text,
                attachments=(file,) if file is not None else (),
                reply=reply,
                mentioned=called,
                at=event.origin_server_ts / 1000,
            )
        )

    def _is_new_message(self, event: MatrixEvent, content: MatrixContent) -> bool:
        """Return whether somebody else wrote something new."""
        edited = content.relates_to is not None and content.relates_to.rel_type == "m.replace"
        of_kind = content.msgtype in _MEDIA_KINDS or content.msgtype in _TEXT_TYPES
        return of_kind and not edited and bool(event.event_id) and event.sender != self.me

    def _clean_text(self, body: str, content: MatrixContent) -> tuple[str, bool]:
        """Return a message's text without a mention at its beginning, and whether the agent was mentioned."""
        match = self._name_pattern.search(body) if self._name_pattern is not None else None
        called = match is not None or quote(self.me) in content.formatted_body
        if content.mentions is not None and content.mentions.user_ids:
            called = self.me in content.mentions.user_ids
        if match is not None and called and not body[: match.start()].strip(" @"):
            body = body[match.end() :].lstrip(" ,:\n")
        return _COMMAND_PREFIX.sub("/", body) if _COMMAND_PREFIX.match(body) else body, called

    async def _find_reply(self, room: str, content: MatrixContent) -> Reply | None:
        related = content.relates_to
        if related is None or related.in_reply_to is None or related.is_falling_back:
            return None
        event_id = related.in_reply_to.event_id
        own = await self.find_message(room, event_id)
        return Reply(event_id, own.text, own.author, own=own.author == self.me)

    async def find_message(self, room: str, event_id: str) -> KnownMatrixMessage:
        """Return what is known of a message; an empty value when it cannot be fetched."""
        found = self._known_messages.get(event_id)
        if found is not None:
            return found
        try:
            event = await self._client.call_api("GET", room_path(room, "event", event_id), MatrixEvent)
            content = decode_json(event.content, MatrixContent)
        except SendError as error:
            if error.fault in (SendFault.TRANSIENT, SendFault.RATE_LIMITED):
                raise
            return KnownMatrixMessage()
        except (PlatformError, msgspec.DecodeError):
            return KnownMatrixMessage()
        thread = _thread_id(content.relates_to)
        found = KnownMatrixMessage(_strip_quote(content.body), thread, tuple(content.buttons), event.sender)
        if event.sender == self.me:
            self.remember_message(event_id, found)
        return found

    async def _handle_reaction(self, room: str, event: MatrixEvent, unsaved: UnsavedMatrixEvents) -> None:
        content = decode_json(event.content, MatrixContent)
        related = content.relates_to
        if event.sender == self.me or related is None or self._seen.has_event(event.event_id, unsaved.events):
            return
        number = _button_number(related.key)
        if number is None:
            return
        own = await self.find_message(room, related.event_id)
        if own.author != self.me or number >= len(own.tokens):
            return
        known = await self._rooms.find_room(room)
        unsaved.events.append(
            InboundEvent(
                event_id=event.event_id,
                message_id=related.event_id,
                place=self._rooms.make_place(room, known, own.thread),
                sender=Sender(event.sender, known.member_names.get(event.sender, "")),
                press=own.tokens[number],
                at=event.origin_server_ts / 1000,
            )
        )

    async def _handle_encrypted(self, room: str, event: MatrixEvent, unsaved: UnsavedMatrixEvents) -> None:
        """Report an encrypted message once for each room, and answer it once if the sender may use Hermes."""
        name = f"locked:{room}"
        if event.sender == self.me or self._context.cursors.get(name) or self.report_once.has_kind(name):
            return
        self.report_once(
            name,
            N_("Matrix: the room {room} is encrypted; what is said there cannot be read.", room=describe_error(room)),
        )
        unsaved.cursors[name] = "told"
        if self._context.is_known_sender is not None and await self._context.is_known_sender(event.sender):
            text = tr("I cannot read this room: it is encrypted. Invite me to a room without encryption.")
            txn = quote(f"locked-{event.event_id}", safe="")
            body = {"msgtype": "m.notice", "body": text, "m.mentions": {}}
            await self._client.call_api(
                "PUT", room_path(room, "send", "m.room.message", txn), MatrixEmptyResponse, body
            )

    # Reading.

    def _decode_events(self, raws: Iterable[msgspec.Raw]) -> list[MatrixEvent]:
        """Return the readable events."""
        found = (self._decoder.decode(raw, MatrixEvent, "event") for raw in raws)
        return [event for event in found if event is not None]

    def _decode_content(self, event: MatrixEvent) -> MatrixContent | None:
        return self._decoder.decode(event.content, MatrixContent, event.type)


class _LenientDecoder:
    """Decodes what Matrix sends; what cannot be read is reported, once for each kind."""

    def __init__(self, report_once: OnceReporter) -> None:
        self._report_once = report_once

    def decode(self, raw: msgspec.Raw, kind: type[Kind], name: str) -> Kind | None:
        """Return the decoded value, or None."""
        try:
            return decode_json(raw, kind)
        except msgspec.DecodeError as error:
            self.report_unreadable(name, error)
            return None

    def report_unreadable(self, name: str, error: Exception) -> None:
        """Report that something of this name cannot be read."""
        self._report_once(
            name,
            N_(
                "Matrix sent {kind} that cannot be read: {error}",
                kind=describe_error(name),
                error=describe_error(error),
            ),
        )


def _thread_id(related: MatrixRelation | None) -> str:
    return related.event_id if related is not None and related.rel_type == "m.thread" else ""


def _button_number(key: str) -> int | None:
    """Return the index of the button that a reaction stands for, or None."""
    plain = key.replace("\ufe0f", "")
    return next((number for number, one in enumerate(BUTTON_REACTIONS) if one.replace("\ufe0f", "") == plain), None)


def _strip_quote(body: str) -> str:
    """Return a message without the quote of the answered message that older clients put before it."""
    if not body.startswith("> <"):
        return body
    lines = body.split("\n")
    first = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[first:]).lstrip("\n")


def _make_attachment(content: MatrixContent) -> Attachment | None:
    kind = _MEDIA_KINDS.get(content.msgtype)
    if kind is None:
        return None
    if content.voice is not None:
        kind = MediaKind.VOICE
    info = content.info
    problem = ""
    if content.file is not None or not content.url.startswith("mxc://"):
        problem = N_("the file is encrypted") if content.file is not None else N_("it names no file")
    return Attachment(
        kind,
        content.filename or content.body,
        info.mimetype if info is not None else "",
        info.size if info is not None else None,
        ref="" if problem else content.url,
        problem=problem,
    )
