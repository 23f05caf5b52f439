"""Messages that sessions of chats send by the tool `send_message`, through the outbox like everything else.

Who looks after Hermes may reach every chat that it knows, after a question where untrusted content stands in the
conversation; anybody else reaches chats of their own.
"""

import contextlib

from msgspec import structs

from hermes.config.chat_targets import ORIGIN
from hermes.core.chats import OutboxItem, Outgoing, Place
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.gateway.accounts import PlatformAccount
from hermes.gateway.send import ChatJobDelivery
from hermes.gateway.session_pool import SessionPool
from hermes.gateway.text.media import MediaRules, SendableFile, extract_media
from hermes.gateway.text.split import split_text
from hermes.i18n.messages import N_
from hermes.markup.links import defuse_links
from hermes.sessions.egress_filter import EgressFilter, build_egress_filter
from hermes.sessions.target_book import format_place

MAX_CHARACTERS = 20_000


class ChatMessenger:
    """Sends messages of sessions to chats."""

    def __init__(self, pool: SessionPool, delivery: ChatJobDelivery) -> None:
        self._pool = pool
        self._delivery = delivery

    async def send_message(self, session_id: str, target: str, text: str, file: str) -> str:
        """Put a message of a session into the outbox; return where it goes. Raises HermesError."""
        if not text.strip() and not file:
            raise UsageError(N_("There is nothing to send."), N_("Give a message or a file."))
        if len(text) > MAX_CHARACTERS:
            raise UsageError(
                N_("A message has at most {most} characters.", most=f"{MAX_CHARACTERS:,}"),
                N_("Send the rest as another one, or all of it as a file."),
            )
        entry = next((one for one in self._pool.live_sessions if one.actor.session_id == session_id), None)
        if entry is None or entry.chat_session is None:
            raise UsageError(N_("This session is not in a chat."))
        live = self._pool.deps.app.live_session(session_id)
        if live.options.confined:
            places = await self._find_own_places(live.options.origin, target, live.options.person)
        else:
            places = await self._find_places(live.options.origin, target)
        egress = build_egress_filter(self._pool.deps.app.services, live)
        items: list[OutboxItem] = []
        for place in places:
            items += _build_items(self._pool.accounts[place.platform], place, text, file, egress)
        await self._pool.deps.outbox.enqueue(items)
        return ", ".join(one.lane.rstrip(":") for one in places)

    async def _find_places(self, origin: str, target: str) -> list[Place]:
        named = origin if target.strip().lower() in ("", ORIGIN) else target
        return await self._delivery.find_places(named)

    async def _find_own_places(self, origin: str, target: str, person: str) -> list[Place]:
        """Return the places of a target, which must be chats in which the person talks. Raises NotFoundError, the same
        for what is not theirs and what is not there: nobody learns by it who else is known.
        """
        chats = self._pool.deps.app.services.store.chats
        own = {format_place(one.place).text for one in await chats.list_bindings() if one.person == person}
        own |= {format_place(one.place).text for one in await chats.list_direct_chats() if one.person == person}
        with contextlib.suppress(NotFoundError, UsageError):
            places = await self._find_places(origin, target)
            if all(place.lane.rstrip(":") in own for place in places):
                return places
        raise NotFoundError(N_("Only this person's own chats can be reached."))


def _build_items(
    account: PlatformAccount, place: Place, text: str, file: str, egress: EgressFilter
) -> list[OutboxItem]:
    key = f"tool:{new_queued_message_id()}"
    files = (_check_file(account, file, egress),) if file else ()
    clean = defuse_links(text, egress.is_host_allowed) if egress.tainted else text
    messages = [Outgoing(place=place, text=piece) for piece in split_text(clean, account.can) if piece.strip()]
    messages += [Outgoing(place=place, file=one.path, kind=one.kind) for one in files]
    keyed = {f"{key}:{number}": one for number, one in enumerate(messages)}
    return [OutboxItem(key=name, message=structs.replace(one, key=name)) for name, one in keyed.items()]


def _check_file(account: PlatformAccount, file: str, egress: EgressFilter) -> SendableFile:
    """Return a file as an answer could name it, too. Raises UsageError for one that may not be sent."""
    if not account.can.media:
        raise UsageError(N_("{name} takes no files.", name=account.name))
    rules = MediaRules(
        roots=egress.roots, refusal_reason=egress.find_refusal, home=egress.home, limit=account.can.media_limit
    )
    name = file.replace('"', "").replace("\n", "")
    found = extract_media(f'MEDIA:"{name}"', rules)
    if not found.files:
        raise UsageError(" ".join(found.refused) or N_("There is no file {path} that can be read.", path=name))
    return found.files[0]
