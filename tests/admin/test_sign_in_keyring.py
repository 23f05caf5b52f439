"""Tokens in the keyring: a real Secret Service on a bus of its own, and a package that has the moods of one."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermes.testing.home import TempHome
from tests.admin.sign_in_home import assert_no_token, log_in, make_home
from tests.fake_keyring import install_fake_keyring, set_keyring_mood
from tests.forked_hermes import run_hermes
from tests.requirements import find_program, require
from tests.vendors.sign_in_server import FakeVendor, fake_vendor

pytestmark = pytest.mark.slow
PROCESSES = int(os.environ.get("SIGN_IN_PROCESSES", "12"))


@pytest.fixture
async def vendor() -> AsyncIterator[FakeVendor]:
    async with fake_vendor() as made:
        made.interval = 0.01
        yield made


def set_mood(home: TempHome, mood: str) -> None:
    set_keyring_mood(home.root, mood)


@asynccontextmanager
async def run_secret_service(home: TempHome) -> AsyncIterator[None]:
    """Run a message bus and GNOME's keyring on it, unlocked, for the time of a test."""
    bus_program, keyring_program = find_program("dbus-daemon"), find_program("gnome-keyring-daemon")
    assert bus_program and keyring_program
    words = ["--session", "--nofork", "--nopidfile", "--print-address=1", "--nosyslog"]
    bus = await asyncio.create_subprocess_exec(
        bus_program, *words, env=home.environ, cwd=home.cwd, stdout=PIPE, stderr=DEVNULL
    )
    service = None
    try:
        assert bus.stdout is not None
        async with asyncio.timeout(20):
            home.more["DBUS_SESSION_BUS_ADDRESS"] = (await bus.stdout.readline()).decode().strip()
            service = await asyncio.create_subprocess_exec(
                *(keyring_program, "--foreground", "--unlock", "--components=secrets"),
                env=home.environ,
                cwd=home.cwd,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
            )
            assert service.stdin is not None and service.stdout is not None
            service.stdin.write(b"a password")
            service.stdin.close()
            await service.stdout.readline()  # it says where it listens once it is unlocked
        yield
    finally:
        for process in (service, bus):
            if process is not None:
                process.terminate()
                await process.wait()


@asynccontextmanager
async def keyring_home(vendor: FakeVendor, kind: str) -> AsyncIterator[TempHome]:
    """Yield a home whose person wants tokens in the keyring, with one of these kinds."""
    if kind == "secret service":
        require("gnome-keyring")
        pytest.importorskip("keyring")
    with make_home(vendor) as home:
        home.write_config({**(home.config or {}), "token_store": "keyring"})
        if kind == "package":
            home.more |= install_fake_keyring(home.root, home.environ)
            yield home
        else:
            async with run_secret_service(home):
                yield home


def read_file(home: TempHome) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads((home.hermes / "oauth.json").read_bytes())["sign_ins"]
    return found


_READ = """
import sys
from hermes.config.home import HermesHome
from hermes.oauth.token_store import TokenStore
home = HermesHome(__import__("pathlib").Path(sys.argv[1]))
found = TokenStore(home.oauth_file, home.locks).read("account:vendor")
print(found.access_token, found.refresh_token)
"""


async def read_tokens(home: TempHome) -> list[str]:
    done = await home.run(sys.executable, "-c", _READ, str(home.hermes))
    assert done.code == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("kind", ["package", "secret service"])
async def test_tokens_are_in_the_keyring_and_nowhere_else(vendor: FakeVendor, kind: str) -> None:
    async with keyring_home(vendor, kind) as home:
        shown = await log_in(home)
        assert "private file" not in shown.stdout and read_file(home) == {"account:vendor": {"place": "keyring"}}
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."
        before = await read_tokens(home)
        vendor.expire_access_tokens()
        answered = await run_hermes(home, "-z", "hi")
        assert (answered.stdout.strip(), answered.stderr) == ("Hello.", "") and vendor.refreshes == 1
        after = await read_tokens(home)
        assert vendor.tokens[-2:] == [before[0], after[0]]
        assert "ready" in (await run_hermes(home, "auth", "list")).stdout
        assert read_file(home) == {"account:vendor": {"place": "keyring"}}
        if kind == "package":
            (home.root / "keyring.json").rename(home.root / "oauth.json")  # what the check below leaves out
        assert_no_token(home, *before, *after)
        if kind == "package":
            (home.root / "oauth.json").rename(home.root / "keyring.json")
        ended = await run_hermes(home, "auth", "logout", "vendor")
        assert ended.code == 0 and read_file(home) == {}
        nobody = await home.run(sys.executable, "-c", _READ.replace("found.a", "found and found.a"), str(home.hermes))
        assert "None" in nobody.stdout + nobody.stderr


@pytest.mark.parametrize("kind", ["package", "secret service"])
async def test_many_processes_with_one_expired_token_refresh_it_once(vendor: FakeVendor, kind: str) -> None:
    vendor.refresh_delay = 0.2
    async with keyring_home(vendor, kind) as home:
        await log_in(home)
        vendor.expire_access_tokens()
        done = await asyncio.gather(*(run_hermes(home, "-z", "hi", timeout=300) for _ in range(PROCESSES)))
        assert [one.stdout.strip() for one in done] == ["Hello."] * PROCESSES, done[0].stderr
        assert (vendor.refreshes, vendor.reuses) == (1, 0)


@pytest.mark.parametrize(
    ("mood", "words"),
    [
        ("locked", "the collection is locked"),
        ("full", "no room is left"),
        ("forgetful", "does not keep"),
        ("open", "no keyring here that keeps secrets"),
        ("missing", "needs the package"),
    ],
)
async def test_a_keyring_that_takes_nothing_leaves_tokens_in_the_file_and_says_so(
    vendor: FakeVendor, mood: str, words: str
) -> None:
    async with keyring_home(vendor, "package") as home:
        set_mood(home, mood)
        if mood == "missing":
            (home.root / "site" / "keyring" / "__init__.py").write_text("raise ImportError")
        shown = await log_in(home)
        assert "in a private file, and not in the keyring" in shown.stdout and words in shown.stdout
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."
        vendor.expire_access_tokens()
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."
        stored = read_file(home)["account:vendor"]
        assert stored["access_token"] == vendor.tokens[-1] and words in str(stored["here_because"])
        checked = await run_hermes(home, "doctor")
        assert "not in the keyring: account:vendor" in checked.stdout and words in checked.stdout
        if mood != "missing":
            set_mood(home, "")
            await log_in(home)
            assert read_file(home) == {"account:vendor": {"place": "keyring"}}


async def test_a_keyring_that_is_locked_later_costs_no_sign_in(vendor: FakeVendor) -> None:
    async with keyring_home(vendor, "package") as home:
        await log_in(home)
        set_mood(home, "locked")
        failed = await run_hermes(home, "-z", "hi")
        assert failed.code != 0 and "the collection is locked" in failed.stderr, failed.stderr
        assert "the collection is locked" in (await run_hermes(home, "auth", "list")).stdout
        refused = await run_hermes(home, "auth", "logout", "vendor")
        assert refused.code != 0 and "locked" in refused.stderr
        set_mood(home, "full")
        vendor.expire_access_tokens()
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."  # refreshed, and kept in the file
        assert "no room" in str(read_file(home)["account:vendor"]["here_because"]) and vendor.refreshes == 1
        set_mood(home, "")
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello." and vendor.reuses == 0
        (home.root / "keyring.json").unlink()


async def test_what_the_keyring_has_lost_is_named(vendor: FakeVendor) -> None:
    async with keyring_home(vendor, "package") as home:
        await log_in(home)
        (home.root / "keyring.json").unlink()
        failed = await run_hermes(home, "-z", "hi")
        assert failed.code != 0 and "the keyring has lost it" in failed.stderr, failed.stderr
        assert "hermes auth login vendor" in failed.stderr
