"""How somebody becomes known: whoever looks after Hermes makes a code, and the other person sends it to the bot.

So nobody who is unknown is ever answered. The numbers are those of X-55: five wrong codes and an hour's rest; how codes
are made is in `admin/people/admin.py`.
"""

import re

from hermes.admin.people.admin import ALPHABET, LENGTH, PeopleDesk
from hermes.core.chats import Arrival, ChatKind, Deed
from hermes.gateway.people.identity import OWNER_ID, Person, Role
from hermes.sessions.app import App

MOST_FAILURES = 5
LOCKED_SECONDS = 3600.0
NOTE_EVERY = 600.0
"""Seconds in which a stranger's messages are noted once."""
_CODE = re.compile(rf"[{ALPHABET}]{{{LENGTH}}}")


class Pairing:
    """Makes codes and takes them."""

    def __init__(self, app: App) -> None:
        self._store = app.premises.store.chats
        self._clock = app.premises.clock
        self._desk = PeopleDesk(app.premises.store, app.premises.settings)
        self._noted: dict[tuple[str, str], float] = {}

    async def offer(self, role: Role, *, platform: str = "", name: str = "", person_id: str = "") -> str:
        """A fresh code, as the owner makes one."""
        return await self._desk.offer(role, platform=platform, name=name, person_id=person_id)

    async def tried(self, platform: str, arrival: Arrival) -> Person | None:
        """Who somebody unknown becomes by what they sent; None when it is no code that counts."""
        word = re.sub(r"[\s-]", "", arrival.text).upper()
        sender = arrival.sender
        if arrival.place.kind is not ChatKind.DM or sender.bot or not _CODE.fullmatch(word):
            await self.note(platform, arrival, "unknown sender")
            return None
        known = await self._store.redeem_code(
            word, platform, sender.id, sender.name, most=MOST_FAILURES, locked=LOCKED_SECONDS
        )
        if known is None:
            await self.note(platform, arrival, "wrong code")
            return None
        await self._store.note(
            Deed(platform=platform, account=sender.id, person=known.id, what="paired", detail=known.role)
        )
        role = Role.OWNER if known.id == OWNER_ID else Role(known.role)
        return Person(known.id, role, known.name)

    async def note(self, platform: str, arrival: Arrival, what: str) -> None:
        """Write down that somebody was turned away; the same sender's messages once in a while."""
        now = self._clock.now()
        key = (platform, arrival.sender.id)
        if now - self._noted.get(key, 0.0) < NOTE_EVERY:
            return
        if len(self._noted) > 10_000:
            self._noted.clear()
        self._noted[key] = now
        await self._store.note(Deed(platform=platform, account=arrival.sender.id, person="", what=what))
