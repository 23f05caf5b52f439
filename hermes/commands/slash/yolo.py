"""`/yolo`: approve everything in this session without asking."""

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import Surface
from hermes.core.events import Level
from hermes.i18n.messages import phrase, say


async def toggle_yolo(call: CommandCall) -> None:
    """Turn approvals off after a warning, or on again."""
    call.require_no_arguments()
    context = call.context
    on = not context.app.is_yolo(context.actor)
    if on:
        warning = say(
            "NO QUESTIONS: until this session is closed everything that would need your yes runs without it: deleting, "
            "sending, running what was downloaded. Only what is never allowed stays refused. /yolo ends it."
        )
        context.tell(warning, Level.WARNING)
    context.app.set_yolo(context.actor, on=on)
    if not on:
        context.tell(say("Questions are asked again."))
    await context.refresh_view()


COMMAND = SlashCommand(
    name="yolo",
    about=phrase("ask nothing in this session (refusals stand); again: ask as before"),
    group=CommandGroup.WORK,
    run=toggle_yolo,
    surfaces=frozenset({Surface.TERMINAL}),
    risky=True,
)
