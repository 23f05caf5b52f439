"""Who somebody is: by the platform's own id of their account, never by a name."""

from enum import StrEnum

from msgspec import Struct

from hermes.app.wiring import App
from hermes.config.gateway import AccountSettings, RoleSettings
from hermes.core.chats import Sender

OWNER_ID = "owner"
"""The person whose Hermes this is, wherever they are; the one at its terminal."""


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


class People:
    """Tells who an account belongs to, from the settings and from who was paired."""

    def __init__(self, app: App) -> None:
        self._store = app.premises.store.chats
        self._settings = app.premises.settings.gateway

    async def who(self, account: AccountSettings, platform: str, sender: Sender) -> Person | None:
        """The person of an account; None for somebody whom nobody knows."""
        if not sender.id or (sender.bot and not account.allow_bots):
            return None
        known = await self._store.person_of(platform, sender.id)
        named = _named(account, sender.id)
        if named is Role.OWNER:
            return Person(OWNER_ID, Role.OWNER, sender.name)
        if known is not None:
            return Person(known.id, named or Role(known.role), known.name or sender.name)
        return Person(f"{platform}:{sender.id}", named, sender.name) if named is not None else None

    async def by_id(self, person_id: str, account: AccountSettings) -> Person:
        """The person of this id as they are now; one whom nobody knows any more is a guest."""
        known = await self._store.person(person_id)
        if known is not None:
            return Person(known.id, Role(known.role), known.name)
        named = _named(account, person_id.partition(":")[2])
        return Person(person_id, named or Role.GUEST)

    def rights(self, role: Role) -> RoleSettings:
        """What people of a role may do."""
        default, given = _DEFAULTS[role], self._settings.roles.get(role)
        if given is None or role is Role.OWNER:
            return default
        chosen = {
            name: getattr(default, name) if getattr(given, name) is None else getattr(given, name)
            for name in RoleSettings.__struct_fields__
        }
        return RoleSettings(**chosen)


def _named(account: AccountSettings, sender_id: str) -> Role | None:
    """The role that the account's settings give somebody."""
    listed = (
        (Role.OWNER, account.owners),
        (Role.ADMIN, account.admins),
        (Role.USER, account.allow),
        (Role.GUEST, account.guests),
    )
    return next((role for role, ids in listed if sender_id in ids), None)
