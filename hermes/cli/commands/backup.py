"""`hermes backup`: put the home into one file, or list the backups."""

import argparse
import sys
from pathlib import Path

from hermes.admin.backup import create_backup, list_backups
from hermes.cli.errors import print_error, report_failure
from hermes.cli.output import format_bytes, print_json
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_time
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
