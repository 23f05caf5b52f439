"""The writer and the reader: order, groups, failures, full disks, kills and several processes at once."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from hermes.core.errors import BusyError, StoreError, StoreFullError
from hermes.store import connection as connections
from hermes.store.database import CAPACITY, Database, DatabaseSchema
from tests.cpu_cost import count_cpu_units

NUMBERS = DatabaseSchema(
    application_id=77, steps=("CREATE TABLE n (id INTEGER PRIMARY KEY, x NOT NULL, CHECK (x <> 'bad'))",)
)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "n.db", NUMBERS)
    yield opened
    await opened.close()


def insert(connection: apsw.Connection, x: object) -> int:
    connection.execute("INSERT INTO n (x) VALUES (?)", (x,))  # type: ignore[arg-type]
    return connection.last_insert_rowid()


async def numbers(database: Database) -> list[object]:
    return await database.read(lambda connection: [row[0] for row in connection.execute("SELECT x FROM n ORDER BY id")])


async def held(database: Database) -> threading.Event:
    """Keep the writer busy until the event is set, so that what is submitted meanwhile makes one group."""
    go, entered = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def hold(_connection: apsw.Connection) -> None:
        loop.call_soon_threadsafe(entered.set)
        go.wait(30)

    database._writer.submit(hold, alone=True)
    await entered.wait()
    return go


async def test_writes_are_in_order_and_read_back(database: Database) -> None:
    futures = [database.submit(lambda connection, x=x: insert(connection, x)) for x in range(1000)]  # type: ignore[misc]
    assert await asyncio.gather(*futures) == list(range(1, 1001))
    assert await numbers(database) == list(range(1000))


async def test_what_is_queued_together_is_one_transaction(database: Database) -> None:
    go = await held(database)
    before = await database.read(lambda connection: connection.pragma("data_version"))
    futures = [database.submit(lambda connection, x=x: insert(connection, x)) for x in range(100)]  # type: ignore[misc]
    go.set()
    await asyncio.gather(*futures)
    after = await database.read(lambda connection: connection.pragma("data_version"))
    assert after == before + 1


async def test_what_joins_the_next_write_is_in_its_transaction_and_before_it(database: Database) -> None:
    go = await held(database)
    before = await database.read(lambda connection: connection.pragma("data_version"))
    joining = [database.submit_with_next(lambda connection, x=x: insert(connection, x)) for x in "ab"]  # type: ignore[misc]
    last = database.submit(lambda connection: insert(connection, "c"))
    go.set()
    await last
    assert [one.done() for one in joining] == [True, True]
    assert await numbers(database) == ["a", "b", "c"]
    after = await database.read(lambda connection: connection.pragma("data_version"))
    assert after == before + 1


async def test_what_joins_the_next_write_is_written_where_none_follows(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "n.db", NUMBERS)
    assert await database.submit_with_next(lambda connection: insert(connection, "a")) == 1
    closing = database.submit_with_next(lambda connection: insert(connection, "b"))
    await database.close()
    assert await closing == 2
    with pytest.raises(StoreError):
        database.submit_with_next(lambda connection: insert(connection, "c"))


async def test_an_op_that_raises_fails_alone(database: Database) -> None:
    def half(connection: apsw.Connection) -> None:
        insert(connection, "half")
        raise ZeroDivisionError("mine")

    go = await held(database)
    first = database.submit(lambda connection: insert(connection, 1))
    wrong = database.submit(half)
    refused = database.submit(lambda connection: insert(connection, "bad"))
    last = database.submit(lambda connection: insert(connection, 2))
    go.set()
    assert [await first, await last] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        await wrong
    with pytest.raises(StoreError, match="CHECK"):
        await refused
    assert await numbers(database) == [1, 2]


async def test_the_first_op_of_a_group_fails_alone(database: Database) -> None:
    def half(connection: apsw.Connection) -> None:
        insert(connection, "half")
        raise ZeroDivisionError("mine")

    for behind in (2, 0):
        go = await held(database)
        wrong = database.submit(half)
        futures = [database.submit(lambda connection, x=x: insert(connection, x)) for x in range(behind)]  # type: ignore[misc]
        go.set()
        with pytest.raises(ZeroDivisionError):
            await wrong
        await asyncio.gather(*futures)
    assert await numbers(database) == [0, 1]


async def test_a_cancelled_waiter_does_not_undo_its_write(database: Database) -> None:
    go = await held(database)
    waiting = asyncio.create_task(database.write(lambda connection: insert(connection, "kept")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go.set()
    await database.write(lambda connection: insert(connection, "next"))
    assert await numbers(database) == ["kept", "next"]


async def test_a_full_queue_makes_writers_wait_and_submitters_fail(database: Database) -> None:
    go = await held(database)
    futures = [database.submit(lambda _connection: None) for _ in range(CAPACITY - 1)]
    with pytest.raises(BusyError):
        database.submit(lambda _connection: None)
    patient = asyncio.create_task(database.write(lambda connection: insert(connection, "patient")))
    await asyncio.sleep(0)
    assert not patient.done()
    go.set()
    await patient
    await asyncio.gather(*futures)
    assert await numbers(database) == ["patient"]


async def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "n.db", NUMBERS)
    futures = [database.submit(lambda connection, x=x: insert(connection, x)) for x in range(500)]  # type: ignore[misc]
    await database.close()
    assert len(await asyncio.gather(*futures)) == 500
    with pytest.raises(StoreError, match="closed"):
        database.submit(lambda _connection: None)
    again = await Database.open(tmp_path / "n.db", NUMBERS)
    assert len(await numbers(again)) == 500
    await again.close()


async def test_a_full_database_says_so_and_goes_on(database: Database) -> None:
    await database.write(lambda connection: insert(connection, "before"))
    await database.write_alone(lambda connection: connection.pragma("max_page_count", 12))
    go = await held(database)
    small = database.submit(lambda connection: insert(connection, "small"))
    big = database.submit(lambda connection: insert(connection, "x" * 500_000))
    go.set()
    with pytest.raises(StoreFullError, match=r"no room.*Free some disk space"):
        await big
    outcome = await asyncio.gather(small, return_exceptions=True)
    assert isinstance(outcome[0], StoreFullError | int)
    await database.write_alone(lambda connection: connection.pragma("max_page_count", 100_000))
    await database.write(lambda connection: insert(connection, "after"))
    stored = await numbers(database)
    assert stored == (["before", "small", "after"] if outcome[0] == 2 else ["before", "after"])


async def test_a_lock_held_for_too_long_is_an_error_and_then_over(tmp_path: Path, database: Database) -> None:
    other = apsw.Connection(str(tmp_path / "n.db"))
    other.execute("BEGIN IMMEDIATE")
    await database.write_alone(lambda connection: connection.set_busy_handler(connections._BusyHandler(0.05)))
    outcomes = await asyncio.gather(
        *[database.write(lambda connection: insert(connection, "x")) for _ in range(3)], return_exceptions=True
    )
    assert {type(one) for one in outcomes} == {StoreError} and "locked by another program" in str(outcomes[0])
    other.execute("ROLLBACK")
    other.close()
    await database.write(lambda connection: insert(connection, "y"))
    assert await numbers(database) == ["y"]


async def test_a_failed_commit_fails_the_whole_group(database: Database) -> None:
    await database.write_alone(
        lambda connection: connection.execute(
            "CREATE TABLE p (id INTEGER PRIMARY KEY);CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)"
        ).fetchall()
    )
    go = await held(database)
    innocent = database.submit(lambda connection: insert(connection, 1))
    orphan = database.submit(lambda connection: connection.execute("INSERT INTO c VALUES (99)").fetchall())
    go.set()
    outcomes = await asyncio.gather(innocent, orphan, return_exceptions=True)
    assert [type(one) for one in outcomes] == [StoreError, StoreError]
    await database.write(lambda connection: insert(connection, 2))
    assert await numbers(database) == [2]


CHILD = """
import asyncio, os, resource, sys
from pathlib import Path
from hermes.core.errors import HermesError, StoreFullError
from hermes.store.database import CAPACITY, Database
from hermes.store.database import DatabaseSchema

TABLE = "CREATE TABLE n (id INTEGER PRIMARY KEY, x NOT NULL, CHECK (x <> 'bad'))"
NUMBERS = DatabaseSchema(application_id=77, steps=(TABLE,))

def insert(connection, x):
    connection.execute("INSERT INTO n (x) VALUES (?)", (x,))

async def endless(path):
    database = await Database.open(path, NUMBERS)
    async def produce(name):
        for number in range(1_000_000):
            await database.write(lambda connection: insert(connection, f"{name}.{number}"))
            os.write(1, f"{name}.{number}\\n".encode())
    await asyncio.gather(*[produce(name) for name in range(20)])

async def some(path, name):
    database = await Database.open(path, NUMBERS)
    for number in range(150):
        await database.write(lambda connection: insert(connection, f"{name}.{number}"))
    await database.close()

async def limited(path):
    database = await Database.open(path, NUMBERS)
    await database.write(lambda connection: insert(connection, "before"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        await database.write(lambda connection: insert(connection, "x" * 1_000_000))
    except StoreFullError as error:
        print("full:", error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await database.write(lambda connection: insert(connection, "after"))
    await database.close()

what, path, *more = sys.argv[1:]
asyncio.run({"endless": endless, "some": some, "limited": limited}[what](Path(path), *more))
"""


def child(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", CHILD, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def test_the_file_size_limit_says_so_and_goes_on(tmp_path: Path) -> None:
    process = child("limited", tmp_path / "n.db")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"full: There is no room to write")
    database = await Database.open(tmp_path / "n.db", NUMBERS)
    assert await numbers(database) == ["before", "after"]
    await database.close()


@pytest.mark.parametrize("milliseconds", [5, 60, 140])
async def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, milliseconds: int) -> None:
    process = child("endless", tmp_path / "n.db")
    assert process.stdout is not None and process.stderr is not None
    head = process.stdout.readline()
    time.sleep(milliseconds / 1000)
    process.send_signal(signal.SIGKILL)
    acknowledged = {
        line.decode().strip()
        for line in [head, *process.stdout.read().splitlines(keepends=True)]
        if line.endswith(b"\n")
    }
    process.stdout.close()
    process.stderr.close()
    process.wait()
    database = await Database.open(tmp_path / "n.db", NUMBERS)
    stored = set(await numbers(database))
    assert acknowledged and acknowledged <= stored
    assert await database.read(lambda connection: connection.execute("PRAGMA integrity_check").get) == "ok"
    await database.close()


async def test_processes_open_and_write_at_once(tmp_path: Path) -> None:
    processes = [child("some", tmp_path / "new" / "n.db", name) for name in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
    database = await Database.open(tmp_path / "new" / "n.db", NUMBERS)
    assert sorted(map(str, await numbers(database))) == sorted(f"{a}.{b}" for a in range(4) for b in range(150))
    await database.close()


def test_a_lone_write_costs_little(tmp_path: Path) -> None:
    async def write_lonely(database: Database) -> None:
        for number in range(100):
            await database.write(lambda connection, number=number: insert(connection, number))  # type: ignore[misc]

    with asyncio.Runner() as runner:
        database = runner.run(Database.open(tmp_path / "n.db", NUMBERS))
        units = count_cpu_units(lambda: runner.run(write_lonely(database)), clock=time.process_time)
        runner.run(database.close())
    assert units < 200  # measured: 42 for a hundred writes, fsync, log and the change of threads included
