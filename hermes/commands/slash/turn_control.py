"""`/stop`, `/queue`, `/steer`, `/interrupt`, `/busy`: control a running turn.

`/compress`: compress the conversation now, say what that would do, or restore what was compressed.
"""

import re
from collections.abc import Sequence

from msgspec import structs

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption, PostMode
from hermes.config.display import BusyMode
from hermes.context.engine import CompactionWish, NoCompaction
from hermes.core.errors import UsageError
from hermes.core.messages import PERSON
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.runtime.mailbox import InboundMessage
from hermes.util.text import strip_control_characters, to_one_line

COMMANDS = CommandList(CommandGroup.WORK)
_COMPRESS = re.compile(
    r"\s*(?P<here>here(?:\s+(?P<turns>\d{1,6}))?)?\s*(?P<topic>\bfocus\b\s*(?P<about>.*\S)?)?\s*", re.DOTALL
)
_PLAIN_WISH = re.compile(r"\s*(?!here\b|focus\b|-)\S+\s+\S.*", re.DOTALL)
"""Several words that are no option: they say what to keep most about."""


async def complete_stop(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the only word."""
    return [MenuOption("all", tr("sub-agents and processes in the background, too"))]


@COMMANDS.command(
    "stop",
    N_("stop the turn; with `all`, or when none runs, what works in the background too"),
    usage=N_("[all]"),
    complete=complete_stop,
)
async def stop_turn(call: CommandCall) -> None:
    """Stop the running turn; without one, or with `all`, stop sub-agents and processes in the background too."""
    if call.text not in ("", "all"):
        raise UsageError(N_("/stop takes nothing, or the word `all`."))
    actor = call.context.actor
    pursuit = call.context.app.background_work.find_pursuit(actor)
    # What waits to join the turn becomes part of it, and ends with it; what has a turn of its own to come is next.
    withdrawn = actor.take_joining_parts() if actor.busy else []
    waiting = len(actor.mailbox)
    stopped = pursuit.stop() if pursuit is not None else actor.stop()
    for part in withdrawn:
        if part.provenance == PERSON:
            text = to_one_line(strip_control_characters(part.text), 80)
            call.context.tell(tr("Not done either: {text}", text=text))
    if stopped and waiting:
        said = tr_plural("{n} message still waits, and is next.", "{n} messages still wait, and are next.", waiting)
        call.context.tell(said)
    if stopped and not call.text:
        return
    from hermes.commands.slash.agents import stop_sub_agents

    stop_sub_agents(call, everything=False)
    for line in await call.context.app.live_session(call.context.actor).tools.stop_processes() or [
        tr("No background process runs.")
    ]:
        call.context.tell(strip_control_characters(line))


async def _post_message(call: CommandCall, delivery: PostMode) -> None:
    if not call.text:
        raise UsageError(N_("Say what: /{name} message", name=call.name))
    call.context.post_message(InboundMessage(text=call.text, cwd=call.context.app.options.cwd), delivery)


@COMMANDS.command("queue", N_("let a message wait for a turn of its own"), usage=N_("message"), aliases=("q",))
async def queue_message(call: CommandCall) -> None:
    """Queue a message for a turn of its own."""
    await _post_message(call, PostMode.QUEUE)


@COMMANDS.command("steer", N_("let a message join the running turn at its next step"), usage=N_("message"))
async def steer_turn(call: CommandCall) -> None:
    """Add a message to the running turn when its next tools are done."""
    await _post_message(call, PostMode.STEER)


@COMMANDS.command("interrupt", N_("stop the turn and answer this message next"), usage=N_("message"))
async def interrupt_turn(call: CommandCall) -> None:
    """Stop the running turn and answer this message next."""
    await _post_message(call, PostMode.INTERRUPT)


_MODE_TEXTS = {
    BusyMode.STEER: N_("it joins the turn when its next tools are done"),
    BusyMode.QUEUE: N_("it waits for a turn of its own"),
    BusyMode.INTERRUPT: N_("the turn is stopped, and it is answered next"),
}


async def complete_busy(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the three modes."""
    return [MenuOption(mode.value, tr(what)) for mode, what in _MODE_TEXTS.items()]


@COMMANDS.command(
    "busy",
    N_("what Enter does while a turn runs"),
    usage=N_("[steer|queue|interrupt]"),
    complete=complete_busy,
    surfaces=TERMINAL_ONLY,
)
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


async def complete_compress(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the ways of condensing."""
    return [
        MenuOption("--undo", tr("restore what was condensed last")),
        MenuOption("--preview", tr("say what would be condensed")),
        MenuOption("here", tr("everything before the last N turns")),
        MenuOption("focus", tr("keep most about a topic")),
    ]


@COMMANDS.command(
    "compress",
    N_("condense the older part of this conversation; `--undo` restores it, `--preview` says what would happen"),
    group=CommandGroup.SESSION,
    usage=N_("[here N] [focus TOPIC] [--preview] | --undo"),
    aliases=("compact",),
    complete=complete_compress,
    while_busy=False,
)
async def compress_conversation(call: CommandCall) -> None:
    """Compress the conversation; the result, or why nothing was done, comes as a notice."""
    if call.text in ("--undo", "undo"):
        done = await call.context.actor.compress(undo=True)
        call.context.tell(tr("It is restored as it was.") if done else tr("There is nothing to restore."))
        return
    wish, preview = parse_compress_wish(call.text)
    if preview:
        await _preview_compression(call, wish)
    elif await call.context.actor.compress(wish=wish) is None:
        call.context.tell(tr("Stopped: the conversation is as it was."))


def parse_compress_wish(text: str) -> tuple[CompactionWish, bool]:
    """Return what is wanted of a compression, and whether it is only to be said. Raises UsageError."""
    words = text.replace("--preview", " ")
    found = _COMPRESS.fullmatch(words)
    if found is None and _PLAIN_WISH.fullmatch(words):
        return CompactionWish(topic=" ".join(words.split())), "--preview" in text.split()
    if found is None or (found["topic"] is not None and not found["about"]):
        raise UsageError(
            N_("/compress takes `here N`, `focus TOPIC`, `--preview`, `--undo`, or nothing."),
            N_("For instance: `/compress here 2 focus the login page`."),
        )
    turns = None if found["here"] is None else int(found["turns"] or 1)
    if turns == 0:
        raise UsageError(
            N_("/compress here takes a number of turns from 1 on."), N_("For instance: `/compress here 2`.")
        )
    topic = " ".join((found["topic"] or "").split())
    return CompactionWish(kept_turns=turns, topic=topic), "--preview" in text.split()


async def _preview_compression(call: CommandCall, wish: CompactionWish) -> None:
    actor = call.context.actor

    async def ignore_events(_event: object) -> None:
        """Nothing happens that anybody should see."""

    found = await actor.exclusive(lambda: actor.epochs.compression.preview(ignore_events, wish))
    if found is None:
        return
    if isinstance(found, NoCompaction):
        call.context.tell(localize(found.reason))
        return
    if found.after >= found.before:
        call.context.tell(tr("This would not make it shorter, so nothing would be done."))
        return
    sizes = {"before": f"{found.before:,}", "after": f"{found.after:,}"}
    if found.cleared:
        said = tr_plural("{n} old tool output would be cleared", "{n} old tool outputs would be cleared", found.cleared)
    else:
        said = tr(
            "{n} messages (#{first} to #{last}) would become a record with notes",
            n=found.messages,
            first=found.first,
            last=found.last,
        )
    call.context.tell(tr("{said}: about {before} tokens of messages now, {after} then.", said=said, **sizes))
