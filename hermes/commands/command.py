"""What a slash command is, how it is found, and how a line that begins with `/` is carried out.

Each file in `commands/` holds one command as `COMMAND`, or a few that belong together as `COMMANDS`; `slash.py` finds
them. Help and completion are made from what is found.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from msgspec import Struct

from hermes.commands.context import Desk, Option, Surface
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.i18n.messages import phrase

EVERYWHERE = frozenset(Surface)
HERE_ONLY = frozenset({Surface.TERMINAL})


class Group(StrEnum):
    """What a command is about; `/help` shows them in this order."""

    SESSION = phrase("Conversation")
    WORK = phrase("While it works")
    MODEL = phrase("Model and tools")
    KNOWLEDGE = phrase("What it knows")
    LOOKS = phrase("How it looks")
    ABOUT = phrase("About this")
    ELSEWHERE = phrase("Known from elsewhere")
    """Names for which there is something else here; they are in no list."""


class Call(Struct, frozen=True):
    """A command as it was typed: where, under which name, and with what behind it."""

    desk: Desk
    name: str
    text: str = ""
    commands: "Registry | None" = None
    """All that this front-end has."""

    @property
    def words(self) -> list[str]:
        """What stands behind the name, word by word; quotes keep words together."""
        import shlex

        try:
            return shlex.split(self.text)
        except ValueError:
            return self.text.split()

    def nothing_behind(self) -> None:
        """Raise UsageError when something stands behind a name that takes nothing."""
        if self.text:
            raise UsageError(
                phrase("/{name} takes nothing behind it.", name=self.name),
                phrase("A space in front sends it all as a message."),
            )


Run = Callable[[Call], Awaitable[None]]
Complete = Callable[[Call], Awaitable[Sequence[Option]]]


class Command(Struct, frozen=True, kw_only=True):
    """A slash command. `about` and `usage` are phrases; `usage` is what may stand behind the name."""

    name: str
    about: str
    group: Group
    run: Run
    usage: str = ""
    aliases: tuple[str, ...] = ()
    surfaces: frozenset[Surface] = EVERYWHERE
    while_busy: bool = True
    """Whether it can be carried out while a turn runs."""
    complete: Complete | None = None
    """What may stand where the typed text ends; what does not begin with that is left out by the front-end."""
    opens: bool = False
    """Whether it goes over to another session."""
    risky: bool = False
    """Whether it is suggested only for a slip of one letter: it takes protection away."""

    @property
    def travels(self) -> bool:
        """Whether it is carried out where the session lives, when that is another process than the person's."""
        return Surface.CHAT in self.surfaces and not self.opens


class Registry:
    """The commands of a surface by name and alias. Names are unique; the first file in order wins nothing: a second one
    of the same name is a mistake of ours and raises."""

    def __init__(self, commands: Sequence[Command], surface: Surface) -> None:
        self.commands = tuple(one for one in commands if surface in one.surfaces)
        self._named: dict[str, Command] = {}
        for one in self.commands:
            for name in (one.name, *one.aliases):
                if name in self._named:
                    raise ValueError(f"two commands are called /{name}")
                self._named[name] = one

    @property
    def listed(self) -> tuple[Command, ...]:
        """Those that help and completion list."""
        return tuple(one for one in self.commands if one.group is not Group.ELSEWHERE)

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def names(self) -> list[str]:
        """Every name and alias."""
        return list(self._named)

    def find(self, name: str) -> Command | None:
        """The command of that name or alias, however its letters are written."""
        return self._named.get(name) or self._named.get(name.lower())

    def near(self, name: str, others: Sequence[str] = ()) -> str:
        """The known name that is nearest to a mistyped one; empty when none is near."""
        import difflib

        typed = name.lower()
        risky = {one.name for one in self.commands if one.risky}
        elsewhere = {name for name, one in self._named.items() if one.group is Group.ELSEWHERE}
        names = [
            one
            for one in (*self._named, *others)
            if one not in elsewhere and (one not in risky or _one_slip(typed, one))
        ]
        found = difflib.get_close_matches(typed, names, n=1, cutoff=0.6)
        return found[0] if found else ""

    async def run(self, desk: Desk, name: str, text: str) -> None:
        """Carry a command out. Raises NotFoundError for a name that is none, and what the command raises."""
        command = self.find(name)
        if command is None:
            raise NotFoundError(phrase("There is no command /{name}.", name=name))
        if not command.while_busy and desk.port.busy:
            raise BusyError(
                phrase("/{name} waits until the turn has ended.", name=command.name),
                phrase("Ctrl-C or /stop ends it."),
            )
        await command.run(Call(desk, name, text, self))


def parse(line: str) -> tuple[str, str] | None:
    """The name and the rest of a line that is a command; None for a message.

    A path has a second slash, and a line that begins with a space is a message whatever follows.
    """
    parts = line[1:].split(None, 1) if line.startswith("/") and not line[1:2].isspace() else []
    if not parts or not parts[0].replace("-", "").replace("_", "").isalnum():
        return None
    return parts[0], parts[1].strip() if len(parts) > 1 else ""


def _one_slip(one: str, other: str) -> bool:
    """Whether at most one letter was left out, added, or taken for another."""
    pairs = zip(one, other, strict=False)
    start = next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))
    ends = (one[start:], other[start + 1 :]), (one[start + 1 :], other[start:]), (one[start + 1 :], other[start + 1 :])
    return one == other or any(left == right for left, right in ends)
