"""Cooldowns and use counts of API keys, shared between processes. No key is stored."""

import contextlib
from asyncio import Future
from collections.abc import Sequence

import apsw

from hermes.core.errors import HermesError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import KeyCooldown, KeyNotes
from hermes.store.access import StoreAccess


class KeyAccess(StoreAccess):
    """The shared ledger of keys (`core.protocols.KeyLedger`)."""

    has_key_notes = True
    """Whether anything was noted when the store was opened."""

    async def read_key_notes(self, provider: str) -> KeyNotes:
        """Return all that is noted about the provider's keys."""
        return await self._database.read(lambda connection: read_key_notes(connection, provider))

    async def cool_keys(self, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
        """Store cooldowns, replacing those of the same key and model; delete those that ended before `now`."""
        await self._database.write(lambda connection: store_cooldowns(connection, provider, cooldowns, now))

    async def clear_keys(self, provider: str | None, slot: str | None = None, *, model: str | None = None) -> int:
        """Delete cooldowns of a provider and of a slot (None: of all), for a model and for all models (None: for any).

        Returns how many there were.
        """
        return await self._database.write(lambda connection: clear_cooldowns(connection, provider, slot, model))

    def count_key_use(self, provider: str, slot: str) -> None:
        """Count one use; it reaches the disk soon, and nobody waits for it."""
        with contextlib.suppress(HermesError):  # a full queue: the count is a hint, the call matters
            self._database.submit(lambda connection: count_key_use(connection, provider, slot)).add_done_callback(
                _consume_error
            )


def has_any_key_notes(connection: apsw.Connection) -> bool:
    """Return whether anything is noted about any key."""
    query = "SELECT EXISTS (SELECT 1 FROM key_cooldowns) OR EXISTS (SELECT 1 FROM key_uses)"
    return bool(connection.execute(query).get)


def read_key_notes(connection: apsw.Connection, provider: str) -> KeyNotes:
    """Return the provider's notes."""
    salt = str(connection.execute("SELECT value FROM meta WHERE key = 'id'").get)
    rows = connection.execute(
        "SELECT slot, mark, model, kind, began_at, seconds, said FROM key_cooldowns WHERE provider = ?", (provider,)
    )
    cooldowns = tuple(
        KeyCooldown(
            slot=str(slot),
            mark=str(mark),
            model=str(model),
            kind=_parse_kind(str(kind)),
            began_at=float(began_at),
            seconds=None if seconds is None else float(seconds),
            said=bool(said),
        )
        for slot, mark, model, kind, began_at, seconds, said in rows
    )
    uses = connection.execute("SELECT slot, uses FROM key_uses WHERE provider = ?", (provider,))
    return KeyNotes(salt=salt, cooldowns=cooldowns, uses={str(slot): int(count) for slot, count in uses})


def store_cooldowns(connection: apsw.Connection, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
    """Store cooldowns, and delete those that are over."""
    connection.execute("DELETE FROM key_cooldowns WHERE began_at + seconds <= ?", (now,))
    connection.executemany(
        "REPLACE INTO key_cooldowns (provider, slot, mark, model, kind, began_at, seconds, said)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (provider, one.slot, one.mark, one.model, one.kind.value, one.began_at, one.seconds, int(one.said))
            for one in cooldowns
        ],
    )


def clear_cooldowns(connection: apsw.Connection, provider: str | None, slot: str | None, model: str | None) -> int:
    """Delete cooldowns; return how many there were."""
    connection.execute(
        "DELETE FROM key_cooldowns WHERE (?1 IS NULL OR provider = ?1) AND (?2 IS NULL OR slot = ?2)"
        " AND (?3 IS NULL OR model IN ('', ?3))",
        (provider, slot, model),
    )
    return connection.changes()


def count_key_use(connection: apsw.Connection, provider: str, slot: str) -> None:
    """Count one use."""
    connection.execute(
        "INSERT INTO key_uses VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET uses = uses + 1", (provider, slot)
    )


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
