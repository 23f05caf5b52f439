"""`/v1/audio/speech` and `/v1/audio/transcriptions`: the agent's own voice and ears, for programs."""

import asyncio
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from aiohttp import BodyPartReader, web
from msgspec import Struct

from hermes.core.errors import HermesError
from hermes.gateway.platforms.api_server.deps import ApiDeps
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.keys import ApiScope
from hermes.gateway.platforms.api_server.requests import READ_SECONDS, caller_of, json_response

LONGEST_INPUT = 4_096
"""Characters that are spoken at once, as OpenAI takes them."""
_MAX_FIELD, _MAX_FIELDS = 10_000, 20
_FORMATS: Mapping[str, tuple[str, str]] = {
    "opus": (".ogg", "audio/ogg"),
    "wav": (".wav", "audio/wav"),
    "mp3": (".mp3", "audio/mpeg"),
}


class SpeechRequest(Struct, frozen=True, kw_only=True):
    """A request to speak. The engine and its voice are those of the settings, whatever is named here."""

    input: str
    model: str = ""
    voice: object = None
    response_format: str = "mp3"
    speed: float = 1.0


class TranscriptionObject(Struct, frozen=True):
    """What was said."""

    text: str


class AudioRoutes:
    """Speaks and hears by the engines of the settings."""

    def __init__(self, deps: ApiDeps) -> None:
        self._deps = deps
        self._scratch = deps.app.services.home.root / "media" / "scratch"
        """Where what a killed process has left is deleted."""

    def routes(self) -> list[web.RouteDef]:
        """Return the routes."""
        return [
            web.post("/v1/audio/speech", self._speak),
            web.post("/v1/audio/transcriptions", self._transcribe),
        ]

    async def _speak(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        caller.require_scope(ApiScope.CHAT)
        asked = await self._deps.reader.read_value(request, SpeechRequest)
        if not 0 < len(asked.input) <= LONGEST_INPUT:
            raise ApiRequestError(400, f"`input` must hold 1 to {LONGEST_INPUT:,} characters.", param="input")
        if not any(one.isalnum() for one in asked.input):
            raise ApiRequestError(400, "`input` holds nothing to say.", param="input")
        if asked.response_format not in _FORMATS:
            said = f"`response_format` must be one of {', '.join(_FORMATS)}."
            raise ApiRequestError(400, said, param="response_format")
        await self._deps.admit_turn(caller)
        end, media_type = _FORMATS[asked.response_format]
        target = self._scratch / f"{secrets.token_hex(8)}{end}"
        try:
            made = await self._deps.app.services.speech().speak_text(asked.input, target)
        except HermesError as error:
            raise _to_api_error(error) from None
        sound = await asyncio.to_thread(_take_file, Path(made.path))
        await self._deps.write_audit(caller, "speech", f"{len(asked.input)} characters")
        return web.Response(body=sound, content_type=media_type)

    async def _transcribe(self, request: web.Request) -> web.Response:
        caller = caller_of(request)
        caller.require_scope(ApiScope.CHAT)
        if request.content_type != "multipart/form-data":
            raise ApiRequestError(415, "The body must be of the type multipart/form-data.")
        await self._deps.admit_turn(caller)
        target = self._scratch / f"{secrets.token_hex(8)}.heard"
        try:
            fields = await self._save_recording(request, target)
            heard = await self._deps.app.services.speech().transcribe_file(target)
        except ApiRequestError:
            raise
        except HermesError as error:
            raise _to_api_error(error) from None
        finally:
            await asyncio.to_thread(target.unlink, missing_ok=True)
        await self._deps.write_audit(caller, "transcription", f"{heard.seconds:.0f} s")
        text = self._deps.app.redact_text(heard.text)
        if fields.get("response_format") == "text":
            return web.Response(text=text)
        return json_response(TranscriptionObject(text))

    async def _save_recording(self, request: web.Request, target: Path) -> dict[str, str]:
        """Save the file of a form piece by piece, and return the other fields. Raises ApiRequestError."""
        fields: dict[str, str] = {}
        found = False
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for part in await request.multipart():
                    if not isinstance(part, BodyPartReader) or part.name is None:
                        continue
                    if part.name == "file":
                        found = True
                        await _save_part(part, target, self._deps.options.body_limit)
                    elif len(fields) < _MAX_FIELDS:
                        fields[part.name[:100]] = (await part.read_chunk(_MAX_FIELD)).decode("utf-8", "replace")
        except TimeoutError:
            raise ApiRequestError(408, "The request did not come whole in time.") from None
        except (ValueError, web.RequestPayloadError) as error:
            raise ApiRequestError(400, f"The request's body is broken: {type(error).__name__}.") from None
        if not found:
            raise ApiRequestError(400, "`file` must hold a recording.", param="file")
        if fields.get("response_format", "json") not in ("json", "text"):
            raise ApiRequestError(400, "`response_format` must be json or text.", param="response_format")
        return fields


async def _save_part(part: BodyPartReader, target: Path, limit: int) -> None:
    def open_file() -> int:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)

    size = 0
    with os.fdopen(await asyncio.to_thread(open_file), "wb") as file:
        while chunk := await part.read_chunk(256 * 1024):
            size += len(chunk)
            if size > limit:
                raise ApiRequestError(413, f"The recording is larger than {limit:,} bytes.", code="request_too_large")
            await asyncio.to_thread(file.write, chunk)


def _take_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)


def _to_api_error(error: HermesError) -> ApiRequestError:
    """Return the answer to an error of the engine."""
    from hermes.speech.errors import NoEngineError

    if isinstance(error, NoEngineError):
        return ApiRequestError(501, str(error), code="no_speech_engine")
    return ApiRequestError(502, str(error), code="speech_failed")
