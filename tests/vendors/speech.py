"""A speech server on loopback: `/v1/audio/transcriptions` and `/v1/audio/speech`, with the refusals that clients meet.

It understands no speech: what it hears is told by `heard`, what it says is `sound`. The openai client judges it.
"""

import asyncio
import secrets
from collections.abc import Callable

from aiohttp import BodyPartReader, web
from msgspec import Struct

from hermes.testing.web_server import Listener

FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
TAKEN = ("flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm")
UPLOAD_LIMIT = 25_000_000
TEXT_LIMIT = 4096


class Recording(Struct, frozen=True):
    """A recording that was sent to be heard."""

    name: str
    content: bytes
    fields: dict[str, str]


class FakeSpeech:
    """The server. An async context."""

    def __init__(self, *, heard: str | Callable[[Recording], str] = "", sound: bytes = b"", language: str = "") -> None:
        self.key = secrets.token_urlsafe(24)
        self.heard = heard
        self.sound = sound
        self.language = language
        self.recordings: list[Recording] = []
        self.texts: list[dict[str, object]] = []
        """The requests to speak."""
        self.failing: list[tuple[int, str]] = []
        """Status and message of the next answers."""
        self.hold: asyncio.Event | None = None
        """Nothing is heard before this is set."""
        self.was_asked = asyncio.Event()
        """Set when something is to be heard."""
        self._listener = Listener(
            [web.post("/v1/audio/transcriptions", self._hear), web.post("/v1/audio/speech", self._speak)]
        )

    async def __aenter__(self) -> "FakeSpeech":
        await self._listener.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._listener.down()

    @property
    def base(self) -> str:
        """Its address, as settings name it."""
        return f"{self._listener.url}/v1"

    def settings(self, **more: object) -> dict[str, object]:
        """What stands under `stt:` or `tts:` so that it is used."""
        return {"provider": "local", "base_url": self.base, "api_key": self.key, **more}

    async def _hear(self, request: web.Request) -> web.Response:
        self.was_asked.set()
        if self.hold is not None:
            await self.hold.wait()
        if refused := self._refuse(request):
            return refused
        if not request.content_type.startswith("multipart/form-data"):
            return _error(400, "Invalid content type; expected multipart/form-data.")
        fields: dict[str, str] = {}
        name, content = "", b""
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                return _error(400, "nested parts")
            if part.name == "file":
                name, content = part.filename or "", bytes(await part.read())
            else:
                fields[part.name or ""] = await part.text()
        if not content:
            return _error(400, "file: field required")
        if not fields.get("model"):
            return _error(400, "you must provide a model parameter")
        if name.rpartition(".")[2] not in TAKEN:
            return _error(400, f"Invalid file format. Supported formats: {', '.join(TAKEN)}")
        if len(content) > UPLOAD_LIMIT:
            return _error(413, f"Maximum content size limit ({UPLOAD_LIMIT}) exceeded ({len(content)} bytes read)")
        recording = Recording(name, content, fields)
        self.recordings.append(recording)
        text = self.heard if isinstance(self.heard, str) else self.heard(recording)
        body: dict[str, object] = {"text": text, "usage": {"type": "duration", "seconds": 1}}
        return web.json_response(body | ({"language": self.language} if self.language else {}))

    async def _speak(self, request: web.Request) -> web.Response:
        if refused := self._refuse(request):
            return refused
        wanted = await request.json()
        text = wanted.get("input")
        if not isinstance(text, str) or not text:
            return _error(400, "Missing required parameter: 'input'.")
        if len(text) > TEXT_LIMIT:
            return _error(400, f"Input should have at most {TEXT_LIMIT} characters")
        if not wanted.get("model") or not (wanted.get("voice") or wanted.get("voice_id")):
            return _error(400, "Missing required parameter: 'model' or 'voice'.")
        if wanted.get("response_format", "mp3") not in FORMATS:
            return _error(400, "Invalid value for response_format")
        if not 0.25 <= wanted.get("speed", 1) <= 4:
            return _error(400, "Invalid speed")
        self.texts.append(wanted)
        return web.Response(body=self.sound, content_type="audio/ogg")

    def _refuse(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, f"Incorrect API key provided: {request.headers.get('Authorization', '')[7:]}.")
        return _error(*self.failing.pop(0)) if self.failing else None


def _error(status: int, message: str) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
    return web.json_response(body, status=status, headers={"retry-after": "0"})
