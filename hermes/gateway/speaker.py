"""Says in a chat what a turn says: as it is written, where the platform lets messages be changed, and owed in the end.

What is shown while it is written is a row of its own from the first piece on (`DeliveryState.OPEN`), so that a process
that comes after this one goes on with the same message instead of a second one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence

from msgspec import Struct

from hermes.app.tool_words import tool_line
from hermes.config.gateway import Streaming
from hermes.core.chats import DeliveryState, Outgoing, Owed, Place
from hermes.core.errors import StoreError
from hermes.core.events import Event, ToolStarted, TurnEnded
from hermes.core.stream import TextDelta
from hermes.gateway.accounts import Account
from hermes.gateway.outbox import Outbox
from hermes.gateway.platform import PlatformError
from hermes.gateway.wording import Answer, answer_of, pieces
from hermes.app.wiring import App

_LOG = logging.getLogger(__name__)
CURSOR = " ▉"
FIRST_CHARACTERS = 24
"""How much text there is before any of it is shown (X-57)."""
PROGRESS_AFTER = 1.5
"""Seconds that a tool works before it is said."""
_LIVE_SECONDS = 15.0
"""How long the platform may take with a piece of what is being written."""


class _Segment(Struct):
    """A message that is being written."""

    key: str
    text: str = ""
    progress: str = ""
    shown: str = ""
    number: int = 0
    message_id: str = ""


class Hearer(Struct, frozen=True):
    """Where a turn is heard: the account and the place, and to which message it is an answer."""

    account: Account
    place: Place
    reply_to: str = ""


class Speaker:
    """One turn's voice in one chat. `hear` takes its events; `finish` owes what is left to say, once it has ended."""

    def __init__(self, app: App, outbox: Outbox, hearer: Hearer, *, session_id: str, turn_id: str) -> None:
        self._store = app.premises.store
        self._outbox = outbox
        self._hearer = hearer
        self._account, self._place = hearer.account, hearer.place
        self._session_id, self._turn_id = session_id, turn_id
        self._count = 0
        self._segment = self._fresh()
        self._over: list[_Segment] = []
        """Segments that are written to their end and not owed yet."""
        self._dirty = asyncio.Event()
        self._live = self._account.can.edit and self._account.plan.settings.streaming is Streaming.AUTO
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin: what was shown already by a process that died is gone on with."""
        if self._live:
            self._tasks.append(asyncio.create_task(self._show(), name=f"speak {self._turn_id}"))
        if self._account.can.typing:
            self._tasks.append(asyncio.create_task(self._typing(), name=f"type {self._turn_id}"))

    def hear(self, event: Event) -> None:
        """Take what the turn says and does."""
        match event:
            case TextDelta():
                self._segment.text += event.text
                self._segment.progress = ""
                self._dirty.set()
            case ToolStarted() if self._live:
                if self._segment.text.strip():
                    self._next_segment()
                if self._account.plan.settings.progress:
                    self._segment.progress = tool_line(event)
                    self._dirty.set()
            case _:
                pass

    def pause(self) -> None:
        """Something else is about to be said in this place, a question for one: what was written so far stands."""
        if self._live and self._segment.text.strip():
            self._next_segment()

    async def finish(self, ended: TurnEnded) -> None:
        """Owe what is left to say; the turn counts as answered once that is on disk."""
        await self._stop()
        answer = answer_of(ended)
        await self.owe_answer(answer)

    async def owe_answer(self, answer: Answer) -> None:
        """Owe an answer in the place of what is shown so far."""
        owed = [self._owed(one, one.text) for one in self._over]
        texts = pieces(answer.text, self._account.can)
        for number, text in enumerate(texts):
            if number:
                self._segment = self._fresh()
            owed.append(self._owed(self._segment, text, reply=not number))
        owed += [
            Owed(
                key=f"{self._turn_id}:file:{number}",
                message=Outgoing(
                    place=self._place, file=file.path, kind=file.kind, key=f"{self._turn_id}:file:{number}"
                ),
                session_id=self._session_id,
                turn_id=self._turn_id,
            )
            for number, file in enumerate(answer.files)
        ]
        await self._outbox.owe(owed, answered=self._turn_id, outcome=answer.outcome)

    async def close(self) -> None:
        """Say nothing more; what is shown stays as it is, and is gone on with when the turn is."""
        await self._stop()

    def recall(self, number: int, key: str, message_id: str) -> None:
        """Go on with a message that a process before this one began."""
        self._segment = _Segment(key, number=number, message_id=message_id, shown="…")
        self._count = int(key.rpartition(":")[2]) + 1

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()

    def _fresh(self) -> _Segment:
        self._count += 1
        return _Segment(f"{self._turn_id}:{self._count - 1}")

    def _next_segment(self) -> None:
        self._over.append(self._segment)
        self._segment = self._fresh()
        self._dirty.set()

    def _owed(
        self, segment: _Segment, text: str, *, reply: bool = False, state: DeliveryState = DeliveryState.PENDING
    ) -> Owed:
        message = Outgoing(
            place=self._place, text=text, key=segment.key, reply_to=self._hearer.reply_to if reply else ""
        )
        return Owed(
            key=segment.key, message=message, session_id=self._session_id, turn_id=self._turn_id, state=state
        )

    async def _show(self) -> None:
        """Show what there is, at most every so often. What cannot be shown now is said in the end all the same."""
        with contextlib.suppress(PlatformError, StoreError, TimeoutError, OSError):
            while True:
                await self._dirty.wait()
                if self._segment.progress and not self._segment.shown:
                    await asyncio.sleep(PROGRESS_AFTER)
                self._dirty.clear()
                await self._show_now()
                await asyncio.sleep(self._account.can.edit_seconds)

    async def _show_now(self) -> None:
        while self._over and not self._outbox.busy(self._place.lane):
            over = self._over[0]
            await self._outbox.owe([self._owed(over, over.text)])
            self._over.remove(over)
        segment = self._segment
        parts = pieces(segment.text, self._account.can)
        if len(parts) > 1:
            rest = self._fresh()
            segment.text, rest.text = parts[0], segment.text[len(parts[0]) :].lstrip()
            self._over.append(segment)
            self._segment = rest
            self._dirty.set()
            return
        text = _shown(segment)
        if text and text != segment.shown and not self._over and not self._outbox.busy(self._place.lane):
            await self._put(segment, text)

    async def _put(self, segment: _Segment, text: str) -> None:
        message = Outgoing(place=self._place, text=text, key=segment.key, reply_to=self._hearer.reply_to, silent=True)
        async with asyncio.timeout(_LIVE_SECONDS):
            if segment.message_id:
                await self._account.platform.edit(message, segment.message_id)
            else:
                if not segment.number:
                    owed = self._owed(segment, text, reply=True, state=DeliveryState.OPEN)
                    (segment.number,) = await self._store.owe([owed])
                segment.message_id = await self._account.platform.send(message)
                await self._store.shown(segment.number, segment.message_id)
        segment.shown = text

    async def _typing(self) -> None:
        with contextlib.suppress(PlatformError, TimeoutError, OSError):
            while True:
                async with asyncio.timeout(_LIVE_SECONDS):
                    await self._account.platform.typing(self._place)
                await asyncio.sleep(self._account.can.typing)


def _shown(segment: _Segment) -> str:
    """What a message that is being written looks like now; empty while there is too little of it."""
    if segment.progress:
        return segment.progress
    if len(segment.text) < FIRST_CHARACTERS and not segment.message_id:
        return ""
    return segment.text.rstrip() + CURSOR if segment.text.strip() else ""


def files_of(answer: Answer) -> Sequence[str]:
    """The paths of an answer's files."""
    return [one.path for one in answer.files]
