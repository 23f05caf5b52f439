"""Slack's values and requests. Only the fields that are used are named; others are passed over."""

from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from hermes.gateway.http.errors import REQUEST_SECONDS, PlatformRequest, describe_error, parse_seconds, send_request
from hermes.gateway.http.json_values import Kind, decode_json
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import phrase

WRONG_BOT = phrase("Slack does not take the bot's token. Set a new one: `SLACK_BOT_TOKEN` in .env.")
WRONG_APP = phrase(
    "Slack does not take the app's token. Set a new one with `connections:write`: `SLACK_APP_TOKEN` in .env."
)
REFUSED = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "not_allowed_token_type",
        "org_login_required",
    }
)
FAULTS = {
    "ratelimited": SendFault.RATE_LIMITED,
    "rate_limited": SendFault.RATE_LIMITED,
    "message_limit_exceeded": SendFault.RATE_LIMITED,
    "msg_too_long": SendFault.TOO_LONG,
    "channel_not_found": SendFault.NOT_FOUND,
    "message_not_found": SendFault.NOT_FOUND,
    "thread_not_found": SendFault.NOT_FOUND,
    "user_not_found": SendFault.NOT_FOUND,
    "is_archived": SendFault.FORBIDDEN,
    "not_in_channel": SendFault.FORBIDDEN,
    "restricted_action": SendFault.FORBIDDEN,
    "restricted_action_read_only_channel": SendFault.FORBIDDEN,
    "restricted_action_thread_locked": SendFault.FORBIDDEN,
    "cant_update_message": SendFault.FORBIDDEN,
    "edit_window_closed": SendFault.FORBIDDEN,
    "missing_scope": SendFault.FORBIDDEN,
    "no_permission": SendFault.FORBIDDEN,
    "access_denied": SendFault.FORBIDDEN,
    "messages_tab_disabled": SendFault.FORBIDDEN,
    "no_text": SendFault.BAD_FORMAT,
    "invalid_blocks": SendFault.BAD_FORMAT,
    "invalid_blocks_format": SendFault.BAD_FORMAT,
    "invalid_name": SendFault.BAD_FORMAT,
    "file_not_found": SendFault.BAD_FORMAT,
    "file_upload_size_restricted": SendFault.BAD_FORMAT,
    "internal_error": SendFault.TRANSIENT,
    "fatal_error": SendFault.TRANSIENT,
    "service_unavailable": SendFault.TRANSIENT,
    "request_timeout": SendFault.TRANSIENT,
    "team_added_to_org": SendFault.TRANSIENT,
}


class File(Struct):
    """A file that was shared."""

    id: str = ""
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    subtype: str | None = None
    is_external: bool = False
    file_access: str = ""
    url_private: str = ""
    url_private_download: str = ""


class Mark(Struct):
    """What an app has hung on a message of its own."""

    event_payload: dict[str, object] = {}


class Reaction(Struct):
    """How people react to a message."""

    name: str
    users: list[str] = []


class Message(Struct):
    """A message, as an event or in a history."""

    ts: str
    user: str | None = None
    bot_id: str | None = None
    username: str | None = None
    text: str | None = None
    subtype: str | None = None
    channel: str = ""
    channel_type: str = ""
    thread_ts: str | None = None
    parent_user_id: str | None = None
    files: list[File] = []
    metadata: Mark | None = None
    reactions: list[Reaction] = []


class Happened(Struct):
    """What kind of event it is."""

    type: str = ""


class Event(Struct):
    """What an envelope of events holds."""

    event: msgspec.Raw = msgspec.Raw(b"{}")


class Person(Struct):
    """Somebody, as presses name them."""

    id: str
    username: str = ""
    name: str = ""


class Where(Struct):
    """The message that holds what was pressed."""

    channel_id: str = ""
    message_ts: str = ""
    thread_ts: str = ""


class Action(Struct):
    """What was pressed."""

    type: str = ""
    action_id: str = ""
    value: str = ""
    action_ts: str = ""


class Pressed(Struct):
    """A press of a button, among others."""

    type: str
    user: Person
    container: Where = msgspec.field(default_factory=Where)
    actions: list[Action] = []


class Command(Struct):
    """A slash command."""

    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    text: str = ""
    user_name: str = ""
    channel_name: str = ""


class Frame(Struct):
    """A frame of Socket Mode."""

    type: str
    envelope_id: str = ""
    reason: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")


class Done(Struct):
    """What every answer says."""

    ok: bool
    error: str = ""


class Link(Struct):
    """Where news are to be had."""

    url: str


class Account(Struct, rename={"user": "user_id", "bot": "bot_id"}):
    """Who the bot is."""

    user: str
    bot: str = ""


class Sent(Struct):
    """What is used of a message that was sent."""

    ts: str


class More(Struct):
    """Where the next page begins."""

    next_cursor: str = ""


class Page(Struct):
    """A part of a history."""

    messages: list[msgspec.Raw] = []
    response_metadata: More | None = None


class One(Struct):
    """A message that was asked for."""

    message: Message


class Profile(Struct):
    """How somebody wants to be called."""

    display_name: str = ""
    real_name: str = ""


class User(Struct):
    """Somebody."""

    name: str = ""
    is_bot: bool = False
    profile: Profile = msgspec.field(default_factory=Profile)


class Known(Struct):
    """Somebody who was asked for."""

    user: User


class Upload(Struct):
    """Where a file is to be sent to."""

    upload_url: str
    file_id: str


class Share(Struct):
    """A message that shows a file."""

    ts: str


class Shares(Struct):
    """Where a file is shown, by channel."""

    public: dict[str, list[Share]] = {}
    private: dict[str, list[Share]] = {}


class About(Struct):
    """A file that was asked for."""

    shares: Shares = msgspec.field(default_factory=Shares)


class Shown(Struct):
    """What is said of a file."""

    file: About


FORM = "application/x-www-form-urlencoded; charset=utf-8"


class Web:
    """Calls of Slack's Web API."""

    def __init__(self, bot_token: str, app_token: str, base_url: str, around: PlatformContext) -> None:
        self._bot_token = bot_token
        self._app_token = app_token
        self._base = base_url.rstrip("/")
        self._around = around

    @property
    def credentials(self) -> dict[str, str]:
        """What a request for the bot's files carries."""
        return {"Authorization": f"Bearer {self._bot_token}"}

    async def call(
        self,
        method: str,
        kind: type[Kind],
        wanted: dict[str, object] | None = None,
        *,
        creates: bool = False,
        app: bool = False,
        limit: float = REQUEST_SECONDS,
    ) -> Kind:
        """A call's answer. Raises `SendError`, or `PlatformRefusedError` when a token is wrong."""
        token = self._app_token if app else self._bot_token
        ask = PlatformRequest(
            method="POST",
            url=f"{self._base}/{method}",
            headers={"Authorization": f"Bearer {token}", "Content-Type": FORM},
            body=_form(wanted or {}),
            creates=creates,
            seconds=limit,
        )
        answer = await send_request(self._around.http, ask, "Slack")
        if answer.status == 429:
            after = parse_seconds(answer.headers.get("retry-after")) or 1.0
            said = phrase("Slack said: {error}", error="ratelimited")
            raise SendError(SendFault.RATE_LIMITED, said, retry_after=after)
        if answer.status >= 500:
            said = phrase("Slack answered with status {status}.", status=answer.status)
            raise SendError(SendFault.TRANSIENT, said, uncertain=creates)
        done = decoded(answer.body, Done)
        if not done.ok:
            raise _error(done.error, app=app, creates=creates)
        return decoded(answer.body, kind)


def _form(wanted: dict[str, object]) -> bytes:
    """Arguments as a form, which every method takes; many do not take JSON. Lists and objects stand in it as JSON."""
    plain = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode() for name, value in wanted.items()
    }
    return urlencode(plain).encode()


def _error(name: str, *, app: bool, creates: bool) -> PlatformError:
    if name in REFUSED:
        return PlatformRefusedError(WRONG_APP if app else WRONG_BOT)
    fault = FAULTS.get(name, SendFault.UNKNOWN)
    said = phrase("Slack said: {error}", error=describe_error(name or "?"))
    return SendError(fault, said, uncertain=creates and fault is SendFault.TRANSIENT)


def decoded(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """A value from Slack. Raises `PlatformError`."""
    try:
        return decode_json(raw, kind)
    except msgspec.DecodeError as error:
        raise PlatformError(phrase("Slack's answer cannot be read: {error}", error=describe_error(error))) from error
