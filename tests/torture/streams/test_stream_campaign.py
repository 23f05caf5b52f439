"""The campaign of vendors' streams, in small: all whole, some byte by byte, fifty cut and ended at some bytes."""

from functools import cache

import pytest

from hermes.providers.wire import load_wire
from tests.torture.streams.campaign import check_case, check_cuts, choose_cut_cases
from tests.torture.streams.corpus import list_streams
from tests.torture.streams.sdk_judges import judge_cases
from tests.torture.streams.stream_case import StreamCase

WIRES = ("chat_completions", "anthropic_messages", "responses")
_STEP = 293
"""Bytes between two cuts; each stream begins at another one."""


@cache
def cases() -> tuple[StreamCase, ...]:
    return tuple(list_streams())


def test_the_corpus_is_what_it_says() -> None:
    assert len(cases()) >= 500 and len({case.name for case in cases()}) == len(cases())
    cut = choose_cut_cases(cases())
    assert len(cut) == 50 and {case.wire for case in cut} == set(WIRES)


@pytest.mark.parametrize("wire", WIRES)
async def test_streams_mean_what_they_say(wire: str) -> None:
    assert load_wire(wire).name == wire
    chosen = [case for case in cases() if case.wire == wire]
    faults: list[str] = []
    for number, case in enumerate(chosen):
        faults += [f"{case.name}: {fault}" for fault in await check_case(case, singly=number % 6 == 0)]
    assert faults == []


async def test_a_stream_may_be_cut_and_may_end_at_any_byte() -> None:
    faults: list[str] = []
    for number, case in enumerate(choose_cut_cases(cases())):
        _, found = await check_cuts(case, _STEP, 7 * number % _STEP)
        faults += [f"{case.name}: {fault}" for fault in found]
    assert faults == []


def test_the_official_sdks_read_the_same() -> None:
    assert judge_cases(cases()[::9])[1] == []
