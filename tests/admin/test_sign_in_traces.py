"""Tokens are in no trace: logs and debug output at their most talkative, reports of crashes, core files, processes."""

import asyncio
import os
import resource
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.testing.home import TempHome
from tests.admin.sign_in_home import assert_no_token, change_stored, log_in, make_home, stored
from tests.fake_keyring import install_fake_keyring
from tests.vendors.sign_in_server import FakeVendor, fake_vendor

pytestmark = pytest.mark.slow

_TALKATIVE = """
import logging
handler = logging.StreamHandler()
handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))
for name in ("", "hermes", "asyncio"):
    logging.getLogger(name).addHandler(handler)
    logging.getLogger(name).setLevel(logging.DEBUG)
    logging.getLogger(name).addHandler(logging.FileHandler(HOME + "/everything.log"))
"""
_LOUD = {"PYTHONDEVMODE": "1", "PYTHONASYNCIODEBUG": "1", "PYTHONFAULTHANDLER": "1"}


@pytest.fixture
async def vendor() -> AsyncIterator[FakeVendor]:
    async with fake_vendor() as made:
        made.interval = 0.01
        yield made


def make_talkative(home: TempHome) -> None:
    """Have every process of the home write all that is logged and all of Python's debug output."""
    folder = home.root / "site"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(_TALKATIVE.replace("HOME", repr(str(home.root))))
    home.more["PYTHONPATH"] = os.pathsep.join([str(folder), home.environ["PYTHONPATH"]])
    home.more |= _LOUD
    home.write_config({**(home.config or {}), "agent": {"api_max_retries": 0}})


async def test_a_failing_refresh_leaves_no_token_in_any_trace(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        await log_in(home)
        first = stored(home)
        make_talkative(home)
        tokens = [first.access_token, first.refresh_token]

        async def fail(**changes: object) -> None:
            before = change_stored(home, expires_at=1.0, **changes)
            done = await home.run(sys.executable, "-X", "dev", "-m", "hermes", "-z", "hi")
            after = stored(home)
            held = [one for one in (*tokens, before.access_token, after.access_token, after.refresh_token) if one]
            assert done.code != 0 and "DEBUG" in done.stderr, done.stderr
            assert not any(token in done.stdout + done.stderr for token in held)
            assert_no_token(home, *held)

        await fail(token_endpoint="http://127.0.0.1:9/token")
        vendor.token_statuses = [500]
        await fail(token_endpoint=f"{vendor.url}/token")
        vendor.refuses_all_tokens = True
        await fail()
        vendor.echoes_secrets = True
        await fail(refresh_token=first.refresh_token)  # it is used up: the vendor refuses it, and repeats it
        assert "invalid_grant" in stored(home).ended_because and "[key]" in stored(home).ended_because
        assert "selector" in (home.root / "everything.log").read_text()


async def test_a_failing_sign_in_leaves_no_token_in_any_trace(vendor: FakeVendor) -> None:
    vendor.echoes_secrets = True
    with make_home(vendor) as home:
        make_talkative(home)
        # Warnings about resources then quote the lines that made them. A process costs six times as much with it.
        home.more["PYTHONTRACEMALLOC"] = "1"
        for decision in ("access_denied", "invalid_grant"):
            vendor.decision, vendor.waits = decision, ["authorization_pending"]
            done = await home.run(sys.executable, "-X", "dev", "-m", "hermes", "auth", "login", "vendor", "--yes")
            codes = list(vendor._device_codes)
            assert done.code != 0 and codes and not any(code in done.stdout + done.stderr for code in codes)
            assert_no_token(home, *codes)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
async def test_a_crash_in_the_middle_of_a_refresh_leaves_no_core_file(vendor: FakeVendor, number: int) -> None:
    with make_home(vendor) as home:
        await log_in(home)
        before = change_stored(home, expires_at=1.0)
        vendor.refresh_delay = 30.0
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hermes", "-z", "hi"),
            env={**home.environ, **_LOUD},
            cwd=home.cwd,
            stdout=PIPE,
            stderr=PIPE,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard)),
        )
        async with asyncio.timeout(30):
            await vendor.refresh_began.wait()
        proc = Path("/proc") / str(process.pid)
        held = (before.access_token.encode(), before.refresh_token.encode())
        for name in ("cmdline", "environ"):
            assert not any(token in (proc / name).read_bytes() for token in held)
        process.send_signal(number)
        out, err = await process.communicate()
        assert process.returncode == -number and b"Fatal Python error" in err
        assert not any(token in out + err for token in held) and not list(home.cwd.iterdir())
        assert_no_token(home, before.access_token, before.refresh_token)


_CRASH = """
import sys
from pathlib import Path
from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.config.home import HermesHome
from hermes.oauth.token_store import TokenStore
import logging
home = HermesHome(Path(sys.argv[1]))
install_fault_log(home.logs, build_lazy_redactor({}, home))
found = TokenStore(home.oauth_file, home.locks).read("account:vendor")
logging.getLogger("hermes.x").error("with %s", found.refresh_token)
raise RuntimeError(f"an unforeseen value: {found.access_token} {found!r}")
"""


@pytest.mark.parametrize("place", ["file", "keyring"])
async def test_a_report_of_a_crash_holds_no_token(vendor: FakeVendor, place: str) -> None:
    with make_home(vendor) as home:
        home.write_config({**(home.config or {}), "token_store": place})
        if place == "keyring":
            home.more |= install_fake_keyring(home.root, home.environ)
        await log_in(home)
        done = await home.run(sys.executable, "-c", _CRASH, str(home.hermes))
        log = (home.hermes / "logs" / "errors.log").read_text()
        assert done.code == 1 and "an unforeseen value: [" in done.stderr and "with [" in log
        held = [token for grant in vendor._grants for token in (grant.access, grant.refresh)]
        assert held and not any(token in done.stderr + log for token in held)
