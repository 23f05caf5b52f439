"""Slack: Socket Mode for what comes in, the Web API for what goes out.

An envelope is acknowledged when what it holds is on disk; what was not acknowledged comes again, and what Slack has
given up telling is read from the channels' and threads' histories. Each message that is sent carries its key as
metadata, by which it is found again. Edits by people are passed over.
Source: Slack's documentation of Socket Mode, the Events API, Block Kit and the Web API.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from hermes.core.chats import Attachment, Batch, Button, Outgoing, Place
from hermes.gateway import platform as base
from hermes.gateway.http.errors import UPLOAD_SECONDS, PlatformRequest, describe_error, save_file, send_request
from hermes.gateway.http.json_values import decode_json
from hermes.gateway.http.websocket import WebSocketConnection, connect_websocket
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
)
from hermes.gateway.platforms.slack.api import Account, Done, Frame, Link, Message, One, Sent, Shown, Upload, Web
from hermes.gateway.platforms.slack.events import News, Work, cursors
from hermes.gateway.text.dialect import to_plain_text
from hermes.gateway.text.dialect import to_slack as dialect
from hermes.gateway.text.media import content_of
from hermes.gateway.text.split import split_markdown
from hermes.i18n.messages import phrase, say

FILE_LIMIT = 100 * 1024 * 1024
"""Bytes of the largest file that is sent."""
HELLO_SECONDS = 15.0
PING_SECONDS = 20.0
LIMIT = 3_900
"""Slack shows up to 4,000 characters as one message and refuses an edit with more; `&`, `<` and `>` count as what they
are written as."""
SECTION = 2_900
"""Characters of the text above buttons; a section takes 3,000."""
FOUND_SECONDS = 24 * 3600.0
"""How far back something sent is looked for, when it is not said since when it may be there."""
PAGES = 5
"""Pages of a history in which it is looked for."""
NAMES = {
    "👀": "eyes",
    "✅": "white_check_mark",
    "❌": "x",
    "👍": "+1",
    "👎": "-1",
    "⏳": "hourglass_flowing_sand",
    "⌛": "hourglass",
    "🤔": "thinking_face",
    "⚠": "warning",
    "🛑": "octagonal_sign",
    "🎉": "tada",
    "❤": "heart",
    "🔥": "fire",
    "💬": "speech_balloon",
    "🚀": "rocket",
    "🙏": "pray",
    "🕐": "clock1",
    "⏰": "alarm_clock",
    "❗": "exclamation",
    "❓": "question",
}


class Options(base.PlatformOptions, frozen=True, kw_only=True):
    """What an account on Slack needs."""

    bot_token: str = ""
    """The bot's token (`xoxb-...`)."""
    app_token: str = ""
    """The app's token for Socket Mode (`xapp-...`)."""
    base_url: str = "https://slack.com/api"
    """Where Slack's Web API is."""
    reply_in_thread: bool = True
    """Whether what is said in a channel is answered in a thread of its own; then each thread is a session."""


class Slack(Platform):
    """One app in one workspace."""

    def __init__(self, options: Options, around: PlatformContext) -> None:
        self._around = around
        self._web = Web(options.bot_token, options.app_token, options.base_url, around)
        self._news = News(self._web, around, in_thread=options.reply_in_thread)
        self._hosts = {urlsplit(options.base_url).hostname or "", "files.slack.com", "slack-files.com"}
        self._socket: WebSocketConnection | None = None
        self._leaving = ""
        """Why Slack wants a new connection."""
        self._silent = False
        """The bot may not show that it is writing."""

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, read what was missed, and give what comes in."""
        refreshed = False
        while True:
            try:
                socket = await self._connect()
                async with aclosing(self._told(socket, missed=not refreshed)) as batches:
                    async for batch in batches:
                        yield batch
            finally:
                await self.close()
            if self._leaving == "link_disabled":
                raise PlatformRefusedError(phrase("Socket Mode is switched off in the app's settings on Slack."))
            if not self._leaving:
                return
            # Slack renews connections every few hours, and tells again what was not acknowledged on the one before.
            refreshed = True

    async def close(self) -> None:
        """Hang up."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def send(self, message: Outgoing) -> str:
        """Send a message, or a file with a text."""
        if message.file:
            return await self._send_file(message, Path(message.file))
        wanted = self._body(message) | {"unfurl_links": False, "unfurl_media": False}
        if message.place.thread:
            wanted["thread_ts"] = message.place.thread
        return (await self._web.call("chat.postMessage", Sent, wanted, creates=True)).ts

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Put another text and other buttons into a message."""
        wanted = self._body(message) | {"ts": message_id}
        wanted.setdefault("blocks", [])
        await self._web.call("chat.update", Sent, wanted)

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written: Slack can in threads only, and below the last message elsewhere."""
        lane = f"{place.chat}:{place.thread}" if place.thread else place.chat
        below = place.thread or self._news.known.get(lane, "")
        if self._silent or not below:
            return
        wanted: dict[str, object] = {"channel_id": place.chat, "thread_ts": below, "status": say("is writing ...")}
        try:
            await self._web.call("assistant.threads.setStatus", Done, wanted)
        except SendError as error:
            if error.fault is not SendFault.FORBIDDEN:
                raise
            self._silent = True
            self._around.report(phrase("Slack does not let the bot show that it is writing: {error}", error=str(error)))

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; empty takes back what was given. Slack takes names: those in `NAMES` work."""
        wanted: dict[str, object] = {"channel": place.chat, "timestamp": message_id}
        if not emoji:
            await self._take_back(wanted)
            return
        name = NAMES.get(emoji.removesuffix("\ufe0f"))
        if name is None:
            raise SendError(SendFault.BAD_FORMAT, phrase("Slack has no name here for this reaction."))
        await self._reaction("reactions.add", wanted | {"name": name}, "already_reacted")

    async def _take_back(self, wanted: dict[str, object]) -> None:
        await self._know_me()
        for one in (await self._web.call("reactions.get", One, wanted)).message.reactions:
            if self._news.me in one.users:
                await self._reaction("reactions.remove", wanted | {"name": one.name}, "no_reaction")

    async def _reaction(self, method: str, wanted: dict[str, object], already: str) -> None:
        try:
            await self._web.call(method, Done, wanted)
        except SendError as error:
            if already not in str(error):
                raise

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Save a file that came in; the token is shown to Slack only."""
        host = urlsplit(attachment.ref).hostname or ""
        if host not in self._hosts and not host.endswith(".slack.com"):
            raise PlatformError(phrase("The file is not on Slack."))
        await save_file(
            self._around.http,
            attachment.ref,
            target,
            self._web.credentials,
            allow_html=attachment.media_type == "text/html",
        )

    async def find_sent(self, message: Outgoing) -> str | None:
        """Look in the history for the message that carries the key, or the file with this name and text."""
        await self._know_me()
        since = message.since - 60.0 if message.since else self._around.clock.now() - FOUND_SECONDS
        cursor = ""
        for _ in range(PAGES):
            page = await self._news.page(message.place.chat, message.place.thread, max(since, 0.0), cursor)
            for one in self._news.messages(page):
                if one.user == self._news.me and self._is(one, message):
                    return one.ts
            cursor = page.response_metadata.next_cursor if page.response_metadata is not None else ""
            if not cursor:
                break
        return None

    def _is(self, known: Message, message: Outgoing) -> bool:
        if message.file:
            names = [one.name for one in known.files]
            return names == [Path(message.file).name] and (known.text or "") == self._text(message)
        return (
            bool(message.key) and known.metadata is not None and known.metadata.event_payload.get("key") == message.key
        )

    def _text(self, message: Outgoing) -> str:
        return dialect(_literal(message.text)) if message.plain else dialect(message.text)

    def _body(self, message: Outgoing) -> dict[str, object]:
        text = self._text(message)
        if len(text) > LIMIT:
            raise SendError(
                SendFault.TOO_LONG, phrase("Slack shows no more than {n} characters in a message.", n=LIMIT)
            )
        wanted: dict[str, object] = {
            "channel": message.place.chat,
            "text": text,
            "mrkdwn": not message.plain,
        }
        if message.key:
            wanted["metadata"] = {"event_type": "hermes_message", "event_payload": {"key": message.key}}
        if message.buttons:
            wanted["blocks"] = _blocks(message)
        return wanted

    async def _send_file(self, message: Outgoing, file: Path) -> str:
        content = await asyncio.to_thread(content_of, str(file), FILE_LIMIT)
        about: dict[str, object] = {"filename": file.name, "length": len(content)}
        upload = await self._web.call("files.getUploadURLExternal", Upload, about)
        kind = {"Content-Type": "application/octet-stream"}
        ask = PlatformRequest(method="POST", url=upload.upload_url, headers=kind, body=content, seconds=UPLOAD_SECONDS)
        answer = await send_request(self._around.http, ask, "Slack")
        if answer.status != 200:
            raise SendError(SendFault.TRANSIENT, phrase("Slack answered with status {status}.", status=answer.status))
        wanted: dict[str, object] = {
            "files": [{"id": upload.file_id, "title": file.name}],
            "channel_id": message.place.chat,
        }
        if message.text:
            wanted["initial_comment"] = self._text(message)
        if message.place.thread:
            wanted["thread_ts"] = message.place.thread
        await self._web.call("files.completeUploadExternal", Done, wanted, creates=True)
        return await self._shown(upload.file_id, message.place.chat)

    async def _shown(self, file: str, chat: str) -> str:
        """The message that shows a file, which Slack writes a moment later; else the file's own id."""
        for _ in range(3):
            try:
                shares = (await self._web.call("files.info", Shown, {"file": file})).file.shares
            except PlatformError:
                break
            for one in shares.private.get(chat, []) + shares.public.get(chat, []):
                return one.ts
            await self._around.clock.sleep(0.5)
        return file

    # The connection.

    async def _connect(self) -> WebSocketConnection:
        self._leaving = ""
        await self._know_me()
        link = await self._web.call("apps.connections.open", Link, app=True)
        socket = self._socket = await connect_websocket(self._around.http, link.url, heartbeat=PING_SECONDS)
        return socket

    async def _know_me(self) -> None:
        if not self._news.me:
            me = await self._web.call("auth.test", Account)
            self._news.me, self._news.bot = me.user, me.bot

    async def _told(self, socket: WebSocketConnection, *, missed: bool) -> AsyncGenerator[Batch, None]:
        yield Batch()
        if missed:
            async with aclosing(self._missed()) as batches:
                async for batch in batches:
                    yield batch
        async with aclosing(self._listen(socket)) as batches:
            async for batch in batches:
                yield batch

    async def _missed(self) -> AsyncGenerator[Batch, None]:
        if forgotten := self._news.forget():
            yield Batch((), forgotten)
        for lane, newest in self._news.lanes():
            work = Work()
            await self._patiently(lane, newest, work)
            if work.arrivals:
                yield Batch(tuple(work.arrivals), cursors(work))
            self._news.done(work)

    async def _patiently(self, lane: str, newest: str, work: Work) -> None:
        for _ in range(3):
            try:
                await self._news.missed(lane, newest, work)
            except SendError as error:
                if error.fault is not SendFault.RATE_LIMITED:
                    raise
                await self._around.clock.sleep(error.retry_after or 1.0)
            else:
                return

    async def _listen(self, socket: WebSocketConnection) -> AsyncGenerator[Batch, None]:
        while frames := await socket.next_frames():
            work = Work()
            for raw in frames:
                await self._take(raw, work)
            if work.arrivals:
                yield Batch(tuple(work.arrivals), cursors(work))
            self._news.done(work)
            for envelope in work.envelopes:
                await socket.send(json.dumps({"envelope_id": envelope}))
            if self._leaving:
                return
        if socket.problem:
            self._news.tell("frame", phrase("Slack sent a frame that cannot be read: {error}", error=socket.problem))

    async def _take(self, raw: bytes, work: Work) -> None:
        try:
            frame = decode_json(raw, Frame)
        except msgspec.DecodeError as error:
            self._news.tell(
                "frame", phrase("Slack sent a frame that cannot be read: {error}", error=describe_error(error))
            )
            return
        if frame.type == "disconnect":
            self._leaving = frame.reason or "refresh_requested"
        elif frame.type != "hello":
            await self._news.happened(frame, work)


_MARKS = str.maketrans({one: "\\" + one for one in "\\`*_~[]()#<>|!+-."})


def _literal(text: str) -> str:
    """A text as markdown that shows as it stands."""
    return to_plain_text(text).translate(_MARKS)


def _blocks(message: Outgoing) -> list[dict[str, object]]:
    """Sections with the text, and below them the buttons, row by row."""
    pieces = split_markdown(message.text, SECTION, _length)
    blocks: list[dict[str, object]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": dialect(piece)}} for piece in pieces[:40]
    ]
    return blocks + [{"type": "actions", "elements": [_button(one) for one in row[:25]]} for row in message.buttons[:8]]


def _button(button: Button) -> dict[str, object]:
    found: dict[str, object] = {"type": "button", "action_id": button.token, "value": button.token}
    found["text"] = {"type": "plain_text", "text": button.label[:75]}
    return found | ({"style": "danger"} if button.danger else {})


def _length(markdown: str) -> int:
    return len(dialect(markdown))


def _identity(options: base.PlatformOptions) -> str:
    return options.bot_token if isinstance(options, Options) else ""


async def _start(options: base.PlatformOptions, around: PlatformContext) -> Platform:
    if not isinstance(options, Options) or not options.bot_token or not options.app_token:
        said = phrase("Slack needs two tokens: `SLACK_BOT_TOKEN` (xoxb-...) and `SLACK_APP_TOKEN` (xapp-...) in .env.")
        raise PlatformRefusedError(said)
    return Slack(options, around)


PLATFORM = Descriptor(
    title="Slack",
    options=Options,
    can=Capabilities(
        limit=LIMIT,
        measure=_length,
        edit=True,
        edit_seconds=1.5,
        typing=60.0,
        reactions=True,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        buttons=True,
        history=True,
        redelivers=True,
        resend=Resend.CHECK,
    ),
    open=_start,
    variables={"bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN"},
    secrets=("bot_token", "app_token"),
    identity=_identity,
    hint="Slack shows simple markdown: bold, lists, code, links; tables become code.",
    example="bot_token: ...  # or SLACK_BOT_TOKEN in .env\napp_token: ...  # or SLACK_APP_TOKEN\nowners: [U0123456789]",
)
