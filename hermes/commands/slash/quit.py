"""`/quit`: leave the chat."""

from collections.abc import Sequence

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say


async def quit_chat(call: CommandCall) -> None:
    """Leave the chat; with `--delete` delete the session, too, once that is confirmed."""
    if call.text not in ("", "--delete"):
        raise UsageError(phrase("/quit takes `--delete` or nothing."))
    if not call.text:
        call.context.leave_chat()
    elif await call.context.confirm(say("Delete this session and every word of it?")):
        call.context.leave_chat(delete=True)


async def complete_quit(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only option."""
    return [MenuOption("--delete", say("delete the session, too"))]


COMMAND = SlashCommand(
    name="quit",
    aliases=("exit",),
    about=phrase("leave, as Ctrl-D does"),
    usage=phrase("[--delete]"),
    group=CommandGroup.SESSION,
    run=quit_chat,
    complete=complete_quit,
    surfaces=TERMINAL_ONLY,
)
