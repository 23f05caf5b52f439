"""Slack: Socket Mode for inbound events, the Web API for requests.

An envelope is acknowledged when its events are on disk; Slack sends unacknowledged ones again, and what Slack has
stopped sending is read from the channels' and threads' histories. Each sent message carries its key as metadata, by
which it is found again. Edits by people are ignored. Source: Slack's documentation of Socket Mode, the Events API,
Block Kit and the Web API.
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
from hermes.gateway.http.client import (
    UPLOAD_SECONDS,
    PlatformRequest,
    WebSocketConnection,
    connect_websocket,
    decode_json,
    describe_error,
    save_file,
    send_request,
)
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
from hermes.gateway.platforms.slack.api import (
    SlackAccount,
    SlackClient,
    SlackFileResponse,
    SlackFrame,
    SlackMessage,
    SlackMessageResponse,
    SlackResponse,
    SlackSentMessage,
    SlackSocketAddress,
    SlackUpload,
)
from hermes.gateway.platforms.slack.events import SlackEventReader, UnsavedSlackEvents, format_cursors
from hermes.gateway.text.dialect import to_plain_text
from hermes.gateway.text.dialect import to_slack as dialect
from hermes.gateway.text.media import content_of
from hermes.gateway.text.split import split_markdown
from hermes.i18n.messages import N_, tr

FILE_LIMIT = 100 * 1024 * 1024
"""Size in bytes of the largest file that is sent."""
HELLO_SECONDS = 15.0
PING_SECONDS = 20.0
LIMIT = 3_900
"""Slack shows up to 4,000 characters as one message and refuses longer edits.

`&`, `<` and `>` count as they are escaped.
"""
SECTION_LIMIT = 2_900
"""Characters of the text above buttons; a section takes 3,000."""
FIND_SENT_SECONDS = 24 * 3600.0
"""How far back a sent message is searched when its sending time is unknown."""
MAX_HISTORY_PAGES = 5
"""Pages of a history that are searched for a sent message at most."""
REACTION_NAMES = {
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


class SlackOptions(base.PlatformOptions, frozen=True, kw_only=True):
    """What an account on Slack needs."""

    bot_token: str = ""
    """The bot's token (`xoxb-...`)."""
    app_token: str = ""
    """The app's token for Socket Mode (`xapp-...`)."""
    base_url: str = "https://slack.com/api"
    """Where Slack's Web API is."""
    reply_in_thread: bool = True
    """Whether what is said in a channel is answered in a thread of its own; then each thread is a session."""


class SlackPlatform(Platform):
    """One app in one workspace."""

    def __init__(self, options: SlackOptions, context: PlatformContext) -> None:
        self._context = context
        self._client = SlackClient(options.bot_token, options.app_token, options.base_url, context)
        self._events = SlackEventReader(self._client, context, in_thread=options.reply_in_thread)
        self._file_hosts = {urlsplit(options.base_url).hostname or "", "files.slack.com", "slack-files.com"}
        self._socket: WebSocketConnection | None = None
        self._reconnect_reason = ""
        """Why Slack wants a new connection; empty while it wants none."""
        self._typing_refused = False
        """Whether Slack has refused to show that the bot is writing."""

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, read missed messages, and yield what comes in."""
        refreshed = False
        while True:
            try:
                socket = await self._connect_socket()
                async with aclosing(self._read_events(socket, missed=not refreshed)) as batches:
                    async for batch in batches:
                        yield batch
            finally:
                await self.close()
            if self._reconnect_reason == "link_disabled":
                raise PlatformRefusedError(N_("Socket Mode is switched off in the app's settings on Slack."))
            if not self._reconnect_reason:
                return
            # Slack renews connections every few hours, and tells again what was not acknowledged on the one before.
            refreshed = True

    async def close(self) -> None:
        """Close the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    async def send(self, message: Outgoing) -> str:
        """Send a message, or a file with a text."""
        if message.file:
            return await self._send_file(message, Path(message.file))
        arguments = self._message_body(message) | {"unfurl_links": False, "unfurl_media": False}
        if message.place.thread:
            arguments["thread_ts"] = message.place.thread
        return (await self._client.call_method("chat.postMessage", SlackSentMessage, arguments, creates=True)).ts

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Replace a message's text and buttons."""
        arguments = self._message_body(message) | {"ts": message_id}
        arguments.setdefault("blocks", [])
        await self._client.call_method("chat.update", SlackSentMessage, arguments)

    async def typing(self, place: Place) -> None:
        """Show the typing indicator: in threads, and elsewhere below the last message."""
        lane = f"{place.chat}:{place.thread}" if place.thread else place.chat
        below = place.thread or self._events.positions.get(lane, "")
        if self._typing_refused or not below:
            return
        arguments: dict[str, object] = {"channel_id": place.chat, "thread_ts": below, "status": tr("is writing ...")}
        try:
            await self._client.call_method("assistant.threads.setStatus", SlackResponse, arguments)
        except SendError as error:
            if error.fault is not SendFault.FORBIDDEN:
                raise
            self._typing_refused = True
            self._context.report(N_("Slack does not let the bot show that it is writing: {error}", error=str(error)))

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; an empty `emoji` removes the bot's reactions.

        Slack takes names instead of emoji: those in `REACTION_NAMES`.
        """
        arguments: dict[str, object] = {"channel": place.chat, "timestamp": message_id}
        if not emoji:
            await self._remove_reactions(arguments)
            return
        name = REACTION_NAMES.get(emoji.removesuffix("\ufe0f"))
        if name is None:
            raise SendError(SendFault.BAD_FORMAT, N_("Slack has no name here for this reaction."))
        await self._change_reaction("reactions.add", arguments | {"name": name}, "already_reacted")

    async def _remove_reactions(self, arguments: dict[str, object]) -> None:
        await self._learn_own_ids()
        for one in (await self._client.call_method("reactions.get", SlackMessageResponse, arguments)).message.reactions:
            if self._events.me in one.users:
                await self._change_reaction("reactions.remove", arguments | {"name": one.name}, "no_reaction")

    async def _change_reaction(self, method: str, arguments: dict[str, object], already: str) -> None:
        try:
            await self._client.call_method(method, SlackResponse, arguments)
        except SendError as error:
            if already not in str(error):
                raise

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Download an attachment; the token is sent to Slack only."""
        host = urlsplit(attachment.ref).hostname or ""
        if host not in self._file_hosts and not host.endswith(".slack.com"):
            raise PlatformError(N_("The file is not on Slack."))
        await save_file(
            self._context.http,
            attachment.ref,
            target,
            self._client.credentials,
            allow_html=attachment.media_type == "text/html",
        )

    async def find_sent(self, message: Outgoing) -> str | None:
        """Search the history for the message with this key, or the file with this name and text."""
        await self._learn_own_ids()
        since = message.since - 60.0 if message.since else self._context.clock.now() - FIND_SENT_SECONDS
        cursor = ""
        for _ in range(MAX_HISTORY_PAGES):
            page = await self._events.fetch_page(message.place.chat, message.place.thread, max(since, 0.0), cursor)
            for one in self._events.decode_messages(page):
                if one.user == self._events.me and self._is_same_message(one, message):
                    return one.ts
            cursor = page.response_metadata.next_cursor if page.response_metadata is not None else ""
            if not cursor:
                break
        return None

    def _is_same_message(self, known: SlackMessage, message: Outgoing) -> bool:
        if message.file:
            names = [one.name for one in known.files]
            return names == [Path(message.file).name] and (known.text or "") == self._render_text(message)
        return (
            bool(message.key) and known.metadata is not None and known.metadata.event_payload.get("key") == message.key
        )

    def _render_text(self, message: Outgoing) -> str:
        return dialect(_escape_markdown(message.text)) if message.plain else dialect(message.text)

    def _message_body(self, message: Outgoing) -> dict[str, object]:
        text = self._render_text(message)
        if len(text) > LIMIT:
            raise SendError(SendFault.TOO_LONG, N_("Slack shows no more than {n} characters in a message.", n=LIMIT))
        arguments: dict[str, object] = {
            "channel": message.place.chat,
            "text": text,
            "mrkdwn": not message.plain,
        }
        if message.key:
            arguments["metadata"] = {"event_type": "hermes_message", "event_payload": {"key": message.key}}
        if message.buttons:
            arguments["blocks"] = _format_blocks(message)
        return arguments

    async def _send_file(self, message: Outgoing, file: Path) -> str:
        content = await asyncio.to_thread(content_of, str(file), FILE_LIMIT)
        about: dict[str, object] = {"filename": file.name, "length": len(content)}
        upload = await self._client.call_method("files.getUploadURLExternal", SlackUpload, about)
        kind = {"Content-Type": "application/octet-stream"}
        call = PlatformRequest(method="POST", url=upload.upload_url, headers=kind, body=content, seconds=UPLOAD_SECONDS)
        answer = await send_request(self._context.http, call, "Slack")
        if answer.status != 200:
            raise SendError(SendFault.TRANSIENT, N_("Slack answered with status {status}.", status=answer.status))
        arguments: dict[str, object] = {
            "files": [{"id": upload.file_id, "title": file.name}],
            "channel_id": message.place.chat,
        }
        if message.text:
            arguments["initial_comment"] = self._render_text(message)
        if message.place.thread:
            arguments["thread_ts"] = message.place.thread
        await self._client.call_method("files.completeUploadExternal", SlackResponse, arguments, creates=True)
        return await self._find_file_message(upload.file_id, message.place.chat)

    async def _find_file_message(self, file: str, chat: str) -> str:
        """Return the message that shows a file, which Slack writes a moment later; else the file's own id."""
        for _ in range(3):
            try:
                shares = (await self._client.call_method("files.info", SlackFileResponse, {"file": file})).file.shares
            except PlatformError:
                break
            for one in shares.private.get(chat, []) + shares.public.get(chat, []):
                return one.ts
            await self._context.clock.sleep(0.5)
        return file

    # The connection.

    async def _connect_socket(self) -> WebSocketConnection:
        self._reconnect_reason = ""
        await self._learn_own_ids()
        link = await self._client.call_method("apps.connections.open", SlackSocketAddress, app=True)
        socket = self._socket = await connect_websocket(self._context.http, link.url, heartbeat=PING_SECONDS)
        return socket

    async def _learn_own_ids(self) -> None:
        if not self._events.me:
            me = await self._client.call_method("auth.test", SlackAccount)
            self._events.me, self._events.bot = me.user, me.bot
            self.own_name = f"@{me.name}" if me.name else ""

    async def _read_events(self, socket: WebSocketConnection, *, missed: bool) -> AsyncGenerator[Batch, None]:
        yield Batch()
        if missed:
            async with aclosing(self._read_missed()) as batches:
                async for batch in batches:
                    yield batch
        async with aclosing(self._read_frames(socket)) as batches:
            async for batch in batches:
                yield batch

    async def _read_missed(self) -> AsyncGenerator[Batch, None]:
        if forgotten := self._events.forget_old_threads():
            yield Batch((), forgotten)
        for lane, newest in self._events.recent_lanes():
            unsaved = UnsavedSlackEvents()
            await self._fetch_missed_patiently(lane, newest, unsaved)
            if unsaved.events:
                yield Batch(tuple(unsaved.events), format_cursors(unsaved))
            self._events.mark_saved(unsaved)

    async def _fetch_missed_patiently(self, lane: str, newest: str, unsaved: UnsavedSlackEvents) -> None:
        for _ in range(3):
            try:
                await self._events.fetch_missed(lane, newest, unsaved)
            except SendError as error:
                if error.fault is not SendFault.RATE_LIMITED:
                    raise
                await self._context.clock.sleep(error.retry_after or 1.0)
            else:
                return

    async def _read_frames(self, socket: WebSocketConnection) -> AsyncGenerator[Batch, None]:
        while frames := await socket.next_frames():
            unsaved = UnsavedSlackEvents()
            for raw in frames:
                await self._handle_frame(raw, unsaved)
            if unsaved.events:
                yield Batch(tuple(unsaved.events), format_cursors(unsaved))
            self._events.mark_saved(unsaved)
            for envelope in unsaved.envelopes:
                await socket.send(json.dumps({"envelope_id": envelope}))
            if self._reconnect_reason:
                return
        if socket.problem:
            self._events.report_once(
                "frame", N_("Slack sent a frame that cannot be read: {error}", error=socket.problem)
            )

    async def _handle_frame(self, raw: bytes, unsaved: UnsavedSlackEvents) -> None:
        try:
            frame = decode_json(raw, SlackFrame)
        except msgspec.DecodeError as error:
            self._events.report_once(
                "frame", N_("Slack sent a frame that cannot be read: {error}", error=describe_error(error))
            )
            return
        if frame.type == "disconnect":
            self._reconnect_reason = frame.reason or "refresh_requested"
        elif frame.type != "hello":
            await self._events.handle_event(frame, unsaved)


_MARKDOWN_ESCAPES = str.maketrans({one: "\\" + one for one in "\\`*_~[]()#<>|!+-."})


def _escape_markdown(text: str) -> str:
    """Return markdown that shows the text unchanged."""
    return to_plain_text(text).translate(_MARKDOWN_ESCAPES)


def _format_blocks(message: Outgoing) -> list[dict[str, object]]:
    """Format the text as sections, and below them the buttons, row by row."""
    pieces = split_markdown(message.text, SECTION_LIMIT, _rendered_length)
    blocks: list[dict[str, object]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": dialect(piece)}} for piece in pieces[:40]
    ]
    return blocks + [
        {"type": "actions", "elements": [_format_button(one) for one in row[:25]]} for row in message.buttons[:8]
    ]


def _format_button(button: Button) -> dict[str, object]:
    found: dict[str, object] = {"type": "button", "action_id": button.token, "value": button.token}
    found["text"] = {"type": "plain_text", "text": button.label[:75]}
    return found | ({"style": "danger"} if button.danger else {})


def _rendered_length(markdown: str) -> int:
    return len(dialect(markdown))


def _account_identity(options: base.PlatformOptions) -> str:
    return options.bot_token if isinstance(options, SlackOptions) else ""


async def _open_platform(options: base.PlatformOptions, context: PlatformContext) -> Platform:
    if not isinstance(options, SlackOptions) or not options.bot_token or not options.app_token:
        said = N_("Slack needs two tokens: `SLACK_BOT_TOKEN` (xoxb-...) and `SLACK_APP_TOKEN` (xapp-...) in .env.")
        raise PlatformRefusedError(said)
    return SlackPlatform(options, context)


PLATFORM = Descriptor(
    title="Slack",
    options=SlackOptions,
    can=Capabilities(
        limit=LIMIT,
        measure=_rendered_length,
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
    open=_open_platform,
    variables={"bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN"},
    secrets=("bot_token", "app_token"),
    needs_option="bot_token",
    identity=_account_identity,
    hint="Simple Markdown is shown: bold, lists, code, links; no tables.",
    example="bot_token: ...  # or SLACK_BOT_TOKEN in .env\napp_token: ...  # or SLACK_APP_TOKEN\nowners: [U0123456789]",
    asked=("bot_token", "app_token"),
    preparation=N_("api.slack.com/apps: an app with Socket Mode has a bot token (xoxb-) and an app token (xapp-)."),
)
