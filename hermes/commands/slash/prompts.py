"""`/init` and `/review`: prompts of Hermes' own, sent as messages."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.own_prompts import REVIEWED, build_init_prompt, build_review_prompt
from hermes.util.text import to_one_line

COMMANDS = CommandList(CommandGroup.WORK)


def _post_prompt(call: CommandCall, prompt: str) -> None:
    call.context.post_message(InboundMessage(text=prompt, cwd=call.context.app.options.cwd))


@COMMANDS.command("init", N_("have AGENTS.md written, or improved, for this folder"), usage=N_("[what matters]"))
async def write_instructions(call: CommandCall) -> None:
    """Have the model write AGENTS.md; what is typed behind the name goes along."""
    _post_prompt(call, build_init_prompt(call.text))


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
    if words[0] not in REVIEWED or len(words) > 2:
        raise UsageError(N_("/review takes uncommitted, branch [base], commit [name], or nothing."))
    _post_prompt(call, build_review_prompt(words[0], to_one_line(words[1], 80) if len(words) > 1 else ""))
