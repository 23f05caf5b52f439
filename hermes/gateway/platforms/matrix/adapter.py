"""Matrix: long polls for what comes in, the client-server API for what goes out.

The next sync is asked for when the one before is on disk; what did not fit into it is read from the rooms' histories.
A message carries an id made of its key, by which the homeserver shows it once. Buttons are reactions that stand below a
message already. Rooms with encryption cannot be read.
Source: the Matrix specification, Client-Server API v1.11.
"""

import asyncio
import hashlib
import mimetypes
import secrets
from collections.abc import AsyncGenerator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import msgspec

from hermes.core.chats import Attachment, Batch, Button, MediaKind, Outgoing, Place
from hermes.gateway import platform as base
from hermes.gateway.http.errors import UPLOAD_SECONDS, save_file
from hermes.gateway.http.json_values import Kind, decode_json
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
    Client,
    Done,
    Event,
    Page,
    Sent,
    Sync,
    TokenError,
    Whoami,
    log_in,
    room_path,
)
from hermes.gateway.platforms.matrix.events import KEYS, News, Own, Work
from hermes.gateway.text.dialect import to_plain_text
from hermes.gateway.text.html import to_html_fragment
from hermes.gateway.text.media import content_of
from hermes.i18n.messages import phrase

LIMIT = 16_000
"""Bytes of the longest text. An event holds 65,535, and an edit says its text twice, each time with its HTML."""
EVENT_LIMIT = 60_000
"""Bytes of what an event of ours says at most; the homeserver adds its own to it."""
FILE_LIMIT = 50 * 1024 * 1024
"""Bytes of the largest file that is sent: what Synapse takes."""
POLL_SECONDS = 30.0
TYPING_SECONDS = 20.0
RECEIPT_SECONDS = 5.0
FILTER = (
    '{"presence":{"types":[]},"account_data":{"types":["m.direct"]},"room":{"timeline":{"limit":50},'
    '"state":{"lazy_load_members":true},"ephemeral":{"types":[]},"account_data":{"types":[]}}}'
)
_TYPES = {
    MediaKind.IMAGE: "m.image",
    MediaKind.VOICE: "m.audio",
    MediaKind.AUDIO: "m.audio",
    MediaKind.VIDEO: "m.video",
    MediaKind.DOCUMENT: "m.file",
}


class Join(StrEnum):
    """Whose invitations are accepted."""

    PEOPLE = "people"
    """Those of people who may use Hermes."""
    ALL = "all"
    NONE = "none"


class Options(base.PlatformOptions, frozen=True, kw_only=True):
    """What an account on Matrix needs."""

    homeserver: str = ""
    """The homeserver's address (`https://matrix.example.org`)."""
    access_token: str = ""
    """An access token of the agent's own account; or `user` and `password`."""
    user: str = ""
    """The agent's user name."""
    password: str = ""
    """Its password, when there is no access token."""
    join: Join = Join.PEOPLE
    """Whose invitations are accepted: `people` who may use Hermes, `all`, `none`."""
    notice: bool = False
    """Whether answers are notices, which other programs pass over."""
    receipts: bool = True
    """Whether people who may use Hermes see that their messages were read."""


class Matrix(Platform):
    """One account on a homeserver."""

    def __init__(self, options: Options, around: PlatformContext) -> None:
        self._options = options
        self._around = around
        self._client = Client(options.homeserver, options.access_token, around)
        self._news = News(self._client, around, options.join)
        self._since = around.cursors.get("since", "")
        self._device = around.cursors.get("device", "")
        self._entering = asyncio.Lock()
        self._offered: dict[str, list[str]] = {}
        """By message, the reactions that stand for its buttons."""

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Log in, read what was missed, and give what comes in."""
        await self._enter(anew=not self._options.access_token and not self._client.token)
        try:
            device = (("device", self._device),) if self._device else ()
            if self._since:
                yield Batch((), device)
            seconds = 0.0
            while True:
                sync = await self._sync(seconds)
                work = Work()
                await self._news.happened(sync, self._since, work)
                yield Batch(tuple(work.arrivals), (("since", sync.next_batch), *device, *work.cursors.items()))
                self._since = sync.next_batch
                self._news.done(work)
                await self._mark_read(work)
                seconds = POLL_SECONDS
        except TokenError as error:
            raise self._locked_out(error) from error

    async def close(self) -> None:
        """Nothing is open between requests."""

    async def send(self, message: Outgoing) -> str:
        """Send a message, or a file with a text; the buttons are offered as reactions."""
        if message.file:
            return await self._send_file(message, Path(message.file))
        content = self._words(message) | self._related(message)
        return await self._put(message, content)

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Put another text and other buttons into a message."""
        fresh = self._words(message, twice=True)
        content = fresh | {"body": f"* {fresh['body']}", "m.new_content": fresh}
        content["m.relates_to"] = {"rel_type": "m.replace", "event_id": message_id}
        room = message.place.chat
        try:
            await self._event(room, "m.room.message", content)
        except SendError as error:
            if error.fault is SendFault.BAD_FORMAT and "unknown event" in str(error):
                raise SendError(SendFault.NOT_FOUND, str(error)) from error
            raise
        self._know(message_id, message)
        if not message.buttons:
            for reaction in self._offered.pop(message_id, []):
                with suppress(SendError):  # it stands there, and means nothing any more
                    await self._redact(room, reaction)

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written."""
        await self._enter()
        wanted = {"typing": True, "timeout": int((TYPING_SECONDS + 10) * 1000)}
        await self._call("PUT", room_path(place.chat, "typing", self._news.me), Done, wanted)

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; empty takes back what was given."""
        await self._enter()
        if emoji:
            await self._react(place.chat, message_id, emoji)
            return
        parts = (quote(one, safe="") for one in (place.chat, message_id))
        room, event = parts
        path = f"{V1}/rooms/{room}/relations/{event}/m.annotation/m.reaction"
        for raw in (await self._call("GET", path, Page)).chunk:
            with suppress(msgspec.DecodeError):  # somebody else's
                known = decode_json(raw, Event)
                if known.sender == self._news.me:
                    await self._redact(place.chat, known.event_id)

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Save a file that came in, through our own homeserver."""
        await self._enter()
        server, _, media = attachment.ref.removeprefix("mxc://").partition("/")
        if not server or not media or "/" in media:
            raise PlatformError(phrase("It names no file."))
        tail = f"{quote(server, safe='')}/{quote(media, safe='')}"
        new = f"{self._client.base}{V1}/media/download/{tail}"
        try:
            await save_file(self._around.http, new, target, self._client.credentials)
        except PlatformError:
            # Homeservers from before 2024 know the other address only.
            old = f"{self._client.base}/_matrix/media/v3/download/{tail}"
            await save_file(self._around.http, old, target, self._client.credentials)

    # The account.

    async def _enter(self, *, anew: bool = False) -> None:
        """Make sure that there is a token, and that it is known whose."""
        async with self._entering:
            if self._news.me and not anew:
                return
            try:
                if not self._client.token:
                    known = await log_in(self._client, self._options.user, self._options.password, self._device)
                    self._device = known.device_id
                me = await self._client.call("GET", f"{V3}/account/whoami", Whoami)
                await self._news.know_me(me.user_id)
            except TokenError as error:
                raise self._locked_out(error) from error
            except SendError as error:
                if error.fault is SendFault.NOT_FOUND:
                    raise PlatformRefusedError(
                        phrase("There is no Matrix server at this address. Look at `homeserver`.")
                    ) from error
                raise

    def _locked_out(self, error: TokenError) -> PlatformError:
        """A token that is not taken: with a password there is another one at the next attempt."""
        self._client.token = ""
        self._news.me = ""
        if self._options.access_token:
            return PlatformRefusedError(str(error))
        return PlatformError(str(error))

    async def _call(self, method: str, path: str, kind: type[Kind], body: object = None) -> Kind:
        try:
            return await self._client.call(method, path, kind, body)
        except TokenError as error:
            raise SendError(SendFault.TRANSIENT, str(self._locked_out(error))) from error

    async def _sync(self, seconds: float) -> Sync:
        query = {"timeout": str(int(seconds * 1000)), "filter": FILTER}
        if self._since:
            query["since"] = self._since
        return await self._client.call("GET", f"{V3}/sync", Sync, query=query, limit=seconds + 60.0)

    async def _mark_read(self, work: Work) -> None:
        for room, (event, sender) in work.newest.items():
            if (
                not self._options.receipts
                or self._around.is_known_sender is None
                or not await self._around.is_known_sender(sender)
            ):
                continue
            with suppress(SendError):  # nothing depends on it
                path = room_path(room, "receipt", "m.read", event)
                await self._client.call("POST", path, Done, {}, limit=RECEIPT_SECONDS)

    # What is sent.

    async def _put(self, message: Outgoing, content: dict[str, object]) -> str:
        room = message.place.chat
        sent = await self._event(room, "m.room.message", content, _txn(message.key))
        self._know(sent, message)
        try:
            for button, key in zip(_buttons(message), KEYS, strict=False):
                self._offered.setdefault(sent, []).append(
                    await self._react(room, sent, key, f"{message.key}{button.token}")
                )
        except SendError as error:
            self._news.tell("offer", phrase("Matrix: a reaction could not be offered: {error}", error=str(error)))
        return sent

    def _know(self, event_id: str, message: Outgoing) -> None:
        tokens = tuple(one.token for one in _buttons(message))
        self._news.remember(event_id, Own(to_plain_text(message.text), message.place.thread, tokens, self._news.me))

    async def _event(self, room: str, kind: str, content: dict[str, object], txn: str = "") -> str:
        await self._enter()
        path = room_path(room, "send", kind, txn or secrets.token_urlsafe(16))
        return (await self._call("PUT", path, Sent, content)).event_id

    async def _react(self, room: str, event: str, key: str, txn: str = "") -> str:
        about = {"rel_type": "m.annotation", "event_id": event, "key": key}
        return await self._event(room, "m.reaction", {"m.relates_to": about}, _txn(txn))

    async def _redact(self, room: str, event: str) -> None:
        await self._call("PUT", room_path(room, "redact", event, secrets.token_urlsafe(16)), Sent, {})

    def _words(self, message: Outgoing, *, twice: bool = False) -> dict[str, object]:
        """The text, with HTML where there is room for it; `twice`: it will stand in the event two times."""
        if utf8(message.text) > LIMIT:
            raise SendError(SendFault.TOO_LONG, phrase("A message on Matrix holds {n} bytes here.", n=LIMIT))
        buttons = _buttons(message)
        offers = "\n".join(f"{key} {one.label}" for key, one in zip(KEYS, buttons, strict=False))
        text = message.text if message.plain else to_plain_text(message.text)
        content: dict[str, object] = {
            "msgtype": "m.notice" if self._options.notice else "m.text",
            "body": f"{text}\n\n{offers}" if offers else text,
            "m.mentions": {},
        }
        if buttons:
            content["hermes.buttons"] = [one.token for one in buttons]
            content["hermes.labels"] = [one.label for one in buttons]
        marked = content | ({} if message.plain else _marks(message.text, offers))
        for one in (marked, content):
            if len(msgspec.json.encode(one)) * (1 + twice) <= EVENT_LIMIT:
                return one
        raise SendError(SendFault.TOO_LONG, phrase("A message on Matrix holds {n} bytes here.", n=LIMIT))

    def _related(self, message: Outgoing) -> dict[str, object]:
        related: dict[str, object] = {}
        if message.reply_to:
            related["m.in_reply_to"] = {"event_id": message.reply_to}
        if thread := message.place.thread:
            related.setdefault("m.in_reply_to", {"event_id": thread})
            related |= {"rel_type": "m.thread", "event_id": thread, "is_falling_back": not message.reply_to}
        return {"m.relates_to": related} if related else {}

    async def _send_file(self, message: Outgoing, file: Path) -> str:
        content = await asyncio.to_thread(content_of, str(file), FILE_LIMIT)
        media_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        await self._enter()
        try:
            place = await self._client.upload(file.name, media_type, content, UPLOAD_SECONDS)
        except TokenError as error:
            raise SendError(SendFault.TRANSIENT, str(self._locked_out(error))) from error
        said = self._words(message) if message.text else {"body": file.name, "m.mentions": {}}
        about: dict[str, object] = {"mimetype": media_type, "size": len(content)}
        more: dict[str, object] = {"msgtype": _TYPES[message.kind], "filename": file.name, "url": place, "info": about}
        if message.kind is MediaKind.VOICE:
            more["org.matrix.msc3245.voice"] = {}
        return await self._put(message, said | more | self._related(message))


def _marks(text: str, offers: str) -> dict[str, object]:
    lines = to_html_fragment(offers.replace("\n", "\n\n")) if offers else ""
    return {"format": "org.matrix.custom.html", "formatted_body": to_html_fragment(text) + lines}


def _txn(key: str) -> str:
    """An id of a request that is the same for the same key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32] if key else ""


def _buttons(message: Outgoing) -> list[Button]:
    return [one for row in message.buttons for one in row][: len(KEYS)]


def _identity(options: base.PlatformOptions) -> str:
    if not isinstance(options, Options):
        return ""
    return options.access_token or f"{options.homeserver}\0{options.user}"


async def _start(options: base.PlatformOptions, around: PlatformContext) -> Platform:
    if not isinstance(options, Options) or not options.homeserver:
        raise PlatformRefusedError(phrase("Matrix needs `homeserver` in config.yaml (https://matrix.example.org)."))
    if not options.access_token and not (options.user and options.password):
        raise PlatformRefusedError(
            phrase("Matrix needs an access token (`MATRIX_ACCESS_TOKEN` in .env), or `user` and `MATRIX_PASSWORD`.")
        )
    return Matrix(options, around)


PLATFORM = Descriptor(
    title="Matrix",
    options=Options,
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
    open=_start,
    variables={
        "homeserver": "MATRIX_HOMESERVER",
        "access_token": "MATRIX_ACCESS_TOKEN",
        "user": "MATRIX_USER",
        "password": "MATRIX_PASSWORD",
    },
    secrets=("access_token", "password"),
    identity=_identity,
    hint="Matrix shows markdown: headings, lists, tables, code, links.",
    example="homeserver: https://matrix.example.org\naccess_token: ...  # or MATRIX_ACCESS_TOKEN in .env\n"
    'owners: ["@you:example.org"]',
)
