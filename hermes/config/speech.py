"""How voice messages are heard (`stt:`) and answers are spoken (`tts:`)."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from hermes.core.secret import KeyHolder


class VoiceMode(StrEnum):
    """When the answers of a chat are spoken, too."""

    AUTO = "auto"
    """Those to what was spoken."""
    ALWAYS = "always"
    NEVER = "never"


class SpeechToTextSettings(KeyHolder, frozen=True):
    """Who writes down what is said in voice messages (`stt:`)."""

    enabled: bool = True
    """Whether voice messages are heard at all."""
    provider: str = ""
    """`openai`, `groq`, `mistral`, `local` (a server of yours at `base_url`) or `command`; empty: the first of them
    that is set up."""
    model: str = ""
    """The model; empty: the provider's usual one."""
    base_url: str = ""
    """Where a server is that takes `POST /audio/transcriptions`, such as `http://127.0.0.1:8000/v1`."""
    api_key: str = ""
    """The key for it; empty: the variable or the stored key of the provider."""
    language: str = ""
    """The language that is spoken, such as `de`; empty: it is found out."""
    command: tuple[str, ...] | str = ()
    """A program of yours and its arguments, which prints the text; `{file}`, `{language}`, `{model}` are filled in."""
    format: str = ""
    """The format that the server or program is given: `wav`, `ogg` or `mp3`; empty: as it came, where it is taken."""
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 300.0
    """Seconds that one message may take."""
    echo: bool = True
    """Whether the chat shows what was understood."""


class TextToSpeechSettings(KeyHolder, frozen=True):
    """Who speaks, and when (`tts:`)."""

    answers: VoiceMode = VoiceMode.AUTO
    """Which answers in chats are spoken, too, where `/voice` has said nothing else: `auto` (those to voice messages),
    `always` or `never`."""
    provider: str = ""
    """`openai`, `mistral`, `local` (a server of yours at `base_url`), `command` or `espeak-ng`; empty: the first of
    them that is set up."""
    model: str = ""
    """The model; empty: the provider's usual one."""
    voice: str = ""
    """The voice, by the provider's name for it; empty: its usual one."""
    speed: Annotated[float, Meta(ge=0.25, le=4.0)] = 1.0
    """How fast it speaks: 1 is as usual."""
    base_url: str = ""
    """Where a server is that takes `POST /audio/speech`, such as `http://127.0.0.1:8880/v1`."""
    api_key: str = ""
    """The key for it; empty: the variable or the stored key of the provider."""
    command: tuple[str, ...] | str = ()
    """A program of yours and its arguments, which reads the text and writes sound to `{file}`, or prints it; `{voice}`,
    `{speed}` and `{language}` are filled in."""
    max_chars: Annotated[int, Meta(ge=50, le=4_000)] = 1_500
    """Characters of one answer that are spoken; the text is whole all the same."""
    timeout: Annotated[float, Meta(gt=0, le=3600)] = 120.0
    """Seconds that speaking one answer may take."""


class SpeechSettings(Struct, frozen=True):
    """Both, as what hears and speaks is given them."""

    stt: SpeechToTextSettings = SpeechToTextSettings()
    tts: TextToSpeechSettings = TextToSpeechSettings()
