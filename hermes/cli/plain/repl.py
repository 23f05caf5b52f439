"""The plain chat: a message, an answer, and so on, in lines; the commands are those of every front-end."""

from collections.abc import Callable

from hermes.admin.skills import skill_admin
from hermes.cli.errors import complain, elsewhere_line, explained
from hermes.cli.output import on_lines
from hermes.cli.plain.command_context import PlainDesk
from hermes.cli.plain.prompts import late_answer
from hermes.cli.plain.terminal import Key, Source
from hermes.commands.command import parse_command_line
from hermes.commands.context import Surface
from hermes.commands.registry import command_registry
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.i18n.messages import ENGLISH, joined, say, spoken, translated
from hermes.ipc.remote_session import RemoteSession
from hermes.ipc.session_server import has_messages
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.util.text import escaped

PROMPT = "> "
BLOCK_PROMPT = ". "
FENCE = '"""'


class Dialogue:
    """Talks with one session after the other; `closed` tells once whether a question was closed unanswered."""

    def __init__(self, app: App, source: Source, desk: PlainDesk, *, closed: Callable[[], bool]) -> None:
        self._app = app
        self._source = source
        self._desk = desk
        self._closed = closed

    async def run(self) -> int:
        """Talk until the person leaves or the input ends; returns the exit code."""
        if self._source.typed:
            await self._greet()
        await self._go_on()
        code = await self._talk()
        if self._source.typed and not self._desk.deletes:
            self._kept()
        return code

    async def _greet(self) -> None:
        window = await self._app.context_length()
        length = say("{n} tokens", n=f"{window:,}") if window is not None else say("not known")
        endpoint = self._app.endpoint
        title = endpoint.record.title
        whose = f"t{title[1:]}" if title.startswith("The ") and spoken() == ENGLISH else translated(title)
        lines = [say("{model} from {provider}, window: {length}.", model=endpoint.model, provider=whose, length=length)]
        if endpoint.cache_ttl:
            lines.append(say("Prompt caching: on ({time})", time=endpoint.cache_ttl))
        if isinstance(port := self._desk.port, SessionActor):
            lines.append(translated(await self._app.describe_backend(port)))
        else:
            lines.append(elsewhere_line())
        lines.append(
            say(
                "Session {id}. /help tells more, /quit ends it; Ctrl-C stops an answer.",
                id=self._desk.port.session_id,
            )
        )
        lines.append(
            say("A line {fence} begins a message of several lines, which ends with the next one.", fence=FENCE)
        )
        print(on_lines("\n".join(lines)))

    async def _go_on(self) -> None:
        """Finish what a process that died has left: its turn, and the messages that waited behind it."""
        actor = self._desk.port
        if actor.unfinished:
            with self._source.during(actor.stop):
                actor.resume()
                await actor.idle()

    async def _talk(self) -> int:
        breaks = 0
        while True:
            said = await self._source.next(PROMPT)
            breaks = breaks + 1 if said is Key.BREAK else 0
            if said is Key.END or breaks == 2:
                return 0
            if isinstance(said, Key):
                print(say("Ctrl-C again or Ctrl-D leaves.") if breaks else say("/quit or Ctrl-D leaves."))
                continue
            code = await self._done(said)
            if code is not None or self._desk.leaving:
                return code or 0

    async def _done(self, said: str) -> int | None:
        """Do what a line means, and what a command wanted to be said after it."""
        if self._closed() and late_answer(said):
            told = say("The question that `{letter}` would answer is closed; nothing was sent.", letter=said.strip())
            print(told)
            return None
        code = await self._heard(said)
        await self._pursued()
        while code is None and self._desk.owed:
            code = await self._turn(self._desk.owed.popleft())
        return code

    async def _pursued(self) -> None:
        """Let the session work towards its goal; Ctrl-C pauses that."""
        pursuit = self._app.background_work.find_pursuit(self._desk.port)
        if pursuit is not None and pursuit.active:
            with self._source.during(pursuit.stop):
                await pursuit.wait_until_idle()

    async def _heard(self, said: str) -> int | None:
        """Do what a line means; returns the exit code when that ends the chat."""
        if said.strip() == FENCE:
            return await self._block()
        named = parse_command_line(said)
        if named is None:
            return await self._turn(self._inbound(said))
        name, text = named
        commands = command_registry(Surface.TERMINAL)
        try:
            if (command := commands.find_command(name)) is not None:
                port = self._desk.port
                with self._source.during(port.stop):
                    if isinstance(port, RemoteSession) and command.travels:
                        await port.run_command(name, text, self._desk)
                    else:
                        await commands.run_command(self._desk, name, text)
                return None
            skills = await skill_admin(self._app).usable_names()
        except HermesError as error:
            print(escaped(explained(error)))
            return None
        if name in skills:
            return await self._turn(self._inbound(said))
        near = commands.suggest_name(name, skills)
        told = [say("There is no command /{name}.", name=name)]
        told += [say("Did you mean /{near}?", near=near)] if near else []
        print(joined(*told, say("A space in front sends it as a message.")))
        return None

    async def _block(self) -> int | None:
        """The lines up to the closing fence as one message; Ctrl-C throws them away."""
        block: list[str] = []
        while True:
            line = await self._source.next(BLOCK_PROMPT)
            if line is Key.END:
                complain(say("The message has no closing {fence}; it was not sent.", fence=FENCE))
                return 0
            if isinstance(line, Key):
                print(say("The message was thrown away. /quit or Ctrl-D leaves."))
                return None
            if line.strip() == FENCE:
                return await self._turn(self._inbound("\n".join(block)))
            block.append(line)

    def _inbound(self, text: str) -> Inbound:
        pictures = self._desk.terminal.pictures
        images = tuple(pictures)
        pictures.clear()
        return Inbound(text=text, images=images, cwd=self._app.options.cwd)

    async def _turn(self, inbound: Inbound) -> int | None:
        """One turn, when there is something to say; an exit code when this process cannot go on with the session."""
        if not inbound.text.strip() and not inbound.images:
            return None
        try:
            ended = await self._said(inbound)
        except BusyError as error:  # the process in which the session lived is gone
            complain(explained(error))
            await self._desk.again()
            await self._go_on()
            return None
        if ended.reason is ExitReason.INTERRUPTED:
            complain(say("Stopped."))
        return 1 if ended.reason is ExitReason.LOCAL_ERROR else None

    async def _said(self, inbound: Inbound) -> TurnEnded:
        port = self._desk.port
        with self._source.during(port.stop):
            return await port.post(inbound)

    def _kept(self) -> None:
        """Tell how to go on with a session in which something was said."""
        if has_messages(self._desk.port):
            print(say("hermes --resume {id} goes on with it.", id=self._desk.port.session_id))
