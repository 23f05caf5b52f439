"""CPU costs that a test may hold on any machine: growth, and ratios to a fixed loop. No test holds seconds."""

import gc
import time
from collections.abc import Callable
from typing import NamedTuple

_LOOP_ROUNDS = 10_000
"""Rounds of the loop that is one unit: about half a millisecond on a machine of 2024."""
_LINEAR = 1.25
"""How many times the growth of linear work counts as that: less than any test allows."""


class Scaling(NamedTuple):
    """What work of two sizes costs."""

    growth: float
    units: float
    """The cost of the large work in units of the fixed loop."""
    unit_seconds: float


def count_cpu_units(
    work: Callable[[], object], tries: int = 5, *, clock: Callable[[], float] = time.thread_time
) -> float:
    """Return the CPU time of `work` in units of a fixed loop of pure Python, the least of some tries each.

    Work and loop take turns, so that both meet the same neighbours and the same clock of the processor. Work that
    other threads do counts where `clock` is `time.process_time`.
    """
    unit = cost = float("inf")
    for _ in range(tries):
        unit = min(unit, _measure_cpu_seconds(_run_fixed_loop, clock))
        cost = min(cost, _measure_cpu_seconds(work, clock))
    return cost / unit


def measure_growth(make_work: Callable[[int], Callable[[], object]], small: int, large: int, tries: int = 5) -> float:
    """Return how many times the CPU time of work of size `small` is what work of size `large` takes.

    It is about `large / small` for work that is linear in its size, and the square of that for quadratic work. The
    work is made anew for each try, which is not measured, and what costs less than a fiftieth of the fixed loop counts
    as that: there is no growth between two moments.
    """
    return measure_scaling(make_work, small, large, tries).growth


def measure_scaling(
    make_work: Callable[[int], Callable[[], object]], small: int, large: int, tries: int = 5
) -> Scaling:
    """Return the growth as `measure_growth` has it, with what else the same tries tell.

    There are no more than two tries when these show that the work is linear. The first is not enough: what is done once
    in a process falls on its small work.
    """
    sizes = small, large
    costs = [float("inf"), float("inf")]
    unit = float("inf")
    for done in range(tries):
        if done > 1 and max(costs[1], unit / 50) <= _LINEAR * max(costs[0], unit / 50) * large / small:
            break
        unit = min(unit, _measure_cpu_seconds(_run_fixed_loop, time.thread_time))
        for index, size in enumerate(sizes):
            costs[index] = min(costs[index], _measure_cpu_seconds(make_work(size), time.thread_time))
    return Scaling(max(costs[1], unit / 50) / max(costs[0], unit / 50), costs[1] / unit, unit)


def _measure_cpu_seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    gc.disable()
    try:
        started = clock()
        work()
        return clock() - started
    finally:
        gc.enable()


def _run_fixed_loop() -> int:
    total = 0
    table = {index: str(index) for index in range(16)}
    for index in range(_LOOP_ROUNDS):
        total += len(table[index & 15])
    return total
