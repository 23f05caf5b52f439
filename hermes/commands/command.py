"""Slash commands: what one is, how it is found, and how a line that begins with `/` is run.

Each file holds those of a subject in `COMMANDS`, and `registry.py` finds them. Help and completion are made of these.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from functools import cached_property
from typing import TypedDict, Unpack

from msgspec import Struct

from hermes.commands.context import CommandContext, MenuOption, Surface
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.i18n.messages import N_

EVERYWHERE = frozenset(Surface)
TERMINAL_ONLY = frozenset({Surface.TERMINAL})
USUAL_IN_TERMINALS = (
    *("new", "resume", "search", "undo", "diff", "model", "context", "usage"),
    *("compress", "skills", "quit"),
)
USUAL_IN_CHATS = (
    *("new", "stop", "resume", "status", "model", "undo"),
    *("compress", "background", "usage", "memory", "whoami"),
)
"""The commands that people use most: help explains these, in that order, and lists begin with them."""


class CommandGroup(StrEnum):
    """The topic of a command; `/help` shows the groups in this order."""

    SESSION = N_("Conversation")
    WORK = N_("While it works")
    MODEL = N_("Model and tools")
    KNOWLEDGE = N_("What it knows")
    LOOKS = N_("How it looks")
    ABOUT = N_("About this")
    ELSEWHERE = N_("Known from elsewhere")
    """Names that other agents know and that have a counterpart here; no list shows them."""


class CommandCall(Struct, frozen=True):
    """A slash command as it was typed: its context, its name, and the text behind it."""

    context: CommandContext
    name: str
    text: str = ""
    commands: "CommandRegistry | None" = None
    """All commands of this front-end."""

    @property
    def words(self) -> list[str]:
        """The words behind the name; quotes keep words together."""
        import shlex

        try:
            return shlex.split(self.text)
        except ValueError:
            return self.text.split()

    def require_no_arguments(self) -> None:
        """Raise UsageError when text follows the name of a command without arguments."""
        if self.text:
            raise UsageError(
                N_("/{name} takes no arguments.", name=self.name),
                N_("A space in front sends it all as a message."),
            )


RunCommand = Callable[[CommandCall], Awaitable[None]]
CompleteArguments = Callable[[CommandCall], Awaitable[Sequence[MenuOption]]]


class SlashCommand(Struct, frozen=True, kw_only=True):
    """A slash command. `about` and `usage` are texts to translate; `usage` describes the arguments."""

    name: str
    about: str
    group: CommandGroup
    run: RunCommand
    usage: str = ""
    aliases: tuple[str, ...] = ()
    surfaces: frozenset[Surface] = EVERYWHERE
    while_busy: bool = True
    """Whether it can run while a turn runs."""
    complete: CompleteArguments | None = None
    """Returns what may stand where the typed text ends; the front-end leaves out what does not begin with it."""
    opens: bool = False
    """Whether it switches to another session, or hands this one over: the person's own process does that."""
    risky: bool = False
    """Whether it removes protection; it is then suggested only for a slip of one letter."""

    @property
    def travels(self) -> bool:
        """Whether it runs in the process of the session when that is another than the person's."""
        return Surface.CHAT in self.surfaces and not self.opens


class CommandTraits(TypedDict, total=False):
    """The fields of a `SlashCommand` that have a default."""

    usage: str
    aliases: tuple[str, ...]
    surfaces: frozenset[Surface]
    while_busy: bool
    complete: CompleteArguments | None
    opens: bool
    risky: bool


class CommandList(list[SlashCommand]):
    """The slash commands of a file; `command` declares a function the handler of one."""

    def __init__(self, group: CommandGroup) -> None:
        super().__init__()
        self._group = group

    def command(
        self, name: str, about: str, *, group: CommandGroup | None = None, **traits: Unpack[CommandTraits]
    ) -> Callable[[RunCommand], RunCommand]:
        """Add a command with the decorated function, in this list's group where no other is given."""

        def add_command(run: RunCommand) -> RunCommand:
            self.append(SlashCommand(name=name, about=about, run=run, group=group or self._group, **traits))
            return run

        return add_command


class CommandRegistry:
    """The slash commands of a surface by name and alias.

    Names are unique: a second command of the same name is a programming error and raises ValueError.
    """

    def __init__(self, commands: Sequence[SlashCommand], surface: Surface) -> None:
        self.commands = tuple(one for one in commands if surface in one.surfaces)
        self.usual = USUAL_IN_TERMINALS if surface is Surface.TERMINAL else USUAL_IN_CHATS
        self._named: dict[str, SlashCommand] = {}
        for one in self.commands:
            for name in (one.name, *one.aliases):
                if name in self._named:
                    raise ValueError(f"two commands are called /{name}")
                self._named[name] = one

    @property
    def listed(self) -> tuple[SlashCommand, ...]:
        """The commands that help and completion list."""
        return tuple(one for one in self.commands if one.group is not CommandGroup.ELSEWHERE)

    @cached_property
    def ranked(self) -> tuple[SlashCommand, ...]:
        """The listed commands in the order of every list to choose from: the usual ones, then the groups of `/help`.
        One whose name begins that of a less usual one stands before it (`/status` before `/statusbar`).
        """
        usual, groups = self.usual, list(CommandGroup)
        ranks = {
            one.name: (usual.index(one.name) if one.name in usual else len(usual), groups.index(one.group))
            for one in self.listed
        }

        def rank(one: SlashCommand) -> tuple[tuple[int, int], bool]:
            own = ranks[one.name]
            longer = (found for name, found in ranks.items() if name.startswith(one.name) and name not in usual)
            first = min([own, *longer])
            return first, first == own

        return tuple(sorted(self.listed, key=rank))

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def list_names(self) -> list[str]:
        """Return every name and alias."""
        return list(self._named)

    def find_command(self, name: str) -> SlashCommand | None:
        """Return the command with that name or alias in any letter case, or None; `_` stands for `-`, as the menus of
        some platforms know no other.
        """
        low = name.lower()
        return self._named.get(name) or self._named.get(low) or self._named.get(low.replace("_", "-"))

    def suggest_name(self, name: str, others: Sequence[str] = ()) -> str:
        """Return the known name nearest to a mistyped one; empty when none is near."""
        from hermes.util.nearest_names import count_edits, list_nearest

        names = [
            one
            for one in self._list_told_names(others)
            if not self._is_risky(one) or count_edits(name.lower(), one) <= 1
        ]
        return next(iter(list_nearest(name, names)), "")

    def list_begun(self, name: str, others: Sequence[str] = ()) -> list[str]:
        """Return the names that what was typed begins, one for each command. A risky one must be typed in full."""
        low, found = name.lower(), dict[str, str]()
        for one in self._list_told_names(others):
            if low and one.startswith(low) and not self._is_risky(one):
                command = self._named.get(one)
                found.setdefault(command.name if command is not None else one, one)
        return list(found.values())

    def _list_told_names(self, others: Sequence[str]) -> list[str]:
        """Return the names that are suggested: those of commands and aliases, without those known from elsewhere."""
        own = [name for one in self.ranked for name in (one.name, *one.aliases)]
        return [*own, *(name for name in others if name not in self._named)]

    def _is_risky(self, name: str) -> bool:
        return name in self._named and self._named[name].risky

    async def run_command(self, context: CommandContext, name: str, text: str) -> None:
        """Run a command. Raises NotFoundError for an unknown name, and what the command raises."""
        command = self.find_command(name)
        if command is None:
            raise NotFoundError(N_("There is no command /{name}.", name=name))
        if not command.while_busy and context.port.busy:
            hint = N_("Ctrl-C or /stop ends it.")
            if doing := context.port.doing:
                raise BusyError(N_("/{name} waits for this to end: {what}.", name=command.name, what=doing), hint)
            raise BusyError(N_("/{name} waits until the turn has ended.", name=command.name), hint)
        await command.run(CommandCall(context, name, text, self))


def parse_command_line(line: str) -> tuple[str, str] | None:
    """Return the name and the rest of a line that is a command; None for a message.

    A path has a second slash, and a line that begins with a space is always a message.
    """
    parts = line[1:].split(None, 1) if line.startswith("/") and not line[1:2].isspace() else []
    if not parts or not all(one.replace("-", "").replace("_", "").isalnum() for one in parts[0].split(":")):
        return None
    return parts[0], parts[1].strip() if len(parts) > 1 else ""
