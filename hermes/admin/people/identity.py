"""Who somebody is: by the platform's own id of their account, never by a name; and what they may do."""

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.config.gateway import AccountSettings, GatewaySettings, RoleSettings
from hermes.core.chats import Sender
from hermes.sessions.options import Options

if TYPE_CHECKING:
    from hermes.sessions.app import App

OWNER_ID = "owner"
"""The person whose Hermes this is, wherever they are; the one at its terminal."""
_TOGETHER = "~"
"""How the id of people begins who share a session; no person's does."""


class Role(StrEnum):
    """What somebody may do, the most first."""

    OWNER = "owner"
    ADMIN = "admin"
    USER = "user"
    GUEST = "guest"


_DEFAULTS = {
    Role.OWNER: RoleSettings(memory=True, approve=True),
    Role.ADMIN: RoleSettings(memory=True, approve=True),
    Role.USER: RoleSettings(toolsets=("web", "todo", "clarify", "memory"), memory=True, approve=False),
    Role.GUEST: RoleSettings(toolsets=(), memory=False, approve=False, turns_per_hour=30),
}
"""What holds where the settings say nothing."""


class Person(Struct, frozen=True):
    """Somebody who may talk with Hermes."""

    id: str
    role: Role
    name: str = ""

    @property
    def owner(self) -> bool:
        """Whether this Hermes is theirs."""
        return self.role is Role.OWNER

    @property
    def leads(self) -> bool:
        """Whether they may look after it, and answer for others."""
        return self.role in (Role.OWNER, Role.ADMIN)

    @property
    def several(self) -> bool:
        """Whether these are people of one role who share a session."""
        return self.id.startswith(_TOGETHER)

    def covers(self, other: "Person") -> bool:
        """Whether somebody is this person, or one of these people."""
        return self.id == other.id or (self.several and self.role is other.role)


THE_OWNER = Person(OWNER_ID, Role.OWNER)


def together(person: Person, lane: str) -> Person:
    """Those who share a session with somebody in a chat or thread: all of their role. An owner is one person."""
    return person if person.owner else Person(f"{_TOGETHER}{person.role}:{lane}", person.role)


def rights(settings: GatewaySettings, role: Role) -> RoleSettings:
    """What people of a role may do."""
    default, given = _DEFAULTS[role], settings.roles.get(role)
    if given is None or role is Role.OWNER:
        return default
    chosen = {
        name: getattr(default, name) if getattr(given, name) is None else getattr(given, name)
        for name in RoleSettings.__struct_fields__
    }
    return RoleSettings(**chosen)


def options_for(base: Options, person: Person, may: RoleSettings) -> Options:
    """The options of a session that works for a person who may do this: whose it is, what it remembers, what it may
    reach and spend. People who share a session share no memory."""
    if person.owner:
        return base
    allowed, wanted = may.toolsets, base.enabled_toolsets
    sets = wanted if allowed is None else allowed if wanted is None else _common(wanted, allowed)
    return structs.replace(
        base,
        enabled_toolsets=sets,
        toolset_limit=allowed,
        person=person.id,
        remembers=bool(may.memory) and not person.several,
        confined=not person.leads,
        usd_per_day=may.usd_per_day,
        reviews=False,
    )


def _common(wanted: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for one in wanted if one in allowed)


class People:
    """Tells who an account belongs to, from the settings and from who was paired."""

    def __init__(self, app: "App") -> None:
        self._store = app.premises.store.chats
        self._settings = app.premises.settings.gateway

    async def who(self, account: AccountSettings, platform: str, sender: Sender) -> Person | None:
        """The person of an account; None for somebody whom nobody knows."""
        if not sender.id or (sender.bot and not account.allow_bots):
            return None
        known = await self._store.person_of(platform, sender.id)
        named = _named(account, sender.id)
        if named is Role.OWNER or (known is not None and known.id == OWNER_ID):
            return Person(OWNER_ID, Role.OWNER, sender.name)
        if known is not None:
            return Person(known.id, named or _below_owner(known.role), known.name or sender.name)
        return Person(f"{platform}:{sender.id}", named, sender.name) if named is not None else None

    async def by_id(self, person_id: str, account: AccountSettings) -> Person | None:
        """The person of this id as they are now; None for one whom nobody knows any more."""
        if person_id == OWNER_ID:
            return THE_OWNER
        if person_id.startswith(_TOGETHER):
            return Person(person_id, _below_owner(person_id.removeprefix(_TOGETHER).partition(":")[0]))
        known = await self._store.person(person_id)
        if known is not None:
            return Person(known.id, _below_owner(known.role), known.name)
        named = _named(account, person_id.partition(":")[2])
        return None if named is None else Person(person_id, named)

    def rights(self, role: Role) -> RoleSettings:
        """What people of a role may do."""
        return rights(self._settings, role)


def _below_owner(role: str) -> Role:
    """A stored role; there is one owner, whose id is known."""
    return Role(role) if role in (Role.ADMIN, Role.USER) else Role.GUEST


def _named(account: AccountSettings, sender_id: str) -> Role | None:
    """The role that the account's settings give somebody."""
    listed = (
        (Role.OWNER, account.owners),
        (Role.ADMIN, account.admins),
        (Role.USER, account.allow),
        (Role.GUEST, account.guests),
    )
    return next((role for role, ids in listed if sender_id in ids), None)
