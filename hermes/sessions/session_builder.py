"""Brings a session to life: everything that it stands on, put together in the order in which it is closed last."""

import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs

from hermes.agent.loop_detection import GuardCounts, GuardLimits
from hermes.agent.turn import Deps, TurnState
from hermes.checkpoints.object_store import ObjectStore
from hermes.checkpoints.recorder import Ground, Keeper
from hermes.config.home import Home
from hermes.config.settings import Evolution, GuardNumbers, GuardSettings, SideTaskSettings
from hermes.context.engine import ContextEngine, Setup, open_engine
from hermes.core.errors import StoreError
from hermes.core.events import Level, TurnEnded
from hermes.core.frame import EpochFrame
from hermes.core.messages import Message
from hermes.core.parts import ImagePart, TextPart
from hermes.llm.auxiliary import SideTask
from hermes.llm.metering import Meter
from hermes.providers.resolve import ModelChoice
from hermes.providers.wire import Endpoint
from hermes.runtime.actor import Parts, SessionActor
from hermes.runtime.approvals import Approvals
from hermes.runtime.attachments import Bringer
from hermes.runtime.compression import Keeping
from hermes.runtime.conversation import Conversation, open_conversation
from hermes.runtime.epochs import Candidate, SessionEpochs
from hermes.runtime.mailbox import Inbound, Mailbox
from hermes.runtime.recorder import Recorder
from hermes.sessions.epoch_frame import Framing, Manner
from hermes.sessions.features.features import Kept, kept_for, vouching
from hermes.sessions.gate_factory import mode_of
from hermes.sessions.model.endpoint import choose_model
from hermes.sessions.model.fallback_route import SessionRoute
from hermes.sessions.model.spending import SpendMeter
from hermes.sessions.options import Options
from hermes.sessions.services import Premises
from hermes.sessions.session_tools import Plan, SessionTools, session_tools
from hermes.store.rows import MessageState, NewSession
from hermes.store.store import Store
from hermes.tools.executor import Executor
from hermes.tools.permissions.gate import Reviewer
from hermes.tools.permissions.written_files import recall_written
from hermes.tools.taint_marks import Mark, Marked


def guard_limits(settings: GuardSettings) -> GuardLimits:
    """When a turn that goes round in circles is warned and ended."""
    return GuardLimits(
        warn=_counts(settings.warn_after) if settings.warnings_enabled else GuardCounts(),
        stop=_counts(settings.hard_stop_after) if settings.hard_stop_enabled else GuardCounts(),
    )


def _counts(numbers: GuardNumbers) -> GuardCounts:
    return GuardCounts(numbers.exact_failure, numbers.same_tool_failure, numbers.idempotent_no_progress)


T = TypeVar("T")
Renew = Callable[[str, bool], Coroutine[object, object, int]]
"""Begins an epoch by a name, with True with the first model of the route; the bytes that are sent anew. For who is
`aside`."""


class Live(Struct, frozen=True):
    """A live session with what its front-end may ask about."""

    actor: SessionActor
    tools: SessionTools
    kept: Kept
    route: SessionRoute
    options: Options
    framing: Framing
    manner: Manner
    renew: Renew
    keeper: Keeper | None = None
    """Who keeps what files were before they were changed; None: nobody does."""


class Birth:
    """One session on its way to life."""

    def __init__(self, premises: Premises, plan: Plan, stack: AsyncExitStack) -> None:
        self._on = premises
        self._plan = plan
        self._stack = stack
        self._meter: SpendMeter = premises.spending.meter_for(plan.session_id, plan.options)
        self._born: list[Conversation] = []
        self._manner = Manner()
        self._framing = premises.framing_for(plan.options)
        self._route: SessionRoute | None = None
        self._keeper: Keeper | None = None

    async def live(self) -> Live:
        """The live session; whatever it needs is pushed onto the stack. Raises ConfigError, StoreError."""
        on, plan, stack = self._on, self._plan, self._stack
        stack.callback(self._let_go)
        engine, remark = self._engine()
        marked = Marked(
            starmap(Mark, await on.store.marked_files()),
            lambda mark: on.store.mark_file(mark.path, mark.digest, mark.sources),
        )
        kept = kept_for(plan, on.shelf_for(plan.options), marked)
        for ready in kept.opening:
            await ready()
        more = (*kept.tools, *engine.tools())
        tools = session_tools(plan, home=on.home, settings=on.settings, process=on.shared, more=more, marked=marked)
        stack.push_async_callback(tools.close)
        on.remark([*tools.remarks, *([remark] if remark else [])])
        if plan.fresh:
            await self._create()
        route = self._route = SessionRoute(on.models, partial(on.client, self._meter), self._frame(tools, kept))
        if plan.options.model and plan.options is not on.options:
            choice = choose_model(on.settings.model, plan.options)
            if choice != on.model.choice:
                await route.lead(await on.other(choice))
        conversation = await self._conversation(await route.candidate(0))
        self._born.append(conversation)
        recorder = Recorder(
            on.store,
            session_id=plan.session_id,
            epoch=conversation.epoch,
            untitled=plan.fresh,
            redactor=tools.context.redactor,
        )
        compression = on.settings.compression
        keeping = Keeping(engine, on.windows, tools.state.taint, compression.enabled, compression.in_place)
        epochs = SessionEpochs(on.store, conversation, recorder, route, keeping)
        actor = await self._actor(conversation, recorder, epochs, tools)
        for attend in kept.attending:
            await attend(actor, stack)
        await self._attend(actor, conversation, tools)
        actor.bringing.bringers += kept.bringers

        def renew(reason: str, first: bool) -> Coroutine[object, object, int]:
            return epochs.renew(reason, recorder.emit, first=first)

        return Live(actor, tools, kept, route, plan.options, self._framing, self._manner, renew, self._keeper)

    def _let_go(self) -> None:
        """Forget the session that has ended: what knows it would keep it until the collector comes round."""
        self._route = self._keeper = None

    async def _create(self) -> None:
        on, plan = self._on, self._plan
        endpoint = on.model.endpoint
        await on.store.create_session(
            NewSession(
                id=plan.session_id,
                source=plan.options.platform,
                user_id=plan.options.person,
                provider=endpoint.record.name,
                model=endpoint.model,
                cwd=plan.cwd,
            )
        )
        self._stack.push_async_callback(_forget_unused, on.store, on.home, plan.session_id, self._born)

    async def _actor(
        self, conversation: Conversation, recorder: Recorder, epochs: SessionEpochs, tools: SessionTools
    ) -> SessionActor:
        on, plan = self._on, self._plan
        approvals = Approvals(
            on.store,
            plan.session_id,
            on.clock,
            seconds=on.settings.approvals.timeout,
            turn=lambda: recorder.turn_id,
        )
        self._stack.push_async_callback(approvals.close)
        from hermes.context.subfolders import SubfolderHints

        hints = SubfolderHints(plan.cwd, vouching(on.home, tools.context.marked), lambda: tools.state.seen)
        hints.recall(conversation.messages)
        met: list[SessionActor] = []
        self._stack.callback(met.clear)

        def warn(line: str) -> None:
            for actor in met:
                actor.notify(Level.WARNING, line)

        keeper = self._keeper = self._opened_keeper(recorder, tools, warn)
        deps = Deps(
            toolbox=tools.toolbox,
            executor=self._executor(tools, approvals),
            context=structs.replace(tools.context, safeguard=keeper),
            journal=recorder,
            clock=on.clock,
            epochs=epochs,
            meter=self._meter,
            publish=recorder.publish,
            steering=lambda: [*tools.notices(), *hints.news(), *_news(keeper), *_joining(met)],
        )
        parts = Parts(
            deps=deps,
            recorder=recorder,
            epochs=epochs,
            approvals=approvals,
            mailbox=Mailbox(),
            guard=guard_limits(on.settings.tool_loop_guardrails),
            max_turns=_chosen(plan.options.max_turns, on.settings.agent.max_turns),
        )
        waiting = () if plan.fresh else await on.store.inbox(plan.session_id)
        actor = SessionActor(conversation, parts, waiting=waiting)
        met.append(actor)
        if keeper is not None:
            self._stack.push_async_callback(keeper.close)
            if conversation.lost is not None:
                await keeper.resume(conversation.lost.turn_id)
            actor.on_turn_end.append(_completing(keeper, on))
        return actor

    def _opened_keeper(self, recorder: Recorder, tools: SessionTools, tell: Callable[[str], None]) -> Keeper | None:
        """Who keeps what files were, where the person wants that. Nothing is made before something is written."""
        on, chosen = self._on, self._on.settings.checkpoints
        if not chosen.enabled:
            return None
        ground = Ground(
            session_id=self._plan.session_id,
            places=tools.context.places,
            place=tools.context.backend.name,
            objects=ObjectStore(on.home.checkpoints),
            ledger=on.store,
            limit=chosen.max_file_mb * 1_000_000,
            total=chosen.max_total_mb * 500_000,
            tell=tell,
        )
        return Keeper(ground, lambda: recorder.turn_id)

    async def _attend(self, actor: SessionActor, conversation: Conversation, tools: SessionTools) -> None:
        """What is done before and after turns, and when the session ends."""
        on, options = self._on, self._plan.options
        if conversation.messages or conversation.lost is not None:
            recall_written(await _said(conversation, on.store), tools.toolbox, tools.context)
        if options.save_trajectories or on.settings.agent.save_trajectories:
            actor.on_turn_end.append(_saving_trajectories(on.home.trajectories, actor))
        actor.on_turn_end += [_flush(self._meter), _tell_notices(tools, actor)]
        actor.bringing.bringers.append(_references(tools, actor, on.model.endpoint.context_length, options))
        if options.reviews and on.settings.skills.evolution is not Evolution.OFF:
            self._review(actor)
        if self._plan.fresh and options.reviews:
            self._title(actor, tools)
        if tools.servers:
            notify = partial(actor.notify, Level.WARNING)
            self._stack.callback(on.servers().join(tools.toolbox, tools.servers, notify))
        self._stack.callback(_tell_unfinished, tools, actor)
        self._stack.push_async_callback(actor.close)

    def _title(self, actor: SessionActor, tools: SessionTools) -> None:
        """Let a chat be named after its first answer, where that is wanted."""
        from hermes.sessions.features.titles import Titling, wanted

        on = self._on
        if not wanted(on.settings.auxiliary.title):
            return
        task = partial(self._side_task, "title", on.settings.auxiliary.title)
        titling = Titling(on.store, task, tools.context.redact)
        actor.on_turn_end.append(titling.after_turn)
        self._stack.push_async_callback(titling.close)

    def _review(self, actor: SessionActor) -> None:
        """Let the session's work be looked back at."""
        from hermes.sessions.features.memory import journal_of
        from hermes.sessions.features.review import reviews_of

        on, shelf = self._on, self._on.shelf
        journal = journal_of(shelf.home, shelf.settings, shelf.store, shelf.redactor)
        reviewing = reviews_of(
            actor,
            on.settings,
            skills=shelf.skills(),
            memory=journal if on.settings.memory.enabled else None,
            redactor=on.redactor,
            task=lambda: self._side_task("review", on.settings.auxiliary.review),
        )
        self._stack.push_async_callback(reviewing.close)

    def _side_task(self, purpose: str, chosen: SideTaskSettings) -> SideTask:
        def leader() -> ModelChoice | None:
            return self._route.leader if self._route is not None else None

        return self._on.side_task(purpose, chosen, self._meter, leader)

    def _engine(self) -> tuple[ContextEngine, str]:
        """The context engine that the settings name, and what there is to say about that choice."""
        on = self._on
        setup = Setup(
            settings=on.settings.compression,
            store=on.store,
            session_id=self._plan.session_id,
            condensing=self._side_task("compression", on.settings.auxiliary.compression),
            clock=on.clock,
        )
        return open_engine(on.settings.context.engine, setup)

    async def _conversation(self, first: Candidate) -> Conversation:
        """The session's conversation, with the history that it was given when it has none."""
        plan, store = self._plan, self._on.store
        conversation = await open_conversation(
            store, plan.session_id, wanted=first.frame, client=first.client, system=plan.system
        )
        if plan.history and not conversation.messages and conversation.lost is None:
            await store.append(plan.session_id, conversation.epoch, None, plan.history)
            conversation.messages.extend(plan.history)
            conversation.lineage.extend(plan.history)
        return conversation

    def _executor(self, tools: SessionTools, approvals: Approvals) -> Executor:
        return Executor(
            tools.toolbox,
            tools.gate,
            approver=approvals,
            reviewer=self._reviewer(),
            tool_delay=_chosen(self._plan.options.tool_delay, self._on.settings.agent.tool_delay),
        )

    def _reviewer(self) -> Reviewer | None:
        """Who looks at what the rules allow, where the person wants that."""
        if mode_of(self._on.settings) != "smart":
            return None
        from hermes.runtime.reviewer import ModelReviewer

        return ModelReviewer(self._side_task("approval", self._on.settings.auxiliary.approval))

    def _frame(self, tools: SessionTools, kept: Kept) -> Callable[[Endpoint], EpochFrame]:
        """How the session's epochs are framed; what there is to say about the prompt is noted."""

        framing = self._framing

        def frame(endpoint: Endpoint) -> EpochFrame:
            made = framing.frame(endpoint, tools.toolbox.schemas(), kept, self._plan.system, self._manner)
            for section in kept.sections:
                self._on.remark(section.remarks())
            self._on.remark(framing.remarks)
            return made

        return frame


def _saving_trajectories(folder: Path, actor: SessionActor) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    from hermes.sessions.formats.trajectory import write_trajectory

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


def _references(tools: SessionTools, actor: SessionActor, window: int | None, options: Options) -> Bringer:
    """Brings what a message refers to; most refer to nothing, and cost nothing. Whose tools are limited has no others
    by referring."""
    own = None if options.toolset_limit is None else tools.toolbox

    async def brought(inbound: Inbound) -> Sequence[ImagePart | TextPart]:
        if "@" not in inbound.text:
            return ()
        from hermes.sessions.references import References

        return await References(tools.gate, tools.context, actor.notify, window=window, tools=own).brought(inbound)

    return brought


async def _said(conversation: Conversation, store: Store) -> list[Message]:
    """Every message of the session as it was written, those that are condensed by now too."""
    if not await store.compactions(conversation.session_id):
        lost = conversation.lost.messages if conversation.lost is not None else ()
        return [*conversation.messages, *lost]
    rows = await store.transcript(conversation.session_id, everything=True)
    return [row.message for row in rows if row.state is not MessageState.UNDONE]


def _joining(met: Sequence[SessionActor]) -> list[TextPart]:
    return [one for actor in met for one in actor.joining()]


def _news(keeper: Keeper | None) -> list[TextPart]:
    return keeper.news() if keeper is not None else []


def _completing(keeper: Keeper, on: Premises) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    """After a turn that had files changed: what it has left is noted, and what is too old is forgotten."""

    async def complete(state: TurnState, _ended: TurnEnded) -> None:
        if await keeper.close_turn(state.turn_id):
            from hermes.checkpoints.retention import Keep, tidy

            chosen, ground = on.settings.checkpoints, keeper.ground
            keep = Keep(most=chosen.max_snapshots, days=chosen.keep_days, total=chosen.max_total_mb * 1_000_000)
            with contextlib.suppress(OSError, StoreError):  # it is tried again after the next such turn
                await tidy(ground.places.workspace, on.store, ground.objects, keep, on.clock.now())

    return complete


def _flush(meter: Meter) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    async def flush(_state: TurnState, _ended: TurnEnded) -> None:
        await meter.flush()

    return flush


def _chosen(given: T | None, configured: T) -> T:
    return configured if given is None else given
