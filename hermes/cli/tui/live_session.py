"""The live session of a chat: sends messages to it, follows its turns, and switches to another one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from hermes.cli.output import format_remote_notice
from hermes.cli.tui.approval_menus import QuestionMenus
from hermes.cli.tui.screen import Screen
from hermes.commands.context import PostMode
from hermes.config.display import BusyMode
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Event, MessageAppended, TurnEnded
from hermes.core.messages import Role
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Source, TextPart
from hermes.i18n.messages import N_, localize, tr
from hermes.util.text import strip_control_characters

if TYPE_CHECKING:
    from hermes.ipc.remote_session import RemoteSession
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import InboundMessage
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort

_REOPEN_DELAYS = (0.2, 1.0, 3.0, 8.0)
"""Seconds before each attempt to open a session here whose process has ended."""
_POST_MODES = {BusyMode.QUEUE: PostMode.QUEUE, BusyMode.STEER: PostMode.STEER, BusyMode.INTERRUPT: PostMode.INTERRUPT}


class TuiSession:
    """Talks with one session of `app` after the other. `broken` is called when this process cannot go on with one."""

    def __init__(self, app: "App", screen: Screen, questions: QuestionMenus, broken: Callable[[], None]) -> None:
        self.app = app
        self._screen = screen
        self._questions = questions
        self._on_broken = broken
        self._port: SessionPort | None = None
        self._reopening: set[asyncio.Task[None]] = set()
        screen.view.listeners.append(self._handle_event)

    @property
    def port(self) -> "SessionPort":
        """The current session, wherever it lives. Raises BusyError while the first one is being opened."""
        if self._port is None:
            raise BusyError(N_("The session is not open yet."), N_("Try again in a moment."))
        return self._port

    @property
    def actor(self) -> "SessionActor":
        """The current session. Raises BusyError where it lives in another process."""
        from hermes.ipc.session_server import require_local

        return require_local(self.port)

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._port is not None and self._port.busy

    async def open_first_session(self, name: str | None, *, latest: bool, asks: bool) -> None:
        """Open the first session; without `asks` its questions are answered with no."""
        self._attach_session(await self._open_or_join(name, latest=latest, asks=asks), asks)
        await self.refresh_status(greet=True)
        self._resume_unfinished(self.port)

    async def switch_session(self, name: str | None, *, greet: bool = True) -> "SessionPort":
        """Switch to another session; when it cannot be opened nothing has changed."""
        from hermes.ipc.session_server import close_port, has_messages

        before = self.port
        if before.busy and self.remote is None:
            raise BusyError(N_("A turn runs in this session."), N_("Ctrl-C or /stop ends it."))
        if name == before.session_id:
            return before
        actor = await self._open_or_join(name, latest=False, asks=True)
        self._attach_session(actor, asks=True)
        await close_port(self.app, before)
        if has_messages(before):
            self._screen.tell("notice", tr("hermes --resume {id} goes on with it.", id=before.session_id))
        await self.refresh_status(greet=greet)
        self._resume_unfinished(actor)
        return actor

    async def open_background_session(self) -> "SessionActor":
        """Open a fresh session that is not shown; its questions are."""
        actor = await self.app.open_session(None, asker=self._questions)
        self._questions.attach_session(actor, background=True)
        return actor

    def post_message(self, inbound: "InboundMessage", delivery: PostMode = PostMode.USUAL) -> None:
        """Send a message: at once, or, while a turn runs, as the person has configured. Raises HermesError."""
        actor = self.port
        usual = delivery is PostMode.USUAL
        if usual:
            delivery = (
                _POST_MODES[self._screen.terminal_style.display.busy_input_mode] if actor.busy else PostMode.QUEUE
            )
        self._screen.view.turn_over = False
        ways: dict[PostMode, Callable[[InboundMessage], asyncio.Future[TurnEnded]]] = {
            PostMode.QUEUE: actor.post,
            PostMode.STEER: partial(actor.steer, in_order=usual),  # what was said before comes before
            PostMode.INTERRUPT: actor.interrupt,
        }
        ways[delivery](inbound).add_done_callback(self._finish_post)

    def stop_turn(self) -> bool:
        """Stop the running turn, or the judge of its goal; False when none runs."""
        if self._port is None:
            return False
        pursuit = self.app.background_work.find_pursuit(self._port)
        return pursuit.stop() if pursuit is not None else self._port.stop()

    async def refresh_status(self, *, greet: bool) -> None:
        """Bring the status line up to date; with `greet` show the session's last messages, too."""
        from hermes.cli.tui.session_recap import format_recap, load_status

        self._screen.status = await load_status(self.app, self.port)
        if greet and (lines := await format_recap(self.app, self.port, self._screen.terminal_style)):
            self._screen.view.tell_lines(lines)
        self._screen.request_redraw()

    async def close(self) -> None:
        """Leave a session that lives elsewhere; those that live here are closed by the App."""
        tasks = list(self._reopening)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if (remote := self.remote) is not None:
            await remote.close()

    @property
    def remote(self) -> "RemoteSession | None":
        """The session, where it lives in another process; else None."""
        from hermes.ipc.remote_session import RemoteSession

        return self._port if isinstance(self._port, RemoteSession) else None

    async def _open_or_join(self, name: str | None, *, latest: bool, asks: bool) -> "SessionPort":
        """Open a session, or join one that another process holds."""
        try:
            return await self.app.open_session(name, latest=latest, asker=self._questions if asks else None)
        except BusyError:
            from hermes.ipc.session_server import attach_named_session

            remote = await attach_named_session(self.app, name, latest=latest, asks=asks)
            if remote is None:
                raise
            self._screen.tell("notice", format_remote_notice())
            return remote

    def _attach_session(self, actor: "SessionPort", asks: bool) -> None:
        self._port = actor
        if asks:
            self._questions.attach_session(actor)
        actor.subscribe(self._screen.view)
        if (remote := self.remote) is not None:
            remote.asker = self._questions
            remote.on_lost.append(lambda: self._recover_session(remote.session_id, asks))
        else:
            self.actor.on_turn_end.append(self._update_title)

    def _recover_session(self, session_id: str, asks: bool) -> None:
        """Start to open the session here after the process in which it lived has ended."""
        task = asyncio.create_task(self._reopen_session(session_id, asks), name=f"reopen {session_id}")
        self._reopening.add(task)
        task.add_done_callback(self._reopening.discard)

    async def _reopen_session(self, session_id: str, asks: bool) -> None:
        why = ""
        for pause in _REOPEN_DELAYS:
            await asyncio.sleep(pause)
            try:
                actor = await self._open_or_join(session_id, latest=False, asks=asks)
            except HermesError as error:
                why = str(error)
                continue
            self._attach_session(actor, asks)
            await self.refresh_status(greet=False)
            self._screen.tell("notice", tr("The other process has let the session go; it goes on here."))
            self._resume_unfinished(actor)
            return
        self._screen.tell("error", strip_control_characters(localize(why)))
        self._on_broken()

    async def _update_title(self, _state: object, _ended: TurnEnded) -> None:
        """Show the title that a session has from its first turn on."""
        status = self._screen.status
        if self._port is not None and status.session == self._port.session_id:
            title = str((await self.app.session_row(self.actor))["title"])
            self._screen.status = structs.replace(self._screen.status, session=title or status.session)

    def _resume_unfinished(self, actor: "SessionPort") -> None:
        if actor.unfinished and (ended := actor.resume()) is not None:
            ended.add_done_callback(self._finish_post)

    def _handle_event(self, event: Event) -> None:
        screen = self._screen
        if isinstance(event, MessageAppended) and event.message.role in (Role.TOOL, Role.USER):
            # The first part of a message of the person's own is what its turn began with: that is shown already.
            for part in event.message.parts[event.message.role is Role.USER :]:
                if not isinstance(part, TextPart) or not part.provenance or part.provenance.source is not Source.PERSON:
                    continue
                if event.message.role is Role.TOOL or part.text in screen.view.queued:
                    screen.view.show_joined(part.text)
        pursuit = self.app.background_work.find_pursuit(self._port) if self._port is not None else None
        goal = pursuit.word if pursuit is not None else ""
        screen.status = structs.replace(screen.status.apply_event(event), waiting=len(screen.view.queued), goal=goal)

    def _finish_post(self, ended: "asyncio.Future[TurnEnded]") -> None:
        if ended.cancelled():
            return
        error = ended.exception()
        if isinstance(error, BusyError):  # where the session lived there is no process any more
            self._screen.tell("warning", strip_control_characters(localize(str(error))))
            return
        if error is not None:
            self._screen.tell("error", strip_control_characters(localize(str(error))))
        if error is not None or ended.result().reason is ExitReason.LOCAL_ERROR:
            message = tr("This session cannot go on in this process; `hermes --continue` opens it again.")
            self._screen.tell("error", message)
            self._on_broken()
