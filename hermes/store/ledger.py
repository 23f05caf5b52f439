"""Store operations for money and tokens."""

from asyncio import Future
from collections.abc import Sequence

import apsw

from hermes.core.usage import Usage
from hermes.store import spending
from hermes.store.access import StoreAccess
from hermes.store.records import (
    CallSpend,
    CapUsage,
    OpenCall,
    SessionTotal,
    SpendCap,
    SpendOrigin,
    SpendRefusal,
    SpendRequest,
    SpendReservation,
    SpendTotal,
    ToolTotal,
)
from hermes.util.process_identity import is_alive


class SpendAccess(StoreAccess):
    """The cost of model calls, kept when their session is deleted, and reservations for calls under way."""

    def record_spend(self, who: SpendOrigin, spent: CallSpend) -> Future[None]:
        """Queue the cost of a call behind all earlier writes, and return at once."""
        now = self._clock.now()
        return self._database.submit(lambda connection: spending.record_spend(connection, who, spent, now))

    def reserve_spend(
        self, who: SpendOrigin, request: SpendRequest, caps: Sequence[SpendCap]
    ) -> Future[SpendReservation | SpendRefusal]:
        """Queue the reservation of a call's worst case under every cap: all of them, or none.

        Reservations of processes that died are settled first. One transaction, so several processes cannot
        reserve the same room.
        """
        now = self._clock.now()

        def settle_and_reserve(connection: apsw.Connection) -> SpendReservation | SpendRefusal:
            spending.settle_lost_spend(connection, is_alive, who.owner)
            return spending.reserve_spend(connection, who, request, caps, now)

        return self._database.submit(settle_and_reserve)

    def settle_spend(self, reservation_id: int, spent: CallSpend | None) -> Future[None]:
        """Queue a call's cost in place of its reservation; None means that the call was not served."""
        if spent is None:
            return self._database.submit(lambda connection: spending.release_spend(connection, reservation_id))
        return self._database.submit(lambda connection: spending.settle_spend(connection, reservation_id, spent))

    async def settle_lost_spend(self, own: str = "") -> int:
        """Settle reservations of processes that died at their worst case; return how many calls that are."""
        return await self._database.write(lambda connection: spending.settle_lost_spend(connection, is_alive, own))

    async def list_cap_usage(self, caps: Sequence[SpendCap]) -> list[CapUsage]:
        """Return what was spent and is reserved under each cap."""
        return await self._database.read(lambda connection: [spending.get_cap_usage(connection, cap) for cap in caps])

    async def sum_usage(self, since: float, *, session_id: str | None = None) -> Usage:
        """Return the sum of all model calls from `since` on, of one session or of all."""
        return await self._database.read(
            lambda connection: spending.sum_usage(connection, since, session_id=session_id)
        )

    async def list_spend_totals(self, since: float, *, session_id: str | None = None, by: str = "") -> list[SpendTotal]:
        """Return sums of settled calls from `since` on, the dearest first: one, or one for each `by` `model`,
        `session`, `session_model`, `day`, `hour` or `purpose`.

        The key of `session_model` is the session's id, a space, and the model's key; a day's is its local date,
        an hour's its local day of the week (0 is Sunday), a space, and its two digits.
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
            lambda connection: spending.list_spend_totals(connection, since, session_id=session_id, by=kinds[by])
        )

    async def list_tool_totals(self, since: float) -> list[ToolTotal]:
        """Return the tools that were called from `since` on, the most used first; only of sessions that still exist."""
        return await self._database.read(lambda connection: spending.list_tool_totals(connection, since))

    async def get_session_total(self, since: float) -> SessionTotal:
        """Return the numbers of sessions and turns from `since` on."""
        return await self._database.read(lambda connection: spending.get_session_total(connection, since))

    async def list_open_calls(self) -> list[OpenCall]:
        """Return the calls that hold a reservation now, the oldest first."""
        return await self._database.read(spending.list_open_calls)
