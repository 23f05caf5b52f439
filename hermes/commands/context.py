"""What a front-end offers to slash commands: its person, its session, and ways to show and ask."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, structs

from hermes.config.display import DisplaySettings
from hermes.config.speech import VoiceMode
from hermes.core.events import Level
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.admin.people.identity import PersonIdentity
    from hermes.runtime.actor import SessionActor
    from hermes.runtime.mailbox import InboundMessage
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


class MenuOption(Struct, frozen=True):
    """One row of a menu."""

    label: str
    detail: str = ""
    note: str = ""
    """What stands on a line of its own below it."""
    marked: tuple[str, ...] = ()
    """Words that are highlighted in the note."""
    is_title: bool = False
    """Whether the label is the title of something: it stands out, and typing narrows such a menu down."""

    def escape(self) -> "MenuOption":
        """Return the option without control and hidden characters."""
        label, detail, note = map(escape_unseen_characters, (self.label, self.detail, self.note))
        return structs.replace(self, label=label, detail=detail, note=note)


class PromptScope(Struct, frozen=True, kw_only=True):
    """Where a person's named prompts are looked for."""

    folder: str
    """The folder in which the session works."""
    taken: frozenset[str]
    """The names of commands, which are never taken."""
    skills: bool = True
    own: bool = True
    """Whether the owner's own commands are theirs to use."""


class PostMode(StrEnum):
    """How a message reaches its session."""

    USUAL = "usual"
    """As the person has configured it for a running turn."""
    QUEUE = "queue"
    STEER = "steer"
    INTERRUPT = "interrupt"


class Terminal(Protocol):
    """What only a chat in a terminal can do."""

    @property
    def full(self) -> bool:
        """Whether it has a screen with an input line and keys of its own; otherwise it only prints lines."""
        ...

    @property
    def width(self) -> int:
        """The number of columns for output."""
        ...

    @property
    def display(self) -> DisplaySettings:
        """The current display settings; `/skin` and others change them for this chat."""
        ...

    def set_display(self, display: DisplaySettings) -> None:
        """Use these display settings from now on. Raises UsageError for an unknown skin."""
        ...

    def list_skins(self) -> Sequence[str]:
        """Return the names of the available skins."""
        ...

    def watch_choice(
        self, moved: Callable[[int], None] | None = None, mark: Callable[[int], MenuOption] | None = None
    ) -> AbstractContextManager[None]:
        """While the context lasts, call `moved` with the option to which a menu is moved, and have Ctrl-F replace an
        option by what `mark` returns, where it has menus.
        """
        ...

    def clear(self) -> None:
        """Clear the screen; the scrollback stays."""
        ...

    def redraw(self) -> None:
        """Redraw everything."""
        ...

    async def copy_text(self, text: str) -> str:
        """Copy a text to the clipboard; return how that was done, or why it failed."""
        ...

    async def edit_text(self, text: str) -> str | None:
        """Let the person edit a text in their editor; None when they left it unchanged and empty."""
        ...

    def attach_picture(self, path: str) -> None:
        """Attach a picture to the next message. Raises UsageError when the file is not a picture."""
        ...

    async def paste_picture(self) -> bool:
        """Attach the picture in the clipboard; False when there is none."""
        ...


class ChatControls(Protocol):
    """What only a chat on a platform can do."""

    @property
    def target(self) -> str:
        """This chat, or thread, as a target."""
        ...

    def restart_gateway(self) -> None:
        """Have the gateway end and start again once this command is done; it then says here that it is back.

        Raises UsageError where it cannot.
        """
        ...

    async def set_home(self) -> str:
        """Make this chat the one to which jobs and notices of its account go; return its name as a target.

        Raises UsageError, ConfigError where the settings cannot be changed.
        """
        ...

    async def store_binding(self) -> None:
        """Store that this chat goes on with its session, so that what comes of the session later is shown here."""
        ...

    async def send_file(self, file: Path, text: str) -> None:
        """Send a file of Hermes' own to this chat, with a text. Raises UsageError where the platform takes none."""
        ...

    async def get_voice_mode(self) -> VoiceMode:
        """Return when this chat's answers are spoken."""
        ...

    async def set_voice_mode(self, mode: VoiceMode) -> None:
        """Choose when they are. Raises UsageError where the platform takes no files."""
        ...


class CommandContext(Protocol):
    """The context of a slash command: one chat of a front-end. Text is shown without its control sequences."""

    @property
    def app(self) -> "App":
        """The App of the process."""
        ...

    @property
    def actor(self) -> "SessionActor":
        """The current session. Raises BusyError when it lives in another process."""
        ...

    @property
    def port(self) -> "SessionPort":
        """The port of the current session, wherever it lives."""
        ...

    @property
    def surface(self) -> Surface:
        """The kind of front-end."""
        ...

    @property
    def person(self) -> "PersonIdentity":
        """The person who types; at a terminal and in an editor the owner."""
        ...

    @property
    def session_person(self) -> str:
        """How the store names whom this chat's sessions work for: the owner is empty."""
        ...

    @property
    def prompt_scope(self) -> PromptScope:
        """Where the skills and own commands are that the person can call by name."""
        ...

    @property
    def terminal(self) -> Terminal | None:
        """The features of a terminal; None elsewhere."""
        ...

    @property
    def chat(self) -> ChatControls | None:
        """The features of a chat on a platform; None elsewhere."""
        ...

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show plain lines unchanged."""
        ...

    def show(self, markdown: str) -> None:
        """Show a markdown text."""
        ...

    async def choose(self, title: str, options: Sequence[MenuOption], *, chosen: int = 0) -> int | None:
        """Let the person pick an option; None when they decline."""
        ...

    async def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; Enter alone, or nobody there, means no."""
        ...

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask the person for a line; None when they decline."""
        ...

    async def open_session(self, name: str | None = None, *, greet: bool = True) -> "SessionPort":
        """Switch to another session: a fresh one, or the one that `name` means; the one before is closed and kept.

        Raises what `App.open_session` raises, and then nothing has changed.
        """
        ...

    async def hand_off(self, target: str) -> str:
        """Let another chat of the person go on with this session at the next message there; return what to say here.

        Raises NotFoundError, UsageError, BusyError.
        """
        ...

    def post_message(self, inbound: "InboundMessage", delivery: PostMode = PostMode.USUAL) -> None:
        """Post a message to the session in the person's name."""
        ...

    def prefill_input(self, text: str) -> None:
        """Put a text into the input line, to be edited and sent; elsewhere it is shown."""
        ...

    async def refresh_view(self) -> None:
        """Update what is shown of the session."""
        ...

    def leave_chat(self, *, delete: bool = False) -> None:
        """End the chat; with `delete` the session is deleted, too."""
        ...
