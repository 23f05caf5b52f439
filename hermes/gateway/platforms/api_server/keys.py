"""Who asks: keys, compared in constant time, and what each is for."""

import contextlib
import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from hermes.gateway.people.identity import OWNER_ID, Person, Role
from hermes.gateway.platform import PlatformRefusedError
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.options import SHORTEST_KEY, ApiOptions, KeySettings, Scope
from hermes.i18n.messages import phrase

_RETRY_AFTER = "1"
_DEFAULT = "default"
_GOOD = re.compile(rf"[!-~]{{{SHORTEST_KEY},512}}")


class Caller(Struct, frozen=True):
    """Who holds a key."""

    name: str
    owner: str
    """By whom what is kept is found: the account and the key's name."""
    scopes: frozenset[Scope]
    person: Person

    def need(self, scope: Scope) -> None:
        """Raise ApiError when the key is not for that."""
        if scope not in self.scopes:
            raise ApiError(403, f"This key is not for that: it lacks the scope {scope.value!r}.", code="missing_scope")

    def lead(self, scope: Scope) -> None:
        """The same, and raise it for who may not look after Hermes."""
        self.need(scope)
        if not self.person.leads:
            raise ApiError(403, "This is for keys of the role owner or admin.", code="missing_role")


class Keyring:
    """The keys. Only their hashes are kept."""

    def __init__(self, options: ApiOptions, account: str) -> None:
        """Raises PlatformRefusedError for keys that cannot be used."""
        self._known = [(_digest(one.key), _caller(one, account)) for one in _listed(options)]

    def find(self, authorization: str | None) -> Caller | None:
        """Who sends this header; every key is compared, so that time tells nothing."""
        scheme, _, given = (authorization or "").partition(" ")
        digest = _digest(given.strip())
        found: Caller | None = None
        for known, caller in self._known:
            if hmac.compare_digest(known, digest):
                found = caller
        return found if scheme.lower() == "bearer" else None

    def owning(self, owner: str) -> Caller | None:
        """Who holds the key of what is kept so."""
        return next((caller for _, caller in self._known if caller.owner == owner), None)


class Seats:
    """How many turns each key has under way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """How many there are in all."""
        return self._taken.total()

    def check(self, caller: Caller) -> None:
        """Raise ApiError when the key has as many as it may have."""
        if self._taken[caller.name] >= self._most:
            said = f"This key has {self._most} turns under way already."
            raise ApiError(429, said, code="too_many_turns", headers={"Retry-After": _RETRY_AFTER})

    @contextlib.contextmanager
    def seat(self, caller: Caller, *, promised: bool = False) -> Iterator[None]:
        """One turn more, for as long as the context lasts. Raises ApiError as `check` does, but for what was promised
        before."""
        if not promised:
            self.check(caller)
        self._taken[caller.name] += 1
        try:
            yield
        finally:
            self._taken[caller.name] -= 1


def _listed(options: ApiOptions) -> Sequence[KeySettings]:
    whole = KeySettings(key=options.key, name=_DEFAULT, scopes=tuple(Scope))
    listed = [*([whole] if options.key else []), *options.keys]
    if not listed:
        raise PlatformRefusedError(
            phrase("The API server needs a key, on loopback too: every program and page of this machine reaches it."),
            phrase("Put API_SERVER_KEY=... into the home's .env file, {n} characters at least.", n=SHORTEST_KEY),
        )
    for one in listed:
        if not _GOOD.fullmatch(one.key):
            raise PlatformRefusedError(
                phrase("The API key {name!r} can be guessed, or cannot be sent.", name=one.name),
                phrase("Make one of {n} characters of ASCII at least: openssl rand -hex 32", n=SHORTEST_KEY),
            )
    names = [one.name for one in listed]
    if len(set(names)) < len(names) or not all(names) or len({one.key for one in listed}) < len(names):
        raise PlatformRefusedError(phrase("Each API key needs a name of its own, and no two may be the same key."))
    return listed


def _caller(key: KeySettings, account: str) -> Caller:
    person = Person(OWNER_ID, key.role) if key.role is Role.OWNER else Person(f"api:{key.name}", key.role, key.name)
    return Caller(key.name, f"{account}:{key.name}", frozenset(key.scopes), person)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
