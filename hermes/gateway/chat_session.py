"""One conversation in a chat: the live session behind it, and everything that is said there on its behalf."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence

from msgspec import Struct

from hermes.commands.views.usage import epoch_line
from hermes.core.chats import Binding, ChatKind, DeliveryState, Outgoing, Owed
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
from hermes.core.ids import new_letter_id
from hermes.core.outcomes import ExitReason
from hermes.gateway.accounts import Account
from hermes.gateway.outbox import Outbox
from hermes.gateway.people.identity import People, Person
from hermes.gateway.platform import Capabilities
from hermes.gateway.questions import Questions
from hermes.gateway.session_pool import Entry
from hermes.gateway.stream_renderer import Hearer, Speaker
from hermes.gateway.telemetry import Watch
from hermes.i18n.formats import span
from hermes.i18n.messages import phrase, say, translated
from hermes.ipc.remote_session import RemoteSession
from hermes.runtime.actor import SessionActor
from hermes.sessions.app import App
from hermes.sessions.egress_filter import Leaving, leaving, leaving_unseen
from hermes.sessions.port import SessionPort

_LOG = logging.getLogger(__name__)
HYGIENE_SHARE, HYGIENE_MESSAGES = 0.85, 4
"""The part of a model's window, and the messages, from which on a conversation is condensed before a turn."""
QUESTION_SECONDS = 3600.0
"""How long a question of the model's waits for its answer (clarify time-out of 0.19)."""
MOST_PENDING = 64
CLOSE_SECONDS = 20.0
_WAITING = 1_000
"""Things to be shown that may wait; a conversation with more of them has stopped working."""


class GatewayError(HermesError):
    """The gateway failed by an error of its own; its log has all there is to know."""

    def __init__(self, what: str) -> None:
        super().__init__(
            phrase("Hermes failed by an error of its own ({what}).", what=what), phrase("`hermes logs` shows it.")
        )


class Ground(Struct, frozen=True, kw_only=True):
    """What every conversation stands on."""

    app: App
    outbox: Outbox
    people: People
    watch: Watch
    report: Callable[[str], None]
    broken: Callable[["Conversation"], None]
    """Told when a session cannot go on as it is in memory."""


class Conversation:
    """A conversation while its session is live. What its session says is shown strictly in order."""

    def __init__(self, ground: Ground, account: Account, binding: Binding, person: Person) -> None:
        self._ground = ground
        self.app = ground.app
        self.account = account
        self.binding = binding
        self.place = binding.place
        self.person = person
        self.reply_to = ""
        """The message that the next answer is an answer to."""
        self.questions = Questions(self)
        self.actor: SessionPort
        self.entry: Entry
        self._speaker: Speaker | None = None
        self._work: asyncio.Queue[Coroutine[object, object, None]] = asyncio.Queue(_WAITING)
        self._left = 0
        self._worker = asyncio.create_task(self._run(), name=f"conversation {binding.key}")
        self._watchdog: asyncio.TimerHandle | None = None
        self._seen = 0.0
        """When there was a sign of life last, by the loop's clock."""
        self._unsubscribe: Callable[[], None] = _nothing
        self.spent_at = 0.0
        """When a turn ended last since no money was left for it."""
        self.pending = 0
        """Messages that wait for the end of their turn."""
        self._room = asyncio.Event()

    @property
    def can(self) -> Capabilities:
        """What the platform can do."""
        return self.account.can

    @property
    def unfinished(self) -> bool:
        """Whether something that was said is not shown, or not owed, yet."""
        return self._left > 0

    def attach(self, actor: SessionPort) -> None:
        """Show what this session says from now on."""
        self.actor = actor
        self._ground.watch.place(actor.session_id, self.place.lane)
        # In a group somebody who looks after Hermes may answer for those who may not.
        alone = self.place.kind is ChatKind.DM
        actor.approvals.can_ask = not alone or bool(self._ground.people.rights(self.person.role).approve)
        self._unsubscribe = actor.subscribe(self._hear)

    @property
    def local(self) -> SessionActor | None:
        """The session itself, unless it lives in another process."""
        return self.actor if isinstance(self.actor, SessionActor) else None

    @property
    def remote(self) -> RemoteSession | None:
        """The session where it lives in another process."""
        return self.actor if isinstance(self.actor, RemoteSession) else None

    @property
    def leaving(self) -> Leaving:
        """What may be let out now."""
        on, actor = self.app.premises, self.local
        if actor is None:
            return leaving_unseen(on, on.settings.gateway.cwd or str(on.home.root / "workspace"))
        return leaving(on, self.app.live(actor))

    def may_answer(self, person: Person) -> bool:
        """Whether somebody may answer what this session asks: who it works for, the owner, and for those who do not
        look after Hermes whoever does."""
        mine = self.person.covers(person) and bool(self._ground.people.rights(person.role).approve)
        return mine or person.owner or (person.leads and not self.person.leads)

    def watch(self, ended: "asyncio.Future[TurnEnded]") -> None:
        """Notice when what was said could not be answered by this session as it is in memory."""
        self.pending += 1
        ended.add_done_callback(self._ended)

    async def room(self) -> None:
        """Wait until not too many messages wait for their turns; more stay in the journal so long."""
        while self.pending >= MOST_PENDING:
            self._room.clear()
            await self._room.wait()

    async def tidy(self) -> None:
        """Before a turn: condense a conversation that nearly fills its model's window already (rows GH-01, GW-15)."""
        actor, settings = self.local, self.app.premises.settings.compression
        if actor is None:
            return  # who holds it looks after it
        live = actor.conversation
        if actor.busy or not settings.enabled or len(live.messages) < HYGIENE_MESSAGES:
            return
        window = await self.app.context_length(actor)
        if window is not None and live.lineage.estimated >= window * HYGIENE_SHARE:
            with contextlib.suppress(BusyError):  # a turn has begun meanwhile: it looks at the window itself
                await actor.condense()

    async def say(self, text: str) -> None:
        """Say something in Hermes' own name."""
        if text.strip():
            key = f"note:{new_letter_id()}"
            message = Outgoing(place=self.place, text=text, key=key)
            await self.owe([Owed(key=key, message=message, session_id=self.actor.session_id)])

    async def owe(self, owed: Sequence[Owed]) -> None:
        """Owe messages of this conversation."""
        if self._speaker is not None:
            self._speaker.pause()
        await self._ground.outbox.owe(owed)

    async def message_of(self, key: str) -> tuple[DeliveryState, str] | None:
        """What has become of a message."""
        return await self.app.premises.store.chats.message_of(key)

    async def ask(self, question: str, choices: Sequence[str]) -> str | None:
        """The `Asker` of the session's tools: the answer of the person whom it works for."""
        picked = await self.questions.ask(
            self.person, question, choices, typed=True, seconds=QUESTION_SECONDS, of_model=True
        )
        return choices[picked] if isinstance(picked, int) else picked

    async def close(self) -> None:
        """Show nothing more once what was said is owed; what is owed stays owed."""
        self._unsubscribe()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._work.join()
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._worker.cancel()
        await asyncio.wait({self._worker})
        if self._speaker is not None:
            await self._speaker.close()
        while not self._work.empty():
            self._work.get_nowait().close()
        self._let_go()

    def _let_go(self) -> None:
        """Forget what knows this conversation: circles of what has ended would stay until the collector comes round."""
        self._unsubscribe = _nothing
        self.questions.close()
        del self._worker
        if hasattr(self, "actor"):
            del self.actor
        if hasattr(self, "entry"):
            del self.entry

    def _ended(self, ended: "asyncio.Future[TurnEnded]") -> None:
        self.pending -= 1
        if self.pending < MOST_PENDING:
            self._room.set()
        error = None if ended.cancelled() else ended.exception()
        if error is not None:
            self._ground.report(f"{self.binding.key}: {error}")
            self._ground.broken(self)

    def _hear(self, event: Event) -> None:
        self._alive(event)
        match event:
            case TurnStarted() | TurnResumed():
                hearer = Hearer(self.account, self.place, self.reply_to, lambda: self.leaving)
                speaker = self._speaker = Speaker(
                    self.app, self._ground.outbox, hearer, self.actor.session_id, event.turn_id
                )
                self._later(speaker.start())
            case TurnEnded():
                if event.reason is ExitReason.SPEND_LIMIT:
                    self.spent_at = self.app.premises.clock.now()
                spoken, self._speaker = self._speaker, None
                if spoken is not None and spoken.turn_id == event.turn_id:
                    self._later(spoken.finish(event))
            case ApprovalAsked():
                self._later(self.questions.show(event))
            case ApprovalAnswered():
                self._later(self.questions.answered(event))
            case Notice() | Refused() | FellBack() | EpochBegan():
                self._later(self.say(self._line(event)))
            case _ if self._speaker is not None:
                self._speaker.hear(event)
            case _:
                pass

    def _alive(self, event: Event) -> None:
        """There was a sign of life of the running turn: it has its time for the next one."""
        self._seen = asyncio.get_running_loop().time()
        if isinstance(event, TurnEnded) and self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        elif isinstance(event, TurnStarted | TurnResumed):
            self._look_again(self.app.premises.settings.gateway.turn_timeout)

    def _look_again(self, seconds: float) -> None:
        self._watchdog = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """Stop a turn that has given no sign of life for too long, and say so. While a person is asked it may wait."""
        limit = self.app.premises.settings.gateway.turn_timeout
        left = self._seen + limit - asyncio.get_running_loop().time()
        if left > 0 or self.questions.waiting:
            self._look_again(max(left, 1.0))
            return
        self._watchdog = None
        self._ground.report(f"{self.binding.key}: no sign of life for {limit:g} s; the turn is stopped.")
        self._later(self.say(say("(There was no sign of life for {time}; the turn is stopped.)", time=span(limit))))
        self.actor.stop()

    def _line(self, event: Notice | Refused | FellBack | EpochBegan) -> str:
        """What people are told of it; those who do not look after Hermes hear only what is theirs."""
        match event:
            case Refused():
                return say("(Not done: {reason})", reason=translated(event.reason))
            case Notice() if self.person.leads and event.level is not Level.INFO:
                return f"({translated(event.text)})"
            case FellBack() if self.person.leads:
                return say("({why} Going on with {model}.)", why=translated(event.reason), model=event.model)
            case EpochBegan() if self.person.leads and event.number > 1:
                said = epoch_line(event.reason, event.bytes)
                return f"({said})" if said else ""
            case _:
                return ""

    def _later(self, work: Coroutine[object, object, None]) -> None:
        try:
            self._work.put_nowait(work)
            self._left += 1
        except asyncio.QueueFull:
            work.close()
            self._ground.report(f"{self.binding.key}: too much waits to be shown; some of it was not.")

    async def _run(self) -> None:
        while True:
            work = await self._work.get()
            try:
                await work
            except HermesError as error:
                self._ground.report(f"{self.binding.key}: {error}")
                self._ground.broken(self)
            except Exception as error:  # noqa: BLE001 - what comes behind it is shown all the same
                _LOG.exception("something could not be shown")
                self._ground.report(f"{self.binding.key}: {GatewayError(type(error).__name__)}")
                self._ground.broken(self)
            finally:
                self._left -= 1
                self._work.task_done()


def _nothing() -> None:
    """There is nothing to do."""
