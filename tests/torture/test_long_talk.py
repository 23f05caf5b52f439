"""A long talk: what was sent stands, over restarts too, and every miss stands at a named epoch."""

import pytest

from tests.torture.long_talk import WIRES, scripted_talk

TURNS = 200


@pytest.mark.parametrize("wire", WIRES)
async def test_what_was_sent_stands_over_turns_and_processes(wire: str) -> None:
    report = await scripted_talk(wire, TURNS, condense=[100], undo=[150])
    assert report.turns == TURNS
    assert report.epochs == ["compressed", "compression undone", "memory: 28 entries"]
    assert report.pairs == len(report.requests) - 3
    assert report.hit_rate > 0.97
