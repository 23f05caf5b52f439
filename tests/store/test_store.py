"""The SQLite store: the contract, and what is special about its files."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from hashlib import md5
from pathlib import Path

import apsw
import pytest

from hermes.core.errors import StoreError
from hermes.core.messages import ToolResultPart, user_message
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import Intent
from hermes.store import database as database_module
from hermes.store import schema
from hermes.store.database import DatabaseSchema
from hermes.store.store import Store
from tests.requirements import require
from tests.store.store_contract import Opener, StepClock, StoreContract, begun, found, said


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
async def opener(home: Path) -> AsyncIterator[Opener]:
    opened: list[Store] = []
    clock = StepClock()

    async def open_store() -> Store:
        opened.append(await Store.open(home, clock))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.close()


class TestSqlite(StoreContract):
    """The contract on SQLite."""


class TestWithoutSharedMemory(StoreContract):
    """The contract where the file system has no shared memory and no locks: a rollback journal, a lock folder."""

    @pytest.fixture
    async def opener(self, home: Path) -> AsyncIterator[Opener]:
        opened: list[Store] = []

        async def open_store() -> Store:
            opened.append(await Store.open(home, StepClock(), vfs="unix-dotfile"))
            return opened[-1]

        yield open_store
        for store in opened:
            await store.close()

    async def test_there_is_no_write_ahead_log(self, home: Path, opener: Opener) -> None:
        store = await opener()
        await begun(store)
        await said(store, ["x"])
        assert len(await found(store, "x")) == 1
        assert {path.name for path in home.iterdir()} <= {"hermes.db", "search.db", "hermes.db.lock", "search.db.lock"}


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


async def test_files_belong_to_their_owner_alone(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    await said(store, ["x"])
    await store.search.find("x")
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()}
    assert {"hermes.db", "hermes.db-wal", "search.db"} <= set(modes)
    assert set(modes.values()) == {0o600} and home.stat().st_mode & 0o777 == 0o700


async def test_the_log_stays_bounded(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    for _ in range(60):
        await said(store, ["y" * 100_000] * 10)
    assert (home / "hermes.db").stat().st_size > 50_000_000
    assert (home / "hermes.db-wal").stat().st_size < 20_000_000


def secret(number: int) -> str:
    return md5(str(number).encode(), usedforsecurity=False).hexdigest().translate(DIGITS_TO_LETTERS)


DIGITS_TO_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def seen(data: bytes, word: str) -> bool:
    """Whether the bytes hold the word; the index leaves a beginning out that a word shares with the one before it."""
    return word[4:].encode() in data


@pytest.mark.parametrize("how", ["session", "messages", "redaction", "unpurged then opened"])
async def test_deleted_words_are_in_no_byte_of_any_file(home: Path, opener: Opener, how: str) -> None:
    store = await opener()
    await begun(store)
    await begun(store, "s2")
    words = [secret(number) for number in range(300)]
    ids = []
    for number, word in enumerate(words):
        text = f"{word} 麒麟" + " filler" * (number % 60)
        ids += await said(store, [text], "s1" if number % 3 == 0 else "s2")
    await store.turns.begin("s1", "t1", text="thylacine asks")
    await store.turns.record_intents("t1", [Intent("c1", "t", '{"q": "thylacine"}', False)])
    await store.turns.record_result("t1", ToolResultPart(call_id="c1", name="t", text="thylacine found"))
    await store.messages.append("s1", 1, "t1", [user_message("thylacine asks")])
    assert len(await found(store, "麒麟", limit=500)) == 300
    mine = [one.id for one in await store.messages.read("s1")]
    if how == "session":
        await store.erasure.delete_session("s1")
    elif how == "messages":
        await store.erasure.delete_messages("s1", mine)
    elif how == "redaction":
        for number in mine[:-1]:
            await store.erasure.redact_message("s1", number, user_message("[redacted]"), purge=False)
        await store.erasure.redact_message("s1", mine[-1], user_message("[redacted]"))
    else:
        await store.erasure.delete_session("s1", purge=False)
        assert len(await found(store, "麒麟", limit=500)) == 200
        await store.close()
        store = await opener()
    kept = await found(store, "麒麟", limit=500)
    assert kept == [identity for number, identity in enumerate(ids) if number % 3][::-1]
    await store.close()
    data = everything_in(home)
    assert [word for word in words[::3] if seen(data, word)] == []
    assert b"thylacine" not in data
    index = (home / "search.db").read_bytes()
    assert all(seen(index, word) for word in words[1::3])  # the check can see words at all


async def test_only_a_purge_takes_a_word_out_of_the_index_file(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    ids = await said(store, [secret(number) for number in range(300)])
    await store.search.update_index()
    await store.erasure.delete_messages("s1", ids[7:8], purge=False)
    assert await found(store, secret(7)) == []
    await store.search.close()
    assert seen((home / "search.db").read_bytes(), secret(7))
    await store.close()
    store = await opener()  # what is owed is done now
    await store.close()
    assert not seen((home / "search.db").read_bytes(), secret(7))


async def test_a_turns_journal_lets_go_of_words_when_it_ends(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    await store.turns.begin("s1", "t1")
    await store.turns.record_intents("t1", [Intent("c1", "t", '{"q": "aardwolf"}', False)])
    await store.turns.record_result("t1", ToolResultPart(call_id="c1", name="t", text="aardwolf found"))
    await store.turns.end("t1", ExitReason.TEXT_RESPONSE)
    await store.erasure.purge_files()
    await store.close()
    assert b"aardwolf" not in everything_in(home)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"this is no database at all, " * 100, "not a database"),
        (b"SQLite format 3\0" + b"\x10\0\x01\x01" + b"\xff" * 5000, r"not a database|damaged|cannot be"),
    ],
)
async def test_a_file_that_is_no_database_is_named(home: Path, content: bytes, says: str) -> None:
    home.mkdir()
    (home / "hermes.db").write_bytes(content)
    with pytest.raises(StoreError, match=says) as caught:
        await Store.open(home, StepClock())
    assert "hermes.db" in str(caught.value) and caught.value.hint
    assert (home / "hermes.db").read_bytes() == content


async def test_a_damaged_database_is_named_and_not_overwritten(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    await said(store, ["words " * 200] * 200)
    await store.close()
    with (home / "hermes.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 200_000)
    with pytest.raises(StoreError, match=r"damaged|integrity"):
        again = await opener()
        await again.messages.read("s1")
        problems = await again.check_integrity()
        raise StoreError("integrity: " + "; ".join(problems[:1])) if problems else AssertionError("nothing was seen")


async def test_a_database_of_another_program_is_left_alone(home: Path) -> None:
    home.mkdir()
    foreign = sqlite3.connect(home / "hermes.db")
    foreign.execute("CREATE TABLE sessions (id TEXT)")
    foreign.commit()
    foreign.close()
    before = (home / "hermes.db").read_bytes()
    with pytest.raises(StoreError, match="another program"):
        await Store.open(home, StepClock())
    assert (home / "hermes.db").read_bytes() == before
    assert sorted(os.listdir(home)) == ["hermes.db"]


async def test_a_newer_schema_is_refused(home: Path, opener: Opener) -> None:
    await (await opener()).close()
    raw = apsw.Connection(str(home / "hermes.db"))
    raw.pragma("user_version", 99)
    raw.close()
    with pytest.raises(StoreError, match="newer Hermes"):
        await opener()


async def test_a_new_step_is_applied_after_a_backup(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    await said(store, ["before the step"])
    await store.close()
    newer = DatabaseSchema(
        schema.HERMES.application_id, (*schema.HERMES.steps, "CREATE TABLE later (x); INSERT INTO later VALUES (7)")
    )
    database = await database_module.Database.open(home / "hermes.db", newer)
    assert await database.read(lambda connection: connection.execute("SELECT x FROM later").get) == 7
    await database.close()
    (backup,) = (home / "backups").iterdir()
    assert backup.stat().st_mode & 0o777 == 0o600
    copy = home.parent / "copy"
    copy.mkdir()
    shutil.copy(backup, copy / "hermes.db")
    old = await Store.open(copy, StepClock())
    assert [one.message.text for one in await old.messages.read("s1")] == ["before the step"]
    await old.close()


async def test_a_step_that_fails_leaves_the_file_as_it_was(home: Path, opener: Opener) -> None:
    store = await opener()
    await begun(store)
    await store.close()
    broken = DatabaseSchema(
        schema.HERMES.application_id, (*schema.HERMES.steps, "CREATE TABLE later (x); SELECT * FROM nowhere")
    )
    with pytest.raises(StoreError, match="nowhere"):
        await database_module.Database.open(home / "hermes.db", broken)
    again = await opener()
    assert await again.sessions.get("s1") is not None


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot be opened.*folder"):
        await Store.open(tmp_path / "file" / "home", StepClock())


READ_ONLY = """
import asyncio, sys
from pathlib import Path
from hermes.core.errors import StoreError
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.util.clock import SystemClock

async def main():
    try:
        store = await Store.open(Path(sys.argv[1]), SystemClock())
        await store.sessions.create(NewSession(id="x"))
    except StoreError as error:
        print(error)
        return 1
    return 0

sys.exit(asyncio.run(main()))
"""


@pytest.mark.parametrize("there", [False, True])
async def test_a_read_only_home_is_named(home: Path, opener: Opener, there: bool) -> None:
    home.mkdir()
    if there:
        await (await opener()).close()
        (home / "hermes.db").chmod(0o400)
    home.chmod(0o500)
    command = [sys.executable, "-c", READ_ONLY, str(home)]
    if os.getuid() == 0:  # root may write everywhere unless it gives that right up
        require("setpriv")
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    home.chmod(0o700)
    assert done.returncode == 1, done.stderr
    assert "cannot be" in done.stdout and str(home) in done.stdout and done.stderr == ""
