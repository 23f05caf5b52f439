"""The two requests of speech servers, over the transport that models are reached by."""

import asyncio
import base64
import io
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import IO, TypeVar

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import TransportError
from hermes.core.protocols import HttpStream, HttpTimeouts, HttpTransport
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_
from hermes.llm.error_report import read_error_body
from hermes.speech.errors import SpeechError

_MAX_TRANSCRIPT = 4_000_000
_MAX_SOUND = 64_000_000
_MAX_ERROR = 65_536
_PIECE = 262_144
_BUSY = (408, 429, 500, 502, 503, 504)
_LONGEST_WAIT = 15.0
_FIRST_WAIT = 1.0
_MEDIA_TYPES = {
    "ogg": "audio/ogg",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "webm": "audio/webm",
}
T = TypeVar("T")


class Transcript(Struct, frozen=True):
    """What was said, and in which language where that is known."""

    text: str
    language: str = ""


class SpeechServer(KeyHolder, frozen=True, kw_only=True):
    """Where requests go, and how long one may take."""

    title: str
    base: str
    key: str = ""
    seconds: float = 120.0


class _TranscriptBody(Struct):
    text: str
    language: str = ""


async def request_transcript(
    transport: HttpTransport, server: SpeechServer, fields: Mapping[str, str], handle: int, name: str
) -> Transcript:
    """Send an open file and return what is said in it. The file is in memory once. Raises SpeechError."""
    boundary = f"hermes-{secrets.token_hex(16)}"
    body = await asyncio.to_thread(_build_form, boundary, fields, handle, name)
    headers = {"content-type": f"multipart/form-data; boundary={boundary}", "accept": "application/json"}

    async def read(stream: HttpStream) -> Transcript:
        answer = await _read_bounded(stream, _MAX_TRANSCRIPT, server.title)
        try:
            found = msgspec.json.decode(answer, type=_TranscriptBody)
        except (msgspec.DecodeError, RecursionError):
            raise SpeechError(N_("{title} did not answer with a transcript.", title=server.title)) from None
        return Transcript(found.text.strip(), found.language)

    return await _send(transport, server, "/audio/transcriptions", headers, body, read)


async def request_speech(
    transport: HttpTransport, server: SpeechServer, values: Mapping[str, object], output: IO[bytes], audio_field: str
) -> None:
    """Have a text spoken, and write the sound to a file. Raises SpeechError."""
    headers = {"content-type": "application/json", "accept": "application/json" if audio_field else "*/*"}

    async def read(stream: HttpStream) -> None:
        output.seek(0)
        output.truncate()
        if audio_field:
            output.write(_decode_sound(await _read_bounded(stream, _MAX_SOUND, server.title), audio_field, server))
            return
        size = 0
        async for chunk in stream.chunks():
            size += len(chunk)
            if size > _MAX_SOUND:
                raise SpeechError(N_("{title} answered with more than is taken.", title=server.title))
            output.write(chunk)
        if not size:
            raise SpeechError(N_("{title} answered with no sound.", title=server.title))

    await _send(transport, server, "/audio/speech", headers, to_json(dict(values)), read)


async def _send(
    transport: HttpTransport,
    server: SpeechServer,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    read: Callable[[HttpStream], Awaitable[T]],
) -> T:
    """Send a request, once more where the server was busy. Raises SpeechError."""
    more = {"authorization": f"Bearer {server.key}"} if server.key else {}
    timeouts = HttpTimeouts(connect=10.0, read=server.seconds)

    async def attempt() -> T:
        try:
            async with (
                asyncio.timeout(server.seconds),
                transport.open(
                    "POST", f"{server.base}{path}", headers={**headers, **more}, body=body, timeouts=timeouts
                ) as stream,
            ):
                if stream.status != 200:
                    raise await _read_refusal(stream, server)
                return await read(stream)
        except TransportError as error:
            raise SpeechError(error.message, error.hint, retryable=not error.lasting, wait=error.wait) from None
        except TimeoutError:
            raise SpeechError(
                N_("{title} did not answer within {n:g} s.", title=server.title, n=server.seconds)
            ) from None

    try:
        return await attempt()
    except SpeechError as error:
        wait = _FIRST_WAIT if error.wait is None else error.wait
        if not error.retryable or wait > _LONGEST_WAIT:
            raise
        await asyncio.sleep(wait)
    return await attempt()


async def _read_refusal(stream: HttpStream, server: SpeechServer) -> SpeechError:
    body = bytearray()
    async for chunk in stream.chunks():
        body += chunk
        if len(body) > _MAX_ERROR:
            break
    report = read_error_body(stream.status, bytes(body), lambda text: _hide_key(text, server.key))
    why = report.message or N_("status {status}", status=stream.status)
    if stream.status in (401, 403):
        hint = N_("Is its key right? `hermes auth list` shows those that are stored.")
    elif stream.status == 404:
        hint = N_("Is the address right, and does it have the model?")
    elif stream.status == 413:
        hint = N_("The recording is too large for it.")
    else:
        hint = ""
    return SpeechError(
        N_("{title} refused: {why}", title=server.title, why=why),
        hint,
        retryable=stream.status in _BUSY,
        wait=_parse_wait(stream.headers.get("retry-after", "")),
    )


def _parse_wait(text: str) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


def _hide_key(text: str, key: str) -> str:
    return text.replace(key, "[key]") if key else text


async def _read_bounded(stream: HttpStream, most: int, title: str) -> bytes:
    body = bytearray()
    async for chunk in stream.chunks():
        body += chunk
        if len(body) > most:
            raise SpeechError(N_("{title} answered with more than is taken.", title=title))
    return bytes(body)


def _decode_sound(answer: bytes, field: str, server: SpeechServer) -> bytes:
    try:
        found = msgspec.json.decode(answer, type=dict[str, object]).get(field)
        sound = base64.b64decode(found, validate=True) if isinstance(found, str) else b""
    except (msgspec.DecodeError, RecursionError, ValueError):
        sound = b""
    if not sound:
        raise SpeechError(N_("{title} answered with no sound.", title=server.title))
    return sound


def _build_form(boundary: str, fields: Mapping[str, str], handle: int, name: str) -> bytes:
    """Return multipart/form-data (RFC 7578) of the fields and the file."""
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
        if value
    ]
    lines.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: {_MEDIA_TYPES.get(name.rpartition('.')[2], 'application/octet-stream')}\r\n\r\n"
    )
    # A buffer that is written in pieces hands its bytes over without a copy.
    form = io.BytesIO()
    form.write("".join(lines).encode())
    at = 0
    while piece := os.pread(handle, _PIECE, at):
        form.write(piece)
        at += len(piece)
    form.write(f"\r\n--{boundary}--\r\n".encode())
    return form.getvalue()
