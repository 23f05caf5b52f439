"""Live sessions of the gateway: opened when something is said in them, and out of memory again when nothing is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct, field

from hermes.app.resting import is_at_rest, is_wanted, weight
from hermes.app.wiring import App
from hermes.core.errors import BusyError
from hermes.core.events import Event, TurnEnded
from hermes.runtime.actor import SessionActor

Opening = Callable[[], Awaitable[SessionActor]]
Closing = Callable[[], Awaitable[None]]
SWEEP_SECONDS = 30.0
LIGHTEN_SECONDS = 1.0
MOST_BYTES = 4_000_000
"""Bytes of memory that conversations which nobody uses now may take, about."""


class Entry(Struct, eq=False):
    """A live session. It stays while somebody holds it, while it works, and for a while behind that."""

    actor: SessionActor
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
    def idle(self) -> bool:
        """Whether nothing would be lost for anybody if it left the memory now."""
        used = self.holders or self.actor.busy or self.actor.unfinished
        return not used and not any(works() for works in self.working)


class Sessions:
    """The live sessions by id. One is opened once, however many ask for it at the same time."""

    def __init__(self, app: App, *, idle_seconds: float, most: int) -> None:
        self._app = app
        self._idle_seconds = idle_seconds
        self._most = most
        self._entries: dict[str, Entry] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._left = asyncio.Condition()
        self._sweepers: list[asyncio.Task[None]] = []
        self._heavy = asyncio.Event()
        """Something was said since it was looked how much memory the conversations take."""

    def __len__(self) -> int:
        return len(self._entries)

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
                    entry = self._entries[session_id] = Entry(actor, 0.0, str(self._app.live(actor).tools.state.cwd))
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
        for close in reversed(entry.closing):
            await close()
        entry.closing.clear()
        entry.working.clear()
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
                if entry.used_at < late and not is_wanted(self._app.live(entry.actor)):
                    await self.drop(entry.actor.session_id)

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
            weights = {one.actor.session_id: weight(self._app.live(one.actor)) for one in self.live}
            total = sum(weights.values())
            for entry in self._idle():
                if total <= MOST_BYTES:
                    break
                if entry.idle and is_at_rest(self._app.live(entry.actor), entry.cwd):
                    total -= weights.get(entry.actor.session_id, 0)
                    await self.drop(entry.actor.session_id)
            if total > MOST_BYTES and len(self._idle()) < len(self._entries):
                self._heavy.set()  # some still work: they are looked at once they do not
