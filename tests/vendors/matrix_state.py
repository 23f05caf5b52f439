"""What a fake homeserver knows: rooms, and all that happened there."""

import asyncio
import secrets
import time
from typing import TypeAlias

from msgspec import Struct

from hermes.testing.fake_platform import FakeChat, ShownFile

Body: TypeAlias = dict[str, object]
SERVER = "fake.test"
ME = f"@hermes:{SERVER}"


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


class State(FakeChat):
    """Everything that outlives a connection."""

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
        self.tokens: dict[str, str] = {self.token: "DEVICE0"}
        """Access tokens, and the devices that they are for."""
        self.media: dict[str, ShownFile] = {}
        self.account_data: dict[str, Body] = {}
        self.offers: dict[str, list[tuple[str, str]]] = {}
        """By message, the agent's reactions: their event ids and keys."""

    async def wake(self) -> None:
        """Have who waits for news look again."""
        async with self.waiting:
            self.waiting.notify_all()

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

    def keep(self, name: str, content: bytes, media_type: str) -> str:
        """Keep a file; its `mxc:` address."""
        media = secrets.token_urlsafe(12)
        self.media[media] = ShownFile(name, content, media_type)
        return f"mxc://{SERVER}/{media}"

    @staticmethod
    def event(room: "Room", event_id: str) -> Body | None:
        """An event of a room."""
        return next((event for _, event in room.events if event["event_id"] == event_id), None)

    @staticmethod
    def body(event: Body) -> str:
        """What an event says."""
        content = event["content"]
        return str(content.get("body", "")) if isinstance(content, dict) else ""

    def offered(self, message_id: str) -> list[str]:
        """The keys that the agent has put below a message."""
        return [key for _, key in self.offers.get(message_id, [])]


def name_of(user: str) -> str:
    """How somebody is called."""
    return user[1:].partition(":")[0].capitalize()
