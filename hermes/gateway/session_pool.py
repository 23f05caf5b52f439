"""The sessions in memory: opened when a message comes in, evicted when idle, recovered after a restart.

A session of a chat is found by the key of its chat session, any other by its id.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from msgspec import Struct, structs

from hermes.admin.people.identity import PersonIdentity, PersonRole, group_identity
from hermes.config.gateway import AccountSettings, ResetMode, ResetSettings, RoleSettings
from hermes.core.chats import Binding, ChatKind, Place, make_beside_key
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Event, TurnEnded
from hermes.core.ids import new_session_id
from hermes.gateway.accounts import PlatformAccount, channel_settings, is_shared
from hermes.gateway.chat_session import ChatSession, GatewayDeps
from hermes.gateway.people import build_session_options
from hermes.gateway.session_recovery import SessionRecovery
from hermes.gateway.surroundings import describe_surroundings
from hermes.i18n.messages import N_
from hermes.ipc.remote_session import attach_session
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App, find_sub_agents
from hermes.sessions.options import SessionOptions
from hermes.sessions.port import SessionPort
from hermes.util.cancellation import cancel_tasks
from hermes.util.garbage_collector import release_free_memory

if TYPE_CHECKING:
    from hermes.sessions.features.send_tool import SendTool
    from hermes.sessions.session_builder import LiveSession

SWEEP_SECONDS = 30.0
SHED_SECONDS = 1.0
MAX_IDLE_BYTES = 16_000_000
"""Bytes of memory, estimated, that idle conversations may take."""
_MEMORY_PER_BYTE = 2
"""Bytes of memory per byte of the encoded conversation: the buffer with room to grow, and the packed messages."""
_REOPEN_PAUSES = (0.5, 2.0, 10.0)
"""Seconds to wait before each attempt to reopen a session that broke."""
_HANDOVER_SECONDS, _HANDOVER_PAUSE = 5.0, 0.05
"""How long a chat waits for a session that works in another one, and the pause between two looks."""
OpenSession = Callable[[], Awaitable[tuple[SessionPort, ChatSession | None]]]
"""Opens a session, and the chat session that shows it where there is one."""


class ChatAddress(Struct, frozen=True):
    """A person in a place of an account, and the key of the chat session that this makes."""

    account: PlatformAccount
    place: Place
    person: PersonIdentity
    key: str


def find_address(account: PlatformAccount, place: Place, person: PersonIdentity) -> ChatAddress:
    """Return the address of a person's chat session in a place."""
    return ChatAddress(account, place, person, chat_session_key(account.plan.settings, place, person))


def chat_session_key(settings: AccountSettings, place: Place, person: PersonIdentity) -> str:
    """Return the key of a chat session: a direct chat, a group's person, or a thread that all share.

    In a shared place the role takes the place of the person: that keeps people of different roles apart.
    """
    key = place.session_key
    if place.kind is not ChatKind.DM:
        key += f":~{person.role}" if is_shared(settings, place) else f":{person.id}"
    return key


def is_expired(reset: ResetSettings, last_at: float, now: float) -> bool:
    """Return whether a chat session whose last message was at `last_at` starts over `now`."""
    if reset.mode in (ResetMode.IDLE, ResetMode.BOTH) and now - last_at > reset.idle_minutes * 60:
        return True
    if reset.mode not in (ResetMode.DAILY, ResetMode.BOTH):
        return False
    moment = datetime.fromtimestamp(now)
    border = moment.replace(hour=reset.at_hour, minute=0, second=0, microsecond=0)
    if border > moment:
        border -= timedelta(days=1)
    return last_at < border.timestamp()


def has_unfinished_sub_agents(app: App, session_id: str) -> bool:
    """Return whether sub-agents of a live session work, or have reports that are still to be delivered, or to begin a
    turn.
    """
    team = find_sub_agents(app, session_id)
    return team is not None and (team.has_unfinished or len(app.live_session(session_id).actor.mailbox) > 0)


def has_live_state(app: App, live_session: "LiveSession") -> bool:
    """Return whether the session holds something that only a live session has.

    That is what the user allowed or chose for it, programs that run in the background, and sub-agents.
    """
    if has_unfinished_sub_agents(app, live_session.actor.session_id):
        return True
    leave, overrides = live_session.tools.gate.session_grants, live_session.overrides
    allowed = bool(leave.grants or leave.refused_subjects or leave.yolo)
    chosen = overrides.effort is not None or overrides.personality is not None or overrides.enabled is not None
    return allowed or chosen or bool(live_session.tools.describe_running())


def is_evictable(app: App, live_session: "LiveSession", cwd: str) -> bool:
    """Return whether nothing would be lost: also no folder and no variable of its tools."""
    state = live_session.tools.state
    elsewhere = str(state.cwd) != cwd or bool(state.environment or state.unset or state.one_time_paths)
    return not elsewhere and not has_live_state(app, live_session)


def memory_bytes(app: App, actor: SessionPort) -> int:
    """Estimate the bytes of memory that a session's conversation takes; 0 where it lives in another process."""
    live_session = find_live_session(app, actor)
    return 0 if live_session is None else live_session.actor.conversation.lineage.message_bytes * _MEMORY_PER_BYTE


def find_live_session(app: App, actor: SessionPort) -> "LiveSession | None":
    """Return a session with all its parts; None where it lives in another process."""
    return app.live_session(actor) if isinstance(actor, SessionActor) else None


def require_local(actor: SessionPort) -> SessionActor:
    """Return a session's actor. Raises BusyError where it lives in another process that this one has joined."""
    if not isinstance(actor, SessionActor):
        raise BusyError(N_("Session {id} is open in a terminal.", id=actor.session_id), N_("Close it there."))
    return actor


class PooledSession(Struct, eq=False):
    """A live session. It stays while somebody holds it, while it works, and for a while after that."""

    actor: SessionPort
    chat_session: ChatSession | None
    """The chat that it answers; None for those of programs."""
    used_at: float
    """When it was last used, by the loop's clock."""
    cwd: str
    """The folder in which its tools began."""
    holders: int = 0
    generation: int = 0
    """The number of reloads before it was opened: a session of an earlier one has the settings of then."""
    renewed: int = 0
    """The number of reloads before its tools were chosen."""
    limit: tuple[str, ...] | None = None
    """The tool sets that its person may use, as they were looked up last; None: all that are on."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody would lose anything if it left the memory now."""
        is_used = self.holders or self.actor.busy or self.actor.unfinished
        return not is_used and (self.chat_session is None or not self.chat_session.unfinished)


class SessionEvictor:
    """Evicts idle sessions: to make room for another, after a time, and where conversations take much memory."""

    def __init__(self, app: App, sessions: Mapping[str, PooledSession], drop: Callable[[str], Awaitable[None]]) -> None:
        self._app = app
        self._sessions = sessions
        self._drop = drop
        self._services = app.services
        self._tasks: list[asyncio.Task[None]] = []
        self._recheck_memory = asyncio.Event()
        """Set when a turn or holder has ended since memory use was last checked."""
        self._dropped = asyncio.Condition()
        self._memory_freed = False
        """Whether a session has left the memory since it was returned to the system."""

    def start(self) -> None:
        """Start evicting."""
        self._tasks = [
            asyncio.create_task(self._evict_idle(), name="idle sessions"),
            asyncio.create_task(self._evict_heavy(), name="heavy sessions"),
        ]

    async def close(self) -> None:
        """Evict nothing more."""
        await cancel_tasks(self._tasks)

    def note_idle(self) -> None:
        """Note that a session may have become idle."""
        self._recheck_memory.set()

    async def note_dropped(self) -> None:
        """Note that a session has left the memory."""
        self._memory_freed = True
        async with self._dropped:
            self._dropped.notify_all()

    async def wait_for_room(self) -> None:
        """Wait until one more session fits, evicting the idle one that was used longest ago. Raises BusyError."""
        while len(self._sessions) >= (most := self._services.settings.gateway.max_live):
            oldest = next(iter(self.list_idle()), None)
            if oldest is not None:
                await self._drop(oldest.actor.session_id)
                continue
            try:
                async with asyncio.timeout(SWEEP_SECONDS), self._dropped:
                    await self._dropped.wait()
            except TimeoutError:
                raise BusyError(N_("{max_live} sessions work already.", max_live=most), "Try later.") from None

    def list_idle(self) -> list[PooledSession]:
        """Return the idle sessions, the one that was used longest ago first; one whose sub-agents work is not idle."""
        idle = (one for one in self._sessions.values() if one.is_idle)
        ready = (one for one in idle if not has_unfinished_sub_agents(self._app, one.actor.session_id))
        return sorted(ready, key=lambda one: one.used_at)

    async def _evict_idle(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            late = asyncio.get_running_loop().time() - self._services.settings.gateway.idle_minutes * 60
            for entry in self.list_idle():
                live = find_live_session(self._app, entry.actor)
                if entry.used_at < late and (live is None or not has_live_state(self._app, live)):
                    await self._drop(entry.actor.session_id)
            if self._memory_freed:
                self._memory_freed = False
                await asyncio.to_thread(release_free_memory)

    async def _evict_heavy(self) -> None:
        """Evict idle sessions once conversations take much memory: reopening one costs a few milliseconds, and memory
        then grows with those who talk now, not with all that was ever said.
        """
        while True:
            await self._recheck_memory.wait()
            await asyncio.sleep(SHED_SECONDS)
            self._recheck_memory.clear()
            weights = {name: memory_bytes(self._app, entry.actor) for name, entry in self._sessions.items()}
            total = sum(weights.values())
            for entry in self.list_idle():
                if total <= MAX_IDLE_BYTES:
                    break
                live = find_live_session(self._app, entry.actor)
                if live is not None and entry.is_idle and is_evictable(self._app, live, entry.cwd):
                    total -= weights.get(entry.actor.session_id, 0)
                    await self._drop(entry.actor.session_id)
            if total > MAX_IDLE_BYTES and len(self.list_idle()) < len(self._sessions):
                self._recheck_memory.set()  # some still work: they are looked at once they do not


class SettingsRenewal:
    """Has live sessions use the settings of a reload."""

    def __init__(
        self, deps: GatewayDeps, sessions: Mapping[str, PooledSession], drop: Callable[[str], Awaitable[None]]
    ) -> None:
        self._app = deps.app
        self._people = deps.people
        self._sessions = sessions
        self._drop = drop
        self.generation = 0
        """The number of reloads."""

    async def apply_settings(self) -> int:
        """Have every session use the settings that hold now: tools that a role lost are refused at once, in a running
        turn too (`follow_role`); the rest comes with the next turn. Return the number of sessions that are at work.
        """
        self.generation += 1
        for entry in list(self._sessions.values()):
            await self.drop_outdated(entry)
        await self.close_replaced()
        return sum(one.generation < self.generation for one in self._sessions.values())

    def follow_role(self, entry: PooledSession) -> None:
        """Hold a session to the tools that its person may use at any time, whoever changes that: settings that are read
        again, or somebody who changes their role in another process.
        """
        live = find_live_session(self._app, entry.actor)
        if live is None or not live.options.role:
            return
        tools, role = live.tools, live.options.role
        entry.limit = live.options.toolset_limit

        async def check_limit() -> None:
            limit = await self._find_tool_limit(entry, role)
            if limit != entry.limit:
                entry.limit = limit
                tools.narrow(limit)

        tools.toolbox.check_limit = check_limit

    async def _find_tool_limit(self, entry: PooledSession, role: str) -> tuple[str, ...] | None:
        """Return the tool sets that the person of a session may use now; None: all that are on."""
        chat_session = entry.chat_session
        if chat_session is None or chat_session.person.is_group:
            return self._people.role_rights(PersonRole(role)).toolsets
        person = await self._people.find_person(chat_session.person.id, chat_session.account.plan.settings)
        return () if person is None else self._people.role_rights(person.role).toolsets

    async def close_replaced(self) -> None:
        """Close models and servers that no live session uses since a reload."""
        services = self._app.services
        local = [one for one in self._sessions.values() if isinstance(one.actor, SessionActor)]
        if not services.has_replaced or self._app.live_count > len(local):  # else some work beside the chats
            return
        if all(one.generation == self.generation for one in local):
            await services.close_replaced()

    async def drop_outdated(self, entry: PooledSession) -> bool:
        """Close an idle session that has the settings of before a reload: it is opened again with those of now, and its
        next turn begins an epoch where they matter. One that holds what only a live session has is kept, and gets
        other tools. Return whether it was closed.
        """
        if entry.generation == self.generation or not entry.is_idle:
            return False
        live = find_live_session(self._app, entry.actor)
        if live is None or not has_live_state(self._app, live):
            await self._drop(entry.actor.session_id)
            return True
        has_other_tools = [one.name for one in live.actor.conversation.frame.tools] != live.tools.toolbox.list_names()
        if entry.renewed != self.generation and has_other_tools:
            await live.actor.exclusive(lambda: live.renew(N_("the settings were changed"), False))
        entry.renewed = self.generation
        return False


class SessionPool:
    """The live sessions by id, and the chat sessions by key. A session is opened once, however many ask for it at the
    same time.
    """

    def __init__(self, deps: GatewayDeps, accounts: Mapping[str, PlatformAccount]) -> None:
        self.deps = deps
        self._app = deps.app
        self._store = deps.app.services.store
        self.accounts = accounts
        self._entries: dict[str, PooledSession] = {}
        self._chat_sessions: dict[str, ChatSession] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Of session ids, for opening one, and of the keys of chat sessions, for changing the session behind one."""
        self.renewal = SettingsRenewal(deps, self._entries, self.drop_session)
        self._handed_over: set[str] = set()
        """The keys of chats to which a session was handed over that did not go on with it yet."""
        self._broken = BrokenSessions(self)
        self.evictor = SessionEvictor(deps.app, self._entries, self.drop_session)
        self.recovery = SessionRecovery(deps, self)
        self.restart: Callable[[Place], None] | None = None
        """Restarts the gateway, which then says in that place that it is back; None where it cannot."""
        self.send_tool: SendTool | None = None
        """The tool by which sessions of chats write to other chats."""

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

    async def close(self) -> None:
        """Close every session; turns that run stay open, and go on at the next start."""
        await cancel_tasks(self._broken.tasks)
        await self.evictor.close()
        for session_id, entry in list(self._entries.items()):
            if isinstance(entry.actor, SessionActor):
                entry.actor.stays_open = True
            await self.drop_session(session_id)

    # Sessions by id.

    async def get_or_open(self, session_id: str, open_session: OpenSession) -> PooledSession:
        """Return the live session of this id, opened where it is not. Raises what opening it raises."""
        entry = self._entries.get(session_id)
        if entry is not None and await self.renewal.drop_outdated(entry):
            entry = None
        if entry is None:
            async with self.lock_chat(session_id):
                entry = self._entries.get(session_id)
                if entry is None:
                    await self.evictor.wait_for_room()
                    actor, chat_session = await open_session()
                    actor.subscribe(self._on_event)
                    actor.subscribe(self.deps.telemetry.session_listener(session_id))
                    live = find_live_session(self._app, actor)
                    cwd = "" if live is None else str(live.tools.state.cwd)
                    entry = self._entries[session_id] = PooledSession(actor, chat_session, 0.0, cwd)
                    entry.generation = self.renewal.generation
                    self.renewal.follow_role(entry)
        entry.used_at = asyncio.get_running_loop().time()
        return entry

    @contextlib.asynccontextmanager
    async def hold(self, session_id: str, open_session: OpenSession) -> AsyncIterator[PooledSession]:
        """Keep a session in memory while the context lasts, opened where it is not live."""
        entry = await self.get_or_open(session_id, open_session)
        entry.holders += 1
        try:
            yield entry
        finally:
            self._release(entry)

    def _release(self, entry: PooledSession) -> None:
        entry.holders -= 1
        entry.used_at = asyncio.get_running_loop().time()
        self.evictor.note_idle()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TurnEnded):
            self.evictor.note_idle()

    async def drop_session(self, session_id: str) -> None:
        """Close a live session, even while it works; its unfinished work goes on when it is opened next."""
        entry = self._entries.pop(session_id, None)
        if entry is None:
            return
        self.deps.telemetry.set_lane(session_id, "")
        chat_session, entry.chat_session = entry.chat_session, None
        if chat_session is not None:
            self.forget_chat(chat_session)
            remote = chat_session.remote  # closing leaves the chat without its session
            await chat_session.close()
            if remote is not None:
                await remote.close()
        live = self._app.find_live_session(session_id) if isinstance(entry.actor, SessionActor) else None
        if live is not None:
            live.tools.toolbox.check_limit = None  # it holds the entry
            await self._app.close_session(live.actor)
        await self.evictor.note_dropped()
        await self.renewal.close_replaced()

    # Sessions of chats.

    @contextlib.asynccontextmanager
    async def hold_chat(self, address: ChatAddress) -> AsyncIterator[ChatSession]:
        """Keep the chat session of an address live while the context lasts. Raises what opening a session raises."""
        async with self.lock_chat(address.key):
            chat_session = await self._find_or_open(address)
            entry = self._entries[chat_session.binding.session_id]
            entry.holders += 1
        try:
            yield chat_session
        finally:
            self._release(entry)

    def find_chat(self, key: str) -> ChatSession | None:
        """Return the live chat session of a key, or None."""
        return self._chat_sessions.get(key)

    def list_chats(self, lane: str = "") -> list[ChatSession]:
        """Return the live chat sessions of one chat or thread; without a lane all of them."""
        return [one for one in self._chat_sessions.values() if not lane or one.place.lane == lane]

    async def switch_session(self, chat_session: ChatSession, session_id: str | None) -> ChatSession:
        """Bind a chat to another session from now on: a fresh one, or the one of this id. Where that cannot be opened
        nothing has changed. Raises BusyError, and what opening a session raises.
        """
        before, now = chat_session.binding, self._app.services.clock.now()
        binding = structs.replace(before, session_id=session_id or new_session_id(now), last_at=now)
        async with self.lock_chat(before.key):
            opened = await self.open_chat(chat_session.account, binding, chat_session.person)
            opened.has_moved = session_id is not None
            await self._store.chats.bind(binding)
            await self._leave_session(before.session_id)
        return opened

    async def _leave_session(self, session_id: str) -> None:
        """Close the session with which a chat does not go on. While sub-agents of it work it stays beside: what they
        ask, and what comes of them, is shown in the chat.
        """
        entry = self._entries.get(session_id)
        left = entry.chat_session if entry is not None else None
        if left is None or not has_unfinished_sub_agents(self._app, session_id):
            await self.drop_session(session_id)
            return
        self.forget_chat(left)
        left.binding = structs.replace(left.binding, key=make_beside_key(left.binding.key, session_id))
        left.is_live = False
        self._chat_sessions[left.binding.key] = left
        await self._store.chats.bind(left.binding)

    async def rebind(self, binding: Binding, session_id: str) -> None:
        """Let a chat go on with another session at its next message. Raises BusyError while something runs there."""
        async with self.lock_chat(binding.key):
            live = self._chat_sessions.get(binding.key)
            if live is not None and live.binding.session_id != session_id:
                if not self._entries[live.binding.session_id].is_idle:
                    raise BusyError(N_("A turn runs there."), N_("Try again when it has ended."))
                await self._leave_session(live.binding.session_id)
            now = self._app.services.clock.now()
            await self._store.chats.bind(structs.replace(binding, session_id=session_id, last_at=now))
            self._handed_over.add(binding.key)

    async def _take_over(self, session_id: str, key: str) -> bool:
        """Close a session that another chat of the person has in memory, so that it can go on in the chat of this key;
        return whether one had it. Raises BusyError while it is at work there.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + _HANDOVER_SECONDS
        while (entry := self._entries.get(session_id)) is not None:
            there = entry.chat_session
            if there is not None and there.binding.key == key and self._chat_sessions.get(key) is there:
                return False
            if entry.is_idle:
                await self.drop_session(session_id)
                return there is not None and there.binding.key != key
            if clock() >= until:
                where = there.place.lane.rstrip(":") if there is not None else N_("a program")
                raise BusyError(
                    N_("Session {id} is at work in {where}.", id=session_id, where=where),
                    N_("Try again when it is done there, or type /stop there."),
                )
            await asyncio.sleep(_HANDOVER_PAUSE)
        return False

    async def drop_account(self, account: str) -> list[str]:
        """Close every live session of an account that is about to change; return the ids of those with work left, which
        goes on where they are opened next.
        """
        unfinished = []
        for one in [each for each in self._chat_sessions.values() if each.account.name == account]:
            session_id = one.binding.session_id
            if one.actor.busy or one.actor.unfinished or has_unfinished_sub_agents(self._app, session_id):
                unfinished.append(session_id)
            if one.local is not None:
                one.local.stays_open = True
            await self.drop_session(session_id)
        return unfinished

    async def _find_current(self, key: str, person: PersonIdentity) -> ChatSession | None:
        """Return the live chat session of this key; one of another role, or of earlier settings, is closed."""
        live = self._chat_sessions.get(key)
        if live is None:
            return None
        if (live.person.id, live.person.role) != (person.id, person.role):
            # Somebody is in another role now, or the account is somebody else's: nothing of before is left to them.
            await self.drop_session(live.binding.session_id)
            return None
        return None if await self.renewal.drop_outdated(self._entries[live.binding.session_id]) else live

    async def _find_or_open(self, address: ChatAddress) -> ChatSession:
        account, place, person, key = address.account, address.place, address.person, address.key
        settings, now = account.plan.settings, self._app.services.clock.now()
        if is_shared(settings, place):
            person = group_identity(person, place.lane)
        live = await self._find_current(key, person)
        reset = settings.session_reset or self._app.services.settings.gateway.session_reset
        if live is not None and not is_expired(reset, live.binding.last_at, now):
            return live
        known = await self._store.chats.get_binding(key)
        if known is not None and (known.person != person.id or is_expired(reset, known.last_at, now)):
            known = None
            if live is not None:
                await self._leave_session(live.binding.session_id)
        binding = known or Binding(key=key, session_id=new_session_id(now), place=place, person=person.id, last_at=now)
        return await self.open_chat(account, structs.replace(binding, place=place), person)

    async def open_chat(self, account: PlatformAccount, binding: Binding, person: PersonIdentity) -> ChatSession:
        """Return the live chat session of a binding, opened where it is not. Raises what opening a session raises."""

        async def open_session() -> tuple[SessionPort, ChatSession]:
            chat_session = ChatSession(self.deps, account, binding, person, self._broken.reopen)
            try:
                actor = await self._open_or_join(chat_session)
            except BaseException:
                await chat_session.close()
                raise
            chat_session.attach_session(actor)
            self._chat_sessions[binding.key] = chat_session
            return actor, chat_session

        moved = await self._take_over(binding.session_id, binding.key)
        found = (await self.get_or_open(binding.session_id, open_session)).chat_session
        if found is None or self._chat_sessions.get(binding.key) is not found:
            raise BusyError("This session is open for another conversation.", "Try again in a moment.")
        found.has_moved = found.has_moved or moved or binding.key in self._handed_over
        self._handed_over.discard(binding.key)
        return found

    async def _open_or_join(self, chat_session: ChatSession) -> SessionPort:
        """Open the session of a chat here, or join it where a terminal of this person holds it."""
        session_id, person = chat_session.binding.session_id, chat_session.person
        rights = self.deps.people.role_rights(person.role)
        options = _make_options(self._app, chat_session, rights)
        options = options if self.send_tool is None else self.send_tool.add_to_options(options)
        await asyncio.to_thread(os.makedirs, options.cwd, mode=0o700, exist_ok=True)
        try:
            return await self._app.open_session(session_id, create=True, asker=chat_session, options=options)
        except BusyError:
            remote = await attach_session(self._app.services.home, session_id, asks=bool(rights.approve))
            if remote is None:
                raise
            remote.on_lost.append(lambda: self._broken.reopen(chat_session))
            return remote

    def lock_chat(self, name: str) -> asyncio.Lock:
        """Return the lock of a session's id, for opening it, or of a chat session's key, for changing its session."""
        return self._locks.setdefault(name, asyncio.Lock())

    def forget_chat(self, chat_session: ChatSession) -> bool:
        """Forget a chat session; return False where another one has its key."""
        if self._chat_sessions.get(chat_session.binding.key) is not chat_session:
            return False
        del self._chat_sessions[chat_session.binding.key]
        return True


class BrokenSessions:
    """Reopens sessions of chats that cannot continue from memory; they go on from the disk."""

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self.tasks: set[asyncio.Task[None]] = set()

    def reopen(self, chat_session: ChatSession) -> None:
        """Reopen a session, unless another chat session has its place already."""
        if self._pool.forget_chat(chat_session):
            task = asyncio.create_task(self._reopen(chat_session), name=f"reopen {chat_session.binding.key}")
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _reopen(self, chat_session: ChatSession) -> None:
        binding, pool = chat_session.binding, self._pool
        for pause in _REOPEN_PAUSES:
            await asyncio.sleep(pause)
            try:
                async with pool.lock_chat(binding.key):
                    await pool.drop_session(binding.session_id)
                    opened = await pool.open_chat(chat_session.account, binding, chat_session.person)
                opened.reply_to = chat_session.reply_to
                await pool.recovery.settle_reopened(binding.session_id)
                opened.actor.resume()
                return
            except HermesError as error:
                pool.deps.telemetry.report_line(f"{binding.key}: {error}")


def _make_options(app: App, chat_session: ChatSession, rights: RoleSettings) -> SessionOptions:
    """Return the options of a chat's session."""
    account, place, person = chat_session.account, chat_session.place, chat_session.person
    settings = account.plan.settings
    options = build_session_options(
        app,
        settings,
        person,
        rights,
        wishes=channel_settings(settings, place),
        platform=settings.platform or account.name,
    )
    origin = ":".join(one for one in (place.platform, place.chat, place.thread) if one)
    return structs.replace(
        options,
        origin=origin,
        goes_on=True,
        reviews=person.is_owner,
        surroundings=describe_surroundings(account.plan, place, person),
    )
