"""The ears and the voice of a process, with its keys, its transport and its supervisors."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.config.home import HermesHome
from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.core.secret import KeyHolder
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from hermes.execution.supervisor import Supervisors
    from hermes.llm.key_pool import KeySlot
    from hermes.sessions.model.credentials import Credentials
    from hermes.speech.service import SpeechService


class SpeechParts(KeyHolder, frozen=True, kw_only=True):
    """What a process gives its ears and voice."""

    settings: Settings
    environ: Mapping[str, str]
    home: HermesHome
    get_credentials: "Callable[[], Credentials]"
    get_supervisors: "Callable[[], Supervisors]"
    learn: Callable[[str, str], None]
    """Told the name and the value of each key that is read."""


class StoredSpeechKeys:
    """The keys of providers: variables first, then the stored ones of `hermes auth`."""

    def __init__(self, parts: SpeechParts) -> None:
        self._parts = parts

    def has_key(self, provider: str, variables: Sequence[str]) -> bool:
        """Return whether there is one; programs and keyrings are not asked."""
        if self._find_variable(variables):
            return True
        try:
            return bool(self._list_slots(provider))
        except HermesError:  # a broken entry is reported by whoever reads it
            return False

    async def read_key(self, provider: str, variables: Sequence[str]) -> str:
        """Return a provider's key; empty where there is none. Raises ConfigError for one that cannot be read."""
        key = self._find_variable(variables)
        slots = () if key else self._list_slots(provider)
        if slots:
            key = await slots[0].source.read_key()
        if key:
            self._parts.learn(f"speech.{provider}", key)
        return key

    def _find_variable(self, names: Sequence[str]) -> str:
        return next((found for name in names if (found := self._parts.environ.get(name, "").strip())), "")

    def _list_slots(self, provider: str) -> "Sequence[KeySlot]":
        from hermes.providers.records import load_record

        return self._parts.get_credentials().list_slots(provider, load_record(provider), own_address=False)


class EngineReport(Struct, frozen=True):
    """Who hears, or who speaks, in a sentence; where nobody does `hint` is what changes that."""

    said: str
    hint: str = ""


def describe_speech(
    settings: Settings, environ: Mapping[str, str], home: HermesHome
) -> tuple[EngineReport, EngineReport, bool]:
    """Return who would hear, who would speak, and whether ffmpeg is there; nothing is asked or started."""
    from hermes.execution.supervisor import Supervisors
    from hermes.sessions.model.credentials import Credentials
    from hermes.speech.errors import NoEngineError
    from hermes.util.clock import SystemClock

    parts = SpeechParts(
        settings=settings,
        environ=environ,
        home=home,
        get_credentials=lambda: Credentials(home, environ, settings, SystemClock()),
        get_supervisors=lambda: Supervisors(environ),
        learn=lambda _name, _value: None,
    )
    service = open_speech_service(parts)
    try:
        hears = EngineReport(N_("Voice messages are heard by {name}.", name=service.find_transcriber().title))
    except NoEngineError as error:
        hears = EngineReport(error.message, error.hint)
    try:
        speaks = EngineReport(N_("Answers are spoken by {name}.", name=service.find_speaker().title))
    except NoEngineError as error:
        speaks = EngineReport(error.message, error.hint)
    return hears, speaks, service.can_convert


def open_speech_service(parts: SpeechParts) -> "SpeechService":
    """Return what hears and speaks; whoever opens it closes it."""
    from hermes.config.speech import SpeechSettings
    from hermes.providers.http import create_http_transport
    from hermes.speech.service import SpeechService

    settings = parts.settings
    return SpeechService(
        SpeechSettings(stt=settings.stt, tts=settings.tts),
        parts.environ,
        StoredSpeechKeys(parts),
        get_supervisors=parts.get_supervisors,
        open_transport=lambda: create_http_transport(parts.environ, ca_file=settings.model.ca_bundle),
        scratch=parts.home.root / "media" / "scratch",
    )
