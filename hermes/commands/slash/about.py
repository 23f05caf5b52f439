"""`/doctor`, `/config`, `/profile`, `/whoami`, `/version`, `/update`: show facts about this Hermes."""

import asyncio
import os
from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.i18n.messages import joined, phrase, say, translated
from hermes.util.text import escaped, one_line, visible

_STATE_MARKS = {"ok": "ok", "warning": "! "}


async def run_doctor(call: CommandCall) -> None:
    """Examine the machine and the home; nothing is changed."""
    call.require_no_arguments()
    from hermes.admin.doctor import check_home
    from hermes.admin.health import summarize_health

    environ = call.context.app.services.environ
    lines = await summarize_health(environ, call.context.app.options.cwd or os.getcwd())
    checks = await check_home(environ)
    lines += [
        f"{_STATE_MARKS.get(one.state, '!!')} {one.name:<12} {joined(translated(one.said), translated(one.advice))}"
        for one in checks
    ]
    call.context.tell("\n".join(visible(line) for line in lines))
    if any(one.state != "ok" for one in checks):
        call.context.tell(say("`hermes doctor --fix` mends what is safe to mend."))


async def show_config(call: CommandCall) -> None:
    """Show the settings and their sources; keys are never shown."""
    from hermes.admin.config import get_setting, list_settings

    environ, home = call.context.app.services.environ, call.context.app.services.home
    if call.text:
        row = await asyncio.to_thread(get_setting, environ, call.text)
        call.context.tell(_format_setting(row))
        return
    found = [row for row in await asyncio.to_thread(list_settings, environ) if row["source"] != "default"]
    lines = [_format_setting(row) for row in found] or [say("Nothing is set; everything has its default.")]
    call.context.tell("\n".join([say("Set in {file}:", file=escaped(str(home.config_file))), *lines]))
    call.context.tell(say("`hermes config set KEY VALUE` changes one; chats that begin later have it."))


def _format_setting(row: dict[str, object]) -> str:
    return f"  {row['key']} = {one_line(escaped(str(row['value'])), 100)}  ({row['source'] or '-'})"


async def complete_config(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the keys of all settings."""
    from hermes.admin.config import list_settings

    return [
        MenuOption(str(row["key"])) for row in await asyncio.to_thread(list_settings, call.context.app.services.environ)
    ]


async def show_profile(call: CommandCall) -> None:
    """Show the profile in use and its folder."""
    call.require_no_arguments()
    from hermes.config.profiles import current_profile

    on = call.context.app.services
    name = current_profile(on.environ)
    folder = escaped(str(on.home.root))
    if name:
        call.context.tell(
            say("Profile {name}, in {folder}. `hermes profile list` shows all.", name=name, folder=folder)
        )
    else:
        call.context.tell(say("No profile: HERMES_HOME names {folder}.", folder=folder))


async def show_identity(call: CommandCall) -> None:
    """Show who talks here and what they may do."""
    call.require_no_arguments()
    on = call.context.app.services
    user = on.environ.get("USER") or on.environ.get("LOGNAME") or say("you")
    call.context.tell(say("{user}, at this terminal: you may use every command.", user=escaped(user)))


async def show_version(call: CommandCall) -> None:
    """Show the version of Hermes."""
    call.require_no_arguments()
    from hermes import __version__

    call.context.tell(say("Hermes {version}", version=__version__))


async def describe_update(call: CommandCall) -> None:
    """Show what would update this Hermes; nothing is done, and the network is not used."""
    call.require_no_arguments()
    import shlex

    from hermes.admin.update import Updater, detect_installation

    updater = Updater(detect_installation(), call.context.app.services.environ)
    row = await asyncio.to_thread(updater.describe_installation)
    command = row["command"]
    assert isinstance(command, list)
    where = say("Hermes {version}, in {folder}.", version=row["version"], folder=escaped(str(row["root"])))
    call.context.tell(where)
    if command:
        call.context.tell(
            say(
                "`hermes update`, outside of a chat, would back up the home and run: {command}",
                command=shlex.join(command),
            )
        )
    else:
        call.context.tell(say("Nobody knows how it was installed; update it the same way."))


COMMANDS = tuple(
    SlashCommand(
        group=CommandGroup.ABOUT, name=name, aliases=aliases, about=about, usage=usage, run=run, complete=complete
    )
    for name, aliases, about, usage, run, complete in (
        ("doctor", (), phrase("examine this machine and what Hermes keeps"), "", run_doctor, None),
        ("config", (), phrase("what is set, and where it comes from"), phrase("[key]"), show_config, complete_config),
        ("profile", (), phrase("the profile in use and its folder"), "", show_profile, None),
        ("whoami", (), phrase("who talks here, and what they may do"), "", show_identity, None),
        ("version", ("v",), phrase("the version of Hermes"), "", show_version, None),
        ("update", (), phrase("what would update Hermes; nothing is done"), "", describe_update, None),
    )
)
