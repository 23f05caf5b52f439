"""Writes down what the loop emits, then shows it. The order on disk is the order of the events."""

import asyncio
from collections.abc import Callable, Sequence

from hermes.core.errors import StoreError
from hermes.core.events import Event, MessageAppended, RequestStarted, TurnEnded, TurnResumed, TurnStarted
from hermes.core.parts import ToolResultPart
from hermes.core.protocols import Intent
from hermes.core.scrub import plain, scrubbed
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.safety.secrets.redaction import RedactingStream
from hermes.safety.secrets.redactor import Redactor
from hermes.store.store import Store
from hermes.store.transcript import Entry
from hermes.store.turns import Owner
from hermes.util.text import one_line

TITLE_LIMIT = 60
"""Characters of a session's title, which is its first message until it is given another."""

Subscriber = Callable[[Event], None]


class Recorder:
    """The `emit` and the `EffectJournal` of one session's turns."""

    def __init__(
        self, store: Store, *, session_id: str, epoch: int, untitled: bool, redactor: Redactor | None = None
    ) -> None:
        self._store = store
        self._redact = plain if redactor is None else redactor.redact
        self._said = None if redactor is None else RedactingStream(redactor)
        self._saying: type[TextDelta | ReasoningDelta] = TextDelta
        self._session_id = session_id
        self._turn_id = ""
        self._fence = 0
        self._starting: TurnStarted | None = None
        self._taken: tuple[str, ...] = ()
        self._untitled = untitled
        self._sealed = False
        self._unwritten: list[asyncio.Future[list[int]] | asyncio.Future[None]] = []
        self.epoch = epoch
        self.subscribers: list[Subscriber] = []

    async def emit(self, event: Event) -> None:
        """Store what the event stands for and publish it. Raises StoreError when it cannot be stored.

        Of a text that comes in pieces, what may be the beginning of a secret is held back until more of it is there.
        """
        if self._sealed or self._held_back(event):
            return
        event = scrubbed(event, self._redact)
        match event:
            case MessageAppended() if self._starting is not None:
                await self._start(self._starting, event)
            case MessageAppended():
                self._unwritten.append(self._store.put(self._entry(event)))
            case RequestStarted():
                await self.flush()
            case TurnStarted():
                # Shown when it is on disk: together with the message that it begins with.
                self._starting = event
                return
            case TurnResumed():
                self._turn_id = event.turn_id
            case TurnEnded():
                await self.flush()
                self._store.check_place()
                await self._store.end_turn(
                    event.turn_id,
                    event.reason,
                    usage=event.usage,
                    calls=event.calls,
                    error=event.error,
                    fence=self._fence,
                )
                self._turn_id, self._fence = "", 0
        self._show(event)

    def _held_back(self, event: Event) -> bool:
        """Whether a piece of text was taken; what of it holds no secret for sure is shown."""
        if self._said is None:
            return False
        if type(event) is not self._saying and (rest := self._said.close()):
            self._show(self._saying(rest))
        if not isinstance(event, TextDelta | ReasoningDelta):
            return False
        self._saying = type(event)
        if ready := self._said.feed(event.text):
            self._show(self._saying(ready))
        return True

    def seal(self) -> None:
        """Write nothing more of the running turn: it stays open, as if this process had died, and whoever opens the
        session next goes on with it."""
        self._sealed = True

    def own(self, turn_id: str, fence: int) -> None:
        """Write as the turn's owner of this number; those before can write no more."""
        self._turn_id, self._fence = turn_id, fence

    @property
    def owner(self) -> Owner | None:
        """The turn that runs, and the number by which it is ours; None between turns."""
        return Owner(self._turn_id, self._fence) if self._fence else None

    @property
    def turn_id(self) -> str:
        """The turn that runs; empty between turns."""
        return self._turn_id

    def take(self, letters: Sequence[str]) -> None:
        """Let these rows of the inbox become part of the transcript with the next message."""
        self._taken += tuple(letters)

    def enqueue(self, letter_id: str, body: bytes, *, first: bool = False) -> "asyncio.Future[None]":
        """Store something that waits to be said; `first`: before all that waits."""
        return self._store.enqueue(self._session_id, letter_id, body, first=first)

    def stopping(self) -> None:
        """Note that the running turn is to stop: if this process dies now, nobody goes on with it."""
        if self.owner is not None:
            self._unwritten.append(self._store.mark_stopping(self.owner))

    def publish(self, event: Event) -> None:
        """Show an event that needs not be stored to every subscriber, in the order they came."""
        self._show(scrubbed(event, self._redact))

    def _show(self, event: Event) -> None:
        for subscriber in tuple(self.subscribers):
            subscriber(event)

    async def flush(self) -> None:
        """Wait until everything appended so far is on disk."""
        while self._unwritten:
            # Shielded: a turn that is stopped while it waits here must not make a write look undone.
            first = self._unwritten[0]
            try:
                await asyncio.shield(first)
            finally:
                # A wait that was cancelled has not heard yet how the write ended: the next flush does.
                if first.done():
                    self._unwritten.remove(first)

    async def intend(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch; what was appended before is on disk too when this returns."""
        if self._sealed:
            raise StoreError("The session is being closed.")
        await self._store.intend(self._turn_id, intents, fence=self._fence)
        await self.flush()

    async def done(self, result: ToolResultPart) -> None:
        """Record what a call gave back."""
        if self._sealed:
            return
        await self._store.done(self._turn_id, result, fence=self._fence)

    async def _start(self, started: TurnStarted, event: MessageAppended) -> None:
        """Write the turn and its first message, all or nothing, and show that it has begun."""
        self._starting, self._turn_id, self._fence = None, started.turn_id, 1
        title = one_line(started.text, TITLE_LIMIT) if self._untitled and started.text.strip() else ""
        self._untitled = self._untitled and not title
        await self._store.start_turn(self._entry(event), title=title)
        self._show(started)

    def _entry(self, event: MessageAppended) -> Entry:
        taken, self._taken = self._taken, ()
        return Entry(
            session_id=self._session_id,
            epoch=self.epoch,
            turn_id=self._turn_id,
            messages=(event.message,),
            usage=event.usage,
            fence=self._fence,
            taken=taken,
        )
