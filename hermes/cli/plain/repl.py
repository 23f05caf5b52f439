"""The plain chat: reads lines and talks with one session after the other. Its command context prints lines, and asks by
number.
"""

import shutil
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.cli.command_context import (
    TerminalCommandContext,
    TerminalDesktop,
    parse_typed_line,
    run_typed_command,
)
from hermes.cli.event_texts import format_caching
from hermes.cli.output import YES_ANSWERS, format_error, format_remote_notice, print_error, wrap_for_terminal
from hermes.cli.plain.prompts import TerminalAsker, is_late_answer
from hermes.cli.plain.renderer import PlainRenderer, print_turn_end
from hermes.cli.plain.terminal import InputSignal, LineSource
from hermes.commands.context import MenuOption, PostMode
from hermes.config.display import DisplaySettings
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Level
from hermes.core.messages import ImagePart
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import localize, localize_inside, tr
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage, OwnWords
from hermes.sessions.app import App
from hermes.sessions.pictures import read_picture
from hermes.util.text import (
    escape_unseen_characters,
    strip_control_characters,
    strip_terminal_controls,
)

if TYPE_CHECKING:
    from hermes.sessions.port import SessionPort

PROMPT = "> "
BLOCK_PROMPT = ". "
BLOCK_FENCE = '"""'


class PlainTerminal(TerminalDesktop):
    """The `Terminal` of the plain chat. It has no screen to draw on, but an editor and a clipboard may be there."""

    full = False

    def __init__(
        self, display: DisplaySettings, environ: Mapping[str, str], on_display: Callable[[DisplaySettings], None]
    ) -> None:
        super().__init__(environ)
        self.display = display
        self._on_display = on_display
        self.pictures: list[ImagePart] = []
        """Pictures that go along with the next message."""

    @property
    def width(self) -> int:
        """The columns of the terminal."""
        return shutil.get_terminal_size((80, 24)).columns

    def set_display(self, display: DisplaySettings) -> None:
        """Use these display settings from now on."""
        self.display = display
        self._on_display(display)

    def list_skins(self) -> Sequence[str]:
        """Return only the default skin: lines have no colors."""
        return ("default",)

    def clear(self) -> None:
        """Do nothing: lines stay where they are."""

    def redraw(self) -> None:
        """Do nothing: there is no screen to redraw."""

    def attach_picture(self, path: str) -> None:
        """Send a picture along with the next message."""
        self.add_picture(path, read_picture(Path(path).expanduser()))
        print(tr("It goes along with your next message."))

    def add_picture(self, name: str, picture: ImagePart) -> None:
        """Keep a picture for the next message."""
        del name
        self.pictures.append(picture)


class PlainCommandContext(TerminalCommandContext):
    """The `CommandContext` of the plain chat. Messages that a command posts are sent when the command is done."""

    asks_questions = False
    """The terminal belongs to the prompt while the person types."""

    def __init__(
        self,
        app: App,
        source: LineSource,
        renderer: PlainRenderer,
        asker: TerminalAsker | None,
        environ: Mapping[str, str],
    ) -> None:
        super().__init__(app, asker, renderer)
        self._source = source
        self._renderer = renderer
        renderer.own_words = OwnWords()
        self.terminal = PlainTerminal(app.services.settings.display, environ, renderer.set_display)
        self.queued: deque[InboundMessage] = deque()
        """Messages to send next."""
        self.leaving = False

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Print lines unchanged, but for control and hidden characters."""
        mark = "" if level is Level.INFO else "! "
        self._print_above_prompt(
            wrap_for_terminal("\n".join(f"{mark}{escape_unseen_characters(line)}" for line in text.split("\n")))
        )

    def show(self, markdown: str) -> None:
        """Show markdown as it is written."""
        self._print_above_prompt(wrap_for_terminal(strip_terminal_controls(markdown)))

    def _print_above_prompt(self, text: str) -> None:
        """Print lines above a waiting prompt, if any: background work may print at any time."""
        prompt = self._source.current_prompt()
        print(f"\n{text}\n{prompt}" if prompt else text, end="" if prompt else "\n", flush=True)

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Ask for one of a numbered list; Enter alone takes none."""
        print(escape_unseen_characters(title))
        for number, option in enumerate(options, 1):
            print(escape_unseen_characters(f"  {number}. {option.label}  {option.detail}".rstrip()))
            if option.note:
                print(escape_unseen_characters(f"     {option.note}"))
        line = await self.ask(tr("A number (Enter alone: none)"))
        if line is None or not line.strip().isdecimal() or not 0 < int(line) <= len(options):
            return None
        return int(line) - 1

    async def confirm(self, question: str) -> bool:
        """Ask for a yes or a no; only a plain yes counts as one."""
        line = await self.ask(f"{question} [y/N]")
        return line is not None and line.strip().lower() in YES_ANSWERS

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask for a line; None where nobody is there to answer."""
        if not self._source.interactive:
            return None
        shown = f"{escape_unseen_characters(question)} ({default})" if default else escape_unseen_characters(question)
        line = await self._source.read_line(f"{shown}: ")
        return None if isinstance(line, InputSignal) else line or default

    def show_notice(self, text: str) -> None:
        """Print a line of Hermes' own about the session."""
        print(text)

    async def _open_session(self, name: str | None, *, latest: bool = False) -> "SessionPort":
        port = await super()._open_session(name, latest=latest)
        self._renderer.on_output_error = port.stop
        return port

    def post_message(self, inbound: InboundMessage, delivery: PostMode = PostMode.USUAL) -> None:
        """Queue a message: no turn runs while a command does, so it is sent next."""
        del delivery
        self.queued.append(inbound)

    def note_own_words(self, text: str) -> None:
        """Note what is sent from here: the terminal shows it already."""
        if self._renderer.own_words is not None:
            self._renderer.own_words.add(text)

    def prefill_input(self, text: str) -> None:
        """Print the text, to be typed again or copied: there is no input line to put it into."""
        print(f"> {strip_control_characters(text)}")

    async def refresh_view(self) -> None:
        """Do nothing: no view of the session is shown permanently."""

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat."""
        self.leaving, self.delete_on_exit = True, delete


class PlainRepl:
    """Reads lines and talks with one session after the other. `closed` returns once whether a question was
    closed unanswered.
    """

    def __init__(self, source: LineSource, context: PlainCommandContext, *, closed: Callable[[], bool]) -> None:
        self._app = context.app
        self._source = source
        self._context = context
        self._closed = closed

    async def run(self) -> int:
        """Talk until the person leaves or the input ends. Return the exit code."""
        if self._source.interactive:
            await self._print_greeting()
        await self._resume_unfinished()
        code = await self._send_queued()
        code = await self._read_messages() if code is None else code
        if self._source.interactive or self._context.delete_on_exit:
            await self._context.finish_chat()
        return code

    async def _print_greeting(self) -> None:
        window = await self._app.context_length()
        length = tr("{n} tokens", n=f"{window:,}") if window is not None else tr("not known")
        endpoint = self._app.endpoint
        whose = localize_inside(endpoint.record.title)
        lines = [tr("{model} from {provider}, window: {length}.", model=endpoint.model, provider=whose, length=length)]
        lines += [format_caching(endpoint.cache_ttl)] if endpoint.cache_ttl else []
        if isinstance(port := self._context.port, SessionActor):
            lines.append(localize(await self._app.describe_backend(port)))
        else:
            lines.append(format_remote_notice())
        lines.append(
            tr(
                "Session {id}. /help tells more, /quit ends it; Ctrl-C stops an answer.",
                id=self._context.port.session_id,
            )
        )
        lines.append(
            tr("A line {fence} begins a message of several lines, which ends with the next one.", fence=BLOCK_FENCE)
        )
        print(wrap_for_terminal("\n".join(lines)))

    async def _resume_unfinished(self) -> None:
        """Finish what a process that died left behind: its turn, and the messages that waited behind it."""
        actor = self._context.port
        if actor.unfinished:
            with self._source.handle_interrupts(actor.stop):
                actor.resume()
                await actor.idle()

    async def _read_messages(self) -> int:
        breaks = 0
        while True:
            said = await self._source.read_line(PROMPT)
            breaks = breaks + 1 if said is InputSignal.BREAK else 0
            if said is InputSignal.END or breaks == 2:
                return 0
            if isinstance(said, InputSignal):
                print(tr("Ctrl-C again or Ctrl-D leaves.") if breaks else tr("/quit or Ctrl-D leaves."))
                continue
            code = await self._handle_line(said)
            if code is not None or self._context.leaving:
                return code or 0

    async def _handle_line(self, said: str) -> int | None:
        """Do what a line means, then send the messages that a command queued."""
        if self._closed() and is_late_answer(said):
            message = tr("The question that `{letter}` would answer is closed; nothing was sent.", letter=said.strip())
            print(message)
            return None
        code = await self._interpret_line(said)
        await self._pursue_goal()
        return await self._send_queued() if code is None else code

    async def _send_queued(self) -> int | None:
        """Send the messages that wait, such as the one that the chat was started with."""
        code = None
        while code is None and self._context.queued:
            code = await self._run_turn(self._context.queued.popleft())
        return code

    async def _pursue_goal(self) -> None:
        """Let the session work towards its goal; Ctrl-C pauses that."""
        pursuit = self._app.background_work.find_pursuit(self._context.port)
        if pursuit is not None and pursuit.active:
            with self._source.handle_interrupts(pursuit.stop):
                await pursuit.wait_until_idle()

    async def _interpret_line(self, said: str) -> int | None:
        """Run the command or the turn that a line means. Return the exit code when that ends the chat."""
        if said.strip() == BLOCK_FENCE:
            return await self._read_block()
        named = parse_typed_line(said)
        if named is None:
            return await self._run_turn(self._build_message(said))
        try:
            with self._source.handle_interrupts(self._context.port.stop):
                is_done = await run_typed_command(self._context, *named)
        except HermesError as error:
            print(escape_unseen_characters(format_error(error)))
            return None
        return None if is_done else await self._run_turn(self._build_message(said))

    async def _read_block(self) -> int | None:
        """Read the lines up to the closing fence as one message; Ctrl-C throws them away."""
        block: list[str] = []
        while True:
            line = await self._source.read_line(BLOCK_PROMPT)
            if line is InputSignal.END:
                print_error(tr("The message has no closing {fence}; it was not sent.", fence=BLOCK_FENCE))
                return 0
            if isinstance(line, InputSignal):
                print(tr("The message was thrown away. /quit or Ctrl-D leaves."))
                return None
            if line.strip() == BLOCK_FENCE:
                return await self._run_turn(self._build_message("\n".join(block)))
            block.append(line)

    def _build_message(self, text: str) -> InboundMessage:
        pictures = self._context.terminal.pictures
        images = tuple(pictures)
        pictures.clear()
        return InboundMessage(text=text, images=images, cwd=self._app.options.cwd)

    async def _run_turn(self, inbound: InboundMessage) -> int | None:
        """Run one turn, unless there is nothing to say. Return an exit code when this process cannot go on with the
        session.
        """
        if not inbound.text.strip() and not inbound.images:
            return None
        try:
            port = self._context.port
            with self._source.handle_interrupts(port.stop):
                self._context.note_own_words(inbound.text)
                ended = await port.post(inbound)
        except BusyError as error:  # the process in which the session lived is gone
            print_error(format_error(error))
            await self._context.reopen_session()
            await self._resume_unfinished()
            return None
        print_turn_end(ended, with_text=False)
        return 1 if ended.reason is ExitReason.LOCAL_ERROR else None
