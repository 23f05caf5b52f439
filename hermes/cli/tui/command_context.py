"""The command context of the full-screen chat: its session on the screen, and what slash commands can do there."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from hermes.admin.git_branch import read_branch
from hermes.cli.command_context import TerminalCommandContext, TerminalDesktop
from hermes.cli.output import format_remote_notice
from hermes.cli.tui.menu import QuestionMenus, QuestionStyle
from hermes.cli.tui.mode_switch import ModeSwitch
from hermes.cli.tui.screen import Screen
from hermes.cli.tui.status_line import SessionStatus
from hermes.cli.tui.terminal_style import TerminalStyle
from hermes.commands.context import MenuOption, PostMode
from hermes.config.display import BusyMode, DisplaySettings
from hermes.core.errors import BusyError, HermesError, UsageError
from hermes.core.events import Event, Level, MessageAppended, TurnEnded
from hermes.core.messages import ImagePart, Message, Role, Source, TextPart
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Certainty, Cost, Usage
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.util.text import escape_unseen_characters, strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.runtime.mailbox import InboundMessage
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort

_LEVEL_STYLES = {Level.INFO: "", Level.WARNING: "warning", Level.ERROR: "error"}
_POST_MODES = {BusyMode.QUEUE: PostMode.QUEUE, BusyMode.STEER: PostMode.STEER, BusyMode.INTERRUPT: PostMode.INTERRUPT}
MAX_MESSAGES = 4
"""Messages of the conversation that are shown again."""
MAX_LINES = 24
"""Lines shown of one message."""
T = TypeVar("T")


class TuiTerminal(TerminalDesktop):
    """The `Terminal` of the full-screen chat."""

    full = True

    def __init__(self, screen: Screen, environ: Mapping[str, str]) -> None:
        super().__init__(environ, screen.write_raw)
        self._screen = screen

    @property
    def width(self) -> int:
        """The columns for what is shown."""
        return self._screen.terminal_style.width

    @property
    def display(self) -> DisplaySettings:
        """The current display settings."""
        return self._screen.terminal_style.display

    def set_display(self, display: DisplaySettings) -> None:
        """Use these display settings from now on."""
        self._screen.terminal_style.apply_display(display)
        self._screen.apply_display()

    def list_skins(self) -> Sequence[str]:
        """Return the names of the skins."""
        return self._screen.terminal_style.list_skins()

    @contextlib.contextmanager
    def watch_choice(
        self, moved: Callable[[int], None] | None = None, mark: Callable[[int], MenuOption] | None = None
    ) -> Iterator[None]:
        """While the context lasts, tell `moved` where a menu is moved, and let Ctrl-F `mark` its options."""
        menus = self._screen.menus
        menus.moved, menus.mark = moved, mark
        try:
            yield
        finally:
            menus.moved = menus.mark = None

    def clear(self) -> None:
        """Clear the screen."""
        self._screen.clear()

    def redraw(self) -> None:
        """Draw everything again."""
        self._screen.clear()

    async def lend_terminal(self, work: Callable[[], T]) -> T:
        """Give the screen to another program until it is done."""
        return await self._screen.lend_terminal(work)

    def attach_picture(self, path: str) -> None:
        """Send a picture along with the next message."""
        if not os.path.isfile(os.path.expanduser(path)):
            raise UsageError(N_("There is no file {path}.", path=escape_unseen_characters(path)))
        self._screen.composer.attach_picture(path)

    def add_picture(self, name: str, picture: ImagePart) -> None:
        """Put a picture's mark into the input line."""
        self._screen.composer.attach_picture(name, picture)


class TuiCommandContext(TerminalCommandContext):
    """The `CommandContext` of the full-screen chat. `end_chat` is called with the exit code, 1 where this process
    cannot go on with the session.
    """

    def __init__(
        self,
        app: "App",
        screen: Screen,
        asker: QuestionMenus | None,
        environ: Mapping[str, str],
        end_chat: Callable[[int], None],
    ) -> None:
        super().__init__(app, asker, screen.view)
        self._screen = screen
        self._end_chat = end_chat
        self.terminal = TuiTerminal(screen, environ)
        self._reopening: set[asyncio.Task[None]] = set()
        screen.view.listeners.append(self._handle_event)
        self.modes = ModeSwitch(screen, app, lambda: self.actor, self._post_words, can_ask=asker is not None)

    @property
    def busy(self) -> bool:
        """Whether a turn runs."""
        return self._port is not None and self._port.busy

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines unchanged, but for control and hidden characters."""
        terminal_style, style = self._screen.terminal_style, _LEVEL_STYLES[level]
        blocks = [
            terminal_style.wrap_paragraphs(style, escape_unseen_characters(line), indent=2) if line else [""]
            for line in text.split("\n")
        ]
        self._screen.view.tell_lines([line for block in blocks for line in block])

    def show(self, markdown: str) -> None:
        """Show a markdown text."""
        stream = self._screen.terminal_style.open_stream()
        self._screen.view.tell_lines([*stream.feed(markdown), *stream.close()])

    def show_notice(self, text: str) -> None:
        """Show a line of Hermes' own about the session."""
        self._screen.tell("notice", text)

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Ask with a menu; typing narrows it down."""
        safe = [one.escape() for one in options]
        return await self._screen.menus.ask(self._format_question(title), safe, chosen=chosen, typing=True)

    async def confirm(self, question: str) -> bool:
        """Ask for a yes or a no; Enter alone means no."""
        options, lines = [MenuOption(tr("No")), MenuOption(tr("Yes"))], self._format_question(question)
        return (
            await self._screen.menus.ask([*lines, ""], options, keys=("n", "y"), style=QuestionStyle("question.asks"))
            == 1
        )

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask the person for a line."""
        return await self._screen.ask_text(self._format_question(question), default)

    def _format_question(self, question: str) -> list[str]:
        terminal_style = self._screen.terminal_style
        words, width = escape_unseen_characters(question), terminal_style.line_width - 2
        return terminal_style.wrap_paragraphs("question", words, indent=2, width=width)

    async def open_first_session(self, name: str | None, *, latest: bool) -> None:
        """Open the first session, show its last messages, and go on with what was left unfinished."""
        await super().open_first_session(name, latest=latest)
        await self._begin_session(greet=True)

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> "SessionPort":
        """Switch to another session; when it cannot be opened nothing has changed."""
        before = self.port
        port = await super().open_session(name)
        if port is not before:
            await self._begin_session(greet=greet)
        return port

    async def _open_session(self, name: str | None, *, latest: bool = False) -> "SessionPort":
        port = await super()._open_session(name, latest=latest)
        if (remote := self.remote) is not None:
            self.show_notice(format_remote_notice())
            remote.on_lost.append(self._recover_session)
        return port

    async def _begin_session(self, *, greet: bool) -> None:
        self._screen.view.plan.clear()
        show_sub_agents(self.app, self.port, self._screen)
        self.modes.close()
        await self._refresh_status(greet=greet)
        if self.port.unfinished and (ended := self.port.resume()) is not None:
            ended.add_done_callback(self._finish_post)

    def _recover_session(self) -> None:
        """Start to open the session here after the process in which it lived has ended."""
        task = asyncio.create_task(self._continue_here(), name=f"reopen {self.port.session_id}")
        self._reopening.add(task)
        task.add_done_callback(self._reopening.discard)

    async def _continue_here(self) -> None:
        try:
            await self.reopen_session()
        except HermesError as error:
            self._screen.tell("error", strip_control_characters(localize(str(error))))
            self._end_chat(1)
            return
        self.show_notice(tr("The other process has let the session go; it goes on here."))
        await self._begin_session(greet=False)

    async def close(self) -> None:
        """Leave a session that lives elsewhere; those that live here are closed by the App."""
        self.modes.close()
        tasks = list(self._reopening)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await super().close()

    def post_message(self, inbound: "InboundMessage", delivery: PostMode = PostMode.USUAL) -> None:
        """Send a message: at once, or, while a turn runs, as the person has configured. Raises HermesError."""
        port = self.port
        usual = delivery is PostMode.USUAL
        if usual:
            delivery = _POST_MODES[self.terminal.display.busy_input_mode] if port.busy else PostMode.QUEUE
        self._screen.view.turn_over = False
        ways: dict[PostMode, Callable[[InboundMessage], asyncio.Future[TurnEnded]]] = {
            PostMode.QUEUE: port.post,
            PostMode.STEER: partial(port.steer, in_order=usual),  # what was said before comes before
            PostMode.INTERRUPT: port.interrupt,
        }
        ways[delivery](inbound).add_done_callback(self._finish_post)

    def _post_words(self, text: str) -> None:
        from hermes.runtime.mailbox import InboundMessage

        self.post_message(InboundMessage(text=text, cwd=self.app.options.cwd))

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
            self._end_chat(1)

    def stop_turn(self) -> bool:
        """Stop the running turn, or the judge of its goal; False when none runs."""
        if self._port is None:
            return False
        pursuit = self.app.background_work.find_pursuit(self._port)
        return pursuit.stop() if pursuit is not None else self._port.stop()

    def prefill_input(self, text: str) -> None:
        """Put a text into the input line."""
        self._screen.composer.prefill_input(text)

    async def refresh_view(self) -> None:
        """Bring what is shown of the session up to date."""
        await self._refresh_status(greet=False)

    async def _refresh_status(self, *, greet: bool) -> None:
        """Bring the status line up to date; with `greet` show the session's last messages, too."""
        before, port = self._screen.status, self.port
        status = await load_status(self.app, port)
        if port is not self.port:
            return
        if status.window is None and status.model == before.model:
            status = structs.replace(status, window=before.window)
        self._screen.status = structs.replace(status, waiting=len(self._screen.view.queued))
        if greet and (lines := await format_recap(self.app, self.port, self._screen.terminal_style)):
            self._screen.view.tell_lines(lines)
        self._screen.request_redraw()

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat."""
        self.delete_on_exit = delete
        self._end_chat(0)

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
        status = structs.replace(screen.status.apply_event(event), waiting=len(screen.view.queued), goal=goal)
        if isinstance(event, TurnEnded):
            status = structs.replace(status, branch=read_branch(_find_folder(self.app)))
        screen.status = status


def show_sub_agents(app: "App", port: "SessionPort", screen: Screen) -> None:
    """Show the sub-agents of the session that is on the screen now; those of one elsewhere come as events."""
    from hermes.sessions.app import find_sub_agents

    screen.view.sub_agents.clear()
    if (team := find_sub_agents(app, port.session_id)) is not None:
        from hermes.sessions.sub_agents.team import describe_team

        for event in describe_team(team):
            screen.view(event)


async def _find_title(app: "App", port: "SessionPort") -> tuple[str, str]:
    """Return the session's title, else its id, and the folder that it began in where that is another one."""
    row = await app.services.store.sessions.get(port.session_id)
    if row is None:
        return port.session_id, ""
    folder = escape_unseen_characters(row.cwd) if row.cwd != (app.options.cwd or os.getcwd()) else ""
    return to_one_line(escape_unseen_characters(row.title), 60) or port.session_id, folder


async def format_recap(app: "App", port: "SessionPort", terminal_style: TerminalStyle) -> list[str]:
    """Format the session's title and its last messages; empty for a fresh one."""
    from hermes.runtime.actor import SessionActor

    messages: Sequence[Message]
    if isinstance(port, SessionActor):
        messages = port.conversation.messages
    else:
        messages = [row.message for row in await app.services.store.messages.read(port.session_id)]
    said = [one for one in _find_last_messages(messages, MAX_MESSAGES) if one.text.strip()]
    if not said:
        return []
    title, folder = await _find_title(app, port)
    earlier = len(messages) - len(said)
    more = " " + tr_plural("({n} earlier message)", "({n} earlier messages)", earlier) if earlier > 0 else ""
    more += " " + tr("It began in {folder}.", folder=folder) if folder else ""
    lines = ["", terminal_style.paint("notice", tr("Going on with “{title}”", title=title) + more), ""]
    for message in said:
        lines += _format_message(message, terminal_style)
    return lines


def _find_last_messages(messages: Sequence[Message], count: int) -> list[Message]:
    found: list[Message] = []
    for message in reversed(messages):
        if not message.synthetic and message.role in (Role.USER, Role.ASSISTANT) and message.text.strip():
            found.append(message)
        if len(found) == count:
            break
    return found[::-1]


def _format_message(message: Message, terminal_style: TerminalStyle) -> list[str]:
    if message.role is Role.USER:
        text = f"{terminal_style.get_mark('person')} {to_one_line(strip_control_characters(message.text), 400)}"
        return [*terminal_style.wrap_paragraphs("person", text, indent=2), ""]
    stream = terminal_style.open_stream()
    lines = [*stream.feed(message.text), *stream.close()]
    if len(lines) > MAX_LINES:
        hidden = len(lines) - MAX_LINES
        lines = [
            terminal_style.paint("notice", tr_plural("… {n} line above", "… {n} lines above", hidden)),
            *lines[-MAX_LINES:],
        ]
    return [*lines, ""]


def _find_folder(app: "App") -> str:
    return app.options.cwd or os.getcwd()


def _shorten_folder(folder: str, home: str) -> str:
    """Return a folder as the status line shows it: from the home on, or its last two names."""
    if home and (folder == home or folder.startswith(f"{home}/")):
        folder = f"~{folder[len(home) :]}"
    parts = folder.split("/")
    return folder if len(parts) <= 4 else "…/" + "/".join(parts[-2:])


async def load_status(app: "App", port: "SessionPort") -> SessionStatus:
    """Load a session's status from what is stored of it."""
    from hermes.ipc.remote_session import RemoteSession
    from hermes.ipc.session_server import require_local

    folder = _find_folder(app)
    shown = _shorten_folder(folder, app.services.environ.get("HOME", ""))
    branch = await asyncio.to_thread(read_branch, folder)
    if isinstance(port, RemoteSession):
        about = port.attached
        return SessionStatus(
            model=about.model,
            window=about.window,
            folder=shown,
            branch=branch,
            place=about.place,
            yolo=about.yolo,
        )
    from hermes.sessions.app import find_mode

    actor = require_local(port)
    row = await app.session_row(actor)
    usage = Usage(
        input=_as_int(row["input_tokens"]),
        output=_as_int(row["output_tokens"]),
        cache_read=_as_int(row["cache_read_tokens"]),
        cache_write=_as_int(row["cache_write_tokens"]),
    )
    cost = Cost()
    for total in await app.services.store.spending.list_totals(0, session_id=actor.session_id):
        certainty = Certainty.UNKNOWN if total.uncounted else Certainty.COMPUTED
        cost += Cost(nano=total.nano, certainty=certainty)
    pursuit = app.background_work.find_pursuit(actor)
    endpoint, lineage = actor.conversation.client.endpoint, actor.conversation.lineage
    return SessionStatus(
        model=endpoint.model,
        window=endpoint.context_length,
        prompt_tokens=lineage.estimated_tokens if len(actor.conversation.messages) else 0,
        usage=usage,
        cost=cost,
        folder=shown,
        branch=branch,
        place=app.live_session(actor).tools.context.backend_handle.name,
        yolo=app.is_yolo(actor),
        mode=find_mode(app, actor),
        goal=pursuit.word if pursuit is not None else "",
    )


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0
