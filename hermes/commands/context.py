"""What a front-end offers to the slash commands: where a person sits and talks with one session after the other."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from hermes.config.display import DisplaySettings
from hermes.core.events import Level
from hermes.core.outcomes import ExitReason

if TYPE_CHECKING:
    from hermes.admin.people.identity import Person
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import Inbound
    from hermes.sessions.app import App
    from hermes.sessions.port import SessionPort


class Surface(StrEnum):
    """The kinds of front-ends."""

    TERMINAL = "terminal"
    """A chat in a terminal, full or plain."""
    CHAT = "chat"
    """A chat platform, through the gateway."""
    EDITOR = "editor"
    """An editor, through its protocol."""


class Option(Struct, frozen=True):
    """One row of a menu."""

    label: str
    detail: str = ""


class Delivery(StrEnum):
    """How a message gets to its session."""

    USUAL = "usual"
    """As the person has set for while a turn runs."""
    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class Terminal(Protocol):
    """What only a chat in a terminal can do."""

    @property
    def full(self) -> bool:
        """Whether there is a screen with an input line and keys of its own; else there are lines only."""
        ...

    @property
    def width(self) -> int:
        """Columns for what is shown."""
        ...

    @property
    def display(self) -> DisplaySettings:
        """How it shows things now; `/skin` and others change it for this chat."""
        ...

    def set_display(self, display: DisplaySettings) -> None:
        """Show things this way from now on. Raises UsageError for a skin that does not exist."""
        ...

    def skins(self) -> Sequence[str]:
        """The names of the skins there are."""
        ...

    def clear(self) -> None:
        """Clear the screen; the scrollback stays."""
        ...

    def redraw(self) -> None:
        """Draw everything anew."""
        ...

    async def copy(self, text: str) -> str:
        """Put a text into the clipboard; says how that was done, or why it could not be."""
        ...

    async def edit(self, text: str) -> str | None:
        """Let the person write in their editor; None when they left it unchanged and empty."""
        ...

    def attach(self, path: str) -> None:
        """Send a picture along with the next message. Raises UsageError when the file is none."""
        ...

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard; False when there is none to be had."""
        ...


class Desk(Protocol):
    """One conversation's place at a front-end. Texts are shown inert: nothing in them is obeyed."""

    @property
    def app(self) -> "App":
        """The process's Hermes."""
        ...

    @property
    def actor(self) -> "SessionActor":
        """The session that is talked with now. Raises BusyError where it lives in another process."""
        ...

    @property
    def port(self) -> "SessionPort":
        """The same, wherever it lives."""
        ...

    @property
    def surface(self) -> Surface:
        """What kind of front-end this is."""
        ...

    @property
    def person(self) -> "Person":
        """Who sits there; at a terminal and in an editor the owner."""
        ...

    @property
    def terminal(self) -> Terminal | None:
        """What only a terminal can do; None elsewhere."""
        ...

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines as they are."""
        ...

    def show(self, markdown: str) -> None:
        """Show a text that is written in markdown."""
        ...

    async def choose(self, title: str, options: Sequence[Option], *, chosen: int = 0) -> int | None:
        """Let the person pick one; None when they would rather not."""
        ...

    async def confirm(self, question: str) -> bool:
        """A yes or no; Enter alone, and nobody there, mean no."""
        ...

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line from the person; None when they would rather not."""
        ...

    async def open(self, name: str | None = None, *, greet: bool = True) -> "SessionPort":
        """Talk with another session from now on: a fresh one, or that which `name` means; the one before is closed
        and kept. Raises what `App.open_session` raises, and then nothing has changed."""
        ...

    async def beside(self) -> "SessionActor":
        """A fresh session beside the one that is talked with; it is not shown, but its questions are asked here."""
        ...

    def post(self, inbound: "Inbound", delivery: Delivery = Delivery.USUAL) -> None:
        """Say something to the session in the person's name."""
        ...

    async def answered(self, inbound: "Inbound") -> ExitReason:
        """Say something, and wait for the end of the turn that answers it."""
        ...

    def prefill(self, text: str) -> None:
        """Put a text where the person types next, to be changed and sent; elsewhere it is shown."""
        ...

    async def refresh(self) -> None:
        """Bring what is shown of the session up to date."""
        ...

    def leave(self, *, delete: bool = False) -> None:
        """End the chat; with `delete` the session and every word of it go, too."""
        ...
