"""How many turns somebody may have in an hour, and what they may spend in a day; what is refused is said once."""

from collections import deque

from msgspec import Struct, field

from hermes.admin.people.identity import rights
from hermes.gateway.people.identity import Person
from hermes.i18n.formats import moment
from hermes.i18n.messages import say
from hermes.sessions.app import App
from hermes.sessions.model.spending import PERSON, midnights, person_cap

HOUR = 3600.0
_DAY = 86_400.0
_MOST = 10_000
"""People whose turns are counted in memory; of others they are looked up again."""


class _Count(Struct):
    """One person's turns, and what was said to them."""

    turns: deque[float] = field(default_factory=deque)
    told: dict[str, float] = field(default_factory=dict)
    """Until when each kind of refusal was said already."""


class Quotas:
    """Holds everybody's turns and money against what their role may have. Times are those of the person's clock."""

    def __init__(self, app: App) -> None:
        self._on = app.premises
        self._counts: dict[str, _Count] = {}

    async def refusal(self, person: Person, payer: Person, spent_at: float) -> str | None:
        """Why somebody has no turn now, empty where they know already; None where they have one, which then counts.
        `payer` is whom the session works for: all who share it, or the person; `spent_at` is when it told them last
        that no money was left."""
        may = rights(self._on.settings.gateway, person.role)
        now = self._on.clock.now()
        if may.usd_per_day is None and not may.turns_per_hour:
            return None
        count, today = await self._count(person, now), midnights(now)[0]
        if may.usd_per_day is not None:
            if spent_at >= today:
                count.told[PERSON] = today + _DAY
            text = say("You have spent what you may spend in a day. It goes on tomorrow.")
            if PERSON in count.told or await self._spent(payer, may.usd_per_day):
                return self._said(count, PERSON, today + _DAY, text)
        if not may.turns_per_hour:
            return None
        while count.turns and count.turns[0] <= now - HOUR:
            count.turns.popleft()
        if len(count.turns) < may.turns_per_hour:
            count.turns.append(now)
            return None
        until = count.turns[0] + HOUR
        text = say("That was the last turn of this hour. The next one is possible {when}.", when=moment(until))
        return self._said(count, "turns", until, text)

    async def _count(self, person: Person, now: float) -> _Count:
        """Somebody's turns of the last hour; those before a restart are in the audit trail."""
        found = self._counts.get(person.id)
        if found is None:
            if len(self._counts) >= _MOST:
                self._counts.clear()
            before = await self._on.store.chats.done_since(person.id, "message", now - HOUR)
            found = self._counts.setdefault(person.id, _Count(deque(before)))  # somebody was faster meanwhile
        found.told = {kind: until for kind, until in found.told.items() if now < until}
        return found

    async def _spent(self, payer: Person, usd: float) -> bool:
        cap = person_cap(payer.id, usd, self._on.clock.now())
        if cap is None:
            return False
        (standing,) = await self._on.store.standings((cap,))
        return standing.nano >= (cap.nano or 0)

    @staticmethod
    def _said(count: _Count, kind: str, until: float, text: str) -> str:
        if kind in count.told:
            return ""
        count.told[kind] = until
        return text
