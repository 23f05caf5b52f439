"""`/help`: list the commands and keys.

`/config`, `/whoami`: show the settings, and who talks here.

Explain in a sentence what replaces commands that people know from other agents.
"""

import asyncio
from collections.abc import Mapping, Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList, CommandRegistry, RunCommand, SlashCommand
from hermes.commands.context import MenuOption, Surface
from hermes.commands.named_prompts import NamedPrompt, list_named_prompts
from hermes.commands.people import format_role
from hermes.config.chat_keys import ACTIONS, format_action_keys, parse_keys
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_, tr
from hermes.markup.cells import measure_width
from hermes.util.text import escape_unseen_characters, to_one_line

_NAME_WIDTH = 24


COMMANDS = CommandList(CommandGroup.ABOUT)


async def complete_help(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the names of the commands."""
    assert call.commands is not None
    return [MenuOption(one.name, tr(one.about)) for one in call.commands.listed]


@COMMANDS.command(
    "help",
    N_("this list, or more about one command"),
    usage=N_("[command|all]"),
    aliases=("commands", "?"),
    complete=complete_help,
)
async def show_help(call: CommandCall) -> None:
    """Show the keys and the usual commands, list all commands by group (`all`), or describe one."""
    commands, terminal = call.commands, call.context.terminal
    assert commands is not None
    name = call.text.removeprefix("/")
    if name and name != "all":
        call.context.tell(_describe_command(commands, name))
        return
    prompts = await list_named_prompts(call.context.app, call.context.prompt_scope)
    if call.context.surface is Surface.CHAT:
        call.context.tell(_format_short_help(commands, prompts))
    elif terminal is not None and terminal.full and not name:
        call.context.tell("\n".join(_format_first_help(commands, prompts, terminal.display.keys)))
    else:
        call.context.tell("\n".join(_format_groups(commands, prompts)).lstrip("\n"))


def _format_groups(commands: CommandRegistry, prompts: Sequence[NamedPrompt]) -> list[str]:
    lines: list[str] = []
    for group in CommandGroup:
        rows = [one for one in commands.listed if one.group is group]
        if rows:
            lines += ["", tr(group.value), *(line for one in rows for line in _format_command(one))]
    if own := [one for one in prompts if one.is_listed]:
        lines += ["", tr("Your own"), *(line for one in own for line in _format_usage(one.name, one.usage, one.about))]
    return lines


def _format_first_help(commands: CommandRegistry, prompts: Sequence[NamedPrompt], keys: Mapping[str, str]) -> list[str]:
    """Return what fits on a screen: the keys, the commands that are used most, and the names of own ones."""
    usual = [one for name in commands.usual if (one := commands.find_command(name)) is not None]
    rows = [*_KEY_HELP, *_list_action_keys(keys)]
    own = " ".join(f"/{one.name}" for one in prompts if one.is_listed)
    return [
        tr("Keys to press"),
        *(_format_row(shown, tr(what)) for shown, what in rows),
        "",
        tr("Usual commands"),
        *(line for one in usual for line in _format_command(one)),
        *(("", tr("Your own: {names}", names=own)) if own else ()),
        "",
        tr("/help all lists every command, /help NAME tells more about one; display.keys changes keys."),
    ]


def _list_action_keys(settings: Mapping[str, str]) -> list[tuple[str, str]]:
    try:
        found = parse_keys(settings)
    except UsageError:  # the chat has told of it when it began
        found = parse_keys({})
    return [(format_action_keys(found[name]), ACTIONS[name].about) for name in found if found[name]]


def _format_row(left: str, right: str) -> str:
    return f"  {left}{' ' * max(_NAME_WIDTH - measure_width(left), 1)}{right}"


def _format_command(command: SlashCommand) -> list[str]:
    return _format_usage(command.name, tr(command.usage) if command.usage else "", tr(command.about))


def _format_usage(name: str, usage: str, about: str) -> list[str]:
    """Format a command on one line, or on two where its usage is long, so that the column of words stays."""
    shown = f"/{name} {usage}".rstrip()
    if measure_width(shown) < _NAME_WIDTH:
        return [_format_row(shown, about)]
    return [f"  {shown}", _format_row("", about)]


def _format_short_help(commands: CommandRegistry, prompts: Sequence[NamedPrompt]) -> str:
    """Return the help of a chat: a line for what people use most, the other names in one line, no columns."""
    listed = {one.name: one for one in commands.listed}
    lines = [f"/{name} - {tr(listed[name].about)}" for name in commands.usual if name in listed]
    own, skills = ([one.name for one in prompts if bool(one.body) is is_own] for is_own in (True, False))
    names = {
        N_("More: {names}"): sorted(set(listed).difference(commands.usual)),
        N_("Your own: {names}"): own,
        N_("Skills: {names}"): skills,
    }
    lines += ["", *(tr(said, names=" ".join(f"/{name}" for name in found)) for said, found in names.items() if found)]
    return "\n".join([*lines, tr("/help NAME says more about one.")])


def _describe_command(commands: CommandRegistry, name: str) -> str:
    command = commands.find_command(name)
    if command is None:
        near = commands.suggest_name(name)
        hint = N_("Did you mean /{near}?", near=near) if near else N_("/help lists all commands.")
        raise NotFoundError(N_("There is no command /{name}.", name=name), hint)
    usage = f" {tr(command.usage)}" if command.usage else ""
    lines = [f"/{command.name}{usage}  {tr(command.about)}"]
    if command.aliases:
        lines.append(tr("Also: {names}", names=", ".join(f"/{one}" for one in command.aliases)))
    if not command.while_busy:
        lines.append(tr("It waits until a running turn has ended."))
    return "\n".join(lines)


_KEY_HELP = (
    ("Enter", N_("send; while a turn runs as /busy says")),
    ("Tab", N_("complete a command or a path; @ names a file")),
    ("Ctrl-R, ↑", N_("what was typed before")),
    ("!command", N_("run a command yourself; what it says goes along with your next message")),
)


async def complete_config(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the keys of all settings."""
    from hermes.admin.config import list_settings

    return [
        MenuOption(str(row["key"])) for row in await asyncio.to_thread(list_settings, call.context.app.services.environ)
    ]


@COMMANDS.command("config", N_("what is set, and where it comes from"), usage=N_("[key]"), complete=complete_config)
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


@COMMANDS.command("whoami", N_("who talks here, and what they may do"))
async def show_identity(call: CommandCall) -> None:
    """Show who talks here and what they may do."""
    call.require_no_arguments()
    on, person = call.context.app.services, call.context.person
    if call.context.chat is not None:
        name = escape_unseen_characters(to_one_line(person.name or person.id, 60))
        account = escape_unseen_characters(call.context.chat.target.partition(":")[0])
        may = tr("you may use every command.") if person.is_owner else tr("/help shows the commands that are for you.")
        call.context.tell(
            tr(
                "{name}, on {account}: {role}; {may}",
                name=name,
                account=account,
                role=format_role(person.role),
                may=may,
            )
        )
        return
    user = on.environ.get("USER") or on.environ.get("LOGNAME") or tr("you")
    call.context.tell(tr("{user}, at this terminal: you may use every command.", user=escape_unseen_characters(user)))


_REPLACEMENTS = (
    (
        "reload",
        (),
        N_("Keys and settings are read when Hermes starts: leave, and `hermes --continue` goes on here."),
    ),
    ("debug", (), N_("/doctor and `hermes logs` tell what there is to know; nothing is uploaded anywhere.")),
    ("learn", (), N_("Say it in a message: “Make a skill of …”. /skills pending shows what came of it.")),
    ("curator", (), N_("/skills shows how skills are used, and /skills rollback NAME takes a change back.")),
    ("bundles", (), N_("There are no bundles of skills; a skill can name others. /skills lists them.")),
    (
        "journey",
        ("learning", "memory-graph"),
        N_("/memory log and /skills log NAME tell what was learned, and when."),
    ),
    ("login", (), N_("Type `hermes auth add NAME` in a shell for a provider's key, or `hermes setup` for everything.")),
    ("vim", (), N_("`hermes config set display.editing_mode vi` gives the keys of vi to the chats that begin later.")),
    ("todos", (), N_("The agent's plan stands above the input while it works on it; Ctrl-T hides and shows it.")),
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


COMMANDS.extend(
    SlashCommand(name=name, aliases=aliases, about=text, group=CommandGroup.ELSEWHERE, run=_explain(text))
    for name, aliases, text in _REPLACEMENTS
)
