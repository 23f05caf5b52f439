"""A Matrix homeserver on loopback: the part of the client-server API that a bot uses.

What it does is written from the Matrix specification (Client-Server API v1.11) and judged by matrix-nio in the tests.
"""

from collections.abc import Sequence
from pathlib import Path

from hermes.testing.web_server import Listener
from tests.vendors.matrix_api import Api
from tests.vendors.matrix_state import ME, SERVER, Body, Room, State


class Fake(State):
    """A homeserver for one bot."""

    person = f"@person:{SERVER}"
    stranger = f"@stranger:{SERVER}"
    topic = "$thread77"

    def __init__(self) -> None:
        super().__init__()
        self._listener = Listener(Api(self).routes())

    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME`."""
        return {"homeserver": self.url, "access_token": self.token}

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._listener.url

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
            media = self.keep(path.name, path.read_bytes(), "application/octet-stream")
            about: Body = {"mimetype": "application/octet-stream", "size": path.stat().st_size}
            content |= {"msgtype": "m.file", "filename": path.name, "url": media, "info": about}
            if path.suffix == ".ogg" and not text:  # as Element records it
                content |= {"msgtype": "m.audio", "body": path.name, "org.matrix.msc3245.voice": {}}
                content["org.matrix.msc1767.audio"] = {"duration": 1000, "waveform": [0, 1024]}
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
            known = self.event(room, reply_to)
            if known is not None:
                content["body"] = f"> <{known['sender']}> {self.body(known)}\n\n{content['body']}"
        if related:
            content["m.relates_to"] = related
        return await self.happen(room, person, "m.room.message", content)

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
        about = {"rel_type": "m.annotation", "event_id": message_id, "key": self.offered(message_id)[number]}
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
