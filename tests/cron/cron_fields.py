"""Random fields of cron against two judges: cronsim, and a walk over days with the sets that the fields mean.

    python -m tests.cron.cron_fields [--count 5000] [--seed 1]

Ranges that wrap, which cronsim does not take, are judged by the walk alone.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from hermes.core.errors import UsageError
from hermes.cron.schedule import Schedule

BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
BEGIN = datetime(2026, 11, 26, 10, 30, tzinfo=UTC)
FOLLOWING = 4
MOST_DAYS = 366 * 9


def random_item(dice: random.Random, place: int) -> tuple[str, set[int]]:
    """An item of a field as it is written, and what it means."""
    least, most = BOUNDS[place]
    first, last, step = dice.randint(least, most), dice.randint(least, most), dice.choice((1, 1, 1, 2, 3, 7))
    around = [*range(first, last + 1)] if first <= last else [*range(first, most + 1), *range(least, last + 1)]
    kind = dice.choice(("one", "one", "range", "step", "star"))
    if kind == "one":
        return written(dice, place, first), {first}
    if kind == "star":
        return f"*/{step}" if step > 1 else "*", set(range(least, most + 1, step))
    ends = f"{written(dice, place, first)}-{written(dice, place, last)}"
    if first == last:
        return written(dice, place, first), {first}
    return (f"{ends}/{step}", set(around[::step])) if kind == "step" else (ends, set(around))


def written(dice: random.Random, place: int, number: int) -> str:
    """A number, or its name where it has one."""
    names = {3: (None, *MONTHS), 4: DAYS}.get(place)
    return str(names[number]) if names and dice.random() < 0.4 else str(number)


def random_fields(dice: random.Random) -> tuple[str, list[set[int]]]:
    """Five fields as they are written, and what each means."""
    texts, meant = [], []
    for place in range(5):
        if place >= 2 and dice.random() < 0.5:
            texts.append("*")
            meant.append(set(range(BOUNDS[place][0], BOUNDS[place][1] + 1)))
            continue
        items = [random_item(dice, place) for _ in range(dice.choice((1, 1, 1, 2)))]
        items = items[:1] if any(text.startswith("*") for text, _ in items) else items
        texts.append(",".join(text for text, _ in items))
        meant.append(set().union(*(values for _, values in items)))
    return " ".join(texts), meant


def walk(text: str, meant: list[set[int]]) -> Iterator[datetime]:
    """The instants after `BEGIN`, by walking over the days."""
    minutes, hours, dates, months, weekdays = meant
    _, _, date_text, _, weekday_text = text.split()
    is_either = not date_text.startswith("*") and not weekday_text.startswith("*")
    for ahead in range(MOST_DAYS):
        day = BEGIN.replace(hour=0, minute=0) + timedelta(days=ahead)
        fits = day.day in dates, day.isoweekday() % 7 in weekdays
        if day.month not in months or not (any(fits) if is_either else all(fits)):
            continue
        for hour in sorted(hours):
            for minute in sorted(minutes):
                if (found := day.replace(hour=hour, minute=minute)) > BEGIN:
                    yield found


def find_difference(text: str, meant: list[set[int]]) -> str:
    """What is different from the judges; empty when nothing is."""
    walked = [one for one, _ in zip(walk(text, meant), range(FOLLOWING), strict=False)]
    try:
        schedule, found, at = Schedule.parse(text, "UTC", BEGIN.timestamp()), [], BEGIN.timestamp()
    except UsageError as error:
        return "" if not walked else f"{text}: refused ({error.message}), due {walked[0]}"
    while len(found) < FOLLOWING and (due := schedule.next_after(at)) is not None:
        found.append(datetime.fromtimestamp(due, UTC))
        at = due
    end = BEGIN.replace(hour=0, minute=0) + timedelta(days=MOST_DAYS)  # what comes later, cronsim judges alone
    if [one for one in found if one < end] != walked:
        return f"{text}: {found} in place of {walked}"
    try:
        judge = CronSim(text, BEGIN)
    except CronSimError:
        return ""
    judged = [one for one, _ in zip(judge, range(len(found)), strict=False)]
    return "" if judged == found else f"{text}: {found}, cronsim {judged}"


def run(count: int, seed: int) -> list[str]:
    """The differences in so many random cases."""
    dice = random.Random(seed)
    return [found for _ in range(count) if (found := find_difference(*random_fields(dice)))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    differences = run(given.count, given.seed)
    lines = [*differences[:20], f"{len(differences)} differences in {given.count} cases"]
    sys.stdout.write("\n".join(lines) + "\n")
    raise SystemExit(bool(differences))
