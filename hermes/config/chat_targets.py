"""Targets: where a message can be sent to, the same for `hermes send`, jobs, webhooks and the model's tools.

A target is `ACCOUNT:CHAT[:THREAD]`, `ACCOUNT` (its home chat, else the owner's direct chat), `home` (the only home
chat), `all` (every home chat), a person's name or id (the direct chat where they wrote last), `origin` (the chat in
which something was made) or `local` (this machine only). `TargetBook.check_target` refuses one that does not exist, and
returns the form to store; `TargetBook.find_chats` resolves a stored target when something is sent.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, structs

from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.plugins import suggest_name

LOCAL, ORIGIN, HOME, ALL = "local", "origin", "home", "all"
"""Targets that name no account, chat or person."""
PERSON_SIGN = "@"
"""A stored target that begins so names a person's id: the chat is looked up when something is sent."""
PLATFORMS_WITHOUT_CHATS = frozenset({"api_server", "webhook"})
_CHAT = re.compile(r"\w[\w.-]{0,63}:\S{1,256}")


class ChatTarget(Struct, frozen=True, order=True):
    """A chat of an account; `chat` may end with `:THREAD` where the platform has threads."""

    account: str
    chat: str

    @property
    def text(self) -> str:
        """The target as people write it."""
        return f"{self.account}:{self.chat}"


class ReachablePerson(Struct, frozen=True):
    """A known person, and the direct chat where they wrote last (None: they never wrote from one)."""

    id: str
    name: str
    chat: ChatTarget | None


class TargetBook(Struct, frozen=True, kw_only=True):
    """The accounts, people and chats that can be targets."""

    homes: Mapping[str, str]
    """The home chat of each account that is set up; empty for an account without one."""
    people: tuple[ReachablePerson, ...] = ()
    chats: frozenset[str] = frozenset()
    """Chats from which somebody wrote, as targets."""
    owner_chats: Mapping[str, str] = {}
    """The direct chat of the owner on each account where one account is known as theirs, and no other: what goes to an
    account without a home chat goes there."""

    def check_target(self, text: str, *, origin: str = "", words: Collection[str] = (LOCAL, ORIGIN)) -> str:
        """Return the form of a target that is stored; `words` are those allowed beside chats, people, home and all.

        Raises UsageError for what is no target, NotFoundError for one that does not exist.
        """
        text = text.strip()
        word = text.lower()
        if word in words:
            if word == ORIGIN and not origin:
                raise UsageError(
                    N_("There is no chat to deliver to: this is not made in one."),
                    N_("Name a chat as PLATFORM:CHAT, or a person."),
                )
            return word
        if word in (HOME, ALL):
            self._find_homes(word)
            return word
        if text in self.homes or _CHAT.fullmatch(text):
            return self._check_account(text)
        person = self._find_person(text)
        if person is None:
            raise self._unknown_target(text, words)
        _require_chat(person)
        return PERSON_SIGN + person.id

    def find_chats(self, target: str) -> tuple[ChatTarget, ...]:
        """Return the chats that a stored or typed target means now. Raises UsageError or NotFoundError."""
        stored = self.check_target(target, words=())
        if stored in (HOME, ALL):
            return self._find_homes(stored)
        if stored.startswith(PERSON_SIGN):
            person = self._find_person(stored)
            assert person is not None
            return (_require_chat(person),)
        account, _, chat = stored.partition(":")
        return (ChatTarget(account, chat or self.homes[account] or self.owner_chats[account]),)

    def describe_target(self, target: str, origin: str = "") -> str:
        """Return a stored target in words of people: with the person's name, and the chat where it is reached now."""
        if target == ORIGIN:
            return f"{ORIGIN} ({origin})" if origin else ORIGIN
        if target == LOCAL:
            return LOCAL
        try:
            chats = ", ".join(one.text for one in self.find_chats(target))
        except (UsageError, NotFoundError):
            return target
        person = self._find_person(target) if target.startswith(PERSON_SIGN) else None
        name = (person.name or person.id) if person else target
        return name if name == chats else f"{name} ({chats})"

    def limit_to_person(self, person: str) -> "TargetBook":
        """Return the targets as somebody may know them who looks after nobody else: without the other people."""
        return structs.replace(self, people=tuple(one for one in self.people if one.id == person))

    def means_owner_chat(self, target: str) -> bool:
        """Return whether a target means a direct chat of the owner, because no home chat is set."""
        word = target.strip().lower()
        if word in (HOME, ALL):
            return not any(self.homes.values())
        return target.strip() in self.homes and not self.homes[target.strip()]

    def is_new_chat(self, target: str) -> bool:
        """Return whether a target names a chat from which nobody wrote yet: nobody can tell whether it exists."""
        return ":" in target and not target.startswith(PERSON_SIGN) and target not in self._known_chats

    @property
    def has_one_home(self) -> bool:
        """Whether one account, and no other, has a home chat."""
        return sum(map(bool, self.homes.values())) == 1

    @property
    def _known_chats(self) -> frozenset[str]:
        return self.chats | {f"{name}:{chat}" for name, chat in self.homes.items() if chat}

    def _find_homes(self, word: str) -> tuple[ChatTarget, ...]:
        chats = self.homes if any(self.homes.values()) else self.owner_chats
        found = tuple(ChatTarget(name, chat) for name, chat in chats.items() if chat)
        if not found:
            raise NotFoundError(
                N_("There is no home chat."), N_("Type /sethome in a chat, or set `platforms.NAME.home`.")
            )
        if word == HOME and len(found) > 1:
            raise UsageError(
                N_("There is not exactly one home chat."),
                N_("Several accounts have one ({names}): name the account.", names=_join(one.account for one in found)),
            )
        return found

    def _check_account(self, text: str) -> str:
        """Check `ACCOUNT` or `ACCOUNT:CHAT[:THREAD]`. The id of a person who is reached elsewhere is that person."""
        account, _, chat = text.partition(":")
        person = self._find_person(text) if chat else None
        if person is not None and person.chat is not None and person.chat.text != text and text not in self.chats:
            return PERSON_SIGN + person.id
        if account not in self.homes:
            known = _join(self.homes)
            hint = suggest_name(account, self.homes) or (
                N_("Those set up: {known}.", known=known) if known else N_("None is set up yet.")
            )
            raise NotFoundError(N_("No platform {name!r} is set up here.", name=account), hint)
        if not chat and not self.homes[account] and account not in self.owner_chats:
            raise NotFoundError(
                N_("{name} has no home chat.", name=account), N_("Type /sethome there, or give PLATFORM:CHAT.")
            )
        return text

    def _find_person(self, text: str) -> ReachablePerson | None:
        """Return the person of this id, else of this name. Raises UsageError where several have it."""
        wanted = text.removeprefix(PERSON_SIGN)
        for one in self.people:
            if one.id == wanted:
                return one
        found = [one for one in self.people if one.name and one.name.casefold() == wanted.casefold()]
        if len(found) > 1:
            ids = _join(one.id for one in found)
            raise UsageError(N_("{name!r} could be {ids}.", name=wanted, ids=ids), N_("Name the id."))
        return found[0] if found else None

    def _unknown_target(self, text: str, words: Collection[str]) -> NotFoundError | UsageError:
        names = [*self.homes, *(one.name for one in self.people if one.name), *(one.id for one in self.people)]
        hint = suggest_name(text, [*names, HOME, ALL, *words]) or N_(
            "Targets are {words}, PLATFORM, PLATFORM:CHAT[:THREAD], and people: {people}.",
            words=_join(f"`{one}`" for one in (*words, HOME, ALL)),
            people=_join(one.name or one.id for one in self.people) or "–",
        )
        return NotFoundError(N_("{text!r} is not an account, chat or person here.", text=text[:80]), hint)


def _require_chat(person: ReachablePerson) -> ChatTarget:
    if person.chat is None:
        raise NotFoundError(
            N_("{name} has not written from a direct chat yet.", name=person.name or person.id),
            N_("Name a chat as PLATFORM:CHAT, or let them write once."),
        )
    return person.chat


def _join(names: Iterable[str]) -> str:
    return ", ".join(names)


def list_account_homes(platforms: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return the home chat of each account of the settings that has chats; empty for an account without one."""
    return {
        name: str(given.get("home") or "")
        for name, given in platforms.items()
        if given.get("enabled", True) and str(given.get("platform") or name) not in PLATFORMS_WITHOUT_CHATS
    }
