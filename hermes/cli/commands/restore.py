"""`hermes restore`: a backup in the place of what is there."""

from hermes.admin.backup import plan_restore, resolve_backup_path, restore_backup
from hermes.cli.arguments import Parser
from hermes.cli.commands.backup import Progress
from hermes.cli.errors import complain, failed
from hermes.cli.output import agreed, print_json, size
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import moment
from hermes.i18n.messages import say, say_many
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """Show what a backup would replace, and do it after a yes."""
    parser = Parser(
        prog="hermes restore",
        description=say(
            "Put what a backup holds in the place of what the home has. The home is backed up first; no session may be "
            "open. What the backup does not hold stays as it is."
        ),
        epilog="example: hermes restore hermes-20261101-120000.zip --dry-run",
    )
    parser.add_argument("file", help=say("a backup: a path, or a name that `hermes backup list` shows"))
    parser.add_argument("--dry-run", action="store_true", help=say("only say what it would replace"))
    parser.add_argument("-y", "--yes", action="store_true", help=say("do not ask"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = parser.read(arguments)
    environ = process_environment()
    try:
        file = resolve_backup_path(environ, given.file)
        plan = plan_restore(environ, file)
        if given.dry_run:
            print_json(plan) if given.as_json else print("\n".join(_lines(plan)))
            return 0
        if not given.as_json:
            print("\n".join(_lines(plan)))
        answer = agreed(say("Restore it?"), yes=given.yes, what=say("Restoring"))
        if answer is not True:
            return 1 if answer is False else 2
        with Progress() as progress:
            done = restore_backup(environ, file, report=progress)
    except HermesError as error:
        return failed(error)
    if given.as_json:
        print_json(done)
        return 0
    print(say("Restored."))
    if done["before"]:
        print(escaped(say("What was there before is in {file}.", file=done["before"])))
    if plan["keys"]:
        complain(say("Keys were restored, too."))
    return 0


def _lines(plan: Plain) -> list[str]:
    when = moment(float(str(plan["made_at"])))
    lines = [
        say(
            "{file}: backup of {when}, made by Hermes {version}, into {home}:",
            file=plan["file"],
            when=when,
            version=plan["version"],
            home=plan["home"],
        )
    ]
    for title, key in ((say("replaced"), "replaced"), (say("added"), "added")):
        parts = plan[key]
        assert isinstance(parts, list)
        for part in parts:
            files = say_many("{n} file", "{n} files", part["files"])
            lines.append(f"  {title}: {part['name']} ({files}, {size(part['bytes'])})")
    kept = plan["kept"]
    assert isinstance(kept, list)
    if kept:
        lines.append("  " + say("stays as it is: {names}", names=", ".join(kept)))
    return [escaped(line) for line in lines]
