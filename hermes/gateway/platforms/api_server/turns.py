"""Turns that programs wait for: begun in a live session, streamed as they run, stopped when nobody listens."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

from msgspec import structs

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event, MessageAppended, ToolEnded, ToolStarted, TurnEnded, TurnResumed, TurnStarted
from hermes.core.messages import Role, ToolCallPart
from hermes.core.outcomes import ExitReason
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.gateway.platform import GatewayFacade, SessionRequest
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressTextFilter
from hermes.util.cancellation import cancel_tasks

TEXT_SEPARATOR = "\n\n"
"""Separates the text before a tool runs from the text after it."""
_LIMITS = frozenset({ExitReason.GUARDRAIL_HALT, ExitReason.BUDGET_EXHAUSTED})
"""Ends by which Hermes itself stops a turn that goes on too long or in a circle."""
PostMessage = Callable[[SessionActor], Awaitable["asyncio.Future[TurnEnded]"]]
"""Posts a message to a session; returns the future of the turn that answers it."""


class ApiTurn:
    """One turn. Its events wait here until they are taken; waiting text is joined, so that a slow reader costs
    only the length of the answer.
    """

    def __init__(self, app: App, actor: SessionActor, ended: "asyncio.Future[TurnEnded]", *, can_ask: bool) -> None:
        self.actor = actor
        self.ended = ended
        self.turn_id = ""
        self._app = app
        self._can_ask = can_ask
        self._items: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._stopped = False
        self._caller_tools = {one.name for one in app.live_session(actor).options.extra_tools if one.runs_at_caller}
        self._calls: dict[str, ToolCallPart] = {}
        self._unsubscribe = actor.subscribe(self._on_event)
        ended.add_done_callback(self._on_ended)

    async def iter_events(self, pause: float) -> AsyncGenerator[Event | None, None]:
        """Yield the turn's events to the end; None whenever nothing happened for so many seconds."""
        while True:
            while self._items:
                yield self._items.popleft()
            if self.ended.done():
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                yield None

    async def wait_result(self) -> TurnEnded:
        """Wait for the turn's end and return it. Raises HermesError when the session could not continue."""
        await asyncio.wait({self.ended})
        if self.ended.cancelled():
            raise StoreError("The gateway ends; the turn goes on when it is back.", "Ask again later.")
        ended = self.ended.result()
        # A limit of ours has ended it: asking again meets the same one, so its reason is the answer.
        return structs.replace(ended, text=ended.error) if ended.reason in _LIMITS and not ended.text else ended

    @property
    def open_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls that the caller is to run: the turn has ended with them."""
        return tuple(self._calls.values())

    def _note_calls(self, event: Event) -> None:
        if isinstance(event, MessageAppended) and event.message.role is Role.ASSISTANT:
            self._calls = {one.call_id: one for one in event.message.tool_calls() if one.name in self._caller_tools}
        elif isinstance(event, ToolEnded):  # one that could not be handed over
            self._calls.pop(event.call_id, None)

    def stop(self) -> None:
        """Stop the turn: now where it runs, else as soon as it does."""
        self._stopped = True
        if not self.ended.done() and self.actor.current_turn_end is self.ended:
            self.actor.stop()

    def make_text_filter(self) -> EgressTextFilter:
        """Return a filter for the turn's text."""
        return EgressTextFilter(self._app, self.actor)

    def _on_event(self, event: Event) -> None:
        if self.actor.current_turn_end is not self.ended:
            return
        if isinstance(event, TurnStarted | TurnResumed):
            self.turn_id = event.turn_id
            self.actor.approvals.can_ask = self._can_ask
            if self._stopped:
                self.actor.stop()
        if self._caller_tools:
            self._note_calls(event)
        last = self._items[-1] if self._items else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            self._items[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            self._items[-1] = ReasoningDelta(last.text + event.text)
        else:
            self._items.append(event)
        self._changed.set()

    def _on_ended(self, ended: "asyncio.Future[TurnEnded]") -> None:
        self._unsubscribe()
        self.actor.approvals.can_ask = False
        if not ended.cancelled() and ended.exception() is None:
            self.turn_id = ended.result().turn_id
        self._changed.set()


@contextlib.contextmanager
def stop_when_abandoned(turn: "ApiTurn | TurnStream") -> Iterator[None]:
    """Stop the turn when nobody waits for its answer any more."""
    try:
        yield
    except (asyncio.CancelledError, ConnectionError):
        turn.stop()
        raise


class TurnStream:
    """A turn as it is streamed to a program: text in pieces, the events of tools, and None for every pause."""

    def __init__(self, turn: ApiTurn) -> None:
        self.turn = turn
        self.ended: TurnEnded | None = None
        """The turn's end, once it has ended."""
        self._text_filter = turn.make_text_filter()
        self._segment_has_text = False
        """Whether there was text since the last tool began."""

    @property
    def text(self) -> str:
        """All text that was streamed."""
        return self._text_filter.text

    def stop(self) -> None:
        """Stop the turn."""
        self.turn.stop()

    async def wait_answer(self) -> tuple[TurnEnded, str]:
        """Wait for the turn's end and return it with the answer, the last text that was said. Raises HermesError when
        the session could not continue.
        """
        self.ended = await self.turn.wait_result()
        return self.ended, self._text_filter.filter_whole(self.ended.text)

    async def iter_pieces(self, pause: float) -> AsyncGenerator[str | Event | None, None]:
        """Yield text, events and pauses to the end. Raises HermesError when the session could not continue."""
        async for event in self.turn.iter_events(pause):
            if isinstance(event, TextDelta):
                apart = TEXT_SEPARATOR if not self._segment_has_text and self.text else ""
                self._segment_has_text = True
                if text := self._text_filter.feed_text(apart + event.text):
                    yield text
            else:
                if isinstance(event, ToolStarted):
                    if rest := self._text_filter.flush_text():
                        yield rest
                    self._segment_has_text = False
                yield event
        self.ended = await self.turn.wait_result()
        last = self._text_filter.flush_text()
        if not self._segment_has_text and self.ended.text:
            last += self._text_filter.filter_whole((TEXT_SEPARATOR if self.text else "") + self.ended.text)
        if last:
            yield last


class ApiTurns:
    """Begins turns, and keeps their sessions in memory until they have ended, whoever listens."""

    def __init__(self, gateway: GatewayFacade) -> None:
        self._gateway = gateway
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin_turn(self, session_request: SessionRequest, post: PostMessage, *, can_ask: bool = False) -> ApiTurn:
        """Open the session and post a message to it. Raises what opening raises, and what `post` raises."""
        ready: asyncio.Future[ApiTurn] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(
            self._hold_session(session_request, post, ready, can_ask=can_ask),
            name=f"turn of {session_request.session_id}",
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(ready)
        except asyncio.CancelledError:
            ready.add_done_callback(_stop_turn)
            raise

    async def close(self) -> None:
        """Stop waiting for turns; running ones are closed with their sessions."""
        await cancel_tasks(self._tasks)

    async def _hold_session(
        self, session_request: SessionRequest, post: PostMessage, ready: "asyncio.Future[ApiTurn]", *, can_ask: bool
    ) -> None:
        broken = False
        try:
            async with self._gateway.hold_session(session_request) as actor:
                ended = await post(actor)
                ready.set_result(ApiTurn(self._gateway.app, actor, ended, can_ask=can_ask))
                await asyncio.wait({ended})
                broken = not ended.cancelled() and ended.exception() is not None
        except (HermesError, OSError) as error:
            ready.set_exception(error)
        finally:
            if not ready.done():
                ready.cancel()
        if broken:  # what is in memory may differ from what is on disk
            await self._gateway.drop_session(session_request.session_id)


def _stop_turn(ready: "asyncio.Future[ApiTurn]") -> None:
    if not ready.cancelled() and ready.exception() is None:
        ready.result().stop()
