"""Unknown people who ask to be let in: they are shown a code, once, and who looks after Hermes is asked.

Nothing that they wrote goes anywhere; their name is shown to who is asked.
"""

from collections.abc import Mapping

from hermes.admin.people.admin import PeopleAdmin
from hermes.admin.people.identity import OWNER_ID, PersonIdentity
from hermes.commands.people import describe_settled
from hermes.config.gateway import AccountSettings
from hermes.core.chats import Button, ChatKind, InboundEvent, OutboxItem, Outgoing, Place
from hermes.core.ids import new_queued_message_id
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.chat_session import GatewayDeps
from hermes.gateway.people import PairingCodes, clean_name
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters

_BUTTON_PREFIX = "p:"


def may_ask(settings: AccountSettings, event: InboundEvent) -> bool:
    """Return whether an unknown sender may ask to be let in by this message, which is their own."""
    is_person = not event.sender.bot and bool(event.sender.id) and not event.press
    return settings.pairing and is_person and event.place.kind is ChatKind.DM


def is_pairing_button(token: str) -> bool:
    """Return whether a button answers a request."""
    return token.startswith(_BUTTON_PREFIX) and token.count(":") == 2


class PairingRequests:
    """Takes requests and answers to them."""

    def __init__(self, deps: GatewayDeps, codes: PairingCodes, accounts: Mapping[str, PlatformAccount]) -> None:
        self._deps = deps
        self._accounts = accounts
        self._store = deps.app.services.store
        self._codes = codes

    async def take_request(self, account: PlatformAccount, event: InboundEvent) -> str:
        """Show somebody unknown a code, once, and tell who looks after Hermes; return the reason that is stored."""
        code = await self._codes.request_access(account.name, event)
        if not code:
            return "unknown sender"
        said = tr(
            "You are not paired with this agent yet. Your code is {code}; its owner lets you in with"
            " `hermes pairing approve {code}`, within an hour.",
            code=code,
        )
        items = [make_note(event.place, said)]
        owner = await self._find_owner_place()
        if owner is not None:
            asked = tr(
                "{name} ({platform} {account}) asks to be let in. `hermes pairing approve {code}` does it, too.",
                name=clean_name(event.sender.name) or clean_name(event.sender.id),
                platform=account.name,
                account=escape_unseen_characters(event.sender.id[:60]),
                code=code,
            )
            labels = ((tr("Let in as user"), "user"), (tr("Let in as guest"), "guest"), (tr("No"), "no"))
            rows = tuple((Button(label, f"{_BUTTON_PREFIX}{code}:{role}"),) for label, role in labels)
            items.append(make_note(owner, asked, rows if self._accounts[owner.platform].can.buttons else ()))
        await self._deps.outbox.enqueue(items)
        return "asked to be let in"

    async def press_button(self, event: InboundEvent, person: PersonIdentity) -> None:
        """Carry out a pressed button about somebody unknown, and say what became of them. Raises HermesError."""
        await self._deps.outbox.enqueue([make_note(event.place, await self._settle(event.press, person))])

    async def _settle(self, token: str, person: PersonIdentity) -> str:
        _, code, role = token.split(":", 2)
        if not person.can_administer:
            return tr("This question is not yours to answer.")
        admin = PeopleAdmin(self._store, self._deps.app.services.settings, person)
        if role == "no":
            return describe_settled(await admin.deny_request(code), "")
        wish = await admin.approve_request(code, role)
        self._deps.outbox.wake_lane(wish.place.lane)
        return describe_settled(wish, role)

    async def _find_owner_place(self) -> Place | None:
        """Return the direct chat in which the owner wrote last, on any account, or None."""
        for one in await self._store.chats.list_bindings():
            if one.person == OWNER_ID and one.place.kind is ChatKind.DM and one.place.platform in self._accounts:
                return one.place
        return None


def make_note(place: Place, text: str, buttons: tuple[tuple[Button, ...], ...] = ()) -> OutboxItem:
    """Return a message of Hermes' own for a place."""
    key = f"note:{new_queued_message_id()}"
    return OutboxItem(key=key, message=Outgoing(place=place, text=text, key=key, buttons=buttons))
