"""The rooms that are known: their members, their names, and which are direct chats."""

from collections.abc import Callable
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes.core.chats import ChatKind, Place
from hermes.gateway.http.json_values import decode_json
from hermes.gateway.platform import PlatformContext, SendError, SendFault
from hermes.gateway.platforms.matrix.api import (
    V3,
    MatrixClient,
    MatrixContent,
    MatrixEmptyResponse,
    MatrixEvent,
    MatrixMembers,
    MatrixRoomName,
    room_path,
)

MAX_KNOWN_ROOMS = 1_000
"""Rooms whose members are remembered at most."""


class MatrixRoom(Struct):
    """A room's name and members."""

    member_names: dict[str, str] = {}
    """The display names of the members, by user id."""
    name: str = ""


class MatrixRooms:
    """Fetches rooms on first use and keeps them up to date with the events."""

    def __init__(
        self, client: MatrixClient, context: PlatformContext, report_unreadable: Callable[[str, Exception], None]
    ) -> None:
        self._client = client
        self._context = context
        self._report_unreadable = report_unreadable
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
        try:
            self._set_direct_chats(decode_json(event.content, dict[str, list[str]]))
        except msgspec.DecodeError as error:
            self._report_unreadable("m.direct", error)

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
            return decode_json(
                await self._client.call_api("GET", self._direct_chats_path, msgspec.Raw), dict[str, list[str]]
            )
        except msgspec.DecodeError as error:
            self._report_unreadable("m.direct", error)
        except SendError as error:
            if error.fault is not SendFault.NOT_FOUND:
                raise
        return {}

    def _set_direct_chats(self, known: dict[str, list[str]]) -> None:
        self._direct_rooms = frozenset(room for rooms in known.values() for room in rooms)
