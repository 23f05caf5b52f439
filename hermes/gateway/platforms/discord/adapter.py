"""Discord: events come in over the gateway's WebSocket, requests go out over REST.

A sequence number is sent to Discord, also in heartbeats, only when the events before it are on disk. A session that
cannot be resumed is started again, and the messages missed meanwhile are read from the channels' history. Edits by
people are ignored. Source: Discord's documentation of gateway, messages, interactions and rate limits, version 10.
"""

import asyncio
import base64
import hashlib
import json
import random
import re
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, Batch, Button, MediaKind, Outgoing, Place
from hermes.core.encoding import to_json
from hermes.gateway import platform as base
from hermes.gateway.http.client import (
    WebSocketConnection,
    connect_websocket,
    decode_json,
    decode_response,
    describe_error,
    save_file,
)
from hermes.gateway.platform import (
    Capabilities,
    Descriptor,
    MenuEntry,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformMenu,
    PlatformRefusedError,
    Resend,
    SendError,
    SendFault,
)
from hermes.gateway.platforms.discord.api import (
    CLOSE_CODE_ERRORS,
    DiscordClient,
    DiscordFrame,
    DiscordGatewayInfo,
    DiscordHello,
    DiscordInteraction,
    DiscordMessage,
    DiscordReady,
    DiscordSentMessage,
    DiscordUploadPlaces,
    DiscordUser,
)
from hermes.gateway.platforms.discord.events import (
    COMMAND_OPTION,
    COMMAND_TYPE,
    VOICE_FLAG,
    DiscordEventReader,
    UnsavedDiscordEvents,
    first_id_at,
    format_command,
    format_cursors,
)
from hermes.gateway.text.dialect import to_discord as dialect
from hermes.gateway.text.dialect import to_plain_text
from hermes.gateway.text.media import content_of, open_attachment, read_facts
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    import aiohttp

    from hermes.speech.ogg_opus import VoiceFacts

FILE_LIMIT = 10 * 1024 * 1024
"""Size in bytes of the largest file that is sent."""
INTENTS = 1 << 0 | 1 << 9 | 1 << 12 | 1 << 15
"""Gateway intents: servers, their messages, direct messages, and the content of messages."""
HELLO_SECONDS = 15.0
MISSED_SECONDS = 6 * 3600.0
"""How far back missed messages are fetched."""
MAX_MISSED_CHANNELS = 200
"""Channels that are checked for missed messages at most, the most recently active first."""
CHANNELS_AT_ONCE = 5
"""Channels that are checked at the same time."""
FIND_SENT_SECONDS = 3600.0
"""How far back a sent message is searched when its sending time is unknown."""
MAX_KNOWN_SENT = 500
"""Messages sent last whose keys are remembered."""
SILENT_FLAG, EPHEMERAL_FLAG = 1 << 12, 1 << 6
_MENU_NAME = re.compile(r"[-_a-z0-9]{1,32}")
_ECHO_CHARACTERS = 1_900
_KEPT_OF_VOICE = ("nonce", "enforce_nonce", "allowed_mentions")
UNREADABLE_CODES = {1007: N_("not UTF-8"), 1009: N_("too large")}
"""Close codes of ours for frames that would come again if the session were resumed."""


class DiscordOptions(base.PlatformOptions, frozen=True, kw_only=True):
    """What an account on Discord needs."""

    token: str = ""
    """The bot's token."""
    base_url: str = "https://discord.com/api/v10"
    """Where Discord's REST interface is."""


class _ResumableSession(Struct, frozen=True):
    """The session that a new connection can resume."""

    id: str
    url: str


class DiscordPlatform(Platform):
    """One Discord bot."""

    def __init__(self, options: DiscordOptions, context: PlatformContext) -> None:
        self._token = options.token
        self._context = context
        self._client = DiscordClient(options.token, options.base_url, context)
        self._events = DiscordEventReader(self._client, context)
        self._sent_keys: dict[str, str] = {}
        """The keys of sent messages, by message id, so that `find_sent` takes none for another."""
        self._socket: WebSocketConnection | None = None
        self._heartbeat: asyncio.Task[None] | None = None
        self._reconnect_after: float | None = None
        """Seconds after which Discord wants a new connection; None while it wants none."""
        session, _, url = context.cursors.get("session", "").partition(" ")
        self._session = _ResumableSession(session, url) if session else None

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, resume where the last connection ended, and yield what comes in."""
        again = True
        while again:
            try:
                socket = await self._connect_gateway()
                async with aclosing(self._read_frames(socket)) as batches:
                    async for batch in batches:
                        yield batch
                again = self._should_reconnect(socket)
            finally:
                await self.close()
            if again:
                await self._context.clock.sleep(self._reconnect_after or 0.0)

    async def close(self) -> None:
        """Close the connection in a way that lets the session be resumed."""
        heart, self._heartbeat = self._heartbeat, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close(4000)

    async def send(self, message: Outgoing) -> str:
        """Send a message; Discord drops a second one with the same key for a few minutes."""
        body = self._message_body(message)
        if message.key:
            body |= {"nonce": hashlib.sha256(message.key.encode()).hexdigest()[:24], "enforce_nonce": True}
        if message.reply_to:
            body["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
        if message.silent:
            body["flags"] = SILENT_FLAG
        path = f"channels/{_channel_id(message.place)}/messages"
        voice = await self._upload_voice(message) if message.kind is MediaKind.VOICE and not message.plain else None
        if voice is not None:
            # A voice message holds nothing else: no text, no buttons, no reference.
            kept: dict[str, object] = {one: body[one] for one in _KEPT_OF_VOICE if one in body}
            kept["flags"] = VOICE_FLAG | (SILENT_FLAG if message.silent else 0)
            kept["attachments"] = [voice]
            answer = await self._client.call_api("POST", path, kept, creates=True)
        elif message.file:
            form = await _build_form(body, Path(message.file))
            answer = await self._client.call_api("POST", path, form=form, creates=True)
        else:
            answer = await self._client.call_api("POST", path, body, creates=True)
        sent = decode_response(answer, DiscordSentMessage, "Discord").id
        self._sent_keys[sent] = message.key
        if len(self._sent_keys) > MAX_KNOWN_SENT:
            del self._sent_keys[next(iter(self._sent_keys))]
        return sent

    async def _upload_voice(self, message: Outgoing) -> dict[str, object] | None:
        """Upload a recording to where Discord wants it, and return the attachment of its voice message; None for a file
        that is no Opus in Ogg, or stands with a text: it is sent as a file.
        """
        if message.text:
            return None
        content, facts = await asyncio.to_thread(_read_voice, message.file)
        if facts is None:
            return None
        name = Path(message.file).name
        file: dict[str, object] = {"id": "0", "filename": name, "file_size": len(content)}
        found = await self._client.call_api(
            "POST", f"channels/{_channel_id(message.place)}/attachments", {"files": [file]}
        )
        places = decode_response(found, DiscordUploadPlaces, "Discord").attachments
        if not places:
            raise SendError(SendFault.BAD_FORMAT, N_("Discord gives no place for the recording."))
        await self._client.upload_content(places[0].upload_url, content, "audio/ogg")
        return {
            "id": "0",
            "filename": name,
            "uploaded_filename": places[0].upload_filename,
            "duration_secs": round(facts.seconds, 3),
            "waveform": base64.b64encode(facts.waveform).decode(),
        }

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a message's text and buttons."""
        path = f"channels/{_channel_id(message.place)}/messages/{message_id}"
        await self._client.call_api("PATCH", path, self._message_body(message))

    async def typing(self, place: Place) -> None:
        """Show the typing indicator for ten seconds."""
        await self._client.call_api("POST", f"channels/{_channel_id(place)}/typing")

    async def set_menu(self, menu: PlatformMenu) -> None:
        """Set the application's commands. Discord shows everybody the same; who may not use one is told so."""
        found = await self._client.call_api("GET", "applications/@me")
        application = decode_response(found, DiscordSentMessage, "Discord").id
        await self._client.call_api("PUT", f"applications/{application}/commands", _format_menu(menu.everything))

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; an empty `emoji` removes the bot's reactions."""
        path = f"channels/{_channel_id(place)}/messages/{message_id}"
        if emoji:
            await self._client.call_api("PUT", f"{path}/reactions/{quote(emoji)}/@me")
            return
        for one in decode_response(await self._client.call_api("GET", path), DiscordMessage, "Discord").reactions:
            if one.me:
                name = f"{one.emoji.name}:{one.emoji.id}" if one.emoji.id else one.emoji.name
                await self._client.call_api("DELETE", f"{path}/reactions/{quote(name)}/@me")

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Download an attachment. The token is not sent to the file's host."""
        await save_file(self._context.http, attachment.ref, target)

    async def find_sent(self, message: Outgoing) -> str | None:
        """Search the newest messages for one of the bot's with the same text.

        Discord keeps keys for minutes only and shows them in no history. A message that is known to have been sent
        under another key does not count, nor does one that is older than the message it would answer.
        """
        await self._learn_own_id()
        since = message.since - 60.0 if message.since else self._context.clock.now() - FIND_SENT_SECONDS
        oldest = max(int(message.reply_to) if message.reply_to.isdigit() else 0, first_id_at(since))
        text = self._render_text(message).strip()
        for one in await self._events.fetch_page(_channel_id(message.place), oldest):
            if one.author.id != self._events.me or self._sent_keys.get(one.id, message.key) != message.key:
                continue
            names = [_normalize_file_name(file.filename) for file in one.attachments]
            if one.content.strip() == text and names == (
                [_normalize_file_name(Path(message.file).name)] if message.file else []
            ):
                return one.id
        return None

    def _render_text(self, message: Outgoing) -> str:
        return dialect(_escape_markdown(to_plain_text(message.text)) if message.plain else message.text)

    def _message_body(self, message: Outgoing) -> dict[str, object]:
        return {
            "content": self._render_text(message),
            "allowed_mentions": {"parse": [], "replied_user": False},
            "components": _format_buttons(message.buttons),
        }

    # The connection.

    async def _connect_gateway(self) -> WebSocketConnection:
        """Connect to Discord's gateway, and resume the session or identify for a new one."""
        self._reconnect_after = None
        await self._learn_own_id()
        door = decode_response(await self._client.call_api("GET", "gateway/bot"), DiscordGatewayInfo, "Discord")
        if self._session is None and door.session_start_limit.remaining <= 0:
            raise PlatformError(N_("Discord allows the bot no more connections today."))
        socket = self._socket = await self._open_socket(door.url)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frames = await socket.next_frames()
        except TimeoutError as error:
            raise PlatformError(N_("Discord says nothing.")) from error
        if not frames:
            raise PlatformError(N_("Discord closed the connection with code {code}.", code=socket.close_code))
        interval = (
            decode_response(
                decode_response(frames[0], DiscordFrame, "Discord").d, DiscordHello, "Discord"
            ).heartbeat_interval
            / 1000
        )
        self._heartbeat = asyncio.create_task(
            self._send_heartbeats(socket, max(interval, 0.01)), name="discord heartbeat"
        )
        if self._session is not None:
            going_on = {"token": self._token, "session_id": self._session.id, "seq": self._events.sequence}
            await socket.send(json.dumps({"op": 6, "d": going_on}))
        else:
            properties = {"os": "linux", "browser": "hermes", "device": "hermes"}
            beginning = {"token": self._token, "intents": INTENTS, "properties": properties}
            await socket.send(json.dumps({"op": 2, "d": beginning}))
        return socket

    async def _open_socket(self, url: str) -> WebSocketConnection:
        if self._session is not None and self._session.url:
            with suppress(PlatformError):
                return await connect_websocket(self._context.http, _gateway_url(self._session.url))
        return await connect_websocket(self._context.http, _gateway_url(url))

    async def _learn_own_id(self) -> None:
        if not self._events.me:
            self._events.me = decode_response(
                await self._client.call_api("GET", "users/@me"), DiscordUser, "Discord"
            ).id

    async def _send_heartbeats(self, socket: WebSocketConnection, interval: float) -> None:
        """Send heartbeats, and stop the connection when nothing comes back."""
        await self._context.clock.sleep(interval * random.random())
        with suppress(PlatformError):
            while True:
                began = time.monotonic()
                await self._send_heartbeat(socket)
                await self._context.clock.sleep(interval)
                if socket.last_frame_at < began and not socket.is_crowded:
                    self._context.report(N_("Discord has stopped answering; connecting again."))
                    break
        socket.stop_reading()

    async def _send_heartbeat(self, socket: WebSocketConnection) -> None:
        await socket.send(json.dumps({"op": 1, "d": self._events.sequence or None}))

    def _should_reconnect(self, socket: WebSocketConnection) -> bool:
        """Return whether to connect again at once. Raises when that is pointless or needs a longer pause."""
        if self._reconnect_after is not None:
            return True
        code = socket.close_code
        if code in CLOSE_CODE_ERRORS:
            raise PlatformRefusedError(CLOSE_CODE_ERRORS[code])
        if code in UNREADABLE_CODES:
            self._events.report_once("", N_("Discord sent a frame that is {problem}.", problem=UNREADABLE_CODES[code]))
        if code in UNREADABLE_CODES or code in (4003, 4007, 4009):
            self._session = None
        if code not in (1000, 1001, 1006, 1012, 4000):
            raise PlatformError(N_("Discord closed the connection (code {code}).", code=code))
        return False

    # What comes in.

    async def _read_frames(self, socket: WebSocketConnection) -> AsyncGenerator[Batch, None]:
        while frames := await socket.next_frames():
            unsaved = UnsavedDiscordEvents(self._events.sequence)
            for raw in frames:
                async with aclosing(self._handle_frame(socket, raw, unsaved)) as batches:
                    async for batch in batches:
                        yield batch
            if unsaved.events or unsaved.roles is not None:
                yield Batch(tuple(unsaved.events), format_cursors(unsaved))
            self._events.mark_saved(unsaved)
            await asyncio.gather(*map(self._acknowledge_press, unsaved.presses))
            if self._reconnect_after is not None:
                return

    async def _handle_frame(
        self, socket: WebSocketConnection, raw: bytes, unsaved: UnsavedDiscordEvents
    ) -> AsyncGenerator[Batch, None]:
        """Handle a frame; yield at once what must be on disk before the frames after it."""
        try:
            frame = decode_json(raw, DiscordFrame)
        except msgspec.DecodeError as error:
            self._events.report_once(
                "frame", N_("Discord sent a frame that cannot be read: {error}", error=describe_error(error))
            )
            return
        if frame.op:
            await self._handle_control(socket, frame)
        elif frame.t == "READY":
            async with aclosing(self._begin_session(frame, unsaved)) as batches:
                async for batch in batches:
                    yield batch
        elif frame.t == "RESUMED":
            yield Batch()
        else:
            await self._events.handle_event(frame, unsaved)
        unsaved.sequence = frame.s or unsaved.sequence

    async def _handle_control(self, socket: WebSocketConnection, frame: DiscordFrame) -> None:
        match frame.op:
            case 1:
                await self._send_heartbeat(socket)
            case 7:
                self._reconnect_after = random.random()
            case 9:
                if bytes(frame.d) != b"true":
                    self._session = None
                self._reconnect_after = 1 + 4 * random.random()

    async def _begin_session(self, frame: DiscordFrame, unsaved: UnsavedDiscordEvents) -> AsyncGenerator[Batch, None]:
        """Begin a session: read the missed messages, and only then store the session as resumable."""
        ready = decode_response(frame.d, DiscordReady, "Discord")
        self._events.me = ready.user.id
        self.own_name = ready.user.username
        yield Batch((), self._events.forget_old_channels())
        floor = first_id_at(self._context.clock.now() - MISSED_SECONDS)
        known = sorted(self._events.positions.items(), key=lambda one: -one[1].newest)
        for at in range(0, min(len(known), MAX_MISSED_CHANNELS), CHANNELS_AT_ONCE):
            chunk = known[at : at + CHANNELS_AT_ONCE]
            pages = await asyncio.gather(
                *(self._events.fetch_missed(name, max(one.newest, floor)) for name, one in chunk)
            )
            unsaved_missed = UnsavedDiscordEvents(self._events.sequence)
            for (_, one), page in zip(chunk, pages, strict=True):
                for message in reversed(page):
                    message.guild_id = one.guild or None
                    await self._events.handle_message(message, unsaved_missed)
            if unsaved_missed.events:
                yield Batch(tuple(unsaved_missed.events), format_cursors(unsaved_missed)[1:])
            self._events.positions |= unsaved_missed.newest
        session = _ResumableSession(ready.session_id, ready.resume_gateway_url)
        unsaved.sequence = frame.s or 0
        yield Batch((), (*format_cursors(unsaved), ("session", f"{session.id} {session.url}")))
        self._session, self._events.sequence = session, unsaved.sequence

    async def _acknowledge_press(self, interaction: DiscordInteraction) -> None:
        """Acknowledge a button's press or a command, within three seconds. The effect of a press is shown by an edit; a
        command is shown to who gave it, and answered like one that was typed.
        """
        path = f"interactions/{interaction.id}/{interaction.token}/callback"
        shown = {"content": format_command(interaction)[:_ECHO_CHARACTERS], "flags": EPHEMERAL_FLAG}
        body = {"type": 4, "data": shown | {"allowed_mentions": {"parse": []}}}
        try:
            await self._client.call_api("POST", path, body if interaction.type == COMMAND_TYPE else {"type": 6})
        except PlatformError as error:
            self._context.report(N_("A button's press was not acknowledged: {error}", error=str(error)))


def _format_menu(entries: Sequence[MenuEntry]) -> list[dict[str, object]]:
    """Return a menu in Discord's form; what is typed behind a name is one option."""
    named = {one.name.lower(): one.about for one in reversed(entries) if _MENU_NAME.fullmatch(one.name.lower())}
    option = {"type": 3, "name": COMMAND_OPTION, "description": "…", "required": False}
    return [
        {"name": name, "description": about[:100] or name, "type": 1, "options": [option]}
        for name, about in reversed(named.items())
    ]


def _gateway_url(url: str) -> str:
    """Return the gateway's address with the protocol version and encoding."""
    parts = urlsplit(url)
    return parts._replace(query="v=10&encoding=json", path=parts.path or "/").geturl()


def _channel_id(place: Place) -> str:
    """Return the id of the channel to write to; a thread is a channel of its own."""
    return place.thread or place.chat


_MARKDOWN_CHARACTERS = re.compile(r"([\\`*_~|<>\[\]()#+.-])")


def _escape_markdown(text: str) -> str:
    """Return markdown that shows the text unchanged."""
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", text)


def _normalize_file_name(name: str) -> str:
    """Return the characters of a file name that Discord never changes, for comparing names."""
    return "".join(one for one in name.casefold() if one.isalnum())


def _format_buttons(rows: Sequence[Sequence[Button]]) -> list[dict[str, object]]:
    """Format rows of buttons: at most five rows of five."""
    short = [row[at : at + 5] for row in rows for at in range(0, len(row), 5)]
    return [{"type": 1, "components": [_format_button(one) for one in row]} for row in short[:5]]


def _format_button(button: Button) -> dict[str, object]:
    return {"type": 2, "style": 4 if button.danger else 2, "label": button.label[:80], "custom_id": button.token}


def _read_voice(path: str) -> "tuple[bytes, VoiceFacts | None]":
    with open_attachment(path, FILE_LIMIT) as file:
        facts = read_facts(file)
        return (file.read(FILE_LIMIT) if facts is not None else b""), facts


async def _build_form(body: object, file: Path) -> "aiohttp.FormData":
    import aiohttp

    content = await asyncio.to_thread(content_of, str(file), FILE_LIMIT)
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("payload_json", to_json(body).decode(), content_type="application/json")
    form.add_field("files[0]", content, filename=file.name, content_type="application/octet-stream")
    return form


async def _open_platform(options: base.PlatformOptions, context: PlatformContext) -> Platform:
    if not isinstance(options, DiscordOptions) or not options.token:
        raise PlatformRefusedError(N_("Discord needs the bot's token: `DISCORD_BOT_TOKEN` in .env."))
    return DiscordPlatform(options, context)


def _rendered_length(markdown: str) -> int:
    """Count the code points of a text as Discord counts them: after rendering."""
    return len(dialect(markdown))


PLATFORM = Descriptor(
    title="Discord",
    options=DiscordOptions,
    can=Capabilities(
        limit=2000,
        measure=_rendered_length,
        edit=True,
        edit_seconds=1.2,
        typing=8.0,
        reactions=True,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        buttons=True,
        menu=True,
        history=True,
        redelivers=True,
        resend=Resend.CHECK,
        batch_seconds=0.6,
    ),
    open=_open_platform,
    variables={"token": "DISCORD_BOT_TOKEN"},
    secrets=("token",),
    needs_option="token",
    identity=lambda options: options.token if isinstance(options, DiscordOptions) else "",
    hint="Markdown is shown, no tables, no pictures by address.",
    example="token: ...  # or DISCORD_BOT_TOKEN in .env\nowners: ['your user id']",
    asked=("token",),
    preparation=N_(
        "discord.com/developers: a new application has a bot and its token; switch Message Content Intent on."
    ),
)
