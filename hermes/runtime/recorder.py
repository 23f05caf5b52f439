"""Writes down what the loop emits, then shows it. The order on disk is the order of the events."""

import asyncio
from collections.abc import Callable, Sequence

from hermes.core.events import Event, MessageAppended, RequestStarted, TurnEnded, TurnStarted
from hermes.core.parts import ToolResultPart
from hermes.core.protocols import Intent
from hermes.store.store import Store
from hermes.util.text import one_line

TITLE_LIMIT = 60
"""Characters of a session's title, which is its first message until it is given another."""

Subscriber = Callable[[Event], None]


class Recorder:
    """The `emit` and the `EffectJournal` of one session's turns."""

    def __init__(self, store: Store, *, session_id: str, epoch: int, untitled: bool) -> None:
        self._store = store
        self._session_id = session_id
        self._turn_id = ""
        self._untitled = untitled
        self._unwritten: list[asyncio.Future[list[int]]] = []
        self.epoch = epoch
        self.subscribers: list[Subscriber] = []

    async def emit(self, event: Event) -> None:
        """Store what the event stands for and publish it. Raises StoreError when it cannot be stored."""
        match event:
            case MessageAppended():
                self._unwritten.append(
                    self._store.append(self._session_id, self.epoch, self._turn_id, (event.message,), usage=event.usage)
                )
            case RequestStarted():
                await self.flush()
            case TurnStarted():
                self._turn_id = event.turn_id
                begun = self._store.begin_turn(self._session_id, event.turn_id, text=event.text)
                if self._untitled and event.text.strip():
                    self._untitled = False
                    title = one_line(event.text, TITLE_LIMIT)
                    await asyncio.gather(begun, self._store.rename_session(self._session_id, title))
                else:
                    await begun
            case TurnEnded():
                await self.flush()
                self._store.check_place()
                await self._store.end_turn(
                    event.turn_id, event.reason, usage=event.usage, calls=event.calls, error=event.error
                )
        self.publish(event)

    def publish(self, event: Event) -> None:
        """Show an event to every subscriber, in the order they came."""
        for subscriber in tuple(self.subscribers):
            subscriber(event)

    async def flush(self) -> None:
        """Wait until everything appended so far is on disk."""
        while self._unwritten:
            # Shielded: a turn that is stopped while it waits here must not make a write look undone.
            try:
                await asyncio.shield(self._unwritten[0])
            finally:
                del self._unwritten[0]

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch; what was appended before is on disk too when this returns."""
        await self._store.intend(self._turn_id, intents)
        await self.flush()

    async def done(self, result: ToolResultPart) -> None:
        """Record what a call gave back."""
        await self._store.done(self._turn_id, result)
