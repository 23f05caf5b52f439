"""A job in one line, as people say it: `every day at 7: take my pills`, `tomorrow 9:00 - call mum`.

Pure. The schedule stands first or last, and no quotes are needed: the longest part that is a schedule is one.
"""

import re
from collections.abc import Iterator, Sequence

from hermes.core.errors import UsageError
from hermes.cron.phrases import MAX_PHRASE
from hermes.cron.schedule import Schedule
from hermes.i18n.messages import N_

_QUOTED = re.compile(r"(?:\"([^\"]+)\"|'([^']+)'|“([^”]+)”|「([^」]+)」)\s*")
_BREAK = re.compile(r":\s|：(?!\d)|\s[-–—]\s|\n")
"""What stands between a schedule and the words behind it; a colon within a time has a digit behind it."""
_MARKS = " \t\n,;:-–—，、；：。"
_WIDE = r"[\u2e80-\u9fff]"
_EDGE = re.compile(rf"\s+|(?<={_WIDE})|(?={_WIDE})|(?<=[，、：。])")
"""Where a part may end: Chinese is written without blanks."""


def split_job(words: Sequence[str], zone: str, now: float) -> tuple[str, str]:
    """Return the schedule and the task of a job that was typed in these words; several are those of a command line,
    where quotes have joined what belongs together. The task is empty where nothing but a schedule stands there.

    Raises UsageError, with an example, where no schedule is found.
    """
    first, *rest = words
    if rest and (len(rest) == 1 or " " in first) and _is_schedule(first, zone, now):
        return first, " ".join(rest)
    text = " ".join(words).strip()
    if (quoted := _QUOTED.match(text)) is not None:
        return next(filter(None, quoted.groups())), text[quoted.end() :].lstrip(_MARKS)
    nearly: list[UsageError] = []
    for schedule, task in _list_parts(text):
        try:
            if not schedule.isdecimal() and Schedule.find(schedule, zone, now) is not None:
                return schedule, task
        except UsageError as error:
            nearly.append(error)
    if nearly:
        raise nearly[0]
    raise UsageError(
        N_("{text!r} does not say when.", text=text[:80]), N_("For instance: cron add every day at 7: take my pills")
    )


def _list_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield each way to take a text for a schedule and a task, the likely ones first."""
    yield text, ""
    if (found := _BREAK.search(text)) is not None:
        yield text[: found.start()].strip(_MARKS), text[found.end() :].strip()
    edges = sorted({at for match in _EDGE.finditer(text) for at in match.span()} - {0, len(text)})
    for at in reversed(edges):
        if at <= MAX_PHRASE:
            yield text[:at].strip(_MARKS), text[at:].lstrip(_MARKS)
    for at in edges:
        if len(text) - at <= MAX_PHRASE:
            yield text[at:].strip(_MARKS), text[:at].rstrip(_MARKS)


def _is_schedule(text: str, zone: str, now: float) -> bool:
    try:
        return Schedule.find(text, zone, now) is not None
    except UsageError:
        return True  # what is wrong with it is said when the job is made
