"""`hermes model refresh`: windows and prices from a list, shown first, kept after a yes, counted from then on."""

import json
import time

import pytest

from hermes.admin.doctor import check_home
from hermes.admin.models.refresh import count_days, plan_refresh, save_refresh
from hermes.config.home import HermesHome
from hermes.config.load import load_settings
from hermes.core.errors import ConfigError, UsageError
from hermes.llm.exchange import find_price
from hermes.providers.model_facts import ModelFile
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.providers.wire import Endpoint
from hermes.sessions.model.credentials import with_stored_providers
from hermes.testing.home import ProgramResult, TempHome
from tests.e2e.screen import on_a_terminal
from tests.forked_hermes import run_hermes
from tests.providers.loopback_server import Reply, loopback

KEY = "k" + "4" * 30
CONFIG = {"model": {"default": "gpt-9", "provider": "openai"}, "terminal": {"backend": "local"}}
OPENAI = {
    "gpt-9": {"limit": {"context": 2_000_000, "output": 9}, "cost": {"input": 3, "output": 12.5, "cache_read": 0.3}},
    "gpt-6-sol": {"limit": {"context": 400_000}, "cost": {"input": 2.0, "output": 11.0}},
    "gpt-6-astra": {"cost": {"input": 10, "output": 50, "cache_read": 1, "cache_write": 12.5}},
    "odd": {"limit": {"context": -5}, "cost": {"input": "much", "output": None}},
    "free\ntext": {"limit": {"context": 5}},
}
LONG = {"context_over_200k": {"input": 6, "output": 22.5}}
CLAUDE = {"claude-x": {"limit": {"context": 500_000}, "cost": {"input": 3, "output": 15, **LONG}}}
LIST = {"openai": {"models": OPENAI}, "anthropic": {"models": CLAUDE}, "unheard-of": {"models": CLAUDE}, "xai": 5}


def listing(value: object = LIST, **more: object) -> Reply:
    return Reply(parts=[json.dumps(value).encode()], **more)


def resolve(home: TempHome, model: str = "gpt-9", provider: str = "openai") -> Endpoint:
    found = HermesHome(home.hermes)
    choice = with_stored_providers(ModelChoice(model, provider), found, load_settings(found).settings)
    return resolve_endpoint(choice, {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY})


async def refresh(home: TempHome, url: str, *words: str) -> ProgramResult:
    return await run_hermes(home, "model", "refresh", "--from", f"{url}/api.json", "openai", *words)


@pytest.mark.slow
async def test_it_is_shown_and_counts_only_after_a_yes() -> None:
    async with loopback(listing()) as server:
        with TempHome(CONFIG, more={"OPENAI_API_KEY": KEY}) as home:
            asked = await refresh(home, server.url)
            assert asked.code == 1 and "Nothing was changed" in asked.stdout
            assert not (home.hermes / "models.json").exists()
            lines, long = asked.stdout.splitlines(), " (> 272,000: $4/15 (cache 0.4/5))"
            assert lines[:2] == [
                f"openai/gpt-6-sol: window unknown -> 400,000, price $2/10 (cache 0.2/2.5){long} -> $2/11{long}",
                "openai/gpt-9: window unknown -> 2,000,000, price unknown -> $3/12.5 (cache 0.3/-)",
            ]
            assert "2 entries" in asked.stderr
            async with on_a_terminal(home, "model", "refresh", "--from", f"{server.url}/api.json") as screen:
                await screen.shows_next("Keep these 2 changes?")
                screen.type("\n")
                await screen.shows_next("Nothing was changed.")
            assert resolve(home).context_length is None and find_price(resolve(home), {}) is None
            kept = await refresh(home, server.url, "--yes")
            assert kept.code == 0 and "models.json" in kept.stdout
            price = find_price(resolve(home), {})
            assert price is not None and (price.input, price.output, price.cache_read) == (3, 12.5, 0.3)
            assert resolve(home).context_length == 2_000_000 and "/api.json" in price.source
            assert (home.hermes / "models.json").stat().st_mode & 0o777 == 0o600
            again = await refresh(home, server.url, "--yes")
            assert again.code == 0 and "nothing new" in again.stdout
            shown = await run_hermes(home, "model", "--json")
            assert json.loads(shown.stdout)["price"]["output"] == 12.5
            assert json.loads(shown.stdout)["context_length"] == 2_000_000
    assert all(request.headers.get("authorization") is None for request in server.requests)


async def test_what_the_list_leaves_out_stays_as_the_catalogue_has_it() -> None:
    async with loopback(listing()) as server:
        with TempHome(CONFIG) as home:
            plan = await plan_refresh(home.environ, ["openai", "claude"], url=f"{server.url}/x")
            save_refresh(home.environ, plan)
            sol = find_price(resolve(home, "gpt-6-sol"), {})
            assert sol is not None and (sol.output, sol.beyond, sol.long and sol.long.output) == (11.0, 272_000, 15.0)
            claude = find_price(resolve(home, "claude-x", "anthropic"), {})
            assert claude is not None and claude.long is not None
            assert (claude.hour_write, claude.beyond, claude.long.input) == (2.0, 200_000, 6.0)
            assert resolve(home, "claude-sonnet-5", "anthropic").context_length == 200_000
            assert "gpt-6-astra" not in plan.file.providers["openai"]  # the same as the catalogue says


async def test_a_later_list_replaces_the_earlier_one_of_its_providers() -> None:
    newer = {"openai": {"models": {"gpt-9": {"limit": {"context": 3_000_000}}}}}
    async with loopback(listing(), listing(newer)) as server:
        with TempHome(CONFIG) as home:
            save_refresh(home.environ, await plan_refresh(home.environ, ["openai", "anthropic"], url=server.url))
            plan = await plan_refresh(home.environ, ["openai"], url=server.url)
            save_refresh(home.environ, plan)
            assert [one.model for one in plan.changes] == ["gpt-9"]
            assert resolve(home).context_length == 3_000_000 and find_price(resolve(home), {}) is None
            assert resolve(home, "claude-x", "anthropic").context_length == 500_000


async def test_the_own_list_of_a_provider() -> None:
    rows = [
        {"id": "v/m-9", "context_length": 77_000, "pricing": {"prompt": "0.000003", "completion": "0.000015"}},
        {"id": "v/free", "pricing": {"prompt": "-1", "completion": "nan"}},
        "odd",
    ]
    async with loopback(listing({"data": rows})) as server:
        config = {"model": {"default": "v/m-9", "provider": "openrouter", "base_url": f"{server.url}/v1"}}
        more = {"OPENROUTER_API_KEY": KEY, "OPENROUTER_BASE_URL": f"{server.url}/v1"}
        with TempHome(config, more=more) as home:
            plan = await plan_refresh(home.environ, ["openrouter"], own=True)
            assert [(one.model, one.new.context_length) for one in plan.changes] == [("v/m-9", 77_000)]
            price = plan.changes[0].new.price
            assert price is not None and (price.input, price.output) == (3.0, 15.0)
            listed = await run_hermes(home, "model", "list")
    assert "77,000 $3/15" in " ".join(listed.stdout.split()) and server.requests[0].path == "/v1/models"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(status=500), "it answered 500"),
        (Reply(parts=[b"<html>"]), "it is not JSON"),
        (Reply(parts=[b"[" * 100_000]), "it is not JSON"),
        (listing([]), "names no model"),
        (listing({"openai": {"models": {"m": {"limit": {"context": True}}}}}), "names no model"),
        (
            listing({"openai": {"models": {"m": {"limit": {"context": 10**30}, "cost": {"input": 1e99}}}}}),
            "names no model",
        ),
        (Reply(parts=[b'{"a":'], end="cut"), "closed the connection"),
    ],
)
async def test_a_list_that_is_none_changes_nothing(reply: Reply, said: str) -> None:
    async with loopback(reply) as server:
        with TempHome(CONFIG) as home:
            with pytest.raises(ConfigError, match=said) as caught:
                await plan_refresh(home.environ, ["openai"], url=server.url)
            assert "\n" not in str(caught.value) and not (home.hermes / "models.json").exists()


async def test_what_cannot_be_meant_is_said() -> None:
    with TempHome(CONFIG) as home:
        for url in ("http://models.example/api.json", "file:///etc/passwd", "x", "https://[", "ftp://127.0.0.1"):
            with pytest.raises(UsageError, match="not an https address"):
                await plan_refresh(home.environ, ["openai"], url=url)
        with pytest.raises(UsageError, match="No list names") as caught:
            await plan_refresh(home.environ, ["opnai"])
        assert "openai" in caught.value.hint


@pytest.mark.parametrize("text", ["", "{", '{"form":9,"source":"s","as_of":"d"}', '{"form":1}', "\x00"])
async def test_a_damaged_file_is_one_line_and_can_be_replaced(text: str) -> None:
    async with loopback(listing()) as server:
        with TempHome(CONFIG, more={"OPENAI_API_KEY": KEY}) as home:
            (home.hermes / "models.json").write_text(text)
            with pytest.raises(ConfigError, match="damaged, or of a later version") as caught:
                resolve(home)
            assert "hermes model refresh" in caught.value.hint
            checks = {one.name: one for one in await check_home(home.environ)}
            assert (checks["settings"].state, checks["settings"].said) == ("problem", caught.value.message)
            save_refresh(home.environ, await plan_refresh(home.environ, ["openai"], url=server.url))
            assert resolve(home).context_length == 2_000_000


async def test_an_old_list_is_told() -> None:
    now = time.mktime((2026, 6, 1, 12, 0, 0, 0, 0, -1))
    assert count_days(ModelFile(source="s", as_of="2026-05-30"), now) == 2
    assert count_days(ModelFile(source="s", as_of="yesterday"), now) > 90
    async with loopback(listing({"data": [{"id": "m"}]})) as server:
        config = {"model": {"default": "m", "provider": "custom", "base_url": f"{server.url}/v1"}}
        with TempHome(config) as home:
            file = '{"form":1,"source":"https://lists.example/api.json","as_of":"2020-01-02"}'
            (home.hermes / "models.json").write_text(file)
            listed = await run_hermes(home, "model", "list")
    assert "lists.example/api.json, 2020-01-02" in listed.stderr and "hermes model refresh" in listed.stderr


async def test_options_that_do_not_fit() -> None:
    with TempHome(CONFIG) as home:
        for words in (("gpt", "--yes"), ("refresh", "--own", "--from", "https://x.example"), ("list", "a", "b")):
            assert (await run_hermes(home, "model", *words)).code == 2
