"""`/new` and `/clear`: a fresh session; the one before is kept."""

from hermes.commands.command import HERE_ONLY, Call, Command, Group
from hermes.i18n.messages import phrase, say


async def begin(call: Call) -> None:
    """A fresh session, with the title that stands behind the name, if any."""
    actor = await call.desk.open(None)
    if call.text:
        await call.desk.app.premises.store.rename_session(actor.session_id, call.text)
    call.desk.tell(say("A new session: {id}.", id=actor.session_id))


async def clear(call: Call) -> None:
    """The same on an empty screen."""
    call.nothing_behind()
    await begin(call)
    if call.desk.terminal is not None:
        call.desk.terminal.clear()


COMMANDS = (
    Command(
        name="new",
        aliases=("reset",),
        about=phrase("begin a new session; the one before is kept"),
        usage=phrase("[title]"),
        group=Group.SESSION,
        run=begin,
        opens=True,
        while_busy=False,
    ),
    Command(
        name="clear",
        about=phrase("clear the screen and begin a new session"),
        group=Group.SESSION,
        run=clear,
        opens=True,
        surfaces=HERE_ONLY,
        while_busy=False,
    ),
)
