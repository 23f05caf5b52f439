"""A Discord on loopback: the gateway's WebSocket and the REST calls that a bot makes, as version 10 speaks them.

What it does is written from Discord's documentation and judged by discord.py in the tests.
"""

import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from aiohttp import WSMsgType, web
from msgspec import Struct

from hermes.testing.fake_platform import FakeChat
from hermes.testing.web_server import Listener, broken, send_frame
from tests.vendors.discord_rest import (
    GUILD,
    ME,
    ROLE,
    VOICE_FLAG,
    Body,
    Rest,
    Upload,
    channel_body,
    member_body,
    message_body,
    thread_body,
    user_body,
)

MESSAGE_CONTENT = 1 << 15
EPOCH = 1_420_070_400_000


class Session(Struct):
    """One session of a client: all that was dispatched to it, and the connection that it has now."""

    id: str
    log: list[Body]
    socket: web.WebSocketResponse | None = None
    request: web.Request | None = None
    confirmed: int = 0
    """The newest sequence number that the client has named."""
    user: str = ME
    """Who the client is: the bot, or a member."""


class Fake(FakeChat):
    """Discord for one bot, in one server ("guild") of people and in direct chats."""

    def __init__(self) -> None:
        super().__init__()
        self.token = "fake-" + secrets.token_urlsafe(16)
        self.interval = 41_250
        """Milliseconds between heartbeats."""
        self.acknowledging = True
        """Off: heartbeats get no answer, as on a connection that is dead without either side having closed it."""
        self.privileged = True
        """Off: the content of messages was not switched on for the bot."""
        self.groups: set[str] = set()
        """Chats that are channels of the server although their names do not begin with `group`."""
        self.members: dict[str, str] = {}
        """Tokens of people whose clients connect beside the bot, and who they are. They hear the bot, too."""
        self.identified = 0
        self.resumed = 0
        self.heartbeats = 0
        self.sessions: dict[str, Session] = {}
        self._ids = 0
        self.rest = Rest(self)
        self._listener = Listener([web.get("/gateway", self._gateway), *self.rest.routes()])

    def options(self) -> dict[str, object]:
        """What stands under `platforms.NAME`."""
        return {"token": self.token, "base_url": self.url + "/api/v10"}

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._listener.url

    @property
    def chat(self) -> FakeChat:
        """For the REST side."""
        return self

    @property
    def socket_url(self) -> str:
        """Where clients connect for news."""
        return self._listener.socket_url + "/gateway"

    async def start(self) -> None:
        """Listen."""
        await self._listener.start()

    async def close(self) -> None:
        """Stop."""
        await self.down()

    async def down(self) -> None:
        """Stop listening and break every connection; sessions can be resumed."""
        for session in self.sessions.values():
            session.socket = None
        await self._listener.down()

    async def up(self) -> None:
        """Listen again."""
        await self._listener.start()

    async def drop(self) -> None:
        """Break the connections for news."""
        for session in self.sessions.values():
            request, session.socket = session.request, None
            if request is not None:
                broken(request)

    def forget(self) -> None:
        """Let every session end: none can be resumed."""
        self.sessions.clear()

    async def tell(self, body: Body | str | bytes) -> None:
        """Send a frame as it is to everybody who is connected."""
        for session in list(self.sessions.values()):
            socket = session.socket
            if socket is None:
                continue
            await send_frame(socket, body)

    async def dispatch(self, kind: str, body: Body) -> None:
        """Something has happened: every session that may hear it is told, now or when it is resumed."""
        for session in list(self.sessions.values()):
            if session.user == ME or (kind != "INTERACTION_CREATE" and self._hears(session.user, body)):
                await self._log(session, kind, body)

    async def tell_members(self, kind: str, body: Body) -> None:
        """The bot has done something: people's clients are told."""
        guild = self.rest.channels[str(body["channel_id"])].get("guild_id")
        more: Body = {} if guild is None else {"guild_id": guild, "member": member_body()}
        for session in list(self.sessions.values()):
            if session.user != ME and self._hears(session.user, body):
                await self._log(session, kind, body | more)

    def _hears(self, user: str, body: Body) -> bool:
        """Whether a message's channel is one of the server, or the member's own with the bot."""
        channel = str(body.get("channel_id"))
        return "guild_id" in self.rest.channels.get(channel, {}) or channel == "9" + user

    async def _log(self, session: Session, kind: str, body: Body) -> None:
        event: Body = {"op": 0, "s": len(session.log) + 1, "t": kind, "d": body}
        session.log.append(event)
        await _send(session, event)

    def user_of(self, token: str) -> str:
        """Who has this token; empty: nobody."""
        return ME if token == self.token else self.members.get(token, "")

    def snowflake(self) -> str:
        """A new id: the time in milliseconds, and a count."""
        self._ids += 1
        return str(((int(time.time() * 1000) - EPOCH) << 22) + self._ids)

    def place(self, chat: str, thread: str = "") -> str:
        """Make sure that a channel is known; its id."""
        channels = self.rest.channels
        if chat not in channels:
            shared = chat.startswith("group") or chat in self.groups
            channels[chat] = channel_body(chat) if shared else {"id": chat, "type": 1, "recipients": []}
        if thread and thread not in channels:
            channels[thread] = thread_body(thread, chat)
        return thread or chat

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
        """A person says something."""
        person = person or self.person
        channel = self.place(chat or "9" + person, thread)
        uploads = [Upload(path.name, path.read_bytes()) for path in files]
        body = message_body(
            self.snowflake(),
            channel,
            user_body(person),
            f"<@{ME}> {text}" if mention else text,
            self.rest.keep(uploads),
        )
        if not text and [path.suffix for path in files] == [".ogg"]:
            body["flags"] = VOICE_FLAG
        if mention:
            body["mentions"] = [user_body(ME)]
        if reply_to:
            self.rest.refer(body, reply_to)
        return await self.deliver(body)

    async def deliver(self, body: Body) -> str:
        """A message as the server would write it, extended and told to all sessions."""
        self.rest.history[str(body["id"])] = body
        await self.again(str(body["id"]))
        return str(body["id"])

    async def again(self, message_id: str) -> None:
        """Deliver a message once more."""
        body = dict(self.rest.history[message_id])
        guild = self.rest.channels[str(body["channel_id"])].get("guild_id")
        if guild is not None:
            body["guild_id"] = guild
            body["member"] = member_body()
        await self.dispatch("MESSAGE_CREATE", body)

    async def press(self, message_id: str, token: str, *, person: str = "") -> None:
        """A person presses a button."""
        message = self.rest.history[message_id]
        channel = self.rest.channels[str(message["channel_id"])]
        user = user_body(person or self.person)
        interaction = self.snowflake()
        body: Body = {
            "id": interaction,
            "application_id": ME,
            "type": 3,
            "token": "press-" + interaction,
            "version": 1,
            "channel_id": channel["id"],
            "channel": channel,
            "message": message,
            "entitlements": [],
            "attachment_size_limit": 10_485_760,
            "authorizing_integration_owners": {},
            "app_permissions": "0",
            "locale": "en-US",
            "data": {"component_type": 2, "custom_id": token},
        }
        if "guild_id" in channel:
            body |= {"guild_id": GUILD, "member": member_body() | {"user": user, "permissions": "0"}}
        else:
            body["user"] = user
        self.rest.waiting[interaction] = 0
        await self.dispatch("INTERACTION_CREATE", body)

    def menu(self) -> list[str]:
        """The names of the application's commands."""
        return [str(one["name"]) for one in self.rest.commands]

    async def call_command(self, name: str, text: str = "", *, chat: str = "", person: str = "") -> str:
        """A person picks a command of the menu; the interaction's id."""
        channel = self.rest.channels[self.place(chat or "9" + (person or self.person))]
        user = user_body(person or self.person)
        interaction = self.snowflake()
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        body: Body = {
            "id": interaction,
            "application_id": ME,
            "type": 2,
            "token": "command-" + interaction,
            "version": 1,
            "channel_id": channel["id"],
            "channel": channel,
            "entitlements": [],
            "attachment_size_limit": 10_485_760,
            "authorizing_integration_owners": {},
            "app_permissions": "0",
            "locale": "en-US",
            "data": {"id": self.snowflake(), "name": name, "type": 1, "options": options},
        }
        if "guild_id" in channel:
            body |= {"guild_id": GUILD, "member": member_body() | {"user": user, "permissions": "0"}}
        else:
            body["user"] = user
        self.rest.waiting[interaction] = 0
        await self.dispatch("INTERACTION_CREATE", body)
        return interaction

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=4096)
        await socket.prepare(request)
        if request.query.get("v") != "10" or request.query.get("encoding") != "json":
            self.refused.append(f"the gateway was asked for {request.query_string}")
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": self.interval}})
        session: Session | None = None
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                break
            body = json.loads(frame.data)
            match body["op"]:
                case 1:
                    await self._beat(socket, session, body["d"])
                case 2:
                    session = await self._identify(request, socket, body["d"])
                case 6:
                    session = await self._resume(request, socket, body["d"])
                case other:
                    self.refused.append(f"a frame with op {other}")
                    await socket.close(code=4001)
        if session is not None and session.socket is socket:
            session.socket = None
        return socket

    async def _beat(self, socket: web.WebSocketResponse, session: Session | None, sequence: object) -> None:
        self.heartbeats += 1
        if session is not None and isinstance(sequence, int):
            session.confirmed = sequence
        self.news()
        if self.acknowledging:
            await socket.send_json({"op": 11})

    async def _identify(self, request: web.Request, socket: web.WebSocketResponse, body: Body) -> Session | None:
        user = self.user_of(str(body.get("token")).removeprefix("Bot "))
        if not user:
            await socket.close(code=4004, message=b"Authentication failed.")
            return None
        if int(str(body.get("intents", 0))) & MESSAGE_CONTENT and not self.privileged:
            await socket.close(code=4014, message=b"Disallowed intent(s).")
            return None
        self.identified += user == ME
        session = Session(secrets.token_hex(8), [], socket, request, user=user)
        others = {key: one for key, one in self.sessions.items() if one.user != user}
        self.sessions = {**others, session.id: session}
        ready: Body = {
            "v": 10,
            "user": user_body(user),
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": self.socket_url,
            "application": {"id": user, "flags": 0},
            "private_channels": [],
        }
        await self._log(session, "READY", ready)
        await self._log(session, "GUILD_CREATE", self._guild(user))
        self.news()
        return session

    def _guild(self, user: str) -> Body:
        channels = [one for one in self.rest.channels.values() if one["type"] == 0]
        known = [member_body(ROLE) | {"user": user_body(ME)}]
        if user != ME:
            known.append(member_body() | {"user": user_body(user)})
        role = {"id": ROLE, "name": "bots", "permissions": "0", "position": 1, "color": 0, "hoist": False}
        return {
            "id": GUILD,
            "name": "guild",
            "owner_id": self.person,
            "channels": channels,
            "threads": [one for one in self.rest.channels.values() if one["type"] == 11],
            "members": known,
            "roles": [{**role, "managed": True, "mentionable": True, "tags": {"bot_id": ME}}],
            "emojis": [],
            "features": [],
            "member_count": 2,
        }

    async def _resume(self, request: web.Request, socket: web.WebSocketResponse, body: Body) -> Session | None:
        session = self.sessions.get(str(body.get("session_id")))
        sequence = body.get("seq")
        if session is not None and self.user_of(str(body.get("token"))) != session.user:
            await socket.close(code=4004)
            return None
        if session is None or not isinstance(sequence, int) or sequence > len(session.log):
            await socket.send_json({"op": 9, "d": False})
            return None
        self.resumed += 1
        session.socket, session.request = socket, request
        session.log.append({"op": 0, "s": len(session.log) + 1, "t": "RESUMED", "d": {}})
        for event in session.log[sequence:]:
            await _send(session, event)
        self.news()
        return session

    def reacted(self, message_id: str, reactions: tuple[str, ...]) -> None:
        """For the REST side: the agent's reactions to a message are now these."""
        self.reactions[message_id] = reactions
        self.news()


async def _send(session: Session, event: Body) -> None:
    if session.socket is not None and not session.socket.closed:
        try:
            await session.socket.send_json(event)
        except ConnectionError:
            session.socket = None
