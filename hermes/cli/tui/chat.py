"""Run the full-screen chat: what it needs to be drawn comes first, sessions and models behind it.

The chat owns the screen and its tasks, and decides what a typed line means.
"""

import argparse
import asyncio
import contextlib
import importlib
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial

from msgspec import structs

from hermes.cli.command_context import parse_typed_line, run_typed_command
from hermes.cli.event_texts import format_caching
from hermes.cli.fault_log import FaultLog
from hermes.cli.output import EXIT_INTERRUPTED
from hermes.cli.plain.terminal import handle_signals
from hermes.cli.render.theme import detect_color_depth, read_background
from hermes.cli.tui.command_context import TuiCommandContext
from hermes.cli.tui.composer import ChatCompleter, InputHistory, MessageDraft
from hermes.cli.tui.event_view import forget_waiting
from hermes.cli.tui.menu import QuestionMenus
from hermes.cli.tui.screen import Screen, ScreenCallbacks, SynchronizedOutput
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.context import PostMode, Surface
from hermes.commands.registry import command_registry
from hermes.config.display import DisplaySettings
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.i18n.messages import localize, tr
from hermes.sessions.options import SessionOptions
from hermes.util.garbage_collector import collect_after_start
from hermes.util.text import strip_control_characters, to_one_line

_SHOWN_OTHERWISE = frozenset({"queue", "steer", "interrupt", "quit"})
"""Commands that are not echoed: what they send is shown as the message that it is."""
_SETTLE_SECONDS = 1.0
"""Seconds within which a turn that has ended is stored."""
_TWICE_SECONDS = 1.0
"""Seconds within which a second Esc belongs to the first."""
OpenSession = Callable[["TuiChat"], Awaitable[TuiCommandContext]]


class TuiChat:
    """Owns the screen and every task of a full-screen chat; `run` is its whole life."""

    def __init__(
        self,
        terminal_style: TerminalStyle,
        paper: SynchronizedOutput,
        history: InputHistory,
        environ: Mapping[str, str],
    ) -> None:
        self.environ = environ
        self._history = history
        wishes = ScreenCallbacks(
            line=self._submit_line,
            stop=self._handle_interrupt,
            back=self._handle_escape,
            mode=self._change_mode,
            model=lambda: self._start_command("model", "--next"),
            later=partial(self._submit_line, delivery=PostMode.QUEUE),
            waiting=lambda: self._start_task(self._take_waiting()),
            background=self._leave_command,
            end=self._handle_end_of_input,
            picture=lambda: self._start_task(self._paste_picture()),
            edit=lambda: self._start_task(self._edit_line()),
        )
        self.screen = Screen(terminal_style, paper, history, ChatCompleter(lambda: self.context), wishes, environ)
        self.questions = QuestionMenus(self.screen.menus, terminal_style, self.screen.tell, self.screen.ask_text)
        self.context: TuiCommandContext | None = None
        """The command context; None until the session is open."""
        self._early_steps: list[MessageDraft | None] = []
        """What was sent before the session was open, in order; None is a change of the mode."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._shell_task: asyncio.Task[object] | None = None
        """The running shell command of the person's own."""
        self._interrupts = 0
        self._escaped_at = -_TWICE_SECONDS
        self._code = 0

    def queue_prompt(self, text: str) -> None:
        """Send a message once the session is open. However it begins, it is no command: nobody typed it here."""
        self._early_steps.append(MessageDraft(text))

    def end_chat(self, code: int = 0) -> None:
        """End the chat with this exit code."""
        self._code = code
        self.screen.leave_screen()

    async def run(self, opening: OpenSession) -> int:
        """Show the input line at once, open the session behind it, and talk until the person leaves.

        Raises what `opening` raises.
        """
        ways = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), partial(self.end_chat, EXIT_INTERRUPTED))
        with handle_signals({signal.SIGINT: self._handle_interrupt, **ways}):
            shown = asyncio.create_task(self.screen.run(), name="screen")
            opened = asyncio.create_task(self._open_session(opening), name="opening")
            try:
                await asyncio.wait({shown, opened}, return_when=asyncio.FIRST_COMPLETED)
                if opened.done() and opened.exception() is not None:
                    self.screen.leave_screen()
                await asyncio.wait({shown})
            finally:
                self.screen.leave_screen()
                await self._close_tasks(shown, opened)
        if not opened.cancelled():
            opened.result()
        with contextlib.suppress(EOFError, OSError):  # the terminal is gone
            shown.result()
        return self._code

    async def _open_session(self, opening: OpenSession) -> None:
        self.context = context = await opening(self)
        early, self._early_steps = self._early_steps, []
        for step in early:
            if step is None:
                await self._change_early_mode(context)
            else:
                self._interpret_draft(context, step)
        self._start_task(self._load_window(context))

    async def _load_window(self, context: TuiCommandContext) -> None:
        """Look up the model's window where it is not known yet, which takes a moment."""
        if self.screen.status.window is None and (window := await context.app.context_length()) is not None:
            self.screen.status = structs.replace(self.screen.status, window=window)
            self.screen.request_redraw()

    async def _close_tasks(self, *tasks: "asyncio.Task[None]") -> None:
        own = [*self._tasks, *tasks]
        for task in own:
            task.cancel()
        await asyncio.wait(own)
        await self.questions.close()
        await self._history.close()
        self.screen.close()

    # What is typed.

    def _submit_line(self, text: str, delivery: PostMode = PostMode.USUAL) -> None:
        self._interrupts = 0
        draft = self.screen.composer.resolve_draft(text)
        if not draft.text.strip() and not draft.images:
            return
        self.screen.composer.clear_marks()
        if self.context is None:
            self._early_steps.append(draft)
            self.screen.tell("notice", tr("The session is being opened; this is sent as soon as it is."))
            return
        if delivery is PostMode.USUAL:
            self._interpret_draft(self.context, draft)
        else:
            self._post_draft(self.context, draft, delivery)

    async def _take_waiting(self) -> None:
        """Take the newest message that waits back into the line."""
        if self.context is None:
            return
        from hermes.sessions.app import withdraw_newest

        taken = await withdraw_newest(self.context.app, self.context.actor)
        if taken is None:
            self.screen.tell("notice", tr("No message waits."))
            return
        forget_waiting(self.screen.view, taken.text)
        self.screen.composer.prefill_input(taken.text)
        await self.context.refresh_view()

    def _interpret_draft(self, context: TuiCommandContext, draft: MessageDraft) -> None:
        """Run a command, a shell command or a turn, as the draft means. A line is a command only when it was typed
        as one: what a paste begins with makes none.
        """
        typed, named = parse_typed_line(draft.line), parse_typed_line(draft.text)
        if draft.line.startswith("!") and draft.text.startswith("!") and draft.text[1:].strip():
            self._start_task(self._run_shell_command(context, draft.text[1:].strip()))
        elif typed is None or named is None or typed[0] != named[0]:
            self._post_draft(context, draft)
        else:
            self._start_task(self._run_command(context, named, draft))

    def _post_draft(self, context: TuiCommandContext, draft: MessageDraft, delivery: PostMode = PostMode.USUAL) -> None:
        from hermes.runtime.mailbox import InboundMessage

        self.screen.view.forms.remember(draft.text, draft.line or draft.text)
        try:
            message = InboundMessage(text=draft.text, images=draft.images, cwd=context.app.options.cwd)
            context.post_message(message, delivery)
        except HermesError as error:
            self.screen.tell("error", strip_control_characters(localize(str(error))))

    async def _run_command(
        self, context: TuiCommandContext, named: tuple[str, str], draft: MessageDraft | None
    ) -> None:
        """Run a slash command; without a draft it was a key that meant it."""
        if draft is not None and _find_command_name(named[0]) not in _SHOWN_OTHERWISE:
            self.screen.echo_command(context.app.redact_text(draft.line))
        if not await run_typed_command(context, *named):
            if draft is not None:
                self._post_draft(context, draft)
        elif self.screen.application.is_running:
            model = self.screen.status.model
            await context.refresh_view()
            if self.screen.status.model != model:
                await self._load_window(context)

    async def _run_shell_command(self, context: TuiCommandContext, command: str) -> None:
        """Run a shell command of the person's own; Ctrl-C ends it."""
        if self._shell_task is not None:
            context.tell(tr("A command of yours runs already; Ctrl-C ends it."))
            return
        self._shell_task = asyncio.current_task()
        try:
            with contextlib.suppress(TimeoutError):  # a turn whose end is shown already has something to put away
                await asyncio.wait_for(context.actor.idle(), _SETTLE_SECONDS)
            said = await context.app.run_shell_line(context.actor, command, self.screen.view.show_shell_event)
        except asyncio.CancelledError:
            self.screen.tell(
                "warning", tr("Stopped: {command}", command=to_one_line(strip_control_characters(command)))
            )
            raise
        finally:
            self._shell_task = None
        self.screen.show_shell_result(command, said)

    def _handle_interrupt(self) -> None:
        """Handle Ctrl-C: stop what runs; else clear the line; else, at the second time, leave."""
        if self._shell_task is not None:
            self._shell_task.cancel()
            return
        if self.context is not None and self.context.stop_turn():
            return
        if self.screen.composer.buffer.text:
            self.screen.composer.buffer.reset()
            return
        self._interrupts += 1
        if self._interrupts == 2:
            self.end_chat()
        else:
            self.screen.tell("notice", tr("Ctrl-C again or Ctrl-D leaves."))

    def _handle_escape(self) -> None:
        """Handle Esc: stop what runs; at an empty line, at the second time, go back to an earlier message."""
        if self._shell_task is not None:
            self._shell_task.cancel()
            return
        if self.context is None or self.context.stop_turn() or self.screen.composer.buffer.text:
            return
        now = asyncio.get_running_loop().time()
        is_second, self._escaped_at = now - self._escaped_at < _TWICE_SECONDS, now
        if is_second:
            self._escaped_at = -_TWICE_SECONDS
            self._start_command("rewind")

    def _change_mode(self) -> None:
        if self.context is not None:
            self._start_task(self.context.modes.change_mode())
            return
        self._early_steps.append(None)
        self.screen.tell("notice", tr("The mode changes as soon as the session is open."))

    async def _change_early_mode(self, context: TuiCommandContext) -> None:
        try:
            await context.modes.change_mode()
        except HermesError as error:
            self.screen.tell("warning", strip_control_characters(localize(str(error))))

    def _leave_command(self) -> None:
        from hermes.sessions.app import leave_command

        if self.context is not None and not leave_command(self.context.app, self.context.actor):
            self.screen.tell("notice", tr("No command runs that could go on in the background."))

    def _start_command(self, name: str, text: str = "") -> None:
        """Run a slash command that a key stands for."""
        if self.context is not None:
            self._start_task(self._run_command(self.context, (name, text), None))

    def _handle_end_of_input(self) -> None:
        """Handle Ctrl-D at an empty line."""
        view = self.screen.view
        if self.context is not None and self.context.busy and not view.turn_over:
            self.screen.tell("notice", tr("A turn is running. Ctrl-C stops it; /quit leaves anyway."))
        else:
            self.end_chat()

    async def _paste_picture(self) -> None:
        if self.context is not None and not await self.context.terminal.paste_picture():
            self.screen.tell(
                "notice", tr("There is no picture in the clipboard, or the clipboard cannot be reached from here.")
            )

    async def _edit_line(self) -> None:
        if self.context is None:
            return
        line = self.screen.composer.buffer
        text = await self.context.terminal.edit_text(line.text)
        if text is not None:
            line.text = text
            line.cursor_position = len(text)

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)

    def _finish_task(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, HermesError):
            self.screen.tell("warning", strip_control_characters(localize(str(error))))
            return
        import logging

        logging.getLogger(__name__).error("a command failed", exc_info=error)
        said = to_one_line(strip_control_characters(f"{type(error).__name__}: {error}"), 200)
        self.screen.tell(
            "error", tr("That failed with an internal error of Hermes ({error}); see `hermes logs`.", error=said)
        )


async def run_chat(
    args: argparse.Namespace,
    options: SessionOptions,
    environ: Mapping[str, str],
    log: FaultLog,
    display: DisplaySettings,
) -> int:
    """Chat until the person leaves and return the exit code. Raises HermesError when no session can be opened."""
    term = environ.get("TERM", "")
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    terminal_style = TerminalStyle(
        display,
        lambda: paper.get_size().columns,
        unicode=utf8,
        depth=detect_color_depth(environ),
        background=read_background(environ),
    )
    paper = SynchronizedOutput(term, None, synchronised=not term.startswith("linux"))
    history = InputHistory(locate_home(environ).cache / "input_history.jsonl", _late_redactor(log))
    chat = TuiChat(terminal_style, paper, history, environ)
    if args.prompt:
        chat.queue_prompt(args.prompt)
    asyncio.get_running_loop().set_exception_handler(_log_unhandled)
    async with contextlib.AsyncExitStack() as stack:
        code = await chat.run(partial(_open_chat, args, options, log, stack))
        if chat.context is not None:
            await chat.context.finish_chat()
    chat.screen.close()
    return code


async def _open_chat(
    args: argparse.Namespace,
    options: SessionOptions,
    log: FaultLog,
    stack: contextlib.AsyncExitStack,
    chat: TuiChat,
) -> TuiCommandContext:
    """Open the App and the first session, while the input line takes keys already."""
    await asyncio.to_thread(_import_session_modules)
    from hermes.ipc.session_server import serve_sessions
    from hermes.sessions.app import App

    app = await stack.enter_async_context(App(chat.environ, options))
    await stack.enter_async_context(serve_sessions(app))
    log.redact = app.redact_text
    for error in filter(None, (chat.screen.terminal_style.skin_error, chat.screen.key_error)):
        chat.screen.tell("warning", localize(error))
    asker = None if args.no_input else chat.questions
    context = TuiCommandContext(app, chat.screen, asker, chat.environ, chat.end_chat)
    stack.push_async_callback(context.close)
    try:
        await context.open_first_session(args.resume, latest=args.latest)
    finally:
        for line in app.notices:
            chat.screen.tell("warning", localize(line))
    if app.endpoint.cache_ttl:
        chat.screen.tell("notice", format_caching(app.endpoint.cache_ttl))
    collect_after_start()
    return context


def _find_command_name(typed: str) -> str:
    command = command_registry(Surface.TERMINAL).find_command(typed)
    return command.name if command is not None else typed


def _late_redactor(log: FaultLog) -> Callable[[str], str]:
    """Return a redactor that knows all secrets that are known when something is written."""
    return lambda text: log.redact(text)  # noqa: PLW0108 - it changes once the keys are known


def _import_session_modules() -> None:
    """Import in a thread what sessions need: the input line answers meanwhile."""
    for name in (
        "hermes.sessions.app",
        "hermes.sessions.services",
        "hermes.sessions.session_builder",
        "hermes.sessions.session_tools",
    ):
        importlib.import_module(name)


def _log_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log an error that nobody awaits, instead of printing it across the screen."""
    import logging

    error = context.get("exception")
    logging.getLogger("hermes").error(
        "%s", context.get("message", ""), exc_info=error if isinstance(error, BaseException) else None
    )
