"""`/help`: list the commands and keys."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandRegistry, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import NotFoundError
from hermes.i18n.messages import N_, tr

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
            lines += ["", tr(group.value), *(_format_command(one) for one in rows)]
    if call.context.terminal is not None and call.context.terminal.full:
        lines += ["", tr("Keys to press"), *(f"  {keys:<{_NAME_WIDTH}}{tr(what)}" for keys, what in _KEY_HELP)]
    call.context.tell("\n".join(lines).lstrip("\n"))


def _format_command(command: SlashCommand) -> str:
    usage = f" {tr(command.usage)}" if command.usage else ""
    return f"  {f'/{command.name}{usage}':<{_NAME_WIDTH - 1}} {tr(command.about)}"


def _describe_command(commands: CommandRegistry, name: str) -> str:
    command = commands.find_command(name)
    if command is None:
        near = commands.suggest_name(name)
        hint = N_("Did you mean /{near}?", near=near) if near else N_("/help lists all commands.")
        raise NotFoundError(N_("There is no command /{name}.", name=name), hint)
    lines = [_format_command(command).strip()]
    if command.aliases:
        lines.append(tr("Also: {names}", names=", ".join(f"/{one}" for one in command.aliases)))
    if not command.while_busy:
        lines.append(tr("It waits until a running turn has ended."))
    return "\n".join(lines)


async def complete_help(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the names of the commands."""
    assert call.commands is not None
    return [MenuOption(one.name, tr(one.about)) for one in call.commands.listed]


_KEY_HELP = (
    ("Enter", N_("send; while a turn runs as /busy says")),
    ("Alt-Enter, Ctrl-J", N_("a new line")),
    ("Tab", N_("complete a command or a path; @ names a file")),
    ("Ctrl-C", N_("stop the turn, twice at once; else clear the line; else, twice, leave")),
    ("Ctrl-R, ↑", N_("what was typed before")),
    ("Ctrl-X Ctrl-E", N_("write in your editor")),
    ("Ctrl-O", N_("show the last results again, in full")),
    ("Ctrl-T", N_("show the model's last reasoning")),
    ("Ctrl-V", N_("attach the picture in the clipboard")),
    ("Ctrl-L", N_("clear the screen")),
    ("!command", N_("run a command yourself; what it says goes along with your next message")),
)

COMMAND = SlashCommand(
    name="help",
    aliases=("commands", "?"),
    about=N_("this list, or more about one command"),
    usage=N_("[command]"),
    group=CommandGroup.ABOUT,
    run=show_help,
    complete=complete_help,
)
