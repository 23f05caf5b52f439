"""Live sessions of the gateway: opened when something is said in them, and out of memory again when nothing is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct, field

from hermes.app.port import SessionPort
from hermes.app.wiring import App
from hermes.core.errors import BusyError
from hermes.gateway.watch import Watch
from hermes.runtime.actor import SessionActor
from hermes.util.say import phrase

Opening = Callable[[], Awaitable[SessionPort]]
Closing = Callable[[], Awaitable[None]]
SWEEP_SECONDS = 30.0


class Entry(Struct, eq=False):
    """A live session. It stays while somebody holds it, while it works, and for a while behind that."""

    actor: SessionPort
    used_at: float
    """By the loop's clock."""
    holders: int = 0
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
        return not self.holders and not self.actor.busy and not self.actor.unfinished


class Sessions:
    """The live sessions by id. One is opened once, however many ask for it at the same time."""

    def __init__(self, app: App, watch: Watch, *, idle_seconds: float, most: int) -> None:
        self._app = app
        self._watch = watch
        self._idle_seconds = idle_seconds
        self._most = most
        self._entries: dict[str, Entry] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._left = asyncio.Condition()
        self._sweeper: asyncio.Task[None] | None = None

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
        self._sweeper = asyncio.create_task(self._sweep(), name="idle sessions")

    async def get(self, session_id: str, opening: Opening) -> Entry:
        """The live session of this id, opened with `opening` where it is not. Raises what that raises."""
        entry = self._entries.get(session_id)
        if entry is None:
            async with self._opening.setdefault(session_id, asyncio.Lock()):
                entry = self._entries.get(session_id)
                if entry is None:
                    await self._room()
                    entry = self._entries[session_id] = Entry(await opening(), 0.0)
                    entry.actor.subscribe(self._watch.hearing(session_id))
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
            entry.holders -= 1
            entry.used_at = asyncio.get_running_loop().time()

    async def drop(self, session_id: str) -> None:
        """Close a live session, whatever it does; what it leaves goes on when it is opened next."""
        entry = self._entries.pop(session_id, None)
        if entry is None:
            return
        self._watch.place(session_id, "")
        for close in reversed(entry.closing):
            await close()
        if isinstance(entry.actor, SessionActor):
            await self._app.close_session(entry.actor)
        async with self._left:
            self._left.notify_all()

    async def close(self) -> None:
        """Close every session; turns that run stay open, and go on at the next start."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait({self._sweeper})
        for session_id, entry in list(self._entries.items()):
            if isinstance(entry.actor, SessionActor):
                entry.actor.stays_open = True
            await self.drop(session_id)

    async def _room(self) -> None:
        """Wait until one more fits, the one that was used longest ago making room where it is idle."""
        while len(self._entries) >= self._most:
            oldest = min((one for one in self._entries.values() if one.idle), key=lambda one: one.used_at, default=None)
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
            for entry in self.live:
                if entry.idle and entry.used_at < late:
                    await self.drop(entry.actor.session_id)
