"""What tests of speech stand on: a service in a folder, with real programs and a fake server."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.config.speech import SpeechSettings, SpeechToTextSettings, TextToSpeechSettings
from hermes.execution.supervisor import Supervisors
from hermes.providers.http import create_http_transport
from hermes.speech.service import SpeechService


class GivenKeys:
    """The keys of a test."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = keys

    def has_key(self, provider: str, variables: Sequence[str]) -> bool:
        del variables
        return provider in self._keys

    async def read_key(self, provider: str, variables: Sequence[str]) -> str:
        del variables
        return self._keys.get(provider, "")


@asynccontextmanager
async def open_service(
    folder: Path,
    *,
    stt: Mapping[str, object] | None = None,
    tts: Mapping[str, object] | None = None,
    keys: Mapping[str, str] | None = None,
    path: str | None = None,
) -> AsyncIterator[SpeechService]:
    """Open a service; `path` takes the place of PATH."""
    environ = {**os.environ, "SOME_API_KEY": "kept out", **({"PATH": path} if path is not None else {})}
    supervisors = Supervisors(environ)
    service = SpeechService(
        SpeechSettings(
            stt=SpeechToTextSettings(**(stt or {})),  # type: ignore[arg-type]
            tts=TextToSpeechSettings(**(tts or {})),  # type: ignore[arg-type]
        ),
        environ,
        GivenKeys(keys or {}),
        get_supervisors=lambda: supervisors,
        open_transport=lambda: create_http_transport({}),
        scratch=folder / "scratch",
    )
    try:
        yield service
    finally:
        await service.close()
        await supervisors.close()
        assert not list((folder / "scratch").glob("*"))
