"""The face of a process's Hermes: it opens sessions, and answers what front-ends ask about them."""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from hermes.config.home import Home, locate_home
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.events import Event, TurnEnded
from hermes.core.ids import new_session_id
from hermes.core.messages import Message
from hermes.i18n.messages import phrase
from hermes.llm.context_length import known_context_length
from hermes.providers.wire import Endpoint
from hermes.runtime.actor import SessionActor
from hermes.runtime.locks import session_lock
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.formats.turn_result import turn_result
from hermes.sessions.model.credentials import keyed
from hermes.sessions.options import Options
from hermes.sessions.session_lookup import find_session, to_plain
from hermes.store.rows import SessionRow
from hermes.store.store import Store
from hermes.tools.session import Asker
from hermes.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from hermes.sessions.background.work import Beside
    from hermes.sessions.context_usage import Share
    from hermes.sessions.services import Premises
    from hermes.sessions.session_builder import Live
    from hermes.sessions.system_prompt import Size
    from hermes.sessions.undo import UndoDesk

_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}", re.ASCII)
"""It names files: the session's lock, and the folder of its large results."""


class App:
    """One process's Hermes. An async context: leaving it ends every session, connection and thread of it."""

    def __init__(self, environ: Mapping[str, str], options: Options, *, clock: Clock | None = None) -> None:
        self._process = dict(environ)
        self.options = options
        self._clock = clock or SystemClock()
        self._live: dict[str, tuple[Live, AsyncExitStack]] = {}
        """Each live session, and what must be closed with it."""
        self._beside: Beside | None = None
        self._on: Premises

    async def __aenter__(self) -> "App":
        from hermes.sessions.services import Premises

        home = locate_home(self._process)
        home.check()
        _check_shared(home, agreed=self.options.share_home)
        async with AsyncExitStack() as stack:
            self._on = Premises(home, self._process, self.options, self._clock)
            stack.push_async_callback(self._on.close)
            await self._on.open()
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._beside is not None:
            await self._beside.close()
        for session_id in reversed(list(self._live)):
            await self._live.pop(session_id)[1].aclose()
        await self._on.close()

    @property
    def premises(self) -> "Premises":
        """What all sessions stand on; for what is built on this face in the same layer."""
        return self._on

    @property
    def endpoint(self) -> Endpoint:
        """The model that answers, and where."""
        return self._on.model.endpoint

    @property
    def notices(self) -> list[str]:
        """Lines for the person that were learned while opening, and while opening sessions."""
        return self._on.notices

    async def open_session(
        self,
        name: str | None = None,
        *,
        latest: bool = False,
        create: bool = False,
        system: str | None = None,
        history: Sequence[Message] | None = None,
        asker: Asker | None = None,
        options: Options | None = None,
    ) -> SessionActor:
        """A live session: a fresh one, the one that `name` means, or the `latest`.

        With `create` a session of that exact name is made when there is none. `history` is put before the first
        message of a session that has none; `options` stand in the place of the process's own for what concerns a single
        session. Raises NotFoundError, BusyError when another process has it, ConfigError.
        """
        from hermes.sessions.session_builder import Birth
        from hermes.sessions.session_tools import Plan

        chosen = options or self.options
        session_id, fresh = await _session_id(
            self._on.store, self._clock.now(), name, latest=latest, create=create, person=chosen.person
        )
        async with AsyncExitStack() as stack:
            plan = Plan(
                session_id=session_id,
                fresh=fresh,
                system=system,
                history=tuple(history or ()),
                cwd=chosen.cwd or os.getcwd(),
                options=chosen,
                asker=asker,
                lock=await stack.enter_async_context(session_lock(self._on.home.locks, session_id)),
            )
            live = await Birth(self._on, plan, stack).live()
            self._live[session_id] = live, stack.pop_all()
        if not fresh and await self._on.store.goal(session_id) is not None:
            await self.beside.pursuit(live.actor)
        return live.actor

    async def close_session(self, actor: SessionActor) -> None:
        """End a live session: its turn, its processes, its lock."""
        live = self._live.pop(actor.session_id, None)
        if live is not None:
            await live[1].aclose()

    async def run_line(self, actor: SessionActor, command: str, show: Callable[[Event], None]) -> str:
        """Run a command of the person's own where the session's commands run; what it said, which goes along with the
        next message, too. Cancelling ends it. Raises BusyError while a turn runs."""
        from hermes.sessions.shell_escape import run_line, said

        tools = self.live(actor).tools
        return said(await run_line(actor, tools.gate, tools.context, command, show))

    def live(self, actor: SessionActor | str) -> "Live":
        """A live session with all it is made of; for what is built on this face in the same layer. Raises NotFoundError
        for an id of one that is not live in this process."""
        session_id = actor if isinstance(actor, str) else actor.session_id
        if session_id not in self._live:
            raise NotFoundError(f"The session {session_id} is not open in this process.")
        return self._live[session_id][0]

    @property
    def beside(self) -> "Beside":
        """What works by itself: goals, and sessions beside the one that is talked with."""
        if self._beside is None:
            from hermes.sessions.background.work import Beside

            self._beside = Beside(self._on, self.live, self.close_session, self._attend)
        return self._beside

    def _attend(self, actor: SessionActor, close: Callable[[], Awaitable[None]]) -> None:
        """Have something closed before a live session is."""
        self._live[actor.session_id][1].push_async_callback(close)

    async def context_length(self, actor: SessionActor | None = None) -> int | None:
        """Tokens of the model's window, or of the session's model; asks the provider where neither settings nor
        catalogue know. None: unknown."""
        if actor is not None:
            return await actor.conversation.client.context_length()
        model = self._on.model
        endpoint = await keyed(model.endpoint, self._on.credentials.keys(model.endpoint, model.choice))
        return await known_context_length(endpoint, model.transport)

    async def about(self, actor: SessionActor) -> Plain:
        """The session's stored row: title, totals of messages and tokens, times."""
        return to_plain(await self._on.store.session(actor.session_id))

    def result(self, actor: SessionActor, ended: TurnEnded) -> Plain:
        """What came of a turn, under the keys that people know."""
        return turn_result(actor, ended, actor.conversation.client.endpoint)

    def prompt_sizes(self, actor: SessionActor) -> "list[Size]":
        """What every request of a session that begins now would begin with, part by part."""
        live = self.live(actor)
        return live.framing.sizes(actor.conversation.frame, live.kept, live.manner)

    async def context(self, actor: SessionActor) -> "tuple[list[Share], int | None]":
        """What fills the session's window, by kind, and how many tokens fit; None where nobody knows that."""
        from hermes.sessions.context_usage import shares

        conversation = actor.conversation
        parts = shares(self.prompt_sizes(actor), conversation.messages)
        return parts, await self.context_length(actor)

    def undoing(self, actor: SessionActor) -> "UndoDesk":
        """Undo for a live session: of files, of turns, and its branches."""
        from hermes.sessions.undo import UndoDesk

        return UndoDesk(self._on.store, self.live(actor), self._clock.now)

    def redact(self, text: str) -> str:
        """The text without the secrets that this process holds."""
        return self._on.redactor.redact(text)

    async def place_line(self, actor: SessionActor) -> str:
        """What really holds the session's commands back."""
        return await self.live(actor).tools.context.backend.line()

    def unasked(self, actor: SessionActor) -> bool:
        """Whether `yolo` is on in this session."""
        return self.live(actor).tools.gate.leave.yolo

    def yolo(self, actor: SessionActor, *, on: bool) -> None:
        """Ask nothing in this session, or ask again. What is refused stays refused; it ends with the session."""
        self.live(actor).tools.gate.leave.yolo = on


async def _session_id(
    store: Store, now: float, name: str | None, *, latest: bool, create: bool, person: str
) -> tuple[str, bool]:
    """The id of the session that is meant, and whether it is a fresh one. Raises NotFoundError where it is not this
    person's: what it works with, and what it may do, was chosen for whom it was begun."""
    if latest:
        row = await store.latest_session(person=person)
        if row is None:
            raise NotFoundError("There is no session to go on with yet.", 'Start one: hermes -z "..."')
        return await store.tip(row.id), False
    if name is not None and create:
        if not _SESSION_ID.fullmatch(name):
            raise UsageError(
                f"{name[:80]!r} cannot be a session's id.",
                "Use letters, digits, `_`, `-`, `.` and `:`, 128 at most.",
            )
        row = await store.session(name)
        _check_owner(row, person)
        return await store.tip(name), row is None
    if name is not None:
        found = await find_session(store, name)
        _check_owner(found, person)
        return await store.tip(found.id), False
    return new_session_id(now), True


def _check_owner(row: SessionRow | None, person: str) -> None:
    if row is not None and row.user_id != person:
        raise NotFoundError(
            phrase("Session {id} is somebody else's.", id=row.id),
            phrase("It can be read: `hermes sessions show {id}`.", id=row.id) if not person else "",
        )


def _check_shared(home: Home, *, agreed: bool) -> None:
    """Refuse to keep our files beside another program's before the person has agreed to it."""
    other = "" if agreed else home.foreign()
    if other:
        raise ConfigError(
            f"{home.root} is also another program's home ({other} is not ours); nothing in it was touched.",
            "`hermes home share` lets Hermes keep its own files there; HERMES_HOME names another folder.",
        )


async def session_named(app: App, name: str | None, *, latest: bool = False) -> str:
    """The id of the session that `App.open_session` would open. Raises NotFoundError."""
    on = app.premises
    found, _ = await _session_id(on.store, on.clock.now(), name, latest=latest, create=False, person=app.options.person)
    return found


async def share_home(environ: Mapping[str, str]) -> Home:
    """Agree that the home is shared: Hermes' own database is made in it, and nothing else is touched."""
    home = locate_home(environ)
    home.ensure()
    store = await Store.open(home.root, SystemClock())
    await store.close()
    return home
