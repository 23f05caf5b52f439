"""A small, fixed part of `make torture`, `make resume-race` and `make writers`; the whole takes many minutes."""

import random

from tests.torture import compression_kills as condensing
from tests.torture import kills, resume_race, writers


async def test_kills_at_random_instants_lose_nothing_and_repeat_nothing() -> None:
    run = await kills.campaign(count=8, seed=11, jobs=2)
    assert run.problems == []
    assert run.kills >= 8


async def test_one_of_several_resumes() -> None:
    assert await resume_race.race(0, 4, random.Random(1)) == []


async def test_writers_lose_nothing_and_never_see_a_lock() -> None:
    known, problems = await writers.campaign(processes=4, seconds=1.5, kills=2, seed=1, pace=0.01)
    assert [problem for problem in problems if "longest" not in problem] == []
    assert known.waits["ended"] > 0


async def test_kills_around_compressions_leave_the_old_state_or_the_new_one() -> None:
    run = await condensing.campaign(count=2, seed=5, jobs=2, turns=4)
    assert run.problems == []
    assert run.compressions >= 2 and run.kills >= 2
