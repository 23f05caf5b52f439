"""The full chat: one session after the other, what is said to them, and the commands."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from hermes.app.command import Call, parse, registry
from hermes.app.desk import Delivery, Option, Surface
from hermes.cli.tui.completion import ChatCompleter
from hermes.cli.tui.composer import Past
from hermes.cli.tui.desk import ChatDesk
from hermes.cli.tui.look import Look
from hermes.cli.tui.output import Paper
from hermes.cli.tui.questions import Questions
from hermes.cli.tui.screen import Screen, Wishes
from hermes.config.display import BusyMode, DisplaySettings
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Event, MessageAppended, TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.parts import ImagePart, Source, TextPart
from hermes.util.say import say
from hermes.util.text import inert, one_line

if TYPE_CHECKING:
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import Inbound

T = TypeVar("T")

STOPPED = 130
_MODES = {BusyMode.QUEUE: Delivery.QUEUE, BusyMode.STEER: Delivery.STEER, BusyMode.INTERRUPT: Delivery.INTERRUPT}


class Chat:
    """Owns the screen, the live session, and every task of the two. `run` is the whole of it."""

    def __init__(self, look: Look, paper: Paper, past: Past, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.look = look
        self._past = past
        wishes = Wishes(
            line=self._line,
            stop=self._stop,
            end=self._end,
            unfold=self._unfold,
            thoughts=self._thoughts,
            picture=lambda: self._go(self._picture()),
            edit=lambda: self._go(self._edit()),
        )
        self.screen = Screen(look, paper, past, ChatCompleter(lambda: self.desk, lambda: self._skills), wishes)
        self.view, self.menus, self.composer = self.screen.view, self.screen.menus, self.screen.composer
        self.view.heard.append(self._hear)
        self.desk: ChatDesk | None = None
        self.actor: SessionActor | None = None
        self._skills: Sequence[Option] = ()
        self._early: list[str] = []
        """Lines that were sent before the session was open."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.questions = Questions(self.menus, look, self.screen.tell, self.screen.typed)
        self._breaks = 0
        self._code = 0
        self._delete = False

    # What the desk asks for.

    async def typed(self, lines: Sequence[str], default: str = "") -> str | None:
        """An answer of the person's, typed below `lines`."""
        return await self.screen.typed(lines, default)

    async def aside(self, work: Callable[[], T]) -> T:
        """Give the terminal to another program until it is done."""
        return await self.screen.aside(work)

    def write_raw(self, sequence: str) -> None:
        """Send the terminal a sequence of our own."""
        self.screen.write_raw(sequence)

    def set_display(self, display: DisplaySettings) -> None:
        """Show things this way from now on. Raises UsageError for a skin that does not exist."""
        self.look.wear(display)
        self.screen.restyle()

    def clear(self) -> None:
        """Clear the screen."""
        self.screen.clear()

    def redraw(self) -> None:
        """Draw everything anew."""
        self.screen.clear()

    def leave(self, *, code: int = 0, delete: bool = False) -> None:
        """End the chat."""
        self._code, self._delete = code, delete
        self.screen.leave()

    def post(self, inbound: "Inbound", delivery: Delivery = Delivery.USUAL) -> None:
        """Say something to the session: at once, or as the person has set for while a turn runs."""
        actor = self.actor
        if actor is None:
            self._early.append(inbound.text)
            return
        if delivery is Delivery.USUAL:
            delivery = _MODES[self.look.display.busy_input_mode] if actor.busy else Delivery.QUEUE
        ways = {Delivery.QUEUE: actor.post, Delivery.STEER: actor.steer, Delivery.INTERRUPT: actor.interrupt}
        ways[delivery](inbound).add_done_callback(self._ended)

    async def switch(self, name: str | None, *, greet: bool = True) -> "SessionActor":
        """Talk with another session; when it cannot be opened nothing has changed."""
        assert self.desk is not None
        before = self.actor
        if before is not None and before.busy:
            raise BusyError(say("A turn runs in this session."), say("Ctrl-C or /stop ends it."))
        actor = await self.desk.app.open_session(name, asker=self.questions)
        self._attach(actor)
        if before is not None and before is not actor:
            await self.desk.app.close_session(before)
            self._kept(before)
        await self.describe(greet=greet)
        self._resume(actor)
        return actor

    async def describe(self, *, greet: bool) -> None:
        """Bring the status line up to date, and say which session this is."""
        assert self.desk is not None and self.actor is not None
        from hermes.cli.tui.recall import recalled, status_of

        app, actor = self.desk.app, self.actor
        self.screen.status = await status_of(app, actor)
        if greet:
            lines = await recalled(app, actor, self.look)
            if lines:
                self.view.tell(lines)
        self.screen.changed()

    # Living.

    async def run(self, opening: Callable[["Chat"], Awaitable[ChatDesk]]) -> int:
        """Show the input line at once, open the session behind it, and talk until the person leaves."""
        with self._signals():
            shown = asyncio.create_task(self.screen.run(), name="screen")
            opened = asyncio.create_task(self._open(opening), name="opening")
            try:
                await asyncio.wait({shown, opened}, return_when=asyncio.FIRST_COMPLETED)
                if opened.done() and opened.exception() is not None:
                    self.screen.leave()
                await asyncio.wait({shown})
                if opened.done():
                    opened.result()
            finally:
                self.screen.leave()
                await self._close(shown, opened)
        with contextlib.suppress(EOFError, OSError):  # the terminal is gone
            shown.result()
        return self._code

    async def _open(self, opening: Callable[["Chat"], Awaitable[ChatDesk]]) -> None:
        self.desk = await opening(self)
        for text in self._early:
            self._line(text)
        self._early.clear()
        self._skills = await self._known_skills()

    def begin(self, actor: "SessionActor") -> None:
        """The first session is open."""
        self._attach(actor)

    def resume(self) -> None:
        """Finish what a process that died has left."""
        if self.actor is not None:
            self._resume(self.actor)

    async def _close(self, *tasks: "asyncio.Task[None]") -> None:
        own = [*self._tasks, *tasks]
        for task in own:
            task.cancel()
        await asyncio.wait(own)
        await self.questions.close()
        await self._past.close()
        self.screen.close()

    def _attach(self, actor: "SessionActor") -> None:
        self.actor = actor
        self.questions.attach(actor)
        actor.subscribe(self.view)

    def _resume(self, actor: "SessionActor") -> None:
        if actor.unfinished and (ended := actor.resume()) is not None:
            ended.add_done_callback(self._ended)

    async def _known_skills(self) -> Sequence[Option]:
        assert self.desk is not None
        return [Option(name, say("a skill")) for name in await self.desk.app.skills().names()]

    def _kept(self, actor: "SessionActor") -> None:
        if actor.conversation.messages:
            self.screen.tell("notice", say("hermes --resume {id} goes on with it.", id=actor.session_id))

    def _hear(self, event: Event) -> None:
        self.screen.status = self.screen.status.after(event)
        match event:
            case MessageAppended() if event.message.role == "tool":
                for part in event.message.parts:
                    if isinstance(part, TextPart) and part.provenance and part.provenance.source is Source.PERSON:
                        self.view.joined(part.text)
            case TurnEnded():
                self._breaks = 0
            case _:
                pass
        self.screen.status = structs.replace(self.screen.status, waiting=len(self.view.queued))

    def _ended(self, ended: "asyncio.Future[TurnEnded]") -> None:
        if ended.cancelled():
            return
        error = ended.exception()
        if error is not None:
            self.screen.tell("error", inert(str(error)))
        if error is not None or ended.result().reason is ExitReason.LOCAL_ERROR:
            self.screen.tell("error", say("This session cannot go on in this process; `hermes --continue` opens it."))
            self.leave(code=1)

    def farewell(self) -> None:
        """Say how to go on, once the input line is gone."""
        if self.actor is not None and not self._delete:
            self._kept(self.actor)

    # What is typed.

    def _line(self, text: str) -> None:
        self._breaks = 0
        draft = self.composer.draft(text)
        if not draft.text.strip() and not draft.images:
            return
        self.composer.forget()
        if self.desk is None:
            self._early.append(draft.text)
            self.screen.tell("notice", say("The session is being opened; this is sent as soon as it is."))
            return
        named = parse(draft.text)
        if draft.text.startswith("!") and len(draft.text) > 1:
            self._go(self._shell(draft.text[1:]))
        elif named is None:
            self._say(draft.text, draft.images)
        else:
            self._go(self._command(*named, draft.text))

    def _say(self, text: str, images: tuple[ImagePart, ...] = ()) -> None:
        from hermes.runtime.mailbox import Inbound

        assert self.desk is not None
        try:
            self.post(Inbound(text=text, images=images, cwd=self.desk.app.options.cwd))
        except HermesError as error:
            self.screen.tell("error", inert(str(error)))

    async def _command(self, name: str, text: str, line: str) -> None:
        assert self.desk is not None
        commands = registry(Surface.TERMINAL)
        try:
            if name in commands:
                await commands.run(Call(self.desk, name, text))
                return
            skills = await self.desk.app.skills().names()
        except HermesError as error:
            self.desk.tell(str(error))
            return
        if name in skills:
            self._say(line)
            return
        near = commands.near(name, skills)
        told = [say("There is no command /{name}.", name=name)]
        told += [say("Did you mean /{near}?", near=near)] if near else []
        self.desk.tell(" ".join([*told, say("A space in front sends it as a message.")]))

    async def _shell(self, command: str) -> None:
        assert self.desk is not None
        self.desk.tell(say("There is no shell line yet."))

    def _stop(self) -> None:
        """Ctrl-C: stops what runs; else clears the line; else, twice, leaves."""
        if self.actor is not None and self.actor.stop():
            return
        if self.composer.buffer.text:
            self.composer.buffer.reset()
            return
        self._breaks += 1
        if self._breaks == 2:
            self.leave()
            return
        self.screen.tell("notice", say("Ctrl-C again or Ctrl-D leaves."))

    def _end(self) -> None:
        """Ctrl-D at an empty line."""
        if self.actor is not None and self.actor.busy:
            self.screen.tell("notice", say("A turn runs. Ctrl-C stops it; /quit leaves all the same."))
            return
        self.leave()

    def _unfold(self) -> None:
        lines = self.view.unfolded()
        self.view.tell(lines or [say("There is nothing to unfold.")])

    def _thoughts(self) -> None:
        lines = self.view.reasoning()
        self.view.tell(lines or [say("The model has shown no reasoning yet.")])

    async def _picture(self) -> None:
        if self.desk is not None and not await self.desk.paste_picture():
            self.screen.tell("notice", say("There is no picture in the clipboard, or no way to it from here."))

    async def _edit(self) -> None:
        if self.desk is None:
            return
        try:
            text = await self.desk.edit(self.composer.buffer.text)
        except HermesError as error:
            self.screen.tell("error", inert(str(error)))
            return
        if text is not None:
            self.composer.buffer.text = text
            self.composer.buffer.cursor_position = len(text)

    def _go(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._gone)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, HermesError):
            self.screen.tell("error", inert(str(error)))
            return
        import logging

        logging.getLogger(__name__).error("a command failed", exc_info=error)
        said = one_line(inert(f"{type(error).__name__}: {error}"), 200)
        self.screen.tell("error", say("That failed by an error of Hermes' own ({error}); see hermes logs.", error=said))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT is Ctrl-C; SIGTERM and a terminal that is closed end the chat. What was ignored before stays so."""
        loop = asyncio.get_running_loop()
        ways = {
            signal.SIGINT: self._stop,
            signal.SIGTERM: self._ended_from_outside,
            signal.SIGHUP: self._ended_from_outside,
        }
        wanted = {number: act for number, act in ways.items() if signal.getsignal(number) is not signal.SIG_IGN}
        for number, act in wanted.items():
            loop.add_signal_handler(number, act)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    def _ended_from_outside(self) -> None:
        self.leave(code=STOPPED)
