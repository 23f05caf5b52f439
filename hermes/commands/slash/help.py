"""`/help`: list the commands and keys."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandRegistry, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import NotFoundError
from hermes.i18n.messages import phrase, say

_NAME_WIDTH = 24


async def show_help(call: CommandCall) -> None:
    """List all commands by group, or describe one."""
    commands = call.commands
    assert commands is not None
    name = call.text.removeprefix("/")
    if name:
        call.context.tell(_describe_command(commands, name))
        return
    lines = []
    for group in CommandGroup:
        rows = [one for one in commands.listed if one.group is group]
        if rows:
            lines += ["", say(group.value), *(_format_command(one) for one in rows)]
    if call.context.terminal is not None and call.context.terminal.full:
        lines += ["", say("Keys to press"), *(f"  {keys:<{_NAME_WIDTH}}{say(what)}" for keys, what in _KEY_HELP)]
    call.context.tell("\n".join(lines).lstrip("\n"))


def _format_command(command: SlashCommand) -> str:
    usage = f" {say(command.usage)}" if command.usage else ""
    return f"  {f'/{command.name}{usage}':<{_NAME_WIDTH - 1}} {say(command.about)}"


def _describe_command(commands: CommandRegistry, name: str) -> str:
    command = commands.find_command(name)
    if command is None:
        near = commands.suggest_name(name)
        hint = phrase("Did you mean /{near}?", near=near) if near else phrase("/help lists all commands.")
        raise NotFoundError(phrase("There is no command /{name}.", name=name), hint)
    lines = [_format_command(command).strip()]
    if command.aliases:
        lines.append(say("Also: {names}", names=", ".join(f"/{one}" for one in command.aliases)))
    if not command.while_busy:
        lines.append(say("It waits until a running turn has ended."))
    return "\n".join(lines)


async def complete_help(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the names of the commands."""
    assert call.commands is not None
    return [MenuOption(one.name, say(one.about)) for one in call.commands.listed]


_KEY_HELP = (
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

COMMAND = SlashCommand(
    name="help",
    aliases=("commands", "?"),
    about=phrase("this list, or more about one command"),
    usage=phrase("[command]"),
    group=CommandGroup.ABOUT,
    run=show_help,
    complete=complete_help,
)
