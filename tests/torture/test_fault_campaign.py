"""A part of `make faults`: the same seeds at every run. The whole campaign plays 2,000 scripts."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import pytest

from hermes.core.outcomes import ExitReason
from tests.torture.fault_promise import IN_A_ROW
from tests.torture.fault_runner import campaign, play
from tests.torture.fault_scripts import FAULTS, Script, script_of

PROMISED = frozenset(ExitReason) - {
    ExitReason.GUARDRAIL_HALT,
    ExitReason.COMPRESSION_EXHAUSTED,
    ExitReason.SPEND_LIMIT,
    ExitReason.LOCAL_ERROR,
}


async def test_every_turn_ends_as_it_was_promised() -> None:
    found = await campaign(first=200, count=40)
    assert [(played.script.seed, played.wrong) for played in found if played.wrong] == []
    assert sum(played.pairs for played in found) > 80


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
