"""Puts the parts together: home, settings, store, transport, model, tools, and live sessions over them."""

import contextlib
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from hermes.agent.turn import Deps, TurnState
from hermes.app.backends import Place
from hermes.app.credentials import Credentials, keyed, with_stored
from hermes.app.endpoint import Model, choose_model, open_model
from hermes.app.keeping import Kept, Shelf, kept_for
from hermes.app.limits import guard_limits
from hermes.app.mcp import open_servers
from hermes.app.openai_form import Plain
from hermes.app.options import Options
from hermes.app.policy import mode_of
from hermes.app.result import turn_result
from hermes.app.route import Models, SessionRoute, fallbacks, side_choices, side_task
from hermes.app.secrets import redactor_for
from hermes.app.sessions import find_session, to_plain
from hermes.app.spending import Spending, SpendMeter
from hermes.app.toolbox import Plan, Process, SessionTools, session_tools
from hermes.app.trajectory import write_trajectory
from hermes.config.environment import with_dotenv
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, NotFoundError, StoreError, UsageError
from hermes.core.events import Level, TurnEnded
from hermes.core.frame import EpochFrame
from hermes.core.ids import new_session_id
from hermes.core.messages import Message
from hermes.core.parts import ImagePart, TextPart
from hermes.llm.client import ModelClient
from hermes.llm.context_length import known_context_length
from hermes.llm.metering import Meter
from hermes.providers.resolve import ModelChoice
from hermes.providers.wire import Endpoint
from hermes.runtime.actor import Parts, SessionActor
from hermes.runtime.approvals import Approvals
from hermes.runtime.bringing import Bringer
from hermes.runtime.conversation import Conversation, open_conversation
from hermes.runtime.epochs import Candidate, SessionEpochs
from hermes.runtime.locks import session_lock
from hermes.runtime.mailbox import Inbound, Mailbox
from hermes.runtime.recorder import Recorder
from hermes.safety.secrets import Redactor
from hermes.store.rows import NewSession
from hermes.store.store import Store
from hermes.tools.backends.wardens import Wardens
from hermes.tools.executor import Executor
from hermes.tools.gate import Reviewer
from hermes.tools.recall import recall_written
from hermes.tools.session import Asker
from hermes.util.clock import Clock, SystemClock

if TYPE_CHECKING:
    from hermes.app.framing import Framing
    from hermes.app.prompting import Size
    from hermes.tools.mcp.servers import Servers


class App:
    """One process's Hermes. An async context: leaving it ends every session, connection and thread of it."""

    def __init__(self, environ: Mapping[str, str], options: Options, *, clock: Clock | None = None) -> None:
        self._process = dict(environ)
        self.options = options
        self.notices: list[str] = []
        """Lines for the person that were learned while opening, and while opening sessions."""
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()
        self._live: dict[str, AsyncExitStack] = {}
        """What must be closed with each live session."""
        self._tools: dict[str, SessionTools] = {}
        """The tools of each live session."""
        self._kept: dict[str, Kept] = {}
        self._home: Home
        self._settings: Settings
        self._environ: dict[str, str]
        self._store: Store
        self._model: Model
        self._spending: Spending
        self._credentials: Credentials
        self._models: Models
        self._condensers: Models
        self._reviewers: Models
        self._wardens: Wardens
        self._redactor: Redactor
        self._shared: Process
        self._shelf: Shelf
        self._framing: Framing
        self._mcp: Servers | None = None

    async def __aenter__(self) -> "App":
        async with AsyncExitStack() as stack:
            await self._open(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session_id in list(self._live):
            await self._live.pop(session_id).aclose()
        await self._stack.aclose()

    @property
    def endpoint(self) -> Endpoint:
        """The model that answers, and where."""
        return self._model.endpoint

    async def _open(self, stack: AsyncExitStack) -> None:
        home = self._home = locate_home(self._process)
        home.check()
        _check_shared(home, agreed=self.options.share_home)
        loaded = load_settings(home)
        settings = self._settings = loaded.settings
        self.notices += loaded.warnings
        self._environ = with_dotenv(self._process, home.env_file)
        self._wardens = Wardens(self._environ)
        self._redactor = redactor_for(self._environ, home, settings)
        self._shared = Process(
            environ=self._environ,
            clock=self._clock,
            place=Place(self._environ, settings, self._wardens),
            redactor=self._redactor,
        )
        stack.push_async_callback(self._wardens.close)
        choice = choose_model(settings.model, self.options)
        from hermes.app.framing import Framing

        self._framing = Framing(home, settings, self.options)
        others = fallbacks(settings, self.options.fallback_models)
        # What can be wrong with the model's settings is said before anything is created.
        endpoint = self._opening(choice)
        home.ensure()
        self._models = Models((choice, *others), lambda one: endpoint if one is choice else self._opening(one), stack)
        self._model = await self._models.at(0)
        self._condensers = Models(side_choices(settings.auxiliary.compression), self._opening, stack)
        self._reviewers = Models(side_choices(settings.auxiliary.approval), self._opening, stack)
        if self._model.notice:
            self.notices.append(self._model.notice)
        self._store = await Store.open(home.root, self._clock)
        self._credentials = Credentials(home, self._process, settings, self._clock, self._store, self._redactor.learn)
        stack.push_async_callback(self._store.close)
        self._spending = Spending(settings, self.options, self._store, self._clock)
        self._shelf = Shelf(
            home=home,
            settings=settings,
            store=self._store,
            redactor=self._redactor,
            environ=self._environ,
            window=self.endpoint.context_length,
        )

    async def open_session(
        self,
        name: str | None = None,
        *,
        latest: bool = False,
        create: bool = False,
        system: str | None = None,
        history: Sequence[Message] | None = None,
        asker: Asker | None = None,
    ) -> SessionActor:
        """A live session: a fresh one, the one that `name` means, or the `latest`.

        With `create` a session of that exact name is made when there is none. `history` is put before the first
        message of a session that has none. Raises NotFoundError, BusyError when another process has it, ConfigError.
        """
        session_id, fresh = await self._session_id(name, latest=latest, create=create)
        async with AsyncExitStack() as stack:
            plan = Plan(
                session_id=session_id,
                fresh=fresh,
                system=system,
                history=tuple(history or ()),
                cwd=self.options.cwd or os.getcwd(),
                asker=asker,
                lock=await stack.enter_async_context(session_lock(self._home.locks, session_id)),
            )
            actor = await self._bring_to_life(plan, stack)
            self._live[session_id] = stack.pop_all()
        return actor

    async def close_session(self, actor: SessionActor) -> None:
        """End a live session: its turn, its processes, its lock."""
        live = self._live.pop(actor.session_id, None)
        self._tools.pop(actor.session_id, None)
        self._kept.pop(actor.session_id, None)
        if live is not None:
            await live.aclose()

    async def stop_processes(self, actor: SessionActor) -> list[str]:
        """End the background processes of a session; a line for each."""
        return await self._tools[actor.session_id].stop_processes()

    async def context_length(self) -> int | None:
        """Tokens of the model's window; asks the provider where neither settings nor catalogue know. None: unknown."""
        endpoint = await keyed(self.endpoint, self._credentials.keys(self.endpoint, self._model.choice))
        return await known_context_length(endpoint, self._model.transport)

    async def about(self, actor: SessionActor) -> Plain:
        """The session's stored row: title, totals of messages and tokens, times."""
        return to_plain(await self._store.session(actor.session_id))

    async def usage(self, actor: SessionActor) -> Plain:
        """What the session's calls used, cost, and got from caches; its epochs and what each cost."""
        from hermes.app.usage import session_report

        return await session_report(self._store, self._settings, actor.conversation)

    def result(self, actor: SessionActor, ended: TurnEnded) -> Plain:
        """What came of a turn, under the keys that people know."""
        return turn_result(actor, ended, actor.conversation.client.endpoint)

    async def _session_id(self, name: str | None, *, latest: bool, create: bool) -> tuple[str, bool]:
        if latest:
            row = await self._store.latest_session()
            if row is None:
                raise NotFoundError("There is no session to go on with yet.", 'Start one: hermes -z "..."')
            return row.id, False
        if name is not None and create:
            if not _SESSION_ID.fullmatch(name):
                raise UsageError(
                    f"{name[:80]!r} cannot be a session's id.",
                    "Use letters, digits, `_`, `-`, `.` and `:`, 128 at most.",
                )
            return name, await self._store.session(name) is None
        if name is not None:
            return (await find_session(self._store, name)).id, False
        return new_session_id(self._clock.now()), True

    async def _bring_to_life(self, plan: Plan, stack: AsyncExitStack) -> SessionActor:
        """Everything that a live session stands on, pushed onto `stack` in the order in which it is closed last."""
        endpoint, settings, options, born = self.endpoint, self._settings, self.options, list[Conversation]()
        kept = self._kept[plan.session_id] = kept_for(plan, self._shelf)
        for ready in kept.opening:
            await ready()
        tools = session_tools(
            plan, home=self._home, settings=settings, options=options, process=self._shared, more=kept.tools
        )
        stack.push_async_callback(tools.close)
        self._tools[plan.session_id] = tools
        _add_new(self.notices, tools.remarks)
        if plan.fresh:
            await self._store.create_session(
                NewSession(
                    id=plan.session_id,
                    source=options.platform,
                    provider=endpoint.record.name,
                    model=endpoint.model,
                    cwd=plan.cwd,
                )
            )
            stack.push_async_callback(_forget_unused, self._store, self._home, plan.session_id, born)
        meter = self._spending.meter_for(plan.session_id)
        route = SessionRoute(self._models, partial(self._client, meter), self._frame(tools, kept, plan.system))
        first = await route.candidate(0)
        conversation = await self._conversation(plan, first)
        born.append(conversation)
        recorder = Recorder(
            self._store,
            session_id=plan.session_id,
            epoch=conversation.epoch,
            untitled=plan.fresh,
            redactor=tools.context.redactor,
        )
        approvals = Approvals(
            self._store,
            plan.session_id,
            self._clock,
            seconds=settings.approvals.timeout,
            turn=lambda: recorder.turn_id,
        )
        stack.push_async_callback(approvals.close)
        condensing = side_task((self._condensers, self._models), partial(self._client, meter.side("compression")))
        epochs = SessionEpochs(self._store, conversation, recorder, route, condensing)
        actor: SessionActor
        deps = Deps(
            toolbox=tools.toolbox,
            executor=self._executor(tools, approvals, meter),
            context=tools.context,
            journal=recorder,
            clock=self._clock,
            epochs=epochs,
            meter=meter,
            publish=recorder.publish,
            steering=lambda: [*tools.notices(), *actor.joining()],
        )
        parts = Parts(
            deps=deps,
            recorder=recorder,
            epochs=epochs,
            approvals=approvals,
            mailbox=Mailbox(),
            guard=guard_limits(settings.tool_loop_guardrails),
            max_turns=_chosen(options.max_turns, settings.agent.max_turns),
        )
        waiting = () if plan.fresh else await self._store.inbox(plan.session_id)
        actor = SessionActor(conversation, parts, waiting=waiting)
        if conversation.messages or conversation.lost is not None:
            recall_written(_said(conversation), tools.toolbox, tools.context)
        if options.save_trajectories or settings.agent.save_trajectories:
            actor.on_turn_end.append(_saving_trajectories(self._home.trajectories, actor))
        actor.on_turn_end += [_flush(meter), _tell_notices(tools, actor)]
        actor.bringing.bringers += [*kept.bringers, _references(tools, actor, endpoint.context_length)]
        self._join_servers(tools, actor, stack)
        stack.callback(_tell_unfinished, tools, actor)
        stack.push_async_callback(actor.close)
        return actor

    async def _conversation(self, plan: Plan, first: Candidate) -> Conversation:
        """The session's conversation, with the history that it was given when it has none."""
        conversation = await open_conversation(
            self._store, plan.session_id, wanted=first.frame, client=first.client, system=plan.system
        )
        if plan.history and not conversation.messages and conversation.lost is None:
            await self._store.append(plan.session_id, conversation.epoch, None, plan.history)
            conversation.messages.extend(plan.history)
            conversation.lineage.extend(plan.history)
        return conversation

    def _join_servers(self, tools: SessionTools, actor: SessionActor, stack: AsyncExitStack) -> None:
        """Give a session the tools of its MCP servers, which are started for the first session that has some."""
        if not tools.servers:
            return
        if self._mcp is None:
            workspace = self.options.cwd or os.getcwd()
            self._mcp = open_servers(
                self._settings, self._environ, self._home, self._wardens, self._redactor, workspace=workspace
            )
            self._stack.push_async_callback(self._mcp.close)
            self._mcp.start()
        stack.callback(self._mcp.join(tools.toolbox, tools.servers, partial(actor.notify, Level.WARNING)))

    def _executor(self, tools: SessionTools, approvals: Approvals, meter: SpendMeter) -> Executor:
        return Executor(
            tools.toolbox,
            tools.gate,
            approver=approvals,
            reviewer=self._reviewer(meter),
            tool_delay=_chosen(self.options.tool_delay, self._settings.agent.tool_delay),
        )

    def _reviewer(self, meter: SpendMeter) -> Reviewer | None:
        """Who looks at what the rules allow, where the person wants that."""
        if mode_of(self._settings) != "smart":
            return None
        from hermes.runtime.reviewer import ModelReviewer

        models = (self._reviewers, self._models)
        return ModelReviewer(side_task(models, partial(self._client, meter.side("approval"))))

    def prompt_sizes(self, actor: SessionActor) -> "list[Size]":
        """What every request of a session that begins now would begin with, part by part."""
        return self._framing.sizes(actor.conversation.frame, self._kept[actor.session_id])

    def redact(self, text: str) -> str:
        """The text without the secrets that this process holds."""
        return self._redactor.redact(text)

    async def place_line(self, actor: SessionActor) -> str:
        """What really holds the session's commands back."""
        return await self._tools[actor.session_id].context.backend.line()

    def yolo(self, actor: SessionActor, *, on: bool) -> None:
        """Ask nothing in this session, or ask again. What is refused stays refused; it ends with the session."""
        self._tools[actor.session_id].gate.leave.yolo = on

    def _opening(self, choice: ModelChoice) -> AbstractAsyncContextManager[Model]:
        """A model about to be opened."""
        caching = self._settings.prompt_caching
        choice = structs.replace(
            with_stored(choice, self._home), cache_ttl=caching.cache_ttl if caching.enabled else ""
        )
        return open_model(choice, self._environ, ca_file=self._settings.model.ca_bundle)

    async def _client(self, meter: Meter, model: Model) -> ModelClient:
        """How a session calls a model."""
        tries = max(self._settings.agent.api_max_retries, 1)
        keys = self._credentials.keys(model.endpoint, model.choice)
        return ModelClient(model.endpoint, model.transport, self._clock, keys=keys, meter=meter, retries=tries - 1)

    def _frame(self, tools: SessionTools, kept: Kept, system: str | None) -> Callable[[Endpoint], EpochFrame]:
        """How a session's epochs are framed; what there is to say about the prompt is noted."""

        def frame(endpoint: Endpoint) -> EpochFrame:
            made = self._framing.frame(endpoint, tools.toolbox.schemas(), kept, system)
            for section in kept.sections:
                _add_new(self.notices, section.remarks())
            return made

        return frame


T = TypeVar("T")
_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.:-]{0,127}", re.ASCII)
"""It names files: the session's lock, and the folder of its large results."""


def _saving_trajectories(folder: Path, actor: SessionActor) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    async def save(state: TurnState, ended: TurnEnded) -> None:
        try:
            await write_trajectory(
                folder,
                actor.session_id,
                system=actor.conversation.frame.system,
                messages=state.messages,
                ended=ended,
            )
        except OSError as error:
            actor.notify(Level.WARNING, f"The trajectory of this turn could not be written: {error.strerror}.")

    return save


async def _forget_unused(store: Store, home: Home, session_id: str, born: Sequence[Conversation]) -> None:
    """Delete a fresh session in which nothing was said; one with messages costs no look at the store."""
    if any(conversation.messages for conversation in born):
        return
    with contextlib.suppress(StoreError):  # an empty session does no harm: it is listed nowhere
        if await store.drop_empty_session(session_id):
            (home.locks / f"{session_id}.lock").unlink(missing_ok=True)


def _tell_unfinished(tools: SessionTools, actor: SessionActor) -> None:
    """Say what is about to be ended with the session; by then its turn is over and nothing new begins."""
    line = tools.unfinished()
    if line:
        actor.notify(Level.WARNING, line)


def _tell_notices(tools: SessionTools, actor: SessionActor) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    async def tell(_state: TurnState, _ended: TurnEnded) -> None:
        for line in tools.context.backend.take_notices():
            actor.notify(Level.WARNING, line)

    return tell


def _add_new(notices: list[str], lines: Iterable[str]) -> None:
    notices += [line for line in lines if line not in notices]


def _references(tools: SessionTools, actor: SessionActor, window: int | None) -> Bringer:
    """Brings what a message refers to; most refer to nothing, and cost nothing."""

    async def brought(inbound: Inbound) -> Sequence[ImagePart | TextPart]:
        if "@" not in inbound.text:
            return ()
        from hermes.app.references import References

        return await References(tools.gate, tools.context, actor.notify, window=window).brought(inbound)

    return brought


def _said(conversation: Conversation) -> list[Message]:
    lost = conversation.lost.messages if conversation.lost is not None else ()
    return [*conversation.messages, *lost]


def _flush(meter: Meter) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    async def flush(_state: TurnState, _ended: TurnEnded) -> None:
        await meter.flush()

    return flush


def _chosen(given: T | None, configured: T) -> T:
    return configured if given is None else given


def _check_shared(home: Home, *, agreed: bool) -> None:
    """Refuse to keep our files beside another program's before the person has agreed to it."""
    other = "" if agreed else home.foreign()
    if other:
        raise ConfigError(
            f"{home.root} is also another program's home ({other} is not ours); nothing in it was touched.",
            "`hermes home share` lets Hermes keep its own files there; HERMES_HOME names another folder.",
        )


async def share_home(environ: Mapping[str, str]) -> Home:
    """Agree that the home is shared: Hermes' own database is made in it, and nothing else is touched."""
    home = locate_home(environ)
    home.ensure()
    store = await Store.open(home.root, SystemClock())
    await store.close()
    return home
