"""What is known of rooms: who is in them, and which are direct chats."""

from collections.abc import Callable
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes.core.chats import ChatKind, Place
from hermes.gateway.http.json_values import decode_json
from hermes.gateway.platform import PlatformContext, SendError, SendFault
from hermes.gateway.platforms.matrix.api import V3, Client, Content, Done, Event, Members, Named, room_path

ROOMS = 1_000
"""Rooms of which it is known at most who is in them."""


class Room(Struct):
    """What is known of a room."""

    names: dict[str, str] = {}
    """Who is in it, and how they are called."""
    name: str = ""


class Rooms:
    """Asks for what it does not know, and keeps it true while events come. `unread` tells what cannot be read."""

    def __init__(self, client: Client, around: PlatformContext, unread: Callable[[str, Exception], None]) -> None:
        self._client = client
        self._around = around
        self._unread = unread
        self.me = ""
        self._rooms: dict[str, Room] = {}
        self._direct: frozenset[str] = frozenset()

    def clear(self) -> None:
        """Forget who is where."""
        self._rooms.clear()

    def forget(self, room: str) -> None:
        """The agent is not there any more."""
        self._rooms.pop(room, None)

    async def learn_direct(self) -> None:
        """Ask which rooms are direct chats."""
        self._know(await self._stored())

    async def make_direct(self, room: str, person: str) -> None:
        """Remember, as clients do, that a room is a direct chat."""
        known = await self._stored()
        if room not in known.setdefault(person, []):
            known[person].append(room)
            await self._client.call("PUT", self._path, Done, known)
        self._know(known)

    def direct_changed(self, event: Event) -> None:
        """Another of the agent's devices has changed which rooms are direct chats."""
        try:
            self._know(decode_json(event.content, dict[str, list[str]]))
        except msgspec.DecodeError as error:
            self._unread("m.direct", error)

    async def known(self, room: str) -> Room:
        """Who is in a room."""
        found = self._rooms.get(room)
        if found is None:
            people = await self._client.call("GET", room_path(room, "joined_members"), Members)
            names = {user: member.display_name or "" for user, member in people.joined.items()}
            try:
                name = (await self._client.call("GET", room_path(room, "state", "m.room.name"), Named)).name
            except SendError as error:
                if error.fault not in (SendFault.NOT_FOUND, SendFault.FORBIDDEN):
                    raise
                name = ""
            if len(self._rooms) >= ROOMS:
                self._rooms.clear()
            found = self._rooms[room] = Room(names, name)
        return found

    def changed(self, room: str, event: Event) -> None:
        """Somebody comes, goes or wants another name. Raises `msgspec.DecodeError`."""
        known = self._rooms.get(room)
        if event.type != "m.room.member" or known is None or event.state_key is None:
            return
        content = decode_json(event.content, Content)
        if content.membership == "join":
            known.names[event.state_key] = content.displayname or ""
        else:
            known.names.pop(event.state_key, None)

    def place(self, room: str, known: Room, thread: str) -> Place:
        """A room, or a thread in it."""
        direct = room in self._direct or len(known.names) <= 2
        name = known.name or next((name for user, name in known.names.items() if direct and user != self.me), "")
        return Place(self._around.name, room, thread, ChatKind.DM if direct else ChatKind.GROUP, name)

    @property
    def _path(self) -> str:
        return f"{V3}/user/{quote(self.me, safe='')}/account_data/m.direct"

    async def _stored(self) -> dict[str, list[str]]:
        """The direct chats by person, as clients store them in the account."""
        try:
            return decode_json(await self._client.call("GET", self._path, msgspec.Raw), dict[str, list[str]])
        except msgspec.DecodeError as error:
            self._unread("m.direct", error)
        except SendError as error:
            if error.fault is not SendFault.NOT_FOUND:
                raise
        return {}

    def _know(self, known: dict[str, list[str]]) -> None:
        self._direct = frozenset(room for rooms in known.values() for room in rooms)
