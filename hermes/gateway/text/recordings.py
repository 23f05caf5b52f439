"""Recordings that came into a chat: what was said in them, for the model and for the person."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.i18n.messages import localize, tr
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.speech.service import HeardWords, SpeechService

_UNHEARD = "Nothing here can hear it: say so, guess nothing, and ask for the words in writing."
_FAILED = "It could not be understood ({why}): say so, guess nothing, and ask for the words in writing."
_EMPTY = "No words were understood in it: say so, guess nothing, and ask for the words in writing."
_LONGEST_ECHO = 1_500
_SECONDS_A_MINUTE = 60


class HeardRecording(Struct, frozen=True, kw_only=True):
    """What came of a recording. `note` is for the model; `words` are empty where there are none."""

    note: str
    words: str = ""


class RecordingListener:
    """Listens to the recordings of one message, and collects what the person is told of them."""

    def __init__(
        self,
        get_speech: "Callable[[], SpeechService]",
        redact: Callable[[str], str],
        folder: Path,
        *,
        shows_paths: bool,
    ) -> None:
        """`folder` is private to Hermes: what lies there nobody else has put there. `shows_paths` says whether the
        session may open what lies there.
        """
        self._get_speech = get_speech
        self._redact = redact
        self.folder = folder
        self.shows_paths = shows_paths
        self.heard_words: list[str] = []
        """What was understood, for the person to see."""
        self.problems: list[HermesError] = []
        self.missing: HermesError | None = None
        """Why nothing can hear at all."""
        self.was_spoken = False
        """Whether the person said something instead of writing it."""
        self.spoken_words = ""
        """What they said."""

    async def hear_recording(self, path: Path, what: str) -> HeardRecording:
        """Write down what is said in a file that has arrived whole. Never raises HermesError."""
        from hermes.speech.errors import NoEngineError

        try:
            heard = await _read_kept(path)
            if heard is None:
                heard = await self._get_speech().transcribe_file(path)
                await _keep(path, heard)
        except NoEngineError as error:
            self.missing = error
            return HeardRecording(note=_UNHEARD)
        except HermesError as error:
            self.problems.append(error)
            why = to_one_line(strip_control_characters(self._redact(error.message)), 200)
            return HeardRecording(note=_FAILED.format(why=why.rstrip(".")))
        words = self._redact(strip_control_characters(heard.text)).strip()
        if not words:
            self.heard_words.append("")
            return HeardRecording(note=_EMPTY)
        self.heard_words.append(words)
        # A space in front makes it no command, as it does where people write.
        return HeardRecording(words=f" {words}" if words.startswith("/") else words, note=_describe(heard, what))

    def format_echo(self) -> str:
        """Return the quiet line that shows what was understood; empty where nothing was."""
        lines = []
        for words in self.heard_words:
            if not words:
                lines.append(tr("(No words were understood in the recording.)"))
                continue
            flat = " ".join(words.split())
            shown = flat if len(flat) <= _LONGEST_ECHO else f"{flat[: _LONGEST_ECHO - 1]}…"
            lines.append(tr("🎤 “{words}”", words=shown))
        return "\n".join(lines)


def _describe(heard: "HeardWords", what: str) -> str:
    """Return what the model is told of words that were heard."""
    about = [f"{what}, {_format_length(heard.seconds)}" if heard.seconds else what]
    about += [f"language {heard.language}"] if heard.language else []
    said = to_one_line(strip_control_characters(heard.engine), 60)
    return f"Spoken ({', '.join(about)}), and written down by {said}: a word may be misheard."


def _format_length(seconds: float) -> str:
    whole = max(1, round(seconds))
    return f"{whole // _SECONDS_A_MINUTE}:{whole % _SECONDS_A_MINUTE:02d}"


def _kept_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.heard")


async def _read_kept(path: Path) -> "HeardWords | None":
    """Return what was heard before a restart, so that it is not paid for twice."""
    from hermes.speech.service import HeardWords

    try:
        data = await asyncio.to_thread(_kept_path(path).read_bytes)
        return msgspec.json.decode(data, type=HeardWords)
    except (OSError, msgspec.DecodeError):
        return None


async def _keep(path: Path, heard: "HeardWords") -> None:
    from hermes.util.atomic_write import write_atomic

    try:
        await asyncio.to_thread(write_atomic, _kept_path(path), to_json(heard), mode=0o600)
    except OSError:
        return  # it is heard again after a restart


def explain_unheard(missing: HermesError, *, can_administer: bool) -> str:
    """Return what the person is told, once a chat, where nothing can hear."""
    if can_administer:
        return tr("(I cannot hear recordings here. {why} Until then, please write.)", why=localize(str(missing)))
    return tr("(I cannot hear recordings here. Please write what you said.)")


def explain_failure(problem: HermesError, *, can_administer: bool) -> str:
    """Return what the person is told of a recording that was not understood."""
    if can_administer:
        return tr("(I could not understand the recording: {why})", why=localize(str(problem)))
    return tr("(I could not understand the recording. Please write what you said.)")
