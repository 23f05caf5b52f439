"""`/goal`: what this session works towards until it is reached."""

from collections.abc import Sequence

from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import BusyError
from hermes.i18n.messages import phrase, say, translated
from hermes.sessions.background.goals import Pursuit
from hermes.util.text import inert

_WORDS = ("show", "status", "pause", "resume", "clear")
_STATES = {"active": phrase("It is worked on"), "paused": phrase("It is paused"), "reached": phrase("It is reached")}


async def run(call: Call) -> None:
    """Set, show, pause, go on with, or forget the goal."""
    desk = call.desk
    pursuit = await desk.app.beside.pursuit(desk.actor)
    match call.text:
        case "" | "show" | "status":
            desk.tell(_standing(pursuit))
            return
        case "pause":
            await pursuit.pause(phrase("you wanted that"))
        case "clear":
            await pursuit.clear()
            desk.tell(say("There is no goal any more."))
        case "resume":
            _check_idle(call)
            await pursuit.resume()
        case text:
            _check_idle(call)
            await pursuit.set(desk.app.redact(text))
            desk.tell(say("The goal is set. Ctrl-C, /goal pause or a message of yours pauses it."))
    await desk.refresh()


def _check_idle(call: Call) -> None:
    if call.desk.actor.busy:
        raise BusyError(phrase("A turn runs in this session."), phrase("Ctrl-C or /stop ends it."))


def _standing(pursuit: Pursuit) -> str:
    row = pursuit.row
    if row is None:
        return say("There is no goal. /goal TEXT sets one.")
    state = say(_STATES[row.state])
    lines = [say("Goal: {text}", text=inert(row.text)), f"{state}, {pursuit.word}" if pursuit.word else state]
    lines += [translated(inert(row.why))] if row.why else []
    return "\n".join(lines)


async def words(_call: Call) -> Sequence[Option]:
    """The words that mean something behind `/goal`."""
    return [Option(word) for word in _WORDS]


COMMAND = Command(
    name="goal",
    about=phrase("a standing goal: it goes on turn by turn until a judge says that it is reached"),
    usage=phrase("[text|show|pause|resume|clear]"),
    group=Group.WORK,
    run=run,
    complete=words,
)
