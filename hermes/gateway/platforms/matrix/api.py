"""Matrix's values and calls. Only the fields that are used are named; others are passed over.

Source: the Matrix specification, Client-Server API v1.11.
"""

from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes.gateway.http.errors import (
    REQUEST_SECONDS,
    PlatformRequest,
    PlatformResponse,
    describe_error,
    parse_seconds,
    send_request,
)
from hermes.gateway.http.json_values import Kind, decode_json
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import phrase

V3 = "/_matrix/client/v3"
V1 = "/_matrix/client/v1"
WRONG_TOKEN = phrase("Matrix does not take the access token. Set a new one: `MATRIX_ACCESS_TOKEN` in .env.")
WRONG_PASSWORD = phrase("Matrix does not take this user and password. Set them anew: `MATRIX_PASSWORD` in .env.")
NO_SERVER = phrase("There is no Matrix server at this address: status {status}. Look at `homeserver`.")
FAULTS = {
    "M_LIMIT_EXCEEDED": SendFault.RATE_LIMITED,
    "M_TOO_LARGE": SendFault.TOO_LONG,
    "M_NOT_FOUND": SendFault.NOT_FOUND,
    "M_FORBIDDEN": SendFault.FORBIDDEN,
    "M_GUEST_ACCESS_FORBIDDEN": SendFault.FORBIDDEN,
    "M_USER_DEACTIVATED": SendFault.FORBIDDEN,
    "M_RESOURCE_LIMIT_EXCEEDED": SendFault.FORBIDDEN,
    "M_BAD_JSON": SendFault.BAD_FORMAT,
    "M_NOT_JSON": SendFault.BAD_FORMAT,
    "M_INVALID_PARAM": SendFault.BAD_FORMAT,
    "M_BAD_STATE": SendFault.BAD_FORMAT,
}
_BY_STATUS = {400: SendFault.BAD_FORMAT, 403: SendFault.FORBIDDEN, 404: SendFault.NOT_FOUND, 413: SendFault.TOO_LONG}


class About(Struct):
    """What is said of a file."""

    mimetype: str = ""
    size: int | None = None


class Answered(Struct):
    """The message that another one answers."""

    event_id: str = ""


class Relation(Struct, rename={"in_reply_to": "m.in_reply_to"}):
    """What a message has to do with another one."""

    rel_type: str = ""
    event_id: str = ""
    key: str = ""
    is_falling_back: bool = False
    in_reply_to: Answered | None = None


class Mentions(Struct):
    """Who is called."""

    user_ids: list[str] = []


class Content(
    Struct,
    rename={
        "relates_to": "m.relates_to",
        "mentions": "m.mentions",
        "voice": "org.matrix.msc3245.voice",
        "buttons": "hermes.buttons",
    },
):
    """What a message, a reaction or a membership says."""

    msgtype: str = ""
    body: str = ""
    formatted_body: str = ""
    url: str = ""
    filename: str = ""
    info: About | None = None
    file: dict[str, object] | None = None
    """How an encrypted file is read."""
    geo_uri: str = ""
    relates_to: Relation | None = None
    mentions: Mentions | None = None
    voice: dict[str, object] | None = None
    buttons: list[str] = []
    """The tokens of our own message's buttons."""
    membership: str = ""
    displayname: str | None = None
    is_direct: bool = False


class Before(Struct):
    """What a membership was before."""

    membership: str = ""


class Unsigned(Struct):
    """What the homeserver adds to an event."""

    prev_content: Before | None = None


class Event(Struct):
    """Something that happened in a room."""

    type: str = ""
    event_id: str = ""
    sender: str = ""
    origin_server_ts: float = 0
    state_key: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"{}")
    unsigned: Unsigned | None = None


class Events(Struct):
    """Events of a kind."""

    events: list[msgspec.Raw] = []


class Timeline(Struct):
    """What was said in a room; `limited`: more was, from `prev_batch` backwards."""

    events: list[msgspec.Raw] = []
    limited: bool = False
    prev_batch: str = ""


class Joined(Struct):
    """News of a room in which the agent is."""

    timeline: Timeline = msgspec.field(default_factory=Timeline)
    state: Events = msgspec.field(default_factory=Events)


class Invited(Struct):
    """A room into which it was invited."""

    invite_state: Events = msgspec.field(default_factory=Events)


class Rooms(Struct):
    """Rooms of which there are news."""

    join: dict[str, msgspec.Raw] = {}
    invite: dict[str, msgspec.Raw] = {}
    leave: dict[str, msgspec.Raw] = {}


class Sync(Struct):
    """News since the last time."""

    next_batch: str
    rooms: Rooms = msgspec.field(default_factory=Rooms)
    account_data: Events = msgspec.field(default_factory=Events)


class Page(Struct):
    """A part of a room's history; without `end` there is no more."""

    chunk: list[msgspec.Raw] = []
    end: str | None = None


class Member(Struct):
    """Somebody in a room."""

    display_name: str | None = None


class Members(Struct):
    """Everybody in a room."""

    joined: dict[str, Member] = {}


class Named(Struct):
    """A room's name."""

    name: str = ""


class Whoami(Struct):
    """Who the agent is."""

    user_id: str
    device_id: str = ""


class Login(Struct):
    """What a log-in gives."""

    user_id: str
    access_token: str
    device_id: str = ""


class Profile(Struct):
    """How somebody wants to be called."""

    displayname: str | None = None


class Sent(Struct):
    """An event that was sent."""

    event_id: str


class Uploaded(Struct):
    """Where a file was put."""

    content_uri: str


class Done(Struct):
    """An answer that says nothing."""


class Wrong(Struct):
    """An error."""

    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


class Client:
    """Calls of one homeserver in one account's name."""

    def __init__(self, homeserver: str, token: str, around: PlatformContext) -> None:
        self.base = homeserver.rstrip("/")
        if "://" not in self.base:
            self.base = "https://" + self.base
        self.token = token
        self._around = around

    @property
    def credentials(self) -> dict[str, str]:
        """What every call carries."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def call(
        self,
        method: str,
        path: str,
        kind: type[Kind],
        body: object = None,
        *,
        query: dict[str, str] | None = None,
        limit: float = REQUEST_SECONDS,
    ) -> Kind:
        """A call's answer. Raises `SendError`, and `TokenError` when the token is not taken."""
        raw = None if body is None else msgspec.json.encode(body)
        headers = self.credentials | ({"Content-Type": "application/json"} if raw is not None else {})
        # What is done twice shows once: whatever shows carries an id of its own.
        ask = PlatformRequest(
            method=method,
            url=self.base + path,
            headers=headers,
            query=query or {},
            body=raw,
            creates=method in ("PUT", "POST"),
            seconds=limit,
        )
        return decoded(self.checked(await send_request(self._around.http, ask, "Matrix")).body, kind)

    async def upload(self, name: str, media_type: str, content: bytes, limit: float) -> str:
        """Put a file on the server; its `mxc:` address."""
        ask = PlatformRequest(
            method="POST",
            url=f"{self.base}/_matrix/media/v3/upload",
            headers=self.credentials | {"Content-Type": media_type},
            query={"filename": name},
            body=content,
            seconds=limit,
        )
        try:
            answer = self.checked(await send_request(self._around.http, ask, "Matrix"))
        except SendError as error:
            if error.fault is not SendFault.TOO_LONG:
                raise
            raise SendError(SendFault.BAD_FORMAT, phrase("Matrix does not take a file of this size.")) from error
        return decoded(answer.body, Uploaded).content_uri

    @staticmethod
    def checked(answer: PlatformResponse) -> PlatformResponse:
        """The answer, when it is none that says what went wrong. Raises as `call` does."""
        if answer.status == 200:
            return answer
        try:
            wrong = decode_json(answer.body, Wrong)
        except msgspec.DecodeError:
            wrong = Wrong()
        if answer.status == 401 or wrong.errcode in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
            raise TokenError(WRONG_TOKEN)
        fault = FAULTS.get(wrong.errcode) or _BY_STATUS.get(answer.status, SendFault.UNKNOWN)
        after: float | None = None
        if answer.status == 429 or fault is SendFault.RATE_LIMITED:
            fault, after = SendFault.RATE_LIMITED, parse_seconds(answer.headers.get("retry-after"))
            if wrong.retry_after_ms is not None:
                after = max(0.0, wrong.retry_after_ms / 1000)
            after = 1.0 if after is None else after
        elif answer.status >= 500:
            fault = SendFault.TRANSIENT
        said = describe_error(f"{wrong.errcode} {wrong.error}".strip() or f"status {answer.status}")
        raise SendError(fault, phrase("Matrix said: {error}", error=said), retry_after=after)


class TokenError(PlatformError):
    """The token is not taken (any more)."""


async def log_in(client: Client, user: str, password: str, device: str) -> Login:
    """Log in with a password, as the same device as before where there is one. Raises PlatformRefusedError."""
    wanted: dict[str, object] = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password,
        "initial_device_display_name": "Hermes",
    }
    if device:
        wanted["device_id"] = device
    client.token = ""
    try:
        known = await client.call("POST", f"{V3}/login", Login, wanted)
    except SendError as error:
        if error.fault is SendFault.FORBIDDEN:
            raise PlatformRefusedError(WRONG_PASSWORD) from error
        raise
    except TokenError as error:
        raise PlatformRefusedError(WRONG_PASSWORD) from error
    client.token = known.access_token
    return known


def room_path(room: str, *parts: str) -> str:
    """The path of something in a room."""
    return "/".join([f"{V3}/rooms", *(quote(one, safe="") for one in (room, *parts))])


def decoded(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """A value from Matrix. Raises `PlatformError`."""
    try:
        return decode_json(raw, kind)
    except msgspec.DecodeError as error:
        raise PlatformError(phrase("Matrix's answer cannot be read: {error}", error=describe_error(error))) from error
