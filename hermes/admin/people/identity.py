"""Identify people by their platform's account id, never by a name, and tell what they may do."""

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from hermes.config.gateway import AccountSettings, GatewaySettings, RoleSettings
from hermes.core.chats import Sender
from hermes.sessions.options import SessionOptions

if TYPE_CHECKING:
    from hermes.sessions.app import App

OWNER_ID = "owner"
"""The id of the person whose Hermes this is, on every platform and at the terminal."""
_GROUP_PREFIX = "~"
"""The prefix of the id of people who share a session; no single person's id has it."""


class PersonRole(StrEnum):
    """The roles of people, from the most to the least powerful."""

    OWNER = "owner"
    ADMIN = "admin"
    USER = "user"
    GUEST = "guest"


_DEFAULT_ROLE_SETTINGS = {
    PersonRole.OWNER: RoleSettings(memory=True, approve=True),
    PersonRole.ADMIN: RoleSettings(memory=True, approve=True),
    PersonRole.USER: RoleSettings(toolsets=("web", "todo", "clarify", "memory"), memory=True, approve=False),
    PersonRole.GUEST: RoleSettings(toolsets=(), memory=False, approve=False, turns_per_hour=30),
}
"""The rights of each role where the settings say nothing."""


class PersonIdentity(Struct, frozen=True):
    """A person who may talk with Hermes, or people of one role who share a session."""

    id: str
    role: PersonRole
    name: str = ""

    @property
    def is_owner(self) -> bool:
        """Whether this person owns this Hermes."""
        return self.role is PersonRole.OWNER

    @property
    def can_administer(self) -> bool:
        """Whether they may administer this Hermes, and answer for others."""
        return self.role in (PersonRole.OWNER, PersonRole.ADMIN)

    @property
    def is_group(self) -> bool:
        """Whether these are people of one role who share a session."""
        return self.id.startswith(_GROUP_PREFIX)

    def includes_person(self, other: "PersonIdentity") -> bool:
        """Return whether somebody is this person, or one of these people."""
        return self.id == other.id or (self.is_group and self.role is other.role)


OWNER_IDENTITY = PersonIdentity(OWNER_ID, PersonRole.OWNER)


def session_person(person: PersonIdentity) -> str:
    """Return how stored sessions name a person: by their id, the owner by an empty one."""
    return "" if person.is_owner else person.id


def group_identity(person: PersonIdentity, chat_key: str) -> PersonIdentity:
    """Return the identity of all who share a session with somebody in a chat or thread.

    These are all people of the same role. An owner stays one person.
    """
    return person if person.is_owner else PersonIdentity(f"{_GROUP_PREFIX}{person.role}:{chat_key}", person.role)


def role_rights(settings: GatewaySettings, role: PersonRole) -> RoleSettings:
    """Return the rights of a role."""
    default, given = _DEFAULT_ROLE_SETTINGS[role], settings.roles.get(role)
    if given is None or role is PersonRole.OWNER:
        return default
    chosen = {
        name: getattr(default, name) if getattr(given, name) is None else getattr(given, name)
        for name in RoleSettings.__struct_fields__
    }
    return RoleSettings(**chosen)


def person_options(base: SessionOptions, person: PersonIdentity, rights: RoleSettings) -> SessionOptions:
    """Return the session options of a person with these rights: owner, memory, tools and spending.

    People who share a session share no memory.
    """
    if person.is_owner:
        return base
    allowed, wanted = rights.toolsets, base.enabled_toolsets
    sets = wanted if allowed is None else allowed if wanted is None else _common_toolsets(wanted, allowed)
    return structs.replace(
        base,
        enabled_toolsets=sets,
        toolset_limit=allowed,
        role=str(person.role),
        person=session_person(person),
        remembers=bool(rights.memory) and not person.is_group,
        confined=not person.can_administer,
        usd_per_day=rights.usd_per_day,
        reviews=False,
    )


def _common_toolsets(wanted: tuple[str, ...], allowed: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for one in wanted if one in allowed)


class PersonResolver:
    """Finds the person behind an account, from the settings and from pairings."""

    def __init__(self, app: "App") -> None:
        self._services = app.services
        self._store = app.services.store

    async def resolve_sender(self, account: AccountSettings, platform: str, sender: Sender) -> PersonIdentity | None:
        """Return the person of an account, or None for an unknown sender."""
        if not sender.id or (sender.bot and not account.allow_bots):
            return None
        known = await self._store.people.find_by_account(platform, sender.id)
        named = _configured_role(account, sender.id)
        if named is PersonRole.OWNER or (known is not None and known.id == OWNER_ID):
            return PersonIdentity(OWNER_ID, PersonRole.OWNER, sender.name)
        if known is not None:
            return PersonIdentity(known.id, named or _stored_role(known.role), known.name or sender.name)
        return PersonIdentity(f"{platform}:{sender.id}", named, sender.name) if named is not None else None

    async def is_known(self, account: AccountSettings, platform: str, sender_id: str) -> bool:
        """Return whether the person of an account of a platform is known."""
        return await self.resolve_sender(account, platform, Sender(sender_id)) is not None

    async def find_person(self, person_id: str, account: AccountSettings) -> PersonIdentity | None:
        """Return the person of this id with their current role, or None for one who is not known any more."""
        if person_id == OWNER_ID:
            return OWNER_IDENTITY
        if person_id.startswith(_GROUP_PREFIX):
            return PersonIdentity(person_id, _stored_role(person_id.removeprefix(_GROUP_PREFIX).partition(":")[0]))
        known = await self._store.people.get(person_id)
        if known is not None:
            return PersonIdentity(known.id, _stored_role(known.role), known.name)
        named = _configured_role(account, person_id.partition(":")[2])
        return None if named is None else PersonIdentity(person_id, named)

    def role_rights(self, role: PersonRole) -> RoleSettings:
        """Return the rights of a role."""
        return role_rights(self._services.settings.gateway, role)


def _stored_role(role: str) -> PersonRole:
    """Parse a stored role; only the owner's id can mean the owner."""
    return PersonRole(role) if role in (PersonRole.ADMIN, PersonRole.USER) else PersonRole.GUEST


def _configured_role(account: AccountSettings, sender_id: str) -> PersonRole | None:
    """Return the role that the account's settings give somebody, or None."""
    listed = (
        (PersonRole.OWNER, account.owners),
        (PersonRole.ADMIN, account.admins),
        (PersonRole.USER, account.allow),
        (PersonRole.GUEST, account.guests),
    )
    return next((role for role, ids in listed if sender_id in ids), None)
