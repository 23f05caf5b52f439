"""What the operator is told of an account once it is connected: its name there, and how the first person gets in."""

import contextlib
from collections.abc import Callable

from hermes.admin.people.admin import BOT_NAME, PAIRING_LINK
from hermes.admin.people.identity import OWNER_ID
from hermes.core.chats import Batch
from hermes.core.errors import HermesError
from hermes.gateway.accounts import PlatformAccount
from hermes.i18n.messages import N_
from hermes.sessions.app import App


async def introduce_account(app: App, account: PlatformAccount, report: Callable[[str], None]) -> None:
    """Wait until an account is connected; then report its name there, and what to do where its owner is unknown."""
    await account.connected_once.wait()
    with contextlib.suppress(HermesError):  # it was closed meanwhile, or the store takes nothing
        await _introduce_connected(app, account, report)


async def _introduce_connected(app: App, account: PlatformAccount, report: Callable[[str], None]) -> None:
    chats, own = app.services.store.chats, account.platform.own_name
    if own:  # behind what the connection's first batch has stored
        await chats.record_batch(account.name, Batch(cursors=((BOT_NAME, own),)))
    cursors = await chats.get_cursors(account.name)
    name = cursors.get(BOT_NAME, "")  # a connection that was resumed does not tell it again
    if name:
        report(N_("{account}: connected as {name}.", account=account.name, name=name))
    if not account.can.senders or not account.can.answers or await _is_somebody_known(app, account):
        return
    report(
        N_(
            "{account}: nobody there is known as the owner yet. To be let in: `hermes pairing new --role owner"
            " --platform {account}` in another terminal, and send the code that it prints to {name} in a direct chat.",
            account=account.name,
            name=name or account.plan.descriptor.title,
        )
    )
    if link := cursors.get(PAIRING_LINK, "").replace("{code}", "CODE"):
        report(N_("{account}: this link sends the code, too: {link}", account=account.name, link=link))


async def _is_somebody_known(app: App, account: PlatformAccount) -> bool:
    """Return whether the owner is known on an account, or others are, and the owner is known elsewhere."""
    settings, platforms = account.plan.settings, app.services.settings.platforms
    handles = await app.services.store.people.list_handles()
    owned = {name for name, given in platforms.items() if given.get("owners")}
    owned |= {one.platform for one in handles if one.person == OWNER_ID}
    here = [one for one in handles if one.platform == account.name]
    others = any((settings.admins, settings.allow, settings.guests, here))
    return account.name in owned or (bool(owned) and others)
