"""Signing in to a vendor, end to end: the verb, the model's requests, refreshes, ends, and that no token is shown."""

import asyncio
import json
import os
import stat
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator

import pytest
from msgspec import structs

from hermes.core.errors import ConfigError
from hermes.core.frame import EpochFrame, Sampling
from hermes.llm.key_pool import KeySlot
from hermes.llm.key_sources import CommandKeySource
from hermes.providers.records import load_record
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.sign_in_vendors import REFUSED, VENDORS, find_vendor
from hermes.providers.wire import load_wire
from hermes.testing.clock import ManualClock
from hermes.testing.home import TempHome
from hermes.testing.script import Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from tests.admin.sign_in_home import assert_no_token, change_stored, log_in, make_home, open_store, stored
from tests.forked_hermes import run_hermes
from tests.oauth.oauth_client import AgreeingPerson
from tests.vendors.sign_in_server import ACCOUNT, FakeVendor, fake_vendor

pytestmark = pytest.mark.slow
PROCESSES = int(os.environ.get("SIGN_IN_PROCESSES", "12"))


@pytest.fixture
async def vendor() -> AsyncIterator[FakeVendor]:
    async with fake_vendor() as made:
        yield made


async def test_a_device_code_signs_in_and_the_model_answers(vendor: FakeVendor) -> None:
    vendor.interval, vendor.waits = 0.01, ["authorization_pending", "authorization_pending"]
    with make_home(vendor) as home:
        shown = await log_in(home, "--device")
        assert "https://vendor.example/terms" in shown.stdout and "WXYZ-1234" in shown.stdout
        assert f"{vendor.url}/device" in shown.stdout and "Use it: hermes --provider vendor\n" in shown.stdout
        answered = await run_hermes(home, "-z", "hi")
        assert (answered.code, answered.stdout.strip()) == (0, "Hello."), answered.stderr
        found = stored(home)
        assert vendor.tokens == [found.access_token] and found.account == ACCOUNT
        assert stat.S_IMODE((home.hermes / "oauth.json").stat().st_mode) == 0o600
        listed = await run_hermes(home, "auth", "list")
        assert "The Vendor" in listed.stdout and "sign-in" in listed.stdout and "ready" in listed.stdout
        backup = await run_hermes(home, "backup")
        assert backup.code == 0, backup.stderr
        assert_no_token(home, found.access_token, found.refresh_token)
        for said in (shown, answered, listed, backup):
            assert found.access_token not in said.stdout + said.stderr
        ended = await run_hermes(home, "auth", "logout", "vendor")
        assert ended.code == 0 and open_store(home).list_names() == []
        assert "vendor" not in json.loads((home.hermes / "auth.json").read_text())["keys"]


async def test_a_refused_token_is_refreshed_once_and_nobody_sees_it(vendor: FakeVendor) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        before = stored(home)
        vendor.expire_access_tokens()
        answered = await run_hermes(home, "-z", "hi")
        assert (answered.code, answered.stdout.strip(), answered.stderr) == (0, "Hello.", "")
        after = stored(home)
        assert (vendor.refreshes, vendor.reuses) == (1, 0)
        assert vendor.tokens == [before.access_token, after.access_token]
        assert_no_token(home, before.access_token, after.access_token, after.refresh_token)


async def test_a_token_that_is_refused_although_it_is_fresh_is_dead(vendor: FakeVendor) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        vendor.refuses_all_tokens = True
        failed = await run_hermes(home, "-z", "hi")
        assert failed.code != 0 and "token has expired" in failed.stderr, failed.stderr
        assert "hermes auth login vendor" in failed.stderr
        assert (vendor.refreshes, len(vendor.tokens)) == (1, 2)
        listed = (await run_hermes(home, "auth", "list")).stdout
        assert "dead (auth" in listed and "hermes auth login vendor" in listed
        again = await run_hermes(home, "-z", "hi")
        assert "hermes auth login vendor" in again.stderr
        assert again.code != 0 and (vendor.refreshes, len(vendor.tokens)) == (1, 2)
        vendor.refuses_all_tokens = False
        await log_in(home)
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_wrong_by_an_hour(vendor: FakeVendor, hours: int) -> None:
    """The token's end was computed by a clock that has been set since: it is refreshed too early, or when refused."""
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        change_stored(home, expires_at=time.time() + 3_600 + hours * 3_600)
        vendor.expire_access_tokens()
        answered = await run_hermes(home, "-z", "hi")
        assert answered.stdout.strip() == "Hello." and (vendor.refreshes, vendor.reuses) == (1, 0)


async def test_a_used_refresh_token_ends_the_sign_in_by_name(vendor: FakeVendor) -> None:
    """As after kill -9 between the vendor's answer and the store: the refresh token was used, the new one is lost."""
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        before = stored(home)
        vendor.expire_access_tokens()
        await run_hermes(home, "-z", "hi")
        open_store(home).write("account:vendor", before)
        vendor.expire_access_tokens()
        failed = await run_hermes(home, "-z", "hi")
        assert failed.code != 0 and "hermes auth login vendor" in failed.stderr, failed.stderr
        assert vendor.reuses == 1 and "invalid_grant" in stored(home).ended_because
        requests = len(vendor.heads)
        listed = await run_hermes(home, "auth", "list")
        again = await run_hermes(home, "-z", "hi")
        assert "dead" in listed.stdout and "hermes auth login vendor" in listed.stdout
        assert again.code != 0 and "invalid_grant" in again.stderr and "hermes auth login vendor" in again.stderr
        assert len(vendor.heads) == requests
        assert_no_token(home, before.access_token, before.refresh_token)


async def test_many_processes_with_one_expired_token_refresh_it_once(vendor: FakeVendor) -> None:
    vendor.interval, vendor.refresh_delay = 0.01, 0.2
    with make_home(vendor) as home:
        await log_in(home)
        change_stored(home, expires_at=1.0)
        vendor.expire_access_tokens()
        done = await asyncio.gather(*(run_hermes(home, "-z", "hi", timeout=300) for _ in range(PROCESSES)))
        assert [one.stdout.strip() for one in done] == ["Hello."] * PROCESSES, done[0].stderr
        assert (vendor.refreshes, vendor.reuses) == (1, 0)


async def test_tokens_go_to_the_address_that_was_signed_in_for(vendor: FakeVendor) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        async with fake_vendor() as other:
            config = dict(home.config or {})
            config["providers"] = {"vendor": {"base_url": f"{other.url}/v1", "api_mode": "responses"}}
            home.write_config(config)
            failed = await run_hermes(home, "-z", "hi")
            assert failed.code != 0 and stored(home).access_token not in other.tokens


async def test_anthropic_is_refused_with_the_page_and_its_date(vendor: FakeVendor) -> None:
    token = "-".join(("sk", "ant", "oat01", "x" * 30))
    with make_home(vendor) as home:
        for words in (["login", "anthropic"], ["login", "claude", "--device"]):
            refused = await run_hermes(home, "auth", *words)
            assert refused.code != 0 and "legal-and-compliance, as of 2026-02-19" in refused.stderr
            assert "hermes auth add anthropic" in refused.stderr
        given = await run_hermes(home, "auth", "add", "anthropic", "--key-stdin", stdin=token.encode() + b"\n")
        assert given.code != 0 and "2026-02-19" in given.stderr and token not in given.stderr
        home.write_config({"model": {"provider": "anthropic", "default": "claude-x"}})
        (home.hermes / ".env").write_text(f"ANTHROPIC_API_KEY={token}\n")
        used = await run_hermes(home, "-z", "hi")
        assert used.code != 0 and "2026-02-19" in used.stderr and token not in used.stderr


async def test_a_generic_record_cannot_lead_to_a_vendor_that_refuses(vendor: FakeVendor) -> None:
    with make_home(vendor, provider="anthropic") as home:
        refused = await run_hermes(home, "auth", "login", "vendor", "--yes")
        assert refused.code != 0 and "2026-02-19" in refused.stderr and not vendor.heads


async def test_what_is_asked_before_and_what_is_missing(vendor: FakeVendor) -> None:
    with make_home(vendor) as home:
        unasked = await run_hermes(home, "auth", "login", "vendor")
        assert unasked.code != 0 and "https://vendor.example/terms" in unasked.stdout and not vendor.heads
        unknown = await run_hermes(home, "auth", "login", "vendro")
        assert unknown.code != 0 and "vendor" in unknown.stderr
        home.write_config({"model": {"provider": "codex", "default": "some-model"}})
        nobody = await run_hermes(home, "-z", "hi")
        assert nobody.code != 0 and "hermes auth login openai" in nobody.stderr
    with make_home(vendor, client_id="") as home:
        lacking = await run_hermes(home, "auth", "login", "vendor", "--yes")
        assert lacking.code != 0 and "client_id" in lacking.stderr


async def test_denied_and_expired_have_names(vendor: FakeVendor) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        for decision, words in (("access_denied", "refused"), ("expired_token", "expired")):
            vendor.decision = decision
            failed = await run_hermes(home, "auth", "login", "vendor", "--yes")
            assert failed.code != 0 and words in failed.stderr
        assert not (home.hermes / "oauth.json").exists() and not (home.hermes / "auth.json").exists()


async def test_kill_9_between_the_answer_and_the_store_has_a_name(vendor: FakeVendor) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        before = change_stored(home, expires_at=1.0)
        vendor.refresh_delay = 30.0
        words = [sys.executable, "-m", "hermes", "-z", "hi"]
        process = await asyncio.create_subprocess_exec(*words, env=home.environ, cwd=home.cwd, stderr=DEVNULL)
        async with asyncio.timeout(30):
            await vendor.refresh_began.wait()
        shown = await home.run("ps", "-eww", "-o", "args")
        assert before.access_token not in shown.stdout and before.refresh_token not in shown.stdout
        assert "hermes -z hi" in shown.stdout
        process.kill()
        await process.wait()
        vendor.refresh_delay = 0.0
        assert stored(home) == before
        failed = await run_hermes(home, "-z", "hi")
        assert failed.code != 0 and "invalid_grant" in failed.stderr and "hermes auth login vendor" in failed.stderr
        assert vendor.reuses == 1 and not stored(home).refresh_token
        await log_in(home)
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."
        assert_no_token(home, before.access_token, before.refresh_token)


async def test_the_browser_signs_in_by_the_pasted_address(vendor: FakeVendor) -> None:
    with make_home(vendor, authorization_endpoint=f"{vendor.url}/authorize", device_endpoint="") as home:
        words = [sys.executable, "-m", "hermes", "auth", "login", "vendor", "--yes", "--no-browser"]
        process = await asyncio.create_subprocess_exec(
            *words, env=home.environ, cwd=home.cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        assert process.stdin is not None and process.stdout is not None
        async with asyncio.timeout(30):
            while not (line := (await process.stdout.readline()).decode()).startswith(f"{vendor.url}/authorize"):
                assert line
            end = await asyncio.to_thread(AgreeingPerson._find_end, line.strip())
            process.stdin.write(end.encode() + b"\n")
            out, err = await process.communicate()
        assert process.returncode == 0 and b"You are signed in" in out, err
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello."


async def test_nothing_of_a_sign_in_is_imported_where_nobody_signed_in() -> None:
    async with ScriptedServer(ScriptedModel([Say("Hello.")])) as server:
        with TempHome.for_server(server.url) as home:
            done = await home.run(sys.executable, "-X", "importtime", "-m", "hermes", "-z", "hi")
    assert done.stdout == "Hello.\n" and "hermes.llm.client" in done.stderr
    assert "hermes.oauth" not in done.stderr and "sign_in" not in done.stderr


async def test_the_records_are_whole() -> None:
    """Each vendor names its terms and says a sentence; all addresses are https; the provider is in the catalogue."""
    for name, one in VENDORS.items():
        assert one.terms.startswith("https://") and one.notice and one.title and load_record(one.provider)
        addresses = [getattr(one, field) for field in one.__struct_fields__ if field.endswith(("endpoint", "page"))]
        assert all(address.startswith("https://") for address in addresses if address)
        assert bool(one.token_endpoint) == (name not in REFUSED)
        assert bool(one.client_id) != bool(one.no_client_because) or name in REFUSED
        assert one.enabled or one.off_because
    own = find_vendor("chatgpt", {"openai": {"client_id": "mine"}})
    assert own[0] == "openai" and own[1].client_id == "mine" and own[1].scope == VENDORS["openai"].scope
    for record in ({"provider": "anthropic"}, {"no_such_field": 1}):
        with pytest.raises(ConfigError):
            find_vendor("own", {"own": record})
    assert load_record("codex").sign_in == "openai"


def test_the_account_goes_in_a_header_field_and_refused_members_are_left_out() -> None:
    choice = ModelChoice("some-model", "openai-codex", stored=("codex",))
    endpoint = structs.replace(resolve_endpoint(choice, {}), api_key="token", organisation=ACCOUNT)
    wire = load_wire(endpoint.wire)
    headers = wire.build_headers(endpoint)
    assert endpoint.base_url == "https://chatgpt.com/backend-api/codex" and wire.path == "/responses"
    assert headers["authorization"] == "Bearer token" and headers["chatgpt-account-id"] == ACCOUNT
    sampling = Sampling(temperature=0.5, max_tokens=99)
    frame = EpochFrame(
        provider="codex", model="some-model", wire="responses", encoder_version=1, system="s", sampling=sampling
    )
    sent = json.loads(wire.encode_body(frame, b"", endpoint, final=False))
    assert not {"max_output_tokens", "temperature"} & set(sent) and sent["store"] is False and sent["stream"]
    other = structs.replace(endpoint, record=load_record("openai"))
    assert ACCOUNT not in wire.build_headers(other).values()


async def test_a_program_that_prints_a_token_of_a_refused_login_gives_no_key() -> None:
    words = "printf " + "-".join(("sk", "ant", "oat01", "x" * 30))
    slot = KeySlot("auth:1", CommandKeySource(words, dict(os.environ)), label="mine")
    assert not await slot.read_key(ManualClock()) and "2026-02-19" in slot.reason and "x" * 30 not in slot.reason


async def test_a_network_that_is_away_is_named_so_and_costs_no_sign_in(vendor: FakeVendor) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        before = change_stored(home, expires_at=1.0, token_endpoint="http://127.0.0.1:9/token")
        vendor.expire_access_tokens()
        home.write_config({**(home.config or {}), "agent": {"api_max_retries": 0}})
        failed = await run_hermes(home, "-z", "hi", "--output-format", "json")
        assert failed.code != 0 and "all_retries_exhausted" in failed.stdout, failed
        assert "the token cannot be refreshed: Nothing answers at 127.0.0.1:9" in failed.stderr
        assert "auth login" not in failed.stderr and before.refresh_token not in failed.stdout + failed.stderr
        assert stored(home) == before and not vendor.tokens
        change_stored(home, token_endpoint=f"{vendor.url}/token")
        assert (await run_hermes(home, "-z", "hi")).stdout.strip() == "Hello." and vendor.refreshes == 1


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_vendor_that_fails_for_a_moment_is_asked_again(vendor: FakeVendor, status: int) -> None:
    vendor.interval = 0.01
    with make_home(vendor) as home:
        await log_in(home)
        change_stored(home, expires_at=1.0)
        vendor.token_statuses = [status]
        answered = await run_hermes(home, "-z", "hi")
        assert answered.stdout.strip() == "Hello." and (vendor.refreshes, vendor.reuses) == (1, 0)
