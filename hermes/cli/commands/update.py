"""`hermes update`: show how to update, or do it.

`hermes version`: print the version.
"""

import shlex

import hermes
from hermes.admin.update import CLONE, PIP, PIPX, UNKNOWN, UV, UV_TOOL, Updater, detect_installation
from hermes.cli.output import confirm_action, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import N_, tr
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters

_KIND_NAMES = {
    CLONE: N_("a clone of the repository"),
    PIP: N_("installed by pip"),
    UV: N_("installed by uv"),
    UV_TOOL: N_("installed by uv tool"),
    PIPX: N_("installed by pipx"),
    UNKNOWN: N_("installed in an unknown way"),
}


def run(arguments: list[str]) -> int:
    """Show the installation, and update it after a yes."""
    parser = CommandParser(
        prog="hermes update",
        description=tr(
            "Say how this Hermes was installed and what would update it; after a yes do that. The home is backed up "
            "first, the new version is tried out, and when it does not work the old one is put back. Nothing is ever "
            "updated without you."
        ),
        epilog="example: hermes update --check",
    )
    parser.add_argument("--check", action="store_true", help=tr("only ask whether there is something newer"))
    parser.add_argument("-y", "--yes", action="store_true", help=tr("do not ask"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    updater = Updater(detect_installation(), copy_environment())
    try:
        row = updater.describe_installation()
        if not args.as_json:
            print("\n".join(escape_unseen_characters(line) for line in _format_installation(row)))
        if args.check:
            return _report_check(updater.check_for_update(), as_json=args.as_json)
        answer = confirm_action(tr("Update now?"), yes=args.yes, what=tr("Updating"))
        if answer is not True:
            return 1 if answer is False else 2
        done = updater.update_installation()
    except HermesError as error:
        return report_failure(error)
    if args.as_json:
        print_json(done)
    elif not done["updated"]:
        print(tr("There is nothing newer."))
    else:
        print(
            escape_unseen_characters(
                tr("Hermes is at version {new} now; it was {old}.", new=done["now"], old=done["version"])
            )
        )
    return 0


def _format_installation(row: Plain) -> list[str]:
    command = row["command"]
    assert isinstance(command, list)
    lines = [
        tr(
            "Hermes {version}, {how}, in {folder}.",
            version=row["version"],
            how=tr(_KIND_NAMES[str(row["kind"])]),
            folder=row["root"],
        )
    ]
    if command:
        lines.append(tr("What updates it: {command}", command=shlex.join(command)))
    return lines


def _report_check(row: Plain, *, as_json: bool) -> int:
    if as_json:
        print_json(row)
    elif row["newer"]:
        print(escape_unseen_characters(tr("There is something newer: {what}.", what=row["newer"])))
    else:
        print(tr("There is nothing newer."))
    return 0


def run_version(arguments: list[str]) -> int:
    """Print the version."""
    parser = CommandParser(
        prog="hermes version", description="Show the version.", epilog="example: hermes version --json"
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    args = parser.parse_arguments(arguments)
    if args.as_json:
        import json
        import platform

        print(json.dumps({"version": hermes.__version__, "python": platform.python_version()}))
    else:
        print(f"hermes {hermes.__version__}")
    return 0
