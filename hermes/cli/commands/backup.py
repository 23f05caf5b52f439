"""`hermes backup`: the home in one file."""

import argparse
import sys
from pathlib import Path

from hermes.admin.backup import create_backup, list_backups
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.output import print_json, size
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import moment
from hermes.i18n.messages import say, say_many
from hermes.markup.charts import pad_right
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """Make a backup, or list those there are."""
    parser = Parser(
        prog="hermes backup",
        description=say(
            "Put the home into one file: the database, settings, keys, skills and memories; not caches and logs. "
            "Sessions may be open meanwhile. `hermes backup list` shows those in the folder `backups`."
        ),
        epilog="example: hermes backup ~/hermes.zip",
    )
    parser.add_argument("file", nargs="?", default="", help=say("a new file (default: one in the folder `backups`)"))
    parser.add_argument("--quick", action="store_true", help=say("without skills, large results and trajectories"))
    parser.add_argument("--no-keys", action="store_true", help=say("without .env and auth.json"))
    parser.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    given = parser.read(arguments)
    try:
        if given.file == "list":
            return _list(as_json=given.as_json)
        return _make(given)
    except HermesError as error:
        return failed(error)


class Progress:
    """One line on standard error that is written over, where somebody can see it."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        """Show what is being done now."""
        if self._seen:
            sys.stderr.write(f"\r\x1b[K{escaped(text)}…")
            sys.stderr.flush()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._seen:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _make(given: argparse.Namespace) -> int:
    target = Path(given.file).expanduser() if given.file else None
    with Progress() as progress:
        made = create_backup(process_environment(), target, quick=given.quick, keys=not given.no_keys, report=progress)
    if given.as_json:
        print_json(made)
        return 0
    files = say_many("{n} file", "{n} files", int(str(made["files"])))
    print(escaped(f"{made['file']}  {size(int(str(made['bytes'])))}, {files}"))
    keys, left_out = made["keys"], made["left_out"]
    assert isinstance(keys, list) and isinstance(left_out, list)
    if keys:
        complain(say("Keys are in it ({files}): keep it as you keep them.", files=", ".join(keys)))
    if left_out:
        complain(say("Not in it: {names}.", names=", ".join(left_out[:20])))
    return 0


def _list(*, as_json: bool) -> int:
    rows = list_backups(process_environment())
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        print(escaped(_line(row)))
    if not rows:
        print(say("There is no backup yet. `hermes backup` makes one."))
    return 0


def _line(row: Plain) -> str:
    marks = [
        *([say("automatic")] if row["automatic"] else []),
        *([say("quick")] if row.get("quick") else []),
        *([say("with keys")] if row.get("keys") else []),
        *([str(row["wrong"])] if row["wrong"] else []),
    ]
    when = moment(float(str(row["made_at"])))
    return f"{row['name']:<36} {pad_right(when, 14)} {size(int(str(row['bytes']))):>8}  {', '.join(marks)}".rstrip()
