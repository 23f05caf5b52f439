"""`/help`: list the commands and keys.

`/config`, `/whoami`: show the settings, and who talks here.

Explain in a sentence what replaces commands that people know from other agents.
"""

import asyncio
from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandRegistry, RunCommand, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import NotFoundError
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters, to_one_line

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

_HELP_COMMAND = SlashCommand(
    name="help",
    aliases=("commands", "?"),
    about=N_("this list, or more about one command"),
    usage=N_("[command]"),
    group=CommandGroup.ABOUT,
    run=show_help,
    complete=complete_help,
)


async def show_config(call: CommandCall) -> None:
    """Show the settings and their sources; keys are never shown."""
    from hermes.admin.config import get_setting, list_settings

    environ, home = call.context.app.services.environ, call.context.app.services.home
    if call.text:
        row = await asyncio.to_thread(get_setting, environ, call.text)
        call.context.tell(_format_setting(row))
        return
    found = [row for row in await asyncio.to_thread(list_settings, environ) if row["source"] != "default"]
    lines = [_format_setting(row) for row in found] or [tr("Nothing is set; every setting has its default.")]
    call.context.tell("\n".join([tr("Set in {file}:", file=escape_unseen_characters(str(home.config_file))), *lines]))
    call.context.tell(tr("`hermes config set KEY VALUE` changes one; chats that begin later have it."))


def _format_setting(row: dict[str, object]) -> str:
    return f"  {row['key']} = {to_one_line(escape_unseen_characters(str(row['value'])), 100)}  ({row['source'] or '-'})"


async def complete_config(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the keys of all settings."""
    from hermes.admin.config import list_settings

    return [
        MenuOption(str(row["key"])) for row in await asyncio.to_thread(list_settings, call.context.app.services.environ)
    ]


async def show_identity(call: CommandCall) -> None:
    """Show who talks here and what they may do."""
    call.require_no_arguments()
    on = call.context.app.services
    user = on.environ.get("USER") or on.environ.get("LOGNAME") or tr("you")
    call.context.tell(tr("{user}, at this terminal: you may use every command.", user=escape_unseen_characters(user)))


_ABOUT_COMMANDS = tuple(
    SlashCommand(
        group=CommandGroup.ABOUT, name=name, aliases=aliases, about=about, usage=usage, run=run, complete=complete
    )
    for name, aliases, about, usage, run, complete in (
        ("config", (), N_("what is set, and where it comes from"), N_("[key]"), show_config, complete_config),
        ("whoami", (), N_("who talks here, and what they may do"), "", show_identity, None),
    )
)


_REPLACEMENTS = (
    (
        "reload",
        (),
        N_("Keys and settings are read when Hermes starts: leave, and `hermes --continue` goes on here."),
    ),
    ("debug", (), N_("/doctor and `hermes logs` tell what there is to know; nothing is uploaded anywhere.")),
    ("plugins", (), N_("Plug-ins are Python packages; `hermes doctor` and `hermes tools` show what they add.")),
    ("learn", (), N_("Say it in a message: “Make a skill of …”. /skills pending shows what came of it.")),
    ("curator", (), N_("/skills shows how skills are used, and /skills rollback NAME takes a change back.")),
    ("bundles", (), N_("There are no bundles of skills; a skill can name others. /skills lists them.")),
    (
        "journey",
        ("learning", "memory-graph"),
        N_("/memory log and /skills log NAME tell what was learned, and when."),
    ),
    ("subgoal", (), N_("Write it into the goal itself: /goal TEXT replaces the whole goal.")),
    ("footer", (), N_("The line below the input says it all the time: /statusbar.")),
    ("indicator", (), N_("There is one sign for work, and /skin chooses its colours.")),
    (
        "approve",
        ("deny",),
        N_("Answer a question where it is shown; /approvals lists those that wait elsewhere."),
    ),
)


def _explain(text: str) -> RunCommand:
    async def show_explanation(call: CommandCall) -> None:
        call.context.tell(tr(text))

    return show_explanation


_UNAVAILABLE_COMMANDS = tuple(
    SlashCommand(name=name, aliases=aliases, about=text, group=CommandGroup.ELSEWHERE, run=_explain(text))
    for name, aliases, text in _REPLACEMENTS
)

COMMANDS = (_HELP_COMMAND, *_ABOUT_COMMANDS, *_UNAVAILABLE_COMMANDS)
