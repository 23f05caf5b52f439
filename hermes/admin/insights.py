"""Usage and cost over some days: by day, hour, model and tool, for `hermes insights` and `/insights`."""

import datetime
import time
from collections.abc import Mapping, Sequence

from hermes.admin.sessions import open_existing_store
from hermes.admin.usage import CacheSavings, total_row
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import NotFoundError, UsageError
from hermes.i18n.messages import N_
from hermes.sessions.formats.openai_format import Plain
from hermes.store.records import SpendTotal
from hermes.store.store import Store
from hermes.util.clock import SystemClock

_MAX_DAYS = 3_660
_MAX_ROWS = 20


async def report_insights(environ: Mapping[str, str], *, days: int = 30) -> Plain:
    """Return the report for this home. Raises NotFoundError for an empty home, UsageError for invalid `days`."""
    if not 0 < days <= _MAX_DAYS:
        raise UsageError(N_("--days must be from 1 to {most}.", most=_MAX_DAYS))
    home = locate_home(environ)
    async with open_existing_store(home) as store:
        if store is None:
            raise NotFoundError(N_("There is nothing in {home} yet.", home=home.root), 'hermes -z "..."')
        await store.settle_lost_spend()
        return await compute_insights(store, load_settings(home).settings, SystemClock().now(), days=days)


async def compute_insights(store: Store, settings: Settings, now: float, *, days: int = 30) -> Plain:
    """Sum up the last `days` local days, this one included.

    `days` has a row for every day, busy or not; `hours` a sum of calls for each hour of the day and `weekdays` for each
    day of the week from Monday on. Each sum also says how many of its calls have no known cost.
    """
    dates = _list_dates(now, days)
    since = time.mktime(dates[0].timetuple())
    savings = CacheSavings(settings)
    by_day = {one.key: one for one in await store.list_spend_totals(since, by="day")}
    models = await store.list_spend_totals(since, by="model")
    hours, weekdays = _sum_by_hour(await store.list_spend_totals(since, by="hour"))
    tools = await store.list_tool_totals(since)
    work = await store.get_session_total(since)
    total = next(iter(await store.list_spend_totals(since)), SpendTotal())
    return {
        "since": dates[0].isoformat(),
        "days_counted": days,
        "total": total_row(total, savings.compute_saved(models)),
        "sessions": work.sessions,
        "turns": work.turns,
        "turns_failed": work.failed,
        "days": [
            {"day": date.isoformat(), **total_row(by_day.get(date.isoformat(), SpendTotal()), None)} for date in dates
        ],
        "models": [total_row(one, savings.compute_saved([one])) for one in models[:_MAX_ROWS]],
        "purposes": [total_row(one, None) for one in await store.list_spend_totals(since, by="purpose")],
        "tools": [
            {
                "tool": one.tool,
                "calls": one.calls,
                "seconds": round(one.seconds, 3),
                "seconds_each": round(one.seconds / one.ended, 3) if one.ended else None,
                "uncertain": one.uncertain,
            }
            for one in tools[:_MAX_ROWS]
        ],
        "hours": hours,
        "weekdays": weekdays,
    }


def _list_dates(now: float, days: int) -> list[datetime.date]:
    today = datetime.date(*time.localtime(now)[:3])
    return [today - datetime.timedelta(days=back) for back in range(days - 1, -1, -1)]


def _sum_by_hour(totals: Sequence[SpendTotal]) -> tuple[list[int], list[int]]:
    hours, weekdays = [0] * 24, [0] * 7
    for one in totals:
        day, _, hour = one.key.partition(" ")
        hours[int(hour)] += one.calls
        weekdays[(int(day) + 6) % 7] += one.calls
    return hours, weekdays
