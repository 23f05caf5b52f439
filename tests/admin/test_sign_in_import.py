"""Taking over another program's login: what is said before, which files are refused, and what ends where."""

import json
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs

from hermes.testing.home import TempHome
from tests.admin.sign_in_home import assert_no_token, change_stored, stored
from tests.forked_hermes import run_hermes
from tests.vendors.sign_in_server import ACCOUNT, FakeVendor, fake_vendor, make_id_token

pytestmark = pytest.mark.slow


@pytest.fixture
async def vendor() -> AsyncIterator[FakeVendor]:
    async with fake_vendor() as made:
        yield made


def make_home(vendor: FakeVendor, **sign_in: object) -> TempHome:
    url = vendor.url
    fields = {"authorization_endpoint": f"{url}/authorize", "device_endpoint": f"{url}/accounts/usercode"}
    described = fields | {"token_endpoint": f"{url}/token", "device_poll_endpoint": f"{url}/accounts/token"}
    return TempHome(
        {
            "providers": {"codex": {"base_url": f"{url}/v1", "api_mode": "responses"}},
            "sign_in": {"openai": described | sign_in},
            "terminal": {"backend": "local"},
        }
    )


def write_login(vendor: FakeVendor, file: Path, **changes: object) -> tuple[str, str]:
    """Write the file that the other program would have; return the tokens that are valid at the vendor."""
    access, refresh = vendor.sign_in_elsewhere("app_EMoamEEZ73f0CkXaXp7hrann")
    tokens = {"id_token": make_id_token(), "access_token": access, "refresh_token": refresh, "account_id": ACCOUNT}
    told = {"OPENAI_API_KEY": None, "tokens": tokens, "last_refresh": "2026-11-01T00:00:00Z"} | changes
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told))
    file.chmod(0o600)
    return access, refresh


async def test_a_login_is_taken_over_once_and_its_file_stays_as_it_is(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        file = home.home / ".codex" / "auth.json"
        access, refresh = write_login(vendor, file)
        before = (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino)
        unasked = await run_hermes(home, "auth", "import", "codex")
        assert unasked.code != 0 and "Codex is signed out by it" in unasked.stdout and str(file) in unasked.stdout
        assert not vendor.heads and not (home.hermes / "oauth.json").exists()
        done = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert done.code == 0 and "openai.com/policies" in done.stdout, done.stderr
        found = stored(home, "openai")
        assert vendor.refreshes == 1 and found.refresh_token not in ("", refresh) and found.account == ACCOUNT
        assert (file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino) == before
        answered = await run_hermes(home, "-z", "hi")
        assert (answered.stdout.strip(), answered.stderr) == ("Hello.", "")
        assert vendor.tokens == [found.access_token] and vendor.model_headers[-1]["chatgpt-account-id"] == ACCOUNT
        for said in (unasked, done):
            assert not any(token in said.stdout + said.stderr for token in (access, refresh, found.access_token))
        file.unlink()
        assert_no_token(home, access, refresh, found.access_token, found.refresh_token)


async def test_a_login_that_has_been_used_up_takes_nothing_over(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        file = home.home / ".codex" / "auth.json"
        write_login(vendor, file)
        first = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert first.code == 0
        kept = stored(home, "openai")
        again = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert again.code != 0 and "cannot be taken over" in again.stderr and "invalid_grant" in again.stderr
        assert structs.replace(stored(home, "openai"), here_because="") == kept
        change_stored(home, "openai", access_token="", refresh_token="")
        await run_hermes(home, "auth", "logout", "openai")
        gone = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert gone.code != 0 and json.loads((home.hermes / "oauth.json").read_text()) == {"sign_ins": {}}


async def test_a_network_that_is_away_takes_nothing_over(vendor: FakeVendor) -> None:
    with make_home(vendor, token_endpoint="http://127.0.0.1:9/token") as home:
        write_login(vendor, home.home / ".codex" / "auth.json")
        failed = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert failed.code != 0 and "Nothing answers" in failed.stderr
        assert json.loads((home.hermes / "oauth.json").read_text()) == {"sign_ins": {}}
        assert not (home.hermes / "auth.json").exists()


async def test_files_that_are_not_the_persons_alone_are_not_read(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        file = home.home / ".codex" / "auth.json"

        async def refuse(words: str) -> None:
            done = await run_hermes(home, "auth", "import", "codex", "--yes")
            assert done.code != 0 and words in done.stderr, (words, done.stderr)
            assert not vendor.heads and not (home.hermes / "oauth.json").exists()

        await refuse("is missing")
        _, refresh = write_login(vendor, file)
        for mode in (0o640, 0o604, 0o620, 0o602):
            file.chmod(mode)
            await refuse("chmod 600")
        file.chmod(0o600)
        os.link(file, home.home / "second")
        await refuse("second name")
        (home.home / "second").unlink()
        outside = home.root / "outside.json"
        file.rename(outside)
        file.symlink_to(outside)
        await refuse("leads out of")
        file.unlink()
        file.mkdir()
        await refuse("is not read")
        file.rmdir()
        os.mkfifo(file, 0o600)
        await refuse("is not read")
        file.unlink()
        for content in (
            b"",
            b"{}",
            b"[" * 100_000,
            b'{"tokens": {"access_token": "a b", "refresh_token": 7}}',
            b"\xff",
        ):
            file.write_bytes(content)
            file.chmod(0o600)
            await refuse("holds no login with tokens")
        file.write_bytes(b" " * 300_000)
        await refuse("too large")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600 and refresh not in "".join(vendor.heads)


async def test_a_link_within_the_home_and_a_folder_of_its_own_are_followed(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        kept = home.home / "dotfiles" / "codex"
        write_login(vendor, kept / "auth.json")
        (home.home / ".codex").symlink_to(kept)
        assert (await run_hermes(home, "auth", "import", "codex", "--yes")).code == 0
        elsewhere = home.root / "codex-home"
        write_login(vendor, elsewhere / "auth.json")
        home.more["CODEX_HOME"] = str(elsewhere)
        done = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert done.code == 0 and str(elsewhere) in done.stdout and vendor.refreshes == 2


async def test_what_cannot_be_taken_over(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        nothing = await run_hermes(home, "auth", "import", "xai", "--yes")
        assert nothing.code != 0 and "No login of another program" in nothing.stderr
        refused = await run_hermes(home, "auth", "import", "claude", "--yes")
        assert refused.code != 0 and "2026-02-19" in refused.stderr
    with make_home(vendor, client_id="mine") as home:
        write_login(vendor, home.home / ".codex" / "auth.json")
        other = await run_hermes(home, "auth", "import", "codex", "--yes")
        assert other.code != 0 and "another client" in other.stderr and not vendor.heads
