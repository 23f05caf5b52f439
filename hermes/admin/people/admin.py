"""Administer people: who may talk from chats, with which accounts and role, and the audit log."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from hermes.admin.home_services import open_home_services
from hermes.admin.people.identity import OWNER_ID, OWNER_IDENTITY, PersonIdentity, PersonRole, role_rights
from hermes.config.settings import Settings
from hermes.core.chats import (
    AuditEntry,
    KnownPerson,
    NewPairingCode,
    OutboxItem,
    Outgoing,
    PairingRequest,
    PlatformHandle,
)
from hermes.core.encoding import Plain, to_plain
from hermes.core.errors import BusyError, NotFoundError, UsageError
from hermes.core.ids import new_queued_message_id
from hermes.i18n.messages import N_, tr
from hermes.plugins import suggest_name
from hermes.store.store import Store

CODE_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_LENGTH = 8
CODE_LIFETIME_SECONDS = 3600.0
MAX_PENDING_CODES = 3
"""The most pairing codes that may be pending for one platform."""
CODE_FORM = re.compile(rf"[{CODE_ALPHABET}]{{{CODE_LENGTH}}}")
PAIRING_LINK = "pairing_link"
"""The cursor of an account that holds the address by which a code is sent to its bot: `{code}` stands for the code."""
BOT_NAME = "bot_name"
"""The cursor of an account that holds the name under which people find its bot."""
_PERSON_ID = re.compile(r"[A-Za-z0-9][\w.:@!+-]{0,127}", re.ASCII)
_ROLE_SETTINGS = (
    ("owners", PersonRole.OWNER),
    ("admins", PersonRole.ADMIN),
    ("allow", PersonRole.USER),
    ("guests", PersonRole.GUEST),
)
_UNPRIVILEGED_ROLES = (PersonRole.USER, PersonRole.GUEST)


class PairingBot(Struct, frozen=True, kw_only=True):
    """A bot that takes a pairing code: the name under which people find it, and the address that sends the code; empty
    where they are not known.
    """

    account: str
    name: str
    link: str


class PeopleAdmin:
    """Operations on people, with the rights of `by`.

    Admins manage users and guests; only the owner manages admins.
    """

    def __init__(self, store: Store, settings: Settings, by: PersonIdentity = OWNER_IDENTITY) -> None:
        self._store = store
        self._settings = settings
        self._by = by

    async def list_people(self) -> list[Plain]:
        """List everybody who was paired or added, or who is named by an account's settings."""
        known = {one.id: one for one in await self._store.people.list_all()}
        handles = await self._store.people.list_handles()
        found: dict[str, Plain] = {}
        for one in (KnownPerson(id=OWNER_ID, name="", role=PersonRole.OWNER), *known.values()):
            own = [_handle_row(each) for each in handles if each.person == one.id]
            role = PersonRole.OWNER if one.id == OWNER_ID else one.role
            found[one.id] = {"id": one.id, "name": one.name, "role": str(role), "since": one.since, "accounts": own}
        for person_id, role, account in self._people_in_settings(handles):
            row = found.setdefault(person_id, {"id": person_id, "name": "", "since": 0.0, "accounts": []})
            row["role"] = str(role)  # what the settings say counts before what was stored
            accounts = row["accounts"]
            assert isinstance(accounts, list)
            if all(one["account"] != account["account"] or one["platform"] != account["platform"] for one in accounts):
                accounts.append(account)
        return list(found.values())

    async def find_person(self, name: str) -> Plain:
        """Return one person with their rights. Raises NotFoundError."""
        rows = await self.list_people()
        found = [one for one in rows if one["id"] == name] or [one for one in rows if name and one["name"] == name]
        if not found:
            raise NotFoundError(
                N_("There is no person {name!r}.", name=name),
                _suggest_person(name, rows) or N_("`hermes people list` shows them."),
            )
        if len(found) > 1:
            ids = ", ".join(str(one["id"]) for one in found)
            raise UsageError(N_("{name!r} could be {ids}.", name=name, ids=ids), N_("Name the id."))
        may = role_rights(self._settings.gateway, PersonRole(str(found[0]["role"])))
        granted: Plain = to_plain(may)
        return found[0] | {"may": granted}

    async def add_person(self, person_id: str, *, name: str = "", role: str = PersonRole.USER) -> Plain:
        """Add a person with this id, who has no account yet. Raises UsageError."""
        if not _PERSON_ID.fullmatch(person_id):
            raise UsageError(
                N_("{id!r} cannot be a person's id.", id=person_id[:80]),
                N_("Use letters, digits, `_`, `-`, `.`, `:` and `@`, 128 at most."),
            )
        if person_id == OWNER_ID or await self._store.people.get(person_id) is not None:
            raise UsageError(N_("There is a person {id!r} already.", id=person_id))
        given = self._parse_role(role)
        await self._store.people.upsert(person_id, name=name, role=given)
        await self._audit("person added", f"{person_id} as {given}")
        return await self.find_person(person_id)

    async def rename_person(self, name: str, new: str) -> Plain:
        """Change a person's display name; identity does not depend on it."""
        person_id = await self._find_changeable(name)
        await self._store.people.upsert(person_id, name=new)
        await self._audit("person renamed", f"{person_id}: {new}")
        return await self.find_person(person_id)

    async def set_role(self, name: str, role: str) -> Plain:
        """Give a person another role, valid from their next message on. Raises UsageError."""
        person_id, given = await self._find_changeable(name), self._parse_role(role)
        if self._role_in_settings(person_id) is not None:
            raise _named_by_settings_error(person_id)
        await self._store.people.upsert(person_id, role=given)
        await self._audit("role given", f"{person_id}: {given}")
        return await self.find_person(person_id)

    async def link_account(self, name: str, platform: str, account: str) -> Plain:
        """Link an account on a platform to a person. Raises UsageError while it is somebody else's."""
        if platform not in self._settings.platforms:
            near = suggest_name(platform, list(self._settings.platforms))
            raise NotFoundError(
                N_("No account {name!r} is set up under `platforms:`.", name=platform),
                near or N_("`hermes gateway` says which are."),
            )
        person_id = await self._find_changeable(name, owner=True)
        before = await self._store.people.find_by_account(platform, account)
        if before is not None and before.id != person_id:
            raise UsageError(
                N_("{platform} {account} is {id} already.", platform=platform, account=account, id=before.id),
                N_("`hermes people unlink {platform} {account}` first.", platform=platform, account=account),
            )
        await self._store.people.upsert(person_id, role=PersonRole.OWNER if person_id == OWNER_ID else None)
        await self._store.people.link_account(PlatformHandle(platform=platform, account=account, person=person_id))
        await self._audit("account linked", f"{person_id}: {platform} {account}")
        return await self.find_person(person_id)

    async def unlink_account(self, platform: str, account: str) -> str:
        """Unlink an account and return whose it was. Raises NotFoundError."""
        before = await self._store.people.find_by_account(platform, account)
        if before is None:
            raise NotFoundError(N_("{platform} {account} belongs to nobody.", platform=platform, account=account))
        await self._find_changeable(before.id, owner=True)
        await self._store.people.unlink_account(platform, account)
        await self._audit("account unlinked", f"{before.id}: {platform} {account}")
        return before.id

    async def remove_person(self, name: str) -> str:
        """Remove a person, so that their messages get no answer, and return their id.

        Their messages and memories stay until the sessions and files are deleted. Raises UsageError for a
        person who is named by the settings.
        """
        person_id = await self.find_removable_person(name)
        await self._store.people.remove(person_id)
        await self._audit("person removed", person_id)
        return person_id

    async def find_removable_person(self, name: str) -> str:
        """Return the id of a person who can be removed. Raises UsageError."""
        person_id = await self._find_changeable(name)
        if self._role_in_settings(person_id) is not None:
            raise _named_by_settings_error(person_id)
        return person_id

    async def create_code(
        self, role: str = PersonRole.USER, *, platform: str = "", name: str = "", person_id: str = ""
    ) -> str:
        """Create a pairing code; it is shown once and stored as a hash.

        With `person_id` it joins an account to a known person, and `role` does not count. Raises BusyError
        while too many are pending, UsageError, NotFoundError.
        """
        if person_id:
            person_id = await self._find_changeable(person_id, owner=True)
        elif role == PersonRole.OWNER:
            self._require_owner("an owner")
            person_id = OWNER_ID
        given = (
            PersonRole.OWNER if person_id == OWNER_ID else self._parse_role(role) if not person_id else PersonRole.USER
        )
        if person_id:  # somebody whom the settings name gets a row, which accounts can be joined to
            row = await self.find_person(person_id)
            given = PersonRole(str(row["role"]))
            await self._store.people.upsert(person_id, role=given)
        if platform and platform not in self._settings.platforms:
            raise NotFoundError(N_("No account {name!r} is set up under `platforms:`.", name=platform))
        code = make_code()
        made = await self._store.people.offer_pairing_code(
            NewPairingCode(code=code, platform=platform, role=given.value, person=person_id, name=name),
            seconds=CODE_LIFETIME_SECONDS,
            most=MAX_PENDING_CODES,
        )
        if not made:
            raise BusyError(
                N_("{count} codes are waiting already.", count=MAX_PENDING_CODES),
                N_("`hermes pairing revoke` takes one back; each runs out after an hour."),
            )
        await self._audit("code made", f"{person_id or given} {platform}".strip())
        return code

    async def find_bots(self, code: str, platform: str) -> list[PairingBot]:
        """Return the bots that take a code, as far as they were connected: where they are found, and the address that
        sends the code when it is opened.
        """
        found = []
        for name in (platform,) if platform else tuple(self._settings.platforms):
            known = await self._store.chats.get_cursors(name)
            link = known.get(PAIRING_LINK, "").replace("{code}", code)
            found.append(PairingBot(account=name, name=known.get(BOT_NAME, ""), link=link))
        return found

    async def list_requests(self) -> list[Plain]:
        """List the unknown people who ask to be let in; whom the settings name meanwhile is known."""
        known = {(one["platform"], one["account"]) for _, _, one in self._people_in_settings(())}
        return [
            {"platform": one.platform, "account": one.account, "name": one.name, "expires_at": one.expires_at}
            for one in await self._store.people.list_pairing_requests()
            if (one.platform, one.account) not in known
        ]

    async def approve_request(self, code: str, role: str = PersonRole.USER, *, platform: str = "") -> PairingRequest:
        """Let the person in who was shown this code, on that platform where one is named, and tell them. Raises
        NotFoundError, UsageError.
        """
        given, word = self._parse_role(role), normalize_code(code)
        wish = await self._require_request(word, platform)
        text = tr("You are known here now, as {role}. Write what you want.", role=given.value)
        key = f"paired:{new_queued_message_id()}"
        note = OutboxItem(key=key, message=Outgoing(place=wish.place, text=text, key=key))
        if not await self._store.people.settle_pairing_request(word, given.value, (note,)):
            raise _no_request_error(code)
        await self._audit("request approved", f"{wish.platform} {wish.account} as {given}")
        return wish

    async def deny_request(self, code: str, *, platform: str = "") -> PairingRequest:
        """Refuse the person who was shown this code; they hear nothing of it. Raises NotFoundError."""
        word = normalize_code(code)
        wish = await self._require_request(word, platform)
        if not await self._store.people.settle_pairing_request(word, ""):
            raise _no_request_error(code)
        await self._audit("request refused", f"{wish.platform} {wish.account}")
        return wish

    async def _require_request(self, word: str, platform: str) -> PairingRequest:
        found = await self._store.people.find_pairing_request(word) if CODE_FORM.fullmatch(word) else None
        if found is None:
            raise _no_request_error(word)
        if platform and found.platform != platform:
            raise NotFoundError(
                N_("The code {code} belongs to a request on {platform}.", code=word, platform=found.platform),
                N_("`hermes pairing list` shows who waits."),
            )
        return found

    async def list_codes(self) -> list[Plain]:
        """List the pending codes; none of them can be read."""
        rows: list[Plain] = [to_plain(one) for one in await self._store.people.list_pairing_codes()]
        return rows

    async def revoke_code(self, code_id: str) -> None:
        """Revoke a pending code. Raises NotFoundError."""
        waiting = next(
            (one for one in await self._store.people.list_pairing_codes() if one.id == code_id.lower()), None
        )
        if waiting is None:
            raise NotFoundError(
                N_("No code {id!r} waits.", id=code_id), N_("`hermes pairing list` shows those that do.")
            )
        if not self._by.is_owner and waiting.role not in _UNPRIVILEGED_ROLES:
            self._require_owner("that code")
        await self._store.people.revoke_pairing_code(waiting.id)
        await self._audit("code revoked", waiting.id)

    async def list_audit(self, *, person: str = "", platform: str = "", limit: int = 50) -> list[Plain]:
        """List the audit entries of actions from chats, the newest first."""
        deeds = await self._store.people.list_audit_entries(
            person=person or None, platform=platform or None, limit=limit
        )
        rows: list[Plain] = [to_plain(one) for one in deeds]
        return rows

    def _parse_role(self, role: str) -> PersonRole:
        if role not in (PersonRole.ADMIN, *_UNPRIVILEGED_ROLES):
            known = ", ".join((PersonRole.ADMIN, *_UNPRIVILEGED_ROLES))
            hint = N_("An account of the owner's is linked: `hermes people link owner PLATFORM ACCOUNT`.")
            near = (
                hint
                if role == PersonRole.OWNER
                else suggest_name(role, [one.value for one in (PersonRole.ADMIN, *_UNPRIVILEGED_ROLES)])
            )
            raise UsageError(
                N_("{role!r} is not a role that can be given; possible: {roles}.", role=role, roles=known), near
            )
        if role == PersonRole.ADMIN:
            self._require_owner("an admin")
        return PersonRole(role)

    def _require_owner(self, what: str) -> None:
        if not self._by.is_owner:
            raise UsageError(N_("Only the owner can manage {what}.", what=what))

    async def _find_changeable(self, name: str, *, owner: bool = False) -> str:
        """Return the id of a person whom `by` may change; the owner only where `owner` allows it."""
        row = await self.find_person(name)
        if row["id"] == OWNER_ID and not owner:
            raise UsageError(N_("The owner stays the owner."))
        if row["role"] not in _UNPRIVILEGED_ROLES:
            self._require_owner(str(row["role"]))
        return str(row["id"])

    def _people_in_settings(self, handles: Sequence[PlatformHandle]) -> list[tuple[str, PersonRole, dict[str, str]]]:
        """List the people whom the settings of accounts name: their ids, roles and accounts."""
        linked = {(one.platform, one.account): one.person for one in handles}
        found = []
        for platform, given in self._settings.platforms.items():
            for key, role in _ROLE_SETTINGS:
                ids = given.get(key)
                for account in ids if isinstance(ids, list | tuple) else ():
                    person = OWNER_ID if role is PersonRole.OWNER else linked.get((platform, str(account)))
                    person = person or f"{platform}:{account}"
                    found.append((person, role, {"platform": platform, "account": str(account), "by": "settings"}))
        return found

    def _role_in_settings(self, person_id: str) -> PersonRole | None:
        return next((role for one, role, _ in self._people_in_settings(()) if one == person_id), None)

    async def _audit(self, what: str, detail: str) -> None:
        await self._store.people.add_audit_entry(
            AuditEntry(platform="", account="", person=self._by.id, what=what, detail=detail)
        )


def make_code() -> str:
    """Return a fresh pairing code."""
    return "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))


def normalize_code(text: str) -> str:
    """Return a code as it was made: in capital letters, without the spaces and hyphens that people put into it."""
    return re.sub(r"[\s-]", "", text).upper()


def _no_request_error(code: str) -> NotFoundError:
    return NotFoundError(
        N_("Nobody waits with the code {code}.", code=code[:20]), N_("`hermes pairing list` shows who waits.")
    )


def _suggest_person(name: str, rows: Sequence[Plain]) -> str:
    """Return a `did you mean` sentence: whose account it is, else the nearest id."""
    owners = [repr(one["id"]) for one in rows if name in _list_account_ids(one)]
    if owners:
        return N_("Did you mean {names}?", names=", ".join(owners))
    return suggest_name(name, [str(one["id"]) for one in rows])


def _list_account_ids(row: Plain) -> list[str]:
    accounts = row["accounts"]
    return [str(one["account"]) for one in accounts] if isinstance(accounts, list) else []


def _handle_row(handle: PlatformHandle) -> dict[str, str]:
    return {"platform": handle.platform, "account": handle.account, "by": "pairing"}


def _named_by_settings_error(person_id: str) -> UsageError:
    return UsageError(
        N_("The settings name {id}.", id=person_id),
        N_("Change their account's line under `platforms:` in config.yaml."),
    )


@asynccontextmanager
async def open_people_admin(environ: Mapping[str, str]) -> AsyncIterator[PeopleAdmin]:
    """Open the people of this home, with the owner's rights. Creates the home when there is none."""
    async with open_home_services(environ) as on:
        yield PeopleAdmin(on.store, on.settings)
