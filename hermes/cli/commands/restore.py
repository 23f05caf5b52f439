"""`hermes restore`: replace the home's data by a backup's."""

from hermes.admin.backup import plan_restore, resolve_backup_path, restore_backup
from hermes.cli.commands.backup import ProgressLine
from hermes.cli.errors import print_error, report_failure
from hermes.cli.output import confirm_action, format_bytes, print_json
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_time
from hermes.i18n.messages import tr, tr_plural
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters


def run(arguments: list[str]) -> int:
    """Show what a backup would replace, and do it after a yes."""
    parser = CommandParser(
        prog="hermes restore",
        description=tr(
            "Put what a backup holds in the place of what the home has. The home is backed up first; no session may be "
            "open. What the backup does not hold stays as it is."
        ),
        epilog="example: hermes restore hermes-20261101-120000.zip --dry-run",
    )
    parser.add_argument("file", help=tr("a backup: a path, or a name that `hermes backup list` shows"))
    parser.add_argument("--dry-run", action="store_true", help=tr("only say what it would replace"))
    parser.add_argument("-y", "--yes", action="store_true", help=tr("do not ask"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    environ = copy_environment()
    try:
        file = resolve_backup_path(environ, args.file)
        plan = plan_restore(environ, file)
        if args.dry_run:
            print_json(plan) if args.as_json else print("\n".join(_format_plan(plan)))
            return 0
        if not args.as_json:
            print("\n".join(_format_plan(plan)))
        answer = confirm_action(tr("Restore it?"), yes=args.yes, what=tr("Restoring"))
        if answer is not True:
            return 1 if answer is False else 2
        with ProgressLine() as progress:
            done = restore_backup(environ, file, report=progress)
    except HermesError as error:
        return report_failure(error)
    if args.as_json:
        print_json(done)
        return 0
    print(tr("Restored."))
    if done["before"]:
        print(escape_unseen_characters(tr("What was there before is in {file}.", file=done["before"])))
    if plan["keys"]:
        print_error(tr("Keys were restored, too."))
    return 0


def _format_plan(plan: Plain) -> list[str]:
    when = format_time(float(str(plan["made_at"])))
    lines = [
        tr(
            "{file}: backup of {when}, made by Hermes {version}, into {home}:",
            file=plan["file"],
            when=when,
            version=plan["version"],
            home=plan["home"],
        )
    ]
    for title, key in ((tr("replaced"), "replaced"), (tr("added"), "added")):
        parts = plan[key]
        assert isinstance(parts, list)
        for part in parts:
            files = tr_plural("{n} file", "{n} files", part["files"])
            lines.append(f"  {title}: {part['name']} ({files}, {format_bytes(part['bytes'])})")
    unchanged = plan["kept"]
    assert isinstance(unchanged, list)
    if unchanged:
        lines.append("  " + tr("stays as it is: {names}", names=", ".join(unchanged)))
    return [escape_unseen_characters(line) for line in lines]
