"""The decorators of repositories: the time of a write, its order, and what an error leaves behind."""

from pathlib import Path

import pytest

from hermes.core.errors import NotFoundError, StoreError, UsageError
from hermes.core.messages import user_message
from hermes.store.database import Database
from hermes.store.messages import TranscriptEntry
from hermes.store.records import NewSession
from hermes.store.repository import Repository, Transaction, queues, reads, writes
from hermes.store.schema import HERMES
from hermes.store.store import DATABASE, Store
from hermes.testing.clock import ManualClock


class NoteRepository(Repository):
    @writes
    def put(self, tx: Transaction, key: str, value: str, *, fail: bool = False) -> float:
        """Store a note."""
        tx.execute("REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
        if fail:
            raise UsageError("no")
        return tx.now

    @queues
    def put_later(self, tx: Transaction, key: str, value: str) -> float:
        tx.execute("REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value))
        return tx.now

    @reads
    def get(self, tx: Transaction, key: str) -> str | None:
        found = tx.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
        return None if found is None else str(found)

    @reads
    def write_wrongly(self, tx: Transaction) -> None:
        tx.execute("DELETE FROM meta")


async def test_a_write_carries_the_time_of_its_call_not_of_its_turn_in_the_queue(tmp_path: Path) -> None:
    clock = ManualClock()
    database = await Database.open(tmp_path / DATABASE, HERMES)
    notes = NoteRepository(database, clock)
    began = clock.now()
    queued = []
    for number in range(20):
        queued.append(notes.put_later("n", str(number)))
        clock.set_now(clock.now() + 1)
    assert [await one - began for one in queued] == list(range(20))
    assert await notes.get("n") == "19"
    await database.close()


async def test_a_method_that_raises_leaves_nothing_behind_and_the_next_one_runs(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / DATABASE, HERMES)
    notes = NoteRepository(database, ManualClock())
    with pytest.raises(UsageError):
        await notes.put("a", "half", fail=True)
    assert await notes.get("a") is None
    await notes.put("a", "whole")
    assert await notes.get("a") == "whole"
    await database.close()


async def test_a_reading_method_cannot_write(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / DATABASE, HERMES)
    notes = NoteRepository(database, ManualClock())
    await notes.put("a", "1")
    with pytest.raises(StoreError):
        await notes.write_wrongly()
    assert await notes.get("a") == "1"
    await database.close()


async def test_a_transaction_over_several_repositories_is_all_or_nothing(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, ManualClock())
    await store.sessions.create(NewSession(id="s1"))
    entry = TranscriptEntry(session_id="s1", epoch=1, turn_id="t1", messages=(user_message("hello"),))
    await store.messages.start_turn(entry, title="first")
    with pytest.raises(UsageError):  # the turn has begun: neither its message nor the title is written again
        await store.messages.start_turn(entry, title="second")
    unknown = TranscriptEntry(session_id="s2", epoch=1, turn_id="t2", messages=(user_message("x"),))
    with pytest.raises(NotFoundError):
        await store.messages.start_turn(unknown)
    assert await store.turns.get("t2") is None
    row = await store.sessions.get("s1")
    assert row is not None and (row.message_count, row.title) == (1, "first")
    await store.close()


def test_a_decorated_method_keeps_its_name_and_its_documentation() -> None:
    assert NoteRepository.put.__name__ == "put"
    assert NoteRepository.put.__doc__ == "Store a note."
