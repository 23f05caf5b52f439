"""`hermes worktree`: list and remove the git worktrees that `-w` made."""

from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult, argument, rows_result
from hermes.core.encoding import Plain
from hermes.i18n.formats import format_time
from hermes.i18n.messages import tr, tr_plural
from hermes.markup.cells import pad_text
from hermes.util.text import escape_unseen_characters

WORKTREE = Verb(
    "worktree",
    description="`hermes -w` works in a git worktree of its own, in ~/.hermes-worktrees. What holds no changes and no "
    "commits afterwards is removed by itself; the rest is listed here.",
    example="hermes worktree remove app-1121-3fa2",
)


@WORKTREE.action("list", "every worktree and what is in it (also without a verb)", JSON_OPTION)
def list_worktrees(call: VerbCall) -> VerbResult:
    """List the worktrees."""
    from hermes.execution.worktrees import Worktrees

    return rows_result(Worktrees(call.environ).list_worktrees(), _format_worktree, tr("There is no worktree."))


@WORKTREE.action(
    "remove",
    "remove one, with its branch",
    JSON_OPTION,
    argument("name", help="the worktree"),
    argument("--force", action="store_true", help="with the changes and commits that are in it"),
)
def remove_worktree(call: VerbCall) -> VerbResult:
    """Remove a worktree with its branch."""
    from hermes.execution.worktrees import Worktrees

    row = Worktrees(call.environ).remove_worktree(call.args.name, force=call.args.force)
    said = tr("The worktree {name} and its branch {branch} are removed.", name=row["name"], branch=row["branch"])
    return VerbResult(row, [escape_unseen_characters(said)])


def _format_worktree(row: Plain) -> str:
    state = tr("in use") if row["in_use"] else ""
    what = ", ".join(
        (
            tr_plural("{n} change", "{n} changes", int(str(row["changes"]))),
            tr_plural("{n} commit", "{n} commits", int(str(row["commits"]))),
        )
    )
    tail = "  ".join(part for part in (str(row["wrong"]) or what, state) if part)
    when = pad_text(format_time(float(str(row["made_at"]))), 14)
    return escape_unseen_characters(f"{row['name']:<28} {when} {row['repository']}  {tail}")
