"""The application object of a process: it opens sessions, and answers questions of front-ends about them.

Build the result of a turn as a plain dict with the documented keys.
"""

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.config.home import HermesHome, locate_home
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.events import Event, TurnEnded
from hermes.core.ids import new_session_id
from hermes.core.messages import Message, Role
from hermes.core.outcomes import ExitReason
from hermes.core.usage import NANO_PER_USD
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_
from hermes.llm.context_length import find_context_length
from hermes.plugins import PACKAGES
from hermes.providers.wire import Endpoint
from hermes.runtime.actor import SessionActor
from hermes.runtime.locks import session_lock
from hermes.runtime.mailbox import InboundMessage
from hermes.safety.paths import is_or_below
from hermes.sessions.formats.openai_format import to_openai
from hermes.sessions.model.credentials import with_pool_key
from hermes.sessions.options import SessionOptions
from hermes.sessions.session_lookup import find_session, row_to_dict
from hermes.store.records import PROGRAM_SOURCES, SessionRow
from hermes.store.store import Store
from hermes.tools.session import Asker
from hermes.util.clock import Clock, SystemClock
from hermes.util.text import redact_url

if TYPE_CHECKING:
    from hermes.config.plugin_consents import PluginConsents
    from hermes.sessions.background.work import BackgroundWork
    from hermes.sessions.context_usage import TokenShare
    from hermes.sessions.epoch_frame import PromptPartSize
    from hermes.sessions.services import Services
    from hermes.sessions.session_builder import LiveSession
    from hermes.sessions.sub_agents.reports import PersonReports
    from hermes.sessions.sub_agents.team import SubAgentTeam
    from hermes.sessions.sub_agents.teams import SubAgentTeams
    from hermes.sessions.undo import SessionUndo


def build_turn_result(actor: SessionActor, ended: TurnEnded, endpoint: Endpoint) -> Plain:
    """Return the turn's result as a plain dict; `messages` is the session's whole visible transcript."""
    usage = ended.usage
    transcript = actor.conversation.messages
    reasoning = next((message.reasoning for message in reversed(transcript) if message.role is Role.ASSISTANT), "")
    return {
        "final_response": ended.text,
        "last_reasoning": reasoning or None,
        "messages": [plain for message in transcript for plain in to_openai(message)],
        "api_calls": ended.calls,
        "completed": ended.reason.is_completed,
        "turn_exit_reason": ended.reason.value,
        "failed": not ended.reason.is_completed and ended.reason is not ExitReason.INTERRUPTED,
        "partial": ended.reason in (ExitReason.PARTIAL_STREAM, ExitReason.TRUNCATED),
        "interrupted": ended.reason is ExitReason.INTERRUPTED,
        "error": ended.error or None,
        "refused": ended.refused,
        "model": endpoint.model,
        "provider": endpoint.record.name,
        "base_url": redact_url(endpoint.base_url),
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
        "cache_hit_rate": usage.hit_rate,
        "cache_saved_usd": ended.cost.saved / NANO_PER_USD,
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "last_prompt_tokens": ended.last_prompt_tokens,
        "estimated_cost_usd": ended.cost.usd,
        "cost_status": ended.cost.certainty.value,
        "cost_source": ended.cost.source or None,
        "session_id": actor.session_id,
    }


_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}", re.ASCII)
"""The form of a session id, which names files: the session's lock, and the folder of its large results."""


class App:
    """The application of one process.

    It is an async context: leaving it ends every session, connection and thread of it.
    """

    def __init__(self, environ: Mapping[str, str], options: SessionOptions, *, clock: Clock | None = None) -> None:
        self._process_environ = dict(environ)
        self.options = options
        self._clock = clock or SystemClock()
        self._live: dict[str, tuple[LiveSession, AsyncExitStack]] = {}
        """Each live session, and what must be closed with it."""
        self._background_work: BackgroundWork | None = None
        self.sub_agent_teams: SubAgentTeams | None = None
        """The sub-agents of live sessions; None while no session has had any."""
        self.person_reports: PersonReports | None = None
        """Where the person is shown what they have asked sub-agents for; set by a front-end that can."""
        self._services: Services

    async def __aenter__(self) -> "App":
        from hermes.sessions.services import Services

        home = locate_home(self._process_environ)
        home.check_usable()
        _check_foreign_home(home, agreed=self.options.share_home)
        PACKAGES.use(
            lambda package: _open_consents(home).is_enabled_package(package),
            is_changed=lambda package: _open_consents(home).is_changed_package(package),
            has_any=lambda: os.path.lexists(home.consent_file) and _open_consents(home).has_packages(),
        )
        async with AsyncExitStack() as stack:
            self._services = Services(home, self._process_environ, self.options, self._clock)
            stack.push_async_callback(self._services.close)
            await self._services.open()
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Those of sub-agents are closed with the session that they work for.
        tops = [name for name, (live, _) in self._live.items() if not live.options.depth]
        for session_id in (*reversed(tops), *reversed(list(self._live))):
            if session_id in self._live:
                await self._live.pop(session_id)[1].aclose()
        await self._services.close()

    @property
    def services(self) -> "Services":
        """The services that all sessions share; for code in the same layer."""
        return self._services

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the model that answers."""
        return self._services.model.endpoint

    @property
    def notices(self) -> list[str]:
        """Lines for the user that were learned while opening, and while opening sessions."""
        return self._services.notices

    async def open_session(
        self,
        name: str | None = None,
        *,
        latest: bool = False,
        create: bool = False,
        system: str | None = None,
        history: Sequence[Message] | None = None,
        asker: Asker | None = None,
        options: SessionOptions | None = None,
    ) -> SessionActor:
        """Open a session: a fresh one, the one that `name` means, or the `latest`.

        With `create` a session of that exact name is created when there is none. `history` is put before the
        first message of a session that has none; `options` replace the process's own for what concerns a single
        session. Raises NotFoundError, BusyError when another process has it, ConfigError.
        """
        from hermes.sessions.session_builder import SessionBuilder
        from hermes.sessions.session_tools import SessionPlan

        chosen = options or self.options
        session_id, fresh = await _resolve_session_id(
            self._services.store,
            self._clock.now(),
            name,
            latest=latest,
            create=create,
            person=chosen.person,
            folder=chosen.cwd or os.getcwd(),
        )

        def find_team(name: str) -> "SubAgentTeam":  # what is needed for it is loaded when a model delegates
            return self.sub_agents.open_team(name)

        async with AsyncExitStack() as stack:
            plan = SessionPlan(
                session_id=session_id,
                fresh=fresh,
                system=system,
                history=tuple(history or ()),
                cwd=chosen.cwd or os.getcwd(),
                options=chosen,
                asker=asker,
                lock_handle=await stack.enter_async_context(session_lock(self._services.home.locks, session_id)),
                find_delegator=find_team,
            )
            live = await SessionBuilder(self._services, plan, stack).build()
            self._live[session_id] = live, stack.pop_all()
        if not fresh:
            await _take_up_work(self, live.actor)
        return live.actor

    async def close_session(self, actor: SessionActor) -> None:
        """Close a live session: its turn, its processes, its lock."""
        live = self._live.pop(actor.session_id, None)
        if live is not None:
            await live[1].aclose()

    async def run_shell_line(self, actor: SessionActor, command: str, show: Callable[[Event], None]) -> str:
        """Run a user's own command where the session's commands run, and return its output.

        The output also joins the next message. Cancelling ends the command. Raises BusyError while a turn runs.
        """
        from hermes.sessions.shell_escape import format_result, run_shell_line

        tools = self.live_session(actor).tools
        return format_result(await run_shell_line(actor, tools.gate, tools.context, command, show))

    def live_session(self, actor: SessionActor | str) -> "LiveSession":
        """Return a live session with all its parts, for code in the same layer.

        Raises NotFoundError for an id that is not live in this process.
        """
        session_id = actor if isinstance(actor, str) else actor.session_id
        if session_id not in self._live:
            raise NotFoundError(N_("The session {session_id} is not open in this process.", session_id=session_id))
        return self._live[session_id][0]

    def find_live_session(self, session_id: str) -> "LiveSession | None":
        """Return a live session with all its parts; None for one that is not live in this process."""
        return self._live[session_id][0] if session_id in self._live else None

    @property
    def live_count(self) -> int:
        """The number of live sessions."""
        return len(self._live)

    @property
    def background_work(self) -> "BackgroundWork":
        """The goals that live sessions pursue by themselves."""
        if self._background_work is None:
            from hermes.sessions.background.work import BackgroundWork

            self._background_work = BackgroundWork(
                self._services, self.live_session, self._close_with_session, partial(find_sub_agents, self)
            )
        return self._background_work

    @property
    def sub_agents(self) -> "SubAgentTeams":
        """The sub-agents of live sessions."""
        if self.sub_agent_teams is None:
            from hermes.sessions.sub_agents.teams import SubAgentTeams

            self.sub_agent_teams = SubAgentTeams(self, self._close_with_session)
        return self.sub_agent_teams

    def _close_with_session(self, actor: SessionActor, close: Callable[[], Awaitable[None]]) -> None:
        """Close something before a live session is closed."""
        self._live[actor.session_id][1].push_async_callback(close)

    async def context_length(self, actor: SessionActor | None = None) -> int | None:
        """Return the context window of the process's or the session's model in tokens, or None when it is unknown.

        The provider is asked where neither settings nor catalogue know it.
        """
        if actor is not None:
            return await actor.conversation.client.find_context_length()
        model = self._services.model
        endpoint = await with_pool_key(
            model.endpoint, self._services.credentials.keys_for_endpoint(model.endpoint, model.choice)
        )
        return await find_context_length(endpoint, model.transport)

    async def session_row(self, actor: SessionActor) -> Plain:
        """Return the session's stored row: title, totals of messages and tokens, times."""
        return row_to_dict(await self._services.store.sessions.get(actor.session_id))

    def turn_result(self, actor: SessionActor, ended: TurnEnded) -> Plain:
        """Return the result of a turn with the documented keys."""
        return build_turn_result(actor, ended, actor.conversation.client.endpoint)

    def measure_prompt(self, actor: SessionActor) -> "list[PromptPartSize]":
        """Measure what every request of a session that begins now would begin with, part by part."""
        live = self.live_session(actor)
        return live.frame_builder.measure_parts(actor.conversation.frame, live.features, live.overrides)

    async def context_shares(self, actor: SessionActor) -> "tuple[list[TokenShare], int | None]":
        """Return what fills the session's context window, by kind, and its size in tokens; None when unknown."""
        from hermes.sessions.context_usage import estimate_shares

        conversation = actor.conversation
        parts = estimate_shares(self.measure_prompt(actor), conversation.messages)
        return parts, await self.context_length(actor)

    def session_undo(self, actor: SessionActor) -> "SessionUndo":
        """Return the undo of a live session: files, turns and branches."""
        from hermes.sessions.undo import SessionUndo

        return SessionUndo(self._services.store, self.live_session(actor), self._clock.now)

    def redact_text(self, text: str) -> str:
        """Return the text without the secrets that this process holds."""
        return self._services.redactor.redact(text)

    async def describe_backend(self, actor: SessionActor) -> str:
        """Describe what really confines the session's commands."""
        return await self.live_session(actor).tools.context.backend.describe()

    def is_yolo(self, actor: SessionActor) -> bool:
        """Return whether `yolo` is on in this session."""
        return self.live_session(actor).tools.gate.session_grants.yolo

    def set_yolo(self, actor: SessionActor, *, on: bool) -> None:
        """Stop or resume asking in this session and its sub-agents. Refusals still hold; the change ends with the
        session.
        """
        for live in _list_tree(self, actor):
            live.tools.gate.session_grants.yolo = on


def _open_consents(home: HermesHome) -> "PluginConsents":
    from hermes.config.plugin_consents import PluginConsents

    return PluginConsents(home.consent_file)


async def _take_up_work(app: App, actor: SessionActor) -> None:
    """Take up what a session did by itself: its goal, and its sub-agents. Where that fails, or is cancelled, nobody has
    the session, so it is closed.
    """
    store = app.services.store
    try:
        if await store.goals.get(actor.session_id) is not None:
            await app.background_work.open_pursuit(actor)
        if await store.sub_agents.list_open(actor.session_id):
            await app.sub_agents.open_team(actor.session_id).adopt()
    except BaseException:
        await app.close_session(actor)
        raise


async def _resolve_session_id(
    store: Store, now: float, name: str | None, *, latest: bool, create: bool, person: str, folder: str
) -> tuple[str, bool]:
    """Return the id of the requested session, and whether it is fresh. The latest one is that of the folder, where any
    session began there.

    Raises NotFoundError where it belongs to another person, because its tools and rights were chosen for
    whom it was created.
    """
    if latest:
        row = await store.sessions.get_latest(person=person, folder=folder, without=PROGRAM_SOURCES)
        row = row or await store.sessions.get_latest(person=person, without=PROGRAM_SOURCES)
        if row is None:
            raise NotFoundError("There is no session to go on with yet.", 'Start one: hermes -z "..."')
        return await store.sessions.find_tip(row.id), False
    if name is not None and create:
        if not _SESSION_ID.fullmatch(name):
            raise UsageError(
                N_("{name} cannot be a session's id.", name=repr(name[:80])),
                "Use letters, digits, `_`, `-`, `.` and `:`, 128 at most.",
            )
        row = await store.sessions.get(name)
        _check_owner(row, person)
        return await store.sessions.find_tip(name), row is None
    if name is not None:
        found = await find_session(store, name, person=person or None)
        _check_owner(found, person)
        return await store.sessions.find_tip(found.id), False
    return new_session_id(now), True


def _check_owner(row: SessionRow | None, person: str) -> None:
    if row is not None and row.user_id != person:
        raise NotFoundError(
            N_("Session {id} is somebody else's.", id=row.id),
            N_("It can be read: `hermes sessions show {id}`.", id=row.id) if not person else "",
        )


def _check_foreign_home(home: HermesHome, *, agreed: bool) -> None:
    """Raise ConfigError for a home of another program, before the user has agreed to share it."""
    other = "" if agreed else home.find_foreign_file()
    if other:
        raise ConfigError(
            N_(
                "{root} is also another program's home ({other} is not ours); nothing in it was touched.",
                root=home.root,
                other=other,
            ),
            "`hermes home share` lets Hermes keep its own files there; HERMES_HOME names another folder.",
        )


def find_mode(app: App, actor: SessionActor) -> WorkMode:
    """Return a session's mode."""
    return app.live_session(actor).tools.state.mode


def is_mode_safe(app: App, actor: SessionActor, mode: WorkMode) -> bool:
    """Return whether a session can work in a mode."""
    from hermes.sessions.work_modes import check_mode

    try:
        check_mode(mode, app.live_session(actor).tools.context.backend_handle)
    except UsageError:
        return False
    return True


def set_mode(app: App, actor: SessionActor, mode: WorkMode) -> None:
    """Set the mode of a session and its sub-agents; the model is told with the next message. Raises UsageError where
    it is not safe.
    """
    from hermes.sessions.work_modes import check_mode

    check_mode(mode, app.live_session(actor).tools.context.backend_handle)
    for live in _list_tree(app, actor):
        live.tools.state.mode = mode


def forget_allowed(app: App, actor: SessionActor, pattern: str) -> None:
    """Have a session and its sub-agents ask about a pattern again, and those that are opened from now on."""
    app.services.forget_allowed(pattern)
    for live in _list_tree(app, actor):
        gate = live.tools.gate
        gate.policy = structs.replace(gate.policy, allow=tuple(one for one in gate.policy.allow if one != pattern))
        gate.session_grants.always = [one for one in gate.session_grants.always if one != pattern]


def _list_tree(app: App, actor: SessionActor) -> "list[LiveSession]":
    """Return a live session and those of its sub-agents that work."""
    team = app.sub_agents.find_team(actor.session_id)
    return [app.live_session(actor), *(team.list_live_sessions() if team is not None else ())]


def find_sub_agents(app: App, session_id: str) -> "SubAgentTeam | None":
    """Return the sub-agents of a live session; None where it has had none in this process."""
    return app.sub_agent_teams.find_team(session_id) if app.sub_agent_teams is not None else None


async def withdraw_newest(app: App, actor: SessionActor) -> InboundMessage | None:
    """Take the newest waiting message back, also from the store, and return it; None where none waits."""
    queued = actor.mailbox.take_newest()
    if queued is None:
        return None
    if queued.letter_id:
        await app.services.store.inbox.withdraw(actor.session_id, queued.letter_id)
    queued.ended.cancel()
    return queued.inbound


def leave_command(app: App, actor: SessionActor) -> bool:
    """Let the command that a call waits for go on in the background; return False where there is none."""
    foreground = app.live_session(actor).tools.state.foreground
    if foreground is None or foreground.is_left.is_set():
        return False
    foreground.is_left.set()
    return True


async def list_changed_files(app: App, session_id: str, turn_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the files that turns of a session changed, as their checkpoints have them: relative to the process's
    working folder where they are below it.
    """
    found: set[str] = set()
    checkpoints, folder = app.services.store.checkpoints, app.options.cwd or os.getcwd()
    for turn_id in turn_ids:
        checkpoint = await checkpoints.find(session_id, turn_id)
        if checkpoint is not None:
            found.update(one.path for one in await checkpoints.list_changes(checkpoint.id))
    return tuple(sorted(path.removeprefix(f"{folder}/") if is_or_below(path, folder) else path for path in found))


async def resolve_session_id(app: App, name: str | None, *, latest: bool = False, person: str | None = None) -> str:
    """Return the id of the session that `App.open_session` would open, for this person or for whom the process works.
    Raises NotFoundError, and UsageError where the name could be several.
    """
    on, whose = app.services, app.options.person if person is None else person
    folder = app.options.cwd or os.getcwd()
    found, _ = await _resolve_session_id(
        on.store, on.clock.now(), name, latest=latest, create=False, person=whose, folder=folder
    )
    return found


async def share_home(environ: Mapping[str, str]) -> HermesHome:
    """Agree that the home is shared: create the Hermes database in it, and touch nothing else."""
    home = locate_home(environ)
    home.ensure_exists()
    store = await Store.open(home.root, SystemClock())
    await store.close()
    return home
