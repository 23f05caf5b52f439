"""Cooldowns and use counts of API keys, shared between processes. No key is stored."""

import contextlib
from asyncio import Future
from collections.abc import Sequence

import apsw

from hermes.core.errors import HermesError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import KeyCooldown, KeyNotes
from hermes.store.repository import Repository, Transaction, queues, reads, to_value, writes


class KeyRepository(Repository):
    """The shared ledger of keys (`core.protocols.KeyLedger`)."""

    has_notes = True
    """Whether anything was noted when the store was opened."""

    @reads
    def read_notes(self, tx: Transaction, provider: str) -> KeyNotes:
        """Return all that is noted about the provider's keys."""
        salt = str(tx.execute("SELECT value FROM meta WHERE key = 'id'").get)
        rows = tx.execute(
            "SELECT slot, mark, model, kind, began_at, seconds, said FROM key_cooldowns WHERE provider = ?", (provider,)
        )
        cooldowns = tuple(to_value(KeyCooldown, (*row[:3], _parse_kind(str(row[3])), *row[4:])) for row in rows)
        uses = tx.execute("SELECT slot, uses FROM key_uses WHERE provider = ?", (provider,))
        return KeyNotes(salt=salt, cooldowns=cooldowns, uses={str(slot): int(count) for slot, count in uses})

    @writes
    def cool(self, tx: Transaction, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
        """Store cooldowns, replacing those of the same key and model; delete those that ended before `now`."""
        tx.execute("DELETE FROM key_cooldowns WHERE began_at + seconds <= ?", (now,))
        tx.executemany(
            "REPLACE INTO key_cooldowns (provider, slot, mark, model, kind, began_at, seconds, said)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (provider, one.slot, one.mark, one.model, one.kind.value, one.began_at, one.seconds, int(one.said))
                for one in cooldowns
            ],
        )

    @writes
    def clear(self, tx: Transaction, provider: str | None, slot: str | None = None, *, model: str | None = None) -> int:
        """Delete cooldowns of a provider and of a slot (None: of all), for a model and for all models (None: for any).

        Returns how many there were.
        """
        return tx.change_rows(
            "DELETE FROM key_cooldowns WHERE (?1 IS NULL OR provider = ?1) AND (?2 IS NULL OR slot = ?2)"
            " AND (?3 IS NULL OR model IN ('', ?3))",
            (provider, slot, model),
        )

    def count_use(self, provider: str, slot: str) -> None:
        """Count one use; it reaches the disk soon, and nobody waits for it."""
        with contextlib.suppress(HermesError):  # a full queue: the count is a hint, the call matters
            self._add_use(provider, slot).add_done_callback(_consume_error)

    @queues
    def _add_use(self, tx: Transaction, provider: str, slot: str) -> None:
        tx.execute("INSERT INTO key_uses VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET uses = uses + 1", (provider, slot))


def has_any_key_notes(connection: apsw.Connection) -> bool:
    """Return whether anything is noted about any key."""
    query = "SELECT EXISTS (SELECT 1 FROM key_cooldowns) OR EXISTS (SELECT 1 FROM key_uses)"
    return bool(connection.execute(query).get)


def _parse_kind(name: str) -> FailureKind:
    """Return the kind of a failure; one that a newer program has written is only known to be some failure."""
    try:
        return FailureKind(name)
    except ValueError:
        return FailureKind.UNKNOWN


def _consume_error(counted: "Future[None]") -> None:
    """Consume the error of a count, so that nobody logs it."""
    if not counted.cancelled():
        counted.exception()
