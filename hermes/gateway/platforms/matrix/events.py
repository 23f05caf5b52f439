"""What happens on Matrix, as arrivals, and what has to be known for that: who is in a room, what was asked there."""

import re
from collections.abc import Iterable
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, InboundEvent, MediaKind, Reply, Sender
from hermes.gateway.http.errors import describe_error
from hermes.gateway.http.json_values import SeenEvents, decode_json
from hermes.gateway.platform import PlatformContext, PlatformError, SendError, SendFault
from hermes.gateway.platforms.matrix.api import (
    V3,
    Client,
    Content,
    Done,
    Event,
    Invited,
    Joined,
    Page,
    Profile,
    Relation,
    Sync,
    Timeline,
    room_path,
)
from hermes.gateway.platforms.matrix.rooms import Rooms
from hermes.i18n.messages import phrase, say

PAGE = 100
PAGES = 5
"""Pages of a history in which it is read what a gap holds."""
ASKED = 2_000
"""Own messages that are known at most."""
TOLD = 50
KEYS = (*(f"{digit}\ufe0f\u20e3" for digit in "123456789"), "🔟", *(chr(0x1F1E6 + one) for one in range(26)))
"""The reactions that stand for buttons."""
_KINDS = {
    "m.image": MediaKind.IMAGE,
    "m.audio": MediaKind.AUDIO,
    "m.video": MediaKind.VIDEO,
    "m.file": MediaKind.DOCUMENT,
}
_WORDS = ("m.text", "m.emote", "m.notice", "m.location")
_COMMAND = re.compile(r"!(?=[a-z][\w-]*(?:\s|$))")


class Work(Struct):
    """What was read and is not on disk yet."""

    arrivals: list[InboundEvent] = []
    newest: dict[str, tuple[str, str]] = {}
    """By room, the last message and who said it: so far it was read."""
    cursors: dict[str, str] = {}


class Own(Struct, frozen=True):
    """A message of the agent's: what it said, where, and the tokens of its buttons."""

    text: str = ""
    thread: str = ""
    tokens: tuple[str, ...] = ()
    author: str = ""


class News:
    """Reads what a sync tells. What it reads goes into a `Work`; what it knows moves on by `done` only."""

    def __init__(self, client: Client, around: PlatformContext, join: str) -> None:
        self._client = client
        self._around = around
        self._join = join
        self.me = ""
        self._name = ""
        self._rooms = Rooms(client, around, self._unread)
        self._own: dict[str, Own] = {}
        self._seen = SeenEvents()
        self._told: set[str] = set()
        self._calls: re.Pattern[str] | None = None

    async def know_me(self, user: str) -> None:
        """Learn by what names the agent is called, and which rooms are direct chats."""
        self.me = user
        self._rooms.me = user
        self._rooms.clear()
        try:
            profile = await self._client.call("GET", f"{V3}/profile/{quote(user, safe='')}", Profile)
            self._name = profile.displayname or ""
        except SendError as error:
            if error.fault is not SendFault.NOT_FOUND:
                raise
        await self._rooms.learn_direct()
        names = [re.escape(one) for one in (self._name, user, user.partition(":")[0]) if one]
        self._calls = re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)", re.IGNORECASE)

    def done(self, work: Work) -> None:
        """It is on disk."""
        self._seen.add_events(work.arrivals)

    def tell(self, kind: str, line: str) -> None:
        """Say that something cannot be read: once of each kind."""
        if kind not in self._told and len(self._told) < TOLD:
            self._told.add(kind)
            self._around.report(line)

    def remember(self, event_id: str, own: Own) -> None:
        """A message of the agent's was sent or changed."""
        self._own.pop(event_id, None)
        self._own[event_id] = own
        if len(self._own) > ASKED:
            del self._own[next(iter(self._own))]

    async def happened(self, sync: Sync, since: str, work: Work) -> None:
        """Take up what a sync tells; without `since` only who is where, and invitations."""
        for event in self._events(sync.account_data.events):
            if event.type == "m.direct":
                self._rooms.direct_changed(event)
        for room in sync.rooms.leave:
            self._rooms.forget(room)
        for room, raw in sync.rooms.invite.items():
            await self._invited(room, raw)
        for room, raw in sync.rooms.join.items():
            try:
                joined = decode_json(raw, Joined)
            except msgspec.DecodeError as error:
                self._unread(room, error)
                continue
            for event in self._events(joined.state.events):
                self._changed(room, event)
            if since:
                await self._said(room, joined.timeline, since, work)

    # Rooms.

    async def _invited(self, room: str, raw: msgspec.Raw) -> None:
        try:
            state = decode_json(raw, Invited).invite_state
        except msgspec.DecodeError as error:
            self._unread(room, error)
            return
        for event in self._events(state.events):
            content = self._content(event)
            if event.type != "m.room.member" or event.state_key != self.me or content is None:
                continue
            if content.membership != "invite" or not await self._welcome(event.sender):
                continue
            try:
                await self._client.call("POST", room_path(room, "join"), Done, {})
                if content.is_direct:
                    await self._rooms.make_direct(room, event.sender)
            except SendError as error:
                self.tell(
                    f"join {room}",
                    phrase(
                        "Matrix: the room {room} cannot be joined: {error}", room=describe_error(room), error=str(error)
                    ),
                )

    async def _welcome(self, sender: str) -> bool:
        if self._join != "people":
            return self._join == "all"
        return self._around.is_known_sender is not None and await self._around.is_known_sender(sender)

    # What was said.

    async def _said(self, room: str, timeline: Timeline, since: str, work: Work) -> None:
        events = list(self._events(timeline.events))
        begun = self._begun(events)
        if begun is not None:
            events = events[begun:]
        elif timeline.limited and timeline.prev_batch:
            events = [*await self._gap(room, timeline.prev_batch, since), *events]
        for event in events:
            try:
                await self._take(room, event, work)
            except msgspec.DecodeError as error:
                self._unread(event.type, error)

    def _begun(self, events: list[Event]) -> int | None:
        """Where what concerns the agent begins in a room that it has just joined: at its invitation."""
        found: int | None = None
        for number, event in enumerate(events):
            if event.type == "m.room.member" and event.state_key == self.me:
                content = self._content(event)
                before = event.unsigned.prev_content if event.unsigned is not None else None
                if content is not None and content.membership == "invite":
                    found = number
                elif found is None and content is not None and content.membership == "join":
                    found = None if before is not None and before.membership == "join" else number
        return found

    async def _gap(self, room: str, before: str, since: str) -> list[Event]:
        """What was said between two syncs and did not fit into the later one."""
        found: list[Event] = []
        place = before
        for _ in range(PAGES):
            query = {"from": place, "to": since, "dir": "b", "limit": str(PAGE)}
            try:
                page = await self._client.call("GET", room_path(room, "messages"), Page, query=query)
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise
                break
            found += self._events(page.chunk)
            if not page.end or not page.chunk or page.end == place:
                break
            place = page.end
        else:
            said = phrase(
                "More than {n} messages were missed in {channel}; the others are not read.",
                n=PAGE * PAGES,
                channel=describe_error(room),
            )
            self._around.report(said)
        return found[::-1]

    async def _take(self, room: str, event: Event, work: Work) -> None:
        match event.type:
            case "m.room.message":
                await self._heard(room, event, work)
            case "m.reaction":
                await self._reacted(room, event, work)
            case "m.room.encrypted":
                await self._locked(room, event, work)
            case _:
                self._rooms.changed(room, event)

    def _changed(self, room: str, event: Event) -> None:
        try:
            self._rooms.changed(room, event)
        except msgspec.DecodeError as error:
            self._unread(event.type, error)

    async def _heard(self, room: str, event: Event, work: Work) -> None:
        content = decode_json(event.content, Content)
        if not self._is_said(event, content) or self._seen.has_event(event.event_id, work.arrivals):
            return
        known = await self._rooms.known(room)
        reply = await self._reply(room, content)
        body = _without_quote(content.body) if reply is not None else content.body
        file = _attachment(content)
        if file is not None and (not content.filename or content.filename == content.body):
            body = ""
        text, called = self._words(body, content)
        work.newest[room] = (event.event_id, event.sender)
        work.arrivals.append(
            InboundEvent(
                event_id=event.event_id,
                message_id=event.event_id,
                place=self._rooms.place(room, known, _thread(content.relates_to)),
                sender=Sender(event.sender, known.names.get(event.sender, ""), bot=content.msgtype == "m.notice"),
                text=f"{content.body}\n{content.geo_uri}" if content.msgtype == "m.location" else text,
                attachments=(file,) if file is not None else (),
                reply=reply,
                mentioned=called,
                at=event.origin_server_ts / 1000,
            )
        )

    def _is_said(self, event: Event, content: Content) -> bool:
        """Whether somebody else says something new."""
        edited = content.relates_to is not None and content.relates_to.rel_type == "m.replace"
        of_kind = content.msgtype in _KINDS or content.msgtype in _WORDS
        return of_kind and not edited and bool(event.event_id) and event.sender != self.me

    def _words(self, body: str, content: Content) -> tuple[str, bool]:
        """What was said, without a call at its beginning, and whether the agent was called."""
        match = self._calls.search(body) if self._calls is not None else None
        called = match is not None or quote(self.me) in content.formatted_body
        if content.mentions is not None and content.mentions.user_ids:
            called = self.me in content.mentions.user_ids
        if match is not None and called and not body[: match.start()].strip(" @"):
            body = body[match.end() :].lstrip(" ,:\n")
        return _COMMAND.sub("/", body) if _COMMAND.match(body) else body, called

    async def _reply(self, room: str, content: Content) -> Reply | None:
        related = content.relates_to
        if related is None or related.in_reply_to is None or related.is_falling_back:
            return None
        event_id = related.in_reply_to.event_id
        own = await self.own(room, event_id)
        return Reply(event_id, own.text, own.author, own=own.author == self.me)

    async def own(self, room: str, event_id: str) -> Own:
        """What is known of a message; nothing when it cannot be had."""
        found = self._own.get(event_id)
        if found is not None:
            return found
        try:
            event = await self._client.call("GET", room_path(room, "event", event_id), Event)
            content = decode_json(event.content, Content)
        except SendError as error:
            if error.fault in (SendFault.TRANSIENT, SendFault.RATE_LIMITED):
                raise
            return Own()
        except (PlatformError, msgspec.DecodeError):
            return Own()
        thread = _thread(content.relates_to)
        found = Own(_without_quote(content.body), thread, tuple(content.buttons), event.sender)
        if event.sender == self.me:
            self.remember(event_id, found)
        return found

    async def _reacted(self, room: str, event: Event, work: Work) -> None:
        content = decode_json(event.content, Content)
        related = content.relates_to
        if event.sender == self.me or related is None or self._seen.has_event(event.event_id, work.arrivals):
            return
        number = _number(related.key)
        if number is None:
            return
        own = await self.own(room, related.event_id)
        if own.author != self.me or number >= len(own.tokens):
            return
        known = await self._rooms.known(room)
        work.arrivals.append(
            InboundEvent(
                event_id=event.event_id,
                message_id=related.event_id,
                place=self._rooms.place(room, known, own.thread),
                sender=Sender(event.sender, known.names.get(event.sender, "")),
                press=own.tokens[number],
                at=event.origin_server_ts / 1000,
            )
        )

    async def _locked(self, room: str, event: Event, work: Work) -> None:
        """Something that only the devices of the room can read: said once, to people who may use Hermes."""
        name = f"locked:{room}"
        if event.sender == self.me or self._around.cursors.get(name) or name in self._told:
            return
        self.tell(
            name,
            phrase(
                "Matrix: the room {room} is encrypted; what is said there cannot be read.", room=describe_error(room)
            ),
        )
        work.cursors[name] = "told"
        if self._around.is_known_sender is not None and await self._around.is_known_sender(event.sender):
            text = say("I cannot read this room: it is encrypted. Invite me to a room without encryption.")
            txn = quote(f"locked-{event.event_id}", safe="")
            body = {"msgtype": "m.notice", "body": text, "m.mentions": {}}
            await self._client.call("PUT", room_path(room, "send", "m.room.message", txn), Done, body)

    # Reading.

    def _events(self, raws: Iterable[msgspec.Raw]) -> list[Event]:
        """The events that can be read."""
        found: list[Event] = []
        for raw in raws:
            try:
                found.append(decode_json(raw, Event))
            except msgspec.DecodeError as error:
                self._unread("event", error)
        return found

    def _content(self, event: Event) -> Content | None:
        try:
            return decode_json(event.content, Content)
        except msgspec.DecodeError as error:
            self._unread(event.type, error)
            return None

    def _unread(self, kind: str, error: Exception) -> None:
        self.tell(
            kind,
            phrase(
                "Matrix sent {kind} that cannot be read: {error}",
                kind=describe_error(kind),
                error=describe_error(error),
            ),
        )


def _thread(related: Relation | None) -> str:
    return related.event_id if related is not None and related.rel_type == "m.thread" else ""


def _number(key: str) -> int | None:
    """Which button a reaction stands for."""
    plain = key.replace("\ufe0f", "")
    return next((number for number, one in enumerate(KEYS) if one.replace("\ufe0f", "") == plain), None)


def _without_quote(body: str) -> str:
    """A message without what older clients put before it: the one that it answers."""
    if not body.startswith("> <"):
        return body
    lines = body.split("\n")
    first = next((number for number, line in enumerate(lines) if not line.startswith(">")), len(lines))
    return "\n".join(lines[first:]).lstrip("\n")


def _attachment(content: Content) -> Attachment | None:
    kind = _KINDS.get(content.msgtype)
    if kind is None:
        return None
    if content.voice is not None:
        kind = MediaKind.VOICE
    info = content.info
    problem = ""
    if content.file is not None or not content.url.startswith("mxc://"):
        problem = phrase("the file is encrypted") if content.file is not None else phrase("it names no file")
    return Attachment(
        kind,
        content.filename or content.body,
        info.mimetype if info is not None else "",
        info.size if info is not None else None,
        ref="" if problem else content.url,
        problem=problem,
    )
