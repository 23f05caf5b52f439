"""`/yolo`: ask nothing in this session."""

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Surface
from hermes.core.events import Level
from hermes.i18n.messages import phrase, say


async def run(call: Call) -> None:
    """Turn questions off, or on again; the one is confirmed, and shown for as long as it holds."""
    call.nothing_behind()
    desk = call.desk
    on = not desk.app.unasked(desk.actor)
    if on:
        warning = say(
            "NO QUESTIONS: until this session is closed everything that would need your yes runs without it: deleting, "
            "sending, running what was downloaded. Only what is never allowed stays refused. /yolo ends it."
        )
        desk.tell(warning, Level.WARNING)
    desk.app.yolo(desk.actor, on=on)
    if not on:
        desk.tell(say("Questions are asked again."))
    await desk.refresh()


COMMAND = Command(
    name="yolo",
    about=phrase("ask nothing in this session (refusals stand); again: ask as before"),
    group=Group.WORK,
    run=run,
    surfaces=frozenset({Surface.TERMINAL}),
    risky=True,
)
