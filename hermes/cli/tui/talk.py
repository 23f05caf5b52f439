"""The live session of a chat: what is said to it, what becomes of it, and going over to another one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.app.desk import Delivery
from hermes.cli.tui.questions import Questions
from hermes.cli.tui.screen import Screen
from hermes.config.display import BusyMode
from hermes.core.errors import BusyError
from hermes.core.events import Event, MessageAppended, TurnEnded
from hermes.core.messages import Role
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Source, TextPart
from hermes.util.say import phrase, say, translated
from hermes.util.text import inert

if TYPE_CHECKING:
    from hermes.app.wiring import App
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import Inbound

_MODES = {BusyMode.QUEUE: Delivery.QUEUE, BusyMode.STEER: Delivery.STEER, BusyMode.INTERRUPT: Delivery.INTERRUPT}


class Talk:
    """One session after the other of `app`. `broken` is called when this process cannot go on with one."""

    def __init__(self, app: "App", screen: Screen, questions: Questions, broken: Callable[[], None]) -> None:
        self.app = app
        self._screen = screen
        self._questions = questions
        self._broken = broken
        self._actor: SessionActor | None = None
        screen.view.heard.append(self._hear)

    @property
    def actor(self) -> "SessionActor":
        """The session that is talked with now. Raises BusyError while the first one is being opened."""
        if self._actor is None:
            raise BusyError(phrase("The session is not open yet."), phrase("Try again in a moment."))
        return self._actor

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._actor is not None and self._actor.busy

    async def begin(self, name: str | None, *, latest: bool, asks: bool) -> None:
        """Open the first session; without `asks` its questions are answered with no."""
        self._attach(await self.app.open_session(name, latest=latest, asker=self._questions if asks else None), asks)
        await self.describe(greet=True)
        self._resume(self.actor)

    async def switch(self, name: str | None, *, greet: bool = True) -> "SessionActor":
        """Talk with another session; when it cannot be opened nothing has changed."""
        before = self.actor
        if before.busy:
            raise BusyError(phrase("A turn runs in this session."), phrase("Ctrl-C or /stop ends it."))
        if name == before.session_id:
            return before
        actor = await self.app.open_session(name, asker=self._questions)
        self._attach(actor, asks=True)
        await self.app.close_session(before)
        if before.conversation.messages:
            self._screen.tell("notice", say("hermes --resume {id} goes on with it.", id=before.session_id))
        await self.describe(greet=greet)
        self._resume(actor)
        return actor

    async def beside(self) -> "SessionActor":
        """A fresh session that is not shown; its questions are."""
        actor = await self.app.open_session(None, asker=self._questions)
        self._questions.attach(actor, beside=True)
        return actor

    def post(self, inbound: "Inbound", delivery: Delivery = Delivery.USUAL) -> None:
        """Say something: at once, or as the person has set for while a turn runs. Raises HermesError."""
        actor = self.actor
        usual = delivery is Delivery.USUAL
        if usual:
            delivery = _MODES[self._screen.look.display.busy_input_mode] if actor.busy else Delivery.QUEUE
        self._screen.view.over = False
        ways: dict[Delivery, Callable[[Inbound], asyncio.Future[TurnEnded]]] = {
            Delivery.QUEUE: actor.post,
            Delivery.STEER: partial(actor.steer, in_order=usual),  # what was said before comes before
            Delivery.INTERRUPT: actor.interrupt,
        }
        ways[delivery](inbound).add_done_callback(self._ended)

    def stop(self) -> bool:
        """Stop the running turn, or the judge of its goal; False when none runs."""
        if self._actor is None:
            return False
        pursuit = self.app.beside.pursuing(self._actor)
        return pursuit.stop() if pursuit is not None else self._actor.stop()

    async def describe(self, *, greet: bool) -> None:
        """Bring the status line up to date; with `greet` show the session's last words, too."""
        from hermes.cli.tui.recall import recalled, status_of

        self._screen.status = await status_of(self.app, self.actor)
        if greet and (lines := await recalled(self.app, self.actor, self._screen.look)):
            self._screen.view.tell(lines)
        self._screen.changed()

    def _attach(self, actor: "SessionActor", asks: bool) -> None:
        self._actor = actor
        if asks:
            self._questions.attach(actor)
        actor.subscribe(self._screen.view)
        actor.on_turn_end.append(self._name)

    async def _name(self, _state: object, _ended: TurnEnded) -> None:
        """A session has its title from its first turn on."""
        status = self._screen.status
        if self._actor is not None and status.session == self._actor.session_id:
            title = str((await self.app.about(self._actor))["title"])
            self._screen.status = structs.replace(self._screen.status, session=title or status.session)

    def _resume(self, actor: "SessionActor") -> None:
        if actor.unfinished and (ended := actor.resume()) is not None:
            ended.add_done_callback(self._ended)

    def _hear(self, event: Event) -> None:
        screen = self._screen
        if isinstance(event, MessageAppended) and event.message.role in (Role.TOOL, Role.USER):
            # The first part of a message of the person's own is what its turn began with: that is shown already.
            for part in event.message.parts[event.message.role is Role.USER :]:
                if not isinstance(part, TextPart) or not part.provenance or part.provenance.source is not Source.PERSON:
                    continue
                if event.message.role is Role.TOOL or part.text in screen.view.queued:
                    screen.view.joined(part.text)
        pursuit = self.app.beside.pursuing(self.actor) if self._actor is not None else None
        goal = pursuit.word if pursuit is not None else ""
        screen.status = structs.replace(screen.status.after(event), waiting=len(screen.view.queued), goal=goal)

    def _ended(self, ended: "asyncio.Future[TurnEnded]") -> None:
        if ended.cancelled():
            return
        error = ended.exception()
        if error is not None:
            self._screen.tell("error", inert(translated(str(error))))
        if error is not None or ended.result().reason is ExitReason.LOCAL_ERROR:
            told = say("This session cannot go on in this process; `hermes --continue` opens it again.")
            self._screen.tell("error", told)
            self._broken()
