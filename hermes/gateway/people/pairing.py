"""Pairing: whoever administers Hermes makes a code, and another person becomes known by sending it to the bot.

So nobody unknown is ever answered. Five wrong codes lock an account for an hour; how codes are made is in
`admin/people/admin.py`.
"""

import re

from hermes.admin.people.admin import CODE_ALPHABET, CODE_LENGTH, PeopleAdmin
from hermes.admin.people.identity import OWNER_ID, PersonIdentity, PersonRole
from hermes.core.chats import AuditEntry, ChatKind, InboundEvent
from hermes.sessions.app import App

MAX_FAILURES = 5
LOCKED_SECONDS = 3600.0
NOTE_INTERVAL = 600.0
"""Seconds within which an unknown sender's messages are noted once."""
_CODE = re.compile(rf"[{CODE_ALPHABET}]{{{CODE_LENGTH}}}")


class PairingCodes:
    """Makes pairing codes and redeems them."""

    def __init__(self, app: App) -> None:
        self._store = app.services.store
        self._clock = app.services.clock
        self._people_admin = PeopleAdmin(app.services.store, app.services.settings)
        self._noted: dict[tuple[str, str], float] = {}

    async def create_code(self, role: PersonRole, *, platform: str = "", name: str = "", person_id: str = "") -> str:
        """Return a fresh code, as the owner makes one."""
        return await self._people_admin.create_code(role, platform=platform, name=name, person_id=person_id)

    async def redeem_code(self, platform: str, event: InboundEvent) -> PersonIdentity | None:
        """Return the person that an unknown sender becomes by this message; None when it is no valid code."""
        word = re.sub(r"[\s-]", "", event.text).upper()
        sender = event.sender
        if event.place.kind is not ChatKind.DM or sender.bot or not _CODE.fullmatch(word):
            await self.note_rejection(platform, event, "unknown sender")
            return None
        known = await self._store.people.redeem_pairing_code(
            word, platform, sender.id, sender.name, most=MAX_FAILURES, locked=LOCKED_SECONDS
        )
        if known is None:
            await self.note_rejection(platform, event, "wrong code")
            return None
        await self._store.people.add_audit_entry(
            AuditEntry(platform=platform, account=sender.id, person=known.id, what="paired", detail=known.role)
        )
        role = PersonRole.OWNER if known.id == OWNER_ID else PersonRole(known.role)
        return PersonIdentity(known.id, role, known.name)

    async def note_rejection(self, platform: str, event: InboundEvent, what: str) -> None:
        """Note that a sender was turned away; repeated messages of one sender are noted once in a while."""
        now = self._clock.now()
        key = (platform, event.sender.id)
        if now - self._noted.get(key, 0.0) < NOTE_INTERVAL:
            return
        if len(self._noted) > 10_000:
            self._noted.clear()
        self._noted[key] = now
        await self._store.people.add_audit_entry(
            AuditEntry(platform=platform, account=event.sender.id, person="", what=what)
        )
