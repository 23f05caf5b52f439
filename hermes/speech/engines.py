"""Who turns speech into text and text into speech: records, and the choice between them.

Sources: OpenAI's API reference (audio), Groq's page on speech to text, Mistral's on transcription and speech.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from hermes.config.speech import SpeechToTextSettings, TextToSpeechSettings
from hermes.i18n.messages import N_
from hermes.speech.errors import NoEngineError

COMMAND, ESPEAK, LOCAL = "command", "espeak-ng", "local"
_USUAL_FORMATS = frozenset(("flac", "mp3", "mp4", "m4a", "ogg", "wav", "webm"))
_UPLOAD_LIMIT = 25_000_000


class TranscriptionRecord(Struct, frozen=True, kw_only=True):
    """A server that takes `POST /audio/transcriptions` as multipart/form-data with `file`, `model`, `language`."""

    name: str
    title: str
    model: str
    base: str = ""
    """Its address; empty: the person's settings name it."""
    key_variables: tuple[str, ...] = ()
    formats: frozenset[str] = _USUAL_FORMATS
    """What it takes, by the usual ends of files."""
    limit: int = _UPLOAD_LIMIT
    """Bytes of the largest file."""


class SpeechRecord(Struct, frozen=True, kw_only=True):
    """A server that takes `POST /audio/speech` as JSON with `model`, `input`, a voice and `response_format`."""

    name: str
    title: str
    model: str
    voice: str
    base: str = ""
    key_variables: tuple[str, ...] = ()
    format: str = "opus"
    """The format that is asked for: Opus in Ogg, which needs no conversion."""
    voice_field: str = "voice"
    audio_field: str = ""
    """Where the sound stands in a JSON answer, in base64; empty: the answer is the sound."""
    has_speed: bool = True
    """Whether it takes `speed`."""


TRANSCRIPTION: Mapping[str, TranscriptionRecord] = {
    one.name: one
    for one in (
        # OpenAI shuts its older models (whisper-1, gpt-4o-transcribe) on 2027-02-26; this one stays.
        TranscriptionRecord(
            name="openai",
            title="OpenAI",
            model="gpt-transcribe",
            base="https://api.openai.com/v1",
            key_variables=("VOICE_TOOLS_OPENAI_KEY", "OPENAI_API_KEY"),
        ),
        TranscriptionRecord(
            name="groq",
            title="Groq",
            model="whisper-large-v3-turbo",
            base="https://api.groq.com/openai/v1",
            key_variables=("GROQ_API_KEY",),
        ),
        TranscriptionRecord(
            name="mistral",
            title="Mistral",
            model="voxtral-mini-latest",
            base="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
        ),
        TranscriptionRecord(name=LOCAL, title=N_("your own server"), model="whisper-1", limit=100_000_000),
    )
}
"""Servers that hear, in the order in which they are looked for."""

SPEECH: Mapping[str, SpeechRecord] = {
    one.name: one
    for one in (
        # OpenAI shuts its models for this endpoint on 2027-01-06 and names none in their place.
        SpeechRecord(
            name="openai",
            title="OpenAI",
            model="gpt-4o-mini-tts",
            voice="alloy",
            base="https://api.openai.com/v1",
            key_variables=("VOICE_TOOLS_OPENAI_KEY", "OPENAI_API_KEY"),
        ),
        SpeechRecord(
            name="mistral",
            title="Mistral",
            model="voxtral-mini-tts-3-0",
            voice="gb_jane_neutral",
            base="https://api.mistral.ai/v1",
            key_variables=("MISTRAL_API_KEY",),
            voice_field="voice_id",
            audio_field="audio_data",
            has_speed=False,
        ),
        SpeechRecord(name=LOCAL, title=N_("your own server"), model="tts-1", voice="alloy"),
    )
}
"""Servers that speak, in the order in which they are looked for."""


class KeyRing(Protocol):
    """Where the keys of providers are found."""

    def has_key(self, provider: str, variables: Sequence[str]) -> bool:
        """Return whether there is one, without reading what takes time."""
        ...

    async def read_key(self, provider: str, variables: Sequence[str]) -> str:
        """Return a provider's key; empty where there is none. Raises ConfigError for one that cannot be read."""
        ...


class ChosenEngine(Struct, frozen=True):
    """The engine that is used, and where it is; `words` is the person's command."""

    name: str
    title: str
    base: str = ""
    words: tuple[str, ...] = ()


def split_command(command: Sequence[str] | str) -> tuple[str, ...]:
    """Return a command's words, without a shell. Raises NoEngineError for quotes that are not closed."""
    try:
        return tuple(shlex.split(command)) if isinstance(command, str) else tuple(command)
    except ValueError as error:
        raise NoEngineError(N_("The command {command} cannot be read: {why}.", command=command, why=error)) from None


def choose_transcription(settings: SpeechToTextSettings, keys: KeyRing) -> ChosenEngine:
    """Return who writes down what is said. Raises NoEngineError."""
    if not settings.enabled:
        raise NoEngineError(N_("Hearing is switched off (stt.enabled)."), N_("`hermes config set stt.enabled true`"))
    chosen = _choose(settings, TRANSCRIPTION, keys)
    if chosen is not None:
        return chosen
    known = ", ".join((*TRANSCRIPTION, COMMAND))
    if settings.provider and settings.provider not in (*TRANSCRIPTION, COMMAND):
        raise NoEngineError(
            N_("stt.provider names {name}, which is not known.", name=repr(settings.provider)),
            N_("Possible: {names}.", names=known),
        )
    if settings.provider:
        raise NoEngineError(*_explain_incomplete("stt", settings.provider, TRANSCRIPTION))
    raise NoEngineError(
        N_("Nothing here can hear voice messages yet."),
        N_("`hermes auth add groq` gives a key for one that can; docs/voice.md names the others."),
    )


def choose_speech(settings: TextToSpeechSettings, keys: KeyRing, *, has_espeak: bool) -> ChosenEngine:
    """Return who speaks. Raises NoEngineError."""
    chosen = _choose(settings, SPEECH, keys)
    if chosen is not None:
        return chosen
    if settings.provider in ("", ESPEAK, "espeak") and has_espeak:
        return ChosenEngine(ESPEAK, ESPEAK)
    if settings.provider in (ESPEAK, "espeak"):
        raise NoEngineError(N_("espeak-ng is not installed."), N_("Install it, on Debian: apt install espeak-ng"))
    known = ", ".join((*SPEECH, COMMAND, ESPEAK))
    if settings.provider and settings.provider not in (*SPEECH, COMMAND):
        raise NoEngineError(
            N_("tts.provider names {name}, which is not known.", name=repr(settings.provider)),
            N_("Possible: {names}.", names=known),
        )
    if settings.provider:
        raise NoEngineError(*_explain_incomplete("tts", settings.provider, SPEECH))
    raise NoEngineError(
        N_("Nothing here can speak yet."),
        N_("Install espeak-ng (on Debian: apt install espeak-ng); docs/voice.md names the others."),
    )


def _choose(
    settings: SpeechToTextSettings | TextToSpeechSettings,
    records: Mapping[str, TranscriptionRecord] | Mapping[str, SpeechRecord],
    keys: KeyRing,
) -> ChosenEngine | None:
    named, words = settings.provider, split_command(settings.command)
    if words and named in ("", COMMAND):
        return ChosenEngine(COMMAND, words[0].rpartition("/")[2], words=words)
    if settings.base_url and named in ("", LOCAL):
        return ChosenEngine(LOCAL, records[LOCAL].title, settings.base_url.rstrip("/"))
    for record in records.values():
        if record.name == LOCAL or named not in ("", record.name):
            continue
        if (named and settings.api_key) or keys.has_key(record.name, record.key_variables):
            return ChosenEngine(record.name, record.title, (settings.base_url or record.base).rstrip("/"))
    return None


def _explain_incomplete(
    section: str, name: str, records: Mapping[str, TranscriptionRecord] | Mapping[str, SpeechRecord]
) -> tuple[str, str]:
    if name == COMMAND:
        return N_("{section}.provider is command, and there is none.", section=section), N_(
            "Set {section}.command.", section=section
        )
    if name == LOCAL:
        return N_("{section}.provider is local, and nothing says where the server is.", section=section), N_(
            "Set {section}.base_url.", section=section
        )
    return N_("{title} has no key.", title=records[name].title), N_(
        "`hermes auth add {name}`, or set {variable}.", name=name, variable=records[name].key_variables[-1]
    )
