"""`/new` and `/clear`: start a fresh session; the previous one is kept."""

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, SlashCommand
from hermes.i18n.messages import phrase, say


async def start_session(call: CommandCall) -> None:
    """Start a fresh session, with a title if one is given."""
    actor = await call.context.open_session(None)
    if call.text:
        await call.context.app.services.store.rename_session(actor.session_id, call.text)
    call.context.tell(say("A new session: {id}.", id=actor.session_id))


async def clear_and_start(call: CommandCall) -> None:
    """Clear the screen and start a fresh session."""
    call.require_no_arguments()
    await start_session(call)
    if call.context.terminal is not None:
        call.context.terminal.clear()


COMMANDS = (
    SlashCommand(
        name="new",
        aliases=("reset",),
        about=phrase("begin a new session; the one before is kept"),
        usage=phrase("[title]"),
        group=CommandGroup.SESSION,
        run=start_session,
        opens=True,
        while_busy=False,
    ),
    SlashCommand(
        name="clear",
        about=phrase("clear the screen and begin a new session"),
        group=CommandGroup.SESSION,
        run=clear_and_start,
        opens=True,
        surfaces=TERMINAL_ONLY,
        while_busy=False,
    ),
)
