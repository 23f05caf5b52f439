"""The plain chat's loop: read a line, run a command or a turn, print the answer."""

from collections.abc import Callable

from hermes.admin.skills import skill_admin
from hermes.cli.output import format_error, format_remote_notice, print_error, wrap_for_terminal
from hermes.cli.plain.command_context import PlainCommandContext
from hermes.cli.plain.prompts import is_late_answer
from hermes.cli.plain.terminal import InputSignal, LineSource
from hermes.commands.command import parse_command_line
from hermes.commands.context import Surface
from hermes.commands.registry import command_registry
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import ENGLISH, get_language, join_sentences, localize, tr
from hermes.ipc.remote_session import RemoteSession
from hermes.ipc.session_server import has_messages
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.util.text import escape_unseen_characters

PROMPT = "> "
BLOCK_PROMPT = ". "
BLOCK_FENCE = '"""'


class PlainRepl:
    """Reads lines and talks with one session after the other. `closed` returns once whether a question was
    closed unanswered.
    """

    def __init__(
        self, app: App, source: LineSource, command_context: PlainCommandContext, *, closed: Callable[[], bool]
    ) -> None:
        self._app = app
        self._source = source
        self._context = command_context
        self._closed = closed

    async def run(self) -> int:
        """Talk until the person leaves or the input ends. Return the exit code."""
        if self._source.interactive:
            await self._print_greeting()
        await self._resume_unfinished()
        code = await self._read_messages()
        if self._source.interactive and not self._context.delete_on_exit:
            self._print_resume_hint()
        return code

    async def _print_greeting(self) -> None:
        window = await self._app.context_length()
        length = tr("{n} tokens", n=f"{window:,}") if window is not None else tr("not known")
        endpoint = self._app.endpoint
        title = endpoint.record.title
        whose = f"t{title[1:]}" if title.startswith("The ") and get_language() == ENGLISH else localize(title)
        lines = [tr("{model} from {provider}, window: {length}.", model=endpoint.model, provider=whose, length=length)]
        if endpoint.cache_ttl:
            lines.append(tr("Prompt caching: on ({time})", time=endpoint.cache_ttl))
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
        named = parse_command_line(said)
        if named is None:
            return await self._run_turn(self._build_message(said))
        name, text = named
        commands = command_registry(Surface.TERMINAL)
        try:
            if (command := commands.find_command(name)) is not None:
                port = self._context.port
                with self._source.handle_interrupts(port.stop):
                    if isinstance(port, RemoteSession) and command.travels:
                        await port.run_command(name, text, self._context)
                    else:
                        await commands.run_command(self._context, name, text)
                return None
            skills = await skill_admin(self._app).usable_names()
        except HermesError as error:
            print(escape_unseen_characters(format_error(error)))
            return None
        if name in skills:
            return await self._run_turn(self._build_message(said))
        near = commands.suggest_name(name, skills)
        parts = [tr("There is no command /{name}.", name=name)]
        parts += [tr("Did you mean /{near}?", near=near)] if near else []
        print(join_sentences(*parts, tr("A space in front sends it as a message.")))
        return None

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
            ended = await self._post_and_wait(inbound)
        except BusyError as error:  # the process in which the session lived is gone
            print_error(format_error(error))
            await self._context.reopen_session()
            await self._resume_unfinished()
            return None
        if ended.reason is ExitReason.INTERRUPTED:
            print_error(tr("Stopped."))
        return 1 if ended.reason is ExitReason.LOCAL_ERROR else None

    async def _post_and_wait(self, inbound: InboundMessage) -> TurnEnded:
        port = self._context.port
        with self._source.handle_interrupts(port.stop):
            return await port.post(inbound)

    def _print_resume_hint(self) -> None:
        """Print how to resume a session in which something was said."""
        if has_messages(self._context.port):
            print(tr("hermes --resume {id} goes on with it.", id=self._context.port.session_id))
