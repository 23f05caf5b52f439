"""Discord's values and requests, version 10. Only the fields that are used are named; others are passed over."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hermes.gateway.http.errors import (
    REQUEST_SECONDS,
    UPLOAD_SECONDS,
    PlatformRequest,
    PlatformResponse,
    describe_error,
    parse_seconds,
    send_request,
)
from hermes.gateway.http.json_values import Kind, decode_json
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    import aiohttp

EPOCH = 1_420_070_400.0
"""Where Discord's ids begin to count time."""
KINDS = 2_000
"""Kinds of requests whose limits are remembered."""
REFUSALS = {
    4004: phrase("Discord does not take the bot's token. Set a new one: `DISCORD_BOT_TOKEN` in .env."),
    4010: phrase("Discord does not take this shard."),
    4011: phrase("The bot is in too many servers for one connection."),
    4012: phrase("Discord has given up this version of its gateway."),
    4013: phrase("Discord does not know the intents that were asked for."),
    4014: phrase(
        "The bot may not read messages. Switch on `Message Content Intent` in Discord's developer portal, under `Bot`."
    ),
}
FAULTS = {
    10003: SendFault.NOT_FOUND,
    10008: SendFault.NOT_FOUND,
    40005: SendFault.BAD_FORMAT,
    50001: SendFault.FORBIDDEN,
    50007: SendFault.FORBIDDEN,
    50013: SendFault.FORBIDDEN,
    50006: SendFault.BAD_FORMAT,
    50035: SendFault.BAD_FORMAT,
}


class User(Struct):
    """Who wrote something."""

    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False


class File(Struct):
    """An attachment."""

    id: str
    url: str
    filename: str = ""
    size: int | None = None
    content_type: str | None = None


class Sticker(Struct):
    """A picture from a collection."""

    name: str = ""


class Words(Struct):
    """What was handed on."""

    content: str = ""
    attachments: list[File] = []


class Snapshot(Struct):
    """A message that was handed on, as it was then."""

    message: Words


class Emoji(Struct):
    """What a reaction shows."""

    name: str = ""
    id: str | None = None


class Reaction(Struct):
    """How people react to a message."""

    emoji: Emoji
    me: bool = False


class Sent(Struct):
    """What is used of a message that was sent."""

    id: str


class Message(Struct):
    """A message."""

    id: str
    channel_id: str
    author: User
    content: str = ""
    type: int = 0
    flags: int = 0
    guild_id: str | None = None
    webhook_id: str | None = None
    nonce: str | int | None = None
    mentions: list[User] = []
    mention_roles: list[str] = []
    attachments: list[File] = []
    sticker_items: list[Sticker] = []
    message_snapshots: list[Snapshot] = []
    reactions: list[Reaction] = []
    referenced_message: "Message | None" = None


class Channel(Struct):
    """A channel, a thread or a direct chat."""

    id: str
    type: int = 0
    guild_id: str | None = None
    parent_id: str | None = None
    name: str | None = None

    @property
    def is_thread(self) -> bool:
        """Whether it is a thread of another channel."""
        return self.type in (10, 11, 12)


class Member(Struct):
    """Somebody in a server."""

    roles: list[str] = []
    user: User | None = None


class Tags(Struct):
    """Whose role it is."""

    bot_id: str | None = None


class Role(Struct):
    """A role in a server."""

    id: str
    tags: Tags | None = None


class Guild(Struct):
    """A server."""

    id: str
    channels: list[Channel] = []
    threads: list[Channel] = []
    members: list[Member] = []
    roles: list[Role] = []


class Pressed(Struct):
    """What was pressed."""

    custom_id: str = ""


class Interaction(Struct):
    """A press of a button, among others."""

    id: str
    type: int
    token: str
    channel_id: str = ""
    guild_id: str | None = None
    message: Message | None = None
    member: Member | None = None
    user: User | None = None
    data: Pressed | None = None


class Start(Struct, frozen=True):
    """How often a session may still be begun today."""

    remaining: int = 1


class Door(Struct):
    """Where news are to be had."""

    url: str
    session_start_limit: Start = Start()


class Hello(Struct):
    """The first frame."""

    heartbeat_interval: float


class Ready(Struct):
    """A session has begun."""

    session_id: str
    user: User
    resume_gateway_url: str = ""


class Frame(Struct):
    """A frame of the gateway."""

    op: int
    d: msgspec.Raw = msgspec.Raw(b"null")
    s: int | None = None
    t: str | None = None


class Complaint(Struct):
    """What Discord says is wrong."""

    code: int = 0
    message: str = ""
    retry_after: float | None = None


def decoded(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """A value from Discord. Raises `PlatformError`."""
    try:
        return decode_json(raw, kind)
    except msgspec.DecodeError as error:
        raise PlatformError(phrase("Discord's answer cannot be read: {error}", error=describe_error(error))) from error


class Rest:
    """Requests with the bot's token, none beyond what a bucket allows."""

    def __init__(self, token: str, base_url: str, around: PlatformContext) -> None:
        self._base = base_url.rstrip("/")
        self._token = token
        self._around = around
        self._full: dict[str, float] = {}
        """Until when (monotonic) a kind of request in a channel is not made."""

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: dict[str, str] | None = None,
        form: "aiohttp.FormData | None" = None,
        creates: bool = False,
    ) -> bytes:
        """The answer's body. Raises `SendError`."""
        kind = self._kind(method, path)
        self._wait(kind)
        headers = {"Authorization": f"Bot {self._token}", "User-Agent": "DiscordBot (hermes, 1)"}
        data = form if form is not None else None if body is None else msgspec.json.encode(body)
        if form is None and body is not None:
            headers["Content-Type"] = "application/json"
        ask = PlatformRequest(
            method=method,
            url=f"{self._base}/{path}",
            headers=headers,
            query=query or {},
            body=data,
            creates=creates,
            seconds=UPLOAD_SECONDS if form is not None else REQUEST_SECONDS,
        )
        answer = await send_request(self._around.http, ask, "Discord")
        self._learn(kind, answer)
        if answer.status >= 300:
            raise self._error(kind, answer, creates=creates)
        return answer.body

    @staticmethod
    def _kind(method: str, path: str) -> str:
        """What shares a bucket: a method on one kind of thing in one channel."""
        top, _, rest = path.partition("/")
        major, _, rest = rest.partition("/")
        return f"{method} {top} {major} " + "/".join(part for part in rest.split("/") if not part.isdigit())

    def _wait(self, kind: str) -> None:
        now = self._around.clock.monotonic()
        until = max(self._full.get(kind, 0.0), self._full.get("", 0.0))
        if until > now:
            said = phrase("Discord takes no more of these for {n:.1f} seconds.", n=until - now)
            raise SendError(SendFault.RATE_LIMITED, said, retry_after=until - now)

    def _learn(self, kind: str, answer: PlatformResponse) -> None:
        now = self._around.clock.monotonic()
        after = parse_seconds(answer.headers.get("x-ratelimit-reset-after"))
        if after and answer.headers.get("x-ratelimit-remaining") == "0":
            if len(self._full) >= KINDS:
                self._full = {one: until for one, until in self._full.items() if until > now}
            self._full[kind] = now + after

    def _error(self, kind: str, answer: PlatformResponse, *, creates: bool) -> PlatformError:
        try:
            fault = decode_json(answer.body, Complaint)
        except msgspec.DecodeError:
            fault = Complaint(message=f"status {answer.status}")
        said = phrase("Discord said: {error}", error=describe_error(fault.message))
        if answer.status == 401:
            return PlatformRefusedError(REFUSALS[4004])
        if answer.status == 429:
            after = fault.retry_after or parse_seconds(answer.headers.get("retry-after")) or 1.0
            wide = answer.headers.get("x-ratelimit-scope") == "global"
            if wide:
                self._full[""] = self._around.clock.monotonic() + after
            return SendError(SendFault.RATE_LIMITED, said, retry_after=after)
        if answer.status >= 500:
            return SendError(SendFault.TRANSIENT, said, uncertain=creates)
        if b"BASE_TYPE_MAX_LENGTH" in answer.body and b'"content"' in answer.body:
            return SendError(SendFault.TOO_LONG, said)
        known = {
            400: SendFault.BAD_FORMAT,
            403: SendFault.FORBIDDEN,
            404: SendFault.NOT_FOUND,
            413: SendFault.BAD_FORMAT,
        }
        return SendError(FAULTS.get(fault.code, known.get(answer.status, SendFault.UNKNOWN)), said)
