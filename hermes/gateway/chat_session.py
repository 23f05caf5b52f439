"""One chat's conversation: its messages go to the session, and what the session says or asks is shown in the chat.

Output is shown strictly in order.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from hermes.admin.people.identity import PersonIdentity, PersonResolver
from hermes.commands.event_descriptions import format_epoch_notice
from hermes.config.display import BusyMode
from hermes.core.chats import (
    Binding,
    ChatKind,
    InboundEvent,
    OutboxItem,
    Outgoing,
    Posting,
    StoredInboundEvent,
    is_beside_key,
)
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import (
    ApprovalAnswered,
    ApprovalAsked,
    EpochBegan,
    Event,
    FellBack,
    Level,
    Notice,
    Queued,
    Refused,
    Retrying,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from hermes.core.ids import new_queued_message_id
from hermes.core.outcomes import ExitReason
from hermes.gateway.accounts import PlatformAccount, is_shared
from hermes.gateway.chat_questions import ChatQuestions
from hermes.gateway.inbound_messages import build_inbound
from hermes.gateway.outbox import Outbox
from hermes.gateway.people import find_working_folder
from hermes.gateway.stream_renderer import StreamRenderer, StreamTarget
from hermes.gateway.surroundings import describe_surroundings
from hermes.gateway.telemetry import Telemetry
from hermes.gateway.text.split import split_text
from hermes.gateway.voice.chat_voice import ChatVoice, SpokenChat
from hermes.i18n.formats import format_duration, format_time
from hermes.i18n.messages import N_, localize, tr
from hermes.ipc.remote_session import RemoteSession
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage, OwnWords
from hermes.sessions.app import App
from hermes.sessions.egress_filter import EgressFilter, build_egress_filter, build_remote_egress_filter
from hermes.sessions.plugins.gateway_hooks import GatewayHooks
from hermes.sessions.port import SessionPort
from hermes.sessions.untrusted_text import AttachedFiles, program_note, untrusted_part
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import (
    end_sentence,
    escape_confusable_characters,
    strip_control_characters,
    to_one_line,
)

_LOG = logging.getLogger(__name__)
HYGIENE_SHARE, HYGIENE_MESSAGES = 0.85, 4
"""The share of a model's window, and the number of messages, from which on a session is compressed before a turn."""
QUESTION_SECONDS = 3600.0
"""How long a question of the model waits for its answer (the clarify time-out of 0.19)."""
MAX_PENDING = 64
CLOSE_SECONDS = 20.0
_LONGEST_NAME = 40
_LONGEST_ECHO = 500
"""Characters that are shown of what was said in another place."""
_TOLD_ATTEMPT = 2
"""The new try of a model call from which on a chat is told of it."""
_MAX_QUEUED_WORK = 1_000
"""Limit of queued things to show; a chat session with more of them has stopped working."""


class GatewayError(HermesError):
    """An internal error of the gateway; the log has its details."""

    def __init__(self, what: str) -> None:
        super().__init__(N_("Hermes hit an internal error ({what}).", what=what), N_("`hermes logs` shows it."))


class GatewayDeps(Struct, frozen=True, kw_only=True):
    """What the chats of a gateway share."""

    app: App
    outbox: Outbox
    people: PersonResolver
    telemetry: Telemetry
    media: Path
    """The folder of files that come in."""
    hooks: GatewayHooks
    voice_modes: dict[str, str] = field(default_factory=dict)
    """What chats have chosen about spoken answers, by their lanes, as far as that was looked up; empty: nothing."""


class ChatSession:
    """A chat's conversation while its session is live. The session's output is shown strictly in order."""

    def __init__(
        self,
        deps: GatewayDeps,
        account: PlatformAccount,
        binding: Binding,
        person: PersonIdentity,
        on_broken: Callable[["ChatSession"], None],
    ) -> None:
        self._deps = deps
        self._on_broken = on_broken
        self.app = deps.app
        self.account = account
        self.binding = binding
        self.place = binding.place
        self.person = person
        self.reply_to = ""
        """The id of the message that the next answer replies to."""
        self._own_words = OwnWords()
        self._was_denied = False
        """Whether the last question was answered with no."""
        self.is_live = not is_beside_key(binding.key)
        """Whether answers are shown while they are written."""
        self.has_moved = False
        """Whether its session was in another place until now, which the model is told with the next message."""
        self.questions = ChatQuestions(self)
        self.voice = ChatVoice(_describe_spoken_chat(self, deps))
        self.actor: SessionPort
        self._renderer: StreamRenderer | None = None
        self._work_queue: asyncio.Queue[Coroutine[object, object, None]] = asyncio.Queue(_MAX_QUEUED_WORK)
        self._unshown = 0
        self.finish_output = self._work_queue.join
        """Waits until all output so far is shown or in the outbox."""
        self._worker = asyncio.create_task(self._run_work(), name=f"conversation {binding.key}")
        self._watchdog: asyncio.TimerHandle | None = None
        self._has_told_of_retries = False
        """Whether the running turn was said to wait for a model that fails."""
        self._last_activity = 0.0
        """When the turn last showed activity, by the loop's clock."""
        self._unsubscribe: Callable[[], None] = _do_nothing
        self.spent_at = 0.0
        """When a turn last ended because its spending limit was reached."""
        self._pending = 0
        """The number of messages whose turns have not ended."""
        self._capacity = asyncio.Event()

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
        self._own_words.unknown = actor.unfinished
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

    async def wait_for_capacity(self) -> None:
        """Wait while too many messages wait for their turns; more stay in the journal meanwhile."""
        while self._pending >= MAX_PENDING:
            self._capacity.clear()
            await self._capacity.wait()

    async def post_events(self, events: Sequence[StoredInboundEvent], mode: BusyMode, *, observed: str = "") -> None:
        """Post inbound events to the session; they are in the session's inbox when this returns, and nowhere else.
        `observed` is what others said before without addressing the agent.
        """
        account = self.account
        heard = [one.arrival for one in events]
        shared = is_shared(account.plan.settings, self.place)
        inbound = await _build_inbound(self, heard, shared=shared)
        if inbound is None:
            await self.app.services.store.chats.dismiss_events([one.id for one in events], "a hook refused it")
            return
        if observed:
            before = untrusted_part(observed, f"{account.plan.descriptor.title}: said before in this group")
            inbound = structs.replace(inbound, quoted=(before, *inbound.quoted))
        await self.post_inbound(inbound, mode, events=tuple(one.id for one in events))

    async def post_prompt(self, event: InboundEvent, prompt: str, mode: BusyMode) -> None:
        """Post the prompt that a message calls by its name, with what came along with the message."""
        inbound = await _build_inbound(self, [structs.replace(event, text=prompt)], shared=False)
        if inbound is None:
            return
        if is_shared(self.account.plan.settings, self.place):
            who = to_one_line(strip_control_characters(event.sender.name or event.sender.id), 60)
            inbound = structs.replace(inbound, quoted=(program_note(f"[{who} asks for this.]"), *inbound.quoted))
        await self.post_inbound(inbound, mode)

    async def post_inbound(self, inbound: InboundMessage, mode: BusyMode, *, events: tuple[int, ...] = ()) -> None:
        """Post a message to the session in the person's name; durable when this returns."""
        # A command that posts a message does not know whose folder it is.
        inbound = structs.replace(
            inbound,
            text=self.app.redact_text(inbound.text),
            cwd=find_working_folder(self.app, self.account.plan.settings, self.person),
        )
        if self.has_moved:
            self.has_moved = False
            here = describe_surroundings(self.account.plan, self.place, self.person)
            inbound = structs.replace(inbound, quoted=(program_note(f"[From here on: {here}]"), *inbound.quoted))
        letter_id, first = new_queued_message_id(), mode is BusyMode.INTERRUPT and self.actor.busy
        posting = Posting(arrivals=events, letter_id=letter_id, body=inbound.encode(), first=first)
        self.binding = structs.replace(self.binding, last_at=self.app.services.clock.now())
        await self._compress_if_large()
        await self.app.services.store.chats.post_to_inbox(self.binding, posting)
        self._pending += 1
        self._own_words.add(inbound.text)
        ended = self.actor.forward(letter_id, inbound, joins=mode is BusyMode.STEER, first=first)
        ended.add_done_callback(self._on_turn_done)

    async def _compress_if_large(self) -> None:
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
        """Send a message in Hermes' own name, in pieces where the platform takes no longer ones."""
        pieces = (
            [text] if self.account.can.measure(text) <= self.account.can.limit else split_text(text, self.account.can)
        )
        name = new_queued_message_id()
        keyed = {f"note:{name}" + (f":{number}" if number else ""): piece for number, piece in enumerate(pieces)}
        items = [
            OutboxItem(
                key=key, message=Outgoing(place=self.place, text=piece, key=key), session_id=self.binding.session_id
            )
            for key, piece in keyed.items()
            if piece.strip()
        ]
        if items:
            await self.enqueue(items)

    async def enqueue(self, items: Sequence[OutboxItem]) -> None:
        """Put messages of this chat into the outbox."""
        if self._renderer is not None:
            self._renderer.end_segment()
        await self._deps.outbox.enqueue(items)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """Ask the person whom the session works for, as the `Asker` of its tools; return the answer."""
        title, options = strip_control_characters(question), [strip_control_characters(one) for one in choices]
        picked = await self.questions.ask_person(
            self.person, title, options, typed=True, seconds=QUESTION_SECONDS, of_model=True
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
        await cancel_tasks([self._worker])
        await self.voice.close()
        if self._renderer is not None:
            await self._renderer.close()
        while not self._work_queue.empty():
            self._work_queue.get_nowait().close()
        # Cycles would stay in memory until the garbage collector runs.
        self._unsubscribe = _do_nothing
        self.questions.close()
        del self._worker
        if hasattr(self, "actor"):
            del self.actor

    def _on_turn_done(self, ended: "asyncio.Future[TurnEnded]") -> None:
        self._pending -= 1
        if self._pending < MAX_PENDING:
            self._capacity.set()
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            self._deps.telemetry.report_line(f"{self.binding.key}: {error}")
            self._on_broken(self)

    def _on_event(self, event: Event) -> None:
        self._note_activity(event)
        if said := _quote_words_elsewhere(self, event, self._own_words):
            self._enqueue_work(self.send_note(said))
        match event:
            case TurnStarted() | TurnResumed():
                self.reply_to = _keep_reply(self.reply_to, event, self._pending)
                self.voice.begin_turn()
                self._renderer = _make_renderer(self, event, self._deps.outbox)
                self._has_told_of_retries = False
                self._enqueue_work(self._renderer.start())
            case TurnEnded():
                self._finish_turn(event)
            case ApprovalAsked():
                self._enqueue_work(self.questions.show_approval(event))
            case ApprovalAnswered():
                self._was_denied = not event.allowed
                self._enqueue_work(self.questions.show_decision(event))
            case Notice() | Refused() | FellBack() | EpochBegan():
                was_denied, self._was_denied = self._was_denied, False
                self._enqueue_work(self.send_note(_format_notice(event, self.person, was_denied=was_denied)))
            case Retrying():
                self._tell_of_retries(event)
            case _ if self._renderer is not None:
                self._renderer.handle_event(event)
            case _:
                pass

    def _finish_turn(self, event: TurnEnded) -> None:
        if event.reason is ExitReason.SPEND_LIMIT:
            self.spent_at = self.app.services.clock.now()
        renderer, self._renderer = self._renderer, None
        if renderer is not None and renderer.turn_id == event.turn_id:
            self._enqueue_work(_show_end(self, renderer, event))

    def _tell_of_retries(self, event: Retrying) -> None:
        """Say once in a turn that a failing model call is tried again, from its second new try on: most are answered
        at the first. Where their number ends them, the failure itself comes soon.
        """
        if event.attempt < _TOLD_ATTEMPT or not event.until or self._has_told_of_retries or self._renderer is None:
            return
        self._has_told_of_retries = True
        self._enqueue_work(self.send_note(_format_retries(event, self.person)))

    def _note_activity(self, event: Event) -> None:
        """Note activity of the running turn, which restarts its time limit."""
        self._last_activity = asyncio.get_running_loop().time()
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
        self._deps.telemetry.report_line(f"{self.binding.key}: no sign of life for {limit:g} s; the turn is stopped.")
        self._enqueue_work(
            self.send_note(tr("(Nothing happened for {time}, so the turn was stopped.)", time=format_duration(limit)))
        )
        self.actor.stop()

    def _enqueue_work(self, work: Coroutine[object, object, None]) -> None:
        try:
            self._work_queue.put_nowait(work)
            self._unshown += 1
        except asyncio.QueueFull:
            work.close()
            self._deps.telemetry.report_line(f"{self.binding.key}: too much waits to be shown; some of it was not.")

    async def _run_work(self) -> None:
        while True:
            work = await self._work_queue.get()
            try:
                await work
            except HermesError as error:
                self._deps.telemetry.report_line(f"{self.binding.key}: {error}")
                self._on_broken(self)
            except Exception as error:  # noqa: BLE001 - what comes behind it is shown all the same
                _LOG.exception("something could not be shown")
                self._deps.telemetry.report_line(f"{self.binding.key}: {GatewayError(type(error).__name__)}")
                self._on_broken(self)
            finally:
                self._unshown -= 1
                self._work_queue.task_done()


def _do_nothing() -> None:
    """Do nothing."""


def _format_retries(event: Retrying, person: PersonIdentity) -> str:
    """Return what people are told of new tries; only those who administer Hermes are told what fails."""
    moment = format_time(event.until)
    if not person.can_administer:
        return tr("(The model does not answer. I try again until {moment} at most; /stop ends it.)", moment=moment)
    why = localize(end_sentence(event.message))
    return tr("({why} I try again until {moment} at most; /stop ends it.)", why=why, moment=moment)


async def _build_inbound(chat: ChatSession, events: Sequence[InboundEvent], *, shared: bool) -> InboundMessage | None:
    """Build one message, and show the person what was understood of its recordings; None where a hook refuses what they
    said. What is written was shown to hooks before.
    """
    listener, files = chat.voice.open_listener(), _open_attached_files(chat)
    folder = _find_received_folder(chat)
    inbound = await build_inbound(chat.account, events, folder, shared=shared, listener=listener, files=files)
    await chat.voice.report_heard(listener)
    return None if await chat.voice.is_refused(listener) else inbound


def _describe_spoken_chat(chat: ChatSession, deps: GatewayDeps) -> SpokenChat:
    place, person = chat.place, chat.person
    return SpokenChat(
        app=deps.app,
        account=chat.account,
        place=place,
        outbox=deps.outbox,
        report=deps.telemetry.report_line,
        modes=deps.voice_modes,
        review_words=lambda words: deps.hooks.review_message(
            words, platform=place.platform, chat=place.chat, person=person.id
        ),
        is_owner=person.is_owner,
        can_administer=person.can_administer,
    )


async def _show_end(chat: ChatSession, renderer: StreamRenderer, ended: TurnEnded) -> None:
    """Show the end of a turn, and have its answer spoken where that is wanted: with the text where both are one
    message, else after it.
    """
    if chat.account.can.captions:
        spoken = await chat.voice.speak_with_text(ended, lambda: chat.egress_filter)
        await renderer.finish(ended, (spoken,) if spoken is not None else ())
        return
    await renderer.finish(ended)
    await chat.voice.begin_speaking(ended, chat.actor.session_id, lambda: chat.egress_filter)


def _find_received_folder(chat_session: ChatSession) -> Path:
    """Return the folder for files that come into a chat."""
    account, app, person = chat_session.account, chat_session.app, chat_session.person
    if person.is_owner:
        return app.services.home.root / "media" / account.name
    return Path(find_working_folder(app, account.plan.settings, person)) / "received"


def _open_attached_files(chat_session: ChatSession) -> AttachedFiles | None:
    """Return what shows the session the files that come along; None where the session lives in another process."""
    actor, app = chat_session.local, chat_session.app
    return None if actor is None else AttachedFiles(app.live_session(actor), app.redact_text)


def _keep_reply(reply_to: str, event: TurnStarted | TurnResumed, pending: int) -> str:
    """Return the message that a turn answers; none where nobody has written, and sub-agents have brought reports."""
    return reply_to if pending or isinstance(event, TurnResumed) or event.text else ""


def _make_renderer(chat: ChatSession, event: TurnStarted | TurnResumed, outbox: Outbox) -> StreamRenderer:
    """Return what shows a turn in its chat."""
    target = StreamTarget(chat.account, chat.place, chat.reply_to, lambda: chat.egress_filter, is_live=chat.is_live)
    return StreamRenderer(chat.app, outbox, target, chat.actor.session_id, event.turn_id)


def _quote_words_elsewhere(chat_session: ChatSession, event: Event, own: OwnWords) -> str:
    """Return what was said to a chat's session in another place, such as a terminal, for the chat to show; empty for
    words that were said in the chat.
    """
    if not isinstance(event, TurnStarted | Queued) or (isinstance(event, Queued) and not event.joins):
        return ""
    if not chat_session.is_live or not event.text.strip() or own.take(event.text):
        return ""
    if isinstance(event, TurnStarted):
        chat_session.reply_to = ""  # the answer is to what was said there
        actor = chat_session.local
        if actor is not None and chat_session.app.background_work.find_pursuit(actor) is not None:
            return ""
    said = strip_control_characters(event.text)[:_LONGEST_ECHO]
    return "\n".join([tr("Said in a terminal:"), *(f"> {line}" for line in said.splitlines())])


def _format_notice(event: Notice | Refused | FellBack | EpochBegan, person: PersonIdentity, *, was_denied: bool) -> str:
    """Return the text that people see for an event; people who do not administer Hermes see only their own. What
    somebody has just said no to needs no reasons.
    """
    match event:
        case Refused() if was_denied:
            return tr("(Not done: you said no.)")
        case Refused() if event.asker:
            name = to_one_line(escape_confusable_characters(event.asker), _LONGEST_NAME)
            return tr("(Sub-agent “{name}”, not done: {reason})", name=name, reason=localize(event.reason))
        case Refused():
            return tr("(Not done: {reason})", reason=localize(event.reason))
        case Notice() if person.can_administer and event.level is not Level.INFO:
            return f"({localize(event.text)})"
        case FellBack() if person.can_administer:
            return tr("({why} Going on with {model}.)", why=localize(event.reason), model=event.model)
        case EpochBegan() if person.can_administer and event.number > 1:
            said = format_epoch_notice(event.reason, event.bytes)
            return f"({said})" if said else ""
        case _:
            return ""
