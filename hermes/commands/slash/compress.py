"""`/compress`: make the conversation shorter now, or put back what was condensed."""

from collections.abc import Sequence

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say


async def run(call: Call) -> None:
    """What was condensed, or why nothing was, comes as a notice."""
    if call.text not in ("", "--undo", "undo"):
        raise UsageError(phrase("/compress takes `--undo` or nothing."))
    undo = bool(call.text)
    done = await call.desk.actor.condense(undo=undo)
    if undo:
        told = say("It stands here again as it was.") if done else say("There is nothing that could be put back.")
        call.desk.tell(told)


async def complete(_call: Call) -> Sequence[Option]:
    """Its one option."""
    return [Option("--undo", say("put back what was condensed last"))]


COMMAND = Command(
    name="compress",
    aliases=("compact",),
    about=phrase("condense the older part of this conversation; `--undo` puts it back"),
    usage=phrase("[--undo]"),
    group=Group.SESSION,
    run=run,
    complete=complete,
    while_busy=False,
)
