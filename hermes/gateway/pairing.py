"""How somebody becomes known: whoever looks after Hermes makes a code, and the other person sends it to the bot.

So nobody who is unknown is ever answered. The numbers are those of X-55: eight characters of 32, an hour, three codes
waiting on a platform, five wrong ones and an hour's rest.
"""

import re
import secrets

from hermes.app.wiring import App
from hermes.core.chats import Arrival, ChatKind, Deed
from hermes.core.errors import BusyError
from hermes.gateway.people import Person, Role
from hermes.util.say import phrase

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
LENGTH = 8
LIFETIME = 3600.0
MOST_WAITING = 3
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
        self._noted: dict[tuple[str, str], float] = {}

    async def offer(self, role: Role, *, platform: str = "", name: str = "", person_id: str = "") -> str:
        """A fresh code; it is shown once and kept as a hash. With `person_id` it joins an account to somebody who is
        known already. Raises BusyError while too many wait."""
        code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        made = await self._store.offer_code(
            code,
            platform=platform,
            role=role.value,
            name=name,
            person_id=person_id,
            seconds=LIFETIME,
            most=MOST_WAITING,
        )
        if not made:
            raise BusyError(
                phrase("{count} codes are waiting already.", count=MOST_WAITING),
                phrase("Use one of them, or wait until they have run out (an hour)."),
            )
        return code

    async def tried(self, platform: str, arrival: Arrival) -> Person | None:
        """Who somebody unknown becomes by what they sent; None when it is no code that counts."""
        word = re.sub(r"[\s-]", "", arrival.text).upper()
        sender = arrival.sender
        if arrival.place.kind is not ChatKind.DM or sender.bot or not _CODE.fullmatch(word):
            await self._note(platform, arrival, "unknown sender")
            return None
        known = await self._store.redeem_code(
            word, platform, sender.id, sender.name, most=MOST_FAILURES, locked=LOCKED_SECONDS
        )
        if known is None:
            await self._note(platform, arrival, "wrong code")
            return None
        await self._store.note(
            Deed(platform=platform, account=sender.id, person=known.id, what="paired", detail=known.role)
        )
        return Person(known.id, Role(known.role), known.name)

    async def _note(self, platform: str, arrival: Arrival, what: str) -> None:
        now = self._clock.now()
        key = (platform, arrival.sender.id)
        if now - self._noted.get(key, 0.0) < NOTE_EVERY:
            return
        if len(self._noted) > 10_000:
            self._noted.clear()
        self._noted[key] = now
        await self._store.note(Deed(platform=platform, account=arrival.sender.id, person="", what=what))
