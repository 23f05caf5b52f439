"""`/skin`, `/statusbar`, `/timestamps`, `/verbose`, `/redraw`: how the chat looks, from now until it ends."""

from collections.abc import Sequence

from msgspec import structs

from hermes.commands.command import HERE_ONLY, Call, Command, Group
from hermes.commands.context import Option, Terminal
from hermes.config.display import ToolProgress
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say

_AMOUNTS = {
    ToolProgress.OFF: phrase("only answers, questions and what went wrong"),
    ToolProgress.SHORT: phrase("a line for calls of one kind in a row"),
    ToolProgress.ALL: phrase("a line a call, and the first line of its result"),
    ToolProgress.VERBOSE: phrase("a line a call, and the first dozen lines of its result"),
}


def _terminal(call: Call) -> Terminal:
    assert call.desk.terminal is not None  # the commands here exist in terminals only
    return call.desk.terminal


def _switched(call: Call, now: bool) -> bool:
    """What `on`, `off` or nothing behind the name means for something that is on or off now."""
    if call.text not in ("", "on", "off", "status"):
        raise UsageError(phrase("/{name} takes `on`, `off` or nothing.", name=call.name))
    return {"on": True, "off": False, "status": now}.get(call.text, not now)


async def on_or_off(_call: Call) -> Sequence[Option]:
    """What stands behind a switch."""
    return [Option("on"), Option("off")]


async def skin(call: Call) -> None:
    """Choose the colours."""
    terminal = _terminal(call)
    names = list(terminal.skins())
    name = call.text
    if not name:
        now = names.index(terminal.display.skin) if terminal.display.skin in names else 0
        taken = await call.desk.choose(say("Which skin?"), [Option(one) for one in names], chosen=now)
        if taken is None:
            return
        name = names[taken]
    terminal.set_display(structs.replace(terminal.display, skin=name))
    call.desk.tell(say("Skin {name}. `hermes config set display.skin {name}` keeps it.", name=name))


async def skins(call: Call) -> Sequence[Option]:
    """The skins there are."""
    return [Option(name) for name in _terminal(call).skins()]


async def statusbar(call: Call) -> None:
    """Show or hide the line below the input."""
    terminal = _terminal(call)
    terminal.set_display(structs.replace(terminal.display, status_bar=_switched(call, terminal.display.status_bar)))


async def timestamps(call: Call) -> None:
    """Show the time with each message, or not."""
    terminal = _terminal(call)
    terminal.set_display(structs.replace(terminal.display, timestamps=_switched(call, terminal.display.timestamps)))
    on = terminal.display.timestamps
    call.desk.tell(say("Messages carry the time.") if on else say("Messages carry no time."))


async def verbose(call: Call) -> None:
    """Show more or less of the work: the amount that is named, or the next one."""
    terminal, amounts = _terminal(call), list(_AMOUNTS)
    if call.text and call.text not in tuple(ToolProgress):
        raise UsageError(phrase("There is no amount {name!r}.", name=call.text), ", ".join(amounts))
    at = amounts.index(terminal.display.tool_progress)
    amount = ToolProgress(call.text) if call.text else amounts[(at + 1) % len(amounts)]
    terminal.set_display(structs.replace(terminal.display, tool_progress=amount))
    call.desk.tell(say("Of its work is shown, {amount}: {what}.", amount=amount.value, what=say(_AMOUNTS[amount])))


async def amounts(_call: Call) -> Sequence[Option]:
    """The amounts there are."""
    return [Option(amount.value, say(what)) for amount, what in _AMOUNTS.items()]


async def redraw(call: Call) -> None:
    """Draw the screen anew."""
    call.nothing_behind()
    _terminal(call).redraw()


COMMANDS = tuple(
    Command(
        group=Group.LOOKS,
        surfaces=HERE_ONLY,
        name=name,
        aliases=aliases,
        about=about,
        usage=usage,
        run=run,
        complete=complete,
    )
    for name, aliases, about, usage, run, complete in (
        ("skin", (), phrase("choose the colours"), phrase("[name]"), skin, skins),
        (
            "statusbar",
            ("sb",),
            phrase("show or hide the line below the input"),
            phrase("[on|off]"),
            statusbar,
            on_or_off,
        ),
        (
            "timestamps",
            ("ts",),
            phrase("show the time with each message, or not"),
            phrase("[on|off]"),
            timestamps,
            on_or_off,
        ),
        ("verbose", (), phrase("how much of its work is shown"), phrase("[off|short|all|verbose]"), verbose, amounts),
        ("redraw", (), phrase("draw the screen anew"), "", redraw, None),
    )
)
