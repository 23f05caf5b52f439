"""`/stop`, `/queue`, `/steer`, `/interrupt`, `/busy`: control a running turn.

`/compress`: compress the conversation now, or restore what was compressed.
"""

from collections.abc import Sequence

from msgspec import structs

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption, PostMode
from hermes.config.display import BusyMode
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr
from hermes.runtime.mailbox import InboundMessage
from hermes.util.text import strip_control_characters


async def stop_turn(call: CommandCall) -> None:
    """Stop the running turn; without one, or with `all`, stop the background processes too."""
    if call.text not in ("", "all"):
        raise UsageError(N_("/stop, or /stop all: there is no other word for it."))
    pursuit = call.context.app.background_work.find_pursuit(call.context.actor)
    stopped = pursuit.stop() if pursuit is not None else call.context.actor.stop()
    if stopped and not call.text:
        return
    for line in await call.context.app.live_session(call.context.actor).tools.stop_processes() or [
        tr("No background process runs.")
    ]:
        call.context.tell(strip_control_characters(line))


async def _post_message(call: CommandCall, delivery: PostMode) -> None:
    if not call.text:
        raise UsageError(N_("Say what: /{name} message", name=call.name))
    call.context.post_message(InboundMessage(text=call.text, cwd=call.context.app.options.cwd), delivery)


async def queue_message(call: CommandCall) -> None:
    """Queue a message for a turn of its own."""
    await _post_message(call, PostMode.QUEUE)


async def steer_turn(call: CommandCall) -> None:
    """Add a message to the running turn when its next tools are done."""
    await _post_message(call, PostMode.STEER)


async def interrupt_turn(call: CommandCall) -> None:
    """Stop the running turn and answer this message next."""
    await _post_message(call, PostMode.INTERRUPT)


_MODE_TEXTS = {
    BusyMode.STEER: N_("it joins the turn when its next tools are done"),
    BusyMode.QUEUE: N_("it waits for a turn of its own"),
    BusyMode.INTERRUPT: N_("the turn is stopped, and it is answered next"),
}


async def choose_busy_mode(call: CommandCall) -> None:
    """Show or choose what Enter does while a turn runs."""
    terminal = call.context.terminal
    assert terminal is not None
    if call.text in tuple(BusyMode):
        terminal.set_display(structs.replace(terminal.display, busy_input_mode=BusyMode(call.text)))
    elif call.text not in ("", "status"):
        raise UsageError(N_("There is no mode {name!r}.", name=call.text), N_("steer, queue or interrupt"))
    mode = terminal.display.busy_input_mode
    call.context.tell(tr("While a turn runs Enter means {mode}: {what}.", mode=mode.value, what=tr(_MODE_TEXTS[mode])))


async def complete_busy(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the three modes."""
    return [MenuOption(mode.value, tr(what)) for mode, what in _MODE_TEXTS.items()]


async def complete_stop(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only word."""
    return [MenuOption("all", tr("the background processes, too"))]


_TURN_CONTROL_COMMANDS = (
    SlashCommand(
        name="stop",
        about=N_("stop the turn; with `all`, or when none runs, the background processes too"),
        usage=N_("[all]"),
        group=CommandGroup.WORK,
        run=stop_turn,
        complete=complete_stop,
    ),
    SlashCommand(
        name="steer",
        about=N_("let a message join the running turn at its next step"),
        usage=N_("message"),
        group=CommandGroup.WORK,
        run=steer_turn,
    ),
    SlashCommand(
        name="queue",
        aliases=("q",),
        about=N_("let a message wait for a turn of its own"),
        usage=N_("message"),
        group=CommandGroup.WORK,
        run=queue_message,
    ),
    SlashCommand(
        name="interrupt",
        about=N_("stop the turn and answer this message next"),
        usage=N_("message"),
        group=CommandGroup.WORK,
        run=interrupt_turn,
    ),
    SlashCommand(
        name="busy",
        about=N_("what Enter does while a turn runs"),
        usage=N_("[steer|queue|interrupt]"),
        group=CommandGroup.WORK,
        run=choose_busy_mode,
        complete=complete_busy,
        surfaces=TERMINAL_ONLY,
    ),
)


async def compress_conversation(call: CommandCall) -> None:
    """Compress the conversation; the result, or why nothing was done, comes as a notice."""
    if call.text not in ("", "--undo", "undo"):
        raise UsageError(N_("/compress takes `--undo` or nothing."))
    undo = bool(call.text)
    done = await call.context.actor.compress(undo=undo)
    if undo:
        told = tr("It is restored as it was.") if done else tr("There is nothing to restore.")
        call.context.tell(told)


async def complete_compress(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only option."""
    return [MenuOption("--undo", tr("restore what was condensed last"))]


_COMPRESS_COMMAND = SlashCommand(
    name="compress",
    aliases=("compact",),
    about=N_("condense the older part of this conversation; `--undo` restores it"),
    usage=N_("[--undo]"),
    group=CommandGroup.SESSION,
    run=compress_conversation,
    complete=complete_compress,
    while_busy=False,
)

COMMANDS = (*_TURN_CONTROL_COMMANDS, _COMPRESS_COMMAND)
