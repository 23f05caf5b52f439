"""Runs of code in the store: the newest state of each, for its turn's owner alone, until the turn ends."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.code_runs import CodeRunState
from hermes.core.errors import StoreError
from hermes.core.frame import EpochFrame
from hermes.core.ids import is_nested_call, name_nested_call
from hermes.core.messages import ToolResultPart, ToolStatus, user_message
from hermes.core.outcomes import ExitReason
from hermes.core.protocols import Intent
from hermes.store.messages import TranscriptEntry
from hermes.store.records import NewSession
from hermes.store.store import Store
from hermes.util.clock import SystemClock

STATE = CodeRunState(
    engine="monty",
    version="1.4.0",
    calls=2,
    dump=b"\0state",
    printed="so far ä\n",
    sources=("web:example.org",),
    asked=("aa", "bb", "cc"),
    closed=(ToolResultPart(call_id="c.1", name="terminal", text="no", status=ToolStatus.REFUSED),),
    mac=b"proof",
)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = await Store.open(tmp_path, SystemClock())
    await made.sessions.create(NewSession(id="s", source="cli", user_id="", provider="p", model="m", cwd="/"))
    await made.epochs.begin("s", EpochFrame(provider="p", model="m", wire="w", encoder_version=1, system=""), "new")
    await made.messages.start_turn(entry("go"))
    yield made
    await made.close()


def entry(text: str) -> TranscriptEntry:
    return TranscriptEntry(session_id="s", epoch=1, turn_id="t", messages=(user_message(text),), fence=1)


async def test_a_state_comes_back_with_the_calls_of_its_code(store: Store) -> None:
    await store.code_runs.record_state("t", "c", STATE, fence=1)
    await store.turns.record_intents("t", [Intent("c", "execute_code", "{}", True)], fence=1)
    await store.turns.record_intents(
        "t", [Intent("c.2", "terminal", "{}", False), Intent("cx2", "x", "", True)], fence=1
    )
    await store.turns.record_intents("t", [Intent("c.3", "act", '{"a":1}', False)], fence=1)
    result = ToolResultPart(call_id="c.2", name="terminal", text="done")
    await store.turns.record_result("t", result, fence=1)
    stored = await store.code_runs.get("t", "c")
    assert stored is not None
    assert stored.state == STATE
    assert [(one.call_id, one.result) for one in stored.effects.values()] == [("c.2", result), ("c.3", None)]


async def test_a_state_takes_the_place_of_the_one_before(store: Store) -> None:
    await store.code_runs.record_state("t", "c", STATE, fence=1)
    waiting = store.code_runs.record_state_with_next("t", "c", CodeRunState(engine="python"), fence=1)
    store.code_runs.begin_held_writes()
    await waiting
    stored = await store.code_runs.get("t", "c")
    assert stored is not None
    assert stored.state == CodeRunState(engine="python")


async def test_who_has_lost_the_turn_writes_no_state(store: Store) -> None:
    await store.turns.adopt("t")
    with pytest.raises(StoreError, match="not this process's any more"):
        await store.code_runs.record_state("t", "c", STATE, fence=1)


async def test_a_later_message_s_call_of_the_same_id_is_another_run(store: Store) -> None:
    await store.code_runs.record_state("t", "c", STATE, fence=1)
    await store.messages.append_with_next(entry("more"))
    assert await store.code_runs.get("t", "c") is None


@pytest.mark.parametrize("reason", [ExitReason.TEXT_RESPONSE, ExitReason.CALLER_TOOLS])
async def test_nothing_is_left_when_the_turn_ends(store: Store, reason: ExitReason) -> None:
    await store.code_runs.record_state("t", "c", STATE, fence=1)
    await store.turns.end("t", reason, fence=1)
    assert await store.code_runs.get("t", "c") is None


async def test_nothing_is_left_when_a_message_is_deleted(store: Store) -> None:
    await store.code_runs.record_state("t", "c", STATE, fence=1)
    rows = await store.messages.read("s")
    await store.erasure.delete_messages("s", [rows[0].id])
    assert await store.code_runs.get("t", "c") is None


def test_the_ids_of_calls_of_code_are_told_from_others() -> None:
    assert is_nested_call(name_nested_call("a.1", 2), ["b", "a.1"])
    assert not is_nested_call("a.x", ["a"])
    assert not is_nested_call("a.1", ["b"])
    assert not is_nested_call("a", ["a"])
    assert not is_nested_call("a.²", ["a"])
