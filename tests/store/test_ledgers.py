"""Room under caps: no order of reservations, settlements, kills and clock jumps lets more be billed than they hold."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.usage import (
    FREE,
    NANO_PER_USD,
    Certainty,
    Cost,
    Price,
    Usage,
    compute_affordable_output,
    compute_cost,
    compute_worst_cost,
)
from hermes.store import ledgers
from hermes.store.records import (
    CallSpend,
    NewSession,
    SpendCap,
    SpendOrigin,
    SpendRefusal,
    SpendRequest,
    SpendReservation,
)
from hermes.store.repository import Transaction
from hermes.store.schema import HERMES
from hermes.store.store import Store
from hermes.testing.clock import ManualClock
from hermes.util.process_identity import identify_this_process, is_alive

DAY = 86_400.0
PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
TIERED = Price(input=1.0, output=4.0, beyond=3_000, long=Price(input=2.0, output=6.0))
PRICES = st.sampled_from([PRICE, TIERED, FREE, None])


@contextmanager
def memory() -> Iterator[Transaction]:
    connection = apsw.Connection(":memory:")
    for step in HERMES.steps:
        connection.execute(step).fetchall()
    try:
        yield Transaction(connection, 0.0)
    finally:
        connection.close()


def caller(number: int, owner: str = "me") -> SpendOrigin:
    return SpendOrigin(provider="p", model="m", session_id=f"s{number % 2}", run_id=f"r{number % 3}", owner=owner)


def wish(prompt: int, output: int, price: Price | None = PRICE) -> SpendRequest:
    return SpendRequest(prompt=prompt, output=output, enough=min(output, 4_096), least=min(output, 1_024), price=price)


def test_sums_larger_than_64_bits_are_exact() -> None:
    with memory() as tx:
        for _ in range(3):
            ledgers.record_spend(
                tx.at_time(1.0), caller(0), CallSpend(usage=Usage(5, 5), cost=Cost(nano=(1 << 62) + 1))
            )
        standing = ledgers.get_cap_usage(tx, SpendCap(name="day", nano=1, since=0.0))
        (total,) = ledgers.list_spend_totals(tx, 0.0, session_id=None)
    assert (standing.nano, standing.tokens, standing.held_nano) == (3 * ((1 << 62) + 1), 30, 0)
    assert (total.nano, total.calls) == (standing.nano, 3)


@given(st.integers(0, 10**6), st.integers(0, 10**12), PRICES)
def test_what_is_affordable_is_never_dearer_than_the_room(prompt: int, nano: int, price: Price | None) -> None:
    if price is None:
        return
    output = compute_affordable_output(prompt, nano, price)
    if output >= 0:
        assert compute_worst_cost(prompt, min(output, 10**9), price) <= nano
    if output < 10**9:
        assert compute_worst_cost(prompt, max(output, -1) + 1, price) > nano


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1), st.sampled_from([PRICE, TIERED]))
def test_no_split_of_a_prompt_costs_more_than_the_worst(
    prompt: int, output: int, read: float, write: float, price: Price
) -> None:
    read_tokens = int(prompt * read)
    used = Usage(input=prompt, output=output, cache_read=read_tokens, cache_write=int((prompt - read_tokens) * write))
    assert compute_cost(used, price) <= compute_worst_cost(prompt, output, price)


class Billed:
    """What a provider that takes all it may has billed, call by call."""

    def __init__(self) -> None:
        self.calls: list[tuple[SpendOrigin, int, int]] = []

    def add(self, who: SpendOrigin, nano: int, tokens: int) -> None:
        self.calls.append((who, nano, tokens))

    def holds(self, cap: SpendCap) -> bool:
        mine = [one for one in self.calls if getattr(one[0], cap.column) == cap.value]
        money = cap.nano is None or sum(nano for _, nano, _ in mine) <= cap.nano
        return money and (cap.tokens is None or sum(tokens for *_, tokens in mine) <= cap.tokens)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "call", "call", "settle", "unserved", "cut", "die", "clock"]),
        st.integers(0, 5),
        st.integers(1, 6_000),
        st.integers(1, 9_000),
        st.sampled_from([PRICE, TIERED]),
    ),
    min_size=12,
    max_size=60,
)


@given(STEPS, st.integers(NANO_PER_USD // 50, NANO_PER_USD // 4), st.one_of(st.none(), st.integers(5_000, 60_000)))
def test_no_order_of_steps_bills_more_than_a_cap(
    steps: list[tuple[str, int, int, int, Price]], nano: int, tokens: int | None
) -> None:
    clock, billed = ManualClock(), Billed()
    caps = {
        number: (
            SpendCap(name="run", column="run_id", value=f"r{number % 3}", nano=nano // 2),
            SpendCap(name="session", column="session_id", value=f"s{number % 2}", nano=nano, tokens=tokens),
        )
        for number in range(6)
    }
    on_day: Counter[float] = Counter()
    under_way: dict[int, tuple[SpendOrigin, SpendRequest, SpendReservation]] = {}
    days: dict[int, float] = {}
    with memory() as tx:
        for what, number, prompt, output, price in steps:
            if what == "clock":
                clock.set_now(clock.now() + (number - 3) * DAY / 2)
            elif what == "die":
                ledgers.settle_lost_spend(tx, lambda owner, gone=f"p{number}": owner != gone, "nobody")
            elif what == "call":
                who, asked = caller(number, f"p{number}"), wish(prompt, output, price)
                today = clock.now() // DAY * DAY
                day = SpendCap(name="day", nano=nano * 2 // 3, since=today)
                answer = ledgers.reserve_spend(tx.at_time(clock.now()), who, asked, (*caps[number], day))
                if isinstance(answer, SpendReservation):
                    assert asked.least <= answer.output <= output
                    under_way[answer.id], days[answer.id] = (who, asked, answer), today
                    on_day[today] += compute_worst_cost(prompt, answer.output, price)
                    billed.add(who, compute_worst_cost(prompt, answer.output, price), prompt + answer.output)
            elif under_way:
                held_id = sorted(under_way)[number % len(under_way)]
                who, asked, held = under_way.pop(held_id)
                settle(tx, what, held_id, asked, held)
                if what == "unserved":
                    assert asked.price is not None
                    nothing = compute_worst_cost(asked.prompt, held.output, asked.price)
                    billed.calls.remove((who, nothing, asked.prompt + held.output))
                    on_day[days[held_id]] -= nothing
            assert all(billed.holds(cap) for some in caps.values() for cap in some)
            assert max(on_day.values(), default=0) <= nano * 2 // 3


def settle(tx: Transaction, how: str, held_id: int, asked: SpendRequest, held: SpendReservation) -> None:
    """As a meter does: with the provider's own count (here: all that it may), as a bound, or not at all."""
    assert asked.price is not None
    if how == "unserved":
        ledgers.settle_spend(tx, held_id, None)
        return
    used = Usage(input=asked.prompt, output=held.output)
    certainty = Certainty.UPPER_BOUND if how == "cut" else Certainty.COMPUTED
    nano = compute_worst_cost(asked.prompt, held.output, asked.price)
    ledgers.settle_spend(tx, held_id, CallSpend(usage=used, cost=Cost(nano=nano, certainty=certainty)))


def test_a_shortage_names_the_tightest_cap_and_whether_waiting_helps() -> None:
    caps = (
        SpendCap(name="day", nano=NANO_PER_USD),
        SpendCap(name="run", column="run_id", value="r0", nano=NANO_PER_USD // 10),
    )
    with memory() as tx:
        first = ledgers.reserve_spend(tx, caller(0), wish(1_000, 6_000), caps)
        assert isinstance(first, SpendReservation)
        assert first.tightest is None
        second = ledgers.reserve_spend(tx, caller(0), wish(1_000, 6_000), caps)
        assert isinstance(second, SpendRefusal)
        assert (second.tightest.cap.name, second.may_come) == ("run", True)
        ledgers.settle_spend(
            tx, first.id, CallSpend(usage=Usage(input=1, output=1), cost=Cost(nano=NANO_PER_USD // 10))
        )
        third = ledgers.reserve_spend(tx, caller(0), wish(1_000, 6_000), caps)
        assert isinstance(third, SpendRefusal)
        assert not third.may_come


def test_a_cap_that_is_overspent_lets_only_free_calls_pass() -> None:
    caps = (SpendCap(name="day", nano=0),)
    with memory() as tx:
        ledgers.record_spend(tx, caller(0), CallSpend(usage=Usage(input=1), cost=Cost(nano=5)))
        assert isinstance(ledgers.reserve_spend(tx, caller(0), wish(9, 9, FREE), caps), SpendReservation)
        assert isinstance(ledgers.reserve_spend(tx, caller(0), wish(9, 9), caps), SpendRefusal)


async def test_a_clock_that_goes_back_opens_no_day_twice(tmp_path: Path) -> None:
    clock = ManualClock()
    day = 86_400.0
    today = clock.now()
    store = await Store.open(tmp_path, clock)
    cap = SpendCap(name="day", nano=NANO_PER_USD // 50, since=today)
    clock.set_now(today + day)
    assert isinstance(await store.spending.reserve(caller(0), wish(1_000, 1_000), (cap,)), SpendReservation)
    clock.set_now(today + 60)
    assert isinstance(await store.spending.reserve(caller(0), wish(1_000, 1_000), (cap,)), SpendRefusal)
    await store.close()


async def test_what_a_dead_process_held_is_settled_at_its_worst(tmp_path: Path) -> None:
    script = "from hermes.util.process_identity import identify_this_process; print(identify_this_process())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    gone, own = done.stdout.strip(), identify_this_process()
    assert is_alive(own) and not is_alive(gone)
    store = await Store.open(tmp_path, ManualClock())
    cap = SpendCap(name="day", nano=NANO_PER_USD // 50)
    held = await store.spending.reserve(caller(0, gone), wish(1_000, 1_000), (cap,))
    assert isinstance(held, SpendReservation)
    assert len(await store.spending.list_open_calls()) == 1
    refused = await store.spending.reserve(caller(0, own), wish(1_000, 1_000), (cap,))
    assert isinstance(refused, SpendRefusal)
    assert not refused.may_come
    (total,) = await store.spending.list_totals(0)
    assert (total.nano, total.bounds) == (compute_worst_cost(1_000, 1_000, PRICE), 1)
    assert await store.spending.list_open_calls() == []
    # It was alive after all (in another container, say): its own word takes the bound's place.
    await store.spending.settle(held.id, CallSpend(usage=Usage(input=9, output=9), cost=Cost(nano=7)))
    (total,) = await store.spending.list_totals(0)
    assert (total.nano, total.bounds, total.calls) == (7, 0, 1)
    await store.close()


async def test_each_user_has_an_allowance(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, ManualClock())
    for session, user in (("s0", "anna"), ("s1", "ben"), ("s2", "anna")):
        await store.sessions.create(NewSession(id=session, user_id=user))
    await store.spending.record(caller(0), CallSpend(usage=Usage(input=5), cost=Cost(nano=NANO_PER_USD)))
    caps = [SpendCap(name="user", column="user_id", value=session, nano=NANO_PER_USD) for session in ("s0", "s1", "s2")]
    assert [one.nano for one in await store.spending.list_cap_usage(caps)] == [NANO_PER_USD, 0, NANO_PER_USD]
    await store.erasure.delete_session("s0")
    assert [one.nano for one in await store.spending.list_cap_usage(caps)][1:] == [0, NANO_PER_USD]
    await store.close()
