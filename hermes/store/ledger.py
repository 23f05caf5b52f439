"""The store's verbs about money and tokens."""

from asyncio import Future
from collections.abc import Sequence

import apsw

from hermes.core.usage import Usage
from hermes.store import spending
from hermes.store.access import Access
from hermes.store.rows import (
    Cap,
    Held,
    NoRoom,
    OpenCall,
    SessionTotal,
    Spender,
    SpendTotal,
    Spent,
    Standing,
    ToolTotal,
    Wish,
)
from hermes.util.process_identity import is_alive


class SpendAccess(Access):
    """What model calls cost, kept when their session is deleted, and the room that is held for those under way."""

    def record_spend(self, who: Spender, spent: Spent) -> Future[None]:
        """Queue what a call cost behind every write before and go on."""
        now = self._clock.now()
        return self._database.submit(lambda connection: spending.record(connection, who, spent, now))

    def reserve(self, who: Spender, wish: Wish, caps: Sequence[Cap]) -> Future[Held | NoRoom]:
        """Queue the holding of a call's worst case under every cap: all of them, or none.

        What processes that died have held is settled first. One transaction, so several processes cannot hold the same
        room.
        """
        now = self._clock.now()

        def work(connection: apsw.Connection) -> Held | NoRoom:
            spending.settle_lost(connection, is_alive, who.owner)
            return spending.reserve(connection, who, wish, caps, now)

        return self._database.submit(work)

    def settle(self, held: int, spent: Spent | None) -> Future[None]:
        """Queue what a call cost in the place of what was held for it; None: it was not served."""
        if spent is None:
            return self._database.submit(lambda connection: spending.release(connection, held))
        return self._database.submit(lambda connection: spending.settle(connection, held, spent))

    async def settle_lost(self, own: str = "") -> int:
        """Settle what processes that died have held, at its worst case; how many calls that are."""
        return await self._database.write(lambda connection: spending.settle_lost(connection, is_alive, own))

    async def standings(self, caps: Sequence[Cap]) -> list[Standing]:
        """What was spent and is held under each cap."""
        return await self._database.read(lambda connection: [spending.standing(connection, cap) for cap in caps])

    async def spent(self, since: float, *, session_id: str | None = None) -> Usage:
        """The sum of all model calls from `since` on, of one session or of all."""
        return await self._database.read(lambda connection: spending.spent(connection, since, session_id=session_id))

    async def spend_totals(self, since: float, *, session_id: str | None = None, by: str = "") -> list[SpendTotal]:
        """Sums of settled calls from `since` on, the dearest first: one, or one each `by` `model`, `session`, both,
        `day`, `hour` or `purpose`.

        The key of `session_model` is the session's id, a space, and the model's key; a day's is its local date, an
        hour's its local day of the week (0 is Sunday), a space, and its two digits.
        """
        model, session = "provider || '/' || model", "coalesce(session_id, '')"
        moment = "at, 'unixepoch', 'localtime'"
        kinds = {
            "day": f"strftime('%Y-%m-%d', {moment})",
            "hour": f"strftime('%w %H', {moment})",
            "purpose": "purpose",
        }
        kinds |= {"": "''", "model": model, "session": session, "session_model": f"{session} || ' ' || {model}"}
        return await self._database.read(
            lambda connection: spending.totals(connection, since, session_id=session_id, by=kinds[by])
        )

    async def tool_totals(self, since: float) -> list[ToolTotal]:
        """The tools that were called from `since` on, the one most used first; of sessions that are still there."""
        return await self._database.read(lambda connection: spending.tools(connection, since))

    async def session_totals(self, since: float) -> SessionTotal:
        """How many sessions and turns there were from `since` on."""
        return await self._database.read(lambda connection: spending.sessions(connection, since))

    async def calls_under_way(self) -> list[OpenCall]:
        """The calls that hold room under the caps now, the oldest first."""
        return await self._database.read(spending.under_way)
