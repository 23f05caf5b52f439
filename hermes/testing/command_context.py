"""A command context for tests: it records what is shown, and answers menus and questions from a list."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.commands.context import MenuOption, PostMode, PromptScope, Surface
from hermes.commands.registry import builtin_command_names, command_registry
from hermes.commands.texts.sub_agent_texts import tell_background_end
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity
    from hermes.core.sub_agents import BackgroundEnd

ScriptedReply = str | int | bool | None
"""A person's answer to a menu or a question.

For a menu a row's number or the beginning of its label, for a yes-or-no question a bool, else a line to type.
"""


class RecordedQuestion(Struct, frozen=True):
    """A menu or a question that was shown."""

    text: str
    options: tuple[MenuOption, ...] = ()


class RecordingTerminal:
    """A `Terminal` that records what is done to it."""

    full = True
    width = 80

    def __init__(self, display: DisplaySettings) -> None:
        self.display = display
        self.done: list[str] = []

    def set_display(self, display: DisplaySettings) -> None:
        """Store the settings. Raises UsageError for an unknown skin."""
        if display.skin not in self.list_skins():
            raise UsageError(f"There is no skin {display.skin!r}.")
        self.display = display

    def list_skins(self) -> Sequence[str]:
        """Return two names."""
        return ("default", "mono")

    def watch_choice(
        self, moved: Callable[[int], None] | None = None, mark: Callable[[int], MenuOption] | None = None
    ) -> AbstractContextManager[None]:
        """Watch nothing."""
        del moved, mark
        return nullcontext()

    def clear(self) -> None:
        """Record it."""
        self.done.append("clear")

    def redraw(self) -> None:
        """Record it."""
        self.done.append("redraw")

    async def copy_text(self, text: str) -> str:
        """Record it."""
        self.done.append(f"copy {text}")
        return "Copied."

    async def edit_text(self, text: str) -> str | None:
        """Return the text unchanged, as if the person had closed the editor."""
        return text or None

    def attach_picture(self, path: str) -> None:
        """Record it."""
        self.done.append(f"attach {path}")

    async def paste_picture(self) -> bool:
        """Return False: there is no picture."""
        return False


class RecordingContext:
    """A `CommandContext` over a real App.

    `answers` are given in order; after the last one every question stays without an answer.
    """

    surface = Surface.TERMINAL
    chat = None
    session_person = ""
    asks_questions = True

    def __init__(self, app: App, actor: SessionActor, *answers: ScriptedReply) -> None:
        self.app = app
        app.person_reports = self
        self.actor = actor
        self.terminal = RecordingTerminal(app.services.settings.display)
        self.answers: deque[ScriptedReply] = deque(answers)
        self.shown_texts: list[str] = []
        self.questions: list[RecordedQuestion] = []
        self.posted: list[InboundMessage] = []
        self.prefilled: list[str] = []
        self.exit_mode = ""
        """How the chat was left; empty if it was not."""
        self.refreshed = 0
        self._shown = asyncio.Event()

    @property
    def prompt_scope(self) -> PromptScope:
        """The skills and own commands of the session's folder."""
        return PromptScope(folder=self.app.options.cwd, taken=builtin_command_names())

    @property
    def port(self) -> SessionPort:
        """The session, whichever process it runs in."""
        return self.actor

    @property
    def text(self) -> str:
        """All texts that were shown."""
        return "\n".join(self.shown_texts)

    async def type_line(self, line: str) -> str:
        """Run a command line and return the texts that it showed. Raises what the command raises."""
        name, _, text = line.removeprefix("/").partition(" ")
        before = len(self.shown_texts)
        await command_registry(Surface.TERMINAL).run_command(self, name, text.strip())
        return "\n".join(self.shown_texts[before:])

    async def wait_for_text(self, text: str, *, timeout: float = 60.0) -> str:  # noqa: ASYNC109 - a test's limit
        """Return the first shown text that contains this one, once there is one. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            while not (found := [one for one in self.shown_texts if text in one]):
                self._shown.clear()
                await self._shown.wait()
        return found[0]

    @property
    def person(self) -> "PersonIdentity":
        """The owner, as the person at this machine."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Record the text."""
        del level
        self.show(text)

    def show(self, markdown: str) -> None:
        """Record the text."""
        self.shown_texts.append(markdown)
        self._shown.set()

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Return the next answer: a row by number, or by what its label begins with."""
        del chosen
        self.questions.append(RecordedQuestion(title, tuple(options)))
        answer = self._next_answer()
        if isinstance(answer, str):
            return next(at for at, one in enumerate(options) if one.label.lstrip(" └─").startswith(answer))
        return answer if isinstance(answer, int) and not isinstance(answer, bool) else None

    async def confirm(self, question: str) -> bool:
        """Return the next answer."""
        self.questions.append(RecordedQuestion(question))
        return self._next_answer() is True

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Return the next answer."""
        self.questions.append(RecordedQuestion(question))
        answer = self._next_answer()
        return answer or default if isinstance(answer, str) else None

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionActor:
        """Switch to another session."""
        del greet
        before = self.actor
        if name == before.session_id:
            return before
        self.actor = await self.app.open_session(name)
        await self.app.close_session(before)
        return self.actor

    async def hand_off(self, target: str) -> str:
        """Return what would be handed over."""
        return f"handed over to {target}"

    async def show_report(self, end: "BackgroundEnd") -> bool:
        """Show how a background session has ended."""
        tell_background_end(self, end)
        return True

    def post_message(self, inbound: InboundMessage, delivery: PostMode = PostMode.USUAL) -> None:
        """Record the message; the test sends it if it wants to."""
        del delivery
        self.posted.append(inbound)

    def prefill_input(self, text: str) -> None:
        """Record the text."""
        self.prefilled.append(text)

    async def refresh_view(self) -> None:
        """Count the call."""
        self.refreshed += 1

    def leave_chat(self, *, delete: bool = False) -> None:
        """Record how the chat is left."""
        self.exit_mode = "deleted" if delete else "left"

    def _next_answer(self) -> ScriptedReply:
        return self.answers.popleft() if self.answers else None
