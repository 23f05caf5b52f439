"""What caches saved, from a provider's count to what a person reads; epochs and what they cost; the settings."""

import asyncio
import contextlib
import json

import apsw
import pytest

from hermes.admin.usage import build_usage_report, session_usage
from hermes.commands.usage import format_session_usage
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.usage import NANO_PER_USD, Price, Usage, compute_cost, compute_savings
from hermes.llm.exchange import find_price
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.testing.home import TempHome
from hermes.testing.script import Say
from hermes.testing.server import ScriptedServer
from tests.forked_hermes import run_hermes

MODEL = "claude-sonnet-5"
FIRST = Usage(input=10_000, output=100, cache_write=9_990)
SECOND = Usage(input=10_400, output=100, cache_read=9_990, cache_write=400)
LISTED = {"input": 2.0, "read": 0.2, "write": 2.5, "hour": 4.0}


def claude(url: str, **more: object) -> dict[str, object]:
    model = {"provider": "anthropic", "default": MODEL, "base_url": url, "api_key": "k" * 12}
    return {"model": model, "agent": {"api_max_retries": 0}, **more}


def gain(ttl: str = "5m") -> float:
    """What the two calls saved, in dollars, worked out by hand."""
    write = LISTED["hour" if ttl == "1h" else "write"]
    reads = SECOND.cache_read * (LISTED["input"] - LISTED["read"])
    writes = (FIRST.cache_write + SECOND.cache_write) * (LISTED["input"] - write)
    return (reads + writes) / 1e6


@pytest.mark.parametrize("ttl", ["5m", "1h"])
async def test_from_the_providers_count_to_the_report(ttl: str) -> None:
    async with ScriptedServer([Say("one", usage=FIRST), Say("two", usage=SECOND)]) as server:
        with TempHome(claude(server.url, prompt_caching={"cache_ttl": ttl})) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                first = app.turn_result(actor, await actor.post(InboundMessage(text="a")))
                second = app.turn_result(actor, await actor.post(InboundMessage(text="b")))
                shown = await session_usage(app, actor)
            report = await build_usage_report(home.environ)
    assert (first["cache_hit_rate"], second["cache_hit_rate"]) == (0.0, pytest.approx(9_990 / 10_400))
    assert first["cache_saved_usd"] + second["cache_saved_usd"] == pytest.approx(gain(ttl), abs=1e-8)
    assert shown["calls"] == 2
    assert shown["cache_hit_rate"] == pytest.approx(9_990 / 20_400)
    assert shown["cache_saved_usd"] == pytest.approx(gain(ttl), abs=1e-8)
    for row in (report["today"], report["month"], report["total"], report["models"][0], report["sessions"][0]):
        assert row["cache_saved_usd"] == pytest.approx(gain(ttl), abs=1e-8)
        assert row["cache_hit_rate"] == pytest.approx(9_990 / 20_400)
    (epoch,) = shown["epochs"]
    assert epoch == {"number": 1, "reason": "a new session", "uncached_bytes": 0, "first_prompt_tokens": 10_000}
    marks = [str(request.json).count("'cache_control'") for request in server.requests]
    assert marks == [2, 4]
    assert ("'ttl': '1h'" in str(server.requests[0].json)) is (ttl == "1h")


async def test_without_caching_no_mark_is_sent() -> None:
    async with ScriptedServer([Say("one")]) as server:
        with TempHome(claude(server.url, prompt_caching={"enabled": False})) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await (await app.open_session()).post(InboundMessage(text="a"))
    assert b"cache_control" not in server.requests[0].body


async def test_epochs_are_listed_with_what_they_cost() -> None:
    async with ScriptedServer([Say("one", usage=FIRST), Say("two", usage=FIRST)]) as server:
        with TempHome(claude(server.url)) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await (await app.open_session("s", create=True)).post(InboundMessage(text="a " * 500))
            async with App(home.environ, SessionOptions(cwd=str(home.cwd), model="claude-opus-5")) as app:
                actor = await app.open_session("s")
                await actor.post(InboundMessage(text="b"))
                shown = await session_usage(app, actor)
    old, new = shown["epochs"]
    assert (old["uncached_bytes"], old["first_prompt_tokens"]) == (None, 10_000)
    assert new["reason"] == "another model"
    assert 1_000 < new["uncached_bytes"] < 2_000
    lines = format_session_usage(shown)
    assert lines[0] == "2 calls, 20,000 tokens in, 200 out"
    assert lines[2].startswith("cache: 0 tokens read, 19,980 written; 0% from cache, which cost 0.0")
    assert lines[3] == "  part 1 of the conversation: a new session; 10,000 tokens in its first request"
    assert lines[4] == (
        f"  part 2 of the conversation: another model; {new['uncached_bytes']:,} bytes of it were sent again, "
        "10,000 tokens in its first request"
    )


async def test_a_model_without_a_price_saves_an_unknown_amount() -> None:
    async with ScriptedServer([Say("one", usage=FIRST), Say("two", usage=SECOND)]) as server:
        with TempHome.for_server(server.url, api_mode="anthropic_messages") as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session()
                for text in "ab":
                    await actor.post(InboundMessage(text=text))
                shown = await session_usage(app, actor)
            printed = await run_hermes(home, "usage")
            as_json = json.loads((await run_hermes(home, "usage", "--json")).stdout)
    assert shown["cache_saved_usd"] is None
    assert format_session_usage(shown)[2] == "cache: 9,990 tokens read, 10,390 written; 49% from cache"
    assert printed.stdout.count("; 49% from cache") == 4 and "saved" not in printed.stdout
    assert as_json["total"]["cache_hit_rate"] == pytest.approx(9_990 / 20_400)
    assert as_json["total"]["cache_saved_usd"] is None


def test_prices_of_an_hour() -> None:
    short, long = (
        resolve_endpoint(ModelChoice(MODEL, "anthropic", api_key="k" * 12, cache_ttl=ttl), {}) for ttl in ("5m", "1h")
    )
    cheap, dear = find_price(short, {}), find_price(long, {})
    assert cheap is not None and dear is not None
    assert (cheap.cache_write, dear.cache_write) == (2.5, 4.0)
    assert compute_cost(FIRST, dear) > compute_cost(FIRST, cheap)
    own = {MODEL: Price(input=1.0, output=1.0, cache_write=1.5)}
    assert find_price(long, own) == own[MODEL]
    tiered = Price(input=1.0, output=1.0, hour_write=2.0, beyond=5, long=Price(input=3.0, output=1.0, hour_write=2.0))
    assert tiered.price_for_hour_cache().price_for_prompt(6).cache_write == 6.0


def test_what_is_saved() -> None:
    price = Price(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5)
    assert compute_savings(Usage(input=1_000_000, output=5), price) == 0
    assert compute_savings(Usage(input=1_000_000, cache_read=1_000_000), price) == round(1.8 * NANO_PER_USD)
    assert compute_savings(Usage(input=1_000_000, cache_write=1_000_000), price) == round(-0.5 * NANO_PER_USD)
    assert Usage().hit_rate is None
    assert Usage(input=10, cache_read=5).hit_rate == 0.5
    assert Usage(input=5, cache_read=10).hit_rate == 1.0


@pytest.mark.parametrize(
    ("given", "ttl", "warned"),
    [
        ({}, "5m", False),
        ({"cache_ttl": "1h"}, "1h", False),
        ({"cache_ttl": "2h"}, "5m", True),
        ({"cache_ttl": 5}, "5m", True),
        ({"cache_ttl": None}, "5m", True),
        ({"cache_ttl": ["1h"]}, "5m", True),
        ({"cache_tll": "1h"}, "5m", True),
    ],
)
def test_the_setting(given: dict[str, object], ttl: str, warned: bool) -> None:
    with TempHome({"prompt_caching": given}) as home:
        loaded = load_settings(locate_home(home.environ))
    assert loaded.settings.prompt_caching.cache_ttl == ttl
    assert loaded.settings.prompt_caching.enabled
    assert bool(loaded.warnings) is warned
    assert all("cache_ttl" in line for line in loaded.warnings)


async def test_the_chat_tells() -> None:
    async with ScriptedServer([Say("one", usage=FIRST), Say("two", usage=SECOND)]) as server:
        with TempHome(claude(server.url)) as home:
            said = b"/usage\na\nb\n/usage\n"
            done = await asyncio.wait_for(run_hermes(home, stdin=said), 60)
    assert done.stdout.startswith("Nothing was used in this session yet.\n")
    assert "2 calls, 20,400 tokens in, 200 out\n" in done.stdout
    assert f"49% from cache, which saved {gain():.4f} USD" in done.stdout
    assert "part 1 of the conversation: a new session" in done.stdout


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        ("", ""),
        ("UPDATE epochs SET frame = CAST(json_set(CAST(frame AS TEXT), '$.system', '') AS BLOB)", "a system prompt"),
        (
            "UPDATE epochs SET frame = CAST(json_set(CAST(frame AS TEXT), '$.system', null) AS BLOB)",
            "could not be read",
        ),
        ("DELETE FROM epochs", "a new session"),
    ],
    ids=["present", "empty", "null", "missing"],
)
async def test_the_stored_prompt_is_used_again_or_built_anew(spoiled: str, reason: str) -> None:
    """Row TP-03. The identity has changed meanwhile, so a prompt that was built anew is another one."""
    async with ScriptedServer([Say("one"), Say("two")]) as server:
        with TempHome(claude(server.url)) as home:
            (home.hermes / "SOUL.md").write_text("You are the first.")
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                await (await app.open_session("s", create=True)).post(InboundMessage(text="a"))
            (home.hermes / "SOUL.md").write_text("You are the second.")
            if spoiled:
                with contextlib.closing(apsw.Connection(str(locate_home(home.environ).database))) as connection:
                    connection.execute(spoiled)
                    assert connection.changes() == 1
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                actor = await app.open_session("s")
                await actor.post(InboundMessage(text="b"))
                began = actor.conversation.epoch_reason
    first, second = (request.json["system"] for request in server.requests)
    assert ("You are the second." in str(second)) is bool(reason)
    assert (first == second) is not bool(reason)
    assert reason in began and bool(began) is bool(reason)
