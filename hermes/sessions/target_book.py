"""Load what can be a target now: the accounts of the settings, the known people, and the chats that they wrote from."""

from collections import Counter
from collections.abc import Iterable, Mapping

from hermes.config.chat_targets import ChatTarget, ReachablePerson, TargetBook, list_account_homes
from hermes.core.chats import Binding, DirectChat, Place
from hermes.store.store import Store

OWNER_ID = "owner"
"""The id of the person whose Hermes this is."""
_PEOPLE_SETTINGS = ("owners", "admins", "allow", "guests")


async def load_target_book(
    store: Store, platforms: Mapping[str, Mapping[str, object]], homes: Mapping[str, str] | None = None
) -> TargetBook:
    """Return the targets of these `platforms:` settings; `homes` are the home chats where they are known better."""
    homes = list_account_homes(platforms) if homes is None else homes
    bindings = [one for one in await store.chats.list_bindings() if one.place.platform in homes]
    chats = [one for one in await store.chats.list_direct_chats() if one.place.platform in homes]
    direct_places = [one.place for one in chats]
    direct: dict[str, ChatTarget] = {}
    for one in chats:  # the one used last comes first
        direct.setdefault(one.person, format_place(one.place))
    names = {one.id: one.name for one in await store.people.list_all()}
    ids = dict.fromkeys([OWNER_ID, *names, *_list_configured_people(platforms, direct)])
    return TargetBook(
        homes=homes,
        people=tuple(ReachablePerson(one, names.get(one, ""), direct.get(one)) for one in ids),
        chats=frozenset(format_place(one).text for one in [*(one.place for one in bindings), *direct_places]),
        owner_chats=_find_owner_chats(chats, await _list_owner_accounts(store, platforms)),
    )


async def _list_owner_accounts(store: Store, platforms: Mapping[str, Mapping[str, object]]) -> set[tuple[str, str]]:
    """Return every account that is the owner's, by the settings or by pairing: its platform and its id there."""
    found = {(one.platform, one.account) for one in await store.people.list_handles(OWNER_ID)}
    for platform, given in platforms.items():
        named = given.get("owners") or ()
        found |= {(platform, str(one)) for one in (named if isinstance(named, list | tuple) else (named,))}
    return found


def _find_owner_chats(chats: Iterable[DirectChat], accounts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the direct chat of the owner, by platform, where one account there is theirs."""
    counts = Counter(platform for platform, _ in accounts)
    places = [one.place for one in chats if one.person == OWNER_ID]
    return {one.platform: format_place(one).chat for one in places if counts[one.platform] == 1}


def format_chat(binding: Binding) -> ChatTarget:
    """Return the chat of a binding as a target."""
    return format_place(binding.place)


def format_place(place: Place) -> ChatTarget:
    """Return a place as a target."""
    return ChatTarget(place.platform, ":".join(one for one in (place.chat, place.thread) if one))


def _list_configured_people(platforms: Mapping[str, Mapping[str, object]], known: Iterable[str]) -> list[str]:
    """Return the ids of those who are named by the settings of an account and wrote from a direct chat."""
    named: set[str] = set()
    for platform, given in platforms.items():
        for setting in _PEOPLE_SETTINGS:
            listed = given.get(setting)
            if isinstance(listed, list | tuple):
                named.update(f"{platform}:{one}" for one in listed)
    return [one for one in known if one in named]
