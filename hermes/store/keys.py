"""What processes tell each other about keys: who waits, and who was used how often. No key is in it."""

import contextlib
from asyncio import Future
from collections.abc import Sequence

import apsw

from hermes.core.errors import HermesError
from hermes.core.outcomes import FailureKind
from hermes.core.protocols import KeyCooldown, KeyNotes
from hermes.store.access import Access


class KeyAccess(Access):
    """The ledger of keys (`core.protocols.KeyLedger`)."""

    has_key_notes = True
    """Whether there was anything to read when the store was opened."""

    async def key_notes(self, provider: str) -> KeyNotes:
        """All that is noted about the provider's keys."""
        return await self._database.read(lambda connection: read(connection, provider))

    async def cool_keys(self, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
        """Write cooldowns down, in the place of those of the same key and model; forget what ended before `now`."""
        await self._database.write(lambda connection: cool(connection, provider, cooldowns, now))

    async def clear_keys(self, provider: str | None, slot: str | None = None, *, model: str | None = None) -> int:
        """Forget cooldowns of a provider and of a slot (None: of all), for a model and for all models (None: for any).

        How many there were.
        """
        return await self._database.write(lambda connection: clear(connection, provider, slot, model))

    def count_key_use(self, provider: str, slot: str) -> None:
        """Count one use; it reaches the disk soon, and nobody waits for it."""
        with contextlib.suppress(HermesError):  # a full queue: the count is a hint, the call matters
            self._database.submit(lambda connection: count_use(connection, provider, slot)).add_done_callback(_seen)


def any_key_notes(connection: apsw.Connection) -> bool:
    """Whether anything is noted about any key."""
    query = "SELECT EXISTS (SELECT 1 FROM key_cooldowns) OR EXISTS (SELECT 1 FROM key_uses)"
    return bool(connection.execute(query).get)


def read(connection: apsw.Connection, provider: str) -> KeyNotes:
    """The provider's notes."""
    salt = str(connection.execute("SELECT value FROM meta WHERE key = 'id'").get)
    rows = connection.execute(
        "SELECT slot, mark, model, kind, began_at, seconds, said FROM key_cooldowns WHERE provider = ?", (provider,)
    )
    cooldowns = tuple(
        KeyCooldown(
            slot=str(slot),
            mark=str(mark),
            model=str(model),
            kind=_kind(str(kind)),
            began_at=float(began_at),
            seconds=None if seconds is None else float(seconds),
            said=bool(said),
        )
        for slot, mark, model, kind, began_at, seconds, said in rows
    )
    uses = connection.execute("SELECT slot, uses FROM key_uses WHERE provider = ?", (provider,))
    return KeyNotes(salt=salt, cooldowns=cooldowns, uses={str(slot): int(count) for slot, count in uses})


def cool(connection: apsw.Connection, provider: str, cooldowns: Sequence[KeyCooldown], now: float) -> None:
    """Note cooldowns; those that are over go."""
    connection.execute("DELETE FROM key_cooldowns WHERE began_at + seconds <= ?", (now,))
    connection.executemany(
        "REPLACE INTO key_cooldowns (provider, slot, mark, model, kind, began_at, seconds, said)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (provider, one.slot, one.mark, one.model, one.kind.value, one.began_at, one.seconds, int(one.said))
            for one in cooldowns
        ],
    )


def clear(connection: apsw.Connection, provider: str | None, slot: str | None, model: str | None) -> int:
    """Forget cooldowns; how many there were."""
    connection.execute(
        "DELETE FROM key_cooldowns WHERE (?1 IS NULL OR provider = ?1) AND (?2 IS NULL OR slot = ?2)"
        " AND (?3 IS NULL OR model IN ('', ?3))",
        (provider, slot, model),
    )
    return connection.changes()


def count_use(connection: apsw.Connection, provider: str, slot: str) -> None:
    """One use more."""
    connection.execute(
        "INSERT INTO key_uses VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET uses = uses + 1", (provider, slot)
    )


def _kind(name: str) -> FailureKind:
    """A kind that a newer program has written is only known to be some failure."""
    try:
        return FailureKind(name)
    except ValueError:
        return FailureKind.UNKNOWN


def _seen(counted: "Future[None]") -> None:
    """Take note of how counting ended, so that nobody asks for its error."""
    if not counted.cancelled():
        counted.exception()
