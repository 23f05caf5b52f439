"""Discord: the gateway's WebSocket for what comes in, REST for what goes out.

What came in is on disk before its sequence number is named to Discord, in heartbeats too. A session that cannot go on
is begun anew, and what was said meanwhile is read from the channels' history. Edits by people are passed over.
Source: Discord's documentation of gateway, messages, interactions and rate limits, version 10.
"""

import asyncio
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

from hermes.core.chats import Attachment, Batch, Button, Outgoing, Place
from hermes.gateway import platform as base
from hermes.gateway.http.errors import describe_error, save_file
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
)
from hermes.gateway.platforms.discord.api import (
    REFUSALS,
    Door,
    Frame,
    Hello,
    Interaction,
    Message,
    Ready,
    Rest,
    Sent,
    User,
    decoded,
)
from hermes.gateway.platforms.discord.events import News, Work, cursors, first_id
from hermes.gateway.text.dialect import to_discord as dialect
from hermes.gateway.text.dialect import to_plain_text
from hermes.gateway.text.media import content_of
from hermes.i18n.messages import phrase

if TYPE_CHECKING:
    import aiohttp

FILE_LIMIT = 10 * 1024 * 1024
"""Bytes of the largest file that is sent."""
INTENTS = 1 << 0 | 1 << 9 | 1 << 12 | 1 << 15
"""Servers, their messages, direct messages, and the content of messages."""
HELLO_SECONDS = 15.0
MISSED_SECONDS = 6 * 3600.0
"""How far back what was missed is fetched."""
MISSED_CHANNELS = 200
"""Channels in which it is looked for, those first in which something was said last."""
AT_ONCE = 5
"""Channels that are looked into at once."""
FOUND_SECONDS = 3600.0
"""How far back something sent is looked for, when it is not said since when it may be there."""
SENT = 500
"""Messages sent last whose keys are known."""
SILENT = 1 << 12
UNREADABLE = {1007: phrase("not UTF-8"), 1009: phrase("too large")}
"""Closed by us because of a frame that would come again if the session went on."""


class Options(base.PlatformOptions, frozen=True, kw_only=True):
    """What an account on Discord needs."""

    token: str = ""
    """The bot's token."""
    base_url: str = "https://discord.com/api/v10"
    """Where Discord's REST interface is."""


class _Session(Struct, frozen=True):
    """What a connection can go on with."""

    id: str
    url: str


class Discord(Platform):
    """One bot."""

    def __init__(self, options: Options, around: PlatformContext) -> None:
        self._token = options.token
        self._around = around
        self._rest = Rest(options.token, options.base_url, around)
        self._news = News(self._rest, around)
        self._sent: dict[str, str] = {}
        """Messages that were sent, and under which key: none is taken for another."""
        self._socket: WebSocketConnection | None = None
        self._heart: asyncio.Task[None] | None = None
        self._leaving: float | None = None
        """Discord wants a new connection, after so many seconds."""
        session, _, url = around.cursors.get("session", "").partition(" ")
        self._session = _Session(session, url) if session else None

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Connect, go on where it was, and give what comes in."""
        again = True
        while again:
            try:
                socket = await self._connect()
                async with aclosing(self._listen(socket)) as batches:
                    async for batch in batches:
                        yield batch
                again = self._ended(socket)
            finally:
                await self.close()
            if again:
                await self._around.clock.sleep(self._leaving or 0.0)

    async def close(self) -> None:
        """Hang up, in a way that lets the session go on."""
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close(4000)

    async def send(self, message: Outgoing) -> str:
        """Send a message; the same key is shown once within the few minutes in which Discord knows it."""
        body = self._body(message)
        if message.key:
            body |= {"nonce": hashlib.sha256(message.key.encode()).hexdigest()[:24], "enforce_nonce": True}
        if message.reply_to:
            body["message_reference"] = {"message_id": message.reply_to, "fail_if_not_exists": False}
        if message.silent:
            body["flags"] = SILENT
        path = f"channels/{_channel(message.place)}/messages"
        if message.file:
            form = await _form(body, Path(message.file))
            answer = await self._rest.call("POST", path, form=form, creates=True)
        else:
            answer = await self._rest.call("POST", path, body, creates=True)
        sent = decoded(answer, Sent).id
        self._sent[sent] = message.key
        if len(self._sent) > SENT:
            del self._sent[next(iter(self._sent))]
        return sent

    async def edit(self, message: Outgoing, message_id: str) -> None:
        """Put another text and other buttons into a message."""
        path = f"channels/{_channel(message.place)}/messages/{message_id}"
        await self._rest.call("PATCH", path, self._body(message))

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written, for ten seconds."""
        await self._rest.call("POST", f"channels/{_channel(place)}/typing")

    async def react(self, place: Place, message_id: str, emoji: str) -> None:
        """React to a message; empty takes back what was given."""
        path = f"channels/{_channel(place)}/messages/{message_id}"
        if emoji:
            await self._rest.call("PUT", f"{path}/reactions/{quote(emoji)}/@me")
            return
        for one in decoded(await self._rest.call("GET", path), Message).reactions:
            if one.me:
                name = f"{one.emoji.name}:{one.emoji.id}" if one.emoji.id else one.emoji.name
                await self._rest.call("DELETE", f"{path}/reactions/{quote(name)}/@me")

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Save a file that came in. The token is not shown to where it lies."""
        await save_file(self._around.http, attachment.ref, target)

    async def find_sent(self, message: Outgoing) -> str | None:
        """Look among the newest messages for one of the bot's with the same words.

        Discord keeps keys for minutes only, and names them in no history. A message that is known to have been sent
        under another key does not count, nor does one that is older than what it would answer.
        """
        await self._know_me()
        since = message.since - 60.0 if message.since else self._around.clock.now() - FOUND_SECONDS
        oldest = max(int(message.reply_to) if message.reply_to.isdigit() else 0, first_id(since))
        text = self._text(message).strip()
        for one in await self._news.page(_channel(message.place), oldest):
            if one.author.id != self._news.me or self._sent.get(one.id, message.key) != message.key:
                continue
            names = [_bare(file.filename) for file in one.attachments]
            if one.content.strip() == text and names == ([_bare(Path(message.file).name)] if message.file else []):
                return one.id
        return None

    def _text(self, message: Outgoing) -> str:
        return dialect(_escaped(to_plain_text(message.text)) if message.plain else message.text)

    def _body(self, message: Outgoing) -> dict[str, object]:
        return {
            "content": self._text(message),
            "allowed_mentions": {"parse": [], "replied_user": False},
            "components": _components(message.buttons),
        }

    # The connection.

    async def _connect(self) -> WebSocketConnection:
        """Stand at the point where Discord tells what happens."""
        self._leaving = None
        await self._know_me()
        door = decoded(await self._rest.call("GET", "gateway/bot"), Door)
        if self._session is None and door.session_start_limit.remaining <= 0:
            raise PlatformError(phrase("Discord allows the bot no more connections today."))
        socket = self._socket = await self._open(door.url)
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frames = await socket.next_frames()
        except TimeoutError as error:
            raise PlatformError(phrase("Discord says nothing.")) from error
        if not frames:
            raise PlatformError(phrase("Discord hung up (code {code}).", code=socket.close_code))
        interval = decoded(decoded(frames[0], Frame).d, Hello).heartbeat_interval / 1000
        self._heart = asyncio.create_task(self._beat(socket, max(interval, 0.01)), name="discord heartbeat")
        if self._session is not None:
            going_on = {"token": self._token, "session_id": self._session.id, "seq": self._news.sequence}
            await socket.send(json.dumps({"op": 6, "d": going_on}))
        else:
            properties = {"os": "linux", "browser": "hermes", "device": "hermes"}
            beginning = {"token": self._token, "intents": INTENTS, "properties": properties}
            await socket.send(json.dumps({"op": 2, "d": beginning}))
        return socket

    async def _open(self, url: str) -> WebSocketConnection:
        if self._session is not None and self._session.url:
            with suppress(PlatformError):
                return await connect_websocket(self._around.http, _asked(self._session.url))
        return await connect_websocket(self._around.http, _asked(url))

    async def _know_me(self) -> None:
        if not self._news.me:
            self._news.me = decoded(await self._rest.call("GET", "users/@me"), User).id

    async def _beat(self, socket: WebSocketConnection, interval: float) -> None:
        """Say now and then that the connection is used, and end it when nothing comes back."""
        await self._around.clock.sleep(interval * random.random())
        with suppress(PlatformError):
            while True:
                began = time.monotonic()
                await self._say_alive(socket)
                await self._around.clock.sleep(interval)
                if socket.last_frame_at < began and not socket.is_crowded:
                    self._around.report(phrase("Discord does not answer any more; connecting again."))
                    break
        socket.stop_reading()

    async def _say_alive(self, socket: WebSocketConnection) -> None:
        await socket.send(json.dumps({"op": 1, "d": self._news.sequence or None}))

    def _ended(self, socket: WebSocketConnection) -> bool:
        """Whether to connect again at once. Raises when it makes no sense, or wants a longer pause."""
        if self._leaving is not None:
            return True
        code = socket.close_code
        if code in REFUSALS:
            raise PlatformRefusedError(REFUSALS[code])
        if code in UNREADABLE:
            self._news.tell("", phrase("Discord sent a frame that is {problem}.", problem=UNREADABLE[code]))
        if code in UNREADABLE or code in (4003, 4007, 4009):
            self._session = None
        if code not in (1000, 1001, 1006, 1012, 4000):
            raise PlatformError(phrase("Discord closed the connection (code {code}).", code=code))
        return False

    # What comes in.

    async def _listen(self, socket: WebSocketConnection) -> AsyncGenerator[Batch, None]:
        while frames := await socket.next_frames():
            work = Work(self._news.sequence)
            for raw in frames:
                async with aclosing(self._take(socket, raw, work)) as batches:
                    async for batch in batches:
                        yield batch
            if work.arrivals or work.roles is not None:
                yield Batch(tuple(work.arrivals), cursors(work))
            self._news.done(work)
            await asyncio.gather(*map(self._acknowledge, work.presses))
            if self._leaving is not None:
                return

    async def _take(self, socket: WebSocketConnection, raw: bytes, work: Work) -> AsyncGenerator[Batch, None]:
        """Take up a frame; what has to be on disk before those after it is given at once."""
        try:
            frame = decode_json(raw, Frame)
        except msgspec.DecodeError as error:
            self._news.tell(
                "frame", phrase("Discord sent a frame that cannot be read: {error}", error=describe_error(error))
            )
            return
        if frame.op:
            await self._control(socket, frame)
        elif frame.t == "READY":
            async with aclosing(self._begin(frame, work)) as batches:
                async for batch in batches:
                    yield batch
        elif frame.t == "RESUMED":
            yield Batch()
        else:
            await self._news.happened(frame, work)
        work.sequence = frame.s or work.sequence

    async def _control(self, socket: WebSocketConnection, frame: Frame) -> None:
        match frame.op:
            case 1:
                await self._say_alive(socket)
            case 7:
                self._leaving = random.random()
            case 9:
                if bytes(frame.d) != b"true":
                    self._session = None
                self._leaving = 1 + 4 * random.random()

    async def _begin(self, frame: Frame, work: Work) -> AsyncGenerator[Batch, None]:
        """A session has begun: read what was missed, and only then name the session as one to go on with."""
        ready = decoded(frame.d, Ready)
        self._news.me = ready.user.id
        yield Batch((), self._news.forget())
        floor = first_id(self._around.clock.now() - MISSED_SECONDS)
        known = sorted(self._news.known.items(), key=lambda one: -one[1].newest)
        for at in range(0, min(len(known), MISSED_CHANNELS), AT_ONCE):
            some = known[at : at + AT_ONCE]
            pages = await asyncio.gather(*(self._news.missed(name, max(one.newest, floor)) for name, one in some))
            missed = Work(self._news.sequence)
            for (_, one), page in zip(some, pages, strict=True):
                for message in reversed(page):
                    message.guild_id = one.guild or None
                    await self._news.heard(message, missed)
            if missed.arrivals:
                yield Batch(tuple(missed.arrivals), cursors(missed)[1:])
            self._news.known |= missed.newest
        session = _Session(ready.session_id, ready.resume_gateway_url)
        work.sequence = frame.s or 0
        yield Batch((), (*cursors(work), ("session", f"{session.id} {session.url}")))
        self._session, self._news.sequence = session, work.sequence

    async def _acknowledge(self, pressed: Interaction) -> None:
        """Within three seconds of the press; what it leads to is shown by an edit."""
        path = f"interactions/{pressed.id}/{pressed.token}/callback"
        try:
            await self._rest.call("POST", path, {"type": 6})
        except PlatformError as error:
            self._around.report(phrase("A button's press was not acknowledged: {error}", error=str(error)))


def _asked(url: str) -> str:
    """The gateway's address, with the version that is spoken."""
    parts = urlsplit(url)
    return parts._replace(query="v=10&encoding=json", path=parts.path or "/").geturl()


def _channel(place: Place) -> str:
    """A thread is a channel of its own."""
    return place.thread or place.chat


_MARKS = re.compile(r"([\\`*_~|<>\[\]()#+.-])")


def _escaped(text: str) -> str:
    """A text as markdown that shows as it stands."""
    return _MARKS.sub(r"\\\1", text)


def _bare(name: str) -> str:
    """A file's name as far as Discord leaves it alone."""
    return "".join(one for one in name.casefold() if one.isalnum())


def _components(rows: Sequence[Sequence[Button]]) -> list[dict[str, object]]:
    """Rows of buttons: five of each at most."""
    short = [row[at : at + 5] for row in rows for at in range(0, len(row), 5)]
    return [{"type": 1, "components": [_button(one) for one in row]} for row in short[:5]]


def _button(button: Button) -> dict[str, object]:
    return {"type": 2, "style": 4 if button.danger else 2, "label": button.label[:80], "custom_id": button.token}


async def _form(body: object, file: Path) -> "aiohttp.FormData":
    import aiohttp

    content = await asyncio.to_thread(content_of, str(file), FILE_LIMIT)
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("payload_json", msgspec.json.encode(body).decode(), content_type="application/json")
    form.add_field("files[0]", content, filename=file.name, content_type="application/octet-stream")
    return form


async def _start(options: base.PlatformOptions, around: PlatformContext) -> Platform:
    if not isinstance(options, Options) or not options.token:
        raise PlatformRefusedError(phrase("Discord needs the bot's token: `DISCORD_BOT_TOKEN` in .env."))
    return Discord(options, around)


def _length(markdown: str) -> int:
    """Discord counts code points of what is sent."""
    return len(dialect(markdown))


PLATFORM = Descriptor(
    title="Discord",
    options=Options,
    can=Capabilities(
        limit=2000,
        measure=_length,
        edit=True,
        edit_seconds=1.2,
        typing=8.0,
        reactions=True,
        threads=True,
        media=True,
        media_limit=FILE_LIMIT,
        buttons=True,
        history=True,
        redelivers=True,
        resend=Resend.CHECK,
        batch_seconds=0.6,
    ),
    open=_start,
    variables={"token": "DISCORD_BOT_TOKEN"},
    secrets=("token",),
    identity=lambda options: options.token if isinstance(options, Options) else "",
    hint="Discord shows markdown without tables and pictures; 2,000 characters fit in a message.",
    example="token: ...  # or DISCORD_BOT_TOKEN in .env\nowners: ['your user id']",
)
