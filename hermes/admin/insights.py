"""What was done and what it cost over some days: by day, hour, model, tool. For `hermes insights` and `/insights`."""

import datetime
import time
from collections.abc import Mapping, Sequence

from hermes.admin.sessions import open_store
from hermes.admin.usage import Savings, total_row
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import phrase
from hermes.sessions.formats.openai_format import Plain
from hermes.store.rows import SpendTotal
from hermes.store.store import Store
from hermes.util.clock import SystemClock

_MOST_DAYS = 3_660
_SHOWN = 20


async def insights(environ: Mapping[str, str], *, days: int = 30) -> Plain:
    """The report for this home. Raises NotFoundError when it holds nothing yet, UsageError for days that are none."""
    if not 0 < days <= _MOST_DAYS:
        raise UsageError(phrase("--days must be from 1 to {most}.", most=_MOST_DAYS))
    home = locate_home(environ)
    async with open_store(home) as store:
        if store is None:
            raise NotFoundError(phrase("There is nothing in {home} yet.", home=home.root), 'hermes -z "..."')
        await store.settle_lost()
        return await insights_of(store, load_settings(home).settings, SystemClock().now(), days=days)


async def insights_of(store: Store, settings: Settings, now: float, *, days: int = 30) -> Plain:
    """Sums of the last `days` local days, this one included.

    `days` has a row for every day, busy or not; `hours` a sum of calls for each hour of the day and `weekdays` for each
    day of the week from Monday on. A sum says apart how many of its calls have no known cost.
    """
    dates = _dates(now, days)
    since = time.mktime(dates[0].timetuple())
    savings = Savings(settings)
    by_day = {one.key: one for one in await store.spend_totals(since, by="day")}
    models = await store.spend_totals(since, by="model")
    hours, weekdays = _hours(await store.spend_totals(since, by="hour"))
    tools = await store.tool_totals(since)
    work = await store.session_totals(since)
    total = next(iter(await store.spend_totals(since)), SpendTotal())
    return {
        "since": dates[0].isoformat(),
        "days_counted": days,
        "total": total_row(total, savings.of(models)),
        "sessions": work.sessions,
        "turns": work.turns,
        "turns_failed": work.failed,
        "days": [
            {"day": date.isoformat(), **total_row(by_day.get(date.isoformat(), SpendTotal()), None)} for date in dates
        ],
        "models": [total_row(one, savings.of([one])) for one in models[:_SHOWN]],
        "purposes": [total_row(one, None) for one in await store.spend_totals(since, by="purpose")],
        "tools": [
            {
                "tool": one.tool,
                "calls": one.calls,
                "seconds": round(one.seconds, 3),
                "seconds_each": round(one.seconds / one.ended, 3) if one.ended else None,
                "uncertain": one.uncertain,
            }
            for one in tools[:_SHOWN]
        ],
        "hours": hours,
        "weekdays": weekdays,
    }


def _dates(now: float, days: int) -> list[datetime.date]:
    today = datetime.date(*time.localtime(now)[:3])
    return [today - datetime.timedelta(days=back) for back in range(days - 1, -1, -1)]


def _hours(totals: Sequence[SpendTotal]) -> tuple[list[int], list[int]]:
    hours, weekdays = [0] * 24, [0] * 7
    for one in totals:
        day, _, hour = one.key.partition(" ")
        hours[int(hour)] += one.calls
        weekdays[(int(day) + 6) % 7] += one.calls
    return hours, weekdays
