"""A part of `make faults`: the same seeds at every run. The whole campaign plays 2,000 scripts."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from hermes.core.outcomes import ExitReason
from tests.torture.fault_fronts import FRONTS, play_on_time
from tests.torture.fault_promise import IN_A_ROW, Setup
from tests.torture.fault_runner import campaign, play
from tests.torture.fault_scripts import FAULTS, Script, script_of

PROMISED = frozenset(ExitReason) - {
    ExitReason.GUARDRAIL_HALT,
    ExitReason.COMPRESSION_EXHAUSTED,
    ExitReason.SPEND_LIMIT,
    ExitReason.LOCAL_ERROR,
    ExitReason.HOOK_STOPPED,  # of hooks that end a turn: no answer of a model alone does
    ExitReason.CALLER_TOOLS,  # of programs that bring tools to the API: no answer of a model alone ends so
}


async def test_every_turn_ends_as_it_was_promised() -> None:
    found = await campaign(first=200, count=40)
    assert [(played.script.seed, played.wrong) for played in found if played.wrong] == []
    assert sum(played.pairs for played in found) > 80


async def test_a_chat_a_single_task_and_a_program_end_as_it_was_promised() -> None:
    # Real pauses take their time: three scripts whose faults need none.
    quick = {seed: script_of(seed, on_time=True) for seed in range(300)}
    seeds = [seed for seed, script in quick.items() if not script.pauses and len(script.turns[0].faults) > 3]
    chosen = [next(seed for seed in seeds if seed % len(FRONTS) == front) for front in range(len(FRONTS))]
    found = [await play_on_time(seed) for seed in chosen]
    assert [front for front, _ in found] == list(FRONTS)
    assert [(played.script.seed, played.wrong) for _, played in found if played.wrong] == []


def test_passing_faults_are_answered_and_scripts_vary() -> None:
    scripts = [script_of(seed) for seed in range(2000)]
    plain = [script for script in scripts if script.setup.plain and not script.permanent]
    answered = [script for script in plain if all(turn.reason.is_completed for turn in script.turns)]
    assert len(answered) >= 0.97 * len(plain) > 500
    for name in Setup.__dataclass_fields__:
        assert len({getattr(script.setup, name) for script in plain}) > (name != "plain"), name


def test_the_scripts_meet_every_fault_and_promise_every_outcome() -> None:
    scripts = [script_of(seed) for seed in range(2000)]
    turns = [turn for script in scripts for turn in script.turns]
    assert {fault for turn in turns for fault in turn.faults} == {*FAULTS, "good"}
    reasons = Counter(turn.reason for turn in turns)
    assert set(reasons) == PROMISED and min(reasons.values()) >= 4, reasons
    # An answer beside faults, up to five of them in a row.
    rows = {
        len(row) for turn in turns for row in "".join("g" if one == "good" else "f" for one in turn.faults).split("g")
    }
    assert max(rows) == IN_A_ROW
    assert script_of(7) == script_of(7)


def _another_end(script: Script) -> None:
    script.turns[0].reason = ExitReason.LOCAL_ERROR


def _another_effect(script: Script) -> None:
    script.effects.append("effect-0-0")


def _another_cost(script: Script) -> None:
    script.spent.append((0, 1, 1))


def _another_reply(script: Script) -> None:
    script.replies[0].append(script.replies[0][-1])


def _lost_words(script: Script) -> None:
    script.said.append("never said")


@pytest.mark.parametrize("lie", [_another_end, _another_effect, _another_cost, _another_reply, _lost_words])
def test_a_promise_that_is_not_kept_is_noticed(lie: Callable[[Script], None]) -> None:
    script = script_of(random.Random(lie.__name__).randint(200, 210))
    lie(script)
    assert asyncio.run(play(script)).wrong
