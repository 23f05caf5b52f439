"""The live session of a chat: what is said to it, what becomes of it, and going over to another one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.cli.errors import elsewhere_line
from hermes.cli.tui.questions import Questions
from hermes.cli.tui.screen import Screen
from hermes.commands.context import PostMode
from hermes.config.display import BusyMode
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Event, MessageAppended, TurnEnded
from hermes.core.messages import Role
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Source, TextPart
from hermes.i18n.messages import phrase, say, translated
from hermes.util.text import inert

if TYPE_CHECKING:
    from hermes.ipc.remote_session import RemoteSession
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import Inbound
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort

_REOPEN = (0.2, 1.0, 3.0, 8.0)
"""Seconds before a session is opened here whose process is gone, time after time."""
_MODES = {BusyMode.QUEUE: PostMode.QUEUE, BusyMode.STEER: PostMode.STEER, BusyMode.INTERRUPT: PostMode.INTERRUPT}


class Talk:
    """One session after the other of `app`. `broken` is called when this process cannot go on with one."""

    def __init__(self, app: "App", screen: Screen, questions: Questions, broken: Callable[[], None]) -> None:
        self.app = app
        self._screen = screen
        self._questions = questions
        self._broken = broken
        self._port: SessionPort | None = None
        self._mending: set[asyncio.Task[None]] = set()
        screen.view.heard.append(self._hear)

    @property
    def port(self) -> "SessionPort":
        """The session that is talked with now. Raises BusyError while the first one is being opened."""
        if self._port is None:
            raise BusyError(phrase("The session is not open yet."), phrase("Try again in a moment."))
        return self._port

    @property
    def actor(self) -> "SessionActor":
        """The same. Raises BusyError where it lives in another process."""
        from hermes.ipc.session_server import require_local

        return require_local(self.port)

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._port is not None and self._port.busy

    async def begin(self, name: str | None, *, latest: bool, asks: bool) -> None:
        """Open the first session; without `asks` its questions are answered with no."""
        self._attach(await self._opened(name, latest=latest, asks=asks), asks)
        await self.describe(greet=True)
        self._resume(self.port)

    async def switch(self, name: str | None, *, greet: bool = True) -> "SessionPort":
        """Talk with another session; when it cannot be opened nothing has changed."""
        from hermes.ipc.session_server import close_port, has_messages

        before = self.port
        if before.busy and self.remote is None:
            raise BusyError(phrase("A turn runs in this session."), phrase("Ctrl-C or /stop ends it."))
        if name == before.session_id:
            return before
        actor = await self._opened(name, latest=False, asks=True)
        self._attach(actor, asks=True)
        await close_port(self.app, before)
        if has_messages(before):
            self._screen.tell("notice", say("hermes --resume {id} goes on with it.", id=before.session_id))
        await self.describe(greet=greet)
        self._resume(actor)
        return actor

    async def beside(self) -> "SessionActor":
        """A fresh session that is not shown; its questions are."""
        actor = await self.app.open_session(None, asker=self._questions)
        self._questions.attach(actor, beside=True)
        return actor

    def post(self, inbound: "Inbound", delivery: PostMode = PostMode.USUAL) -> None:
        """Say something: at once, or as the person has set for while a turn runs. Raises HermesError."""
        actor = self.port
        usual = delivery is PostMode.USUAL
        if usual:
            delivery = _MODES[self._screen.look.display.busy_input_mode] if actor.busy else PostMode.QUEUE
        self._screen.view.over = False
        ways: dict[PostMode, Callable[[Inbound], asyncio.Future[TurnEnded]]] = {
            PostMode.QUEUE: actor.post,
            PostMode.STEER: partial(actor.steer, in_order=usual),  # what was said before comes before
            PostMode.INTERRUPT: actor.interrupt,
        }
        ways[delivery](inbound).add_done_callback(self._ended)

    def stop(self) -> bool:
        """Stop the running turn, or the judge of its goal; False when none runs."""
        if self._port is None:
            return False
        pursuit = self.app.background_work.find_pursuit(self._port)
        return pursuit.stop() if pursuit is not None else self._port.stop()

    async def describe(self, *, greet: bool) -> None:
        """Bring the status line up to date; with `greet` show the session's last words, too."""
        from hermes.cli.tui.resume import recalled, status_of

        self._screen.status = await status_of(self.app, self.port)
        if greet and (lines := await recalled(self.app, self.port, self._screen.look)):
            self._screen.view.tell(lines)
        self._screen.changed()

    async def close(self) -> None:
        """Take part no more in a session that lives elsewhere; those that live here are closed by the program."""
        tasks = list(self._mending)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if (remote := self.remote) is not None:
            await remote.close()

    @property
    def remote(self) -> "RemoteSession | None":
        """The session, where it lives in another process."""
        from hermes.ipc.remote_session import RemoteSession

        return self._port if isinstance(self._port, RemoteSession) else None

    async def _opened(self, name: str | None, *, latest: bool, asks: bool) -> "SessionPort":
        """A session, or a part in one that another process holds."""
        try:
            return await self.app.open_session(name, latest=latest, asker=self._questions if asks else None)
        except BusyError:
            from hermes.ipc.session_server import attach_named_session

            remote = await attach_named_session(self.app, name, latest=latest, asks=asks)
            if remote is None:
                raise
            self._screen.tell("notice", elsewhere_line())
            return remote

    def _attach(self, actor: "SessionPort", asks: bool) -> None:
        self._port = actor
        if asks:
            self._questions.attach(actor)
        actor.subscribe(self._screen.view)
        if (remote := self.remote) is not None:
            remote.asker = self._questions
            remote.on_lost.append(lambda: self._lost(remote.session_id, asks))
        else:
            self.actor.on_turn_end.append(self._name)

    def _lost(self, session_id: str, asks: bool) -> None:
        """The process in which the session lived is gone: it goes on here."""
        task = asyncio.create_task(self._mend(session_id, asks), name=f"mend {session_id}")
        self._mending.add(task)
        task.add_done_callback(self._mending.discard)

    async def _mend(self, session_id: str, asks: bool) -> None:
        why = ""
        for pause in _REOPEN:
            await asyncio.sleep(pause)
            try:
                actor = await self._opened(session_id, latest=False, asks=asks)
            except HermesError as error:
                why = str(error)
                continue
            self._attach(actor, asks)
            await self.describe(greet=False)
            self._screen.tell("notice", say("The other process has let the session go; it goes on here."))
            self._resume(actor)
            return
        self._screen.tell("error", inert(translated(why)))
        self._broken()

    async def _name(self, _state: object, _ended: TurnEnded) -> None:
        """A session has its title from its first turn on."""
        status = self._screen.status
        if self._port is not None and status.session == self._port.session_id:
            title = str((await self.app.session_row(self.actor))["title"])
            self._screen.status = structs.replace(self._screen.status, session=title or status.session)

    def _resume(self, actor: "SessionPort") -> None:
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
        pursuit = self.app.background_work.find_pursuit(self._port) if self._port is not None else None
        goal = pursuit.word if pursuit is not None else ""
        screen.status = structs.replace(screen.status.after(event), waiting=len(screen.view.queued), goal=goal)

    def _ended(self, ended: "asyncio.Future[TurnEnded]") -> None:
        if ended.cancelled():
            return
        error = ended.exception()
        if isinstance(error, BusyError):  # where the session lived there is no process any more
            self._screen.tell("warning", inert(translated(str(error))))
            return
        if error is not None:
            self._screen.tell("error", inert(translated(str(error))))
        if error is not None or ended.result().reason is ExitReason.LOCAL_ERROR:
            told = say("This session cannot go on in this process; `hermes --continue` opens it again.")
            self._screen.tell("error", told)
            self._broken()
