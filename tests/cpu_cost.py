"""CPU costs that a test may hold on any machine: growth, and ratios to a fixed loop. No test holds seconds."""

import gc
import time
from collections.abc import Callable

_LOOP_ROUNDS = 10_000
"""Rounds of the loop that is one unit: about half a millisecond on a machine of 2024."""


def count_cpu_units(work: Callable[[], object], tries: int = 5) -> float:
    """Return the CPU time of `work` in units of a fixed loop of pure Python, the least of some tries each.

    Work and loop take turns, so that both meet the same neighbours and the same clock of the processor.
    """
    unit = cost = float("inf")
    for _ in range(tries):
        unit = min(unit, _measure_cpu_seconds(_run_fixed_loop))
        cost = min(cost, _measure_cpu_seconds(work))
    return cost / unit


def measure_growth(make_work: Callable[[int], Callable[[], object]], small: int, large: int, tries: int = 5) -> float:
    """Return how many times the CPU time of work of size `small` is what work of size `large` takes.

    It is about `large / small` for work that is linear in its size, and the square of that for quadratic work.
    """
    works = make_work(small), make_work(large)
    costs = [float("inf"), float("inf")]
    for _ in range(tries):
        for index, work in enumerate(works):
            costs[index] = min(costs[index], _measure_cpu_seconds(work))
    return costs[1] / costs[0]


def _measure_cpu_seconds(work: Callable[[], object]) -> float:
    gc.disable()
    try:
        started = time.thread_time()
        work()
        return time.thread_time() - started
    finally:
        gc.enable()


def _run_fixed_loop() -> int:
    total = 0
    table = {index: str(index) for index in range(16)}
    for index in range(_LOOP_ROUNDS):
        total += len(table[index & 15])
    return total
