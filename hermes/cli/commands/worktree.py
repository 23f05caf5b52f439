"""`hermes worktree`: list and remove the git worktrees that `-w` made."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from hermes.admin.worktrees import Worktrees
from hermes.cli.output import print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_time
from hermes.i18n.messages import tr, tr_plural
from hermes.markup.cells import pad_text
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import escape_unseen_characters


def run(arguments: list[str]) -> int:
    """List the worktrees, or remove one."""
    parser = CommandParser(
        prog="hermes worktree",
        description=tr(
            "`hermes -w` works in a git worktree of its own, in ~/.hermes-worktrees. What holds no changes and no "
            "commits afterwards is removed by itself; the rest is listed here."
        ),
        epilog="example: hermes worktree remove app-1121-3fa2",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    listing = verbs.add_parser("list", help=tr("every worktree and what is in it (also without a verb)"))
    remove = verbs.add_parser("remove", help=tr("remove one, with its branch"))
    for verb in (listing, remove):
        verb.add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    remove.add_argument("name", help=tr("the worktree"))
    remove.add_argument("--force", action="store_true", help=tr("with the changes and commits that are in it"))
    args = parser.parse_arguments(arguments)
    try:
        worktrees = Worktrees(copy_environment())
        if args.verb == "remove":
            row = worktrees.remove_worktree(args.name, force=args.force)
            said = tr(
                "The worktree {name} and its branch {branch} are removed.", name=row["name"], branch=row["branch"]
            )
            print_json(row) if args.as_json else print(escape_unseen_characters(said))
            return 0
        rows = worktrees.list_worktrees()
    except HermesError as error:
        return report_failure(error)
    if getattr(args, "as_json", False):
        print_json(rows)
        return 0
    for row in rows:
        print(escape_unseen_characters(_format_worktree(row)))
    if not rows:
        print(tr("There is no worktree."))
    return 0


def run_in_worktree(args: argparse.Namespace, environ: Mapping[str, str], work: Callable[[], int]) -> int:
    """Run the work of a command line with `-w` in a git worktree, and print afterwards what became of the worktree.

    The process stands in the worktree from then on; files that were given as relative paths are found all the same.
    """
    args.image = [os.path.abspath(name) for name in args.image]
    args.usage_file = args.usage_file and os.path.abspath(args.usage_file)
    lines: list[str] = []
    try:
        with Worktrees(environ).open_worktree(Path.cwd(), args.worktree) as (made, lines):
            print_error(tr("Working in {folder}, on the branch {branch}.", folder=made.folder, branch=made.branch))
            os.chdir(made.folder)
            return work()
    finally:
        for line in lines:
            print_error(line)


def _format_worktree(row: Plain) -> str:
    state = tr("in use") if row["in_use"] else ""
    what = ", ".join(
        (
            tr_plural("{n} change", "{n} changes", int(str(row["changes"]))),
            tr_plural("{n} commit", "{n} commits", int(str(row["commits"]))),
        )
    )
    tail = "  ".join(part for part in (str(row["wrong"]) or what, state) if part)
    return f"{row['name']:<28} {pad_text(format_time(float(str(row['made_at']))), 14)} {row['repository']}  {tail}"
