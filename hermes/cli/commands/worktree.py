"""`hermes worktree`: the git worktrees that `-w` made."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.admin.worktrees import Worktrees
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.output import print_json
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import moment
from hermes.i18n.messages import say, say_many
from hermes.markup.charts import pad_right
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """List the worktrees, or remove one."""
    parser = Parser(
        prog="hermes worktree",
        description=say(
            "`hermes -w` works in a git worktree of its own, in ~/.hermes-worktrees. What holds no changes and no "
            "commits afterwards is removed by itself; the rest is listed here."
        ),
        epilog="example: hermes worktree remove app-1121-3fa2",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help=say("every worktree and what is in it (also without a verb)"))
    remove = verbs.add_parser("remove", help=say("remove one, with its branch"))
    for verb in (listing, remove):
        verb.add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    remove.add_argument("name", help=say("the worktree"))
    remove.add_argument("--force", action="store_true", help=say("with the changes and commits that are in it"))
    given = parser.read(arguments)
    try:
        desk = Worktrees(process_environment())
        if given.verb == "remove":
            row = desk.remove_worktree(given.name, force=given.force)
            said = say(
                "The worktree {name} and its branch {branch} are removed.", name=row["name"], branch=row["branch"]
            )
            print_json(row) if given.as_json else print(escaped(said))
            return 0
        rows = desk.list_worktrees()
    except HermesError as error:
        return failed(error)
    if getattr(given, "as_json", False):
        print_json(rows)
        return 0
    for row in rows:
        print(escaped(_line(row)))
    if not rows:
        print(say("There is no worktree."))
    return 0


def inside(given: argparse.Namespace, environ: Mapping[str, str], work: Callable[[], int]) -> int:
    """Do the work of a command line with `-w` in a git worktree; what becomes of that is said afterwards.

    The process stands in the worktree from then on; files that were named by the way to them are found all the same.
    """
    given.image = [os.path.abspath(name) for name in given.image]
    given.usage_file = given.usage_file and os.path.abspath(given.usage_file)
    lines: list[str] = []
    try:
        with Worktrees(environ).open_worktree(Path.cwd(), given.worktree) as (made, lines):
            complain(say("Working in {folder}, on the branch {branch}.", folder=made.folder, branch=made.branch))
            os.chdir(made.folder)
            return work()
    finally:
        for line in lines:
            complain(line)


def _line(row: Plain) -> str:
    state = say("in use") if row["in_use"] else ""
    what = ", ".join(
        (
            say_many("{n} change", "{n} changes", int(str(row["changes"]))),
            say_many("{n} commit", "{n} commits", int(str(row["commits"]))),
        )
    )
    tail = "  ".join(part for part in (str(row["wrong"]) or what, state) if part)
    return f"{row['name']:<28} {pad_right(moment(float(str(row['made_at']))), 14)} {row['repository']}  {tail}"
