"""A long time in fake time: 300 jobs, moved clocks, sleeps, restarts; every due instant is accounted for exactly once.

What is due is worked out here by walking through the minutes of the time zones, without the code under test.

    PYTHONPATH=. python -m tests.cron.fake_year [days] [seed]
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from msgspec import Struct

from hermes.cron.job import CatchUp, CronJob, Overlap
from hermes.cron.jobs import JobRequest
from hermes.cron.runner import JobRunOutcome
from hermes.store.jobs import InstantRow
from tests.cron.scheduler_rig import Rig, rigged

ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Sydney", "Pacific/Auckland", "America/Santiago"),
    *("Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "America/St_Johns", "UTC"),
)
START = datetime(2026, 3, 20, 0, 0, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3_600, 86_400
_EVERYTHING = 10**9


class Planned(Struct):
    """A schedule as this test makes it: the text, and what the fields mean. `step`: an interval."""

    text: str
    zone: str
    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset(range(1, 32))
    weekdays: frozenset[int] = frozenset(range(7))
    fixed: bool = True
    step: int = 0


def planned(dice: random.Random, number: int) -> Planned:
    """A schedule: most are once a day or less, some are often."""
    zone = ZONES[number % len(ZONES)]
    minute, hour = dice.randrange(60), dice.choice([0, 1, 1, 2, 2, 3, 9, 12, 23])
    sort = dice.random()
    if sort < 0.15:
        step = dice.choice([90 * MINUTE, 6 * HOUR, 24 * HOUR])
        return Planned(f"every {step // MINUTE}m", "UTC", step=step)
    if sort < 0.22:
        every = dice.choice([30, 20])
        return Planned(
            f"*/{every} 1-3 * * *",
            zone,
            minutes=frozenset(range(0, 60, every)),
            hours=frozenset({1, 2, 3}),
            fixed=False,
        )
    if sort < 0.30:
        return Planned(f"{minute} * * * *", zone, minutes=frozenset({minute}), hours=frozenset(range(24)), fixed=False)
    if sort < 0.45:
        day = dice.randrange(7)
        return Planned(
            f"{minute} {hour} * * {day}",
            zone,
            minutes=frozenset({minute}),
            hours=frozenset({hour}),
            weekdays=frozenset({(day - 1) % 7}),
        )
    if sort < 0.55:
        day = dice.choice([1, 15, 28, 31])
        return Planned(
            f"{minute} {hour} {day} * *",
            zone,
            minutes=frozenset({minute}),
            hours=frozenset({hour}),
            days=frozenset({day}),
        )
    return Planned(f"{minute} {hour} * * *", zone, minutes=frozenset({minute}), hours=frozenset({hour}))


def due(plan: Planned, began: float, until: float, walls: "Walls") -> list[float]:
    """Every instant in (began, until] at which it is due."""
    if plan.step:
        first = round(began) + plan.step
        return [float(at) for at in range(first, int(until) + 1, plan.step)]
    found = set(_fixed(plan, walls) if plan.fixed else _shown(plan, walls))
    return sorted(float(at) for at in found if began < at <= until)


class Walls:
    """What the clocks on the walls of a zone show, minute by minute."""

    def __init__(self, zone: str, start: int, end: int) -> None:
        where = ZoneInfo(zone)
        self.minutes: list[tuple[int, datetime]] = []
        self.first: dict[datetime, int] = {}
        """When each minute is shown for the first time."""
        self.gaps: list[tuple[datetime, datetime, int]] = []
        """Clock times that are left out: from, up to but without, and when."""
        offset = None
        for at in range(start - start % 60, end, 60):
            utc = datetime(1970, 1, 1) + timedelta(seconds=at)
            if at % 900 == 0 or offset is None:  # clocks are moved at a quarter of an hour
                new = where.utcoffset(utc.replace(tzinfo=UTC).astimezone(where)) or timedelta()
                if offset is not None and new > offset:
                    self.gaps.append((utc + offset, utc + new, at))
                offset = new
            wall = utc + offset
            self.minutes.append((at, wall))
            self.first.setdefault(wall, at)


def _shown(plan: Planned, walls: Walls) -> Iterator[int]:
    for at, wall in walls.minutes:
        if wall.minute in plan.minutes and wall.hour in plan.hours and _day(plan, wall):
            yield at


def _fixed(plan: Planned, walls: Walls) -> Iterator[int]:
    for day in {wall.date() for _, wall in walls.minutes}:
        for hour in plan.hours:
            for minute in plan.minutes:
                wall = datetime(day.year, day.month, day.day, hour, minute)
                if not _day(plan, wall):
                    continue
                gap = next((at for begin, end, at in walls.gaps if begin <= wall < end), None)
                at = gap if gap is not None else walls.first.get(wall)
                if at is not None:
                    yield at


def _day(plan: Planned, wall: datetime) -> bool:
    return wall.day in plan.days and wall.weekday() in plan.weekdays


class Story:
    """What happens in the time, by the dice."""

    def __init__(self, rig: Rig, dice: random.Random, end: float) -> None:
        self.latest = rig.clock.now()
        """The latest moment at which the scheduler looked."""
        self.happened: Counter[str] = Counter()
        self._rig = rig
        self._dice = dice
        self._end = end

    async def told(self) -> None:
        """From the beginning to the end."""
        rig, dice = self._rig, self._dice
        while rig.clock.now() < self._end:
            glance = await rig.scheduler.tick()
            self.latest = max(self.latest, rig.clock.now())
            await self._settled()
            wake = glance.wake_at or rig.clock.now() + HOUR
            if dice.random() < 0.01:
                self._something(dice)
            elif wake > rig.clock.now():
                rig.clock.set_now(wake + dice.random() * 20)
        if rig.runner.gate is not None:
            rig.runner.gate.set()
            rig.runner.gate = None
        await rig.scheduler.tick()
        self.latest = max(self.latest, rig.clock.now())
        await rig.scheduler.run_until_empty()

    async def _settled(self) -> None:
        """Runs end, or go on while time passes, or Hermes is closed under them."""
        rig, dice = self._rig, self._dice
        if rig.runner.gate is not None:
            rig.runner.gate.set()
            rig.runner.gate = None
        if dice.random() < 0.02:
            self.happened["restart"] += 1
            await rig.scheduler.close()
            rig.again(most_running=400, keep=_EVERYTHING)
        elif dice.random() < 0.05:
            rig.runner.gate = asyncio.Event()
            return
        while rig.scheduler.running:
            await rig.scheduler.run_until_empty()

    def _something(self, dice: random.Random) -> None:
        clock = self._rig.clock
        match dice.choice(["sleep", "long sleep", "back", "back", "ahead"]):
            case "sleep" | "ahead":
                self.happened["sleep"] += 1
                clock.set_now(clock.now() + dice.random() * 10 * HOUR)
            case "long sleep":
                self.happened["long sleep"] += 1
                clock.set_now(clock.now() + dice.random() * 3 * DAY)
            case _:
                self.happened["back"] += 1
                clock.set_now(clock.now() - dice.random() * 5 * HOUR)


async def lived(home: Path, days: int, seed: int, count: int = 300) -> Counter[str]:
    """Live so long and check it; what happened, counted. Raises AssertionError."""
    dice = random.Random(seed)
    start, end = START.timestamp(), START.timestamp() + days * DAY
    async with rigged(home, start) as rig:
        rig.runner.answer = JobRunOutcome(ok=True, text="[SILENT]")
        rig.again(most_running=400, keep=_EVERYTHING)
        made: list[tuple[Planned, CronJob]] = []
        for number in range(count):
            plan = planned(dice, number)
            wish = JobRequest(
                name=f"job {number}",
                schedule=plan.text,
                zone=plan.zone,
                prompt="x",
                catch_up=dice.choice(list(CatchUp)),
                overlap=dice.choice(list(Overlap)),
                jitter=dice.choice([0, 0, 300]),
            )
            made.append((plan, await rig.jobs.create_job(wish)))
        story = Story(rig, dice, end)
        await story.told()
        walls = {zone: Walls(zone, int(start) - 2 * DAY, int(story.latest) + 2 * DAY) for zone in ZONES}
        for plan, job in made:
            expected = due(plan, start, story.latest - job.offset, walls[plan.zone])
            _account(await rig.store.jobs.list_history(job.id, _EVERYTHING), expected, job, story.happened)
        names = Counter(rig.runner.ran)
        assert not [one for one, times in names.items() if times > 1]
        return story.happened


def _account(rows: list[InstantRow], expected: list[float], job: CronJob, happened: Counter[str]) -> None:
    """Every instant has exactly one row that has ended, and no row stands for anything else."""
    left = dict.fromkeys(expected)
    for row in rows:
        stands = [at for at in left if row.at <= at <= row.through] if row.instants > 1 else [row.at]
        assert len(stands) == row.instants, (job.name, job.row.schedule, job.row.zone, row)
        for at in stands:
            assert at in left, (job.name, job.row.schedule, job.row.zone, datetime.fromtimestamp(at, UTC), row)
            del left[at]
        assert row.state in ("ran", "skipped", "missed", "failed"), row
        assert row.state == "ran" or row.reason, row
        happened[str(row.state)] += row.instants
    where = [datetime.fromtimestamp(at, UTC) for at in left][:5]
    assert not left, (job.name, job.row.schedule, job.row.zone, where)


def main() -> None:
    """A year, or as many days as are named."""
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 366
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        happened = asyncio.run(lived(Path(folder), days, seed))
    sys.stdout.write(f"{days} days, 300 jobs, {time.perf_counter() - began:.0f} s: {dict(happened)}\n")


if __name__ == "__main__":
    main()
