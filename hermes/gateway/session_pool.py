"""Live sessions of the gateway: opened when something is said in them, and out of memory again when nothing is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hermes.core.errors import BusyError
from hermes.core.events import Event, TurnEnded
from hermes.gateway.telemetry import Watch
from hermes.i18n.messages import phrase
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.eviction import is_at_rest, is_wanted, weight
from hermes.sessions.port import SessionPort
from hermes.util.garbage_collection import give_back

if TYPE_CHECKING:
    from hermes.sessions.session_builder import Live

Opening = Callable[[], Awaitable[SessionPort]]
Closing = Callable[[], Awaitable[None]]
SWEEP_SECONDS = 30.0
LIGHTEN_SECONDS = 1.0
MOST_BYTES = 16_000_000
"""Bytes of memory that conversations which nobody uses now may take, about."""


class Entry(Struct, eq=False):
    """A live session. It stays while somebody holds it, while it works, and for a while behind that."""

    actor: SessionPort
    used_at: float
    """By the loop's clock."""
    cwd: str
    """The folder in which its tools began."""
    holders: int = 0
    working: list[Callable[[], bool]] = field(default_factory=list)
    """Who has something left to do with it."""
    closing: list[Closing] = field(default_factory=list)
    """What is closed before it is."""

    @property
    def local(self) -> SessionActor:
        """The session itself. Raises BusyError where it lives in another process, in which this one takes part."""
        if not isinstance(self.actor, SessionActor):
            raise BusyError(
                phrase("Session {id} is open in a terminal.", id=self.actor.session_id), phrase("Close it there.")
            )
        return self.actor

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost for anybody if it left the memory now."""
        used = self.holders or self.actor.busy or self.actor.unfinished
        return not used and not any(works() for works in self.working)


class Sessions:
    """The live sessions by id. One is opened once, however many ask for it at the same time."""

    def __init__(self, app: App, watch: Watch, *, idle_seconds: float, most: int) -> None:
        self._app = app
        self._watch = watch
        self._idle_seconds = idle_seconds
        self._most = most
        self._entries: dict[str, Entry] = {}
        self._dropped = False
        """Whether a session has left the memory since it was given back."""
        self._opening: dict[str, asyncio.Lock] = {}
        self._left = asyncio.Condition()
        self._sweepers: list[asyncio.Task[None]] = []
        self._heavy = asyncio.Event()
        """Something was said since it was looked how much memory the conversations take."""

    def __len__(self) -> int:
        return len(self._entries)

    def has(self, session_id: str) -> bool:
        """Whether this session is live."""
        return session_id in self._entries

    @property
    def live(self) -> list[Entry]:
        """Every live session."""
        return list(self._entries.values())

    @property
    def working(self) -> int:
        """How many sessions run a turn."""
        return sum(one.actor.busy for one in self._entries.values())

    def start(self) -> None:
        """Let idle sessions go, from now on."""
        self._sweepers = [
            asyncio.create_task(self._sweep(), name="idle sessions"),
            asyncio.create_task(self._lighten(), name="heavy sessions"),
        ]

    async def get(self, session_id: str, opening: Opening) -> Entry:
        """The live session of this id, opened with `opening` where it is not. Raises what that raises."""
        entry = self._entries.get(session_id)
        if entry is None:
            async with self._opening.setdefault(session_id, asyncio.Lock()):
                entry = self._entries.get(session_id)
                if entry is None:
                    await self._room()
                    actor = await opening()
                    actor.subscribe(self._said)
                    actor.subscribe(self._watch.hearing(session_id))
                    entry = self._entries[session_id] = Entry(actor, 0.0, self._folder(actor))
            self._opening.pop(session_id, None)
        entry.used_at = asyncio.get_running_loop().time()
        return entry

    @contextlib.asynccontextmanager
    async def hold(self, session_id: str, opening: Opening) -> AsyncIterator[Entry]:
        """The same, kept in memory while the context lasts."""
        entry = await self.get(session_id, opening)
        entry.holders += 1
        try:
            yield entry
        finally:
            self.release(entry)

    def release(self, entry: Entry) -> None:
        """Hold a session no longer."""
        entry.holders -= 1
        entry.used_at = asyncio.get_running_loop().time()
        self._heavy.set()

    async def drop(self, session_id: str) -> None:
        """Close a live session, whatever it does; what it leaves goes on when it is opened next."""
        entry = self._entries.pop(session_id, None)
        if entry is None:
            return
        self._watch.place(session_id, "")
        for close in reversed(entry.closing):
            await close()
        entry.closing.clear()
        entry.working.clear()
        self._dropped = True
        if isinstance(entry.actor, SessionActor):
            await self._app.close_session(entry.actor)
        async with self._left:
            self._left.notify_all()

    async def close(self) -> None:
        """Close every session; turns that run stay open, and go on at the next start."""
        for task in self._sweepers:
            task.cancel()
        if self._sweepers:
            await asyncio.wait(self._sweepers)
        for session_id, entry in list(self._entries.items()):
            if isinstance(entry.actor, SessionActor):
                entry.actor.stays_open = True
            await self.drop(session_id)

    def _said(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self._heavy.set()

    async def _room(self) -> None:
        """Wait until one more fits, the one that was used longest ago making room where it is idle."""
        while len(self._entries) >= self._most:
            oldest = next(iter(self._idle()), None)
            if oldest is not None:
                await self.drop(oldest.actor.session_id)
                continue
            try:
                async with asyncio.timeout(SWEEP_SECONDS), self._left:
                    await self._left.wait()
            except TimeoutError:
                raise BusyError(f"{self._most} sessions work already.", "Try later.") from None

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            late = asyncio.get_running_loop().time() - self._idle_seconds
            for entry in self._idle():
                live = self._live_of(entry)
                if entry.used_at < late and (live is None or not is_wanted(live)):
                    await self.drop(entry.actor.session_id)
            if self._dropped:
                self._dropped = False
                await asyncio.to_thread(give_back)

    def _live_of(self, entry: Entry) -> "Live | None":
        """The session with all it is made of; None where it lives in another process."""
        return self._app.live(entry.actor) if isinstance(entry.actor, SessionActor) else None

    def _folder(self, actor: SessionPort) -> str:
        return str(self._app.live(actor).tools.state.cwd) if isinstance(actor, SessionActor) else ""

    def _idle(self) -> list[Entry]:
        """Those that nobody uses, the one that was used longest ago first."""
        return sorted((one for one in self._entries.values() if one.idle), key=lambda one: one.used_at)

    async def _lighten(self) -> None:
        """Let idle sessions go once conversations take much memory: bringing one back costs a few milliseconds, and
        what is in memory then grows with those who talk now, not with all that was ever said."""
        while True:
            await self._heavy.wait()
            await asyncio.sleep(LIGHTEN_SECONDS)
            self._heavy.clear()
            lives = {one.actor.session_id: live for one in self.live if (live := self._live_of(one)) is not None}
            weights = {name: weight(live) for name, live in lives.items()}
            total = sum(weights.values())
            del lives
            for entry in self._idle():
                if total <= MOST_BYTES:
                    break
                rests = self._live_of(entry)
                if rests is not None and entry.idle and is_at_rest(rests, entry.cwd):
                    total -= weights.get(entry.actor.session_id, 0)
                    await self.drop(entry.actor.session_id)
            if total > MOST_BYTES and len(self._idle()) < len(self._entries):
                self._heavy.set()  # some still work: they are looked at once they do not
