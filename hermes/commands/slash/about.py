"""`/doctor`, `/config`, `/profile`, `/whoami`, `/version`, `/update`: about this Hermes."""

import asyncio
import os
from collections.abc import Sequence

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.i18n.messages import joined, phrase, say, translated
from hermes.util.text import escaped, one_line, visible

_MARKS = {"ok": "ok", "warning": "! "}


async def doctor(call: Call) -> None:
    """Examine the machine and the home; nothing is changed."""
    call.nothing_behind()
    from hermes.admin.doctor import examine_home
    from hermes.admin.health import examine

    environ = call.desk.app.premises.environ
    lines = await examine(environ, call.desk.app.options.cwd or os.getcwd())
    checks = await examine_home(environ)
    lines += [
        f"{_MARKS.get(one.state, '!!')} {one.name:<12} {joined(translated(one.said), translated(one.advice))}"
        for one in checks
    ]
    call.desk.tell("\n".join(visible(line) for line in lines))
    if any(one.state != "ok" for one in checks):
        call.desk.tell(say("`hermes doctor --fix` mends what is safe to mend."))


async def config(call: Call) -> None:
    """What is set and where it comes from; keys are never shown."""
    from hermes.admin.config import get, rows

    environ, home = call.desk.app.premises.environ, call.desk.app.premises.home
    if call.text:
        row = await asyncio.to_thread(get, environ, call.text)
        call.desk.tell(_config_line(row))
        return
    found = [row for row in await asyncio.to_thread(rows, environ) if row["source"] != "default"]
    lines = [_config_line(row) for row in found] or [say("Nothing is set; everything has its default.")]
    call.desk.tell("\n".join([say("Set in {file}:", file=escaped(str(home.config_file))), *lines]))
    call.desk.tell(say("`hermes config set KEY VALUE` changes one; chats that begin later have it."))


def _config_line(row: dict[str, object]) -> str:
    return f"  {row['key']} = {one_line(escaped(str(row['value'])), 100)}  ({row['source'] or '-'})"


async def keys(call: Call) -> Sequence[Option]:
    """The keys of all settings."""
    from hermes.admin.config import rows

    return [Option(str(row["key"])) for row in await asyncio.to_thread(rows, call.desk.app.premises.environ)]


async def profile(call: Call) -> None:
    """The profile in use and its folder."""
    call.nothing_behind()
    from hermes.config.profiles import current_profile

    on = call.desk.app.premises
    name = current_profile(on.environ)
    folder = escaped(str(on.home.root))
    if name:
        call.desk.tell(say("Profile {name}, in {folder}. `hermes profile list` shows all.", name=name, folder=folder))
    else:
        call.desk.tell(say("No profile: HERMES_HOME names {folder}.", folder=folder))


async def whoami(call: Call) -> None:
    """Who talks here and what they may do."""
    call.nothing_behind()
    on = call.desk.app.premises
    user = on.environ.get("USER") or on.environ.get("LOGNAME") or say("you")
    call.desk.tell(say("{user}, at this terminal: you may use every command.", user=escaped(user)))


async def version(call: Call) -> None:
    """The version of Hermes."""
    call.nothing_behind()
    from hermes import __version__

    call.desk.tell(say("Hermes {version}", version=__version__))


async def update(call: Call) -> None:
    """Say what would update this Hermes; nothing is done, nobody is asked over the network."""
    call.nothing_behind()
    import shlex

    from hermes.admin.update import Updater, this_installation

    updater = Updater(this_installation(), call.desk.app.premises.environ)
    row = await asyncio.to_thread(updater.about)
    command = row["command"]
    assert isinstance(command, list)
    where = say("Hermes {version}, in {folder}.", version=row["version"], folder=escaped(str(row["root"])))
    call.desk.tell(where)
    if command:
        call.desk.tell(
            say(
                "`hermes update`, outside of a chat, would back up the home and run: {command}",
                command=shlex.join(command),
            )
        )
    else:
        call.desk.tell(say("Nobody knows how it was installed; update it the same way."))


COMMANDS = tuple(
    Command(group=Group.ABOUT, name=name, aliases=aliases, about=about, usage=usage, run=run, complete=complete)
    for name, aliases, about, usage, run, complete in (
        ("doctor", (), phrase("examine this machine and what Hermes keeps"), "", doctor, None),
        ("config", (), phrase("what is set, and where it comes from"), phrase("[key]"), config, keys),
        ("profile", (), phrase("the profile in use and its folder"), "", profile, None),
        ("whoami", (), phrase("who talks here, and what they may do"), "", whoami, None),
        ("version", ("v",), phrase("the version of Hermes"), "", version, None),
        ("update", (), phrase("what would update Hermes; nothing is done"), "", update, None),
    )
)
