"""ntfy: a topic is a chat. Whoever may write to the topic may talk with the agent, so the topic's name is its key.

The protocol is https://docs.ntfy.sh/subscribe/api/ and https://docs.ntfy.sh/publish/: a stream of JSON lines in, a POST
of JSON out. A message names no sender; the agent's own messages come back and are recognized by their tags.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct

from hermes.core.chats import Attachment, Batch, ChatKind, InboundEvent, MediaKind, Outgoing, Place, Sender
from hermes.gateway.http.client import (
    PlatformRequest,
    PlatformResponse,
    decode_json,
    parse_seconds,
    save_file,
    send_request,
)
from hermes.gateway.platform import (
    Capabilities,
    Descriptor,
    Platform,
    PlatformContext,
    PlatformError,
    PlatformOptions,
    PlatformRefusedError,
    Resend,
    SendError,
    SendFault,
    utf8,
)
from hermes.gateway.text.media import content_of
from hermes.i18n.messages import N_

_LINE_LIMIT = 8 << 20
_OWN_TAG = "hermes"
"""The tag that marks the agent's own messages."""
_LIVENESS_SECONDS = 90.0
"""Seconds without a line after which the connection is dead; the server sends `keepalive` every 45."""
_TEXT_LIMIT = 4_096
_FILE_LIMIT = 15_000_000


class NtfyOptions(PlatformOptions, frozen=True, kw_only=True):
    """An account of ntfy."""

    topic: str
    """The topic to listen to and to answer on."""
    server: str = "https://ntfy.sh"
    """The server."""
    token: str = ""
    """An access token, for topics that are protected."""


class _NtfyFile(Struct):
    name: str = ""
    url: str = ""
    type: str = ""
    size: int | None = None


class _NtfyEvent(Struct):
    """A line of the stream."""

    id: str = ""
    event: str = ""
    time: float = 0.0
    message: str = ""
    title: str = ""
    tags: list[str] = []
    attachment: _NtfyFile | None = None


_event_decoder = msgspec.json.Decoder(_NtfyEvent)


class NtfyPlatform(Platform):
    """One topic."""

    def __init__(self, options: NtfyOptions, context: PlatformContext) -> None:
        self._options = options
        self._context = context
        self._topic = f"{options.server.rstrip('/')}/{options.topic}"
        self._headers = {"Authorization": f"Bearer {options.token}"} if options.token else {}
        self._since = context.cursors.get("since", "")

    async def receive(self) -> AsyncGenerator[Batch, None]:
        """Stream the topic from the last message that is on disk; from now on if there is none."""
        if not self._since:
            self._since = str(int(self._context.clock.now()))
            yield Batch(cursors=(("since", self._since),))
        query = {"since": self._since}
        limit = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=_LIVENESS_SECONDS)
        get = self._context.http.get(f"{self._topic}/json", params=query, headers=self._headers, timeout=limit)
        async with get as answer:
            if answer.status in (401, 403, 404):
                raise PlatformRefusedError(
                    N_("ntfy does not let us read the topic (HTTP {status}).", status=answer.status)
                )
            if answer.status != 200:
                raise PlatformError(N_("ntfy answered with HTTP {status}.", status=answer.status))
            yield Batch()
            async for raw in _read_lines(answer.content):
                line = _parse_event(raw)
                if line is None or line.event != "message":
                    continue
                inbound_events = () if _OWN_TAG in line.tags else (self._make_inbound_event(line),)
                yield Batch(inbound_events, (("since", line.id),))
                self._since = line.id

    async def send(self, message: Outgoing) -> str:
        """Publish a message with its key as a tag, by which `find_sent` recognizes it."""
        if utf8(message.text) > _TEXT_LIMIT:  # ntfy would make a file of it
            raise SendError(SendFault.TOO_LONG, N_("ntfy takes {TEXT_LIMIT} bytes.", TEXT_LIMIT=_TEXT_LIMIT))
        headers = {**self._headers, "Tags": f"{_OWN_TAG},{_key_tag(message.key)}"}
        if message.silent:
            headers["Priority"] = "2"
        if message.file:
            path = Path(message.file)
            body = await asyncio.to_thread(content_of, message.file, _FILE_LIMIT)
            headers["Filename"] = path.name.encode("ascii", "replace").decode().replace("\n", " ")
            if message.text:
                # A header holds ASCII; ntfy reads this form of all else (RFC 2047).
                headers["Message"] = f"=?UTF-8?B?{b64encode(message.text.encode('utf-8', 'replace')).decode()}?="
        else:
            body = message.text.encode("utf-8", "replace")
            headers["Markdown"] = "no" if message.plain else "yes"
        call = PlatformRequest(method="POST", url=self._topic, headers=headers, body=body, creates=True)
        answer = await send_request(self._context.http, call, "ntfy")
        if answer.status != 200:
            raise _make_error(answer)
        try:
            return decode_json(answer.body, _NtfyEvent).id
        except msgspec.DecodeError as error:
            raise SendError(
                SendFault.TRANSIENT, N_("ntfy answered something else: {error}", error=error), uncertain=True
            ) from None

    async def find_sent(self, message: Outgoing) -> str | None:
        """Search the messages that the server keeps (12 hours by default) for this one."""
        tag = _key_tag(message.key)
        query = {"poll": "1", "since": "all", "tags": tag}
        call = PlatformRequest(method="GET", url=f"{self._topic}/json", headers=self._headers, query=query)
        answer = await send_request(self._context.http, call, "ntfy")
        if answer.status != 200:
            raise PlatformError(N_("ntfy answered with HTTP {status}.", status=answer.status))
        lines = map(_parse_event, answer.body.splitlines())
        return next((line.id for line in lines if line is not None and tag in line.tags), None)

    async def fetch(self, attachment: Attachment, target: Path) -> None:
        """Download an attachment; only from this server."""
        if not attachment.ref.startswith(f"{self._options.server.rstrip('/')}/"):
            raise PlatformError("It is on another server.")
        await save_file(self._context.http, attachment.ref, target, self._headers)

    async def close(self) -> None:
        """Do nothing: no connection stays open between requests."""

    def _make_inbound_event(self, line: _NtfyEvent) -> InboundEvent:
        topic = self._options.topic
        files: tuple[Attachment, ...] = ()
        if line.attachment is not None:
            given = line.attachment
            kind = MediaKind.IMAGE if given.type.startswith("image/") else MediaKind.DOCUMENT
            files = (Attachment(kind=kind, name=given.name, media_type=given.type, size=given.size, ref=given.url),)
        return InboundEvent(
            event_id=line.id,
            message_id=line.id,
            place=Place(self._context.name, topic, kind=ChatKind.DM),
            sender=Sender(topic),
            text=f"{line.title}\n{line.message}" if line.title else line.message,
            attachments=files,
            at=line.time,
        )


async def _read_lines(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream; a line longer than any message of ours is skipped."""
    buffer = bytearray()
    async for chunk in content.iter_any():
        buffer += chunk
        *lines, rest = buffer.split(b"\n")
        buffer = rest if len(rest) <= _LINE_LIMIT else bytearray(b"{")
        for line in lines:
            yield bytes(line)


def _parse_event(raw: bytes) -> _NtfyEvent | None:
    """Parse a line of the stream; None for a line that is not ntfy's."""
    try:
        return _event_decoder.decode(raw)
    except msgspec.MsgspecError:
        return None


def _key_tag(key: str) -> str:
    """Return the tag for a key: tags are separated by commas, so other characters are replaced."""
    return "key-" + "".join(one if one.isalnum() or one in "-_" else "-" for one in key)


def _make_error(answer: PlatformResponse) -> SendError:
    status = answer.status
    why = N_(
        "ntfy answered with HTTP {status}: {decode}", status=status, decode=answer.body[:200].decode("utf-8", "replace")
    )
    if status == 429:
        wait = parse_seconds(answer.headers.get("retry-after"))
        return SendError(SendFault.RATE_LIMITED, why, retry_after=10.0 if wait is None else wait)
    if status == 413:
        return SendError(SendFault.TOO_LONG, why)
    named = {400: SendFault.BAD_FORMAT, 401: SendFault.FORBIDDEN, 403: SendFault.FORBIDDEN, 404: SendFault.NOT_FOUND}
    if status in named:
        return SendError(named[status], why)
    return SendError(SendFault.TRANSIENT if status >= 500 else SendFault.UNKNOWN, why)


async def _open_platform(options: PlatformOptions, context: PlatformContext) -> Platform:
    assert isinstance(options, NtfyOptions)
    return NtfyPlatform(options, context)


PLATFORM = Descriptor(
    title="ntfy",
    options=NtfyOptions,
    can=Capabilities(
        limit=_TEXT_LIMIT,
        measure=utf8,
        media=True,
        media_limit=_FILE_LIMIT,
        history=True,
        resend=Resend.CHECK,
        senders=False,
        dm_only=True,
    ),
    open=_open_platform,
    variables={"topic": "NTFY_TOPIC", "token": "NTFY_TOKEN"},
    secrets=("token",),
    hint="Messages pop up on a phone: be short. Markdown is shown.",
    example="ntfy:\n  topic: a-name-that-nobody-guesses\n  owners: [a-name-that-nobody-guesses]",
    asked=("topic",),
    preparation=N_("Whoever knows the topic reads along: make up a name that nobody guesses."),
)
