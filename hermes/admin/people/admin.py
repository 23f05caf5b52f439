"""What can be done about people: who may talk from chats, by which accounts, as what; and what they did."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import to_builtins

from hermes.admin.people.identity import OWNER_ID, THE_OWNER, Person, Role, rights
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.chats import Deed, Handle, KnownPerson
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.i18n.messages import phrase
from hermes.plugins import suggestion
from hermes.sessions.formats.openai_format import Plain
from hermes.store.store import Store
from hermes.util.clock import SystemClock

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
LENGTH = 8
LIFETIME = 3600.0
MOST_WAITING = 3
"""Codes that wait for one platform (X-55: eight characters of 32, an hour, three)."""
_ID = re.compile(r"[A-Za-z0-9][\w.:@!+-]{0,127}", re.ASCII)
_NAMED = (("owners", Role.OWNER), ("admins", Role.ADMIN), ("allow", Role.USER), ("guests", Role.GUEST))
_LESSER = (Role.USER, Role.GUEST)


class PeopleDesk:
    """The verbs about people, as `by` may use them: admins see to users and guests, only the owner to admins."""

    def __init__(self, store: Store, settings: Settings, by: Person = THE_OWNER) -> None:
        self._store = store.chats
        self._settings = settings
        self._by = by

    async def rows(self) -> list[Plain]:
        """Everybody who is known: paired or added, or named by an account's settings."""
        known = {one.id: one for one in await self._store.people()}
        handles = await self._store.handles()
        found: dict[str, Plain] = {}
        for one in (KnownPerson(id=OWNER_ID, name="", role=Role.OWNER), *known.values()):
            own = [_shown(each) for each in handles if each.person == one.id]
            role = Role.OWNER if one.id == OWNER_ID else one.role
            found[one.id] = {"id": one.id, "name": one.name, "role": str(role), "since": one.since, "accounts": own}
        for person_id, role, account in self._in_settings(handles):
            row = found.setdefault(person_id, {"id": person_id, "name": "", "since": 0.0, "accounts": []})
            row["role"] = str(role)  # what the settings say counts before what was stored
            accounts = row["accounts"]
            assert isinstance(accounts, list)
            if all(one["account"] != account["account"] or one["platform"] != account["platform"] for one in accounts):
                accounts.append(account)
        return list(found.values())

    async def row(self, name: str) -> Plain:
        """One of them, with what they may do. Raises NotFoundError."""
        rows = await self.rows()
        found = [one for one in rows if one["id"] == name] or [one for one in rows if name and one["name"] == name]
        if not found:
            near = suggestion(name, [str(one["id"]) for one in rows])
            raise NotFoundError(
                phrase("There is no person {name!r}.", name=name), near or phrase("`hermes people list` shows them.")
            )
        if len(found) > 1:
            ids = ", ".join(str(one["id"]) for one in found)
            raise UsageError(phrase("{name!r} could be {ids}.", name=name, ids=ids), phrase("Name the id."))
        may = rights(self._settings.gateway, Role(str(found[0]["role"])))
        granted: Plain = to_builtins(may)
        return found[0] | {"may": granted}

    async def add(self, person_id: str, *, name: str = "", role: str = Role.USER) -> Plain:
        """Let there be somebody of this id, who has no account yet. Raises UsageError."""
        if not _ID.fullmatch(person_id):
            raise UsageError(
                phrase("{id!r} cannot be a person's id.", id=person_id[:80]),
                phrase("Use letters, digits, `_`, `-`, `.`, `:` and `@`, 128 at most."),
            )
        if person_id == OWNER_ID or await self._store.person(person_id) is not None:
            raise UsageError(phrase("There is a person {id!r} already.", id=person_id))
        given = self._role(role)
        await self._store.put_person(person_id, name=name, role=given)
        await self._note("person added", f"{person_id} as {given}")
        return await self.row(person_id)

    async def rename(self, name: str, new: str) -> Plain:
        """Call somebody so; it changes nothing else, since nobody is known by a name."""
        person_id = await self._changeable(name)
        await self._store.put_person(person_id, name=new)
        await self._note("person renamed", f"{person_id}: {new}")
        return await self.row(person_id)

    async def give_role(self, name: str, role: str) -> Plain:
        """Let somebody be in another role. It counts from their next message on. Raises UsageError."""
        person_id, given = await self._changeable(name), self._role(role)
        if self._role_in_settings(person_id) is not None:
            raise _by_settings(person_id)
        await self._store.put_person(person_id, role=given)
        await self._note("role given", f"{person_id}: {given}")
        return await self.row(person_id)

    async def link(self, name: str, platform: str, account: str) -> Plain:
        """Let an account on a platform be somebody's. Raises UsageError while it is somebody else's."""
        if platform not in self._settings.platforms:
            near = suggestion(platform, list(self._settings.platforms))
            raise NotFoundError(
                phrase("No account {name!r} is set up under `platforms:`.", name=platform),
                near or phrase("`hermes gateway` says which are."),
            )
        person_id = await self._changeable(name, owner=True)
        before = await self._store.person_of(platform, account)
        if before is not None and before.id != person_id:
            raise UsageError(
                phrase("{platform} {account} is {id} already.", platform=platform, account=account, id=before.id),
                phrase("`hermes people unlink {platform} {account}` first.", platform=platform, account=account),
            )
        await self._store.put_person(person_id, role=Role.OWNER if person_id == OWNER_ID else None)
        await self._store.link_account(Handle(platform=platform, account=account, person=person_id))
        await self._note("account linked", f"{person_id}: {platform} {account}")
        return await self.row(person_id)

    async def unlink(self, platform: str, account: str) -> str:
        """Let an account be nobody's; whose it was. Raises NotFoundError."""
        before = await self._store.person_of(platform, account)
        if before is None:
            raise NotFoundError(phrase("{platform} {account} is nobody's.", platform=platform, account=account))
        await self._changeable(before.id, owner=True)
        await self._store.unlink_account(platform, account)
        await self._note("account unlinked", f"{before.id}: {platform} {account}")
        return before.id

    async def remove(self, name: str) -> str:
        """Know somebody no more: their messages get no answer. What they said, and their memories, stay until the
        sessions and files are deleted. Their id. Raises UsageError for who is named by the settings."""
        person_id = await self.removable(name)
        await self._store.remove_person(person_id)
        await self._note("person removed", person_id)
        return person_id

    async def removable(self, name: str) -> str:
        """The id of somebody who can be removed. Raises UsageError."""
        person_id = await self._changeable(name)
        if self._role_in_settings(person_id) is not None:
            raise _by_settings(person_id)
        return person_id

    async def offer(self, role: str = Role.USER, *, platform: str = "", name: str = "", person_id: str = "") -> str:
        """A fresh code; it is shown once and kept as a hash. With `person_id` it joins an account to somebody who is
        known already, and `role` does not count. Raises BusyError while too many wait, UsageError, NotFoundError."""
        if person_id:
            person_id = await self._changeable(person_id, owner=True)
        elif role == Role.OWNER:
            self._own("an owner")
            person_id = OWNER_ID
        given = Role.OWNER if person_id == OWNER_ID else self._role(role) if not person_id else Role.USER
        if person_id:  # somebody whom the settings name gets a row, which accounts can be joined to
            row = await self.row(person_id)
            given = Role(str(row["role"]))
            await self._store.put_person(person_id, role=given)
        if platform and platform not in self._settings.platforms:
            raise NotFoundError(phrase("No account {name!r} is set up under `platforms:`.", name=platform))
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        made = await self._store.offer_code(
            code,
            platform=platform,
            role=given.value,
            name=name,
            person_id=person_id,
            seconds=LIFETIME,
            most=MOST_WAITING,
        )
        if not made:
            raise BusyError(
                phrase("{count} codes are waiting already.", count=MOST_WAITING),
                phrase("`hermes pairing revoke` takes one back; each runs out after an hour."),
            )
        await self._note("code made", f"{person_id or given} {platform}".strip())
        return code

    async def codes(self) -> list[Plain]:
        """The codes that wait; none of them can be read."""
        rows: list[Plain] = [to_builtins(one) for one in await self._store.codes()]
        return rows

    async def revoke(self, code_id: str) -> None:
        """Let a code count no more. Raises NotFoundError."""
        waiting = next((one for one in await self._store.codes() if one.id == code_id.lower()), None)
        if waiting is None:
            raise NotFoundError(
                phrase("No code {id!r} waits.", id=code_id), phrase("`hermes pairing list` shows those that do.")
            )
        if not self._by.owner and waiting.role not in _LESSER:
            self._own("that code")
        await self._store.revoke_code(waiting.id)
        await self._note("code revoked", waiting.id)

    async def audit(self, *, person: str = "", platform: str = "", limit: int = 50) -> list[Plain]:
        """What was done from outside, the newest first."""
        deeds = await self._store.deeds(person=person or None, platform=platform or None, limit=limit)
        rows: list[Plain] = [to_builtins(one) for one in deeds]
        return rows

    def _role(self, role: str) -> Role:
        if role not in (Role.ADMIN, *_LESSER):
            known = ", ".join((Role.ADMIN, *_LESSER))
            hint = phrase("An account of the owner's is linked: `hermes people link owner PLATFORM ACCOUNT`.")
            near = hint if role == Role.OWNER else suggestion(role, [one.value for one in (Role.ADMIN, *_LESSER)])
            raise UsageError(phrase("{role!r} is no role to give; it may be {roles}.", role=role, roles=known), near)
        if role == Role.ADMIN:
            self._own("an admin")
        return Role(role)

    def _own(self, what: str) -> None:
        if not self._by.owner:
            raise UsageError(phrase("Only the owner can see to {what}.", what=what))

    async def _changeable(self, name: str, *, owner: bool = False) -> str:
        """The id of somebody whom `by` may change; the owner can be changed where `owner` says so."""
        row = await self.row(name)
        if row["id"] == OWNER_ID and not owner:
            raise UsageError(phrase("The owner stays the owner."))
        if row["role"] not in _LESSER:
            self._own(str(row["role"]))
        return str(row["id"])

    def _in_settings(self, handles: Sequence[Handle]) -> list[tuple[str, Role, dict[str, str]]]:
        """Who is named by the settings of accounts: their ids, roles and accounts."""
        linked = {(one.platform, one.account): one.person for one in handles}
        found = []
        for platform, given in self._settings.platforms.items():
            for key, role in _NAMED:
                ids = given.get(key)
                for account in ids if isinstance(ids, list | tuple) else ():
                    person = OWNER_ID if role is Role.OWNER else linked.get((platform, str(account)))
                    person = person or f"{platform}:{account}"
                    found.append((person, role, {"platform": platform, "account": str(account), "by": "settings"}))
        return found

    def _role_in_settings(self, person_id: str) -> Role | None:
        return next((role for one, role, _ in self._in_settings(()) if one == person_id), None)

    async def _note(self, what: str, detail: str) -> None:
        await self._store.note(Deed(platform="", account="", person=self._by.id, what=what, detail=detail))


def _shown(handle: Handle) -> dict[str, str]:
    return {"platform": handle.platform, "account": handle.account, "by": "pairing"}


def _by_settings(person_id: str) -> UsageError:
    return UsageError(
        phrase("The settings name {id}.", id=person_id),
        phrase("Change their account's line under `platforms:` in config.yaml."),
    )


@asynccontextmanager
async def open_people(environ: Mapping[str, str]) -> AsyncIterator[PeopleDesk]:
    """The desk of this home's owner. Makes the home when there is none."""
    home: Home = locate_home(environ)
    home.check()
    settings = load_settings(home).settings
    home.ensure()
    store = await Store.open(home.root, SystemClock())
    try:
        yield PeopleDesk(store, settings)
    finally:
        await store.close()
