"""The records of vendors, each against a fake that speaks its wire: the sign-in, the first words, and the refresh."""

import asyncio
import json
import os
from collections.abc import AsyncIterator

import pytest

from hermes.core.errors import ConfigError
from hermes.providers.records import load_record
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.sign_in_vendors import VENDORS, find_vendor
from hermes.testing.home import TempHome
from tests.admin.sign_in_home import assert_no_token, change_stored, log_in, stored
from tests.forked_hermes import run_hermes
from tests.vendors.sign_in_server import CLIENT, FakeVendor, fake_vendor

pytestmark = pytest.mark.slow
PROCESSES = int(os.environ.get("SIGN_IN_PROCESSES", "12"))


@pytest.fixture
async def vendor() -> AsyncIterator[FakeVendor]:
    async with fake_vendor() as made:
        made.interval = 0.01
        yield made


def make_home(vendor: FakeVendor, name: str, base_url: str, **sign_in: object) -> TempHome:
    """Return a home in which a vendor's record has the addresses of the fake."""
    record, url = VENDORS[name], vendor.url
    described = {"issuer": url, "token_endpoint": f"{url}/token", "device_endpoint": f"{url}/device/code"}
    return TempHome(
        {
            "providers": {record.provider: {"base_url": base_url}},
            "sign_in": {name: described | sign_in},
            "terminal": {"backend": "local"},
        }
    )


def make_copilot_home(vendor: FakeVendor, **sign_in: object) -> TempHome:
    vendor.gives_lasting_tokens = True
    described = {"exchange_endpoint": f"{vendor.url}/exchange", "exchange_hosts": ["127.0.0.1"], "enabled": True}
    return make_home(vendor, "github-copilot", f"{vendor.url}/nowhere", **described | sign_in)


async def test_copilot_is_off_until_a_line_switches_it_on(vendor: FakeVendor) -> None:
    with make_copilot_home(vendor, enabled=False) as home:
        for name in ("github-copilot", "copilot"):
            refused = await run_hermes(home, "auth", "login", name, "--yes")
            assert refused.code != 0 and "documented nowhere" in refused.stderr
            assert "sign_in: {github-copilot: {enabled: true}}" in refused.stderr and not vendor.heads
    with TempHome({"terminal": {"backend": "local"}}) as home:
        refused = await run_hermes(home, "auth", "login", "github-copilot", "--yes")
        assert "sign_in: {github-copilot: {enabled: true}}" in refused.stderr
        nobody = await run_hermes(home, "--provider", "copilot", "-z", "hi")
        assert nobody.code != 0 and "hermes auth login github-copilot" in nobody.stderr


async def test_copilot_signs_in_and_its_models_are_asked_where_the_exchange_says(vendor: FakeVendor) -> None:
    vendor.waits = ["authorization_pending", "authorization_pending"]
    with make_copilot_home(vendor) as home:
        shown = await log_in(home, vendor="github-copilot")
        assert "GitHub documents no such sign-in" in shown.stdout and "site-policy/github-terms" in shown.stdout
        found = stored(home, "github-copilot")
        assert found.refresh_token and found.access_token and found.address == f"{vendor.url}/v1"
        for model, path in (("", "/v1/responses"), ("gpt-4.1", "/v1/chat/completions")):
            answered = await run_hermes(home, *(("-m", model) if model else ()), "-z", "hi")
            assert (answered.code, answered.stdout.strip()) == (0, "Hello."), answered.stderr
            assert vendor.model_paths[-1] == path and vendor.tokens[-1] == found.access_token
        fields = load_record("copilot").quirks.extra_headers
        for sent in (vendor.model_headers[-1], vendor.exchange_fields):
            assert {name: sent[name] for name in fields} == fields
        assert found.refresh_token not in vendor.tokens and vendor.exchanges == 1
        assert_no_token(home, found.access_token, found.refresh_token)


async def test_a_refused_short_token_costs_one_exchange_that_nobody_sees(vendor: FakeVendor) -> None:
    with make_copilot_home(vendor) as home:
        await log_in(home, vendor="github-copilot")
        before = stored(home, "github-copilot")
        vendor.expire_access_tokens()
        answered = await run_hermes(home, "-z", "hi")
        assert (answered.code, answered.stdout.strip(), answered.stderr) == (0, "Hello.", "")
        after = stored(home, "github-copilot")
        assert vendor.exchanges == 2 and vendor.tokens == [before.access_token, after.access_token]
        assert after.refresh_token == before.refresh_token


async def test_many_processes_exchange_an_expired_token_once(vendor: FakeVendor) -> None:
    with make_copilot_home(vendor) as home:
        await log_in(home, vendor="github-copilot")
        change_stored(home, "github-copilot", expires_at=1.0)
        vendor.expire_access_tokens()
        vendor.refresh_delay = 0.2
        done = await asyncio.gather(*(run_hermes(home, "-z", "hi", timeout=300) for _ in range(PROCESSES)))
        assert [one.stdout.strip() for one in done] == ["Hello."] * PROCESSES, done[0].stderr
        assert vendor.exchanges == 2


async def test_an_exchange_that_is_refused_or_leads_elsewhere_ends_the_sign_in(vendor: FakeVendor) -> None:
    with make_copilot_home(vendor) as home:
        for status, place, words in ((403, None, "No access with [key]"), (0, "https://evil.example", "not one of")):
            vendor.exchange_status, vendor.models_at = status, place
            failed = await run_hermes(home, "auth", "login", "github-copilot", "--yes")
            assert failed.code != 0 and words in failed.stderr, failed.stderr
            assert not (home.hermes / "oauth.json").exists()
        vendor.models_at = None
        await log_in(home, vendor="github-copilot")
        change_stored(home, "github-copilot", expires_at=1.0)
        vendor.expire_access_tokens()
        vendor.exchange_status = 401
        ended = await run_hermes(home, "-z", "hi")
        assert ended.code != 0 and "hermes auth login github-copilot" in ended.stderr, ended.stderr
        listed = await run_hermes(home, "auth", "list")
        assert "dead" in listed.stdout and not stored(home, "github-copilot").refresh_token


async def test_nous_wants_a_client_of_ones_own_and_the_refresh_token_in_a_field(vendor: FakeVendor) -> None:
    vendor.refresh_header = "x-nous-refresh-token"
    with make_home(vendor, "nous", f"{vendor.url}/v1") as home:
        refused = await run_hermes(home, "auth", "login", "nous", "--yes")
        assert (
            refused.code != 0
            and "sign_in.nous.client_id" in refused.stderr
            and "hermes auth add nous" in refused.stderr
        )
        assert not vendor.heads
    with make_home(vendor, "nous", f"{vendor.url}/v1", client_id=CLIENT) as home:
        await log_in(home, vendor="nous")
        vendor.expire_access_tokens()
        answered = await run_hermes(home, "--provider", "nous", "-m", "some/model", "-z", "hi")
        assert (answered.stdout.strip(), answered.stderr) == ("Hello.", "")
        assert (vendor.refreshes, vendor.reuses) == (1, 0)


@pytest.mark.parametrize("region", ["minimax", "minimax-cn"])
async def test_minimax_signs_in_by_a_user_code_with_pkce(vendor: FakeVendor, region: str) -> None:
    vendor.speaks_milliseconds, vendor.interval, vendor.waits = True, 1_000, ["pending"]
    with make_home(vendor, region, f"{vendor.url}/anthropic") as home:
        shown = await log_in(home, vendor=region)
        assert "mmx" in shown.stdout and "WXYZ-1234" in shown.stdout
        vendor.expire_access_tokens()
        answered = await run_hermes(home, "-z", "hi")
        assert (answered.code, answered.stdout.strip(), answered.stderr) == (0, "Hello.", "")
        assert set(vendor.model_paths) == {"/anthropic/v1/messages"} and (vendor.refreshes, vendor.reuses) == (1, 0)
        listed = json.loads((await run_hermes(home, "auth", "list", "--json")).stdout)
        assert [row["provider"] for row in listed] == [VENDORS[region].provider]


def test_a_domain_of_an_enterprise_is_in_every_address() -> None:
    name, plain = find_vendor("copilot", {})
    assert name == "github-copilot" and plain.exchange_endpoint == "https://api.github.com/copilot_internal/v2/token"
    _, found = find_vendor("github-copilot", {"github-copilot": {"domain": "Acme.ghe.com", "enabled": True}})
    assert found.issuer == "https://acme.ghe.com" and found.device_endpoint == "https://acme.ghe.com/login/device/code"
    assert found.exchange_endpoint == "https://api.acme.ghe.com/copilot_internal/v2/token"
    assert "copilot-api.acme.ghe.com" in found.exchange_hosts and "{" not in "".join(found.exchange_hosts)
    for bad in ("acme.ghe.com/x", "acme", "a b.c", "user@acme.ghe.com", "acme.ghe.com:80", "evil.example#.ghe.com"):
        with pytest.raises(ConfigError, match="not the name of a host"):
            find_vendor("github-copilot", {"github-copilot": {"domain": bad}})


@pytest.mark.parametrize(("model", "wire"), [("gpt-5.6-sol", "responses"), ("claude-sonnet-5", "chat_completions")])
def test_models_of_one_provider_may_have_formats_of_their_own(model: str, wire: str) -> None:
    assert resolve_endpoint(ModelChoice(model, "github-copilot", stored=("copilot",)), {}).wire == wire
