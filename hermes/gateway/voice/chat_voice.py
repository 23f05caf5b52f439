"""The voice of one chat: whether its answers are spoken, and the speaking, which never holds up the text."""

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.config.speech import VoiceMode
from hermes.core.chats import MediaKind, OutboxItem, Outgoing, Place
from hermes.core.errors import HermesError
from hermes.core.events import TurnEnded
from hermes.core.ids import new_queued_message_id
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.outbox import Outbox
from hermes.gateway.stream_renderer import build_answer, filter_answer
from hermes.gateway.text.media import SendableFile
from hermes.gateway.text.recordings import RecordingListener, explain_failure, explain_unheard
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressFilter
from hermes.util.cancellation import cancel_tasks

if TYPE_CHECKING:
    from hermes.speech.service import SpokenFile

_KEPT_SECONDS = 48 * 3600.0
"""How long a spoken answer is kept: longer than the outbox tries to send it."""
_MAX_WAITING = 4
"""Answers of one chat that wait to be spoken; beyond that only the text is sent."""

_MAX_KNOWN = 10_000
_NAME = re.compile(r"\W+", re.ASCII)


class SpokenChat(Struct, frozen=True, kw_only=True):
    """The chat that is heard and spoken to."""

    app: App
    account: PlatformAccount
    place: Place
    outbox: Outbox
    report: Callable[[str], None]
    """Reports a line to the operator."""
    review_words: Callable[[str], Awaitable[str]]
    """Shows hooks what was said; returns why it is not to be handled, empty where it is."""
    modes: dict[str, str]
    """What chats have chosen, by their lanes, as far as that was looked up; empty: nothing."""
    is_owner: bool
    can_administer: bool


class ChatVoice:
    """Hears what is spoken in a chat, and speaks its answers where that was asked for."""

    def __init__(self, chat: SpokenChat) -> None:
        self._chat = chat
        self._lane = chat.place.lane
        self._last_was_spoken = False
        """Whether the newest message was spoken."""
        self._turn_was_spoken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._one_at_a_time = asyncio.Lock()

    # Hearing.

    def open_listener(self) -> RecordingListener:
        """Return what listens to the recordings of one message."""
        services = self._chat.app.services
        folder = services.home.root / "media" / self._chat.account.name
        return RecordingListener(services.speech, self._chat.app.redact_text, folder, shows_paths=self._chat.is_owner)

    async def report_heard(self, listener: RecordingListener) -> None:
        """Tell the person what was understood, and what was not; note how they speak to the chat."""
        self._last_was_spoken = listener.was_spoken
        self._turn_was_spoken = self._turn_was_spoken or listener.was_spoken  # it may join the turn that runs
        notes = []
        if (
            self._chat.app.services.settings.stt.echo and self._chat.account.can.typing
        ):  # elsewhere each line would be a mail of its own
            notes.append(listener.format_echo())
        if listener.missing is not None and await self._mark_told():
            notes.append(explain_unheard(listener.missing, can_administer=self._chat.can_administer))
        for problem in listener.problems:
            self._chat.report(f"{self._lane}: {problem}")
            notes.append(explain_failure(problem, can_administer=self._chat.can_administer))
        await self._send_notes([one for one in notes if one])

    async def is_refused(self, listener: RecordingListener) -> bool:
        """Return whether a hook refuses what the person said, and tell them."""
        why = await self._chat.review_words(listener.spoken_words) if listener.spoken_words else ""
        if why:
            said = N_("your message was not handled: {reason}", reason=why)
            await self._send_notes([tr("(I cannot answer now: {why})", why=localize(said))])
        return bool(why)

    async def _send_notes(self, notes: Sequence[str]) -> None:
        keyed = {f"note:{new_queued_message_id()}": one for one in notes}
        items = [
            OutboxItem(key=key, message=Outgoing(place=self._chat.place, text=text, key=key, silent=True))
            for key, text in keyed.items()
        ]
        if items:
            await self._chat.outbox.enqueue(items)

    async def _mark_told(self) -> bool:
        return await self._chat.app.services.store.chat_voices.mark_told(self._lane)

    # Speaking.

    async def get_mode(self) -> VoiceMode:
        """Return when answers here are spoken: as the chat has chosen, else as the settings say."""
        services, known = self._chat.app.services, self._chat.modes
        if self._lane not in known:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known[self._lane] = await services.store.chat_voices.get_mode(self._lane)
        chosen = known[self._lane]
        return VoiceMode(chosen) if chosen in list(VoiceMode) else services.settings.tts.answers

    async def set_mode(self, mode: VoiceMode) -> None:
        """Choose for this chat."""
        await self._chat.app.services.store.chat_voices.set_mode(self._lane, mode.value)
        self._chat.modes[self._lane] = mode.value

    def begin_turn(self) -> None:
        """Note that the newest message is what the turn that begins answers."""
        self._turn_was_spoken = self._last_was_spoken

    async def speak_with_text(self, ended: TurnEnded, get_egress: Callable[[], EgressFilter]) -> SendableFile | None:
        """Speak an answer that goes out in one message with its text; None where it is not spoken."""
        text = await self._choose_words(ended, get_egress)
        made = await self._speak(text, ended.turn_id) if text else None
        return None if made is None else SendableFile(made.path, MediaKind.VOICE if made.is_voice else MediaKind.AUDIO)

    async def begin_speaking(self, ended: TurnEnded, session_id: str, get_egress: Callable[[], EgressFilter]) -> None:
        """Begin to speak an answer whose text is on its way; the recording follows it."""
        text = await self._choose_words(ended, get_egress)
        if not text:
            return
        if len(self._tasks) >= _MAX_WAITING:
            self._chat.report(f"{self._lane}: too many answers wait to be spoken; this one is text only.")
            return
        task = asyncio.create_task(self._send_speech(text, ended.turn_id, session_id), name=f"voice {ended.turn_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop speaking; the texts are there."""
        await cancel_tasks(self._tasks)

    async def _choose_words(self, ended: TurnEnded, get_egress: Callable[[], EgressFilter]) -> str:
        """Return what of an answer is to be spoken; empty where nothing is."""
        if not ended.reason.is_completed or not self._chat.account.can.media:
            return ""
        mode = await self.get_mode()
        if mode is VoiceMode.NEVER or (mode is VoiceMode.AUTO and not self._turn_was_spoken):
            return ""
        answer = filter_answer(build_answer(ended), get_egress(), self._chat.account.can)
        if any(one.kind in (MediaKind.VOICE, MediaKind.AUDIO) for one in answer.files):
            return ""  # the model has spoken itself
        from hermes.speech.spoken_text import make_spoken_text

        return make_spoken_text(answer.text, self._chat.app.services.settings.tts.max_chars).text

    async def _send_speech(self, text: str, turn_id: str, session_id: str) -> None:
        async with self._one_at_a_time:
            made = await self._speak(text, turn_id)
            if made is None:
                return
            key = f"{turn_id}:voice"
            kind = MediaKind.VOICE if made.is_voice else MediaKind.AUDIO
            message = Outgoing(place=self._chat.place, file=made.path, kind=kind, key=key)
            try:
                await self._chat.outbox.enqueue([OutboxItem(key=key, message=message, session_id=session_id)])
            except HermesError as error:
                self._chat.report(f"{self._lane}: {error}")

    async def _speak(self, text: str, turn_id: str) -> "SpokenFile | None":
        from hermes.speech.errors import NoEngineError

        folder = self._chat.app.services.home.root / "media" / "spoken"
        await asyncio.to_thread(_delete_old, folder)
        try:
            return await self._chat.app.services.speech().speak_text(text, folder / _NAME.sub("_", turn_id))
        except NoEngineError:
            return None  # `/voice` says so when it is switched on
        except HermesError as error:
            self._chat.report(f"{self._lane}: {error}")
        except OSError as error:
            self._chat.report(f"{self._lane}: {error.strerror or error}")
        return None


def _delete_old(folder: Path) -> None:
    with contextlib.suppress(OSError):
        old = [one for one in folder.iterdir() if one.stat().st_mtime < time.time() - _KEPT_SECONDS]
        for one in old:
            one.unlink(missing_ok=True)
