"""Who may talk with Hermes from chats, and what they did."""

import apsw

from hermes.core.chats import Deed, KnownPerson
from hermes.store.access import Access

AUDIT_ROWS = 100_000
"""The newest rows of the audit trail that are kept."""


class PeopleAccess(Access):
    """The verbs about people."""

    async def person_of(self, platform: str, account: str) -> KnownPerson | None:
        """The person that an account on a platform belongs to."""

        def work(connection: apsw.Connection) -> KnownPerson | None:
            row = connection.execute(
                "SELECT people.id, people.name, role, people.since FROM handles JOIN people ON people.id = person_id"
                " WHERE platform = ? AND account = ?",
                (platform, account),
            ).fetchone()
            if row is None:
                return None
            name, shown, role, since = row
            return KnownPerson(id=str(name), name=str(shown), role=str(role), since=float(since))

        return await self._database.read(work)

    async def note(self, row: Deed) -> None:
        """Write down what somebody did; the oldest rows go when there are too many."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> None:
            connection.execute(
                "INSERT INTO audit (at, platform, account, person, what, detail) VALUES (?, ?, ?, ?, ?, ?)",
                (now, row.platform, row.account, row.person, row.what, row.detail),
            )
            connection.execute("DELETE FROM audit WHERE id = ?", (connection.last_insert_rowid() - AUDIT_ROWS,))

        await self._database.write(work)
