"""The pool of keys: which one a call takes, and what becomes of one that failed."""

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.config.settings import Strategy
from hermes.core.outcomes import FailureKind, Scope
from hermes.core.stream import Failure
from hermes.llm.key_pool import KeyLease, KeyPool, KeySlot
from hermes.llm.key_sources import CommandKeySource, LiteralKeySource, VariableKeySource
from hermes.store.store import Store
from hermes.testing.clock import ManualClock

KEYS = ["sk-" + os.urandom(12).hex() for _ in range(3)]
A, B, C = KEYS


def given(*keys: str) -> list[KeySlot]:
    return [KeySlot(f"env:K{number}", LiteralKeySource(key, "given"), key=key) for number, key in enumerate(keys, 1)]


def limit(kind: FailureKind = FailureKind.RATE_LIMIT, scope: Scope = Scope.KEY, wait: float | None = None) -> Failure:
    return Failure(kind=kind, message="no", retryable=True, rotate=True, scope=scope, retry_after=wait)


async def key(pool: KeyPool, model: str = "m") -> str:
    lease = await pool.lease_key(model)
    assert isinstance(lease, KeyLease), lease
    return lease.key


async def fail(pool: KeyPool, failure: Failure, *, model: str = "m") -> bool:
    lease = await pool.lease_key(model)
    assert isinstance(lease, KeyLease), lease
    return await pool.report_failure(lease, failure)


@asynccontextmanager
async def store(folder: Path, clock: ManualClock) -> AsyncIterator[Store]:
    opened = await Store.open(folder, clock)
    try:
        yield opened
    finally:
        await opened.close()


async def test_each_strategy_chooses_per_call(tmp_path: Path) -> None:
    clock = ManualClock()

    async def taken(strategy: Strategy, calls: int = 30) -> Counter[str]:
        pool = KeyPool("p", given(A, B, C), clock, strategy=strategy)
        return Counter([await key(pool) for _ in range(calls)])

    assert await taken(Strategy.FILL_FIRST) == {A: 30}
    assert await taken(Strategy.ROUND_ROBIN) == {A: 10, B: 10, C: 10}
    assert await taken(Strategy.LEAST_USED) == {A: 10, B: 10, C: 10}
    random = await taken(Strategy.RANDOM, 300)
    assert all(60 < random[one] < 140 for one in KEYS)


async def test_uses_are_known_to_the_next_process(tmp_path: Path) -> None:
    clock = ManualClock()
    for strategy in (Strategy.LEAST_USED, Strategy.ROUND_ROBIN):
        taken = []
        for _ in range(6):
            async with store(tmp_path / strategy, clock) as ledger:
                taken.append(await key(KeyPool("p", given(A, B, C), clock, strategy=strategy, ledger=ledger.keys)))
        assert taken == [A, B, C, A, B, C]


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [(FailureKind.RATE_LIMIT, 3600), (FailureKind.BILLING, 3600), (FailureKind.AUTH, 300), (FailureKind.UNKNOWN, 3600)],
)
async def test_a_key_rests_and_is_used_again_at_that_moment(kind: FailureKind, seconds: float) -> None:
    clock = ManualClock()
    pool = KeyPool("p", given(A, B), clock)
    assert await fail(pool, limit(kind))
    await clock.advance(seconds - 1)
    assert await key(pool) == B
    await clock.advance(1)
    assert await key(pool) == A


async def test_the_providers_own_time_is_exact() -> None:
    clock = ManualClock()
    pool = KeyPool("p", given(A, B), clock)
    await fail(pool, limit(wait=2.0))
    await clock.advance(1.9)
    assert await key(pool) == B
    await clock.advance(0.1)
    assert await key(pool) == A


async def test_only_whom_the_scope_names_is_charged() -> None:
    clock = ManualClock()
    pool = KeyPool("p", given(A, B), clock)
    assert await fail(pool, limit(scope=Scope.MODEL))
    assert (await key(pool), await key(pool, "other")) == (B, A)
    pool = KeyPool("p", given(A, B), clock)
    for scope in (Scope.UPSTREAM, Scope.REQUEST):
        assert not await fail(pool, limit(scope=scope))
        assert await key(pool) == A
    # Whose keys they are is not known: each is tried once.
    assert await fail(pool, limit(scope=Scope.ORGANISATION))
    assert await key(pool) == B
    assert not await fail(pool, limit(scope=Scope.ORGANISATION))
    assert [one.state for one in await pool.list_key_states()] == ["cooling", "cooling"]
    mine, too = given(A, B)
    mine.organisation = too.organisation = "ours"
    pool = KeyPool("p", [mine, too], clock)
    assert not await fail(pool, limit(scope=Scope.ORGANISATION))
    assert [one.state for one in await pool.list_key_states()] == ["cooling", "cooling"]
    mine, theirs = given(A, B)
    mine.organisation, theirs.organisation = "ours", "other"
    pool = KeyPool("p", [mine, theirs], clock)
    assert await fail(pool, limit(scope=Scope.ORGANISATION))
    assert await key(pool) == B


async def test_a_wait_that_the_provider_named_is_a_failure_that_says_until_when() -> None:
    clock = ManualClock()
    pool = KeyPool("p", given(A, B), clock, title="Acme")
    await fail(pool, limit(wait=90.0))
    assert not await fail(pool, limit(wait=7200.0))
    refused = await pool.lease_key("m")
    assert isinstance(refused, Failure)
    assert (refused.kind, refused.retry_after, refused.retryable) == (FailureKind.RATE_LIMIT, 90.0, True)
    assert refused.fall_back and refused.message.startswith("All 2 keys of Acme wait; the first can be used again at ")
    assert "hermes auth list" in refused.hint
    assert not await pool.has_usable_key("m")
    pool = KeyPool("p", given(A), clock)
    await fail(pool, limit(wait=7200.0))
    refused = await pool.lease_key("m")
    assert isinstance(refused, Failure) and (refused.retry_after, refused.fall_back) == (7200.0, True)


async def test_a_guess_prefers_another_key_and_refuses_none() -> None:
    clock = ManualClock()
    pool = KeyPool("p", given(A), clock)
    assert not await fail(pool, limit())
    assert [one.state for one in await pool.list_key_states()] == ["cooling"]
    assert await pool.has_usable_key("m")
    lease = await pool.lease_key("m")
    assert isinstance(lease, KeyLease) and lease.key == A
    await clock.advance(1)
    lease = await pool.lease_key("m")
    assert isinstance(lease, KeyLease)
    await pool.report_success(lease)
    assert [one.state for one in await pool.list_key_states()] == ["ready"]
    # One account out of money may be all of them, or not: the one that was not asked is next.
    pool = KeyPool("p", given(A, B), clock)
    await fail(pool, limit(FailureKind.BILLING, Scope.ORGANISATION))
    assert await key(pool) == B


async def test_an_answer_to_an_older_call_ends_no_newer_cooldown() -> None:
    clock = ManualClock()
    pool = KeyPool("p", given(A, B), clock)
    older = await pool.lease_key("m")
    assert isinstance(older, KeyLease)
    await clock.advance(1)
    await fail(pool, limit(wait=60.0))
    await pool.report_success(older)
    assert await key(pool) == B


async def test_without_a_wait_another_key_is_preferred_and_the_only_one_used_again() -> None:
    pool = KeyPool("p", given(A, B), ManualClock())
    assert await fail(pool, limit(wait=0.0))
    assert await key(pool) == B
    pool = KeyPool("p", given(A), ManualClock())
    assert not await fail(pool, limit(wait=0.0))
    assert await key(pool) == A


async def test_a_wait_of_a_hair_is_slept_off() -> None:
    clock = ManualClock(auto=True)
    pool = KeyPool("p", given(A), clock)
    await fail(pool, limit(wait=0.2))
    assert await key(pool) == A
    assert sum(clock.slept) == pytest.approx(0.2, abs=0.01)


async def test_a_key_that_is_gone_for_good_stays_out_until_it_changes_or_is_reset(tmp_path: Path) -> None:
    clock = ManualClock()
    gone = limit(FailureKind.AUTH_PERMANENT, wait=3.0)
    async with store(tmp_path, clock) as ledger:
        pool = KeyPool("p", given(A), clock, ledger=ledger.keys)
        assert not await fail(pool, gone)
        await clock.advance(1_000_000)
        refused = await pool.lease_key("m")
        assert isinstance(refused, Failure) and refused.kind is FailureKind.AUTH_PERMANENT and refused.fall_back
        assert [one.state for one in await pool.list_key_states()] == ["dead"]
        assert await key(KeyPool("p", given(B), clock, ledger=ledger.keys)) == B
        assert await ledger.keys.clear("p") == 1
        await clock.advance(1)
        assert await key(pool) == A


async def test_another_process_knows_within_a_second(tmp_path: Path) -> None:
    clock = ManualClock()
    async with store(tmp_path, clock) as one, store(tmp_path, clock) as two:
        first, second = (KeyPool("p", given(A, B), clock, ledger=ledger.keys) for ledger in (one, two))
        assert await key(second) == A
        await fail(first, limit(wait=60.0))
        await clock.advance(1.0)
        assert await key(second) == B
        async with store(tmp_path, clock) as three:
            assert await key(KeyPool("p", given(A, B), clock, ledger=three.keys)) == B
            assert await key(KeyPool("other", given(A, B), clock, ledger=three.keys)) == A


_CHILD = """
import asyncio, sys
from pathlib import Path
from hermes.core.outcomes import FailureKind, Scope
from hermes.core.stream import Failure
from hermes.llm.key_pool import KeySlot
from hermes.llm.key_sources import LiteralKeySource
from hermes.llm.key_pool import KeyPool
from hermes.store.store import Store
from hermes.util.clock import SystemClock

async def main(folder, *keys):
    store = await Store.open(Path(folder), SystemClock())
    pool = KeyPool("p", [KeySlot(f"env:K{n}", LiteralKeySource(k, "given"), key=k) for n, k in enumerate(keys, 1)],
                   SystemClock(), ledger=store.keys)
    lease = await pool.lease_key("m")
    failure = Failure(kind=FailureKind.RATE_LIMIT, message="", scope=Scope.KEY, retry_after=500.0)
    await pool.report_failure(lease, failure)
    await store.close()

asyncio.run(main(*sys.stdin.read().split()))
"""


async def test_a_real_process_tells_another(tmp_path: Path) -> None:
    import asyncio

    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _CHILD, stdin=asyncio.subprocess.PIPE)
    await process.communicate(f"{tmp_path} {A} {B}".encode())
    assert process.returncode == 0
    clock = ManualClock(start=__import__("time").time())
    async with store(tmp_path, clock) as ledger:
        assert await key(KeyPool("p", given(A, B), clock, ledger=ledger.keys)) == B
    for file in tmp_path.rglob("*"):
        assert not any(one.encode() in file.read_bytes() for one in (A, B)), file


async def test_a_clock_that_is_put_back_lengthens_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    async with store(tmp_path, clock) as ledger:
        pool = KeyPool("p", given(A, B), clock, ledger=ledger.keys)
        await fail(pool, limit(wait=100.0))
        clock.set_now(clock.now() - 1_000_000)
        assert await key(pool) == B
        await clock.advance(100)
        assert await key(pool) == A


async def test_a_ledger_that_fails_costs_no_call(tmp_path: Path) -> None:
    clock = ManualClock()
    ledger = await Store.open(tmp_path, clock)
    pool = KeyPool("p", given(A, B), clock, ledger=ledger.keys)
    await ledger.close()
    await fail(pool, limit(wait=60.0))
    await clock.advance(5)
    assert await key(pool) == B


async def test_a_source_is_read_when_needed_and_anew_once_when_its_key_is_refused(tmp_path: Path) -> None:
    clock = ManualClock()
    place, count = tmp_path / "key", tmp_path / "count"
    place.write_text(B)
    script = tmp_path / "op"
    script.write_text(f'#!/bin/sh\necho x >> "{count}"\ncat "{place}"\n')
    script.chmod(0o700)
    program = KeySlot("auth:1", CommandKeySource(f"'{script}'", os.environ), label="op")
    pool = KeyPool("p", [*given(A), program], clock)
    assert await key(pool) == A and not count.exists()
    assert await fail(pool, limit(wait=3600.0))
    assert [await key(pool), await key(pool)] == [B, B]
    assert count.read_text().split() == ["x"]
    place.write_text(C)
    assert await fail(pool, limit(FailureKind.AUTH)), "the new key is tried at once"
    assert await key(pool) == C
    assert not await fail(pool, limit(FailureKind.AUTH)), "and only once"
    assert len(count.read_text().split()) == 2


async def test_a_variable_that_was_mended_is_taken_up_again() -> None:
    clock = ManualClock()
    values = {"K": A}
    pool = KeyPool("p", [KeySlot("env:K", VariableKeySource("K", lambda: values), key=A)], clock)
    assert not await fail(pool, limit(FailureKind.AUTH_PERMANENT))
    await clock.advance(61)
    values["K"] = B
    assert await key(pool) == B


async def test_a_source_that_fails_is_passed_over_and_then_named(tmp_path: Path) -> None:
    clock = ManualClock()
    broken = KeySlot("auth:1", CommandKeySource("/no/such/program", {}), label="vault")
    assert await key(KeyPool("p", [broken, *given(A)], clock)) == A
    refused = await KeyPool("p", [broken], clock).lease_key("m")
    assert isinstance(refused, Failure) and refused.fall_back
    assert refused.message.startswith("vault: The key's program `program` cannot be started")


async def test_no_key_stands_in_what_is_shown(tmp_path: Path) -> None:
    clock = ManualClock()
    short = "abcd"
    pool = KeyPool("p", given(A, short), clock)
    lease = await pool.lease_key("m")
    shown = repr([lease, await pool.list_key_states(), *given(A, short)]) + str(lease)
    assert A not in shown and short not in shown
    assert [one.ending for one in await pool.list_key_states()] == [A[-4:], ""]
