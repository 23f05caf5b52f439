"""Discord's API objects and REST client, version 10. Only the fields that are used are declared; others are ignored."""

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.gateway.http.client import (
    REQUEST_SECONDS,
    UPLOAD_SECONDS,
    PlatformRequest,
    PlatformResponse,
    decode_json,
    describe_error,
    parse_seconds,
    send_request,
)
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    import aiohttp

DISCORD_EPOCH = 1_420_070_400.0
"""The time from which Discord's ids count, in seconds since the Unix epoch."""
MAX_KNOWN_BUCKETS = 2_000
"""Rate limit buckets that are remembered at most."""
CLOSE_CODE_ERRORS = {
    4004: N_("Discord does not take the bot's token. Set a new one: `DISCORD_BOT_TOKEN` in .env."),
    4010: N_("Discord does not take this shard."),
    4011: N_("The bot is in too many servers for one connection."),
    4012: N_("Discord has given up this version of its gateway."),
    4013: N_("Discord does not know the intents that were asked for."),
    4014: N_(
        "The bot may not read messages. Switch on `Message Content Intent` in Discord's developer portal, under `Bot`."
    ),
}
FAULTS_BY_CODE = {
    10003: SendFault.NOT_FOUND,
    10008: SendFault.NOT_FOUND,
    40005: SendFault.BAD_FORMAT,
    50001: SendFault.FORBIDDEN,
    50007: SendFault.FORBIDDEN,
    50013: SendFault.FORBIDDEN,
    50006: SendFault.BAD_FORMAT,
    50035: SendFault.BAD_FORMAT,
    50173: SendFault.BAD_FORMAT,  # no voice messages in this channel: it is sent as a file then
}


class DiscordUser(Struct):
    """The author of a message."""

    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False


class DiscordFile(Struct):
    """An attachment."""

    id: str
    url: str
    filename: str = ""
    size: int | None = None
    content_type: str | None = None


class DiscordSticker(Struct):
    """A sticker."""

    name: str = ""


class ForwardedContent(Struct):
    """The content of a forwarded message."""

    content: str = ""
    attachments: list[DiscordFile] = []


class MessageSnapshot(Struct):
    """A forwarded message, as it was when it was forwarded."""

    message: ForwardedContent


class DiscordEmoji(Struct):
    """The emoji of a reaction."""

    name: str = ""
    id: str | None = None


class DiscordReaction(Struct):
    """A reaction to a message."""

    emoji: DiscordEmoji
    me: bool = False


class DiscordSentMessage(Struct):
    """The id of a message that was sent."""

    id: str


class DiscordUploadPlace(Struct):
    """Where a file is to be put, and the name by which a message refers to it then."""

    upload_url: str
    upload_filename: str


class DiscordUploadPlaces(Struct):
    """The places for files that were asked for."""

    attachments: list[DiscordUploadPlace] = []


class DiscordMessage(Struct):
    """A message."""

    id: str
    channel_id: str
    author: DiscordUser
    content: str = ""
    type: int = 0
    flags: int = 0
    guild_id: str | None = None
    webhook_id: str | None = None
    mentions: list[DiscordUser] = []
    mention_roles: list[str] = []
    attachments: list[DiscordFile] = []
    sticker_items: list[DiscordSticker] = []
    message_snapshots: list[MessageSnapshot] = []
    reactions: list[DiscordReaction] = []
    referenced_message: "DiscordMessage | None" = None


class DiscordChannel(Struct):
    """A channel, a thread or a direct chat."""

    id: str
    type: int = 0
    guild_id: str | None = None
    parent_id: str | None = None
    name: str | None = None

    @property
    def is_thread(self) -> bool:
        """Whether it is a thread inside another channel."""
        return self.type in (10, 11, 12)


class DiscordMember(Struct):
    """A member of a server."""

    roles: list[str] = []
    user: DiscordUser | None = None


class DiscordRoleTags(Struct):
    """The owner of a role."""

    bot_id: str | None = None


class DiscordRole(Struct):
    """A role in a server."""

    id: str
    tags: DiscordRoleTags | None = None


class DiscordGuild(Struct):
    """A server."""

    id: str
    channels: list[DiscordChannel] = []
    threads: list[DiscordChannel] = []
    members: list[DiscordMember] = []
    roles: list[DiscordRole] = []


class DiscordCommandOption(Struct):
    """An argument of a command."""

    name: str = ""
    value: str | int | float | bool = ""


class DiscordInteractionData(Struct):
    """The component that was pressed, or the command that was called."""

    custom_id: str = ""
    name: str = ""
    options: list[DiscordCommandOption] = []


class DiscordInteraction(Struct):
    """A press of a button, or another interaction."""

    id: str
    type: int
    token: str
    channel_id: str = ""
    guild_id: str | None = None
    message: DiscordMessage | None = None
    member: DiscordMember | None = None
    user: DiscordUser | None = None
    data: DiscordInteractionData | None = None


class SessionStartLimit(Struct, frozen=True):
    """How many sessions may still be started today."""

    remaining: int = 1


class DiscordGatewayInfo(Struct):
    """The address of Discord's gateway, and how many sessions may still be started."""

    url: str
    session_start_limit: SessionStartLimit = SessionStartLimit()


class DiscordHello(Struct):
    """The gateway's first frame."""

    heartbeat_interval: float


class DiscordReady(Struct):
    """The frame that says that a session has begun."""

    session_id: str
    user: DiscordUser
    resume_gateway_url: str = ""


class DiscordFrame(Struct):
    """A frame of Discord's gateway."""

    op: int
    d: msgspec.Raw = msgspec.Raw(b"null")
    s: int | None = None
    t: str | None = None


class DiscordErrorBody(Struct):
    """The body of an error response."""

    code: int = 0
    message: str = ""
    retry_after: float | None = None


class DiscordClient:
    """Discord's REST API with the bot's token; no request is made while its rate limit bucket is empty."""

    def __init__(self, token: str, base_url: str, context: PlatformContext) -> None:
        self._base = base_url.rstrip("/")
        self._token = token
        self._context = context
        self._blocked_until: dict[str, float] = {}
        """By bucket, the monotonic time before which no request is made; the empty name is the global limit."""

    async def call_api(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: dict[str, str] | None = None,
        form: "aiohttp.FormData | None" = None,
        creates: bool = False,
    ) -> bytes:
        """Make a request and return the response's body. Raises `SendError`."""
        bucket = self._bucket_name(method, path)
        self._check_limit(bucket)
        headers = {"Authorization": f"Bot {self._token}", "User-Agent": "DiscordBot (hermes, 1)"}
        data = form if form is not None else None if body is None else to_json(body)
        if form is None and body is not None:
            headers["Content-Type"] = "application/json"
        call = PlatformRequest(
            method=method,
            url=f"{self._base}/{path}",
            headers=headers,
            query=query or {},
            body=data,
            creates=creates,
            seconds=UPLOAD_SECONDS if form is not None else REQUEST_SECONDS,
        )
        answer = await send_request(self._context.http, call, "Discord")
        self._store_limit(bucket, answer)
        if answer.status >= 300:
            raise self._make_error(bucket, answer, creates=creates)
        return answer.body

    async def upload_content(self, url: str, content: bytes, media_type: str) -> None:
        """Put a file where Discord has said; that is another host, which is not shown the token. Raises `SendError`."""
        call = PlatformRequest(
            method="PUT", url=url, headers={"Content-Type": media_type}, body=content, seconds=UPLOAD_SECONDS
        )
        answer = await send_request(self._context.http, call, "Discord")
        if answer.status >= 300:
            fault = SendFault.TRANSIENT if answer.status >= 500 else SendFault.BAD_FORMAT
            raise SendError(fault, N_("Discord did not take the file: status {status}.", status=answer.status))

    @staticmethod
    def _bucket_name(method: str, path: str) -> str:
        """Return the rate limit bucket of a request: the method, the kind of thing and the channel."""
        top, _, rest = path.partition("/")
        major, _, rest = rest.partition("/")
        return f"{method} {top} {major} " + "/".join(part for part in rest.split("/") if not part.isdigit())

    def _check_limit(self, bucket: str) -> None:
        now = self._context.clock.monotonic()
        until = max(self._blocked_until.get(bucket, 0.0), self._blocked_until.get("", 0.0))
        if until > now:
            said = N_("Discord takes no more of these for {n:.1f} seconds.", n=until - now)
            raise SendError(SendFault.RATE_LIMITED, said, retry_after=until - now)

    def _store_limit(self, bucket: str, answer: PlatformResponse) -> None:
        now = self._context.clock.monotonic()
        after = parse_seconds(answer.headers.get("x-ratelimit-reset-after"))
        if after and answer.headers.get("x-ratelimit-remaining") == "0":
            if len(self._blocked_until) >= MAX_KNOWN_BUCKETS:
                self._blocked_until = {one: until for one, until in self._blocked_until.items() if until > now}
            self._blocked_until[bucket] = now + after

    def _make_error(self, bucket: str, answer: PlatformResponse, *, creates: bool) -> PlatformError:
        try:
            fault = decode_json(answer.body, DiscordErrorBody)
        except msgspec.DecodeError:
            fault = DiscordErrorBody(message=f"status {answer.status}")
        said = N_("Discord said: {error}", error=describe_error(fault.message))
        if answer.status == 401:
            return PlatformRefusedError(CLOSE_CODE_ERRORS[4004])
        if answer.status == 429:
            after = fault.retry_after or parse_seconds(answer.headers.get("retry-after")) or 1.0
            wide = answer.headers.get("x-ratelimit-scope") == "global"
            if wide:
                self._blocked_until[""] = self._context.clock.monotonic() + after
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
        return SendError(FAULTS_BY_CODE.get(fault.code, known.get(answer.status, SendFault.UNKNOWN)), said)
