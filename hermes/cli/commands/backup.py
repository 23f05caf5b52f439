"""`hermes backup`: put the home into one file, or list the backups.

`hermes restore`: replace the home's data by a backup's.
"""

import argparse
import sys
from pathlib import Path

from hermes.admin.backup import create_backup, list_backups, plan_restore, resolve_backup_path, restore_backup
from hermes.cli.output import confirm_action, print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_bytes, format_time
from hermes.i18n.messages import tr, tr_plural
from hermes.markup.charts import pad_right
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters


def run(arguments: list[str]) -> int:
    """Make a backup, or list the backups."""
    parser = CommandParser(
        prog="hermes backup",
        description=tr(
            "Put the home into one file: the database, settings, keys, skills and memories; not caches and logs. "
            "Sessions may be open meanwhile. `hermes backup list` shows those in the folder `backups`."
        ),
        epilog="example: hermes backup ~/hermes.zip",
    )
    parser.add_argument("file", nargs="?", default="", help=tr("a new file (default: one in the folder `backups`)"))
    parser.add_argument("--quick", action="store_true", help=tr("without skills, large results and trajectories"))
    parser.add_argument("--no-keys", action="store_true", help=tr("without .env and auth.json"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    args = parser.parse_arguments(arguments)
    try:
        if args.file == "list":
            return _print_backups(as_json=args.as_json)
        return _make_backup(args)
    except HermesError as error:
        return report_failure(error)


class ProgressLine:
    """One line on standard error that is overwritten, on a terminal only."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        """Show the current step."""
        if self._seen:
            sys.stderr.write(f"\r\x1b[K{escape_unseen_characters(text)}…")
            sys.stderr.flush()

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        if self._seen:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _make_backup(args: argparse.Namespace) -> int:
    target = Path(args.file).expanduser() if args.file else None
    with ProgressLine() as progress:
        made = create_backup(copy_environment(), target, quick=args.quick, keys=not args.no_keys, report=progress)
    if args.as_json:
        print_json(made)
        return 0
    files = tr_plural("{n} file", "{n} files", int(str(made["files"])))
    print(escape_unseen_characters(f"{made['file']}  {format_bytes(int(str(made['bytes'])))}, {files}"))
    keys, left_out = made["keys"], made["left_out"]
    assert isinstance(keys, list) and isinstance(left_out, list)
    if keys:
        print_error(tr("Keys are in it ({files}): keep it as you keep them.", files=", ".join(keys)))
    if left_out:
        print_error(tr("Not in it: {names}.", names=", ".join(left_out[:20])))
    return 0


def _print_backups(*, as_json: bool) -> int:
    rows = list_backups(copy_environment())
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        print(escape_unseen_characters(_format_backup(row)))
    if not rows:
        print(tr("There is no backup yet. `hermes backup` makes one."))
    return 0


def _format_backup(row: Plain) -> str:
    marks = [
        *([tr("automatic")] if row["automatic"] else []),
        *([tr("quick")] if row.get("quick") else []),
        *([tr("with keys")] if row.get("keys") else []),
        *([str(row["wrong"])] if row["wrong"] else []),
    ]
    when = format_time(float(str(row["made_at"])))
    return (
        f"{row['name']:<36} {pad_right(when, 14)} {format_bytes(int(str(row['bytes']))):>8}  {', '.join(marks)}"
    ).rstrip()


def run_restore(arguments: list[str]) -> int:
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
