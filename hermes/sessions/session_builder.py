"""Builds a live session: creates its parts in the order in which they are closed last."""

import asyncio
import contextlib
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, structs

from hermes.agent.loop_detection import LoopLimits, LoopThresholds
from hermes.agent.turn import TurnDeps, TurnState
from hermes.config.home import HermesHome
from hermes.config.settings import Evolution, GuardNumbers, GuardSettings, Settings, SideTaskSettings
from hermes.context.engine import ContextEngine, EngineSetup, open_engine
from hermes.core.checkpoints import FileLoss, WorkspaceChanges
from hermes.core.errors import StoreError
from hermes.core.events import Level, TurnEnded
from hermes.core.frame import EpochFrame
from hermes.core.messages import ImagePart, Message, TextPart
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_, tr
from hermes.llm.client import SideTask
from hermes.llm.exchange import Meter
from hermes.providers.wire import Endpoint
from hermes.runtime.actor import ActorParts, SessionActor
from hermes.runtime.approvals import SessionApprovals
from hermes.runtime.compression import CompressionDeps
from hermes.runtime.conversation import CallableTools, LiveConversation, list_open_calls, open_conversation
from hermes.runtime.epochs import ModelCandidate, SessionEpochs
from hermes.runtime.mailbox import AttachmentProvider, InboundMessage, SessionMailbox
from hermes.runtime.recorder import TurnRecorder
from hermes.safety.paths import Places
from hermes.sessions.epoch_frame import FrameBuilder, SessionOverrides
from hermes.sessions.features.features import (
    Feature,
    build_features,
    find_summary_writer,
    make_trust_check,
    may_have_hooks,
)
from hermes.sessions.model.model_route import SessionModelRoute, choose_model
from hermes.sessions.model.spending import SpendMeter
from hermes.sessions.options import SessionOptions
from hermes.sessions.services import Services, SessionSideTasks, prepare_mcp_servers
from hermes.sessions.session_tools import SessionPlan, SessionTools, approval_mode, build_session_tools
from hermes.store.records import MessageState, NewSession
from hermes.store.store import Store
from hermes.tools.effect_marks import EffectMarks
from hermes.tools.executor import Executor
from hermes.tools.permissions.gate import CallReviewer
from hermes.tools.registry import Toolbox
from hermes.tools.session import Safeguard, StoredTodoList, ToolContext
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.checkpoints.observer import WorkspaceObserver
    from hermes.checkpoints.recorder import CheckpointRecorder
    from hermes.hooks.hook_sets import HookSet
    from hermes.hooks.session_hooks import SessionHooks
    from hermes.tools.processes import BackgroundProcess


def build_guard_limits(settings: GuardSettings) -> LoopLimits:
    """Build the limits at which a turn that repeats itself is warned and ended."""
    return LoopLimits(
        warn=_build_counts(settings.warn_after) if settings.warnings_enabled else LoopThresholds(),
        stop=_build_counts(settings.hard_stop_after) if settings.hard_stop_enabled else LoopThresholds(),
    )


def _build_counts(numbers: GuardNumbers) -> LoopThresholds:
    return LoopThresholds(numbers.exact_failure, numbers.same_tool_failure, numbers.idempotent_no_progress)


_DROPPED = N_(
    "Older copies of files were deleted: {number} checkpoints of a folder and {size} MB are kept (`checkpoints.*`)."
    " /undo restores no files of older turns."
)
T = TypeVar("T")
RenewEpoch = Callable[[str, bool], Coroutine[object, object, int]]
"""Begins an epoch for a named reason, with True on the first model of the route; returns the bytes that are sent again.

It must run under `SessionActor.aside`.
"""


class LiveSession(Struct, frozen=True):
    """A live session with the parts that its front-end may ask about."""

    actor: SessionActor
    tools: SessionTools
    features: Feature
    route: SessionModelRoute
    options: SessionOptions
    frame_builder: FrameBuilder
    overrides: SessionOverrides
    renew: RenewEpoch
    meter: SpendMeter
    checkpoints: "SessionCheckpoints | None" = None
    """Records the state of files before they are changed; None when checkpoints are off."""
    hooks: "SessionHooks | None" = None
    """Other people's code at moments of the session; None where there is none."""


class SessionCheckpoints:
    """The checkpoints of a session. Their recorder is created before the first change: most turns change no file.

    What calls change is observed where checkpoints are off, too: `create` is None there.
    """

    def __init__(
        self, create: "Callable[[], CheckpointRecorder] | None", places: Places, max_copied_bytes: int
    ) -> None:
        self._create = create
        self._max_copied_bytes = max_copied_bytes
        self._places = places
        self._observer: WorkspaceObserver | None = None
        self.recorder: CheckpointRecorder | None = None

    def open(self) -> "CheckpointRecorder":
        """Return the recorder, the same one each time. Checkpoints must be on."""
        assert self._create is not None
        if self.recorder is None:
            self.recorder = self._create()
        return self.recorder

    @property
    def keeps_copies(self) -> bool:
        """Whether copies of files are kept."""
        return self._create is not None

    def can_copy(self, path: str) -> bool:
        """Return whether what is at a path is not too large for a copy."""
        with contextlib.suppress(OSError):
            return not os.path.isfile(path) or os.path.getsize(path) <= self._max_copied_bytes
        return True

    async def save_before(self, paths: Sequence[str], *, anything: bool, folders: Sequence[str] = ()) -> None:
        """Save what is at the paths, or may be changed by a command, before it changes."""
        await self._save_before(paths, folders, anything=anything)

    async def _save_before(
        self, paths: Sequence[str], folders: Sequence[str], *, anything: bool, asks: bool = False
    ) -> None:
        recorder = self.open() if self.keeps_copies else None
        if recorder is not None:
            await recorder.save_before(paths, anything=anything, folders=folders, asks=asks)
        if anything:
            if self._observer is None:
                from hermes.checkpoints.observer import WorkspaceObserver

                self._observer = WorkspaceObserver(self._places)
            await self._observer.begin(recorder.base if recorder is not None else None)

    async def find_uncovered(self, losses: Sequence[FileLoss], folders: Sequence[str] = ()) -> Mapping[FileLoss, str]:
        """Save the workspace and these folders, and return what of these losses no copy stands for."""
        from hermes.checkpoints.coverage import find_uncovered

        await self._save_before((), folders, anything=True, asks=True)
        base = self.open().base
        if base is None:
            return {one: one.path for one in losses}
        return await asyncio.to_thread(find_uncovered, losses, base, self._places)

    async def record_after(self, paths: Sequence[str], *, ran: bool = False) -> None:
        """Record the state of these paths after the change, and with `ran` that a command has ended."""
        if self.keeps_copies:
            await self.open().record_after(paths, ran=ran)

    async def list_changes(self, others: Sequence[str], *, running: bool) -> WorkspaceChanges:
        """Return what has changed since the last time, if a command has run since."""
        if self._observer is None:
            return WorkspaceChanges()
        return await self._observer.list_changes(others, running=running)

    def end_turn(self) -> None:
        """Forget how the workspace was, unless processes go on."""
        if self._observer is not None:
            self._observer.end_turn()

    async def close(self) -> None:
        """Close the recorder, if it was created."""
        if self.recorder is not None:
            await self.recorder.close()


class SessionBuilder:
    """Builds one session."""

    def __init__(self, services: Services, plan: SessionPlan, stack: AsyncExitStack) -> None:
        self._services = services
        self._plan = plan
        self._stack = stack
        self._meter: SpendMeter = services.budget.create_meter(plan.session_id, plan.options)
        self._conversations: list[LiveConversation] = []
        self._overrides = SessionOverrides()
        self._frame_builder = services.frame_builder_for(plan.options)
        self._side_tasks = SessionSideTasks(services, self._meter)
        self._route: SessionModelRoute | None = None
        self._checkpoints: SessionCheckpoints | None = None
        self._marks = EffectMarks()
        self._features = Feature()
        self._hooks: SessionHooks | None = None
        self._hook_sets: Sequence[HookSet] = ()
        self._settling: list[ToolContext] = []

    async def build(self) -> LiveSession:
        """Build the live session and push what must be closed onto the stack. Raises ConfigError, StoreError."""
        services, plan, stack = self._services, self._plan, self._stack
        stack.callback(self._drop_references)
        engine, remark = self._open_engine()
        marked = await services.load_taint_marks()
        features = self._features = build_features(plan, services.feature_deps_for(plan.options), marked)
        for ready in features.opening:
            await ready()
        more = (*features.tools, *engine.tools(), *plan.options.extra_tools)
        self._hook_sets = _read_hook_sets(services, plan)
        tools = build_session_tools(
            plan,
            home=services.home,
            settings=services.settings,
            process_deps=services.process_deps,
            extra_tools=more,
            marked_files=marked,
            hook_files=_list_hook_files(self._hook_sets),
        )
        for use in features.using:
            use(tools.toolbox)
        # What processes have changed is known when they have ended.
        stack.push_async_callback(_settle_marks, self._marks, self._settling)
        stack.push_async_callback(tools.close)
        services.add_notices([*tools.remarks, *features.remarks, *([remark] if remark else [])])
        if plan.fresh:
            await self._create_session()
        route = self._route = SessionModelRoute(
            services.models, partial(services.create_client, self._meter), self._make_frame_function(tools, features)
        )
        self._side_tasks.follow_route(route)
        if plan.options.model and plan.options is not services.options:
            choice = choose_model(services.settings.model, plan.options)
            if choice != services.model.choice:
                await route.set_first_model(await services.open_model_choice(choice))
        conversation = await self._open_conversation(await route.candidate(0), tools.toolbox)
        self._conversations.append(conversation)
        recorder = TurnRecorder(
            services.store,
            session_id=plan.session_id,
            epoch=conversation.epoch,
            untitled=plan.fresh,
            redactor=tools.context.redactor,
        )
        compression = services.settings.compression
        keeping = CompressionDeps(
            engine, services.context_windows, tools.state.taint, compression.enabled, compression.in_place
        )
        epochs = SessionEpochs(services.store, conversation, recorder, route, keeping)
        actor = await self._build_actor(conversation, recorder, epochs, tools)
        for attend in features.attending:
            await attend(actor, stack)
        await self._attach_hooks(actor, conversation, tools)
        actor.attachments.providers += [*features.bringers, _make_mode_bringer(tools, conversation)]

        def renew_epoch(reason: str, first: bool) -> Coroutine[object, object, int]:
            return epochs.renew_epoch(reason, recorder.emit, first=first)

        actor.before_turn.append(_make_limit_hook(tools, conversation, renew_epoch))
        return LiveSession(
            actor,
            tools,
            features,
            route,
            plan.options,
            self._frame_builder,
            self._overrides,
            renew_epoch,
            self._meter,
            self._checkpoints if self._checkpoints is not None and self._checkpoints.keeps_copies else None,
            self._hooks,
        )

    def _drop_references(self) -> None:
        """Drop references to the ended session, which would keep it alive until the collector runs."""
        self._route = self._checkpoints = self._hooks = None

    async def _create_session(self) -> None:
        services, plan = self._services, self._plan
        endpoint = services.model.endpoint
        await services.store.sessions.create(
            NewSession(
                id=plan.session_id,
                source=plan.options.platform,
                user_id=plan.options.person,
                provider=endpoint.record.name,
                model=endpoint.model,
                cwd=plan.cwd,
            )
        )
        if plan.options.keeps_unused:
            return
        self._stack.push_async_callback(
            _delete_unused_session, services.store, services.home, plan.session_id, self._conversations
        )

    async def _build_actor(
        self, conversation: LiveConversation, recorder: TurnRecorder, epochs: SessionEpochs, tools: SessionTools
    ) -> SessionActor:
        services, plan = self._services, self._plan
        approvals = SessionApprovals(
            services.store,
            plan.session_id,
            services.clock,
            seconds=services.settings.approvals.timeout,
            turn=lambda: recorder.turn_id,
        )
        self._stack.push_async_callback(approvals.close)
        from hermes.context.project_files import SubfolderHints

        hints = SubfolderHints(
            plan.cwd,
            make_trust_check(services.home, plan.options.trusted_folders),
            lambda: tools.state.seen_files,
            tools.context.taint_marks.find_sources,
        )
        hints.mark_known(conversation.messages)
        met: list[SessionActor] = []
        self._stack.callback(met.clear)

        def warn(line: str) -> None:
            for actor in met:
                actor.notify(Level.WARNING, line)

        hooks = self._open_hooks(conversation, tools, warn)
        checkpoints = self._checkpoints = self._build_checkpoints(recorder, tools, warn)
        todo_list = StoredTodoList(lambda: services.store.todo_lists, self._plan.session_id)
        context = structs.replace(
            tools.context,
            safeguard=_guard_buffers(tools.context, checkpoints),
            todo_list=todo_list,
            open_side_models=self._side_tasks.open_side_models,
        )
        self._settling.append(context)
        deps = TurnDeps(
            toolbox=tools.toolbox,
            executor=self._build_executor(tools, approvals, recorder, hooks),
            context=context,
            journal=recorder,
            clock=services.clock,
            epochs=epochs,
            meter=self._meter,
            publish=recorder.publish,
            steering=lambda: [
                *(tools.take_process_notices() if tools.state.started_processes is not None else ()),
                *(hints.collect_hints() if tools.state.seen_files and not plan.options.skip_context_files else ()),
                *_checkpoint_news(checkpoints),
                *(_take_joining_parts(met) if hooks is None or not hooks.checks_messages else ()),
            ],
            hooks=hooks,
        )
        parts = ActorParts(
            deps=deps,
            recorder=recorder,
            epochs=epochs,
            approvals=approvals,
            mailbox=SessionMailbox(),
            loop_limits=build_guard_limits(services.settings.tool_loop_guardrails),
            max_turns=_given_or_configured(plan.options.max_turns, services.settings.agent.max_turns),
        )
        waiting = () if plan.fresh else await services.store.inbox.list_waiting(plan.session_id)
        actor = SessionActor(conversation, parts, waiting=waiting)
        tools.state.tell_process_end = partial(_tell_process_end, weakref.ref(actor))
        met.append(actor)
        if hooks is not None:
            from hermes.sessions.plugins.hooks import attach_hooks

            attach_hooks(hooks, actor)
        self._stack.push_async_callback(checkpoints.close)
        if conversation.lost_turn is not None and checkpoints.keeps_copies:
            await checkpoints.open().resume_turn(conversation.lost_turn.turn_id)
        actor.on_turn_end.append(_make_checkpoint_hook(checkpoints, services, self._marks, context))
        return actor

    def _open_hooks(
        self, conversation: LiveConversation, tools: SessionTools, warn: Callable[[str], None]
    ) -> "SessionHooks | None":
        """Return the hooks of the session, where there may be any."""
        more = self._features.hook_sources
        if not more and not self._hook_sets:
            return None
        from hermes.sessions.plugins.hooks import open_session_hooks

        hooks = self._hooks = open_session_hooks(
            self._services, self._plan, tools, conversation, sources=(self._hook_sets, more), notify=warn
        )
        if hooks is not None:
            from hermes.hooks.statistics_file import add_records

            self._stack.callback(add_records, self._services.home.hook_log, hooks.dispatcher.statistics)
            self._stack.push_async_callback(hooks.close)
        return hooks

    def _build_checkpoints(
        self, recorder: TurnRecorder, tools: SessionTools, warn: Callable[[str], None]
    ) -> SessionCheckpoints:
        """Return the checkpoints. Nothing is created before a write."""
        services, chosen = self._services, self._services.settings.checkpoints
        session_id = self._plan.session_id

        def create_recorder() -> "CheckpointRecorder":
            from hermes.checkpoints.object_store import ObjectStore
            from hermes.checkpoints.recorder import CheckpointDeps, CheckpointRecorder

            deps = CheckpointDeps(
                session_id=session_id,
                places=tools.context.places,
                backend_name=tools.context.backend_handle.name,
                objects=ObjectStore(services.home.checkpoints),
                ledger=services.store.checkpoints,
                limit=chosen.max_file_mb * 1_000_000,
                total=chosen.max_total_mb * 500_000,
                is_confined=lambda: tools.context.backend.contained,
                notify=warn,
            )
            return CheckpointRecorder(deps, lambda: recorder.turn_id)

        limit = chosen.max_file_mb * 1_000_000
        return SessionCheckpoints(create_recorder if chosen.enabled else None, tools.context.places, limit)

    async def _attach_hooks(self, actor: SessionActor, conversation: LiveConversation, tools: SessionTools) -> None:
        """Attach what runs before and after turns and at the session's end."""
        services, options = self._services, self._plan.options
        if conversation.messages or conversation.lost_turn is not None:
            from hermes.sessions.written_files import restore_written_files

            restore_written_files(await _load_messages(conversation, services.store), tools.toolbox, tools.context)
        if options.save_trajectories or services.settings.agent.save_trajectories:
            actor.on_turn_end.append(_make_trajectory_hook(services.home.trajectories, actor))
        actor.on_turn_end += [_make_flush_hook(self._meter), _make_notice_hook(tools, actor)]
        actor.on_turn_end.append(services.turn_log.make_hook(options.platform))
        actor.attachments.providers.append(
            _make_reference_bringer(tools, actor, services.model.endpoint.context_length, options)
        )
        if options.reviews and services.settings.skills.evolution is not Evolution.OFF:
            self._attach_review(actor)
        if self._plan.fresh and options.reviews:
            self._attach_titling(actor, tools)
        if tools.mcp_servers:
            self._attach_servers(actor, tools)
        self._stack.callback(_warn_unfinished, tools, actor)
        self._stack.push_async_callback(actor.close)

    def _attach_servers(self, actor: SessionActor, tools: SessionTools) -> None:
        """Give the session the tools of its MCP servers."""
        own = [name for name in tools.mcp_servers if name not in self._plan.options.handed_servers]
        if own:
            from hermes.sessions.features.mcp_prompts import make_prompt_bringer

            notify, servers = partial(actor.notify, Level.WARNING), self._services.mcp_servers()
            self._stack.callback(servers.join_session(tools.toolbox, own, notify))
            actor.attachments.providers.append(make_prompt_bringer(servers, own, tools.context.asker))
        if len(own) < len(tools.mcp_servers):
            self._attach_handed_servers(actor, tools)

    def _attach_handed_servers(self, actor: SessionActor, tools: SessionTools) -> None:
        """Have the servers of an editor asked about, and started, before the first message is answered."""
        from hermes.sessions.editors.handed_servers import HandedServers
        from hermes.tools.permissions.prompts import ApprovalPrompter

        handed = self._plan.options.handed_servers
        servers = HandedServers(
            {name: one for name, one in handed.items() if name in tools.mcp_servers},
            ApprovalPrompter(tools.gate, actor.approvals),
            tools.gate,
            tools.context,
            tools.toolbox,
            partial(prepare_mcp_servers, self._services),
            actor.recorder.publish,
        )
        actor.attachments.providers.insert(0, servers.start_servers)
        self._stack.push_async_callback(servers.close)

    def _attach_titling(self, actor: SessionActor, tools: SessionTools) -> None:
        """Title the session after its first answer, where the settings want that."""
        services = self._services
        if not services.settings.auxiliary.title.is_wanted:
            return
        from hermes.sessions.features.titles import SessionTitler

        task = partial(self._side_tasks.create_task, "title", services.settings.auxiliary.title)
        titling = SessionTitler(services.store, task, tools.context.redact)
        actor.on_turn_end.append(titling.after_turn)
        self._stack.push_async_callback(titling.close)

    def _attach_review(self, actor: SessionActor) -> None:
        """Attach the background review of the session's work."""
        from hermes.sessions.features.memory import memory_journal
        from hermes.sessions.features.review import attach_reviewer

        services, deps = self._services, self._services.feature_deps
        journal = memory_journal(deps.home, deps.settings, deps.store, deps.redactor)
        reviewing = attach_reviewer(
            actor,
            services.settings,
            skills=deps.open_skills(),
            memory=journal if services.settings.memory.enabled else None,
            redactor=services.redactor,
            task=lambda: self._side_tasks.create_task("review", services.settings.auxiliary.review),
        )
        self._stack.push_async_callback(reviewing.close)

    def _open_engine(self) -> tuple[ContextEngine, str]:
        """Open the context engine that the settings name; return it with a remark on that choice."""
        services, name = self._services, self._services.settings.context.engine
        model = self._side_tasks.create_task("compression", services.settings.auxiliary.compression)
        writer = find_summary_writer(name, self._plan, services.feature_deps, model) if name else None
        setup = EngineSetup(
            settings=services.settings.compression,
            store=services.store,
            session_id=self._plan.session_id,
            summary_task=writer or model,
            clock=services.clock,
        )
        return open_engine("" if writer is not None else name, setup)

    async def _open_conversation(self, first: ModelCandidate, tools: Toolbox) -> LiveConversation:
        """Open the session's conversation, with the given history when it has none of its own."""
        plan, store = self._plan, self._services.store
        conversation = await open_conversation(
            store,
            plan.session_id,
            wanted=first.frame,
            client=first.client,
            system=plan.system,
            callable_tools=CallableTools(
                [one.name for one in tools], [one.name for one in tools if one.runs_at_caller]
            ),
        )
        if plan.history and not conversation.messages and conversation.lost_turn is None:
            await store.messages.append(plan.session_id, conversation.epoch, None, plan.history)
            conversation.messages.extend(plan.history)
            conversation.open_calls = list_open_calls(plan.history)
            conversation.lineage.append_messages(plan.history)
        return conversation

    def _build_executor(
        self,
        tools: SessionTools,
        approvals: SessionApprovals,
        recorder: TurnRecorder,
        hooks: "SessionHooks | None",
    ) -> Executor:
        executor = Executor(
            tools.toolbox,
            tools.gate,
            approver=approvals,
            reviewer=_build_reviewer(self._services.settings, self._side_tasks.create_task),
            tool_delay=_given_or_configured(self._plan.options.tool_delay, self._services.settings.agent.tool_delay),
            marks=self._marks,
            code_journal=recorder,
        )
        executor.hooks = hooks
        return executor

    def _make_frame_function(self, tools: SessionTools, features: Feature) -> Callable[[Endpoint], EpochFrame]:
        """Return the function that frames the session's epochs and records remarks about the prompt."""

        frame_builder = self._frame_builder

        def build_frame(endpoint: Endpoint) -> EpochFrame:
            made = frame_builder.build_frame(
                endpoint, tools.toolbox.list_schemas(), features, self._plan.system, self._overrides
            )
            for section in features.sections:
                self._services.add_notices(section.list_remarks())
            self._services.add_notices(frame_builder.remarks)
            return made

        return build_frame


def _build_reviewer(
    settings: Settings, create_task: Callable[[str, SideTaskSettings], SideTask]
) -> CallReviewer | None:
    """Return the model that reviews what the rules allow, or None unless the approval mode is `smart`."""
    if approval_mode(settings) != "smart":
        return None
    from hermes.runtime.reviewer import ModelReviewer

    return ModelReviewer(create_task("approval", settings.auxiliary.approval))


def _read_hook_sets(services: Services, plan: SessionPlan) -> "Sequence[HookSet]":
    """Return the hooks of all places for a session's folder; none where nothing was ever enabled."""
    if services.options.ignore_config or not may_have_hooks(services.home, services.settings):
        return ()
    from hermes.sessions.plugins.hooks import read_hook_sets

    folder, trusted = os.path.realpath(plan.cwd), plan.options.trusted_folders
    return read_hook_sets(services.home, services.settings, folder, services.process_environ, trusted)


def _list_hook_files(sets: "Sequence[HookSet]") -> list[str]:
    return [path for one in sets for path in one.list_kept_files()]


def _guard_buffers(context: ToolContext, checkpoints: SessionCheckpoints) -> Safeguard:
    """Return what saves files before they change; with an editor what is unsaved there, too."""
    if context.buffers is None:
        return checkpoints
    from hermes.sessions.editors.open_buffers import BufferSafeguard

    return BufferSafeguard(checkpoints, context.buffers, context)


def _make_trajectory_hook(folder: Path, actor: SessionActor) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    from hermes.sessions.formats.trajectory import write_trajectory

    async def save_trajectory(state: TurnState, ended: TurnEnded) -> None:
        try:
            await write_trajectory(
                folder,
                actor.session_id,
                system=actor.conversation.frame.system,
                messages=state.messages,
                ended=ended,
            )
        except OSError as error:
            actor.notify(
                Level.WARNING,
                N_("The trajectory of this turn could not be written: {strerror}.", strerror=error.strerror),
            )

    return save_trajectory


async def _delete_unused_session(
    store: Store, home: HermesHome, session_id: str, conversations: Sequence[LiveConversation]
) -> None:
    """Delete a fresh session without messages; one with messages needs no look at the store."""
    if any(conversation.messages for conversation in conversations):
        return
    with contextlib.suppress(StoreError):  # an empty session does no harm: it is listed nowhere
        if await store.sessions.drop_empty(session_id):
            (home.locks / f"{session_id}.lock").unlink(missing_ok=True)


def _warn_unfinished(tools: SessionTools, actor: SessionActor) -> None:
    """Warn about what ends with the session; by then its turn is over and nothing new begins."""
    line = tools.describe_running()
    if line:
        actor.notify(Level.WARNING, line)


def _make_mode_bringer(tools: SessionTools, conversation: LiveConversation) -> AttachmentProvider:
    """Return what tells the model of the session's mode in the next message, where it does not know of it."""
    is_known = not conversation.messages

    async def bring_note(_inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        nonlocal is_known
        mode = tools.state.mode
        if mode is WorkMode.ASK and is_known:
            return ()
        # After a change, or where the session began earlier, the transcript says what the model was told last.
        is_known = mode is WorkMode.ASK
        from hermes.sessions.work_modes import build_mode_note

        return build_mode_note(mode, conversation.messages)

    return bring_note


def _tell_process_end(find_actor: Callable[[], SessionActor | None], process: "BackgroundProcess") -> None:
    actor = find_actor()
    if actor is None:
        return
    command = to_one_line(strip_control_characters(process.command), 60)
    text = N_("{id} {status}: {command}", id=process.process_id, status=process.status, command=command)
    actor.notify(Level.INFO, text)


def _make_limit_hook(
    tools: SessionTools, conversation: LiveConversation, renew: RenewEpoch
) -> Callable[[], Awaitable[None]]:
    """Return what begins an epoch before a turn that would offer tools which the person has lost."""

    async def drop_withdrawn_tools() -> None:
        await tools.toolbox.refresh_limit()
        if tools.toolbox.holds_withdrawn(one.name for one in conversation.frame.tools):
            await renew(N_("tools were taken away"), False)

    return drop_withdrawn_tools


def _make_notice_hook(tools: SessionTools, actor: SessionActor) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    async def tell_notices(_state: TurnState, _ended: TurnEnded) -> None:
        backend = tools.context.backend_handle.backend
        lines = [*tools.unkept, *(backend.take_notices() if backend is not None else ())]
        tools.unkept.clear()
        for line in lines:
            actor.notify(Level.WARNING, line)

    return tell_notices


def _make_reference_bringer(
    tools: SessionTools, actor: SessionActor, window: int | None, options: SessionOptions
) -> AttachmentProvider:
    """Return a function that attaches what a message refers to; messages without `@` cost nothing.

    A session with limited tools gets no others by referring.
    """
    own = None if options.toolset_limit is None else tools.toolbox

    async def bring_references(inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        if "@" not in inbound.text:
            return ()
        from hermes.sessions.references import ReferenceResolver

        return await ReferenceResolver(
            tools.gate, tools.context, actor.notify, window=window, tools=own
        ).resolve_references(inbound)

    return bring_references


async def _load_messages(conversation: LiveConversation, store: Store) -> list[Message]:
    """Load every message of the session as it was written, compressed ones included."""
    if not await store.compactions.list_all(conversation.session_id):
        lost = conversation.lost_turn.messages if conversation.lost_turn is not None else ()
        return [*conversation.messages, *lost]
    rows = await store.messages.read(conversation.session_id, everything=True)
    return [row.message for row in rows if row.state is not MessageState.UNDONE]


def _take_joining_parts(met: Sequence[SessionActor]) -> list[TextPart]:
    return [one for actor in met for one in actor.take_joining_parts()]


def _checkpoint_news(checkpoints: SessionCheckpoints | None) -> list[TextPart]:
    recorder = checkpoints.recorder if checkpoints is not None else None
    return recorder.take_notes() if recorder is not None else []


async def _settle_marks(marks: EffectMarks, contexts: Sequence[ToolContext]) -> None:
    """Mark what a session has changed since its last call."""
    for context in contexts:
        await marks.settle(context)


def _make_checkpoint_hook(
    checkpoints: SessionCheckpoints, services: Services, marks: EffectMarks, context: ToolContext
) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    """Return a hook that closes the checkpoint of a turn that changed files, settles marks, and deletes old ones."""

    async def complete_checkpoint(state: TurnState, _ended: TurnEnded) -> None:
        await marks.settle(context)
        checkpoints.end_turn()
        recorder = checkpoints.recorder
        if recorder is not None and await recorder.close_turn(state.turn_id):
            context.taint_marks.settle_contents(recorder.last_changes)
            await context.taint_marks.flush()
            from hermes.checkpoints.retention import CheckpointRetention, prune_folder

            chosen, ground = services.settings.checkpoints, recorder.deps
            keep = CheckpointRetention(
                most=chosen.max_snapshots, days=chosen.keep_days, total=chosen.max_total_mb * 1_000_000
            )
            with contextlib.suppress(OSError, StoreError):  # it is tried again after the next such turn
                dropped = await prune_folder(
                    ground.places.workspace,
                    services.store.checkpoints,
                    ground.objects,
                    keep,
                    services.clock.now(),
                    keep=ground.session_id,
                )
                if dropped:
                    recorder.report_once(tr(_DROPPED, number=chosen.max_snapshots, size=chosen.max_total_mb))

    return complete_checkpoint


def _make_flush_hook(meter: Meter) -> Callable[[TurnState, TurnEnded], Awaitable[None]]:
    async def flush_meter(_state: TurnState, _ended: TurnEnded) -> None:
        await meter.flush()

    return flush_meter


def _given_or_configured(given: T | None, configured: T) -> T:
    return configured if given is None else given
