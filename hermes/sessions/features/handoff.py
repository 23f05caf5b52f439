"""Hand a session over to a chat of the same person: which chat a target means, and what is said there."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.config.chat_targets import TargetBook
from hermes.core.chats import Binding, ChatKind, DirectChat, OutboxItem, Outgoing
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.i18n.messages import N_, tr
from hermes.sessions.target_book import OWNER_ID, format_chat, load_target_book
from hermes.store.store import Store
from hermes.util.text import escape_unseen_characters, to_one_line


async def find_own_chat(
    store: Store,
    platforms: Mapping[str, Mapping[str, object]],
    target: str,
    *,
    person: str,
    homes: Mapping[str, str] | None = None,
    here: str = "",
) -> Binding:
    """Return the chat of a person that a target means; `here` is the chat, as a target, in which that is asked.

    Raises NotFoundError, UsageError.
    """
    book, named = await load_target_book(store, platforms, homes), target.strip()
    book = book if person == OWNER_ID else book.limit_to_person(person)
    is_account = named in book.homes and not book.homes[named]
    # An account alone names the person's direct chat there, and no group, where others would read.
    chats = set[str]() if is_account else {one.text for one in book.find_chats(named)}
    if here and here in chats:
        raise UsageError(N_("That is this chat."))
    for one in _list_own_chats(await store.chats.list_bindings(), await store.chats.list_direct_chats(), person):
        text = format_chat(one).text
        is_direct = one.place.platform == named and one.place.kind is ChatKind.DM
        if text != here and (text in chats if chats else is_direct):
            return one
    known = _describe_accounts(book)
    raise NotFoundError(
        N_("You have not written from {place} yet.", place=named[:80]), N_("Write there once. {known}", known=known)
    )


def _list_own_chats(bindings: Sequence[Binding], chats: Sequence[DirectChat], person: str) -> list[Binding]:
    """Return the chats of a person, also those in which they have typed commands only."""
    own = [one for one in bindings if one.person == person]
    fresh = [
        Binding(key=one.place.session_key, session_id="", place=one.place, person=person)
        for one in chats
        if one.person == person
    ]
    known = {one.key for one in own}
    return [*own, *(one for one in fresh if one.key not in known)]


def _describe_accounts(book: TargetBook) -> str:
    return N_("Those set up: {known}.", known=", ".join(book.homes)) if book.homes else N_("None is set up yet.")


async def make_handover_note(store: Store, binding: Binding, session_id: str, origin: str) -> OutboxItem:
    """Return what is said in a chat to which a session was handed over from somewhere else."""
    row = await store.sessions.get(session_id)
    title = escape_unseen_characters(to_one_line(row.title if row is not None else "", 60))
    name = f"“{title}”" if title else tr("A conversation")
    said = tr("{name} was handed over from {place}: your next message here goes on with it.", name=name, place=origin)
    key = f"note:{new_queued_message_id()}"
    return OutboxItem(key=key, message=Outgoing(place=binding.place, text=said, key=key))


async def hand_over_later(
    store: Store, platforms: Mapping[str, Mapping[str, object]], session_id: str, target: str
) -> str:
    """Let a chat of the owner's go on with a session once a gateway runs; return what to say to them.

    Raises NotFoundError, UsageError.
    """
    other = await find_own_chat(store, platforms, target, person=OWNER_ID)
    await store.chats.bind(structs.replace(other, session_id=session_id))
    await store.outbox.enqueue([await make_handover_note(store, other, session_id, tr("a terminal"))])
    place = format_chat(other).text
    return tr("No gateway runs. Once one does, your next message in {place} goes on with this session.", place=place)
