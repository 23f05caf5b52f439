"""A Matrix homeserver on loopback: the part of the client-server API that a bot uses.

What it does is written from the Matrix specification (Client-Server API v1.11) and judged by matrix-nio in the tests.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from hermes.testing.chats.fake import FakeChat
from hermes.testing.chats.listener import Listener
from hermes.testing.chats.matrix_api import ME, SERVER, Api, Body

CAPTION = "body"


class Room(Struct):
    """A room: who is in it, and all that happened there."""

    id: str
    members: list[str]
    events: list[tuple[int, Body]] = []
    """What happened, each with its place in the stream of the whole server."""
    invited: str = ""
    """Who invited the agent, while it has not joined."""
    joined: int = 0
    """When the agent joined."""
    direct: bool = False


class Fake(FakeChat):
    """A homeserver for one bot."""

    person = f"@person:{SERVER}"
    stranger = f"@stranger:{SERVER}"
    topic = "$thread77"

    def __init__(self) -> None:
        super().__init__()
        self.token = "fake-token-" + secrets.token_urlsafe(12)
        self.password = "fake-password-" + secrets.token_urlsafe(12)
        self.rooms: dict[str, Room] = {}
        self.position = 0
        """The place in the stream of what happened last."""
        self.window = 20
        """Events of one room in one sync at most; more leave a gap."""
        self.receipts: list[str] = []
        """The events up to which the agent has read."""
        self.waiting = asyncio.Condition()
        self.cut = 0
        """How often the waiting connections were broken."""
        self.syncs: list[str] = []
        """From where the agent asked for news."""
        self.api = Api(self)
        self._listener = Listener(self.api.routes())

    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME`."""
        return {"homeserver": self.url, "access_token": self.token}

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._listener.url

    @property
    def chat(self) -> FakeChat:
        """For the API."""
        return self

    async def start(self) -> None:
        """Listen."""
        await self._listener.start()

    async def close(self) -> None:
        """Stop."""
        await self.down()

    async def down(self) -> None:
        """Stop listening and break every connection."""
        await self._listener.down()

    async def up(self) -> None:
        """Listen again."""
        await self._listener.start()

    async def drop(self) -> None:
        """Break the connections that wait for news."""
        self.cut += 1
        await self.wake()

    async def wake(self) -> None:
        """Have who waits for news look again."""
        async with self.waiting:
            self.waiting.notify_all()

    def chat_id(self, chat: str) -> str:
        """Rooms have ids with the server's name in them."""
        return chat if chat.startswith("!") else f"!{chat}:{SERVER}"

    def room(self, chat: str, person: str = "") -> Room:
        """The room of that name, or the person's direct chat; made when it is not there."""
        person = person or self.person
        name = self.chat_id(chat or "dm-" + person[1:].partition(":")[0])
        if name not in self.rooms:
            members = [ME, self.person, self.stranger] if chat else [ME, person]
            self.rooms[name] = Room(name, members, direct=not chat)
        return self.rooms[name]

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        person: str = "",
        thread: str = "",
        mention: bool = False,
        reply_to: str = "",
        files: Sequence[Path] = (),
    ) -> str:
        """A person says something, as Element writes it."""
        person = person or self.person
        room = self.room(chat, person)
        content: Body = {"msgtype": "m.text", "body": text, "m.mentions": {}}
        if mention:
            content["body"] = f"Hermes: {text}"
            content["m.mentions"] = {"user_ids": [ME]}
            content["format"] = "org.matrix.custom.html"
            content["formatted_body"] = f'<a href="https://matrix.to/#/{ME}">Hermes</a>: {text}'
        for path in files:
            media = self.api.keep(path.name, path.read_bytes(), "application/octet-stream")
            about: Body = {"mimetype": "application/octet-stream", "size": path.stat().st_size}
            content |= {"msgtype": "m.file", "filename": path.name, "url": media, "info": about}
        related: Body = {}
        if thread:
            if not any(event["event_id"] == thread for _, event in room.events):
                await self.happen(
                    room, person, "m.room.message", {"msgtype": "m.text", "body": "thread"}, event_id=thread
                )
            related = {"rel_type": "m.thread", "event_id": thread, "is_falling_back": True}
            related["m.in_reply_to"] = {"event_id": thread}
        if reply_to:
            related["m.in_reply_to"] = {"event_id": reply_to}
            related["is_falling_back"] = False
            known = self.api.event(room, reply_to)
            if known is not None:
                content["body"] = f"> <{known['sender']}> {self.api.body(known)}\n\n{content['body']}"
        if related:
            content["m.relates_to"] = related
        return await self.happen(room, person, "m.room.message", content)

    async def happen(
        self, room: Room, sender: str, kind: str, content: Body, *, event_id: str = "", **more: object
    ) -> str:
        """Something happens in a room; its event id."""
        event: Body = {
            "type": kind,
            "event_id": event_id or f"${secrets.token_urlsafe(16)}",
            "sender": sender,
            "origin_server_ts": int(time.time() * 1000),
            "content": content,
            "room_id": room.id,
            **more,
        }
        self.position += 1
        room.events.append((self.position, event))
        await self.wake()
        return str(event["event_id"])

    async def again(self, message_id: str) -> None:
        """Tell an event once more."""
        room, event = next(
            (room, event) for room in self.rooms.values() for _, event in room.events if event["event_id"] == message_id
        )
        self.position += 1
        room.events.append((self.position, event))
        await self.wake()

    async def press(self, message_id: str, token: str, *, person: str = "") -> None:
        """A person taps the reaction that stands for a button."""
        shown = self.messages[message_id]
        number = [one for _, one in shown.buttons].index(token)
        about = {"rel_type": "m.annotation", "event_id": message_id, "key": self.api.offered(message_id)[number]}
        await self.happen(self.rooms[shown.chat], person or self.person, "m.reaction", {"m.relates_to": about})

    async def invite(self, chat: str, person: str = "", *, direct: bool = False) -> Room:
        """A person makes a room and invites the agent."""
        person = person or self.person
        name = self.chat_id(chat)
        room = self.rooms[name] = Room(name, [person], direct=direct)
        await self.happen(room, person, "m.room.member", {"membership": "join"}, state_key=person)
        room.invited = person
        content: Body = {"membership": "invite", "is_direct": direct}
        await self.happen(room, person, "m.room.member", content, state_key=ME)
        return room
