"""`/doctor`, `/config`, `/profile`, `/whoami`, `/version`, `/update`: show facts about this Hermes."""

import asyncio
import os
from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.i18n.messages import N_, join_sentences, localize, tr
from hermes.util.text import escape_confusable_characters, escape_unseen_characters, to_one_line

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
        f"{_STATE_MARKS.get(one.state, '!!')} {one.name:<12} {join_sentences(localize(one.said), localize(one.advice))}"
        for one in checks
    ]
    call.context.tell("\n".join(escape_confusable_characters(line) for line in lines))
    if any(one.state != "ok" for one in checks):
        call.context.tell(tr("`hermes doctor --fix` mends what is safe to mend."))


async def show_config(call: CommandCall) -> None:
    """Show the settings and their sources; keys are never shown."""
    from hermes.admin.config import get_setting, list_settings

    environ, home = call.context.app.services.environ, call.context.app.services.home
    if call.text:
        row = await asyncio.to_thread(get_setting, environ, call.text)
        call.context.tell(_format_setting(row))
        return
    found = [row for row in await asyncio.to_thread(list_settings, environ) if row["source"] != "default"]
    lines = [_format_setting(row) for row in found] or [tr("Nothing is set; everything has its default.")]
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


async def show_profile(call: CommandCall) -> None:
    """Show the profile in use and its folder."""
    call.require_no_arguments()
    from hermes.config.profiles import find_current_profile

    on = call.context.app.services
    name = find_current_profile(on.environ)
    folder = escape_unseen_characters(str(on.home.root))
    if name:
        call.context.tell(tr("Profile {name}, in {folder}. `hermes profile list` shows all.", name=name, folder=folder))
    else:
        call.context.tell(tr("No profile: HERMES_HOME names {folder}.", folder=folder))


async def show_identity(call: CommandCall) -> None:
    """Show who talks here and what they may do."""
    call.require_no_arguments()
    on = call.context.app.services
    user = on.environ.get("USER") or on.environ.get("LOGNAME") or tr("you")
    call.context.tell(tr("{user}, at this terminal: you may use every command.", user=escape_unseen_characters(user)))


async def show_version(call: CommandCall) -> None:
    """Show the version of Hermes."""
    call.require_no_arguments()
    from hermes import __version__

    call.context.tell(tr("Hermes {version}", version=__version__))


async def describe_update(call: CommandCall) -> None:
    """Show what would update this Hermes; nothing is done, and the network is not used."""
    call.require_no_arguments()
    import shlex

    from hermes.admin.update import Updater, detect_installation

    updater = Updater(detect_installation(), call.context.app.services.environ)
    row = await asyncio.to_thread(updater.describe_installation)
    command = row["command"]
    assert isinstance(command, list)
    where = tr(
        "Hermes {version}, in {folder}.", version=row["version"], folder=escape_unseen_characters(str(row["root"]))
    )
    call.context.tell(where)
    if command:
        call.context.tell(
            tr(
                "`hermes update`, outside of a chat, would back up the home and run: {command}",
                command=shlex.join(command),
            )
        )
    else:
        call.context.tell(tr("Nobody knows how it was installed; update it the same way."))


COMMANDS = tuple(
    SlashCommand(
        group=CommandGroup.ABOUT, name=name, aliases=aliases, about=about, usage=usage, run=run, complete=complete
    )
    for name, aliases, about, usage, run, complete in (
        ("doctor", (), N_("examine this machine and what Hermes keeps"), "", run_doctor, None),
        ("config", (), N_("what is set, and where it comes from"), N_("[key]"), show_config, complete_config),
        ("profile", (), N_("the profile in use and its folder"), "", show_profile, None),
        ("whoami", (), N_("who talks here, and what they may do"), "", show_identity, None),
        ("version", ("v",), N_("the version of Hermes"), "", show_version, None),
        ("update", (), N_("what would update Hermes; nothing is done"), "", describe_update, None),
    )
)
