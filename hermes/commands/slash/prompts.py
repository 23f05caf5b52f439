"""`/init` and `/review`: prompts of Hermes' own, sent as messages."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.runtime.mailbox import InboundMessage
from hermes.util.text import to_one_line

COMMANDS = CommandList(CommandGroup.WORK)
_INIT = """Write AGENTS.md for this repository: what an agent must know to work here.
Look first: the build files, the tests and how they are run, the folders, the style, CI. Write only what you have seen \
and checked, in at most 80 lines: what the project is, how to build, test and lint (the exact commands), where what \
lies, conventions. If AGENTS.md exists, read it, keep what is true, and improve it by edits; do not replace it."""
_REVIEW = """Review {what}.
Read what surrounds each change before you judge it. Report real faults only: bugs, security, lost data, broken \
callers, missing tests. For each: file and line, what goes wrong and when, how to fix it; the worst first. Say so if \
there are none. Change no file."""
_WHAT = {
    "uncommitted": "the uncommitted changes (git diff HEAD, and new files from git status)",
    "branch": "what this branch changes since it left {base} (git diff {base}...HEAD)",
    "commit": "the commit {base} (git show {base})",
}


def _post_prompt(call: CommandCall, prompt: str) -> None:
    call.context.post_message(InboundMessage(text=prompt, cwd=call.context.app.options.cwd))


@COMMANDS.command("init", N_("have AGENTS.md written, or improved, for this folder"), usage=N_("[what matters]"))
async def write_instructions(call: CommandCall) -> None:
    """Have the model write AGENTS.md; what is typed behind the name goes along."""
    _post_prompt(call, f"{_INIT}\n\n{call.text}".rstrip())


async def complete_review(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete what can be reviewed."""
    return [
        MenuOption("uncommitted", tr("what is not committed yet")),
        MenuOption("branch", tr("what this branch changes; the branch it left, or main")),
        MenuOption("commit", tr("one commit; its name, or the newest")),
    ]


@COMMANDS.command(
    "review",
    N_("have changes reviewed; no file is changed"),
    usage=N_("[uncommitted|branch [base]|commit [name]]"),
    complete=complete_review,
)
async def review_changes(call: CommandCall) -> None:
    """Have the model review changes, chosen by words or from a menu."""
    words = call.words
    if not words:
        options = await complete_review(call)
        taken = await call.context.choose(tr("Review what?"), options)
        if taken is None:
            return
        words = [options[taken].label]
    if words[0] not in _WHAT or len(words) > 2:
        raise UsageError(N_("/review takes uncommitted, branch [base], commit [name], or nothing."))
    base = to_one_line(words[1], 80) if len(words) > 1 else "main" if words[0] == "branch" else "HEAD"
    _post_prompt(call, _REVIEW.format(what=_WHAT[words[0]].format(base=base)))
