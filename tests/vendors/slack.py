"""A Slack on loopback: Socket Mode for what happens, and the Web API that a bot uses.

What it does is written from Slack's documentation and judged by slack-sdk in the tests.
"""

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from aiohttp import WSMsgType, web
from msgspec import Struct

from hermes.testing.fake_platform import FakeChat
from hermes.testing.web_server import Listener, broken, send_frame
from tests.vendors.slack_web import APP, ME, TEAM, Body, Web

ATTEMPTS = 4
"""How often something is delivered that is not acknowledged: Slack tries again three times."""


class Envelope(Struct):
    """Something that happened, and what became of telling it."""

    id: str
    kind: str
    payload: Body
    attempts: int = 0
    told: float = 0.0
    took: float | None = None
    """Seconds until it was acknowledged, counted from when it was told last."""


class Fake(FakeChat):
    """Slack for one app in one workspace."""

    def __init__(self) -> None:
        super().__init__()
        self.bot_token = "fake-bot-" + secrets.token_urlsafe(12)
        self.app_token = "fake-app-" + secrets.token_urlsafe(12)
        self.retry_seconds = 3.0
        """Seconds after which what was not acknowledged is delivered again."""
        self.connections = 0
        """Connections that were opened, of all time."""
        self.envelopes: dict[str, Envelope] = {}
        self.web = Web(self)
        self._tickets: set[str] = set()
        self._sockets: dict[web.WebSocketResponse, web.Request] = {}
        self._last = 0.0
        self._retrying: asyncio.Task[None] | None = None
        self._listener = Listener([web.get("/link/{ticket}", self._link), *self.web.routes()])

    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME`; answers stand where they were asked for, as `shown` is asked for them."""
        tokens = {"bot_token": self.bot_token, "app_token": self.app_token}
        return {**tokens, "base_url": self.url + "/api", "reply_in_thread": False}

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._listener.url

    @property
    def chat(self) -> FakeChat:
        """For the Web API."""
        return self

    async def start(self) -> None:
        """Listen."""
        await self._listener.start()
        self._retrying = asyncio.create_task(self._retry())

    async def close(self) -> None:
        """Stop."""
        task, self._retrying = self._retrying, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self.down()

    async def down(self) -> None:
        """Stop listening and break every connection."""
        self._sockets.clear()
        await self._listener.down()

    async def up(self) -> None:
        """Listen again."""
        await self._listener.start()

    async def drop(self) -> None:
        """Break the connections for news."""
        for request in self._sockets.values():
            broken(request)
        self._sockets.clear()

    def forget(self) -> None:
        """Give up telling what was not acknowledged, as Slack does after some minutes."""
        self.envelopes.clear()

    def waiting(self) -> list[Envelope]:
        """What was not acknowledged."""
        return [one for one in self.envelopes.values() if one.took is None]

    async def tell(self, frame: Body | str | bytes) -> None:
        """Send a frame as it is to everybody who is connected."""
        for socket in list(self._sockets):
            await send_frame(socket, frame)

    def ticket(self) -> str:
        """The address of a new connection."""
        ticket = secrets.token_hex(8)
        self._tickets.add(ticket)
        return f"{self._listener.socket_url}/link/{ticket}"

    def stamp(self) -> str:
        """A new message's id: its time in seconds, made greater than every other one's."""
        self._last = max(time.time(), self._last + 0.00001)
        return f"{self._last:.6f}"

    def place(self, chat: str) -> str:
        """Make sure that a channel is known."""
        self.web.history.setdefault(chat, [])
        return chat

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
        """A person says something. An answer to a message is one in its thread."""
        person = person or self.person
        channel = self.place(chat or "D" + person)
        thread = thread or reply_to
        if thread and not any(one["ts"] == thread for one in self.web.history[channel]):
            self.web.history[channel].append({"type": "message", "user": person, "text": "thread", "ts": thread})
        said = f"<@{ME}> {text}" if mention else text
        body: Body = {"type": "message", "user": person, "text": said, "ts": self.stamp(), "team": TEAM}
        body["client_msg_id"] = secrets.token_hex(16)
        if thread:
            parent = self.web.message(channel, thread)
            body |= {"thread_ts": thread, "parent_user_id": parent["user"]}
        if files:
            body["subtype"] = "file_share"
            body["files"] = [self.web.share(path.name, path.read_bytes()) for path in files]
        self.web.history[channel].append(body)
        await self.again(f"{channel} {body['ts']}")
        return str(body["ts"])

    async def again(self, message_id: str) -> None:
        """Deliver a message once more: as what was said, and, where the agent was addressed, as that too."""
        channel, _, ts = message_id.rpartition(" ")
        if not channel:
            channel = next(name for name, all_of in self.web.history.items() if any(one["ts"] == ts for one in all_of))
        body = self.web.message(channel, ts)
        kind = "im" if channel.startswith("D") else "channel"
        where: Body = {"channel": channel, "channel_type": kind, "event_ts": ts}
        await self.event(body | where)
        if f"<@{ME}>" in str(body["text"]) and kind != "im":
            await self.event(body | {"type": "app_mention", "channel": channel, "event_ts": ts})

    async def event(self, event: Body) -> None:
        """Something has happened."""
        about: Body = {"type": "event_callback", "team_id": TEAM, "api_app_id": APP, "token": "unused"}
        about |= {"event_id": f"Ev{len(self.envelopes)}", "event_time": int(time.time()), "event": event}
        await self.deliver("events_api", about)

    async def press(self, message_id: str, token: str, *, person: str = "") -> None:
        """A person presses a button."""
        shown = self.messages[message_id]
        user = person or self.person
        where: Body = {"type": "message", "message_ts": message_id, "channel_id": shown.chat, "is_ephemeral": False}
        if shown.thread:
            where["thread_ts"] = shown.thread
        action: Body = {
            "type": "button",
            "action_id": token,
            "block_id": "b",
            "value": token,
            "action_ts": self.stamp(),
        }
        body: Body = {
            "type": "block_actions",
            "user": {"id": user, "username": f"person{user}", "name": f"person{user}", "team_id": TEAM},
            "api_app_id": APP,
            "container": where,
            "trigger_id": secrets.token_hex(8),
            "channel": {"id": shown.chat, "name": shown.chat},
            "message": self.web.message(shown.chat, message_id),
            "actions": [action],
        }
        await self.deliver("interactive", body)

    async def command(self, command: str, text: str, *, chat: str = "", person: str = "") -> None:
        """A person gives a slash command."""
        user = person or self.person
        channel = self.place(chat or "D" + user)
        where: Body = {"team_id": TEAM, "channel_id": channel, "channel_name": channel, "api_app_id": APP}
        who: Body = {"user_id": user, "user_name": f"person{user}", "trigger_id": secrets.token_hex(8)}
        await self.deliver("slash_commands", where | who | {"command": command, "text": text})

    async def deliver(self, kind: str, payload: Body) -> None:
        """Tell something, until it is acknowledged."""
        envelope = Envelope(secrets.token_hex(8), kind, payload)
        self.envelopes[envelope.id] = envelope
        await self._tell(envelope)

    async def _tell(self, envelope: Envelope) -> None:
        for socket in list(self._sockets)[-1:]:
            envelope.told = time.monotonic()
            frame: Body = {"envelope_id": envelope.id, "type": envelope.kind, "payload": envelope.payload}
            if envelope.kind == "events_api":
                reason = "timeout" if envelope.attempts else ""
                frame |= {"retry_attempt": envelope.attempts, "retry_reason": reason}
            envelope.attempts += 1
            try:
                await socket.send_json(frame | {"accepts_response_payload": envelope.kind == "slash_commands"})
            except ConnectionError:
                self._sockets.pop(socket, None)

    async def _retry(self) -> None:
        while True:
            await asyncio.sleep(min(0.05, self.retry_seconds / 4))
            late = time.monotonic() - self.retry_seconds
            for one in self.waiting():
                if one.told < late and one.attempts < ATTEMPTS:
                    await self._tell(one)

    async def _link(self, request: web.Request) -> web.StreamResponse:
        if request.match_info["ticket"] not in self._tickets:
            return web.Response(status=403)
        self._tickets.discard(request.match_info["ticket"])
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        about: Body = {"type": "hello", "num_connections": len(self._sockets) + 1, "debug_info": {"host": "loopback"}}
        await socket.send_json(about | {"connection_info": {"app_id": APP}})
        self._sockets[socket] = request
        for one in self.waiting():
            await self._tell(one)
        self.news()
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                self._acknowledged(frame.data)
        self._sockets.pop(socket, None)
        return socket

    def _acknowledged(self, text: str) -> None:
        envelope = self.envelopes.get(json.loads(text).get("envelope_id"))
        if envelope is None:
            self.refused.append(f"acknowledged what nobody told: {text}")
        elif envelope.took is None:
            envelope.took = time.monotonic() - envelope.told
        self.news()
