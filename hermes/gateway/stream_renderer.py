"""Says in a chat what a turn says: as it is written, where the platform lets messages be changed, and owed in the end.

What is shown while it is written is a row of its own from the first piece on (`DeliveryState.OPEN`), so that a process
that comes after this one goes on with the same message instead of a second one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from msgspec import Struct, field, structs

from hermes.commands.views.tool_descriptions import told
from hermes.config.gateway import Streaming
from hermes.core.chats import DeliveryState, Outgoing, Owed, Place
from hermes.core.errors import StoreError
from hermes.core.events import Event, ToolStarted, TurnEnded
from hermes.core.stream import TextDelta
from hermes.gateway.accounts import Account
from hermes.gateway.answer_text import answer_of, let_out, pieces
from hermes.gateway.outbox import Outbox
from hermes.gateway.platform import PlatformError, SendError
from hermes.gateway.text.links import harmless
from hermes.gateway.text.media import Sendable
from hermes.sessions.app import App
from hermes.sessions.egress_filter import Leaving

_LOG = logging.getLogger(__name__)
CURSOR = " ▉"
FIRST_CHARACTERS = 24
"""How much text there is before any of it is shown (X-57)."""
PROGRESS_AFTER = 1.5
"""Seconds that a tool works before it is said."""
PROGRESS_WIDTH = 80
_LIVE_SECONDS = 15.0
"""How long the platform may take with a piece of what is being written."""


class _Message(Struct):
    """A message that is being written. `number` is that of its row, `shown` what stands in the chat."""

    key: str
    number: int = 0
    message_id: str = ""
    shown: str = ""


class _Segment(Struct):
    """What is said between two calls: a text, and the messages in which it is shown."""

    text: str = ""
    progress: str = ""
    """What a tool is doing, while there is no text yet."""
    messages: list[_Message] = field(default_factory=list)


class Hearer(Struct, frozen=True):
    """Where a turn is heard: the account and the place, and to which message it is an answer."""

    account: Account
    place: Place
    reply_to: str
    leaving: Callable[[], Leaving]


class Speaker:
    """One turn's voice in one chat. `hear` takes its events; `finish` owes what is left to say, once it has ended."""

    def __init__(self, app: App, outbox: Outbox, hearer: Hearer, session_id: str, turn_id: str) -> None:
        self._app = app
        self._store = app.premises.store.chats
        self._outbox = outbox
        self._hearer = hearer
        self._account, self._place = hearer.account, hearer.place
        self._session_id, self.turn_id = session_id, turn_id
        self._count = 0
        self._segment = _Segment()
        self._over: list[_Segment] = []
        """Segments that are written to their end and not owed yet."""
        self._before = ""
        """What stands in earlier segments of the message that the model writes now."""
        self._dirty = asyncio.Event()
        self._showing = asyncio.Lock()
        self._live = self._account.can.edit and self._account.plan.settings.streaming is Streaming.AUTO
        self._tasks: list[asyncio.Task[None]] = []

    def _safe(self, text: str) -> str:
        """A text that is shown while it is written: without what a platform would fetch unasked."""
        out = self._leaving()
        return harmless(text, out.allowed) if out.tainted else text

    def _leaving(self) -> Leaving:
        return self._hearer.leaving()

    async def start(self) -> None:
        """Begin: what was shown already by a process that died is gone on with."""
        if self._live:
            known = await self._store.open_delivery(self.turn_id)
            if known is not None:
                self._count = int(known.key.rpartition(":")[2]) + 1
                self._segment.messages.append(_Message(known.key, known.id, known.message_id))
                self._live = bool(known.message_id)  # else nobody knows what is shown of it: the outbox finds out
        if self._live:
            self._tasks.append(asyncio.create_task(self._show(), name=f"speak {self.turn_id}"))
        await self._react("👀")
        if self._account.can.typing:
            self._tasks.append(asyncio.create_task(self._typing(), name=f"type {self.turn_id}"))

    def hear(self, event: Event) -> None:
        """Take what the turn says and does."""
        match event:
            case TextDelta():
                self._segment.text += event.text
                self._dirty.set()
            case ToolStarted() if self._live:
                self.pause()
                self._before = ""
                if self._account.plan.settings.progress:
                    self._segment.progress = f"⚙ {told(event, PROGRESS_WIDTH)}"
                    self._dirty.set()
            case ToolStarted():
                self._segment.text = ""  # what is said on the way is not an answer
            case _:
                pass

    def pause(self) -> None:
        """Something else is about to be said in this place, a question for one: what was written so far stands."""
        if self._live and self._segment.text.strip():
            self._over.append(self._segment)
            self._before += self._segment.text
            self._segment = _Segment()
            self._dirty.set()

    async def finish(self, ended: TurnEnded) -> None:
        """Owe what is left to say; the turn counts as answered once that is on disk."""
        await self.close()
        answer = let_out(answer_of(ended), self._leaving(), self._account.can)
        owed = [one for over in self._over for one in self._owed(over, over.text)]
        last = self._owed(self._segment, answer.text.lstrip().removeprefix(self._before.strip()).lstrip())
        if last and not owed and self._hearer.reply_to:
            first = structs.replace(last[0].message, reply_to=self._hearer.reply_to)
            last[0] = structs.replace(last[0], message=first)
        owed += [*last, *(self._owed_file(number, file) for number, file in enumerate(answer.files))]
        await self._outbox.owe(owed, answered=self.turn_id, outcome=answer.outcome)
        await self._react("✅" if ended.reason.completed else "❌")

    async def close(self) -> None:
        """Say nothing more; what is shown stays as it is, and is gone on with when the turn is."""
        async with self._showing:  # what is on its way is waited for: its id tells it from a second message
            for task in self._tasks:
                task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    def _owed(self, segment: _Segment, text: str) -> list[Owed]:
        """A segment's text as it is owed, each piece in the place of the message that shows it now."""
        return [
            self._owing(self._message(segment, number), piece, DeliveryState.PENDING)
            for number, piece in enumerate(pieces(self._safe(text), self._account.can))
        ]

    def _owed_file(self, number: int, file: Sendable) -> Owed:
        key = f"{self.turn_id}:file:{number}"
        message = Outgoing(place=self._place, file=file.path, kind=file.kind, key=key)
        return Owed(key=key, message=message, session_id=self._session_id, turn_id=self.turn_id)

    def _owing(self, message: _Message, text: str, state: DeliveryState) -> Owed:
        out = Outgoing(place=self._place, text=text, key=message.key)
        return Owed(key=message.key, message=out, session_id=self._session_id, turn_id=self.turn_id, state=state)

    def _message(self, segment: _Segment, number: int) -> _Message:
        """The segment's message of this number, a fresh one where it has none yet."""
        while len(segment.messages) <= number:
            segment.messages.append(_Message(f"{self.turn_id}:{self._count}"))
            self._count += 1
        return segment.messages[number]

    async def _show(self) -> None:
        """Show what there is, at most every so often. What cannot be shown now is said in the end all the same."""
        with contextlib.suppress(PlatformError, StoreError, TimeoutError, OSError):
            while True:
                await self._dirty.wait()
                if self._segment.progress and not self._segment.text:
                    await asyncio.sleep(PROGRESS_AFTER)
                self._dirty.clear()
                if not self._outbox.busy(self._place.lane):
                    async with self._showing:
                        await self._show_now()
                await asyncio.sleep(self._account.can.edit_seconds)

    async def _show_now(self) -> None:
        while self._over:
            await self._outbox.owe(self._owed(self._over[0], self._over[0].text))
            del self._over[0]
        segment = self._segment
        texts = pieces(self._safe(segment.text), self._account.can)
        if not texts and segment.progress:
            texts = [segment.progress]
        elif texts and len(segment.text) < FIRST_CHARACTERS and not segment.messages:
            return
        for number, text in enumerate(texts):
            message = self._message(segment, number)
            unfinished = number == len(texts) - 1 and bool(segment.text)
            shown = text + CURSOR if unfinished else text
            if self._account.can.measure(shown) > self._account.can.limit:
                shown = text
            if shown != message.shown:
                await self._put(message, shown)

    async def _put(self, message: _Message, text: str) -> None:
        owed = self._owing(message, text, DeliveryState.OPEN)
        async with asyncio.timeout(_LIVE_SECONDS):
            if message.message_id:
                await self._account.platform.edit(owed.message, message.message_id)
            else:
                if not message.number:
                    (message.number,) = await self._store.owe([owed])
                try:
                    message.message_id = await self._account.platform.send(owed.message)
                except SendError as error:
                    if not error.uncertain:
                        await self._store.unsent(message.number)
                    raise
                await self._store.shown(message.number, message.message_id)
        message.shown = text

    async def _react(self, emoji: str) -> None:
        """Mark the message that is answered, where that is wanted."""
        account = self._account
        if account.plan.settings.reactions and account.can.reactions and self._hearer.reply_to:
            with contextlib.suppress(PlatformError, TimeoutError, OSError):
                async with asyncio.timeout(_LIVE_SECONDS):
                    await account.platform.react(self._place, self._hearer.reply_to, emoji)

    async def _typing(self) -> None:
        with contextlib.suppress(PlatformError, TimeoutError, OSError):
            while True:
                async with asyncio.timeout(_LIVE_SECONDS):
                    await self._account.platform.typing(self._place)
                await asyncio.sleep(self._account.can.typing)
