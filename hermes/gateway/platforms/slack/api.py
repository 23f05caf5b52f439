"""Slack's API objects and Web API client. Only the fields that are used are declared; others are ignored."""

from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.gateway.http.client import (
    REQUEST_SECONDS,
    Kind,
    PlatformRequest,
    decode_response,
    describe_error,
    parse_seconds,
    send_request,
)
from hermes.gateway.platform import PlatformContext, PlatformError, PlatformRefusedError, SendError, SendFault
from hermes.i18n.messages import N_

WRONG_BOT_TOKEN = N_("Slack does not take the bot's token. Set a new one: `SLACK_BOT_TOKEN` in .env.")
WRONG_APP_TOKEN = N_(
    "Slack does not take the app's token. Set a new one with `connections:write`: `SLACK_APP_TOKEN` in .env."
)
TOKEN_ERRORS = frozenset(
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
FAULTS_BY_ERROR = {
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


class SlackFile(Struct):
    """A file that was shared."""

    id: str = ""
    name: str | None = None
    mimetype: str | None = None
    size: int | None = None
    subtype: str | None = None
    is_external: bool = False
    url_private: str = ""
    url_private_download: str = ""


class SlackMessageMetadata(Struct):
    """Metadata that an app attached to its own message."""

    event_payload: dict[str, object] = {}


class SlackReaction(Struct):
    """A reaction to a message, and the people who gave it."""

    name: str
    users: list[str] = []


class SlackMessage(Struct):
    """A message in an event or in a history."""

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
    files: list[SlackFile] = []
    metadata: SlackMessageMetadata | None = None
    reactions: list[SlackReaction] = []


class SlackEventType(Struct):
    """The type of an event."""

    type: str = ""


class SlackEventPayload(Struct):
    """The payload of an Events API envelope."""

    event: msgspec.Raw = msgspec.Raw(b"{}")


class SlackActionUser(Struct):
    """The person who pressed a button."""

    id: str
    username: str = ""
    name: str = ""


class SlackContainer(Struct):
    """The message that holds the pressed button."""

    channel_id: str = ""
    message_ts: str = ""
    thread_ts: str = ""


class SlackAction(Struct):
    """The element that was pressed."""

    type: str = ""
    action_id: str = ""
    value: str = ""
    action_ts: str = ""


class SlackInteraction(Struct):
    """A press of a button, or another interaction."""

    type: str
    user: SlackActionUser
    container: SlackContainer = msgspec.field(default_factory=SlackContainer)
    actions: list[SlackAction] = []


class SlackCommand(Struct):
    """A slash command."""

    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    text: str = ""
    user_name: str = ""
    channel_name: str = ""


class SlackFrame(Struct):
    """A frame of Socket Mode."""

    type: str
    envelope_id: str = ""
    reason: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"null")


class SlackResponse(Struct):
    """The fields that every response has."""

    ok: bool
    error: str = ""


class SlackSocketAddress(Struct):
    """The WebSocket address for Socket Mode."""

    url: str


class SlackAccount(Struct, rename={"user": "user_id", "bot": "bot_id", "name": "user"}):
    """The bot's own account."""

    user: str
    bot: str = ""
    name: str = ""


class SlackSentMessage(Struct):
    """The timestamp, and so the id, of a message that was sent."""

    ts: str


class SlackPageCursor(Struct):
    """The cursor of the next page."""

    next_cursor: str = ""


class SlackHistoryPage(Struct):
    """A page of a history."""

    messages: list[msgspec.Raw] = []
    response_metadata: SlackPageCursor | None = None


class SlackMessageResponse(Struct):
    """The response that holds one message."""

    message: SlackMessage


class SlackProfile(Struct):
    """The names that a person chose."""

    display_name: str = ""
    real_name: str = ""


class SlackUser(Struct):
    """A person or a bot."""

    name: str = ""
    is_bot: bool = False
    profile: SlackProfile = msgspec.field(default_factory=SlackProfile)


class SlackUserResponse(Struct):
    """The response that holds one user."""

    user: SlackUser


class SlackUpload(Struct):
    """The address to which a file is uploaded."""

    upload_url: str
    file_id: str


class SlackFileShare(Struct):
    """A message that shows a file."""

    ts: str


class SlackFileShares(Struct):
    """The messages that show a file, by channel."""

    public: dict[str, list[SlackFileShare]] = {}
    private: dict[str, list[SlackFileShare]] = {}


class SlackFileInfo(Struct):
    """A file, and the messages that show it."""

    shares: SlackFileShares = msgspec.field(default_factory=SlackFileShares)


class SlackFileResponse(Struct):
    """The response that holds one file."""

    file: SlackFileInfo


FORM_CONTENT_TYPE = "application/x-www-form-urlencoded; charset=utf-8"


class SlackClient:
    """Slack's Web API with the bot's and the app's token."""

    def __init__(self, bot_token: str, app_token: str, base_url: str, context: PlatformContext) -> None:
        self._bot_token = bot_token
        self._app_token = app_token
        self._base = base_url.rstrip("/")
        self._context = context

    @property
    def credentials(self) -> dict[str, str]:
        """The headers of a request for the bot's files."""
        return {"Authorization": f"Bearer {self._bot_token}"}

    async def call_method(
        self,
        method: str,
        kind: type[Kind],
        arguments: dict[str, object] | None = None,
        *,
        creates: bool = False,
        app: bool = False,
        limit: float = REQUEST_SECONDS,
    ) -> Kind:
        """Call a method and return its response.

        Raises `SendError`, or `PlatformRefusedError` when a token is wrong.
        """
        token = self._app_token if app else self._bot_token
        call = PlatformRequest(
            method="POST",
            url=f"{self._base}/{method}",
            headers={"Authorization": f"Bearer {token}", "Content-Type": FORM_CONTENT_TYPE},
            body=_encode_form(arguments or {}),
            creates=creates,
            seconds=limit,
        )
        answer = await send_request(self._context.http, call, "Slack")
        if answer.status == 429:
            after = parse_seconds(answer.headers.get("retry-after")) or 1.0
            said = N_("Slack said: {error}", error="ratelimited")
            raise SendError(SendFault.RATE_LIMITED, said, retry_after=after)
        if answer.status >= 500:
            said = N_("Slack answered with status {status}.", status=answer.status)
            raise SendError(SendFault.TRANSIENT, said, uncertain=creates)
        done = decode_response(answer.body, SlackResponse, "Slack")
        if not done.ok:
            raise _make_error(done.error, app=app, creates=creates)
        return decode_response(answer.body, kind, "Slack")


def _encode_form(arguments: dict[str, object]) -> bytes:
    """Encode arguments as a form, which every method takes; lists and objects in it are JSON."""
    plain = {name: value if isinstance(value, str) else to_json(value).decode() for name, value in arguments.items()}
    return urlencode(plain).encode()


def _make_error(name: str, *, app: bool, creates: bool) -> PlatformError:
    if name in TOKEN_ERRORS:
        return PlatformRefusedError(WRONG_APP_TOKEN if app else WRONG_BOT_TOKEN)
    fault = FAULTS_BY_ERROR.get(name, SendFault.UNKNOWN)
    said = N_("Slack said: {error}", error=describe_error(name or "?"))
    return SendError(fault, said, uncertain=creates and fault is SendFault.TRANSIENT)
