"""Unknown people who ask to be let in: they are shown a code, once, and who looks after Hermes is asked.

Nothing that they wrote goes anywhere; their name is shown to who is asked. A request has one state, however it is
answered: the question shows it, and loses its buttons.
"""

import asyncio
from collections.abc import Mapping

from hermes.admin.people.admin import PeopleAdmin
from hermes.admin.people.identity import OWNER_ID, PersonIdentity
from hermes.commands.people import describe_settled
from hermes.config.gateway import AccountSettings
from hermes.core.chats import Button, ChatKind, InboundEvent, OutboxItem, Outgoing, PairingQuestion, Place, Sender
from hermes.core.errors import NotFoundError
from hermes.core.ids import new_queued_message_id
from hermes.gateway.accounts import AccountHealth, PlatformAccount
from hermes.gateway.chat_questions import replace_question
from hermes.gateway.chat_session import GatewayDeps
from hermes.gateway.people import PairingCodes, clean_name
from hermes.i18n.messages import N_, tr
from hermes.util.text import escape_unseen_characters

_BUTTON_PREFIX = "p:"
_KEPT_SECONDS = 7 * 24 * 3600.0
"""How long it is known what a pressed button was about."""
_MAX_REPORTED = 100
"""Unknown senders that are reported since the start; the log names the rest as `turned_away`."""


def may_ask(settings: AccountSettings, event: InboundEvent) -> bool:
    """Return whether an unknown sender may ask to be let in by this message, which is their own."""
    is_person = not event.sender.bot and bool(event.sender.id) and not event.press
    return settings.pairing and is_person and event.place.kind is ChatKind.DM


def is_pairing_button(token: str) -> bool:
    """Return whether a button answers a request."""
    return token.startswith(_BUTTON_PREFIX) and token.count(":") == 2


class StrangerReports:
    """Tells whoever looks after the gateway, in its terminal and log, who wrote and is not answered: once for each
    sender since the start. Senders are told nothing, and nothing of what they wrote is repeated.
    """

    def __init__(self, deps: GatewayDeps) -> None:
        self._deps = deps
        self._reported: set[tuple[str, str]] = set()

    def report_stranger(self, account: PlatformAccount, event: InboundEvent) -> None:
        """Report an unknown sender, with what lets them in; a crowd of them is not reported one by one."""
        key = (account.name, event.sender.id)
        if key in self._reported or len(self._reported) >= _MAX_REPORTED or account.plan.settings.pairing:
            return
        self._reported.add(key)
        said = N_(
            "{account}: {name} ({sender}) wrote, and is not known here: unknown people are not answered."
            " `hermes pairing new --platform {account}` makes a code that lets them in; with"
            " platforms.{account}.pairing: true they may ask for it.",
            name=clean_name(event.sender.name) or clean_name(event.sender.id),
            sender=escape_unseen_characters(event.sender.id[:60]),
            account=account.name,
        )
        self._deps.telemetry.report_line(said, account.name)


class PairingRequests:
    """Takes requests and answers to them."""

    def __init__(self, deps: GatewayDeps, codes: PairingCodes, accounts: Mapping[str, PlatformAccount]) -> None:
        self._deps = deps
        self._accounts = accounts
        self._store = deps.app.services.store
        self._codes = codes
        self._closing = asyncio.Lock()

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
            items.append(await self._make_question(account, event, code, owner))
        await self._deps.outbox.enqueue(items)
        return "asked to be let in"

    async def _make_question(
        self, account: PlatformAccount, event: InboundEvent, code: str, owner: Place
    ) -> OutboxItem:
        name, sender = clean_name(event.sender.name) or clean_name(event.sender.id), event.sender.id
        asked = tr(
            "{name} ({platform} {account}) asks to be let in. `hermes pairing approve {code}` does it, too.",
            name=name,
            platform=account.name,
            account=escape_unseen_characters(sender[:60]),
            code=code,
        )
        question = PairingQuestion(code=code, platform=account.name, account=sender, name=name, place=owner, text=asked)
        await self._store.people.add_pairing_question(question, kept=_KEPT_SECONDS)
        labels = ((tr("Let in as user"), "user"), (tr("Let in as guest"), "guest"), (tr("No"), "no"))
        rows = tuple((Button(label, f"{_BUTTON_PREFIX}{code}:{role}"),) for label, role in labels)
        shown = rows if self._accounts[owner.platform].can.buttons else ()
        return OutboxItem(key=question.key, message=Outgoing(place=owner, text=asked, key=question.key, buttons=shown))

    async def press_button(self, event: InboundEvent, person: PersonIdentity) -> None:
        """Carry out a pressed button about somebody unknown; the question then shows what became of them. Raises
        HermesError.
        """
        _, code, role = event.press.split(":", 2)
        if not person.can_administer:
            said = tr("This question is not yours to answer.")
        else:
            said = await self._settle(code, role, person)
            if code in await self.close_settled():
                return
        await self._deps.outbox.enqueue([make_note(event.place, said)])

    async def _settle(self, code: str, role: str, person: PersonIdentity) -> str:
        """Answer the request of a code; return what became of it, also where it was answered before."""
        admin = PeopleAdmin(self._store, self._deps.app.services.settings, person)
        try:
            if role == "no":
                return describe_settled(await admin.deny_request(code), "")
            wish = await admin.approve_request(code, role)
        except NotFoundError:
            question = await self._store.people.find_pairing_question(code)
            if question is None:
                raise
            return await self._describe_answer(question) or tr("The request has run out.")
        self._deps.outbox.wake_lane(wish.place.lane)
        return describe_settled(wish, role)

    async def close_settled(self) -> set[str]:
        """Let each question show what became of its request, whichever way that was answered; return the codes of those
        that show it from now on.
        """
        shown = set()
        async with self._closing:
            for question in await self._store.people.list_open_questions():
                account = self._accounts.get(question.place.platform)
                state = await self._store.outbox.get_state(question.key)
                is_sent = state is None or state[0].is_final
                if account is None or account.health is not AccountHealth.CONNECTED or not is_sent:
                    continue
                if said := await self._describe_answer(question):
                    message = Outgoing(place=question.place, text=f"{question.text}\n\n**{said}**", key=question.key)
                    if await replace_question(self._deps.app, account, message):
                        shown.add(question.code)
                    await self._store.people.close_pairing_question(question.code)
        return shown

    async def _describe_answer(self, question: PairingQuestion) -> str:
        """Return what became of a request; empty while it waits."""
        account, sender = self._accounts.get(question.platform), Sender(question.account)
        known = account and await self._deps.people.resolve_sender(account.plan.settings, question.platform, sender)
        if known:
            return describe_settled(question, known.role)
        is_refused = await self._store.people.is_request_refused(question.platform, question.account)
        if is_refused is None:
            return tr("The request has run out.")
        return describe_settled(question, "") if is_refused else ""

    async def _find_owner_place(self) -> Place | None:
        """Return the direct chat in which the owner wrote last, on any account, or None."""
        for one in await self._store.chats.list_direct_chats():
            if one.person == OWNER_ID and one.place.platform in self._accounts:
                return one.place
        return None


def make_note(place: Place, text: str, buttons: tuple[tuple[Button, ...], ...] = ()) -> OutboxItem:
    """Return a message of Hermes' own for a place."""
    key = f"note:{new_queued_message_id()}"
    return OutboxItem(key=key, message=Outgoing(place=place, text=text, key=key, buttons=buttons))
