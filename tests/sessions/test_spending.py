"""Caps in a running program: what is sent, what is refused, what is written down, on real sockets and databases."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import ConfigError
from hermes.core.events import TurnEnded
from hermes.core.frame import EpochFrame, Sampling
from hermes.core.messages import ImagePart, user_message
from hermes.core.outcomes import ExitReason
from hermes.core.usage import MAX_CALL_NANO, NANO_PER_USD, Certainty, Price, Usage, compute_cost
from hermes.llm.exchange import find_price
from hermes.llm.lineage import MAX_IMAGE_TOKENS, Lineage
from hermes.providers.records import list_provider_names, load_record
from hermes.providers.resolve import ModelChoice, resolve_endpoint
from hermes.runtime.actor import InboundMessage, SessionActor
from hermes.sessions.app import App
from hermes.sessions.model.spending import DEFAULT_OUTPUT_TOKENS
from hermes.sessions.options import SessionOptions
from hermes.store.records import SpendTotal
from hermes.store.store import Store
from hermes.testing.home import TempHome
from hermes.testing.prefix import check_prefixes
from hermes.testing.recorded import RecordedRequest
from hermes.testing.script import Call, Ending, Fail, Reply, ReplyDelivery, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.util.clock import SystemClock
from tests.forked_hermes import run_hermes

pytestmark = pytest.mark.slow

WIRES = {
    "chat_completions": "max_tokens",
    "responses": "max_output_tokens",
    "anthropic_messages": "max_tokens",
}
PRICE = {"input": 3.0, "output": 15.0}
PRICES = {"mock-model": PRICE}
RACE = Path(__file__).parents[2] / "scripts" / "cap_race.py"


def config(**spending: object) -> dict[str, object]:
    return {"prices": PRICES, "spending": spending, "agent": {"api_max_retries": 0}}


@asynccontextmanager
async def session(
    home: TempHome, options: SessionOptions | None = None, *, latest: bool = False
) -> AsyncIterator[SessionActor]:
    async with App(home.environ, options or SessionOptions(cwd=str(home.cwd))) as app:
        yield await app.open_session(latest=latest)


async def say(actor: SessionActor, text: str = "go") -> TurnEnded:
    return await asyncio.wait_for(asyncio.shield(actor.post(InboundMessage(text=text))), 60)


async def one_turn(
    replies: Sequence[Reply], settings: Mapping[str, object], options: SessionOptions | None = None, *, wire: str = ""
) -> tuple[TurnEnded, list[RecordedRequest], list[SpendTotal]]:
    """A turn in a home of its own: its end, the requests that it made, and what the books say."""
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, api_mode=wire, more_config=settings) as home:
            async with session(home, options) as actor:
                ended = await say(actor)
            return ended, server.requests, await books(home)


async def books(home: TempHome) -> list[SpendTotal]:
    store = await Store.open(home.hermes, SystemClock())
    try:
        assert await store.spending.list_open_calls() == []
        return await store.spending.list_totals(0)
    finally:
        await store.close()


@pytest.mark.parametrize("wire", WIRES)
async def test_the_answers_limit_is_lowered_and_the_prefix_stands(wire: str) -> None:
    def reply(request: RecordedRequest) -> Reply:
        limit = request.json[WIRES[wire]]
        usage = Usage(input=request.size, output=min(limit, 3_000))
        return Say("done", usage=usage) if request.number == 3 else Say(calls=(Call("todo", {}),), usage=usage)

    async with ScriptedServer(ScriptedModel(reply)) as server:
        with TempHome.for_server(server.url, api_mode=wire, more_config=config(session={"usd": 0.35})) as home:
            async with session(home) as actor:
                ended = await say(actor)
        limits = [request.json[WIRES[wire]] for request in server.requests]
        billed = sum(compute_cost(Usage(input=r.size, output=3_000), Price(**PRICE)) for r in server.requests)
        assert ended.reason is ExitReason.TEXT_RESPONSE, ended.error
        assert (ended.cost.certainty, ended.cost.nano) == (Certainty.COMPUTED, billed)
        assert ended.cost.source == "config.yaml"
        assert limits == sorted(limits, reverse=True) and 4_096 <= limits[-1] < limits[0] <= DEFAULT_OUTPUT_TOKENS
        assert "0.35 USD spent" in ended.cost.cap
        assert check_prefixes(server.requests) == 3


async def test_a_turn_that_fits_no_more_ends_by_name() -> None:
    ended, requests, _ = await one_turn([Say("never")], config(day={"usd": 0.01}, month={"usd": 5.0}))
    assert (ended.reason, ended.calls, requests) == (ExitReason.SPEND_LIMIT, 1, [])
    assert "cap for the day" in ended.error and "spending.day" in ended.error
    assert "0.01 USD" in ended.error and "hermes usage" in ended.error
    assert ended.cost.nano == 0


async def test_zero_means_nothing() -> None:
    ended, requests, _ = await one_turn([], config(run={"tokens": 0}))
    assert (ended.reason, requests) == (ExitReason.SPEND_LIMIT, [])
    ended, requests, _ = await one_turn([], {"prices": PRICES}, SessionOptions(max_cost=0.0))
    assert (ended.reason, requests) == (ExitReason.SPEND_LIMIT, [])
    assert "--max-cost" in ended.error


async def test_tokens_can_be_capped_without_a_price() -> None:
    limit = 40_000
    replies = [Say(calls=(Call("todo", {}),), usage=Usage(input=9_000, output=2_000))] * 9
    ended, requests, (total,) = await one_turn(replies, {"spending": {"run": {"tokens": limit}}})
    assert ended.reason is ExitReason.SPEND_LIMIT
    assert (total.usage.total, len(requests)) == (33_000, 3)
    assert total.uncounted == 3
    assert ended.cost.usd is None
    assert requests[2].json["max_tokens"] <= limit - 22_000 - 9_000


async def test_a_model_without_a_price_is_not_called_under_a_cap_in_dollars() -> None:
    ended, requests, _ = await one_turn([Say("no")], {"spending": {"day": {"usd": 100.0}}})
    assert (ended.reason, requests) == (ExitReason.SPEND_LIMIT, [])
    assert "prices" in ended.error and "custom/mock-model" in ended.error and "(day)" in ended.error


async def test_a_model_on_this_machine_costs_nothing() -> None:
    async with ScriptedServer([Say("hi")]) as server:
        model = {"default": "m", "provider": "vllm", "base_url": server.url}
        with TempHome({"model": model, "spending": {"day": {"usd": 0.0}}}) as home:
            async with session(home) as actor:
                ended = await say(actor)
    assert (ended.text, ended.cost.nano, ended.cost.certainty) == ("hi", 0, Certainty.COMPUTED)


async def test_what_the_provider_reports_goes_before_the_list_price() -> None:
    usage = Usage(input=1_000, output=10, cost_usd=0.0421)
    ended, _, (total,) = await one_turn([Say("x", usage=usage)], config(day={"usd": 1.0}))
    assert (ended.cost.certainty, ended.cost.usd, ended.cost.source) == (Certainty.REPORTED, 0.0421, "provider")
    assert (total.nano, total.reported) == (42_100_000, 1)


async def test_under_a_cap_nothing_is_free_that_has_a_price() -> None:
    usage = Usage(input=1_000, output=10, cost_usd=0.0)
    ended, _, _ = await one_turn([Say("x", usage=usage)], config(day={"usd": 1.0}))
    assert (ended.cost.certainty, ended.cost.nano) == (Certainty.COMPUTED, compute_cost(usage, Price(**PRICE)))
    ended, _, _ = await one_turn([Say("x", usage=usage)], config())
    assert (ended.cost.certainty, ended.cost.nano) == (Certainty.REPORTED, 0)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_broken_stream_counts_at_its_worst(wire: str) -> None:
    usage = Usage(input=700, output=5)
    cut = Say("half of it", usage=usage, chunk=2, delivery=ReplyDelivery(ending=Ending.CUT, at=4))
    ended, requests, (total,) = await one_turn([cut] * 9, config(day={"usd": 1.0}), wire=wire)
    assert ended.reason in (ExitReason.PARTIAL_STREAM, ExitReason.RETRIES_EXHAUSTED)
    assert total.bounds == total.calls == len(requests)
    assert total.usage.output == sum(request.json[WIRES[wire]] for request in requests)
    if wire == "anthropic_messages":  # it says at the beginning what the prompt was
        assert total.usage.input == 700 * len(requests)
    else:
        assert total.usage.input >= sum(request.size for request in requests)
    assert ended.cost.certainty is Certainty.UPPER_BOUND
    assert ended.cost.nano == total.nano


@pytest.mark.parametrize("status", [400, 429, 500, 529])
async def test_an_error_costs_nothing(status: int) -> None:
    ended, _, totals = await one_turn([Fail(status)], config(day={"usd": 1.0}))
    assert ended.reason in (ExitReason.PROVIDER_ERROR, ExitReason.RETRIES_EXHAUSTED)
    assert (ended.cost.nano, totals) == (0, [])


async def test_a_gateway_that_gave_up_may_have_been_served_behind_it() -> None:
    _, _, (total,) = await one_turn([Fail(504)], config(day={"usd": 1.0}))
    assert total.bounds == 1


@pytest.mark.parametrize("settings", [config(day={"usd": 1.0}), {"prices": PRICES}])
async def test_a_stopped_call_counts_at_its_worst(settings: Mapping[str, object]) -> None:
    async with ScriptedServer([Say("long", delivery=ReplyDelivery(hold_at=1))]) as server:
        with TempHome.for_server(server.url, more_config=settings) as home:
            async with session(home) as actor:
                turn = actor.post(InboundMessage(text="go"))
                await server.wait_held(await server.wait_for(1))
                actor.stop()
                ended = await turn
            (total,) = await books(home)
    assert (ended.reason, total.bounds) == (ExitReason.INTERRUPTED, 1)
    assert ended.cost.nano == total.nano > 0


async def test_a_call_waits_for_what_another_may_leave() -> None:
    first = Say("one", usage=Usage(input=10, output=1), delivery=ReplyDelivery(hold_at=1))
    async with ScriptedServer([first, Say("two")]) as server:
        with TempHome.for_server(server.url, more_config=config(day={"usd": 0.14})) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                one, two = await app.open_session(), await app.open_session()
                turn = one.post(InboundMessage(text="a"))
                held = await server.wait_for(1)
                await server.wait_held(held)
                other = two.post(InboundMessage(text="b"))
                done, _ = await asyncio.wait({other}, timeout=0.4)
                assert not done and len(server.requests) == 1
                server.release()
                assert (await turn).text == "one"
                assert (await asyncio.wait_for(other, 60)).text == "two"


async def test_a_waiting_call_can_be_stopped_and_leaves_nothing_held() -> None:
    async with ScriptedServer([Say("one", delivery=ReplyDelivery(hold_at=1))]) as server:
        with TempHome.for_server(server.url, more_config=config(day={"usd": 0.14})) as home:
            async with App(home.environ, SessionOptions(cwd=str(home.cwd))) as app:
                one, two = await app.open_session(), await app.open_session()
                turn = one.post(InboundMessage(text="a"))
                await server.wait_held(await server.wait_for(1))
                other = two.post(InboundMessage(text="b"))
                await asyncio.wait({other}, timeout=0.2)
                two.stop()
                assert (await asyncio.wait_for(other, 60)).reason is ExitReason.INTERRUPTED
                server.release()
                await turn
            (total,) = await books(home)
            assert total.calls == 1


async def test_without_a_cap_nothing_is_held_and_everything_is_written() -> None:
    replies = [
        Say(calls=(Call("todo", {}),), usage=Usage(input=100, output=7)),
        Say("x", usage=Usage(input=200, output=8)),
    ]
    ended, requests, (total,) = await one_turn(replies, {"prices": PRICES})
    assert all("max_tokens" not in request.json for request in requests)
    assert (total.calls, total.usage.input, total.usage.output) == (2, 300, 15)
    assert total.nano == ended.cost.nano == 300 * 3_000 + 15 * 15_000


async def test_a_resumed_session_knows_what_was_counted() -> None:
    text = "word " * 8_000  # a token a byte: 0.12 USD; as it was counted: 0.03
    replies = [Say("ok", usage=Usage(input=10_000, output=1)), Say("still here", usage=Usage(input=10_100, output=1))]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=config(session={"usd": 0.30})) as home:
            async with session(home) as actor:
                assert (await say(actor, text)).text == "ok"
            async with session(home, latest=True) as actor:
                before = actor.conversation.lineage.max_input_tokens
                assert 10_000 < before < 12_000
                assert (await say(actor, "and now?")).text == "still here"


def lineage(model: str = "m", *, provider: str = "custom", wire: str = "", effort: str = "") -> Lineage:
    choice = ModelChoice(model, provider, base_url="http://127.0.0.1:9/v1", api_key="k", api_mode=wire)
    endpoint = resolve_endpoint(choice, {})
    frame = EpochFrame(
        provider=provider,
        model=model,
        wire=endpoint.wire,
        encoder_version=1,
        system="s",
        sampling=Sampling(max_tokens=30_000, reasoning_effort=effort or None),
    )
    return Lineage(frame, endpoint)


@pytest.mark.parametrize("wire", WIRES)
def test_pictures_count_by_themselves(wire: str) -> None:
    made = lineage(wire=wire)
    before = made.max_text_tokens
    made.append_messages([user_message("look", ImagePart(data="A" * 3_000_000))])
    assert MAX_IMAGE_TOKENS < made.max_text_tokens - before < MAX_IMAGE_TOKENS + 500


@pytest.mark.parametrize("wire", WIRES)
def test_a_body_is_never_larger_than_its_bound(wire: str) -> None:
    made = lineage(wire=wire)
    made.append_messages([user_message("鱻🙂 rare" * 50)])
    assert len(made.build_body(max_tokens=999_999, final=True)) <= made.max_input_tokens


def test_a_ceiling_is_not_raised_for_thinking() -> None:
    made = lineage("claude-sonnet-4-5", provider="anthropic", effort="high")
    body = json.loads(made.build_body(max_tokens=5_000))
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == (5_000, 2_500)
    body = json.loads(made.build_body(max_tokens=1_500))
    assert body["max_tokens"] == 1_500 and "thinking" not in body
    assert json.loads(made.build_body())["max_tokens"] == 30_000


def test_prices_are_dated_and_have_a_source() -> None:
    for name in list_provider_names():
        for model, price in load_record(name).prices.items():
            local = price.source == "runs on this machine"
            assert local or (price.source.startswith("https://") and price.as_of.startswith("2026-")), (name, model)
            if price.long is not None:
                assert price.beyond > 0
                assert price.long.dearest_input >= price.dearest_input and price.long.output >= price.output


def test_the_nearest_name_has_the_price() -> None:
    endpoint = resolve_endpoint(ModelChoice("claude-sonnet-4-5-20250929", "anthropic", api_key="k"), {})
    listed = find_price(endpoint, {})
    assert listed is not None and (listed.input, listed.cache_write) == (3.0, 3.75)
    own = {"claude-*": Price(input=1.0, output=1.0), "anthropic/claude-sonnet-*": Price(input=2.0, output=2.0)}
    found = find_price(endpoint, own)
    assert found is not None and found.input == 2.0
    assert find_price(resolve_endpoint(ModelChoice("claude-opus-9", "anthropic", api_key="k"), {}), {}) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"spending": {"day": {"usd": -1}}},
        {"spending": {"day": {"usd": float("nan")}}},
        {"spending": {"day": {"usd": float("inf")}}},
        {"spending": {"session": {"tokens": -5}}},
        {"spending": {"dya": {"usd": 1}}},
        {"spending": {"day": {"eur": 1}}},
        {"prices": {"m": {"input": -1, "output": 1}}},
        {"prices": {"m": {"input": 1}}},
    ],
)
def test_a_cap_that_could_not_hold_is_refused(wrong: dict[str, object]) -> None:
    with TempHome(wrong) as home:
        for _ in range(2):  # what is kept of a parsed file must not lose the mistake
            with pytest.raises(ConfigError):
                load_settings(locate_home(home.environ))


async def test_the_command_line_caps_a_run_and_usage_tells() -> None:
    replies = [Say("fine", usage=Usage(input=2_000, output=10)), Say("never")]
    async with ScriptedServer(replies) as server:
        with TempHome.for_server(server.url, more_config=config(day={"usd": 2.0}, session={"usd": 1.5})) as home:
            before = await run_hermes(home, "usage")
            assert before.code == 1 and "Nothing was spent" in before.stderr
            done = await run_hermes(home, "-z", "hi", "--max-cost", "0.5", "--usage-file", "u.json")
            assert (done.code, done.stdout, done.stderr) == (0, "fine\n", "")
            used = json.loads((home.cwd / "u.json").read_text())
            assert (used["estimated_cost_usd"], used["cost_status"], used["cost_source"]) == (
                0.00615,
                "computed",
                "config.yaml",
            )
            refused = await run_hermes(home, "-z", "hi", "--max-cost", "0.001")
            assert refused.code == 1 and "cap for the run" in refused.stderr
            report = json.loads((await run_hermes(home, "usage", "--json")).stdout)
            assert (report["today"]["calls"], report["today"]["usd"]) == (1, 0.00615)
            assert report["models"][0]["key"] == "custom/mock-model"
            day = next(cap for cap in report["caps"] if cap["name"] == "day")
            assert (day["usd"], day["usd_left"]) == (2.0, 1.99385)
            plain = await run_hermes(home, "usage", "--session", report["sessions"][0]["key"])
            assert "0.0062 USD (by list price)" in plain.stdout and "1.49 USD of 1.50 USD left" in plain.stdout
            wrong = await run_hermes(home, "usage", "--since", "yesterday")
            assert wrong.code == 2 and "2026-11-01" in wrong.stderr


async def test_many_turns_in_several_processes_with_kills_among_them() -> None:
    command = [sys.executable, str(RACE), "--turns", "16", "--processes", "4", "--kills", "2"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_use_of_a_call_is_beyond_all_sense() -> None:
    assert Usage(-1, 10**30, -5, 10**12, -1, cost_usd=1e30).clamp_counts() == Usage(0, 10**9, 0, 10**9, 0, 1e6)
    assert {Usage(cost_usd=bad).clamp_counts().cost_usd for bad in (float("nan"), -1.0)} == {None}
    assert compute_cost(Usage(output=10**9), Price(input=0.0, output=1e14)) == MAX_CALL_NANO


def test_an_amount_is_whole_nano_dollars() -> None:
    assert compute_cost(Usage(input=1), Price(input=0.0028, output=0.0)) == 3  # 2.8 of them, rounded up
    assert (
        compute_cost(Usage(input=10**6, output=10**6), Price(input=0.435, output=0.87)) == 1_305 * NANO_PER_USD // 1_000
    )
