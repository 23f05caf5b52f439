"""Who may talk with Hermes from chats, and what they did."""

import hmac
from collections.abc import Sequence
from typing import TypeVar

import apsw
import msgspec
from msgspec import Struct

from hermes.core.chats import AuditEntry, Handle, KnownPerson, WaitingCode
from hermes.store.access import Access

Value = TypeVar("Value", bound=Struct)
_MARK = 8
"""Characters of a code's hash by which it is called."""
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

    async def person(self, person_id: str) -> KnownPerson | None:
        """The person of this id."""

        def work(connection: apsw.Connection) -> KnownPerson | None:
            row = connection.execute("SELECT name, role, since FROM people WHERE id = ?", (person_id,)).fetchone()
            if row is None:
                return None
            return KnownPerson(id=person_id, name=str(row[0]), role=str(row[1]), since=float(row[2]))

        return await self._database.read(work)

    async def people(self) -> list[KnownPerson]:
        """Everybody who was paired or added, by id."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT id, name, role, since FROM people ORDER BY id").fetchall()
        )
        return [_read(KnownPerson, row) for row in rows]

    async def handles(self, person_id: str | None = None) -> list[Handle]:
        """The accounts of a person, or of everybody."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT platform, account, person_id, name, since FROM handles WHERE ?1 IS NULL OR person_id = ?1"
                " ORDER BY platform, account",
                (person_id,),
            ).fetchall()
        )
        return [_read(Handle, row) for row in rows]

    async def put_person(self, person_id: str, *, name: str | None = None, role: str | None = None) -> None:
        """Let there be a person of this id; a name and a role take the place of those they have."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: connection.execute(
                "INSERT INTO people (id, name, role, since) VALUES (?1, coalesce(?2, ''), coalesce(?3, 'user'), ?4)"
                " ON CONFLICT (id) DO UPDATE SET name = coalesce(?2, name), role = coalesce(?3, role)",
                (person_id, name, role, now),
            ).fetchall()
        )

    async def remove_person(self, person_id: str) -> bool:
        """Know somebody no more, nor their accounts, nor codes that were made for them; whether they were known."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM pairing_codes WHERE person_id = ?", (person_id,)).fetchall()
            connection.execute("DELETE FROM people WHERE id = ?", (person_id,)).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def link_account(self, handle: Handle) -> None:
        """Let an account be a known person's, whoever's it was."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: connection.execute(
                "REPLACE INTO handles (platform, account, person_id, name, since) VALUES (?, ?, ?, ?, ?)",
                (handle.platform, handle.account, handle.person, handle.name, now),
            ).fetchall()
        )

    async def unlink_account(self, platform: str, account: str) -> bool:
        """Let an account be nobody's; whether it was somebody's."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM handles WHERE platform = ? AND account = ?", (platform, account)).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def codes(self) -> list[WaitingCode]:
        """The codes that wait, those that run out first before others."""
        now = self._clock.now()
        rows = await self._database.read(
            lambda connection: connection.execute(
                f"SELECT substr(lower(hex(mark)), 1, {_MARK}), platform, role, person_id, name, expires_at"
                " FROM pairing_codes WHERE expires_at > ? ORDER BY expires_at",
                (now,),
            ).fetchall()
        )
        return [_read(WaitingCode, row) for row in rows]

    async def revoke_code(self, code_id: str) -> bool:
        """Let a code count no more; whether there was one of this id."""

        def work(connection: apsw.Connection) -> bool:
            connection.execute(
                f"DELETE FROM pairing_codes WHERE substr(lower(hex(mark)), 1, {_MARK}) = ?", (code_id.lower(),)
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(work)

    async def deeds(
        self, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """What was done from outside, the newest first; by one person, on one platform."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT platform, account, person, what, detail, at FROM audit"
                " WHERE (?1 IS NULL OR person = ?1) AND (?2 IS NULL OR platform = ?2) ORDER BY id DESC LIMIT ?3",
                (person, platform, limit),
            ).fetchall()
        )
        return [_read(AuditEntry, row) for row in rows]

    async def done_since(self, person: str, what: str, since: float) -> list[float]:
        """When somebody did something since a moment, the oldest first."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT at FROM audit WHERE at >= ? AND person = ? AND what = ? ORDER BY id", (since, person, what)
            ).fetchall()
        )
        return [float(str(row[0])) for row in rows]

    async def offer_code(
        self, code: str, *, platform: str, role: str, name: str, person_id: str, seconds: float, most: int
    ) -> bool:
        """Keep a code's hash for so long; False when `most` wait for that platform already."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM pairing_codes WHERE expires_at <= ?", (now,))
            waiting = connection.execute("SELECT count(*) FROM pairing_codes WHERE platform = ?", (platform,)).get
            if int(waiting) >= most:
                return False
            connection.execute(
                "INSERT INTO pairing_codes (mark, platform, role, person_id, name, made_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_mark(connection, code), platform, role, person_id, name, now, now + seconds),
            )
            return True

        return await self._database.write(work)

    async def redeem_code(
        self, code: str, platform: str, account: str, name: str, *, most: int, locked: float
    ) -> KnownPerson | None:
        """Make an account known by a code, which counts once; None for a wrong one, and for any while an account that
        sent `most` wrong ones is locked."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> KnownPerson | None:
            failed = connection.execute(
                "SELECT failures, last_at FROM pairing_failures WHERE platform = ? AND account = ?", (platform, account)
            ).fetchone()
            failures = 0 if failed is None or now - float(failed[1]) > locked else int(failed[0])
            if failures >= most:
                return None
            row = connection.execute(
                "DELETE FROM pairing_codes WHERE mark = ? AND platform IN ('', ?) AND expires_at > ?"
                " RETURNING role, person_id, name",
                (_mark(connection, code), platform, now),
            ).fetchone()
            if row is None:
                connection.execute(
                    "REPLACE INTO pairing_failures (platform, account, failures, last_at) VALUES (?, ?, ?, ?)",
                    (platform, account, failures + 1, now),
                )
                connection.execute("DELETE FROM pairing_failures WHERE last_at < ?", (now - locked,))
                return None
            role, person_id, wanted = str(row[0]), str(row[1]), str(row[2])
            person_id = person_id or f"{platform}:{account}"
            connection.execute(
                "INSERT INTO people (id, name, role, since) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
                (person_id, wanted or name, role, now),
            )
            connection.execute(
                "REPLACE INTO handles (platform, account, person_id, name, since) VALUES (?, ?, ?, ?, ?)",
                (platform, account, person_id, name, now),
            )
            known = connection.execute("SELECT name, role, since FROM people WHERE id = ?", (person_id,)).fetchone()
            assert known is not None  # it was put there just now
            return KnownPerson(id=person_id, name=str(known[0]), role=str(known[1]), since=float(known[2]))

        return await self._database.write(work)

    async def note(self, row: AuditEntry) -> None:
        """Write down what somebody did; the oldest rows go when there are too many."""
        now = self._clock.now()

        def work(connection: apsw.Connection) -> None:
            connection.execute(
                "INSERT INTO audit (at, platform, account, person, what, detail) VALUES (?, ?, ?, ?, ?, ?)",
                (now, row.platform, row.account, row.person, row.what, row.detail),
            )
            connection.execute("DELETE FROM audit WHERE id = ?", (connection.last_insert_rowid() - AUDIT_ROWS,))

        await self._database.write(work)


def _read(kind: type[Value], row: Sequence[object]) -> Value:
    """The value whose fields, in their order, a row has."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind, strict=False)


def _mark(connection: apsw.Connection, code: str) -> bytes:
    """A hash of a code with this database's own key: what is stored tells nobody the code."""
    key = str(connection.execute("SELECT value FROM meta WHERE key = 'id'").get)
    return hmac.new(key.encode(), code.encode(), "sha256").digest()
