"""One chat session: the live session behind a chat, and everything that is shown there on its behalf."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence

from msgspec import Struct

from hermes.admin.people.identity import PersonIdentity, PersonResolver
from hermes.commands.event_descriptions import format_epoch_notice
from hermes.core.chats import Binding, ChatKind, DeliveryState, OutboxItem, Outgoing
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
    Refused,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.ids import new_queued_message_id
from hermes.core.outcomes import ExitReason
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.outbox import Outbox
from hermes.gateway.platform import Capabilities
from hermes.gateway.questions import ChatQuestions
from hermes.gateway.session_pool import PooledSession
from hermes.gateway.stream_renderer import StreamRenderer, StreamTarget
from hermes.gateway.telemetry import Telemetry
from hermes.i18n.formats import format_duration
from hermes.i18n.messages import N_, localize, tr
from hermes.ipc.remote_session import RemoteSession
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressFilter, build_egress_filter, build_remote_egress_filter
from hermes.sessions.port import SessionPort

_LOG = logging.getLogger(__name__)
HYGIENE_SHARE, HYGIENE_MESSAGES = 0.85, 4
"""The share of a model's window, and the number of messages, from which on a session is compressed before a turn."""
QUESTION_SECONDS = 3600.0
"""How long a question of the model waits for its answer (the clarify time-out of 0.19)."""
MAX_PENDING = 64
CLOSE_SECONDS = 20.0
_MAX_QUEUED_WORK = 1_000
"""Limit of queued things to show; a chat session with more of them has stopped working."""


class GatewayError(HermesError):
    """An internal error of the gateway; the log has its details."""

    def __init__(self, what: str) -> None:
        super().__init__(N_("Hermes failed by an error of its own ({what}).", what=what), N_("`hermes logs` shows it."))


class ChatSessionDeps(Struct, frozen=True, kw_only=True):
    """The dependencies that every chat session shares."""

    app: App
    outbox: Outbox
    people: PersonResolver
    telemetry: Telemetry
    report: Callable[[str], None]
    on_broken: Callable[["ChatSession"], None]
    """Called when a session cannot continue from memory."""


class ChatSession:
    """A chat's conversation while its session is live. The session's output is shown strictly in order."""

    def __init__(
        self, deps: ChatSessionDeps, account: PlatformAccount, binding: Binding, person: PersonIdentity
    ) -> None:
        self._deps = deps
        self.app = deps.app
        self.account = account
        self.binding = binding
        self.place = binding.place
        self.person = person
        self.reply_to = ""
        """The id of the message that the next answer replies to."""
        self.questions = ChatQuestions(self)
        self.actor: SessionPort
        self.pooled: PooledSession
        self._renderer: StreamRenderer | None = None
        self._work_queue: asyncio.Queue[Coroutine[object, object, None]] = asyncio.Queue(_MAX_QUEUED_WORK)
        self._unshown = 0
        self._worker = asyncio.create_task(self._run_work(), name=f"conversation {binding.key}")
        self._watchdog: asyncio.TimerHandle | None = None
        self._last_activity = 0.0
        """When the turn last showed activity, by the loop's clock."""
        self._unsubscribe: Callable[[], None] = _do_nothing
        self.spent_at = 0.0
        """When a turn last ended because its spending limit was reached."""
        self.pending = 0
        """The number of messages whose turns have not ended."""
        self._capacity = asyncio.Event()

    @property
    def can(self) -> Capabilities:
        """The platform's capabilities."""
        return self.account.can

    @property
    def unfinished(self) -> bool:
        """Whether some output is not shown, or not in the outbox, yet."""
        return self._unshown > 0

    def attach_session(self, actor: SessionPort) -> None:
        """Show this session's output from now on."""
        self.actor = actor
        self._deps.telemetry.set_lane(actor.session_id, self.place.lane)
        # In a group somebody who looks after Hermes may answer for those who may not.
        alone = self.place.kind is ChatKind.DM
        actor.approvals.can_ask = not alone or bool(self._deps.people.role_rights(self.person.role).approve)
        self._unsubscribe = actor.subscribe(self._on_event)

    @property
    def local(self) -> SessionActor | None:
        """The session's actor, or None where the session lives in another process."""
        return self.actor if isinstance(self.actor, SessionActor) else None

    @property
    def remote(self) -> RemoteSession | None:
        """The remote session where it lives in another process, else None."""
        return self.actor if isinstance(self.actor, RemoteSession) else None

    @property
    def egress_filter(self) -> EgressFilter:
        """The filter for what may leave the machine now."""
        services, actor = self.app.services, self.local
        if actor is None:
            return build_remote_egress_filter(
                services, services.settings.gateway.cwd or str(services.home.root / "workspace")
            )
        return build_egress_filter(services, self.app.live_session(actor))

    def can_answer(self, person: PersonIdentity) -> bool:
        """Return whether somebody may answer this session's questions: the person that it works for, the owner, and
        for people who do not administer Hermes anybody who does.
        """
        mine = self.person.includes_person(person) and bool(self._deps.people.role_rights(person.role).approve)
        return mine or person.is_owner or (person.can_administer and not self.person.can_administer)

    def track_turn(self, ended: "asyncio.Future[TurnEnded]") -> None:
        """Count a posted message until its turn ends, and notice when the session fails to answer it."""
        self.pending += 1
        ended.add_done_callback(self._on_turn_done)

    async def wait_for_capacity(self) -> None:
        """Wait while too many messages wait for their turns; more stay in the journal meanwhile."""
        while self.pending >= MAX_PENDING:
            self._capacity.clear()
            await self._capacity.wait()

    async def compress_if_large(self) -> None:
        """Compress a conversation that nearly fills its model's window, before a turn begins."""
        actor, settings = self.local, self.app.services.settings.compression
        if actor is None:
            return  # who holds it looks after it
        live = actor.conversation
        if actor.busy or not settings.enabled or len(live.messages) < HYGIENE_MESSAGES:
            return
        window = await self.app.context_length(actor)
        if window is not None and live.lineage.estimated_tokens >= window * HYGIENE_SHARE:
            with contextlib.suppress(BusyError):  # a turn has begun meanwhile: it looks at the window itself
                await actor.compress()

    async def send_note(self, text: str) -> None:
        """Send a message in Hermes' own name."""
        if text.strip():
            key = f"note:{new_queued_message_id()}"
            message = Outgoing(place=self.place, text=text, key=key)
            await self.enqueue([OutboxItem(key=key, message=message, session_id=self.actor.session_id)])

    async def enqueue(self, items: Sequence[OutboxItem]) -> None:
        """Put messages of this chat into the outbox."""
        if self._renderer is not None:
            self._renderer.end_segment()
        await self._deps.outbox.enqueue(items)

    async def find_delivery(self, key: str) -> tuple[DeliveryState, str] | None:
        """Return the state and the platform's id of the message with this key, or None."""
        return await self.app.services.store.outbox.get_state(key)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the person whom the session works for, as the `Asker` of its tools; return the answer."""
        picked = await self.questions.ask_person(
            self.person, question, choices, typed=True, seconds=QUESTION_SECONDS, of_model=True
        )
        return choices[picked] if isinstance(picked, int) else picked

    async def close(self) -> None:
        """Finish the queued output, then show nothing more; what is in the outbox stays there."""
        self._unsubscribe()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._work_queue.join()
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._worker.cancel()
        await asyncio.wait({self._worker})
        if self._renderer is not None:
            await self._renderer.close()
        while not self._work_queue.empty():
            self._work_queue.get_nowait().close()
        self._release_references()

    def _release_references(self) -> None:
        """Drop every reference to this chat session: cycles would stay in memory until the garbage collector runs."""
        self._unsubscribe = _do_nothing
        self.questions.close()
        del self._worker
        if hasattr(self, "actor"):
            del self.actor
        if hasattr(self, "pooled"):
            del self.pooled

    def _on_turn_done(self, ended: "asyncio.Future[TurnEnded]") -> None:
        self.pending -= 1
        if self.pending < MAX_PENDING:
            self._capacity.set()
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            self._deps.report(f"{self.binding.key}: {error}")
            self._deps.on_broken(self)

    def _on_event(self, event: Event) -> None:
        self._note_activity(event)
        match event:
            case TurnStarted() | TurnResumed():
                hearer = StreamTarget(self.account, self.place, self.reply_to, lambda: self.egress_filter)
                speaker = self._renderer = StreamRenderer(
                    self.app, self._deps.outbox, hearer, self.actor.session_id, event.turn_id
                )
                self._enqueue_work(speaker.start())
            case TurnEnded():
                if event.reason is ExitReason.SPEND_LIMIT:
                    self.spent_at = self.app.services.clock.now()
                    """When a turn last ended because its spending limit was reached."""
                spoken, self._renderer = self._renderer, None
                if spoken is not None and spoken.turn_id == event.turn_id:
                    self._enqueue_work(spoken.finish(event))
            case ApprovalAsked():
                self._enqueue_work(self.questions.show_approval(event))
            case ApprovalAnswered():
                self._enqueue_work(self.questions.show_decision(event))
            case Notice() | Refused() | FellBack() | EpochBegan():
                self._enqueue_work(self.send_note(self._format_notice(event)))
            case _ if self._renderer is not None:
                self._renderer.handle_event(event)
            case _:
                pass

    def _note_activity(self, event: Event) -> None:
        """Note activity of the running turn, which restarts its time limit."""
        self._last_activity = asyncio.get_running_loop().time()
        """When the turn last showed activity, by the loop's clock."""
        if isinstance(event, TurnEnded) and self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        elif isinstance(event, TurnStarted | TurnResumed):
            self._schedule_watchdog(self.app.services.settings.gateway.turn_timeout)

    def _schedule_watchdog(self, seconds: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(seconds, self._check_activity)

    def _check_activity(self) -> None:
        """Stop a turn that has shown no activity for too long, and say so. It may wait while a person is asked."""
        limit = self.app.services.settings.gateway.turn_timeout
        left = self._last_activity + limit - asyncio.get_running_loop().time()
        if left > 0 or self.questions.is_waiting:
            self._schedule_watchdog(max(left, 1.0))
            return
        self._watchdog = None
        self._deps.report(f"{self.binding.key}: no sign of life for {limit:g} s; the turn is stopped.")
        self._enqueue_work(
            self.send_note(
                tr("(There was no sign of life for {time}; the turn is stopped.)", time=format_duration(limit))
            )
        )
        self.actor.stop()

    def _format_notice(self, event: Notice | Refused | FellBack | EpochBegan) -> str:
        """Return the text that people see for an event; people who do not administer Hermes see only their own."""
        match event:
            case Refused():
                return tr("(Not done: {reason})", reason=localize(event.reason))
            case Notice() if self.person.can_administer and event.level is not Level.INFO:
                return f"({localize(event.text)})"
            case FellBack() if self.person.can_administer:
                return tr("({why} Going on with {model}.)", why=localize(event.reason), model=event.model)
            case EpochBegan() if self.person.can_administer and event.number > 1:
                said = format_epoch_notice(event.reason, event.bytes)
                return f"({said})" if said else ""
            case _:
                return ""

    def _enqueue_work(self, work: Coroutine[object, object, None]) -> None:
        try:
            self._work_queue.put_nowait(work)
            self._unshown += 1
        except asyncio.QueueFull:
            work.close()
            self._deps.report(f"{self.binding.key}: too much waits to be shown; some of it was not.")

    async def _run_work(self) -> None:
        while True:
            work = await self._work_queue.get()
            try:
                await work
            except HermesError as error:
                self._deps.report(f"{self.binding.key}: {error}")
                self._deps.on_broken(self)
            except Exception as error:  # noqa: BLE001 - what comes behind it is shown all the same
                _LOG.exception("something could not be shown")
                self._deps.report(f"{self.binding.key}: {GatewayError(type(error).__name__)}")
                self._deps.on_broken(self)
            finally:
                self._unshown -= 1
                self._work_queue.task_done()


def _do_nothing() -> None:
    """Do nothing."""
