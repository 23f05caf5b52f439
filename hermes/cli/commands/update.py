"""`hermes update`: say how to update, or do it."""

import shlex

from hermes.admin.update import CLONE, PIP, PIPX, UNKNOWN, UV, UV_TOOL, Updater, detect_installation
from hermes.cli.arguments import Parser
from hermes.cli.errors import failed
from hermes.cli.output import agreed, print_json
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.messages import phrase, say
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped

_KINDS = {
    CLONE: phrase("a clone of the repository"),
    PIP: phrase("installed by pip"),
    UV: phrase("installed by uv"),
    UV_TOOL: phrase("installed by uv tool"),
    PIPX: phrase("installed by pipx"),
    UNKNOWN: phrase("installed in a way that nobody knows"),
}


def run(arguments: list[str]) -> int:
    """Say what there is, and after a yes update."""
    parser = Parser(
        prog="hermes update",
        description=say(
            "Say how this Hermes was installed and what would update it; after a yes do that. The home is backed up "
            "first, the new version is tried out, and when it does not work the old one is put back. Nothing is ever "
            "updated without you."
        ),
        epilog="example: hermes update --check",
    )
    parser.add_argument("--check", action="store_true", help=say("only ask whether there is something newer"))
    parser.add_argument("-y", "--yes", action="store_true", help=say("do not ask"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = parser.read(arguments)
    updater = Updater(detect_installation(), process_environment())
    try:
        row = updater.describe_installation()
        if not given.as_json:
            print("\n".join(escaped(line) for line in _about(row)))
        if given.check:
            return _checked(updater.check_for_update(), as_json=given.as_json)
        answer = agreed(say("Update now?"), yes=given.yes, what=say("Updating"))
        if answer is not True:
            return 1 if answer is False else 2
        done = updater.update_installation()
    except HermesError as error:
        return failed(error)
    if given.as_json:
        print_json(done)
    elif not done["updated"]:
        print(say("There is nothing newer."))
    else:
        print(escaped(say("Hermes is at version {new} now; it was {old}.", new=done["now"], old=done["version"])))
    return 0


def _about(row: Plain) -> list[str]:
    command = row["command"]
    assert isinstance(command, list)
    lines = [
        say(
            "Hermes {version}, {how}, in {folder}.",
            version=row["version"],
            how=say(_KINDS[str(row["kind"])]),
            folder=row["root"],
        )
    ]
    if command:
        lines.append(say("What updates it: {command}", command=shlex.join(command)))
    return lines


def _checked(row: Plain, *, as_json: bool) -> int:
    if as_json:
        print_json(row)
    elif row["newer"]:
        print(escaped(say("There is something newer: {what}.", what=row["newer"])))
    else:
        print(say("There is nothing newer."))
    return 0
