"""Turns that programs wait for: begun in a live session, heard as they go, stopped when nobody listens any more."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

from hermes.core.errors import HermesError, StoreError
from hermes.core.events import Event, ToolStarted, TurnEnded, TurnResumed, TurnStarted
from hermes.core.stream import ReasoningDelta, TextDelta
from hermes.gateway.request_sessions import Front, Wish
from hermes.gateway.text.links import harmless
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.egress_filter import leaving

BETWEEN = "\n\n"
"""Between what is said before a tool runs and what is said behind it."""
Posting = Callable[[SessionActor], Awaitable["asyncio.Future[TurnEnded]"]]
"""Says something to a session; gives the end of the turn that answers it."""


class Turn:
    """One turn. What it says and does waits here until somebody takes it; text that waits is joined, so that a slow
    reader costs what the answer is long and no more."""

    def __init__(self, app: App, actor: SessionActor, ended: "asyncio.Future[TurnEnded]", *, asks: bool) -> None:
        self.actor = actor
        self.ended = ended
        self.turn_id = ""
        self._app = app
        self._asks = asks
        self._items: deque[Event] = deque()
        self._news = asyncio.Event()
        self._stopped = False
        self._unsubscribe = actor.subscribe(self._hear)
        ended.add_done_callback(self._over)

    async def events(self, pause: float) -> AsyncGenerator[Event | None, None]:
        """What happens, to the end; None whenever nothing did for so many seconds."""
        while True:
            while self._items:
                yield self._items.popleft()
            if self.ended.done():
                return
            self._news.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._news.wait()
            except TimeoutError:
                yield None

    async def result(self) -> TurnEnded:
        """How it ended. Raises HermesError when the session could not go on."""
        await asyncio.wait({self.ended})
        if self.ended.cancelled():
            raise StoreError("The gateway ends; the turn goes on when it is back.", "Ask again later.")
        return self.ended.result()

    def stop(self) -> None:
        """Stop it: now where it runs, else as soon as it does."""
        self._stopped = True
        if not self.ended.done() and self.actor.answering is self.ended:
            self.actor.stop()

    def outlet(self) -> "Outlet":
        """Where its text goes out by pieces."""
        return Outlet(self._app, self.actor)

    def _hear(self, event: Event) -> None:
        if self.actor.answering is not self.ended:
            return
        if isinstance(event, TurnStarted | TurnResumed):
            self.turn_id = event.turn_id
            self.actor.approvals.can_ask = self._asks
            if self._stopped:
                self.actor.stop()
        last = self._items[-1] if self._items else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            self._items[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            self._items[-1] = ReasoningDelta(last.text + event.text)
        else:
            self._items.append(event)
        self._news.set()

    def _over(self, ended: "asyncio.Future[TurnEnded]") -> None:
        self._unsubscribe()
        self.actor.approvals.can_ask = False
        if not ended.cancelled() and ended.exception() is None:
            self.turn_id = ended.result().turn_id
        self._news.set()


class Outlet:
    """Text on its way out, piece by piece. While strangers' words stand in the conversation it goes by paragraphs, with
    nothing in it that is fetched by being shown (T15)."""

    def __init__(self, app: App, actor: SessionActor) -> None:
        self._app = app
        self._actor = actor
        self._held = ""
        self.text = ""
        """What has gone out."""

    def feed(self, text: str) -> str:
        """What can go out now."""
        if not self._held and not self._tainted:
            self.text += text
            return text
        self._held += text
        end = _border(self._held)
        if not end:
            return ""
        ready, self._held = self._held[:end], self._held[end:]
        return self._out(ready)

    def rest(self) -> str:
        """What was held back."""
        ready, self._held = self._held, ""
        return self._out(ready) if ready else ""

    def whole(self, text: str) -> str:
        """A text that goes out at once."""
        return self._out(text)

    @property
    def _tainted(self) -> bool:
        return bool(self._app.live(self._actor).tools.context.state.taint.sources())

    def _out(self, text: str) -> str:
        safe = self._safe(text)
        self.text += safe
        return safe

    def _safe(self, text: str) -> str:
        out = leaving(self._app.premises, self._app.live(self._actor)) if self._tainted else None
        return harmless(text, out.allowed) if out is not None else text


def _border(text: str) -> int:
    """Where the last paragraph that is whole ends, outside of code; 0: nowhere."""
    end = text.rfind("\n\n")
    while end >= 0:
        before = text[: end + 2]
        if before.count("```") % 2 == 0 and before.count("~~~") % 2 == 0:
            return end + 2
        end = text.rfind("\n\n", 0, end)
    return 0


class Speech:
    """A turn as it is told to a program: text in pieces, what tools do, and None for every pause."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.ended: TurnEnded | None = None
        """How it ended, once it has."""
        self._outlet = turn.outlet()
        self._segment = False
        """Whether something was said since the last tool began."""

    @property
    def text(self) -> str:
        """All that was told."""
        return self._outlet.text

    async def pieces(self, pause: float) -> AsyncGenerator[str | Event | None, None]:
        """Everything, to the end. Raises HermesError when the session could not go on."""
        async for event in self.turn.events(pause):
            if isinstance(event, TextDelta):
                apart = BETWEEN if not self._segment and self.text else ""
                self._segment = True
                if text := self._outlet.feed(apart + event.text):
                    yield text
            else:
                if isinstance(event, ToolStarted):
                    if rest := self._outlet.rest():
                        yield rest
                    self._segment = False
                yield event
        self.ended = await self.turn.result()
        last = self._outlet.rest()
        if not self._segment and self.ended.text:
            last += self._outlet.whole((BETWEEN if self.text else "") + self.ended.text)
        if last:
            yield last


class Turns:
    """Begins turns, and keeps their sessions in memory until they have ended, whoever listens."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, wish: Wish, post: Posting, *, asks: bool = False) -> Turn:
        """Open the session and say something to it. Raises what opening raises, and what `post` does."""
        ready: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._hold(wish, post, ready, asks=asks), name=f"turn of {wish.session_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(ready)
        except asyncio.CancelledError:
            ready.add_done_callback(_stop)
            raise

    async def close(self) -> None:
        """Stop waiting for them; what runs is closed with its session."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _hold(self, wish: Wish, post: Posting, ready: "asyncio.Future[Turn]", *, asks: bool) -> None:
        broken = False
        try:
            async with self._front.session(wish) as actor:
                ended = await post(actor)
                ready.set_result(Turn(self._front.app, actor, ended, asks=asks))
                await asyncio.wait({ended})
                broken = not ended.cancelled() and ended.exception() is not None
        except (HermesError, OSError) as error:
            ready.set_exception(error)
        finally:
            if not ready.done():
                ready.cancel()
        if broken:  # what is in memory may differ from what is on disk
            await self._front.drop(wish.session_id)


def _stop(ready: "asyncio.Future[Turn]") -> None:
    if not ready.cancelled() and ready.exception() is None:
        ready.result().stop()
