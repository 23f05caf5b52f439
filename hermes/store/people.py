"""The people who may talk with Hermes from chats, and the audit trail of what they did."""

import hmac
from collections.abc import Sequence
from typing import TypeVar

import apsw
import msgspec
from msgspec import Struct

from hermes.core.chats import AuditEntry, KnownPerson, PendingPairingCode, PlatformHandle
from hermes.store.access import StoreAccess

Value = TypeVar("Value", bound=Struct)
_CODE_ID_LENGTH = 8
"""Characters of a code's hash that form its id."""
AUDIT_ROWS = 100_000
"""The number of newest rows of the audit trail that are kept."""


class PeopleAccess(StoreAccess):
    """Store operations for people, pairing codes and the audit trail."""

    async def find_person_by_account(self, platform: str, account: str) -> KnownPerson | None:
        """Return the person to whom an account on a platform belongs, or None."""

        def select_person(connection: apsw.Connection) -> KnownPerson | None:
            row = connection.execute(
                "SELECT people.id, people.name, role, people.since FROM handles JOIN people ON people.id = person_id"
                " WHERE platform = ? AND account = ?",
                (platform, account),
            ).fetchone()
            if row is None:
                return None
            name, shown, role, since = row
            return KnownPerson(id=str(name), name=str(shown), role=str(role), since=float(since))

        return await self._database.read(select_person)

    async def get_person(self, person_id: str) -> KnownPerson | None:
        """Return the person of this id, or None."""

        def select_person(connection: apsw.Connection) -> KnownPerson | None:
            row = connection.execute("SELECT name, role, since FROM people WHERE id = ?", (person_id,)).fetchone()
            if row is None:
                return None
            return KnownPerson(id=person_id, name=str(row[0]), role=str(row[1]), since=float(row[2]))

        return await self._database.read(select_person)

    async def list_people(self) -> list[KnownPerson]:
        """Return everybody who was paired or added, by id."""
        rows = await self._database.read(
            lambda connection: connection.execute("SELECT id, name, role, since FROM people ORDER BY id").fetchall()
        )
        return [_to_value(KnownPerson, row) for row in rows]

    async def list_handles(self, person_id: str | None = None) -> list[PlatformHandle]:
        """Return the accounts of a person, or of everybody."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT platform, account, person_id, name, since FROM handles WHERE ?1 IS NULL OR person_id = ?1"
                " ORDER BY platform, account",
                (person_id,),
            ).fetchall()
        )
        return [_to_value(PlatformHandle, row) for row in rows]

    async def upsert_person(self, person_id: str, *, name: str | None = None, role: str | None = None) -> None:
        """Add a person, or change the name and the role that are given."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: connection.execute(
                "INSERT INTO people (id, name, role, since) VALUES (?1, coalesce(?2, ''), coalesce(?3, 'user'), ?4)"
                " ON CONFLICT (id) DO UPDATE SET name = coalesce(?2, name), role = coalesce(?3, role)",
                (person_id, name, role, now),
            ).fetchall()
        )

    async def remove_person(self, person_id: str) -> bool:
        """Delete a person with their accounts and pairing codes; return whether they were known."""

        def delete_person(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM pairing_codes WHERE person_id = ?", (person_id,)).fetchall()
            connection.execute("DELETE FROM people WHERE id = ?", (person_id,)).fetchall()
            return connection.changes() > 0

        return await self._database.write(delete_person)

    async def link_account(self, handle: PlatformHandle) -> None:
        """Link an account to a known person, whoever had it before."""
        now = self._clock.now()
        await self._database.write(
            lambda connection: connection.execute(
                "REPLACE INTO handles (platform, account, person_id, name, since) VALUES (?, ?, ?, ?, ?)",
                (handle.platform, handle.account, handle.person, handle.name, now),
            ).fetchall()
        )

    async def unlink_account(self, platform: str, account: str) -> bool:
        """Unlink an account; return whether it was linked to somebody."""

        def delete_handle(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM handles WHERE platform = ? AND account = ?", (platform, account)).fetchall()
            return connection.changes() > 0

        return await self._database.write(delete_handle)

    async def list_pairing_codes(self) -> list[PendingPairingCode]:
        """Return the pairing codes that are valid, those that expire first before others."""
        now = self._clock.now()
        rows = await self._database.read(
            lambda connection: connection.execute(
                f"SELECT substr(lower(hex(mark)), 1, {_CODE_ID_LENGTH}), platform, role, person_id, name, expires_at"
                " FROM pairing_codes WHERE expires_at > ? ORDER BY expires_at",
                (now,),
            ).fetchall()
        )
        return [_to_value(PendingPairingCode, row) for row in rows]

    async def revoke_pairing_code(self, code_id: str) -> bool:
        """Revoke a pairing code; return whether there was one of this id."""

        def delete_code(connection: apsw.Connection) -> bool:
            connection.execute(
                f"DELETE FROM pairing_codes WHERE substr(lower(hex(mark)), 1, {_CODE_ID_LENGTH}) = ?",
                (code_id.lower(),),
            ).fetchall()
            return connection.changes() > 0

        return await self._database.write(delete_code)

    async def list_audit_entries(
        self, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return audit entries, the newest first; of one person, of one platform."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT platform, account, person, what, detail, at FROM audit"
                " WHERE (?1 IS NULL OR person = ?1) AND (?2 IS NULL OR platform = ?2) ORDER BY id DESC LIMIT ?3",
                (person, platform, limit),
            ).fetchall()
        )
        return [_to_value(AuditEntry, row) for row in rows]

    async def list_action_times(self, person: str, what: str, since: float) -> list[float]:
        """Return when somebody did something since a time, the oldest first."""
        rows = await self._database.read(
            lambda connection: connection.execute(
                "SELECT at FROM audit WHERE at >= ? AND person = ? AND what = ? ORDER BY id", (since, person, what)
            ).fetchall()
        )
        return [float(str(row[0])) for row in rows]

    async def offer_pairing_code(
        self, code: str, *, platform: str, role: str, name: str, person_id: str, seconds: float, most: int
    ) -> bool:
        """Store a code's hash for `seconds`; return False when `most` codes of that platform are waiting already."""
        now = self._clock.now()

        def insert_code(connection: apsw.Connection) -> bool:
            connection.execute("DELETE FROM pairing_codes WHERE expires_at <= ?", (now,))
            waiting = connection.execute("SELECT count(*) FROM pairing_codes WHERE platform = ?", (platform,)).get
            if int(waiting) >= most:
                return False
            connection.execute(
                "INSERT INTO pairing_codes (mark, platform, role, person_id, name, made_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (_hash_code(connection, code), platform, role, person_id, name, now, now + seconds),
            )
            return True

        return await self._database.write(insert_code)

    async def redeem_pairing_code(
        self, code: str, platform: str, account: str, name: str, *, most: int, locked: float
    ) -> KnownPerson | None:
        """Link an account by a code, which is valid once; return the person, or None for a wrong code.

        It is also None while an account that sent `most` wrong codes is locked.
        """
        now = self._clock.now()

        def redeem_row(connection: apsw.Connection) -> KnownPerson | None:
            failed = connection.execute(
                "SELECT failures, last_at FROM pairing_failures WHERE platform = ? AND account = ?", (platform, account)
            ).fetchone()
            failures = 0 if failed is None or now - float(failed[1]) > locked else int(failed[0])
            if failures >= most:
                return None
            row = connection.execute(
                "DELETE FROM pairing_codes WHERE mark = ? AND platform IN ('', ?) AND expires_at > ?"
                " RETURNING role, person_id, name",
                (_hash_code(connection, code), platform, now),
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

        return await self._database.write(redeem_row)

    async def add_audit_entry(self, row: AuditEntry) -> None:
        """Add an audit entry; the oldest rows are deleted when there are too many."""
        now = self._clock.now()

        def insert_entry(connection: apsw.Connection) -> None:
            connection.execute(
                "INSERT INTO audit (at, platform, account, person, what, detail) VALUES (?, ?, ?, ?, ?, ?)",
                (now, row.platform, row.account, row.person, row.what, row.detail),
            )
            connection.execute("DELETE FROM audit WHERE id = ?", (connection.last_insert_rowid() - AUDIT_ROWS,))

        await self._database.write(insert_entry)


def _to_value(kind: type[Value], row: Sequence[object]) -> Value:
    """Return the struct whose fields, in their order, a row has."""
    return msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind, strict=False)


def _hash_code(connection: apsw.Connection, code: str) -> bytes:
    """Return a hash of a code with this database's own key, so that the stored value does not reveal the code."""
    key = str(connection.execute("SELECT value FROM meta WHERE key = 'id'").get)
    return hmac.new(key.encode(), code.encode(), "sha256").digest()
