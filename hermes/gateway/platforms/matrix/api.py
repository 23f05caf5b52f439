"""Matrix's API objects and client. Only the fields that are used are declared; others are ignored.

Source: the Matrix specification, Client-Server API v1.11.
"""

from urllib.parse import quote

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.gateway.http.client import (
    REQUEST_SECONDS,
    Kind,
    PlatformRequest,
    PlatformResponse,
    decode_json,
    decode_response,
    describe_error,
    parse_seconds,
    send_request,
)
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import N_

V3 = "/_matrix/client/v3"
V1 = "/_matrix/client/v1"
WRONG_TOKEN = N_("Matrix does not take the access token. Set a new one: `MATRIX_ACCESS_TOKEN` in .env.")
WRONG_PASSWORD = N_("Matrix does not take this user and password. Set them again: `MATRIX_PASSWORD` in .env.")
FAULTS_BY_ERROR = {
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
_FAULTS_BY_STATUS = {
    400: SendFault.BAD_FORMAT,
    403: SendFault.FORBIDDEN,
    404: SendFault.NOT_FOUND,
    413: SendFault.TOO_LONG,
}


class MatrixFileInfo(Struct):
    """The metadata of a file."""

    mimetype: str = ""
    size: int | None = None


class MatrixReplyTarget(Struct):
    """The message that is answered."""

    event_id: str = ""


class MatrixRelation(Struct, rename={"in_reply_to": "m.in_reply_to"}):
    """How a message relates to another one."""

    rel_type: str = ""
    event_id: str = ""
    key: str = ""
    is_falling_back: bool = False
    in_reply_to: MatrixReplyTarget | None = None


class MatrixMentions(Struct):
    """The people who are mentioned."""

    user_ids: list[str] = []


class MatrixContent(
    Struct,
    rename={
        "relates_to": "m.relates_to",
        "mentions": "m.mentions",
        "voice": "org.matrix.msc3245.voice",
        "buttons": "hermes.buttons",
    },
):
    """The content of a message, a reaction or a membership."""

    msgtype: str = ""
    body: str = ""
    formatted_body: str = ""
    url: str = ""
    filename: str = ""
    info: MatrixFileInfo | None = None
    file: dict[str, object] | None = None
    """How an encrypted file is decrypted."""
    geo_uri: str = ""
    relates_to: MatrixRelation | None = None
    mentions: MatrixMentions | None = None
    voice: dict[str, object] | None = None
    buttons: list[str] = []
    """The tokens of our own message's buttons."""
    membership: str = ""
    displayname: str | None = None
    is_direct: bool = False


class MatrixPreviousContent(Struct):
    """A membership as it was before."""

    membership: str = ""


class MatrixUnsigned(Struct):
    """The fields that the homeserver adds to an event."""

    prev_content: MatrixPreviousContent | None = None


class MatrixEvent(Struct):
    """An event in a room."""

    type: str = ""
    event_id: str = ""
    sender: str = ""
    origin_server_ts: float = 0
    state_key: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"{}")
    unsigned: MatrixUnsigned | None = None


class MatrixEvents(Struct):
    """A list of events."""

    events: list[msgspec.Raw] = []


class MatrixTimeline(Struct):
    """The newest events of a room; if `limited`, older ones are read from `prev_batch` backwards."""

    events: list[msgspec.Raw] = []
    limited: bool = False
    prev_batch: str = ""


class MatrixJoinedRoom(Struct):
    """The changes in a room that the agent has joined."""

    timeline: MatrixTimeline = msgspec.field(default_factory=MatrixTimeline)
    state: MatrixEvents = msgspec.field(default_factory=MatrixEvents)


class MatrixInvitedRoom(Struct):
    """A room to which the agent was invited."""

    invite_state: MatrixEvents = msgspec.field(default_factory=MatrixEvents)


class MatrixSyncRooms(Struct):
    """The rooms in a sync response."""

    join: dict[str, msgspec.Raw] = {}
    invite: dict[str, msgspec.Raw] = {}
    leave: dict[str, msgspec.Raw] = {}


class MatrixSync(Struct):
    """A sync response: the changes since the last one."""

    next_batch: str
    rooms: MatrixSyncRooms = msgspec.field(default_factory=MatrixSyncRooms)
    account_data: MatrixEvents = msgspec.field(default_factory=MatrixEvents)


class MatrixHistoryPage(Struct):
    """A page of a room's history; the last one has no `end`."""

    chunk: list[msgspec.Raw] = []
    end: str | None = None


class MatrixMember(Struct):
    """A member of a room."""

    display_name: str | None = None


class MatrixMembers(Struct):
    """All members of a room."""

    joined: dict[str, MatrixMember] = {}


class MatrixRoomName(Struct):
    """The name of a room."""

    name: str = ""


class MatrixWhoami(Struct):
    """The agent's own account."""

    user_id: str
    device_id: str = ""


class MatrixLogin(Struct):
    """The result of a log-in."""

    user_id: str
    access_token: str
    device_id: str = ""


class MatrixProfile(Struct):
    """A user's profile."""

    displayname: str | None = None


class MatrixSentEvent(Struct):
    """The id of an event that was sent."""

    event_id: str


class MatrixUpload(Struct):
    """The address of an uploaded file."""

    content_uri: str


class MatrixEmptyResponse(Struct):
    """A response without content."""


class MatrixErrorBody(Struct):
    """The body of an error response."""

    errcode: str = ""
    error: str = ""
    retry_after_ms: float | None = None


class MatrixClient:
    """The API of one homeserver for one account."""

    def __init__(self, homeserver: str, token: str, context: PlatformContext) -> None:
        self.base = homeserver.rstrip("/")
        if "://" not in self.base:
            self.base = "https://" + self.base
        self.token = token
        self._context = context

    @property
    def credentials(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    async def call_api(
        self,
        method: str,
        path: str,
        kind: type[Kind],
        body: object = None,
        *,
        query: dict[str, str] | None = None,
        limit: float = REQUEST_SECONDS,
    ) -> Kind:
        """Make a request and return its response.

        Raises `SendError`, and `MatrixTokenError` when the token is refused.
        """
        raw = None if body is None else to_json(body)
        headers = self.credentials | ({"Content-Type": "application/json"} if raw is not None else {})
        # What is done twice shows once: whatever shows carries an id of its own.
        call = PlatformRequest(
            method=method,
            url=self.base + path,
            headers=headers,
            query=query or {},
            body=raw,
            creates=method in ("PUT", "POST"),
            seconds=limit,
        )
        return decode_response(
            self.check_response(await send_request(self._context.http, call, "Matrix")).body, kind, "Matrix"
        )

    async def upload_file(self, name: str, media_type: str, content: bytes, limit: float) -> str:
        """Upload a file and return its `mxc:` address."""
        call = PlatformRequest(
            method="POST",
            url=f"{self.base}/_matrix/media/v3/upload",
            headers=self.credentials | {"Content-Type": media_type},
            query={"filename": name},
            body=content,
            seconds=limit,
        )
        try:
            answer = self.check_response(await send_request(self._context.http, call, "Matrix"))
        except SendError as error:
            if error.fault is not SendFault.TOO_LONG:
                raise
            raise SendError(SendFault.BAD_FORMAT, N_("Matrix does not take a file of this size.")) from error
        return decode_response(answer.body, MatrixUpload, "Matrix").content_uri

    @staticmethod
    def check_response(answer: PlatformResponse) -> PlatformResponse:
        """Return a successful response. Raises for others as `call_api` does."""
        if answer.status == 200:
            return answer
        try:
            wrong = decode_json(answer.body, MatrixErrorBody)
        except msgspec.DecodeError:
            wrong = MatrixErrorBody()
        if answer.status == 401 or wrong.errcode in ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN"):
            raise MatrixTokenError(WRONG_TOKEN)
        fault = FAULTS_BY_ERROR.get(wrong.errcode) or _FAULTS_BY_STATUS.get(answer.status, SendFault.UNKNOWN)
        after: float | None = None
        if answer.status == 429 or fault is SendFault.RATE_LIMITED:
            fault, after = SendFault.RATE_LIMITED, parse_seconds(answer.headers.get("retry-after"))
            if wrong.retry_after_ms is not None:
                after = max(0.0, wrong.retry_after_ms / 1000)
            after = 1.0 if after is None else after
        elif answer.status >= 500:
            fault = SendFault.TRANSIENT
        said = describe_error(f"{wrong.errcode} {wrong.error}".strip() or f"status {answer.status}")
        raise SendError(fault, N_("Matrix said: {error}", error=said), retry_after=after)


class MatrixTokenError(PlatformError):
    """The access token is refused."""


async def log_in(client: MatrixClient, user: str, password: str, device: str) -> MatrixLogin:
    """Log in with a password, as the same device as before if there was one. Raises PlatformRefusedError."""
    body: dict[str, object] = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": user},
        "password": password,
        "initial_device_display_name": "Hermes",
    }
    if device:
        body["device_id"] = device
    client.token = ""
    try:
        known = await client.call_api("POST", f"{V3}/login", MatrixLogin, body)
    except SendError as error:
        if error.fault is SendFault.FORBIDDEN:
            raise PlatformRefusedError(WRONG_PASSWORD) from error
        raise
    except MatrixTokenError as error:
        raise PlatformRefusedError(WRONG_PASSWORD) from error
    client.token = known.access_token
    return known


def room_path(room: str, *parts: str) -> str:
    """Return the API path of something in a room."""
    return "/".join([f"{V3}/rooms", *(quote(one, safe="") for one in (room, *parts))])
