"""`/skin`, `/statusbar`, `/timestamps`, `/verbose`, `/redraw`: change the display of this chat."""

from collections.abc import Sequence

from msgspec import structs

from hermes.commands.command import TERMINAL_ONLY, CommandCall, CommandGroup, CommandList
from hermes.commands.context import MenuOption, Terminal
from hermes.config.display import ToolProgress
from hermes.core.errors import HermesError, UsageError
from hermes.core.events import Level
from hermes.i18n.messages import N_, join_sentences, localize, tr

_DETAIL_TEXTS = {
    ToolProgress.OFF: N_("only answers, questions and what went wrong"),
    ToolProgress.SHORT: N_("a line for calls of one kind in a row"),
    ToolProgress.ALL: N_("a line a call, and the first line of its result"),
    ToolProgress.VERBOSE: N_("a line a call, and the first dozen lines of its result"),
}


def _require_terminal(call: CommandCall) -> Terminal:
    assert call.context.terminal is not None  # the commands here exist in terminals only
    return call.context.terminal


def _parse_switch(call: CommandCall, now: bool) -> bool:
    """Return the new state for `on`, `off`, `status`, or nothing (which toggles)."""
    if call.text not in ("", "on", "off", "status"):
        raise UsageError(N_("/{name} takes `on`, `off` or nothing.", name=call.name))
    return {"on": True, "off": False, "status": now}.get(call.text, not now)


COMMANDS = CommandList(CommandGroup.LOOKS)


async def complete_skins(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the names of the skins."""
    return [MenuOption(name) for name in _require_terminal(call).list_skins()]


@COMMANDS.command(
    "skin",
    N_("choose the colours; they are kept"),
    usage=N_("[name]"),
    aliases=("theme",),
    complete=complete_skins,
    surfaces=TERMINAL_ONLY,
)
async def choose_skin(call: CommandCall) -> None:
    """Choose the colors, which are shown while the menu moves, and keep them in the settings."""
    terminal = _require_terminal(call)
    names, before = list(terminal.list_skins()), terminal.display

    def show_skin(at: int) -> None:
        terminal.set_display(structs.replace(before, skin=names[at]))

    name = call.text
    if not name:
        now = names.index(before.skin) if before.skin in names else 0
        options = [MenuOption(one) for one in names]
        with terminal.watch_choice(show_skin):
            taken = await call.context.choose(tr("Which skin?"), options, chosen=now)
        if taken is None:
            terminal.set_display(before)
            return
        name = names[taken]
    terminal.set_display(structs.replace(before, skin=name))
    from hermes.admin.config import change_settings

    try:
        change_settings(call.context.app.services.home, {("display", "skin"): name})
    except HermesError as error:
        call.context.tell(join_sentences(localize(error.message), localize(error.hint)), Level.WARNING)
        return
    call.context.tell(tr("Skin {name}; it is kept in config.yaml.", name=name))


async def complete_switch(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the states of a switch."""
    return [MenuOption("on"), MenuOption("off")]


@COMMANDS.command(
    "statusbar",
    N_("show or hide the line below the input"),
    usage=N_("[on|off]"),
    aliases=("sb",),
    complete=complete_switch,
    surfaces=TERMINAL_ONLY,
)
async def toggle_statusbar(call: CommandCall) -> None:
    """Show or hide the line below the input."""
    terminal = _require_terminal(call)
    terminal.set_display(structs.replace(terminal.display, status_bar=_parse_switch(call, terminal.display.status_bar)))


@COMMANDS.command(
    "timestamps",
    N_("show the time with each message, or not"),
    usage=N_("[on|off]"),
    aliases=("ts",),
    complete=complete_switch,
    surfaces=TERMINAL_ONLY,
)
async def toggle_timestamps(call: CommandCall) -> None:
    """Show or hide the time of each message."""
    terminal = _require_terminal(call)
    terminal.set_display(structs.replace(terminal.display, timestamps=_parse_switch(call, terminal.display.timestamps)))
    on = terminal.display.timestamps
    call.context.tell(tr("Messages carry the time.") if on else tr("Messages carry no time."))


async def complete_detail(_call: CommandCall) -> Sequence[MenuOption]:
    """Complete the amounts."""
    return [MenuOption(amount.value, tr(what)) for amount, what in _DETAIL_TEXTS.items()]


@COMMANDS.command(
    "verbose",
    N_("how much of its work is shown"),
    usage=N_("[off|short|all|verbose]"),
    complete=complete_detail,
    surfaces=TERMINAL_ONLY,
)
async def choose_detail(call: CommandCall) -> None:
    """Show more or less of the work: the named amount, or the next one."""
    terminal, amounts = _require_terminal(call), list(_DETAIL_TEXTS)
    if call.text and call.text not in tuple(ToolProgress):
        raise UsageError(N_("There is no amount {name!r}.", name=call.text), ", ".join(amounts))
    at = amounts.index(terminal.display.tool_progress)
    amount = ToolProgress(call.text) if call.text else amounts[(at + 1) % len(amounts)]
    terminal.set_display(structs.replace(terminal.display, tool_progress=amount))
    call.context.tell(
        tr("Of its work is shown, {amount}: {what}.", amount=amount.value, what=tr(_DETAIL_TEXTS[amount]))
    )


@COMMANDS.command("redraw", N_("redraw the screen"), surfaces=TERMINAL_ONLY)
async def redraw_screen(call: CommandCall) -> None:
    """Redraw the screen."""
    call.require_no_arguments()
    _require_terminal(call).redraw()
