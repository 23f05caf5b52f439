"""`/help`: what can be typed, made from the commands themselves."""

from collections.abc import Sequence

from hermes.commands.command import Call, Command, Group, Registry
from hermes.commands.context import Option
from hermes.core.errors import NotFoundError
from hermes.i18n.messages import phrase, say

_WIDTH = 24


async def run(call: Call) -> None:
    """All commands by what they are about, or one with all that is known of it."""
    commands = call.commands
    assert commands is not None
    name = call.text.removeprefix("/")
    if name:
        call.desk.tell(_one(commands, name))
        return
    lines = []
    for group in Group:
        rows = [one for one in commands.listed if one.group is group]
        if rows:
            lines += ["", say(group.value), *(_row(one) for one in rows)]
    if call.desk.terminal is not None and call.desk.terminal.full:
        lines += ["", say("Keys to press"), *(f"  {keys:<{_WIDTH}}{say(what)}" for keys, what in _KEYS)]
    call.desk.tell("\n".join(lines).lstrip("\n"))


def _row(command: Command) -> str:
    usage = f" {say(command.usage)}" if command.usage else ""
    return f"  {f'/{command.name}{usage}':<{_WIDTH - 1}} {say(command.about)}"


def _one(commands: Registry, name: str) -> str:
    command = commands.find(name)
    if command is None:
        near = commands.near(name)
        hint = phrase("Did you mean /{near}?", near=near) if near else phrase("/help lists all commands.")
        raise NotFoundError(phrase("There is no command /{name}.", name=name), hint)
    lines = [_row(command).strip()]
    if command.aliases:
        lines.append(say("Also: {names}", names=", ".join(f"/{one}" for one in command.aliases)))
    if not command.while_busy:
        lines.append(say("It waits until a running turn has ended."))
    return "\n".join(lines)


async def complete(call: Call) -> Sequence[Option]:
    """The names of the commands."""
    assert call.commands is not None
    return [Option(one.name, say(one.about)) for one in call.commands.listed]


_KEYS = (
    ("Enter", phrase("send; while a turn runs as /busy says")),
    ("Alt-Enter, Ctrl-J", phrase("a new line")),
    ("Tab", phrase("complete a command or a path; @ names a file")),
    ("Ctrl-C", phrase("stop the turn, twice at once; else clear the line; else, twice, leave")),
    ("Ctrl-R, ↑", phrase("what was typed before")),
    ("Ctrl-X Ctrl-E", phrase("write in your editor")),
    ("Ctrl-O", phrase("show the last results again, in full")),
    ("Ctrl-T", phrase("show the model's last reasoning")),
    ("Ctrl-V", phrase("attach the picture in the clipboard")),
    ("Ctrl-L", phrase("clear the screen")),
    ("!command", phrase("run a command yourself; what it says goes along with your next message")),
)

COMMAND = Command(
    name="help",
    aliases=("commands", "?"),
    about=phrase("this list, or more about one command"),
    usage=phrase("[command]"),
    group=Group.ABOUT,
    run=run,
    complete=complete,
)
