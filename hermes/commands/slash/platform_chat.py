"""`/start`, `/restart`: what only a chat on a platform has; `/handoff` from one place to another."""

from collections.abc import Sequence

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import ChatControls, MenuOption, Surface
from hermes.config.chat_targets import list_account_homes
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.util.text import escape_unseen_characters, to_one_line

COMMANDS = CommandList(CommandGroup.SESSION)
_CHATS_ONLY = frozenset({Surface.CHAT})


@COMMANDS.command("start", N_("say hello"), group=CommandGroup.ABOUT, surfaces=_CHATS_ONLY)
async def greet_person(call: CommandCall) -> None:
    """Greet the person; a code behind the name is that of an invitation, and who is known needs none."""
    name = escape_unseen_characters(to_one_line(call.context.person.name, 60))
    hello = tr("Hello {name}.", name=name) if name else tr("Hello.")
    call.context.tell(f"{hello} {tr('Write what you want; /help shows what else there is.')}")


async def complete_places(call: CommandCall) -> Sequence[MenuOption]:
    """Complete the accounts that are set up, and the words beside them."""
    homes = list_account_homes(call.context.app.services.settings.platforms)
    return [MenuOption(word) for word in ("home", "terminal", *homes)]


@COMMANDS.command(
    "handoff",
    N_("let another chat of yours, or a terminal, go on with this session"),
    usage=N_("home|terminal|PLATFORM[:CHAT]"),
    complete=complete_places,
    opens=True,
)
async def hand_off_session(call: CommandCall) -> None:
    """Hand the session to another place, where the next message goes on with it."""
    if not call.text:
        raise UsageError(
            N_("Say where it goes on."), N_("/handoff home, /handoff terminal, or /handoff PLATFORM[:CHAT].")
        )
    if call.text.lower() == "terminal":
        call.context.tell(tr("In a terminal: `hermes --resume {id}`.", id=call.context.port.session_id))
        return
    call.context.tell(localize(await call.context.hand_off(call.text)))


@COMMANDS.command("restart", N_("restart the gateway"), group=CommandGroup.ABOUT, surfaces=_CHATS_ONLY)
async def restart_gateway(call: CommandCall) -> None:
    """Restart the gateway once running turns have ended."""
    call.require_no_arguments()
    _require_chat(call).restart_gateway()
    call.context.tell(tr("The gateway restarts when running turns have ended; I say so when it is back."))


def _require_chat(call: CommandCall) -> ChatControls:
    if call.context.chat is None:
        raise UsageError(N_("That works in a chat on a platform only."))
    return call.context.chat
