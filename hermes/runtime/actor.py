"""One live session: what is said to it waits in a mailbox and is answered strictly in order."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermes.agent.budget import Budget
from hermes.agent.loop import run_turn
from hermes.agent.turn import Deps, TurnState
from hermes.context.turn_notes import turn_note
from hermes.core.errors import BusyError, HermesError, StoreError
from hermes.core.events import Level, Notice, TurnEnded
from hermes.core.ids import new_turn_id
from hermes.core.messages import Message, user_message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ImagePart, TextPart
from hermes.runtime.approvals import Approvals
from hermes.runtime.conversation import Conversation
from hermes.runtime.recorder import Recorder, Subscriber
from hermes.util.scopes import finished
from hermes.util.text import clean_surrogates

MAILBOX_LIMIT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """What a person says: text, pictures, and the folder they said it in."""

    text: str
    images: tuple[ImagePart, ...] = ()
    cwd: str = ""


class SessionActor:
    """Runs the turns of one session. Made by the application's wiring; `close` ends it and whatever it runs."""

    def __init__(
        self, conversation: Conversation, deps: Deps, recorder: Recorder, approvals: Approvals, *, max_turns: int
    ) -> None:
        self.conversation = conversation
        self.approvals = approvals
        self._deps = deps
        self._recorder = recorder
        self._max_turns = max_turns
        self._mailbox: asyncio.Queue[tuple[Inbound, asyncio.Future[TurnEnded]]] = asyncio.Queue(MAILBOX_LIMIT)
        self._turn: asyncio.Task[TurnEnded] | None = None
        self._task: asyncio.Task[None] | None = None
        self._broken: StoreError | None = None
        self.on_turn_end: list[Callable[[TurnState, TurnEnded], Awaitable[None]]] = []
        """What is done after each turn, in order, before its waiter hears of its end."""

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.conversation.session_id

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Show every event from now on to `subscriber`, which must not block; returns how to stop that."""
        self._recorder.subscribers.append(subscriber)
        return lambda: self._recorder.subscribers.remove(subscriber)

    def post(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Put a message into the mailbox; the future is the end of its turn.

        Raises BusyError when the mailbox is full, and StoreError once a turn could not be written: what is in memory
        then is more than what is on disk, and the session must be opened again to go on from there.
        """
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"session {self.session_id}")
        if self._broken is not None:
            raise self._broken
        ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()
        try:
            self._mailbox.put_nowait((inbound, ended))
        except asyncio.QueueFull:
            raise BusyError(f"{MAILBOX_LIMIT} messages are waiting in this session already.", "Try later.") from None
        return ended

    def stop(self) -> bool:
        """Stop the running turn; False when none runs. A second stop of the same turn gives running tools no time."""
        if self._turn is None or self._turn.done():
            return False
        self._turn.cancel()
        return True

    def notify(self, level: Level, text: str) -> None:
        """Show a line to whoever watches this session."""
        self._recorder.publish(Notice(level=level, text=text))

    async def close(self) -> None:
        """Stop what runs, turn away what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        while not self._mailbox.empty():
            self._mailbox.get_nowait()[1].cancel()
        await self._recorder.flush()

    async def _run(self) -> None:
        while True:
            inbound, ended = await self._mailbox.get()
            try:
                result = await self._one_turn(inbound)
            except asyncio.CancelledError:
                ended.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - handed to the one who waits, see below
                # Whatever broke, the one who waits hears of it; the actor lives on for the next message.
                if not ended.cancelled():
                    ended.set_exception(error)
                continue
            if not ended.cancelled():
                ended.set_result(result)

    async def _one_turn(self, inbound: Inbound) -> TurnEnded:
        state = TurnState(
            turn_id=new_turn_id(),
            session_id=self.session_id,
            user=self._user_message(inbound),
            lineage=self.conversation.lineage,
            budget=Budget(self._max_turns),
        )
        ends: list[TurnEnded] = []
        unsubscribe = self.subscribe(lambda event: ends.append(event) if isinstance(event, TurnEnded) else None)
        self._turn = asyncio.create_task(run_turn(self._deps, state, self._recorder.emit), name=state.turn_id)
        try:
            await finished(self._turn)
        finally:
            unsubscribe()
        result = self._result(state, ends)
        self.conversation.messages.extend(state.messages)
        for hook in self.on_turn_end:
            await hook(state, result)
        return result

    def _result(self, state: TurnState, ends: Sequence[TurnEnded]) -> TurnEnded:
        """The turn's end: as it was emitted, or what an error that the loop could not name says."""
        assert self._turn is not None
        if ends:
            return ends[-1]
        if self._turn.cancelled():  # stopped before its first step: nothing of it was begun
            ended = TurnEnded(turn_id=state.turn_id, reason=ExitReason.INTERRUPTED)
            self._recorder.publish(ended)
            return ended
        error = self._turn.exception()
        if isinstance(error, StoreError):
            self._broken = error
        if isinstance(error, HermesError):
            ended = TurnEnded(
                turn_id=state.turn_id,
                reason=ExitReason.LOCAL_ERROR,
                error=str(error),
                calls=state.requests,
                usage=state.usage,
            )
            self._recorder.publish(ended)
            return ended
        return self._turn.result()

    def _user_message(self, inbound: Inbound) -> Message:
        """The person's message, with date, time and folder frozen into it where they are news."""
        conversation = self.conversation
        now = self._deps.clock.now()
        more: list[ImagePart | TextPart] = [*inbound.images, *self._deps.steering()]
        if conversation.frame.tools:
            note = turn_note(now, cwd=inbound.cwd, last_told=conversation.last_told, last_cwd=conversation.last_cwd)
            if note is not None:
                more.append(note)
                conversation.last_told = now
                conversation.last_cwd = inbound.cwd
        return user_message(clean_surrogates(inbound.text), *more)
