"""`/sethome`: make the chat in which it is typed the home chat of its account."""

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

COMMANDS = CommandList(CommandGroup.ABOUT)


@COMMANDS.command(
    "sethome",
    N_("send what jobs and notices of this account say to this chat"),
    aliases=("set-home",),
)
async def set_home_chat(call: CommandCall) -> None:
    """Make this chat the home chat; `hermes send` and jobs without another place go there from now on."""
    call.require_no_arguments()
    if call.context.chat is None:
        raise UsageError(N_("Only a chat on a platform can be a home chat."), N_("Type /sethome there."))
    target = await call.context.chat.set_home()
    call.context.tell(
        tr(
            "This is the home chat now ({target}): jobs and `hermes send` without another place come here.",
            target=escape_unseen_characters(target),
        )
    )
