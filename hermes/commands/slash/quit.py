"""`/quit`: leave the chat."""

from collections.abc import Sequence

from hermes.commands.command import HERE_ONLY, Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say


async def run(call: Call) -> None:
    """Leave; with `--delete` the session goes, too, once that is confirmed."""
    if call.text not in ("", "--delete"):
        raise UsageError(phrase("/quit takes `--delete` or nothing."))
    if not call.text:
        call.desk.leave()
    elif await call.desk.confirm(say("Delete this session and every word of it?")):
        call.desk.leave(delete=True)


async def complete(_call: Call) -> Sequence[Option]:
    """Its one option."""
    return [Option("--delete", say("delete the session, too"))]


COMMAND = Command(
    name="quit",
    aliases=("exit",),
    about=phrase("leave, as Ctrl-D does"),
    usage=phrase("[--delete]"),
    group=Group.SESSION,
    run=run,
    complete=complete,
    surfaces=HERE_ONLY,
)
