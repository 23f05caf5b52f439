"""One live session: what is said to it waits in a mailbox and is answered strictly in order."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from msgspec import Struct, structs

from hermes.agent.budget import Budget
from hermes.agent.loop import run_turn
from hermes.agent.loop_detection import Guard, GuardLimits
from hermes.agent.resume import restore
from hermes.agent.turn import Deps, Resumed, TurnState
from hermes.context.turn_notes import turn_note
from hermes.core.errors import BusyError, HermesError, NotFoundError, StoreError, UsageError
from hermes.core.events import Level, Notice, Queued, TurnEnded
from hermes.core.ids import new_letter_id, new_turn_id
from hermes.core.messages import PERSON, Message, Role, user_message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.approvals import Approvals
from hermes.runtime.attachments import Bringing
from hermes.runtime.compression import BeforeCompress
from hermes.runtime.conversation import Conversation
from hermes.runtime.epochs import SessionEpochs
from hermes.runtime.mailbox import Inbound, Letter, Mailbox
from hermes.runtime.recorder import Recorder, Subscriber
from hermes.store.rows import InboxRow
from hermes.util.cancellation import finished
from hermes.util.text import clean_surrogates

T = TypeVar("T")
TurnHook = Callable[[TurnState, TurnEnded], Awaitable[None]]


class Parts(Struct, frozen=True, kw_only=True):
    """What a session's actor is made of, beside its conversation."""

    deps: Deps
    recorder: Recorder
    epochs: SessionEpochs
    approvals: Approvals
    mailbox: Mailbox
    max_turns: int
    guard: GuardLimits


class SessionActor:
    """Runs the turns of one session. Made by the application's wiring; `close` ends it and whatever it runs."""

    def __init__(self, conversation: Conversation, parts: Parts, *, waiting: Sequence[InboxRow] = ()) -> None:
        self.conversation = conversation
        self.approvals = parts.approvals
        self._deps = parts.deps
        self._recorder = parts.recorder
        self._epochs = parts.epochs
        self._parts = parts
        self._mailbox = parts.mailbox
        self._turn: asyncio.Task[TurnEnded] | None = None
        self._task: asyncio.Task[None] | None = None
        self._joined: list[Letter] = []
        """Whose words have become part of the running turn."""
        self._resumed: Letter | None = None
        """Stands for the turn of a dead process while it is gone on with."""
        self._working = False
        self.answering: asyncio.Future[TurnEnded] | None = None
        """What `post` or `forward` gave for the message that is answered now: by it a turn's events are told apart."""
        self._between = asyncio.Lock()
        """Held by what runs: a turn, or what is done between two."""
        self._condensing: asyncio.Task[object] | None = None
        """What is done between two turns."""
        self._stop_asked = False
        """A stop came while the next turn was being prepared."""
        self._quiet = asyncio.Event()
        self._broken: HermesError | None = None
        self.stays_open = False
        """Whether a turn that runs when the session is closed stays open: who opens it next goes on with it."""
        self.on_turn_end: list[TurnHook] = []
        """What is done after each turn, in order, before its waiter hears of its end."""
        self.on_close: list[Callable[[], object]] = []
        """Who is told that the session is closed here."""
        self.bringing = Bringing()
        """Who brings something along with each message."""
        self.before_compress: list[BeforeCompress] = parts.epochs.before_compress
        """Who is told what is about to be condensed, and may say what must not be lost; for memory."""
        self.undoing = parts.epochs.undoing
        """Takes turns back and brings them back, for who is `aside`."""
        lost = conversation.lost.messages if conversation.lost is not None else ()
        parts.deps.context.state.taint.restart_from([*conversation.messages, *lost])
        for row in waiting:
            self._mailbox.restore(Letter(Inbound.decode(row.body), row.id))

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.conversation.session_id

    @property
    def unfinished(self) -> int:
        """How much a process that died has left: its turn, and messages that waited behind it."""
        return (self.conversation.lost is not None) + (len(self._mailbox) if self._task is None else 0)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Show every event from now on to `subscriber`, which must not block; returns how to stop that."""
        self._recorder.subscribers.append(subscriber)
        return lambda: self._recorder.subscribers.remove(subscriber)

    def post(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Put a message into the mailbox; the future is the end of the turn that answers it.

        A turn that a process before this one left unfinished is gone on with first; a message of words alone joins it
        at the next boundary, unless others wait before it. Raises BusyError when the mailbox is full, and StoreError
        once a turn could not be written: what is in memory then is more than what is on disk, and the session must be
        opened again.
        """
        if self.conversation.lost is not None and not inbound.images:
            self.resume()
            if not len(self._mailbox):  # what was said before this and still waits comes before it
                return self.steer(inbound)
        return self._deliver(inbound)

    def steer(
        self, inbound: Inbound, *, joins_only: bool = False, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Let words join the running turn when its next tools are done; they get a turn of their own when none follows.

        The future is the end of the turn that they have become part of. With `joins_only` there is no other turn: the
        future is cancelled when they could not join, and they are the caller's again. With `in_order` they do not
        overtake messages that wait for turns of their own.
        """
        if joins_only and self.busy:
            letter = Letter(inbound, joins_only=True)
        elif self.busy and not inbound.images and not (in_order and self._mailbox.crowded):
            letter = self._letter(inbound, waits=True, joins=True)
        else:
            return self._deliver(inbound)
        self._mailbox.steer(letter)
        return letter.ended

    def forward(
        self, letter_id: str, inbound: Inbound, *, joins: bool = False, first: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Say what stands in the store's inbox as `letter_id` already. It waits for a turn of its own, or (`joins`) may
        become part of the running one; with `first` that one is stopped, and this is answered before all that waits.

        Of a session that is open no letter is lost by a full mailbox. Raises StoreError as `post` does.
        """
        if self._broken is not None:
            raise self._broken
        letter = Letter(inbound, letter_id)
        if first:
            self.stop()
        self.resume()
        self._start()
        if joins and self.busy and not inbound.images and not self._mailbox.crowded:
            self._mailbox.steer(letter)
        else:
            self._mailbox.put(letter, first=first)
        return letter.ended

    def interrupt(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Stop the running turn and answer this next, before all that waits."""
        self._mailbox.check_room()
        self.stop()
        return self._deliver(inbound, first=True)

    def resume(self, letter_id: str = "") -> "asyncio.Future[TurnEnded] | None":
        """Go on with what a process that died has left; the end of its turn, or None when it left none. With a
        `letter_id` the end of the turn that will answer what waits as that, or None when nothing does."""
        if self.conversation.lost is not None and self._resumed is None:
            self._resumed = Letter(Inbound(text=""))
        if self.unfinished:
            self._start()
        if letter_id:
            return next((one.ended for one in self._mailbox if one.letter_id == letter_id), None)
        return self._resumed.ended if self._resumed is not None else None

    def stop(self) -> bool:
        """Stop the running turn; False when none runs. A second stop of the same turn gives running tools no time."""
        if self._condensing is not None and not self._condensing.done():
            self._condensing.cancel()
            return True
        if not self.busy and not len(self._mailbox):
            return False
        if self._turn is None or self._turn.done():
            self._stop_asked = True
            self.bringing.stop()
            return True
        # Behind the task's first step: by then its message is on its way to disk, and the turn can be closed by name.
        asyncio.get_running_loop().call_soon(self._turn.cancel)
        self._recorder.stopping()
        return True

    def notify(self, level: Level, text: str) -> None:
        """Show a line to whoever watches this session."""
        self._recorder.publish(Notice(level=level, text=text))

    async def condense(self, *, undo: bool = False) -> bool:
        """Between two turns: make the conversation shorter now, or with `undo` put back what was condensed last.

        False when nothing has changed; why is shown as a notice. `stop` stops it, and nothing has changed then either.
        Raises BusyError while a turn runs or waits.
        """
        epochs, emit = self._epochs, self._recorder.emit
        done = await self.aside(lambda: epochs.undo_compression(emit) if undo else epochs.compress_now(emit))
        return bool(done)

    async def aside(self, work: Callable[[], Coroutine[object, object, T]]) -> T | None:
        """Do something between two turns, while none can begin; None when it was stopped. Raises what it raises, and
        BusyError while a turn runs or waits."""
        if self.busy or len(self._mailbox) or self.conversation.lost is not None:
            raise BusyError("A turn runs or waits.", "Try again when it has ended.")
        if self._broken is not None:
            raise self._broken
        self._working = True
        async with self._between:
            aside = self._condensing = asyncio.create_task(work(), name=f"aside {self.session_id}")
            try:
                await finished(aside)
                return None if aside.cancelled() else aside.result()
            except (NotFoundError, UsageError):
                raise
            except HermesError as error:
                self._broken = error  # what is in memory may differ from what is on disk
                raise
            finally:
                self._working, self._stop_asked, self._condensing = False, False, None
                await self._deps.meter.flush()

    async def idle(self) -> None:
        """Wait until nothing runs and nothing waits."""
        if self._task is not None:
            await self._quiet.wait()

    async def close(self) -> None:
        """Stop what runs, turn away what waits; it stays in the store for the next process."""
        if self.stays_open:
            self._recorder.seal()
            self.approvals.stays_open = True
        for told in tuple(self.on_close):
            told()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for letter in (*self._mailbox.empty(), *self._joined):
            letter.ended.cancel()
        if self._resumed is not None:
            self._resumed.ended.cancel()
        await self._recorder.flush()
        # What knows this session would keep it, and all it holds, until the collector comes round.
        self._task = self._turn = self._condensing = None
        self.on_turn_end.clear()
        self.bringing.bringers.clear()
        self.before_compress.clear()

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is about to."""
        return self._working or self._resumed is not None

    def _deliver(self, inbound: Inbound, *, first: bool = False) -> "asyncio.Future[TurnEnded]":
        self._start()
        letter = self._letter(inbound, waits=self.busy or len(self._mailbox) > 0, first=first)
        self._mailbox.put(letter, first=first)
        return letter.ended

    def _letter(self, inbound: Inbound, *, waits: bool, first: bool = False, joins: bool = False) -> Letter:
        """A letter; one that has to wait is stored first, and shown to wait once it is."""
        if self._broken is not None:
            raise self._broken
        self._mailbox.check_room()
        clean = self._deps.context.redact(inbound.text)
        if clean is not inbound.text:
            inbound = structs.replace(inbound, text=clean)
        if not waits:
            return Letter(inbound)
        letter = Letter(inbound, new_letter_id())
        ahead = len(self._mailbox) + 1
        stored = self._recorder.enqueue(letter.letter_id, inbound.encode(), first=first)

        def tell(done: "asyncio.Future[None]") -> None:
            error = None if done.cancelled() else done.exception()
            if isinstance(error, Exception):
                letter.fail(error)
            elif any(one is letter for one in self._mailbox):  # its turn may have begun while it was being stored
                self._recorder.publish(Queued(letter.inbound.text, ahead, joins))

        stored.add_done_callback(tell)
        return letter

    def _start(self) -> None:
        self._quiet.clear()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"session {self.session_id}")

    async def _run(self) -> None:
        if self.conversation.lost is not None:
            await self._go_on(self.conversation.lost)
        while True:
            if not len(self._mailbox):
                self._quiet.set()
            letter = await self._mailbox.next()
            self._quiet.clear()
            if self._broken is not None:
                letter.fail(self._broken)  # it stays in the store, for the process that opens the session next
            elif not letter.failed:
                async with self._between:
                    await self._answer(letter)

    async def _go_on(self, lost: Resumed) -> None:
        """The turn of a process that died, from its last stored step."""
        resumed = self._resumed = self._resumed or Letter(Inbound(text=""))

        async def prepared() -> TurnState:
            self._recorder.own(lost.turn_id, lost.fence)
            asked = next((one for one in lost.messages if one.role is Role.USER), lost.messages[0])
            state = _turn_state(self._parts, self.conversation, lost.turn_id, asked, lost)
            restore(state, lost)
            self.conversation.lost = None
            return state

        await self._settled(prepared(), resumed)

    async def _answer(self, letter: Letter) -> None:
        """One letter, one turn."""
        self._working = True

        async def prepared() -> TurnState:
            await self._epochs.go_home(self._recorder.emit)
            if letter.letter_id:
                self._recorder.take((letter.letter_id,))
            brought = await self.bringing.bring(letter.inbound)
            now = self._deps.clock.now()
            user = _user_message(self.conversation, letter.inbound, [*brought, *self._deps.steering()], now)
            return _turn_state(self._parts, self.conversation, new_turn_id(), user)

        await self._settled(prepared(), letter)

    async def _settled(self, prepared: Coroutine[object, object, TurnState], letter: Letter) -> None:
        """Run a turn, and tell everybody who waits for it how it ended."""
        self.answering = letter.ended
        try:
            result = await self._one_turn(await prepared)
        except asyncio.CancelledError:
            letter.ended.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - handed to the one who waits, see below
            # Whatever broke, those who wait hear of it. What is in memory may be ahead of what is on disk now, so
            # nothing more is said here: whoever opens the session again goes on from the disk.
            self._broken = self._broken or _cannot_go_on(error)
            for one in (letter, *self._joined):
                one.fail(error)
        else:
            for one in (letter, *self._joined):
                one.settle(result)
        self._joined.clear()
        self.answering = None
        self._working, self._resumed, self._stop_asked = False, None, False
        self._mailbox.turn_is_over()

    async def _one_turn(self, state: TurnState) -> TurnEnded:
        ends: list[TurnEnded] = []
        unsubscribe = self.subscribe(lambda event: ends.append(event) if isinstance(event, TurnEnded) else None)
        self._turn = asyncio.create_task(run_turn(self._deps, state, self._recorder.emit), name=state.turn_id)
        if self._stop_asked:
            self.stop()
        self._stop_asked = False
        try:
            await finished(self._turn)
        finally:
            unsubscribe()
        result, broken = _turn_result(self._turn, state, ends)
        self._broken = broken or self._broken
        if not ends:
            self._recorder.publish(result)
        self.conversation.messages.extend(state.messages)
        for hook in self.on_turn_end:
            await hook(state, result)
        return result

    def joining(self) -> list[TextPart]:
        """The words that join the running turn now; with the next message they leave the store's inbox."""
        letters = [one for one in self._mailbox.take_steering() if not one.failed]
        self._joined += letters
        self._recorder.take([one.letter_id for one in letters if one.letter_id])
        return [
            part
            for one in letters
            for part in (TextPart(text=clean_surrogates(one.inbound.text), provenance=PERSON), *one.inbound.quoted)
        ]


def _turn_state(
    parts: Parts, conversation: Conversation, turn_id: str, user: Message, resumed: Resumed | None = None
) -> TurnState:
    """What a turn begins with."""
    return TurnState(
        turn_id=turn_id,
        session_id=conversation.session_id,
        user=user,
        lineage=conversation.lineage,
        model=conversation.client,
        budget=Budget(parts.max_turns),
        guard=Guard(parts.guard),
        taint=parts.deps.context.state.taint,
        redact=parts.deps.context.redact,
        resumed=resumed,
        housekeeping=parts.deps.toolbox.housekeeping,
    )


def _cannot_go_on(error: Exception) -> HermesError:
    if isinstance(error, HermesError):
        return error
    said = f"This session failed by an error of Hermes' own ({type(error).__name__}: {error})."
    return StoreError(said, "Open it again: it goes on from what is on disk.")


def _user_message(
    conversation: Conversation, inbound: Inbound, joining: Sequence[ImagePart | TextPart], now: float
) -> Message:
    """The person's message, with date, time and folder frozen into it where they are news."""
    more: list[ImagePart | TextPart] = [*inbound.images, *inbound.quoted, *joining]
    if conversation.frame.tools:
        note = turn_note(now, cwd=inbound.cwd, last_told=conversation.last_told, last_cwd=conversation.last_cwd)
        if note is not None:
            more.append(note)
            conversation.last_told = now
            conversation.last_cwd = inbound.cwd
    return user_message(clean_surrogates(inbound.text), *more)


def _turn_result(
    turn: "asyncio.Task[TurnEnded]", state: TurnState, ends: Sequence[TurnEnded]
) -> tuple[TurnEnded, HermesError | None]:
    """The turn's end: as it was emitted, or what an error that the loop could not name says; and that error."""
    if ends:
        return ends[-1], None
    if turn.cancelled():  # stopped before its first step: nothing of it was begun
        return TurnEnded(turn_id=state.turn_id, reason=ExitReason.INTERRUPTED), None
    error = turn.exception()
    if not isinstance(error, HermesError):
        return turn.result(), None
    ended = TurnEnded(
        turn_id=state.turn_id,
        reason=ExitReason.LOCAL_ERROR,
        text=state.redact("".join(state.answer)),
        error=state.redact(str(error)),
        calls=state.requests,
        usage=state.usage,
    )
    return ended, error
