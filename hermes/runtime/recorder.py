"""Stores what the loop emits, then shows it, redacted. The order on disk is the order of the events."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import (
    ApprovalAsked,
    Event,
    FellBack,
    MessageAppended,
    Notice,
    Queued,
    Refused,
    RequestStarted,
    Retrying,
    SubAgentChanged,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.messages import (
    ImagePart,
    Message,
    Part,
    Provenance,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from hermes.core.protocols import Intent
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.core.usage import Usage
from hermes.safety.secrets.redactor import RedactingStream, Redactor
from hermes.store.messages import TranscriptEntry
from hermes.store.store import Store
from hermes.store.turns import KeptResults, TurnOwner
from hermes.util.text import to_one_line

if TYPE_CHECKING:
    from hermes.core.code_runs import CodeRunState, StoredCodeRun

Redact = Callable[[str], str]
"""Takes secrets out of a text; a text without any comes back as it is."""

_EVENT_TEXT_FIELDS: dict[type, tuple[str, ...]] = {
    TurnStarted: ("text",),
    TurnResumed: ("text",),
    Queued: ("text",),
    FellBack: ("reason",),
    Retrying: ("reason", "message"),
    ToolStarted: ("name", "arguments", "summary"),
    ToolEnded: ("name", "preview", "tail"),
    ApprovalAsked: ("subject", "reason", "cwd", "once_covers", "session_covers", "always_covers", "no_covers"),
    Refused: ("subject", "reason", "pattern"),
    Notice: ("text",),
    SubAgentChanged: ("name", "doing"),
    TurnEnded: ("text", "error"),
    TextDelta: ("text",),
    ReasoningDelta: ("text",),
}

_PART_TEXT_FIELDS: dict[type, tuple[str, ...]] = {
    TextPart: ("text",),
    ImagePart: ("url",),
    ReasoningPart: ("text",),
    ToolCallPart: ("name", "arguments"),
    ToolResultPart: ("name", "text"),
}


def no_redaction(text: str) -> str:
    """Return the text as it is: no redaction."""
    return text


def redact_event(event: Event, redact: Redact) -> Event:
    """Return the event, with its texts redacted; the same object when there is nothing to take out."""
    if isinstance(event, MessageAppended):
        message = redact_message(event.message, redact)
        return event if message is event.message else structs.replace(event, message=message)
    changed = {}
    for name in _EVENT_TEXT_FIELDS.get(type(event), ()):
        text = getattr(event, name)
        if isinstance(text, str) and text and (clean := redact(text)) is not text:
            changed[name] = clean
    return structs.replace(event, **changed) if changed else event


def redact_message(message: Message, redact: Redact) -> Message:
    """Return the message, with every text in it redacted; the same object when there is nothing to take out."""
    parts = tuple(_redact_part(part, redact) for part in message.parts)
    if all(new is old for new, old in zip(parts, message.parts, strict=True)):
        return message
    return structs.replace(message, parts=parts)


def _redact_part(part: Part, redact: Redact) -> Part:
    """Return the part with its texts redacted; the same object when there is nothing to redact."""
    changed = {}
    for name in _PART_TEXT_FIELDS[type(part)]:
        text = getattr(part, name)
        if text and (clean := redact(text)) is not text:
            changed[name] = clean
    origin = None if isinstance(part, ReasoningPart | ToolCallPart) else part.provenance
    if (known := _redact_provenance(origin, redact)) is not origin:
        return structs.replace(part, **changed, provenance=known)
    if changed and isinstance(part, ReasoningPart):
        # A signature is for the text as it was: without it the reasoning is shown, and not replayed.
        return structs.replace(part, **changed, signature="", opaque="")
    return structs.replace(part, **changed) if changed else part


def _redact_provenance(origin: Provenance | None, redact: Redact) -> Provenance | None:
    """Return the provenance with its label redacted; the same object when there is nothing to redact."""
    if origin is None or not origin.label or (label := redact(origin.label)) is origin.label:
        return origin
    return structs.replace(origin, label=label)


TITLE_LIMIT = 60
"""Characters of a session's title, which is its first message until it is given another one."""
_LARGE_CODE_STATE = 256_000
"""The bytes from which on a stored state of code does not wait for the next write."""

Subscriber = Callable[[Event], None]


class TurnRecorder:
    """The `emit` function, the `EffectJournal` and the `CodeJournal` of one session's turns."""

    def __init__(
        self, store: Store, *, session_id: str, epoch: int, untitled: bool, redactor: Redactor | None = None
    ) -> None:
        self._store = store
        self._redact = no_redaction if redactor is None else redactor.redact
        self._redacting_stream = None if redactor is None else RedactingStream(redactor)
        self._redacted_message: Message | None = None
        """What `redact_message` returned, until it is emitted."""
        self._delta_type: type[TextDelta | ReasoningDelta] = TextDelta
        self._session_id = session_id
        self._turn_id = ""
        self._fence = 0
        self._starting: TurnStarted | None = None
        self._inbox_ids: tuple[str, ...] = ()
        self._untitled = untitled
        self._sealed = False
        self._unwritten: list[asyncio.Future[list[int]] | asyncio.Future[None]] = []
        self.epoch = epoch
        self.subscribers: list[Subscriber] = []

    async def emit(self, event: Event) -> None:
        """Store what the event stands for, and publish it. Raises StoreError when it cannot be stored.

        Of a text that comes in pieces, a possible beginning of a secret is held back until more of it is there.
        """
        if self._sealed or self._hold_back(event):
            return
        event = self._redact_event(event)
        match event:
            case MessageAppended() if self._starting is not None:
                await self._store_turn_start(self._starting, event.message)
            case MessageAppended():
                self._unwritten.append(
                    self._store.messages.append_with_next(self._make_entry((event.message,), event.usage))
                )
            case RequestStarted():
                await self.flush()
            case TurnStarted():
                # Shown when it is on disk: together with the message that it begins with.
                self._starting = event
                return
            case TurnResumed():
                self._turn_id = event.turn_id
            case TurnEnded():
                if self._starting is not None:  # its first message could not be made; the turn is named all the same
                    await self._store_turn_start(self._starting)
                await self.flush()
                self._store.check_file_identity()
                await self._store.turns.end(
                    event.turn_id,
                    event.reason,
                    usage=event.usage,
                    calls=event.calls,
                    error=event.error,
                    fence=self._fence,
                )
                self._turn_id, self._fence = "", 0
        self._notify_subscribers(event)

    def redact_message(self, message: Message) -> Message:
        """Return the message as the model and the store get it. The same object is not searched again when it is
        emitted next; every other one is.
        """
        self._redacted_message = redact_message(message, self._redact)
        return self._redacted_message

    def _redact_event(self, event: Event) -> Event:
        if isinstance(event, MessageAppended):
            known, self._redacted_message = self._redacted_message, None
            if event.message is known:
                return event
        return redact_event(event, self._redact)

    def _hold_back(self, event: Event) -> bool:
        """Return whether a piece of text was taken; the part that certainly holds no secret is shown."""
        if self._redacting_stream is None:
            return False
        if type(event) is not self._delta_type and (rest := self._redacting_stream.close()):
            self._notify_subscribers(self._delta_type(rest))
        if not isinstance(event, TextDelta | ReasoningDelta):
            return False
        self._delta_type = type(event)
        if ready := self._redacting_stream.feed(event.text):
            self._notify_subscribers(self._delta_type(ready))
        return True

    def seal_turn(self) -> None:
        """Write nothing more of the running turn: it stays open, as if this process had died, and whoever opens
        the session next resumes it.
        """
        self._sealed = True

    def set_owner(self, turn_id: str, fence: int) -> None:
        """Write as the turn's owner with this fence; writes with earlier ones are refused."""
        self._turn_id, self._fence = turn_id, fence

    @property
    def owner(self) -> TurnOwner | None:
        """The running turn with our fence; None between turns."""
        return TurnOwner(self._turn_id, self._fence) if self._fence else None

    @property
    def turn_id(self) -> str:
        """The id of the running turn; empty between turns."""
        return self._turn_id

    def take_inbox_rows(self, letter_ids: Sequence[str]) -> None:
        """Let these inbox rows become part of the transcript with the next message."""
        self._inbox_ids += tuple(letter_ids)

    def enqueue_message(self, letter_id: str, body: bytes, *, first: bool = False) -> "asyncio.Future[None]":
        """Store a message that waits; with `first` before all others."""
        return self._store.inbox.enqueue(self._session_id, letter_id, body, first=first)

    def mark_stopping(self) -> None:
        """Record that the running turn is to stop: if this process dies now, nobody resumes it."""
        if self.owner is not None:
            self._unwritten.append(self._store.turns.mark_stopping(self.owner))

    def publish(self, event: Event) -> None:
        """Show an event that needs no storing to every subscriber, in the order they came."""
        self._notify_subscribers(redact_event(event, self._redact))

    def _notify_subscribers(self, event: Event) -> None:
        for subscriber in tuple(self.subscribers):
            subscriber(event)

    async def flush(self) -> None:
        """Wait until everything appended so far is on disk."""
        if self._unwritten:
            self._store.messages.begin_held_writes()
        while self._unwritten:
            # Writes keep their order, so what came before the last is there by then, or has its error.
            # Shielded: a turn that is stopped while it waits here must not make a write look undone.
            with contextlib.suppress(HermesError):
                await asyncio.shield(self._unwritten[-1])
            while self._unwritten and self._unwritten[0].done():
                self._unwritten.pop(0).result()

    async def record_intents(self, intents: Sequence[Intent]) -> None:
        """Record the intents of a batch; everything appended before is on disk too when this returns.

        Calls that may all be repeated need no intent on disk before they start: after a crash they would only be made
        again. Theirs are stored with what is written next.
        """
        if self._sealed:
            raise StoreError("The session is being closed.")
        if all(one.repeatable for one in intents):
            waiting = self._store.turns.record_intents_with_next(self._turn_id, intents, fence=self._fence)
            self._unwritten.append(waiting)
            return
        await self._store.turns.record_intents(self._turn_id, intents, fence=self._fence)
        await self.flush()

    async def record_result(self, result: ToolResultPart) -> None:
        """Record the result of a call, with what is written next; `flush` waits for it."""
        if not self._sealed:
            self._unwritten.append(self._store.turns.record_result(self._turn_id, result, fence=self._fence))

    async def record_code_state(self, call_id: str, state: "CodeRunState", *, durable: bool = False) -> None:
        """Record the state of a run of code, with the intent that follows: `flush` waits for it.

        A large one is written at once: code that makes many calls would fill the memory with what waits.
        """
        if self._sealed:
            raise StoreError("The session is being closed.")
        runs = self._store.code_runs
        if durable or len(state.dump) > _LARGE_CODE_STATE:
            await runs.record_state(self._turn_id, call_id, state, fence=self._fence)
            return
        self._unwritten.append(runs.record_state_with_next(self._turn_id, call_id, state, fence=self._fence))

    async def read_code_run(self, call_id: str) -> "StoredCodeRun | None":
        """Return what another process has left of a run of code, or None."""
        return await self._store.code_runs.get(self._turn_id, call_id) if self._turn_id else None

    async def keep_results(self, results: Sequence[ToolResultPart]) -> None:
        """Keep the results of a turn that ends before its batch is complete, for the turn that completes it."""
        await self.flush()
        await self._store.turns.keep_results(self._turn_id, results, fence=self._fence)

    async def read_kept_results(self) -> KeptResults:
        """Return the results of the turn before, where it has ended with calls of its caller's."""
        return await self._store.turns.read_kept_results(self._session_id)

    def clear_kept_results(self, kept: KeptResults) -> None:
        """Forget kept results, which stand in the transcript by now."""
        self._unwritten.append(self._store.turns.clear_kept_results(kept.turn_id))

    async def _store_turn_start(self, started: TurnStarted, *messages: Message) -> None:
        """Store the turn and its first message, all or nothing, and show that it has begun."""
        self._starting, self._turn_id, self._fence = None, started.turn_id, 1
        title = to_one_line(started.text, TITLE_LIMIT) if self._untitled and started.text.strip() else ""
        self._untitled = self._untitled and not title
        await self._store.messages.start_turn(self._make_entry(messages), title=title)
        self._notify_subscribers(started)

    def _make_entry(self, messages: tuple[Message, ...], usage: Usage | None = None) -> TranscriptEntry:
        taken, self._inbox_ids = self._inbox_ids, ()
        return TranscriptEntry(
            session_id=self._session_id,
            epoch=self.epoch,
            turn_id=self._turn_id,
            messages=messages,
            usage=usage,
            fence=self._fence,
            inbox_ids=taken,
        )
