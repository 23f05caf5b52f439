"""The pool of live sessions: opened when a message comes in, evicted when idle.

Decide whether a live session may be evicted, and estimate the memory that it takes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field

from hermes.core.errors import BusyError
from hermes.core.events import Event, TurnEnded
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.messages import N_
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort
from hermes.util.garbage_collector import release_free_memory

if TYPE_CHECKING:
    from hermes.sessions.session_builder import LiveSession

_MEMORY_PER_BYTE = 2
"""Bytes of memory per byte of the encoded conversation: the buffer with room to grow, and the packed messages."""


def has_live_state(live_session: "LiveSession") -> bool:
    """Return whether the session holds something that only a live session has.

    That is what the user allowed or chose for it, and programs that run in the background.
    """
    leave, overrides = live_session.tools.gate.session_grants, live_session.overrides
    allowed = bool(leave.grants or leave.refused_subjects or leave.yolo)
    chosen = overrides.effort is not None or overrides.personality is not None or overrides.enabled is not None
    return allowed or chosen or bool(live_session.tools.state.processes.list_running())


def is_evictable(live_session: "LiveSession", cwd: str) -> bool:
    """Return whether nothing would be lost: also no folder, variable or todo list of its tools."""
    state = live_session.tools.state
    elsewhere = str(state.cwd) != cwd or bool(state.environment or state.unset or state.todos or state.one_time_writes)
    return not elsewhere and not has_live_state(live_session)


def memory_bytes(live_session: "LiveSession") -> int:
    """Estimate the bytes of memory that its conversation takes."""
    return live_session.actor.conversation.lineage.message_bytes * _MEMORY_PER_BYTE


OpenPort = Callable[[], Awaitable[SessionPort]]
CloseCallback = Callable[[], Awaitable[None]]
SWEEP_SECONDS = 30.0
SHED_SECONDS = 1.0
MAX_IDLE_BYTES = 16_000_000
"""Bytes of memory, estimated, that idle conversations may take."""


class PooledSession(Struct, eq=False):
    """A live session. It stays while somebody holds it, while it works, and for a while after that."""

    actor: SessionPort
    used_at: float
    """When it was last used, by the loop's clock."""
    cwd: str
    """The folder in which its tools began."""
    holders: int = 0
    busy_checks: list[Callable[[], bool]] = field(default_factory=list)
    """Callbacks that return whether somebody has work left with it."""
    close_callbacks: list[CloseCallback] = field(default_factory=list)
    """Callbacks that run before it is closed."""

    @property
    def local(self) -> SessionActor:
        """The session's actor. Raises BusyError where it lives in another process that this one has joined."""
        if not isinstance(self.actor, SessionActor):
            raise BusyError(N_("Session {id} is open in a terminal.", id=self.actor.session_id), N_("Close it there."))
        return self.actor

    @property
    def is_idle(self) -> bool:
        """Whether nobody would lose anything if it left the memory now."""
        used = self.holders or self.actor.busy or self.actor.unfinished
        return not used and not any(works() for works in self.busy_checks)


class SessionPool:
    """The live sessions by id. A session is opened once, however many ask for it at the same time."""

    def __init__(self, app: App, telemetry: Telemetry, *, idle_seconds: float, max_live: int) -> None:
        self._app = app
        self._telemetry = telemetry
        self._idle_seconds = idle_seconds
        self._max_live = max_live
        self._entries: dict[str, PooledSession] = {}
        self._memory_freed = False
        """Whether a session has left the memory since it was returned to the system."""
        self._opening: dict[str, asyncio.Lock] = {}
        self._drop_condition = asyncio.Condition()
        self._sweepers: list[asyncio.Task[None]] = []
        self._recheck_memory = asyncio.Event()
        """Set when a turn or holder has ended since memory use was last checked."""

    def __len__(self) -> int:
        return len(self._entries)

    def has_session(self, session_id: str) -> bool:
        """Return whether this session is live."""
        return session_id in self._entries

    @property
    def live_sessions(self) -> list[PooledSession]:
        """Every live session."""
        return list(self._entries.values())

    @property
    def working_count(self) -> int:
        """The number of sessions that run a turn."""
        return sum(one.actor.busy for one in self._entries.values())

    def start(self) -> None:
        """Start evicting idle sessions."""
        self._sweepers = [
            asyncio.create_task(self._evict_idle(), name="idle sessions"),
            asyncio.create_task(self._evict_heavy(), name="heavy sessions"),
        ]

    async def get_or_open(self, session_id: str, open_port: OpenPort) -> PooledSession:
        """Return the live session of this id, opened with `open_port` where it is not. Raises what that raises."""
        entry = self._entries.get(session_id)
        if entry is None:
            async with self._opening.setdefault(session_id, asyncio.Lock()):
                entry = self._entries.get(session_id)
                if entry is None:
                    await self._wait_for_room()
                    actor = await open_port()
                    actor.subscribe(self._on_event)
                    actor.subscribe(self._telemetry.session_listener(session_id))
                    entry = self._entries[session_id] = PooledSession(actor, 0.0, self._initial_cwd(actor))
            self._opening.pop(session_id, None)
        entry.used_at = asyncio.get_running_loop().time()
        return entry

    @contextlib.asynccontextmanager
    async def hold(self, session_id: str, open_port: OpenPort) -> AsyncIterator[PooledSession]:
        """Keep a session in memory while the context lasts, opened where it is not live."""
        entry = await self.get_or_open(session_id, open_port)
        entry.holders += 1
        try:
            yield entry
        finally:
            self.release(entry)

    def release(self, entry: PooledSession) -> None:
        """Release a held session."""
        entry.holders -= 1
        entry.used_at = asyncio.get_running_loop().time()
        self._recheck_memory.set()

    async def drop_session(self, session_id: str) -> None:
        """Close a live session, even while it works; its unfinished work goes on when it is opened next."""
        entry = self._entries.pop(session_id, None)
        if entry is None:
            return
        self._telemetry.set_lane(session_id, "")
        for close in reversed(entry.close_callbacks):
            await close()
        entry.close_callbacks.clear()
        entry.busy_checks.clear()
        self._memory_freed = True
        if isinstance(entry.actor, SessionActor):
            await self._app.close_session(entry.actor)
        async with self._drop_condition:
            self._drop_condition.notify_all()

    async def close(self) -> None:
        """Close every session; turns that run stay open, and go on at the next start."""
        for task in self._sweepers:
            task.cancel()
        if self._sweepers:
            await asyncio.wait(self._sweepers)
        for session_id, entry in list(self._entries.items()):
            if isinstance(entry.actor, SessionActor):
                entry.actor.stays_open = True
            await self.drop_session(session_id)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self._recheck_memory.set()

    async def _wait_for_room(self) -> None:
        """Wait until one more session fits, evicting the idle one that was used longest ago."""
        while len(self._entries) >= self._max_live:
            oldest = next(iter(self._idle_sessions()), None)
            if oldest is not None:
                await self.drop_session(oldest.actor.session_id)
                continue
            try:
                async with asyncio.timeout(SWEEP_SECONDS), self._drop_condition:
                    await self._drop_condition.wait()
            except TimeoutError:
                raise BusyError(f"{self._max_live} sessions work already.", "Try later.") from None

    async def _evict_idle(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            late = asyncio.get_running_loop().time() - self._idle_seconds
            for entry in self._idle_sessions():
                live = self._live_session(entry)
                if entry.used_at < late and (live is None or not has_live_state(live)):
                    await self.drop_session(entry.actor.session_id)
            if self._memory_freed:
                self._memory_freed = False
                await asyncio.to_thread(release_free_memory)

    def _live_session(self, entry: PooledSession) -> "LiveSession | None":
        """Return the session with all its parts; None where it lives in another process."""
        return self._app.live_session(entry.actor) if isinstance(entry.actor, SessionActor) else None

    def _initial_cwd(self, actor: SessionPort) -> str:
        return str(self._app.live_session(actor).tools.state.cwd) if isinstance(actor, SessionActor) else ""

    def _idle_sessions(self) -> list[PooledSession]:
        """Return the idle sessions, the one that was used longest ago first."""
        return sorted((one for one in self._entries.values() if one.is_idle), key=lambda one: one.used_at)

    async def _evict_heavy(self) -> None:
        """Evict idle sessions once conversations take much memory: reopening one costs a few milliseconds, and memory
        then grows with those who talk now, not with all that was ever said.
        """
        while True:
            await self._recheck_memory.wait()
            await asyncio.sleep(SHED_SECONDS)
            self._recheck_memory.clear()
            lives = {
                one.actor.session_id: live
                for one in self.live_sessions
                if (live := self._live_session(one)) is not None
            }
            weights = {name: memory_bytes(live) for name, live in lives.items()}
            total = sum(weights.values())
            del lives
            for entry in self._idle_sessions():
                if total <= MAX_IDLE_BYTES:
                    break
                rests = self._live_session(entry)
                if rests is not None and entry.is_idle and is_evictable(rests, entry.cwd):
                    total -= weights.get(entry.actor.session_id, 0)
                    await self.drop_session(entry.actor.session_id)
            if total > MAX_IDLE_BYTES and len(self._idle_sessions()) < len(self._entries):
                self._recheck_memory.set()  # some still work: they are looked at once they do not
