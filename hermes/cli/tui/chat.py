"""The full chat: from the drawn input line to the last word, and what a typed line means."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

from msgspec import structs

from hermes.admin.skills import skill_admin
from hermes.cli.tui.command_context import ChatDesk
from hermes.cli.tui.completion import ChatCompleter
from hermes.cli.tui.composer import Draft, Past
from hermes.cli.tui.output import Paper
from hermes.cli.tui.questions import Questions
from hermes.cli.tui.screen import Screen, Wishes
from hermes.cli.tui.style import Look
from hermes.commands.command import parse_command_line
from hermes.commands.context import MenuOption, Surface
from hermes.commands.registry import command_registry
from hermes.core.errors import HermesError
from hermes.i18n.messages import say, translated
from hermes.util.text import inert, one_line

STOPPED = 130
_A_MOMENT = 1.0
"""Seconds in which a turn that has ended is put away."""
Opening = Callable[["Chat"], Awaitable[ChatDesk]]


class Chat:
    """Owns the screen and every task of it. `run` is the whole of it."""

    def __init__(self, look: Look, paper: Paper, past: Past, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self._past = past
        wishes = Wishes(
            line=self._line,
            stop=self._stop,
            end=self._end,
            picture=lambda: self._go(self._picture()),
            edit=lambda: self._go(self._edit()),
        )
        self.screen = Screen(look, paper, past, ChatCompleter(lambda: self.desk, lambda: self._skills), wishes)
        self.questions = Questions(self.screen.menus, look, self.screen.tell, self.screen.typed)
        self.desk: ChatDesk | None = None
        """What commands are given; None until the session is open."""
        self._skills: Sequence[MenuOption] = ()
        self._early: list[Draft] = []
        """What was sent before the session was open."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._line_running: asyncio.Task[object] | None = None
        """The command of the person's own that runs."""
        self._breaks = 0
        self._code = 0

    def leave(self, code: int = 0) -> None:
        """End the chat."""
        self._code = code
        self.screen.leave()

    async def run(self, opening: Opening) -> int:
        """Show the input line at once, open the session behind it, and talk until the person leaves.

        Raises what `opening` raises.
        """
        with self._signals():
            shown = asyncio.create_task(self.screen.run(), name="screen")
            opened = asyncio.create_task(self._open(opening), name="opening")
            try:
                await asyncio.wait({shown, opened}, return_when=asyncio.FIRST_COMPLETED)
                if opened.done() and opened.exception() is not None:
                    self.screen.leave()
                await asyncio.wait({shown})
            finally:
                self.screen.leave()
                await self._close(shown, opened)
        if not opened.cancelled():
            opened.result()
        with contextlib.suppress(EOFError, OSError):  # the terminal is gone
            shown.result()
        return self._code

    async def _open(self, opening: Opening) -> None:
        self.desk = desk = await opening(self)
        early, self._early = self._early, []
        for draft in early:
            self._mean(desk, draft)
        self._go(self._learn(desk))

    async def _learn(self, desk: ChatDesk) -> None:
        """What is good to know and takes a moment: the skills, and the model's window where nobody has said it."""
        self._skills = [MenuOption(name, say("a skill")) for name in await skill_admin(desk.app).usable_names()]
        if self.screen.status.window is None and (window := await desk.app.context_length()) is not None:
            self.screen.status = structs.replace(self.screen.status, window=window)
            self.screen.changed()

    async def _close(self, *tasks: "asyncio.Task[None]") -> None:
        own = [*self._tasks, *tasks]
        for task in own:
            task.cancel()
        await asyncio.wait(own)
        await self.questions.close()
        await self._past.close()
        self.screen.close()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT is Ctrl-C; SIGTERM and a terminal that is closed end the chat. What was ignored before stays so."""
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.leave(STOPPED)

        ways = {signal.SIGINT: self._stop, signal.SIGTERM: end, signal.SIGHUP: end}
        wanted = {number: act for number, act in ways.items() if signal.getsignal(number) is not signal.SIG_IGN}
        for number, act in wanted.items():
            loop.add_signal_handler(number, act)
        try:
            yield
        finally:
            for number in wanted:
                loop.remove_signal_handler(number)

    # What is typed.

    def _line(self, text: str) -> None:
        self._breaks = 0
        draft = self.screen.composer.draft(text)
        if not draft.text.strip() and not draft.images:
            return
        self.screen.composer.forget()
        if self.desk is None:
            self._early.append(draft)
            self.screen.tell("notice", say("The session is being opened; this is sent as soon as it is."))
            return
        self._mean(self.desk, draft)

    def _mean(self, desk: ChatDesk, draft: Draft) -> None:
        """A command is what begins like one in the line as it was typed; what a paste begins with makes none."""
        typed, named = parse_command_line(draft.line), parse_command_line(draft.text)
        if draft.line.startswith("!") and draft.text.startswith("!") and draft.text[1:].strip():
            self._go(self._shell(desk, draft.text[1:].strip()))
        elif typed is None or named is None or typed[0] != named[0]:
            self._say(desk, draft)
        else:
            self._go(self._command(desk, named, draft))

    def _say(self, desk: ChatDesk, draft: Draft) -> None:
        from hermes.runtime.mailbox import Inbound

        try:
            desk.post_message(Inbound(text=draft.text, images=draft.images, cwd=desk.app.options.cwd))
        except HermesError as error:
            self.screen.tell("error", inert(translated(str(error))))

    async def _command(self, desk: ChatDesk, named: tuple[str, str], draft: Draft) -> None:
        name, text = named
        commands = command_registry(Surface.TERMINAL)
        if (command := commands.find_command(name)) is not None:
            if (remote := desk.remote) is not None and command.travels:
                await remote.run_command(name, text, desk)
            else:
                await commands.run_command(desk, name, text)
            return
        skills = await skill_admin(desk.app).usable_names()
        if name in skills:
            self._say(desk, draft)
            return
        near = commands.suggest_name(name, skills)
        told = [say("There is no command /{name}.", name=name)]
        told += [say("Did you mean /{near}?", near=near)] if near else []
        desk.tell(" ".join([*told, say("A space in front sends it as a message.")]))

    async def _shell(self, desk: ChatDesk, command: str) -> None:
        """A command of the person's own; Ctrl-C ends it."""
        if self._line_running is not None:
            desk.tell(say("A command of yours runs already; Ctrl-C ends it."))
            return
        self._line_running = asyncio.current_task()
        try:
            with contextlib.suppress(TimeoutError):  # a turn whose end is shown already has something to put away
                await asyncio.wait_for(desk.actor.idle(), _A_MOMENT)
            said = await desk.app.run_shell_line(desk.actor, command, self.screen.view.own)
        except asyncio.CancelledError:
            self.screen.tell("warning", say("Stopped: {command}", command=one_line(inert(command))))
            raise
        finally:
            self._line_running = None
        self.screen.tell_result(command, said)

    def _stop(self) -> None:
        """Ctrl-C: stops what runs; else clears the line; else, twice, leaves."""
        if self._line_running is not None:
            self._line_running.cancel()
            return
        if self.desk is not None and self.desk.stop():
            return
        if self.screen.composer.buffer.text:
            self.screen.composer.buffer.reset()
            return
        self._breaks += 1
        if self._breaks == 2:
            self.leave()
        else:
            self.screen.tell("notice", say("Ctrl-C again or Ctrl-D leaves."))

    def _end(self) -> None:
        """Ctrl-D at an empty line."""
        view = self.screen.view
        if self.desk is not None and self.desk.busy and not view.over:
            self.screen.tell("notice", say("A turn runs. Ctrl-C stops it; /quit leaves all the same."))
        else:
            self.leave()

    async def _picture(self) -> None:
        if self.desk is not None and not await self.desk.terminal.paste_picture():
            self.screen.tell("notice", say("There is no picture in the clipboard, or no way to it from here."))

    async def _edit(self) -> None:
        if self.desk is None:
            return
        line = self.screen.composer.buffer
        text = await self.desk.terminal.edit_text(line.text)
        if text is not None:
            line.text = text
            line.cursor_position = len(text)

    def _go(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._gone)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, HermesError):
            self.screen.tell("warning", inert(translated(str(error))))
            return
        import logging

        logging.getLogger(__name__).error("a command failed", exc_info=error)
        said = one_line(inert(f"{type(error).__name__}: {error}"), 200)
        self.screen.tell("error", say("That failed by an error of Hermes' own ({error}); see hermes logs.", error=said))
