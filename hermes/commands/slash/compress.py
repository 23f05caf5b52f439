"""`/compress`: compress the conversation now, or restore what was compressed."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say


async def compress_conversation(call: CommandCall) -> None:
    """Compress the conversation; the result, or why nothing was done, comes as a notice."""
    if call.text not in ("", "--undo", "undo"):
        raise UsageError(phrase("/compress takes `--undo` or nothing."))
    undo = bool(call.text)
    done = await call.context.actor.condense(undo=undo)
    if undo:
        told = say("It stands here again as it was.") if done else say("There is nothing that could be put back.")
        call.context.tell(told)


async def complete_compress(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only option."""
    return [MenuOption("--undo", say("put back what was condensed last"))]


COMMAND = SlashCommand(
    name="compress",
    aliases=("compact",),
    about=phrase("condense the older part of this conversation; `--undo` puts it back"),
    usage=phrase("[--undo]"),
    group=CommandGroup.SESSION,
    run=compress_conversation,
    complete=complete_compress,
    while_busy=False,
)
