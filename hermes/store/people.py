"""The people who may talk with Hermes from chats, and the audit trail of what they did."""

import hmac
from collections.abc import Sequence

import msgspec
from msgspec.structs import asdict

from hermes.core.chats import (
    AuditEntry,
    KnownPerson,
    NewPairingCode,
    OutboxItem,
    PairingQuestion,
    PairingRequest,
    PendingPairingCode,
    Place,
    PlatformHandle,
)
from hermes.core.encoding import to_json
from hermes.store.outbox import enqueue_item
from hermes.store.repository import Repository, Transaction, reads, to_value, writes
from hermes.util.text import clean_surrogates

_CODE_ID_LENGTH = 8
"""Characters of a code's hash that form its id."""
AUDIT_ROWS = 100_000
"""The number of newest rows of the audit trail that are kept."""


def _forget_direct_chats(tx: Transaction, platform: str, account: str, *, keep: str = "") -> None:
    """Forget the direct chats, on that platform, of the person who has an account until now, unless it is `keep`: one
    of the chats is the account's, nothing says which, and what is meant for the person must not go there any more.
    """
    rows = list(tx.execute("SELECT person_id FROM handles WHERE platform = ? AND account = ?", (platform, account)))
    for (person,) in rows:
        if person != keep:
            tx.execute("DELETE FROM direct_chats WHERE person = ? AND platform = ?", (person, platform))
            tx.execute(
                "DELETE FROM chat_sessions WHERE person = ? AND json_extract(place, '$.platform') = ?"
                " AND coalesce(json_extract(place, '$.kind'), 'dm') = 'dm'",
                (person, platform),
            )


class PeopleRepository(Repository):
    """Store operations for people, pairing codes and the audit trail."""

    @reads
    def find_by_account(self, tx: Transaction, platform: str, account: str) -> KnownPerson | None:
        """Return the person to whom an account on a platform belongs, or None."""
        return tx.select_one(
            KnownPerson,
            "SELECT people.id, people.name, role, people.since FROM handles JOIN people ON people.id = person_id"
            " WHERE platform = ? AND account = ?",
            (platform, account),
        )

    @reads
    def get(self, tx: Transaction, person_id: str) -> KnownPerson | None:
        """Return the person of this id, or None."""
        return _get_person(tx, person_id)

    @reads
    def list_all(self, tx: Transaction) -> list[KnownPerson]:
        """Return everybody who was paired or added, by id."""
        return tx.select_all(KnownPerson, "SELECT id, name, role, since FROM people ORDER BY id")

    @reads
    def list_handles(self, tx: Transaction, person_id: str | None = None) -> list[PlatformHandle]:
        """Return the accounts of a person, or of everybody."""
        return tx.select_all(
            PlatformHandle,
            "SELECT platform, account, person_id, name, since FROM handles WHERE ?1 IS NULL OR person_id = ?1"
            " ORDER BY platform, account",
            (person_id,),
        )

    @writes
    def upsert(self, tx: Transaction, person_id: str, *, name: str | None = None, role: str | None = None) -> None:
        """Add a person, or change the name and the role that are given."""
        tx.execute(
            "INSERT INTO people (id, name, role, since) VALUES (?1, coalesce(?2, ''), coalesce(?3, 'user'), ?4)"
            " ON CONFLICT (id) DO UPDATE SET name = coalesce(?2, name), role = coalesce(?3, role)",
            (person_id, name, role, tx.now),
        )

    @writes
    def remove(self, tx: Transaction, person_id: str) -> bool:
        """Delete a person with their accounts and pairing codes; return whether they were known."""
        tx.execute("DELETE FROM pairing_codes WHERE person_id = ?", (person_id,))
        return tx.change_any("DELETE FROM people WHERE id = ?", (person_id,))

    @writes
    def link_account(self, tx: Transaction, handle: PlatformHandle) -> None:
        """Link an account to a known person, whoever had it before; a request of it to be let in has its answer."""
        tx.execute("DELETE FROM pairing_requests WHERE platform = ? AND account = ?", (handle.platform, handle.account))
        _forget_direct_chats(tx, handle.platform, handle.account, keep=handle.person)
        tx.execute(
            "REPLACE INTO handles (platform, account, person_id, name, since) VALUES (?, ?, ?, ?, ?)",
            (handle.platform, handle.account, handle.person, handle.name, tx.now),
        )

    @writes
    def unlink_account(self, tx: Transaction, platform: str, account: str) -> bool:
        """Unlink an account, and forget where its person was heard on that platform; return whether it was linked."""
        _forget_direct_chats(tx, platform, account)
        return tx.change_any("DELETE FROM handles WHERE platform = ? AND account = ?", (platform, account))

    @reads
    def list_pairing_codes(self, tx: Transaction) -> list[PendingPairingCode]:
        """Return the pairing codes that are valid, those that expire first before others."""
        return tx.select_all(
            PendingPairingCode,
            f"SELECT substr(lower(hex(mark)), 1, {_CODE_ID_LENGTH}), platform, role, person_id, name, expires_at"
            " FROM pairing_codes WHERE expires_at > ? ORDER BY expires_at",
            (tx.now,),
        )

    @writes
    def revoke_pairing_code(self, tx: Transaction, code_id: str) -> bool:
        """Revoke a pairing code; return whether there was one of this id."""
        return tx.change_any(
            f"DELETE FROM pairing_codes WHERE substr(lower(hex(mark)), 1, {_CODE_ID_LENGTH}) = ?",
            (code_id.lower(),),
        )

    @reads
    def list_audit_entries(
        self, tx: Transaction, *, person: str | None = None, platform: str | None = None, limit: int = 50
    ) -> list[AuditEntry]:
        """Return audit entries, the newest first; of one person, of one platform."""
        return tx.select_all(
            AuditEntry,
            "SELECT platform, account, person, what, detail, at FROM audit"
            " WHERE (?1 IS NULL OR person = ?1) AND (?2 IS NULL OR platform = ?2) ORDER BY id DESC LIMIT ?3",
            (person, platform, limit),
        )

    @reads
    def list_action_times(self, tx: Transaction, person: str, what: str, since: float) -> list[float]:
        """Return when somebody did something since a time, the oldest first."""
        rows = tx.execute(
            "SELECT at FROM audit WHERE at >= ? AND person = ? AND what = ? ORDER BY id", (since, person, what)
        ).fetchall()
        return [float(str(row[0])) for row in rows]

    @writes
    def offer_pairing_code(self, tx: Transaction, offer: NewPairingCode, *, seconds: float, most: int) -> bool:
        """Store a code's hash for `seconds`; return False when `most` codes of that platform are waiting already."""
        tx.execute("DELETE FROM pairing_codes WHERE expires_at <= ?", (tx.now,))
        waiting = tx.execute("SELECT count(*) FROM pairing_codes WHERE platform = ?", (offer.platform,)).get
        if int(waiting) >= most:
            return False
        tx.execute(
            "INSERT INTO pairing_codes (mark, platform, role, person_id, name, made_at, expires_at)"
            " VALUES (:mark, :platform, :role, :person, :name, :now, :end)",
            asdict(offer) | {"mark": _hash_code(tx, offer.code), "now": tx.now, "end": tx.now + seconds},
        )
        return True

    @writes
    def redeem_pairing_code(
        self, tx: Transaction, code: str, platform: str, account: str, name: str, *, most: int, locked: float
    ) -> KnownPerson | None:
        """Link an account by a code, which is valid once; return the person, or None for a wrong code.

        It is also None while an account that sent `most` wrong codes is locked.
        """
        failed = tx.execute(
            "SELECT failures, last_at FROM pairing_failures WHERE platform = ? AND account = ?", (platform, account)
        ).fetchone()
        failures = 0 if failed is None or tx.now - float(failed[1]) > locked else int(failed[0])
        if failures >= most:
            return None
        row = tx.execute(
            "DELETE FROM pairing_codes WHERE mark = ? AND platform IN ('', ?) AND expires_at > ?"
            " RETURNING role, person_id, name",
            (_hash_code(tx, code), platform, tx.now),
        ).fetchone()
        if row is None:
            tx.execute(
                "REPLACE INTO pairing_failures (platform, account, failures, last_at) VALUES (?, ?, ?, ?)",
                (platform, account, failures + 1, tx.now),
            )
            tx.execute("DELETE FROM pairing_failures WHERE last_at < ?", (tx.now - locked,))
            return None
        role, person_id, wanted = str(row[0]), str(row[1]), str(row[2])
        tx.execute("DELETE FROM pairing_requests WHERE platform = ? AND account = ?", (platform, account))
        person_id = person_id or f"{platform}:{account}"
        tx.execute(
            "INSERT INTO people (id, name, role, since) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
            (person_id, wanted or name, role, tx.now),
        )
        tx.execute(
            "REPLACE INTO handles (platform, account, person_id, name, since) VALUES (?, ?, ?, ?, ?)",
            (platform, account, person_id, name, tx.now),
        )
        return _get_person(tx, person_id)

    @writes
    def request_pairing(
        self, tx: Transaction, wish: PairingRequest, code: str, *, seconds: float, most: int, kept: float
    ) -> bool:
        """Store somebody's request with the hash of its code; return False where they have one or were refused.

        Where `most` of that platform wait, the oldest gives way once it has waited for `kept` seconds; False where
        none has.
        """
        tx.execute("DELETE FROM pairing_requests WHERE expires_at <= ?", (tx.now,))
        known = (wish.platform, wish.account)
        if tx.execute("SELECT count(*) FROM pairing_requests WHERE platform = ? AND account = ?", known).get:
            return False
        waiting = "FROM pairing_requests WHERE platform = ? AND mark IS NOT NULL"
        if int(tx.execute(f"SELECT count(*) {waiting}", (wish.platform,)).get) >= most and not tx.change_any(
            f"DELETE FROM pairing_requests WHERE platform = ? AND account = (SELECT account {waiting}"
            " AND expires_at <= ? ORDER BY expires_at LIMIT 1)",
            (wish.platform, wish.platform, tx.now + seconds - kept),
        ):
            return False
        return tx.change_any(
            "INSERT INTO pairing_requests (platform, account, name, place, mark, expires_at) VALUES (?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (
                wish.platform,
                wish.account,
                clean_surrogates(wish.name),
                to_json(wish.place),
                _hash_code(tx, code),
                tx.now + seconds,
            ),
        )

    @reads
    def list_pairing_requests(self, tx: Transaction) -> list[PairingRequest]:
        """Return the requests that wait, those that expire first before others."""
        rows = tx.execute(
            "SELECT platform, account, name, place, expires_at FROM pairing_requests"
            " WHERE expires_at > ? AND mark IS NOT NULL ORDER BY expires_at",
            (tx.now,),
        ).fetchall()
        return [_to_request(row) for row in rows]

    @reads
    def find_pairing_request(self, tx: Transaction, code: str) -> PairingRequest | None:
        """Return the request of a code that waits, or None."""
        row = tx.execute(
            "SELECT platform, account, name, place, expires_at FROM pairing_requests WHERE mark = ? AND expires_at > ?",
            (_hash_code(tx, code), tx.now),
        ).fetchone()
        return None if row is None else _to_request(row)

    @reads
    def is_request_refused(self, tx: Transaction, platform: str, account: str) -> bool | None:
        """Return whether the request of an account was refused; None where it has none any more."""
        row = tx.execute(
            "SELECT mark IS NULL FROM pairing_requests WHERE platform = ? AND account = ? AND expires_at > ?",
            (platform, account, tx.now),
        ).fetchone()
        return None if row is None else bool(row[0])

    @writes
    def add_pairing_question(self, tx: Transaction, question: PairingQuestion, *, kept: float) -> None:
        """Store the question about a request; those that were asked longer than `kept` seconds ago are forgotten."""
        tx.execute("DELETE FROM pairing_questions WHERE asked_at < ?", (tx.now - kept,))
        tx.execute(
            "INSERT INTO pairing_questions (code, platform, account, name, place, text, asked_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(question.code, question.platform, question.account, clean_surrogates(question.name)),
                *(to_json(question.place), clean_surrogates(question.text), tx.now),
            ),
        )

    @reads
    def find_pairing_question(self, tx: Transaction, code: str) -> PairingQuestion | None:
        """Return the question whose buttons have this code, or None."""
        found = _select_questions(tx, "code = ?", code)
        return found[0] if found else None

    @reads
    def list_open_questions(self, tx: Transaction) -> list[PairingQuestion]:
        """Return the questions that do not show yet what became of the request."""
        return _select_questions(tx, "closed = ?", 0)

    @writes
    def close_pairing_question(self, tx: Transaction, code: str) -> None:
        """Record that a question shows what became of the request."""
        tx.execute("UPDATE pairing_questions SET closed = 1 WHERE code = ?", (code,))

    @writes
    def settle_pairing_request(self, tx: Transaction, code: str, role: str, notes: Sequence[OutboxItem] = ()) -> bool:
        """Let the person of a code in with this role, or (empty) refuse them until their request runs out; return
        False when no such request waits any more. The notes go into the outbox with it, before any answer to them.
        """
        mark = _hash_code(tx, code)
        if not role:
            return tx.change_any(
                "UPDATE pairing_requests SET mark = NULL WHERE mark = ? AND expires_at > ?", (mark, tx.now)
            )
        row = tx.execute(
            "DELETE FROM pairing_requests WHERE mark = ? AND expires_at > ? RETURNING platform, account, name, place",
            (mark, tx.now),
        ).fetchone()
        if row is None:
            return False
        platform, account, name = (str(one) for one in row[:3])
        person_id = f"{platform}:{account}"
        tx.execute(
            "REPLACE INTO direct_chats (person, platform, place, last_at) VALUES (?, ?, ?, ?)",
            (person_id, platform, bytes(row[3]).decode(), tx.now),
        )
        for note in notes:
            enqueue_item(tx, note)
        tx.execute(
            "INSERT INTO people (id, name, role, since) VALUES (?1, ?2, ?3, ?4)"
            " ON CONFLICT (id) DO UPDATE SET role = ?3",
            (person_id, name, role, tx.now),
        )
        tx.execute(
            "REPLACE INTO handles (platform, account, person_id, name, since) VALUES (?, ?, ?, ?, ?)",
            (platform, account, person_id, name, tx.now),
        )
        return True

    @writes
    def add_audit_entry(self, tx: Transaction, row: AuditEntry) -> None:
        """Add an audit entry; the oldest rows are deleted when there are too many."""
        tx.execute(
            "INSERT INTO audit (at, platform, account, person, what, detail) VALUES (?, ?, ?, ?, ?, ?)",
            (tx.now, row.platform, row.account, row.person, row.what, row.detail),
        )
        tx.execute("DELETE FROM audit WHERE id = ?", (tx.connection.last_insert_rowid() - AUDIT_ROWS,))


def _select_questions(tx: Transaction, where: str, value: str | int) -> list[PairingQuestion]:
    rows = tx.execute(
        f"SELECT code, platform, account, name, place, text, closed FROM pairing_questions WHERE {where}", (value,)
    )
    return [
        to_value(PairingQuestion, (*row[:4], msgspec.json.decode(bytes(row[4]), type=Place), row[5], bool(row[6])))
        for row in rows
    ]


def _to_request(row: Sequence[object]) -> PairingRequest:
    return PairingRequest(
        platform=str(row[0]),
        account=str(row[1]),
        name=str(row[2]),
        place=msgspec.json.decode(bytes(row[3]), type=Place),  # type: ignore[call-overload]
        expires_at=float(str(row[4])),
    )


def _get_person(tx: Transaction, person_id: str) -> KnownPerson | None:
    return tx.select_one(KnownPerson, "SELECT id, name, role, since FROM people WHERE id = ?", (person_id,))


def _hash_code(tx: Transaction, code: str) -> bytes:
    """Return a hash of a code with this database's own key, so that the stored value does not reveal the code."""
    key = str(tx.execute("SELECT value FROM meta WHERE key = 'id'").get)
    return hmac.new(key.encode(), code.encode(), "sha256").digest()
