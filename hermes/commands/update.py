"""`hermes update`: show how to update, or do it; `/update` shows it. `hermes version`, `/version`: show the version.

`hermes uninstall`: show what removes Hermes.
"""

import platform
import shlex

import hermes
from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.verb import JSON_OPTION, SHORT_YES_OPTION, JsonLayout, Verb, VerbCall, VerbResult, argument
from hermes.core.encoding import Plain
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

UPDATE = Verb(
    "update",
    description="Say how this Hermes was installed and what would update it; after a yes do that. The home is backed "
    "up first, the new version is tried out, and when it does not work the old one is put back. Nothing is ever "
    "updated without you.",
    example="hermes update --check",
)
UNINSTALL = Verb(
    "uninstall",
    description="Say what removes this Hermes, by the way in which it was installed, and where its home is. Nothing is "
    "removed.",
    example="hermes uninstall",
)
VERSION = Verb("version", description="Show the version.", example="hermes version --json", json_layout=JsonLayout.LINE)


@UPDATE.action(
    "",
    "",
    argument("--check", action="store_true", help="only check whether there is a newer version"),
    SHORT_YES_OPTION,
    JSON_OPTION,
)
def update_hermes(call: VerbCall) -> VerbResult:
    """Show the installation, and update it after a yes."""
    from hermes.admin.update import Updater, detect_installation

    updater = Updater(detect_installation(), call.environ)
    call.show(_format_installation(updater.describe_installation()))
    none = tr("Hermes is up to date.")
    if call.args.check:
        row = updater.check_for_update()
        newer = escape_unseen_characters(tr("A newer version exists: {what}.", what=row["newer"]))
        return VerbResult(row, [newer if row["newer"] else none])
    updater.require_known_way()
    call.require_yes_now(tr("Update now?"), what=tr("Updating"))
    done = updater.update_installation()
    return VerbResult(done, _describe_update(done) if done["updated"] else [none])


def _describe_update(done: Plain) -> list[str]:
    """Describe what an update has changed: of a clone its commits, which need not change the version."""
    from hermes.admin.update import CLONE

    new, old = done["now"], done["version"]
    lines = [tr("Updated: {commits}.", commits=done["newer"])] if done["kind"] == CLONE else []
    if new != old or not lines:
        lines.append(tr("Hermes is at version {new} now; it was {old}.", new=new, old=old))
    return [escape_unseen_characters(line) for line in lines]


@UNINSTALL.action("", "", JSON_OPTION)
def describe_removal(call: VerbCall) -> VerbResult:
    """Show what removes Hermes, the gateway's service first; nothing is done."""
    from hermes.admin.service.service import GatewayService, detect_service_kind
    from hermes.admin.update import CLONE, Updater, detect_installation
    from hermes.config.home import locate_home

    updater, home = Updater(detect_installation(), call.environ), locate_home(call.environ)
    row = updater.describe_installation()
    commands = [updater.removal_command()] if updater.removal_command() else []
    if GatewayService(home, call.environ, detect_service_kind(call.environ), 0.0).installed:
        commands.insert(0, ["hermes", "gateway", "uninstall"])
    lines = [_format_installation(row)[0]]
    if commands:
        lines.append(tr("What removes it: {command}", command=" && ".join(map(shlex.join, commands))))
    if not updater.removal_command():
        is_clone = row["kind"] == CLONE
        lines.append(tr("Delete that folder.") if is_clone else tr("Remove it the way it was installed."))
    lines.append(
        tr("Your sessions, settings and keys stay in {folder}; `hermes backup` copies them.", folder=home.root)
    )
    found = {"kind": row["kind"], "root": row["root"], "commands": commands, "home": str(home.root)}
    return VerbResult(found, [escape_unseen_characters(line) for line in lines])


@VERSION.action("", "", JSON_OPTION)
def show_version(call: VerbCall) -> VerbResult:
    """Show the version."""
    del call
    value = {"version": hermes.__version__, "python": platform.python_version()}
    return VerbResult(value, [f"hermes {hermes.__version__}"])


def _format_installation(row: Plain) -> list[str]:
    from hermes.admin import update

    names = {
        update.CLONE: N_("a clone of the repository"),
        update.PIP: N_("installed by pip"),
        update.UV: N_("installed by uv"),
        update.UV_TOOL: N_("installed by uv tool"),
        update.PIPX: N_("installed by pipx"),
        update.UNKNOWN: N_("installed in an unknown way"),
    }
    command = row["command"]
    assert isinstance(command, list)
    lines = [
        tr(
            "Hermes {version}, {how}, in {folder}.",
            version=row["version"],
            how=tr(names[str(row["kind"])]),
            folder=row["root"],
        )
    ]
    if command:
        lines.append(tr("What updates it: {command}", command=shlex.join(command)))
    return [escape_unseen_characters(line) for line in lines]


COMMANDS = CommandList(CommandGroup.ABOUT)


@COMMANDS.command("version", N_("the version of Hermes"), aliases=("v",))
async def tell_version(call: CommandCall) -> None:
    """Show the version of Hermes."""
    call.require_no_arguments()
    from hermes import __version__

    call.context.tell(tr("Hermes {version}", version=__version__))


@COMMANDS.command("update", N_("what would update Hermes; nothing is done"))
async def describe_update(call: CommandCall) -> None:
    """Show what would update this Hermes; nothing is done, and the network is not used."""
    call.require_no_arguments()
    import asyncio

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
        call.context.tell(tr("It is unknown how Hermes was installed; update it the same way."))
