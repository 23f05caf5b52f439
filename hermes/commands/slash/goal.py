"""`/goal`: set and control the goal that this session pursues until it is reached."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import BusyError
from hermes.i18n.messages import phrase, say, translated
from hermes.sessions.background.goals import GoalPursuit
from hermes.util.text import inert

_SUBCOMMANDS = ("show", "status", "pause", "resume", "clear")
_STATE_TEXTS = {
    "active": phrase("It is worked on"),
    "paused": phrase("It is paused"),
    "reached": phrase("It is reached"),
}


async def manage_goal(call: CommandCall) -> None:
    """Set, show, pause, resume, or clear the goal."""
    context = call.context
    pursuit = await context.app.background_work.open_pursuit(context.actor)
    match call.text:
        case "" | "show" | "status":
            context.tell(_describe_goal(pursuit))
            return
        case "pause":
            await pursuit.pause(phrase("you wanted that"))
        case "clear":
            await pursuit.clear()
            context.tell(say("There is no goal any more."))
        case "resume":
            _require_idle(call)
            await pursuit.resume()
        case text:
            _require_idle(call)
            await pursuit.set_goal(context.app.redact_text(text))
            context.tell(say("The goal is set. Ctrl-C, /goal pause or a message of yours pauses it."))
    await context.refresh_view()


def _require_idle(call: CommandCall) -> None:
    if call.context.actor.busy:
        raise BusyError(phrase("A turn runs in this session."), phrase("Ctrl-C or /stop ends it."))


def _describe_goal(pursuit: GoalPursuit) -> str:
    row = pursuit.row
    if row is None:
        return say("There is no goal. /goal TEXT sets one.")
    state = say(_STATE_TEXTS[row.state])
    lines = [say("Goal: {text}", text=inert(row.text)), f"{state}, {pursuit.word}" if pursuit.word else state]
    lines += [translated(inert(row.why))] if row.why else []
    return "\n".join(lines)


async def complete_goal(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the subcommands of `/goal`."""
    return [MenuOption(word) for word in _SUBCOMMANDS]


COMMAND = SlashCommand(
    name="goal",
    about=phrase("a standing goal: it goes on turn by turn until a judge says that it is reached"),
    usage=phrase("[text|show|pause|resume|clear]"),
    group=CommandGroup.WORK,
    run=manage_goal,
    complete=complete_goal,
)
