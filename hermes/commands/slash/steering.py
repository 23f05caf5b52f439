"""`/stop`, `/queue`, `/steer`, `/interrupt`, `/busy`: control while it works."""

from collections.abc import Sequence

from msgspec import structs

from hermes.commands.command import HERE_ONLY, Call, Command, Group
from hermes.commands.context import Delivery, Option
from hermes.config.display import BusyMode
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say
from hermes.runtime.mailbox import Inbound
from hermes.util.text import inert


async def stop(call: Call) -> None:
    """Stop the running turn; without one, or with `all`, the background processes too."""
    if call.text not in ("", "all"):
        raise UsageError(phrase("/stop, or /stop all: there is no other word for it."))
    pursuit = call.desk.app.beside.pursuing(call.desk.actor)
    stopped = pursuit.stop() if pursuit is not None else call.desk.actor.stop()
    if stopped and not call.text:
        return
    for line in await call.desk.app.live(call.desk.actor).tools.stop_processes() or [
        say("No background process runs.")
    ]:
        call.desk.tell(inert(line))


async def _send(call: Call, delivery: Delivery) -> None:
    if not call.text:
        raise UsageError(phrase("Say what: /{name} message", name=call.name))
    call.desk.post(Inbound(text=call.text, cwd=call.desk.app.options.cwd), delivery)


async def queue(call: Call) -> None:
    """Let a message wait for a turn of its own."""
    await _send(call, Delivery.QUEUE)


async def steer(call: Call) -> None:
    """Let a message join the running turn when its next tools are done."""
    await _send(call, Delivery.STEER)


async def interrupt(call: Call) -> None:
    """Stop the running turn and answer this next."""
    await _send(call, Delivery.INTERRUPT)


_MODES = {
    BusyMode.STEER: phrase("it joins the turn when its next tools are done"),
    BusyMode.QUEUE: phrase("it waits for a turn of its own"),
    BusyMode.INTERRUPT: phrase("the turn is stopped, and it is answered next"),
}


async def busy(call: Call) -> None:
    """Show or choose what Enter does while a turn runs."""
    terminal = call.desk.terminal
    assert terminal is not None
    if call.text in tuple(BusyMode):
        terminal.set_display(structs.replace(terminal.display, busy_input_mode=BusyMode(call.text)))
    elif call.text not in ("", "status"):
        raise UsageError(phrase("There is no mode {name!r}.", name=call.text), phrase("steer, queue or interrupt"))
    mode = terminal.display.busy_input_mode
    call.desk.tell(say("While a turn runs Enter means {mode}: {what}.", mode=mode.value, what=say(_MODES[mode])))


async def complete_busy(_call: Call) -> Sequence[Option]:
    """The three modes."""
    return [Option(mode.value, say(what)) for mode, what in _MODES.items()]


async def complete_stop(_call: Call) -> Sequence[Option]:
    """Its one word."""
    return [Option("all", say("the background processes, too"))]


COMMANDS = (
    Command(
        name="stop",
        about=phrase("stop the turn; with `all`, or when none runs, the background processes too"),
        usage=phrase("[all]"),
        group=Group.WORK,
        run=stop,
        complete=complete_stop,
    ),
    Command(
        name="steer",
        about=phrase("let a message join the running turn at its next step"),
        usage=phrase("message"),
        group=Group.WORK,
        run=steer,
    ),
    Command(
        name="queue",
        aliases=("q",),
        about=phrase("let a message wait for a turn of its own"),
        usage=phrase("message"),
        group=Group.WORK,
        run=queue,
    ),
    Command(
        name="interrupt",
        about=phrase("stop the turn and answer this message next"),
        usage=phrase("message"),
        group=Group.WORK,
        run=interrupt,
    ),
    Command(
        name="busy",
        about=phrase("what Enter does while a turn runs"),
        usage=phrase("[steer|queue|interrupt]"),
        group=Group.WORK,
        run=busy,
        complete=complete_busy,
        surfaces=HERE_ONLY,
    ),
)
