"""Matrix: long polls for inbound events, the client-server API for requests.

The next sync is requested when the last one is on disk; events that did not fit into it are read from the rooms'
histories. A message's transaction id is made from its key, so that the homeserver accepts it once. Buttons are
reactions that are already below a message. Encrypted rooms cannot be read. Source: the Matrix specification,
Client-Server API v1.11.
"""

import asyncio
import hashlib
import io
import mimetypes
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from hermes.core.chats import Attachment, Batch, Button, MediaKind, Outgoing, Place
from hermes.core.encoding import to_json
from hermes.gateway import platform as base
from hermes.gateway.http.client import UPLOAD_SECONDS, Kind, decode_json, save_file
from hermes.gateway.platform import (
    Capabilities,
    Descriptor,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformRefusedError,
    Resend,
    SendError,
    SendFault,
    utf8,
)
from hermes.gateway.platforms.matrix.api import (
    V1,
    V3,
    MatrixClient,
    MatrixEmptyResponse,
    MatrixEvent,
    MatrixHistoryPage,
    MatrixSentEvent,
    MatrixSync,
    MatrixTokenError,
    MatrixWhoami,
    log_in,
    room_path,
)
from hermes.gateway.platforms.matrix.events import (
    BUTTON_REACTIONS,
    KnownMatrixMessage,
    MatrixEventReader,
    UnsavedMatrixEvents,
)
from hermes.gateway.text.dialect import to_html_fragment, to_plain_text
from hermes.gateway.text.media import content_of, read_facts
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from hermes.speech.ogg_opus import VoiceFacts

LIMIT = 16_000
"""Bytes of the longest text.

An event holds 65,535, and an edit holds its text twice, each time with its HTML.
"""
EVENT_LIMIT = 60_000
"""Bytes of the content of our largest event; the homeserver adds fields of its own."""
FILE_LIMIT = 50 * 1024 * 1024
"""Size in bytes of the largest file that is sent: Synapse's limit."""
POLL_SECONDS = 30.0
TYPING_SECONDS = 20.0
RECEIPT_SECONDS = 5.0
SYNC_FILTER = (
    '{"presence":{"types":[]},"account_data":{"types":["m.direct"]},"room":{"timeline":{"limit":50},'
    '"state":{"lazy_load_members":true},"ephemeral":{"types":[]},"account_data":{"types":[]}}}'
)
_MOST_POINTS = 100
"""Points of a voice message's picture; clients show no more."""
_MESSAGE_TYPES = {
    MediaKind.IMAGE: "m.image",
    MediaKind.VOICE: "m.audio",
    MediaKind.AUDIO: "m.audio",
    MediaKind.VIDEO: "m.video",
    MediaKind.DOCUMENT: "m.file",
}


class InvitationPolicy(StrEnum):
    """Whose invitations the agent accepts."""

    PEOPLE = "people"
    """Those of people who may use Hermes."""
    ALL = "all"
    NONE = "none"


class MatrixOptions(base.PlatformOptions, frozen=True, kw_only=True):
    """What an account on Matrix needs."""

    homeserver: str = ""
    """The homeserver's address (`https://matrix.example.org`)."""
    access_token: str = ""
    """An access token of the agent's own account; or `user` and `password`."""
    user: str = ""
    """The agent's user name."""
    password: str = ""
    """Its password, when there is no access token."""
    join: InvitationPolicy = InvitationPolicy.PEOPLE
    """Whose invitations are accepted: `people` who may use Hermes, `all`, `none`."""
    notice: bool = False
    """Whether answers are notices, which other programs pass over."""
    receipts: bool = True
    """Whether people who may use Hermes see that their messages were read."""


class MatrixPlatform(Platform):
    """One account on a homeserver."""

    def __init__(self, options: MatrixOptions, context: PlatformContext) -> None:
        self._options = options
        self._context = context
        self._client = MatrixClient(options.homeserver, options.access_token, context)
        self._events = MatrixEventReader(self._client, context, options.join)
        self._since = context.cursors.get("since", "")
        self._device_id = context.cursors.get("device", "")
        self._login_lock = asyncio.Lock()
        self._offered_reactions: dict[str, list[str]] = {}
        """By message, the ids of the reactions that stand for its buttons."""

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Log in, read missed messages, and yield what comes in."""
        await self._ensure_logged_in(renew=not self._options.access_token and not self._client.token)
        try:
            device = (("device", self._device_id),) if self._device_id else ()
            if self._since:
                yield Batch((), device)
            seconds = 0.0
            while True:
                sync = await self._fetch_sync(seconds)
                unsaved = UnsavedMatrixEvents()
                await self._events.handle_sync(sync, self._since, unsaved)
                yield Batch(tuple(unsaved.events), (("since", sync.next_batch), *device, *unsaved.cursors.items()))
                self._since = sync.next_batch
                self._events.mark_saved(unsaved)
                await self._mark_read(unsaved)
                seconds = POLL_SECONDS
        except MatrixTokenError as error:
            raise self._handle_token_error(error) from error

    async def close(self) -> None:
        """Do nothing: no connection stays open between requests."""

    async def send(self, message: Outgoing) -> str:
        """Send a message, or a file with a text; the buttons are offered as reactions."""
        if message.file:
            return await self._send_file(message, Path(message.file))
        content = self._render_content(message) | self._relation_fields(message)
        return await self._send_message(message, content)

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a message's text and buttons."""
        fresh = self._render_content(message, twice=True)
        content = fresh | {"body": f"* {fresh['body']}", "m.new_content": fresh}
        content["m.relates_to"] = {"rel_type": "m.replace", "event_id": message_id}
        room = message.place.chat
        try:
            await self._send_event(room, "m.room.message", content)
        except SendError as error:
            if error.fault is SendFault.BAD_FORMAT and "unknown event" in str(error):
                raise SendError(SendFault.NOT_FOUND, str(error)) from error
            raise
        self._remember_sent(message_id, message)
        if not message.buttons:
            for reaction in self._offered_reactions.pop(message_id, []):
                with suppress(SendError):  # it stands there, and means nothing any more
                    await self._redact_event(room, reaction)

    async def typing(self, place: Place) -> None:
        """Show the typing indicator."""
        await self._ensure_logged_in()
        body = {"typing": True, "timeout": int((TYPING_SECONDS + 10) * 1000)}
        await self._call_api("PUT", room_path(place.chat, "typing", self._events.me), MatrixEmptyResponse, body)

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; an empty `emoji` removes the agent's reactions."""
        await self._ensure_logged_in()
        if emoji:
            await self._send_reaction(place.chat, message_id, emoji)
            return
        parts = (quote(one, safe="") for one in (place.chat, message_id))
        room, event = parts
        path = f"{V1}/rooms/{room}/relations/{event}/m.annotation/m.reaction"
        for raw in (await self._call_api("GET", path, MatrixHistoryPage)).chunk:
            with suppress(msgspec.DecodeError):  # somebody else's
                known = decode_json(raw, MatrixEvent)
                if known.sender == self._events.me:
                    await self._redact_event(place.chat, known.event_id)

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Download an attachment through the agent's own homeserver."""
        await self._ensure_logged_in()
        server, _, media = attachment.ref.removeprefix("mxc://").partition("/")
        if not server or not media or "/" in media:
            raise PlatformError(N_("It names no file."))
        tail = f"{quote(server, safe='')}/{quote(media, safe='')}"
        new = f"{self._client.base}{V1}/media/download/{tail}"
        try:
            await save_file(self._context.http, new, target, self._client.credentials)
        except PlatformError:
            # Homeservers from before 2024 know the other address only.
            old = f"{self._client.base}/_matrix/media/v3/download/{tail}"
            await save_file(self._context.http, old, target, self._client.credentials)

    # The account.

    async def _ensure_logged_in(self, *, renew: bool = False) -> None:
        """Make sure that there is a token and that its account is known."""
        async with self._login_lock:
            if self._events.me and not renew:
                return
            try:
                if not self._client.token:
                    known = await log_in(self._client, self._options.user, self._options.password, self._device_id)
                    self._device_id = known.device_id
                me = await self._client.call_api("GET", f"{V3}/account/whoami", MatrixWhoami)
                await self._events.learn_own_names(me.user_id)
                self.own_name = me.user_id
            except MatrixTokenError as error:
                raise self._handle_token_error(error) from error
            except SendError as error:
                if error.fault is SendFault.NOT_FOUND:
                    raise PlatformRefusedError(
                        N_("There is no Matrix server at this address. Look at `homeserver`.")
                    ) from error
                raise

    def _handle_token_error(self, error: MatrixTokenError) -> PlatformError:
        """Forget a refused token; with a password the next attempt gets a new one. Return the error to raise."""
        self._client.token = ""
        self._events.me = ""
        if self._options.access_token:
            return PlatformRefusedError(str(error))
        return PlatformError(str(error))

    async def _call_api(self, method: str, path: str, kind: type[Kind], body: object = None) -> Kind:
        try:
            return await self._client.call_api(method, path, kind, body)
        except MatrixTokenError as error:
            raise SendError(SendFault.TRANSIENT, str(self._handle_token_error(error))) from error

    async def _fetch_sync(self, seconds: float) -> MatrixSync:
        query = {"timeout": str(int(seconds * 1000)), "filter": SYNC_FILTER}
        if self._since:
            query["since"] = self._since
        return await self._client.call_api("GET", f"{V3}/sync", MatrixSync, query=query, limit=seconds + 60.0)

    async def _mark_read(self, unsaved: UnsavedMatrixEvents) -> None:
        for room, (event, sender) in unsaved.newest.items():
            if (
                not self._options.receipts
                or self._context.is_known_sender is None
                or not await self._context.is_known_sender(sender)
            ):
                continue
            with suppress(SendError):  # nothing depends on it
                path = room_path(room, "receipt", "m.read", event)
                await self._client.call_api("POST", path, MatrixEmptyResponse, {}, limit=RECEIPT_SECONDS)

    # What is sent.

    async def _send_message(self, message: Outgoing, content: dict[str, object]) -> str:
        room = message.place.chat
        sent = await self._send_event(room, "m.room.message", content, _transaction_id(message.key))
        self._remember_sent(sent, message)
        try:
            for button, key in zip(_list_buttons(message), BUTTON_REACTIONS, strict=False):
                self._offered_reactions.setdefault(sent, []).append(
                    await self._send_reaction(room, sent, key, f"{message.key}{button.token}")
                )
        except SendError as error:
            self._events.report_once("offer", N_("Matrix: a reaction could not be offered: {error}", error=str(error)))
        return sent

    def _remember_sent(self, event_id: str, message: Outgoing) -> None:
        tokens = tuple(one.token for one in _list_buttons(message))
        self._events.remember_message(
            event_id, KnownMatrixMessage(to_plain_text(message.text), message.place.thread, tokens, self._events.me)
        )

    async def _send_event(self, room: str, kind: str, content: dict[str, object], txn: str = "") -> str:
        await self._ensure_logged_in()
        path = room_path(room, "send", kind, txn or secrets.token_urlsafe(16))
        return (await self._call_api("PUT", path, MatrixSentEvent, content)).event_id

    async def _send_reaction(self, room: str, event: str, key: str, txn: str = "") -> str:
        about = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return await self._send_event(room, "m.reaction", {"m.relates_to": about}, _transaction_id(txn))

    async def _redact_event(self, room: str, event: str) -> None:
        await self._call_api("PUT", room_path(room, "redact", event, secrets.token_urlsafe(16)), MatrixSentEvent, {})

    def _render_content(self, message: Outgoing, *, twice: bool = False) -> dict[str, object]:
        """Return the message's content, with HTML if there is room for it.

        `twice` means that the content will stand in the event two times.
        """
        if utf8(message.text) > LIMIT:
            raise SendError(SendFault.TOO_LONG, N_("A message on Matrix holds {n} bytes here.", n=LIMIT))
        buttons = _list_buttons(message)
        offers = "\n".join(f"{key} {one.label}" for key, one in zip(BUTTON_REACTIONS, buttons, strict=False))
        text = message.text if message.plain else to_plain_text(message.text)
        content: dict[str, object] = {
            "msgtype": "m.notice" if self._options.notice else "m.text",
            "body": f"{text}\n\n{offers}" if offers else text,
            "m.mentions": {},
        }
        if buttons:
            content["hermes.buttons"] = [one.token for one in buttons]
            content["hermes.labels"] = [one.label for one in buttons]
        with_html = content | ({} if message.plain else _html_fields(message.text, offers))
        for one in (with_html, content):
            if len(to_json(one)) * (1 + twice) <= EVENT_LIMIT:
                return one
        raise SendError(SendFault.TOO_LONG, N_("A message on Matrix holds {n} bytes here.", n=LIMIT))

    def _relation_fields(self, message: Outgoing) -> dict[str, object]:
        related: dict[str, object] = {}
        if message.reply_to:
            related["m.in_reply_to"] = {"event_id": message.reply_to}
        if thread := message.place.thread:
            related.setdefault("m.in_reply_to", {"event_id": thread})
            related |= {"rel_type": "m.thread", "event_id": thread, "is_falling_back": not message.reply_to}
        return {"m.relates_to": related} if related else {}

    async def _send_file(self, message: Outgoing, file: Path) -> str:
        content = await asyncio.to_thread(content_of, str(file), FILE_LIMIT)
        facts = await asyncio.to_thread(read_facts, io.BytesIO(content)) if message.kind is MediaKind.VOICE else None
        media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        await self._ensure_logged_in()
        try:
            place = await self._client.upload_file(file.name, media_type, content, UPLOAD_SECONDS)
        except MatrixTokenError as error:
            raise SendError(SendFault.TRANSIENT, str(self._handle_token_error(error))) from error
        said = self._render_content(message) if message.text else {"body": file.name, "m.mentions": {}}
        about: dict[str, object] = {"mimetype": media_type, "size": len(content)}
        more: dict[str, object] = {
            "msgtype": _MESSAGE_TYPES[message.kind],
            "filename": file.name,
            "url": place,
            "info": about,
        }
        if facts is not None:
            about["duration"] = round(facts.seconds * 1000)
            more |= _voice_fields(facts)
        return await self._send_message(message, said | more | self._relation_fields(message))


def _voice_fields(facts: "VoiceFacts") -> dict[str, object]:
    """Return what makes a sound a voice message (MSC3245), with its length and its picture (MSC3246: 0 to 1024)."""
    step = -(-len(facts.waveform) // _MOST_POINTS)
    points = [max(facts.waveform[at : at + step]) for at in range(0, len(facts.waveform), step)]
    about = {"duration": round(facts.seconds * 1000), "waveform": [round(one * 1024 / 255) for one in points]}
    return {"org.matrix.msc1767.audio": about, "org.matrix.msc3245.voice": {}}


def _html_fields(text: str, offers: str) -> dict[str, object]:
    lines = to_html_fragment(offers.replace("\n", "\n\n")) if offers else ""
    return {"format": "org.matrix.custom.html", "formatted_body": to_html_fragment(text) + lines}


def _transaction_id(key: str) -> str:
    """Return a transaction id that is the same for the same key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32] if key else ""


def _list_buttons(message: Outgoing) -> list[Button]:
    return [one for row in message.buttons for one in row][: len(BUTTON_REACTIONS)]


def _account_identity(options: base.PlatformOptions) -> str:
    if not isinstance(options, MatrixOptions):
        return ""
    return options.access_token or f"{options.homeserver}\0{options.user}"


async def _open_platform(options: base.PlatformOptions, context: PlatformContext) -> Platform:
    if not isinstance(options, MatrixOptions) or not options.homeserver:
        raise PlatformRefusedError(N_("Matrix needs `homeserver` in config.yaml (https://matrix.example.org)."))
    if not options.access_token and not (options.user and options.password):
        raise PlatformRefusedError(
            N_("Matrix needs an access token (`MATRIX_ACCESS_TOKEN` in .env), or `user` and `MATRIX_PASSWORD`.")
        )
    return MatrixPlatform(options, context)


PLATFORM = Descriptor(
    title="Matrix",
    options=MatrixOptions,
    can=Capabilities(
        limit=LIMIT,
        measure=utf8,
        edit=True,
        edit_seconds=2.0,
        typing=TYPING_SECONDS,
        reactions=True,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        buttons=True,
        history=True,
        redelivers=True,
        resend=Resend.SAFE,
    ),
    open=_open_platform,
    variables={
        "homeserver": "MATRIX_HOMESERVER",
        "access_token": "MATRIX_ACCESS_TOKEN",
        "user": "MATRIX_USER",
        "password": "MATRIX_PASSWORD",
    },
    secrets=("access_token", "password"),
    identity=_account_identity,
    hint="Markdown is shown, tables too.",
    example="homeserver: https://matrix.example.org\naccess_token: ...  # or MATRIX_ACCESS_TOKEN in .env\n"
    'owners: ["@you:example.org"]',
    asked=("homeserver", "access_token"),
    preparation=N_("The agent needs an account of its own; Element shows its access token in Settings, Help."),
)
