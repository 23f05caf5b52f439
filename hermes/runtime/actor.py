"""One live session: a queue of messages that are answered strictly in order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct, structs

from hermes.agent import prompts
from hermes.agent.calls import build_late_results
from hermes.agent.loop import run_turn
from hermes.agent.loop_detection import LoopDetector, LoopLimits
from hermes.agent.turn import ResumedTurn, TurnBudget, TurnDeps, TurnState
from hermes.context.engine import NO_WISH, CompactionWish
from hermes.core.errors import BusyError, HermesError, NotFoundError, StoreError, UsageError
from hermes.core.events import Level, Notice, Queued, TurnEnded, WorkEnded, WorkStarted
from hermes.core.ids import new_queued_message_id, new_turn_id
from hermes.core.messages import PERSON, ImagePart, Message, Role, TextPart, program_message, user_message
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import N_
from hermes.runtime.approvals import SessionApprovals
from hermes.runtime.compression import BeforeCompress
from hermes.runtime.conversation import ConversationPictures, LiveConversation, list_open_calls
from hermes.runtime.epochs import SessionEpochs
from hermes.runtime.mailbox import AttachmentCollector, InboundMessage, QueuedMessage, SessionMailbox, build_turn_note
from hermes.runtime.recorder import Redact, Subscriber, TurnRecorder
from hermes.store.records import InboxRow
from hermes.store.turns import KeptResults
from hermes.util.cancellation import wait_for_task
from hermes.util.text import clean_surrogates, to_one_line

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
TurnHook = Callable[[TurnState, TurnEnded], Awaitable[None]]


class ActorParts(Struct, frozen=True, kw_only=True):
    """The parts of a session's actor, beside its conversation."""

    deps: TurnDeps
    recorder: TurnRecorder
    epochs: SessionEpochs
    approvals: SessionApprovals
    mailbox: SessionMailbox
    max_turns: int
    loop_limits: LoopLimits


class SessionActor:
    """Runs the turns of one session. The session builder makes it; `close` ends it and whatever it runs."""

    def __init__(self, conversation: LiveConversation, parts: ActorParts, *, waiting: Sequence[InboxRow] = ()) -> None:
        self.conversation = conversation
        self.approvals = parts.approvals
        self._deps = parts.deps
        self.recorder = self._recorder = parts.recorder
        """Stores and shows events; others publish theirs with it."""
        self.epochs = parts.epochs
        """The epochs of the session, and the undo of its turns, for callers inside `exclusive`."""
        self._parts = parts
        self.mailbox = self._mailbox = parts.mailbox
        """What waits; front-ends only look."""
        self._turn: asyncio.Task[TurnEnded] | None = None
        self._task: asyncio.Task[None] | None = None
        self._joined_messages: list[QueuedMessage] = []
        """Queued messages whose text has become part of the running turn."""
        self._resume_handle: QueuedMessage | None = None
        """Stands for the turn of a dead process while it is resumed."""
        self._working = False
        self.current_turn_end: asyncio.Future[TurnEnded] | None = None
        """The future that `post` or `forward` returned for the message being answered; it tells a turn's events apart.
        """
        self.calls_left: int | None = None
        """The model calls that are left for all turns together; None: each turn has its own."""
        self._turn_lock = asyncio.Lock()
        """Held by what runs: a turn, or work between two turns."""
        self._exclusive_task: asyncio.Task[object] | None = None
        """The work that runs between two turns."""
        self.doing = ""
        """What that work does, as a person reads it, where it may take its time."""
        self._stop_asked = False
        """A stop came while the next turn was being prepared."""
        self._idle_event = asyncio.Event()
        self._failure: HermesError | None = None
        self.stays_open = False
        """Whether a turn that runs when the session is closed stays open, for whoever opens it next to resume."""
        self.before_turn: list[Callable[[], Awaitable[None]]] = []
        """Hooks that run before each turn that begins with a message; they may begin an epoch."""
        self.on_turn_end: list[TurnHook] = []
        """Hooks that run after each turn, in order, before its waiter hears of its end."""
        self.on_close: list[Callable[[], object]] = []
        """Callbacks that run when the session is closed here."""
        self.attachments = AttachmentCollector()
        """Collects what is attached to each message."""
        self.before_compress: list[BeforeCompress] = parts.epochs.compression.hooks
        """Hooks that see what is about to be compressed and may name what must not be lost; for memory."""
        lost = conversation.lost_turn.messages if conversation.lost_turn is not None else ()
        parts.deps.context.state.taint.restart_from([*conversation.messages, *lost])
        for row in waiting:
            self._mailbox.restore(QueuedMessage(InboundMessage.decode(row.body), row.id))

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.conversation.session_id

    @property
    def unfinished(self) -> int:
        """The amount that a process which died has left: its turn, and messages that waited behind it."""
        return (self.conversation.lost_turn is not None) + (len(self._mailbox) if self._task is None else 0)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Show every event from now on to `subscriber`, which must not block; return a function that stops that."""
        self._recorder.subscribers.append(subscriber)
        return lambda: self._recorder.subscribers.remove(subscriber)

    def post(self, inbound: InboundMessage) -> "asyncio.Future[TurnEnded]":
        """Queue a message; the future is the end of the turn that answers it.

        A turn that an earlier process left unfinished is resumed first; a message of words alone joins it at
        the next boundary, unless others wait before it. Raises BusyError when the mailbox is full, and
        StoreError once a turn could not be written: what is in memory then is more than what is on disk, and
        the session must be opened again.
        """
        if self.conversation.lost_turn is not None and not inbound.images and not inbound.results:
            self.resume()
            if not len(self._mailbox):  # what was said before this and still waits comes before it
                return self.steer(inbound)
        return self._deliver_message(inbound)

    def steer(
        self, inbound: InboundMessage, *, joins_only: bool = False, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Let a message join the running turn when its next tools are done; it gets a turn of its own when none follow.

        The future is the end of the turn that it became part of. With `joins_only` there is no other turn: the future
        is cancelled when the message could not join, and it is the caller's again. With `in_order` it does not overtake
        messages that wait for turns of their own.
        """
        if joins_only and self.busy:
            queued = QueuedMessage(inbound, joins_only=True)
        elif (
            self.busy
            and self._exclusive_task is None
            and not inbound.images
            and not (in_order and self._mailbox.has_waiting)
        ):
            queued = self._make_queued_message(inbound, waits=True, joins=True)
        else:
            return self._deliver_message(inbound)
        self._mailbox.steer(queued)
        return queued.ended

    def forward(
        self, letter_id: str, inbound: InboundMessage, *, joins: bool = False, first: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Queue a message that stands in the store's inbox as `letter_id` already.

        It waits for a turn of its own or, with `joins`, may become part of the running one. With `first` the
        running turn is stopped, and this is answered before all that waits. A full mailbox loses no message of
        an open session. Raises StoreError as `post` does.
        """
        if self._failure is not None:
            raise self._failure
        queued = QueuedMessage(inbound, letter_id)
        if first:
            self.stop()
        self.resume()
        self._start_task()
        if (
            joins
            and self.busy
            and self._exclusive_task is None
            and not inbound.images
            and not self._mailbox.has_waiting
        ):
            self._mailbox.steer(queued)
        else:
            self._mailbox.put(queued, first=first)
        return queued.ended

    def interrupt(self, inbound: InboundMessage) -> "asyncio.Future[TurnEnded]":
        """Stop the running turn and answer this message next, before all that waits."""
        self._mailbox.check_room()
        self.stop()
        return self._deliver_message(inbound, first=True)

    def resume(self, letter_id: str = "") -> "asyncio.Future[TurnEnded] | None":
        """Resume what a process that died has left; return the end of its turn, or None when it left none.

        With a `letter_id`, return the end of the turn that will answer the message waiting under that id, or
        None when nothing does.
        """
        if self.conversation.lost_turn is not None and self._resume_handle is None:
            self._resume_handle = QueuedMessage(InboundMessage(text=""))
        if self.unfinished:
            self._start_task()
        if letter_id:
            return next((one.ended for one in self._mailbox if one.letter_id == letter_id), None)
        return self._resume_handle.ended if self._resume_handle is not None else None

    def stop(self) -> bool:
        """Stop the running turn; return False when none runs. A second stop of the same turn gives running tools no
        time.
        """
        if self._exclusive_task is not None and not self._exclusive_task.done():
            self._exclusive_task.cancel()
            return True
        if not self.busy and not len(self._mailbox):
            return False
        if self._turn is None or self._turn.done():
            self._stop_asked = True
            self.attachments.stop_collecting()
            return True
        # Behind the task's first step: by then its message is on its way to disk, and the turn can be closed by name.
        asyncio.get_running_loop().call_soon(self._turn.cancel)
        self._recorder.mark_stopping()
        return True

    def notify(self, level: Level, text: str) -> None:
        """Show a line to every front-end of this session."""
        self._recorder.publish(Notice(level=level, text=text))

    async def compress(self, *, undo: bool = False, wish: CompactionWish = NO_WISH) -> bool | None:
        """Compress the conversation now, between two turns, or with `undo` restore what was compressed last.

        Returns False when nothing has changed; a notice says why. Returns None when `stop` has stopped it before
        anything has changed. Raises BusyError while a turn runs or waits.
        """
        compression, emit = self.epochs.compression, self._recorder.emit
        if undo:
            return await self.exclusive(lambda: compression.undo_last(emit))
        return await self.exclusive(lambda: compression.compress_now(emit, wish), N_("making the conversation shorter"))

    async def exclusive(self, work: Callable[[], Coroutine[object, object, T]], doing: str = "") -> T | None:
        """Run work between two turns, while none can begin; return its result, or None when it was stopped.

        What is said meanwhile waits, and is answered once the work has ended, however it ends. Work that may take
        its time says in `doing` what it does, and every front-end shows that.
        Raises what the work raises, and BusyError while a turn runs or waits.
        """
        if self.busy or len(self._mailbox) or self.conversation.lost_turn is not None:
            raise BusyError("A turn runs or waits.", "Try again when it has ended.")
        if self.conversation.open_calls:
            raise BusyError("The session waits for results from the program that uses it.", "Send a message first.")
        if self._failure is not None:
            raise self._failure
        self._working, self.doing = True, doing
        try:
            async with self._turn_lock:
                task = self._exclusive_task = asyncio.create_task(work(), name=f"aside {self.session_id}")
                if doing:
                    self._recorder.publish(WorkStarted(doing))
                try:
                    await wait_for_task(task)
                    return None if task.cancelled() else task.result()
                finally:
                    await self._deps.meter.flush()
        except (NotFoundError, UsageError):
            raise
        except HermesError as error:
            self._failure = error  # what is in memory may differ from what is on disk
            raise
        finally:
            # The queue holds nothing back: a turn waits for the lock, and what cannot join is requeued.
            self._working, self._stop_asked, self._exclusive_task, self.doing = False, False, None, ""
            self._mailbox.requeue_steering()
            if doing:
                self._recorder.publish(WorkEnded())

    async def idle(self) -> None:
        """Wait until nothing runs and nothing waits."""
        if self._task is not None:
            await self._idle_event.wait()

    async def close(self) -> None:
        """Stop what runs and drop what waits, which stays in the store for the next process."""
        if self.stays_open:
            self._recorder.seal_turn()
            self.approvals.stays_open = True
        for told in tuple(self.on_close):
            told()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        for queued in (*self._mailbox.take_all(), *self._joined_messages):
            queued.ended.cancel()
        if self._resume_handle is not None:
            self._resume_handle.ended.cancel()
        await self._recorder.flush()
        # What knows this session would keep it, and all it holds, until the collector comes round.
        self._task = self._turn = self._exclusive_task = None
        self.before_turn.clear()
        self.on_turn_end.clear()
        self.attachments.providers.clear()
        self.before_compress.clear()

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or is about to; or work between two turns."""
        return self._working or self._resume_handle is not None

    def _deliver_message(self, inbound: InboundMessage, *, first: bool = False) -> "asyncio.Future[TurnEnded]":
        self._start_task()
        queued = self._make_queued_message(inbound, waits=self.busy or len(self._mailbox) > 0, first=first)
        self._mailbox.put(queued, first=first)
        return queued.ended

    def _make_queued_message(
        self, inbound: InboundMessage, *, waits: bool, first: bool = False, joins: bool = False
    ) -> QueuedMessage:
        """Make a queued message. One that has to wait is stored first, and shown as waiting once it is."""
        if self._failure is not None:
            raise self._failure
        self._mailbox.check_room()
        clean = self._deps.context.redact(inbound.text)
        if clean is not inbound.text:
            inbound = structs.replace(inbound, text=clean)
        if not waits:
            return QueuedMessage(inbound)
        queued = QueuedMessage(inbound, new_queued_message_id())
        ahead = len(self._mailbox) + 1
        stored = self._recorder.enqueue_message(queued.letter_id, inbound.encode(), first=first)
        show = partial(self._recorder.publish, Queued(inbound.text, ahead, joins))
        stored.add_done_callback(partial(_report_stored, queued, self._mailbox, show))
        return queued

    def _start_task(self) -> None:
        self._idle_event.clear()
        if self._task is None:
            self._task = asyncio.create_task(self._run_queue(), name=f"session {self.session_id}")

    async def _run_queue(self) -> None:
        if self.conversation.lost_turn is not None:
            await self._resume_turn(self.conversation.lost_turn)
        while True:
            if not len(self._mailbox):
                self._idle_event.set()
            await self._mailbox.wait_for_message()
            self._idle_event.clear()
            async with self._turn_lock:  # what waits for the end of other work stands in the mailbox until then
                queued = self._mailbox.take_next()
                if queued is None:
                    continue  # it was taken back
                if self._failure is not None:
                    queued.fail(self._failure)  # it stays in the store, for the process that opens the session next
                elif not queued.failed:
                    await self._answer_message(queued)

    async def _resume_turn(self, lost: ResumedTurn) -> None:
        """Resume the turn of a process that died, from its last stored step."""
        resumed = self._resume_handle = self._resume_handle or QueuedMessage(InboundMessage(text=""))

        async def prepare_state() -> TurnState:
            self._recorder.set_owner(lost.turn_id, lost.fence)
            asked = next((one for one in lost.messages if one.role is Role.USER), lost.messages[0])
            state = _make_turn_state(self._parts, self.conversation, lost.turn_id, asked, self.calls_left, lost)
            from hermes.agent.resume import restore_turn

            restore_turn(state, lost, self._parts.deps.toolbox)
            self.conversation.lost_turn = None
            return state

        await self._run_and_settle(prepare_state(), resumed)

    async def _answer_message(self, queued: QueuedMessage) -> None:
        """Answer one queued message by one turn."""
        if queued.inbound.has_only_results and not self.conversation.open_calls:
            if queued.letter_id:
                self._recorder.take_inbox_rows((queued.letter_id,))
            queued.fail(UsageError("No open call waits for these results.", "They were sent before, or too late."))
            return
        self._working = True
        kept = KeptResults()

        async def prepare_state() -> TurnState:
            nonlocal kept
            await self.epochs.return_to_first_model(self._recorder.emit)
            for hook in self.before_turn:
                await hook()
            if queued.letter_id:
                self._recorder.take_inbox_rows((queued.letter_id,))
            pictures = await self.attachments.take_pictures(queued.inbound.images)
            joining = [*await self.attachments.collect_parts(queued.inbound), *self._deps.steering()]
            user = _make_user_message(self.conversation, queued.inbound, pictures, joining, self._deps.clock.now())
            state = _make_turn_state(self._parts, self.conversation, new_turn_id(), user, self.calls_left)
            _refuse_message(state, self.attachments.refusal)
            if calls := self.conversation.open_calls:
                kept = await self._recorder.read_kept_results()
                known, sent = ({one.call_id: one for one in those} for those in (kept.results, queued.inbound.results))
                state.late_results = build_late_results(calls, known, sent)
            return state

        await self._run_and_settle(prepare_state(), queued)
        if kept.turn_id:
            self._recorder.clear_kept_results(kept)

    async def _run_and_settle(self, preparation: Coroutine[object, object, TurnState], queued: QueuedMessage) -> None:
        """Run a turn, and tell everybody who waits for it how it ended."""
        self.current_turn_end = queued.ended
        try:
            result = await self._run_one_turn(await preparation)
        except asyncio.CancelledError:
            queued.ended.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - handed to the one who waits, see below
            # Whatever broke, those who wait hear of it. What is in memory may be ahead of what is on disk now, so
            # nothing more is said here: whoever opens the session again goes on from the disk.
            self._failure = self._failure or _wrap_failure(error)
            for one in (queued, *self._joined_messages):
                one.fail(error)
        else:
            for one in (queued, *self._joined_messages):
                one.settle(result)
        self._joined_messages.clear()
        self.current_turn_end = None
        self._working, self._resume_handle, self._stop_asked = False, None, False
        self._mailbox.requeue_steering()

    async def _run_one_turn(self, state: TurnState) -> TurnEnded:
        ends: list[TurnEnded] = []
        unsubscribe = self.subscribe(lambda event: ends.append(event) if isinstance(event, TurnEnded) else None)
        self._turn = asyncio.create_task(run_turn(self._deps, state, self._recorder.emit), name=state.turn_id)
        if self._stop_asked:
            self.stop()
        self._stop_asked = False
        try:
            await wait_for_task(self._turn)
        finally:
            unsubscribe()
        result, broken = _read_turn_result(self._turn, state, ends, self._deps.context.redact)
        self._failure = broken or self._failure
        if self.calls_left is not None:
            self.calls_left = max(0, self.calls_left - result.calls)
        if not ends:
            self._recorder.publish(result)
        self.conversation.messages.extend(state.messages)
        if state.messages:
            self.conversation.open_calls = list_open_calls(state.messages)
        await _run_end_hooks(self, state, result, self._deps.context.redact)
        return result

    def take_joining_parts(self) -> list[TextPart]:
        """Return the texts that join the running turn now; with the next message they leave the store's inbox."""
        queued_messages = [one for one in self._mailbox.take_steering() if not one.failed]
        self._joined_messages += queued_messages
        self._recorder.take_inbox_rows([one.letter_id for one in queued_messages if one.letter_id])
        return [part for one in queued_messages for part in _list_parts(one.inbound)]


def _report_stored(
    queued: QueuedMessage, mailbox: SessionMailbox, show: Callable[[], None], done: "asyncio.Future[None]"
) -> None:
    """Show a message as waiting once it is stored; it fails where it could not be."""
    error = None if done.cancelled() else done.exception()
    if isinstance(error, Exception):
        queued.fail(error)
    elif any(one is queued for one in mailbox):  # its turn may have begun while it was being stored
        show()


def _list_parts(inbound: InboundMessage) -> list[TextPart]:
    """Return a message's text, and what is quoted in it."""
    if not inbound.text and inbound.quoted:
        return [*inbound.quoted]
    return [TextPart(text=clean_surrogates(inbound.text), provenance=PERSON), *inbound.quoted]


async def _run_end_hooks(actor: SessionActor, state: TurnState, result: TurnEnded, redact: Redact) -> None:
    """Run the hooks after a turn. One that fails takes neither the answer from its waiter nor the next hook's turn.

    It is logged with its traceback, and every front-end is told; not after a turn that has named such an error itself.
    """
    for hook in tuple(actor.on_turn_end):
        try:
            await hook(state, result)
        except Exception as error:  # noqa: BLE001 - whoever adds a hook may raise anything; the turn is over and stored
            _LOG.exception("what runs after a turn failed in session %s", actor.session_id)
            if result.reason is ExitReason.LOCAL_ERROR:
                continue
            said = N_(
                "The answer stands, but what Hermes does after a turn has failed ({name}: {error}).",
                name=type(error).__name__,
                error=to_one_line(redact(str(error)), 300),
            )
            actor.notify(Level.WARNING, said)


def _make_turn_state(
    parts: ActorParts,
    conversation: LiveConversation,
    turn_id: str,
    user: Message,
    calls_left: int | None,
    resumed: ResumedTurn | None = None,
) -> TurnState:
    """Return the state that a turn begins with; tools know the pictures of its messages from then on."""
    state = TurnState(
        turn_id=turn_id,
        session_id=conversation.session_id,
        user=user,
        lineage=conversation.lineage,
        model=conversation.client,
        budget=TurnBudget(parts.max_turns if calls_left is None else min(parts.max_turns, calls_left)),
        loop_detector=LoopDetector(parts.loop_limits),
        taint=parts.deps.context.state.taint,
        redact_message=parts.recorder.redact_message,
        started_at=parts.deps.clock.monotonic(),
        resumed=resumed,
        housekeeping=parts.deps.toolbox.housekeeping,
    )
    parts.deps.context.state.pictures = ConversationPictures(conversation, state.messages)
    return state


def _refuse_message(state: TurnState, reason: str) -> None:
    """End a turn before its first request where its message is refused; the model is not shown that later either."""
    if not reason:
        return
    state.user = program_message(Role.USER, prompts.HELD_BACK)
    state.end_turn(ExitReason.HOOK_STOPPED, N_("Your message was not sent to the model: {reason}", reason=reason))


def _wrap_failure(error: Exception) -> HermesError:
    if isinstance(error, HermesError):
        return error
    said = N_(
        "This session failed with an internal error of Hermes ({name}: {error}).",
        name=type(error).__name__,
        error=error,
    )
    return StoreError(said, "Open it again: it goes on from what is on disk.")


def _make_user_message(
    conversation: LiveConversation,
    inbound: InboundMessage,
    pictures: Sequence[ImagePart | TextPart],
    joining: Sequence[ImagePart | TextPart],
    now: float,
) -> Message:
    """Return the person's message, with date, time and folder added where they have changed."""
    more: list[ImagePart | TextPart] = [*pictures, *inbound.quoted, *joining]
    if inbound.results and not inbound.text and not more:
        return Message(role=Role.USER, parts=())
    if conversation.frame.tools:
        last_cwd = conversation.last_cwd
        cwd = inbound.cwd or last_cwd or ""  # what sub-agents bring says nothing of a folder
        note = build_turn_note(now, cwd=cwd, last_told=conversation.last_told, last_cwd=last_cwd)
        if note is not None:
            more.append(note)
            conversation.last_told = now
            conversation.last_cwd = cwd
    return user_message(clean_surrogates(inbound.text), *more)


def _read_turn_result(
    turn: "asyncio.Task[TurnEnded]", state: TurnState, ends: Sequence[TurnEnded], redact: Redact
) -> tuple[TurnEnded, HermesError | None]:
    """Return the turn's end, as it was emitted or made from an error that the loop could not name, and that error."""
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
        text=redact("".join(state.answer)),
        error=redact(str(error)),
        calls=state.requests,
        usage=state.usage,
    )
    return ended, error
