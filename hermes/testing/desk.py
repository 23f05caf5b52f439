"""A desk for tests: it records what is told, and answers menus and questions from a list."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.commands.context import MenuOption, PostMode, Surface
from hermes.commands.registry import command_registry
from hermes.config.display import DisplaySettings
from hermes.core.errors import UsageError
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason
from hermes.runtime.actor import SessionActor
from hermes.runtime.mailbox import Inbound
from hermes.sessions.app import App
from hermes.sessions.port import SessionPort

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity

Answer = str | int | bool | None
"""What a person does with a menu (a row's number or the beginning of its label), a yes or no, or a line to type."""


class Asked(Struct, frozen=True):
    """A menu or a question that was shown."""

    text: str
    options: tuple[MenuOption, ...] = ()


class RecordingTerminal:
    """A `Terminal` that keeps what is done to it."""

    full = True
    width = 80

    def __init__(self, display: DisplaySettings) -> None:
        self.display = display
        self.done: list[str] = []

    def set_display(self, display: DisplaySettings) -> None:
        """Keep it."""
        if display.skin not in self.list_skins():
            raise UsageError(f"There is no skin {display.skin!r}.")
        self.display = display

    def list_skins(self) -> Sequence[str]:
        """Two names."""
        return ("default", "mono")

    def clear(self) -> None:
        """Note it."""
        self.done.append("clear")

    def redraw(self) -> None:
        """Note it."""
        self.done.append("redraw")

    async def copy_text(self, text: str) -> str:
        """Note it."""
        self.done.append(f"copy {text}")
        return "Copied."

    async def edit_text(self, text: str) -> str | None:
        """The person leaves the editor as it was."""
        return text or None

    def attach_picture(self, path: str) -> None:
        """Note it."""
        self.done.append(f"attach {path}")

    async def paste_picture(self) -> bool:
        """There is none."""
        return False


class RecordingDesk:
    """A `Desk` over a real App. `answers` are given in order; behind the last one nobody answers any more."""

    surface = Surface.TERMINAL

    def __init__(self, app: App, actor: SessionActor, *answers: Answer) -> None:
        self.app = app
        self.actor = actor
        self.terminal = RecordingTerminal(app.services.settings.display)
        self.answers: deque[Answer] = deque(answers)
        self.told: list[str] = []
        self.asked: list[Asked] = []
        self.posted: list[Inbound] = []
        self.prefilled: list[str] = []
        self.left = ""
        """How the chat was left; empty: it was not."""
        self.refreshed = 0
        self._news = asyncio.Event()

    @property
    def port(self) -> SessionPort:
        """The session, wherever it lives."""
        return self.actor

    @property
    def text(self) -> str:
        """All that was told."""
        return "\n".join(self.told)

    async def type(self, line: str) -> str:
        """Carry a line out; what was told by it. Raises what the command raises."""
        name, _, text = line.removeprefix("/").partition(" ")
        before = len(self.told)
        await command_registry(Surface.TERMINAL).run_command(self, name, text.strip())
        return "\n".join(self.told[before:])

    async def hears(self, text: str, *, timeout: float = 5.0) -> str:  # noqa: ASYNC109 - a test's limit
        """Return what was told with this text in it, once it was. Raises `TimeoutError`."""
        async with asyncio.timeout(timeout):
            while not (found := [one for one in self.told if text in one]):
                self._news.clear()
                await self._news.wait()
        return found[0]

    @property
    def person(self) -> "PersonIdentity":
        """Who sits at this machine."""
        from hermes.admin.people.identity import OWNER_IDENTITY

        return OWNER_IDENTITY

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Keep it."""
        del level
        self.show(text)

    def show(self, markdown: str) -> None:
        """Keep it."""
        self.told.append(markdown)
        self._news.set()

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """The next answer: a row by number, or by what its label begins with."""
        del chosen
        self.asked.append(Asked(title, tuple(options)))
        answer = self._next()
        if isinstance(answer, str):
            return next(at for at, one in enumerate(options) if one.label.lstrip(" └─").startswith(answer))
        return answer if isinstance(answer, int) and not isinstance(answer, bool) else None

    async def confirm(self, question: str) -> bool:
        """The next answer."""
        self.asked.append(Asked(question))
        return self._next() is True

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """The next answer."""
        self.asked.append(Asked(question))
        answer = self._next()
        return answer or default if isinstance(answer, str) else None

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> SessionActor:
        """Go over to another session."""
        del greet
        before = self.actor
        if name == before.session_id:
            return before
        self.actor = await self.app.open_session(name)
        await self.app.close_session(before)
        return self.actor

    async def open_background_session(self) -> SessionActor:
        """A session beside this one."""
        return await self.app.open_session()

    def post_message(self, inbound: Inbound, delivery: PostMode = PostMode.USUAL) -> None:
        """Keep it; the test says it where it wants that."""
        del delivery
        self.posted.append(inbound)

    async def post_and_wait(self, inbound: Inbound) -> ExitReason:
        """Say it."""
        return (await self.actor.post(inbound)).reason

    def prefill_input(self, text: str) -> None:
        """Keep it."""
        self.prefilled.append(text)

    async def refresh_view(self) -> None:
        """Count it."""
        self.refreshed += 1

    def leave_chat(self, *, delete: bool = False) -> None:
        """Note it."""
        self.left = "deleted" if delete else "left"

    def _next(self) -> Answer:
        return self.answers.popleft() if self.answers else None
