"""Hearing and speaking with the engines that are set up."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec import Struct

from hermes.config.speech import SpeechSettings
from hermes.core.errors import HermesError
from hermes.core.protocols import HttpTransport
from hermes.i18n.messages import N_
from hermes.safety.environment import remove_secret_variables
from hermes.speech.engines import (
    COMMAND,
    ESPEAK,
    LOCAL,
    SPEECH,
    TRANSCRIPTION,
    ChosenEngine,
    KeyRing,
    choose_speech,
    choose_transcription,
    split_command,
)
from hermes.speech.errors import NoEngineError, SpeechError
from hermes.speech.ogg_opus import VoiceFacts, read_voice_facts
from hermes.speech.programs import Confinement, SoundProgram, SoundPrograms
from hermes.speech.requests import SpeechServer, Transcript, request_speech, request_transcript
from hermes.speech.sound_formats import (
    FFMPEG,
    convert_sound,
    delete_leftovers,
    identify_sound,
    open_sound,
    temporary_sound,
)
from hermes.speech.spoken_text import guess_language

if TYPE_CHECKING:
    from hermes.execution.supervisor import Supervisors

_COMFORTABLE = 8_000_000
"""Bytes above which a recording is made smaller before it is sent, where it can be: it stands in memory meanwhile."""
_MAX_TRANSCRIPT = 200_000
_AT_ONCE = 8
"""Recordings that are worked on at once, most of them by servers."""
_ESPEAK_WORDS = 165
"""Words a minute of espeak-ng at its usual speed, about those of a person."""
_FORMATS = ("wav", "ogg", "mp3")


class HeardWords(Struct, frozen=True):
    """What was understood of a recording, and who understood it."""

    text: str
    engine: str
    language: str = ""
    seconds: float = 0.0
    """Its length where that is known without decoding it, else 0."""


class SpokenFile(Struct, frozen=True):
    """A recording that was made, and who made it. `is_voice` says that platforms take it as a voice message."""

    path: str
    engine: str
    is_voice: bool
    seconds: float = 0.0


class SpeechService:
    """The ears and the voice of a process. Nothing is opened before something is heard or spoken."""

    def __init__(
        self,
        settings: SpeechSettings,
        environ: Mapping[str, str],
        keys: KeyRing,
        *,
        get_supervisors: "Callable[[], Supervisors]",
        open_transport: Callable[[], HttpTransport],
        scratch: Path,
    ) -> None:
        """`scratch` is a private folder for files that are gone when a method returns."""
        self._settings = settings
        self._environ = environ
        self._keys = keys
        self._programs = SoundPrograms(get_supervisors, environ)
        self._open_transport = open_transport
        self._transport: HttpTransport | None = None
        self._scratch = scratch
        self._is_clean = False
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def find_transcriber(self) -> ChosenEngine:
        """Return who hears. Raises NoEngineError."""
        return self._check_program(choose_transcription(self._settings.stt, self._keys))

    def find_speaker(self) -> ChosenEngine:
        """Return who speaks. Raises NoEngineError."""
        has_espeak = bool(self._programs.find_program(ESPEAK))
        return self._check_program(choose_speech(self._settings.tts, self._keys, has_espeak=has_espeak))

    @property
    def can_convert(self) -> bool:
        """Whether sounds can be made of each other: ffmpeg is there."""
        return bool(self._programs.find_program(FFMPEG))

    async def close(self) -> None:
        """Close what was opened."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    # Hearing.

    async def transcribe_file(self, path: str | Path) -> HeardWords:
        """Return what is said in a recording. Raises SpeechError; NoEngineError where nothing can hear."""
        engine = self.find_transcriber()
        await self._clean_scratch()
        real = await asyncio.to_thread(os.path.realpath, path)
        async with self._slots:
            with open_sound(real) as (handle, size, found):
                seconds = await asyncio.to_thread(_measure_seconds, handle) if found == "ogg" else 0.0
                if self._must_convert(engine, size, found):
                    target = self._settings.stt.format or "ogg"
                    with temporary_sound(self._scratch, f".{target}") as file:
                        await convert_sound(self._programs, (handle, real), target, file)
                        file.flush()
                        heard = await self._hear(engine, file.fileno(), file.name, target)
                else:
                    heard = await self._hear(engine, handle, real, found)
        text = heard.text.strip()[:_MAX_TRANSCRIPT]
        return HeardWords(text, engine.title, heard.language or self._settings.stt.language, seconds)

    def _must_convert(self, engine: ChosenEngine, size: int, found: str) -> bool:
        """Return whether a recording is given in another format than it came in."""
        wanted, record = self._settings.stt.format, TRANSCRIPTION.get(engine.name)
        if wanted not in ("", *_FORMATS):
            raise SpeechError(
                N_("stt.format names {name}, which is not known.", name=repr(wanted)),
                N_("Possible: {names}.", names=", ".join(_FORMATS)),
            )
        if record is None:
            return wanted not in ("", found)
        if wanted not in ("", found) or found not in record.formats or size > record.limit:
            return True
        return size > _COMFORTABLE and self.can_convert

    async def _hear(self, engine: ChosenEngine, handle: int, path: str, found: str) -> Transcript:
        settings = self._settings.stt
        if engine.name == COMMAND:
            return await self._hear_by_command(engine, path)
        record = TRANSCRIPTION[engine.name]
        size = os.fstat(handle).st_size
        if size > record.limit:
            limit = record.limit // 1_000_000
            said = N_("The recording is larger than the {n} MB that {title} takes.", n=limit, title=engine.title)
            raise SpeechError(said)
        server = await self._open_server(engine, settings.api_key, record.key_variables, settings.timeout)
        fields = {
            "model": settings.model or record.model,
            "language": settings.language,
            "response_format": "json",
        }
        return await request_transcript(self._get_transport(), server, fields, handle, f"voice.{found or 'ogg'}")

    async def _hear_by_command(self, engine: ChosenEngine, path: str) -> Transcript:
        settings = self._settings.stt
        values = {"{file}": path, "{language}": settings.language, "{model}": settings.model}
        words = self._fill_command(engine.words, values)
        printed = bytearray()
        await self._programs.run(
            SoundProgram(
                words=words if any("{file}" in one for one in engine.words) else (*words, path),
                confinement=Confinement.NONE,
                environment=self._own_environment(),
                seconds=settings.timeout,
                most=4 * _MAX_TRANSCRIPT,
            ),
            printed.extend,
        )
        return Transcript(printed.decode("utf-8", "replace"))

    # Speaking.

    async def speak_text(self, text: str, target: Path, *, language: str = "") -> SpokenFile:
        """Speak a text into a new file. The end of `target` says its format: `.ogg` (as voice messages are), `.wav` or
        `.mp3`; without one it is Opus in Ogg where it can be, else what came. Raises SpeechError; NoEngineError where
        nothing can speak.
        """
        if not any(one.isalnum() for one in text):
            raise SpeechError(N_("There is nothing to say."))
        engine = self.find_speaker()
        await self._clean_scratch()
        async with self._slots:
            with temporary_sound(self._scratch) as raw:
                await self._speak(engine, text, raw, language or guess_language(text))
                raw.flush()
                return await self._store_speech(engine, raw, target)

    async def _speak(self, engine: ChosenEngine, text: str, output: IO[bytes], language: str) -> None:
        settings = self._settings.tts
        if engine.name == ESPEAK:
            await self._speak_by_espeak(text, output, language)
            return
        if engine.name == COMMAND:
            await self._speak_by_command(engine, text, output, language)
            return
        record = SPEECH[engine.name]
        values: dict[str, object] = {
            "model": settings.model or record.model,
            "input": text,
            record.voice_field: settings.voice or record.voice,
            "response_format": record.format,
        }
        if record.has_speed and settings.speed != 1.0:
            values["speed"] = settings.speed
        server = await self._open_server(engine, settings.api_key, record.key_variables, settings.timeout)
        await request_speech(self._get_transport(), server, values, output, record.audio_field)

    async def _speak_by_espeak(self, text: str, output: IO[bytes], language: str) -> None:
        settings = self._settings.tts
        words = (
            *(self._programs.find_program(ESPEAK), "--stdin", "--stdout", "-b", "1"),
            *("-v", settings.voice or language or "en", "-s", str(round(_ESPEAK_WORDS * settings.speed))),
        )
        with temporary_sound(self._scratch) as given:
            given.write(text.encode("utf-8", "replace"))
            given.flush()
            given.seek(0)
            program = SoundProgram(
                words=words, source=given.fileno(), confinement=Confinement.PREFERRED, seconds=settings.timeout
            )
            await self._programs.run(program, output.write)

    async def _speak_by_command(self, engine: ChosenEngine, text: str, output: IO[bytes], language: str) -> None:
        settings = self._settings.tts
        names_file = any("{file}" in one for one in engine.words)
        with temporary_sound(self._scratch) as given, temporary_sound(self._scratch, ".wav") as made:
            given.write(text.encode("utf-8", "replace"))
            given.flush()
            given.seek(0)
            values = {
                "{file}": made.name,
                "{voice}": settings.voice,
                "{speed}": format(settings.speed, "g"),
                "{language}": language,
            }
            program = SoundProgram(
                words=self._fill_command(engine.words, values),
                source=given.fileno(),
                confinement=Confinement.NONE,
                environment=self._own_environment(),
                seconds=settings.timeout,
            )
            await self._programs.run(program, _ignore if names_file else output.write)
            if names_file:
                # By name: a program may have put another file in its place.
                with open_sound(made.name) as (handle, _, _):
                    await asyncio.to_thread(_copy, handle, output)

    async def _store_speech(self, engine: ChosenEngine, raw: IO[bytes], target: Path) -> SpokenFile:
        """Store the sound in the wanted format. Raises SpeechError."""
        found = identify_sound(os.pread(raw.fileno(), 64, 0))
        if not found:
            raise SpeechError(N_("{title} has made no sound of a known format.", title=engine.title))
        wanted = target.suffix.lower().removeprefix(".")
        facts = await asyncio.to_thread(_read_facts, raw.fileno()) if found == "ogg" else None
        is_fitting = facts is not None if wanted in ("", "ogg") else wanted == found
        if is_fitting or (not wanted and not self.can_convert):
            path = await asyncio.to_thread(_store, raw.fileno(), target.with_suffix(f".{found}"))
            return SpokenFile(path, engine.title, facts is not None, facts.seconds if facts is not None else 0.0)
        with temporary_sound(self._scratch) as made:
            kind = wanted if wanted in ("wav", "mp3") else "voice"
            await convert_sound(self._programs, (raw.fileno(), raw.name), kind, made, own=True)
            made.flush()
            facts = await asyncio.to_thread(_read_facts, made.fileno()) if kind == "voice" else None
            path = await asyncio.to_thread(_store, made.fileno(), target if wanted else target.with_suffix(".ogg"))
        return SpokenFile(path, engine.title, facts is not None, facts.seconds if facts is not None else 0.0)

    # What both need.

    async def _open_server(
        self, engine: ChosenEngine, api_key: str, variables: Sequence[str], seconds: float
    ) -> SpeechServer:
        key = api_key or ("" if engine.name == LOCAL else await self._read_key(engine.name, variables))
        return SpeechServer(title=engine.title, base=engine.base, key=key, seconds=seconds)

    async def _read_key(self, provider: str, variables: Sequence[str]) -> str:
        try:
            return await self._keys.read_key(provider, variables)
        except SpeechError:
            raise
        except HermesError as error:
            raise SpeechError(error.message, error.hint) from None

    async def _clean_scratch(self) -> None:
        """Delete what killed processes have left, once."""
        if not self._is_clean:
            self._is_clean = True
            await asyncio.to_thread(delete_leftovers, self._scratch)

    def _get_transport(self) -> HttpTransport:
        if self._transport is None:
            self._transport = self._open_transport()
        return self._transport

    def _fill_command(self, words: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the person's command with its program's path and its places filled in. Raises NoEngineError."""
        first, *rest = split_command(words)
        return (self._find_own_program(first), *(_fill_places(word, values) for word in rest))

    def _check_program(self, engine: ChosenEngine) -> ChosenEngine:
        """Return the engine, where the program of a command is there. Raises NoEngineError."""
        if engine.name == COMMAND:
            self._find_own_program(split_command(engine.words)[0])
        return engine

    def _find_own_program(self, name: str) -> str:
        path = os.path.expanduser(name) if "/" in name else self._programs.find_program(name)
        if not os.path.isabs(path) or not os.access(path, os.X_OK):
            raise NoEngineError(
                N_("The program {name} is not found.", name=name), N_("Give its whole path, or install it.")
            )
        return path

    def _own_environment(self) -> dict[str, str]:
        return remove_secret_variables(self._environ)


def _fill_places(word: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{\w+\}", lambda match: values.get(match[0], match[0]), word)


def _ignore(data: bytes) -> None:
    """Leave out what a program prints beside its file."""


def _measure_seconds(handle: int) -> float:
    facts = _read_facts(handle)
    return facts.seconds if facts is not None else 0.0


def _read_facts(handle: int) -> VoiceFacts | None:
    with open(os.dup(handle), "rb") as file:
        file.seek(0)
        return read_voice_facts(file)


def _copy(handle: int, output: IO[bytes]) -> None:
    at = 0
    while data := os.pread(handle, 1 << 20, at):
        output.write(data)
        at += len(data)


def _store(handle: int, target: Path) -> str:
    """Copy an open file to a new private one, whole or not at all; return its path."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = target.with_name(f".{target.name}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            _copy(handle, file)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SpeechError(
            N_("{path} cannot be written: {why}.", path=target.name, why=error.strerror or str(error))
        ) from None
    return str(target)
