"""A home on a disk that is full, or that was remounted read-only because it fails: what is in it is read and saved."""

import contextlib
import json
import shutil
import sys
import zipfile
from pathlib import Path

import apsw
import pytest

from hermes.testing.home import ProgramResult, TempHome
from tests.forked_hermes import run_hermes
from tests.sessions.stored_sessions import say_in, texts_of

pytestmark = [pytest.mark.slow, pytest.mark.needs("unshare")]

READ_ONLY = 'mount --bind "$HERMES_HOME" "$HERMES_HOME" && mount -o remount,bind,ro "$HERMES_HOME"'
FULL = (
    'cp -a "$HERMES_HOME" "$HOME/kept" && mount -t tmpfs -o size=8m,mode=700 none "$HERMES_HOME" && '
    'cp -a "$HOME/kept/." "$HERMES_HOME" && { dd if=/dev/zero of="$HERMES_HOME/fill" bs=1k 2>&1 || true; } >/dev/null'
)


async def run_in(home: TempHome, state: str, *arguments: str) -> ProgramResult:
    """Run Hermes where its home is in this state; only this one process sees it so."""
    hermes = f'{state} || exit 99; exec "{sys.executable}" -m hermes "$@"'
    done = await home.run("unshare", "-rm", "sh", "-c", hermes, "sh", *arguments)
    if done.code == 99 or "unshare failed" in done.stderr:
        pytest.skip(f"mounts of one's own do not work here: {done.stderr.strip()[:80]}")
    shutil.rmtree(home.home / "kept", ignore_errors=True)
    return done


@pytest.mark.parametrize("state", [READ_ONLY, FULL], ids=["read-only", "full"])
@pytest.mark.parametrize("log", [False, True], ids=["clean", "with a log"])
async def test_what_is_in_the_home_is_listed_exported_and_backed_up(state: str, log: bool) -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "the first words")
        if log:
            await _leave_a_log(home)
        listed = await run_in(home, state, "sessions", "list", "--json")
        assert listed.code == 0 and [row["id"] for row in json.loads(listed.stdout)] == ["s1"], listed
        shown = await run_in(home, state, "sessions", "export", "s1")
        assert shown.code == 0 and "the first words" in shown.stdout, shown
        assert ("in the log" in shown.stdout) is log
        file = home.root / "saved.zip"
        made = await run_in(home, state, "backup", str(file), "--commands-may-read")
        assert made.code == 0 and "hermes.db" in zipfile.ZipFile(file).namelist(), made
        assert (await run_hermes(home, "restore", str(file), "--yes")).code == 0
        assert (await texts_of(home, "s1"))[-1] == ("in the log" if log else "the first words")


async def _leave_a_log(home: TempHome) -> None:
    """Leave a database as a kill does: its last words are in the log, and nothing else is beside it."""
    file = home.hermes / "hermes.db"
    with contextlib.closing(apsw.Connection(str(file))) as held:
        held.execute("SELECT 1 FROM messages").fetchall()
        await say_in(home, "s1", "in the log")
        kept = {suffix: Path(f"{file}{suffix}").read_bytes() for suffix in ("", "-wal")}
    for suffix, data in kept.items():
        Path(f"{file}{suffix}").write_bytes(data)
    assert kept["-wal"] and not Path(f"{file}-shm").exists()


@pytest.mark.parametrize(
    ("state", "said"), [(READ_ONLY, "read-only"), (FULL, "The disk is full")], ids=["read-only", "full"]
)
async def test_it_is_said_what_is_so(state: str, said: str) -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "words")
        (home.hermes / "config.yaml").unlink()
        set_one = await run_in(home, state, "config", "set", "display.language", "en")
        assert set_one.code != 0 and said in set_one.stderr and "ermissions" not in set_one.stderr, set_one
        looked = await run_in(home, state, "doctor", "--fix")
        assert said in looked.stdout and "hermes.db is sound" in looked.stdout, looked
        assert "disk reported an error" not in looked.stdout


@pytest.mark.parametrize(("state", "said"), [(READ_ONLY, "is read-only"), (FULL, "full")], ids=["read-only", "full"])
@pytest.mark.parametrize(
    "command", [("sessions", "rename", "s1", "new"), ("sessions", "search", "words"), ("trust", ".")], ids=" ".join
)
async def test_nobody_is_sent_to_the_permissions(state: str, said: str, command: tuple[str, ...]) -> None:
    with TempHome({}) as home:
        await say_in(home, "s1", "words")
        done = await run_in(home, state, *command)
        told = done.stderr.replace("No space left on device", "full").replace("no room", "full")
        assert done.code != 0 and said in told and str(home.hermes) in told, done
        assert "writable for this user" not in told and "belongs to" not in told and "standard output" not in told
