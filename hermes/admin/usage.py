"""Report what was spent: totals, by model and by session, their certainty, and what the caps leave.

Usage and cost over some days: by day, hour, model and tool, for `hermes insights` and `/insights`.
"""

import datetime
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.admin.home_services import open_existing_store
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.usage import NANO_PER_USD, Price, compute_savings
from hermes.i18n.messages import N_
from hermes.llm.exchange import find_model_price
from hermes.providers.records import load_record
from hermes.runtime.actor import SessionActor
from hermes.runtime.conversation import LiveConversation
from hermes.sessions.app import App
from hermes.sessions.model.spending import configured_caps, configured_prices, period_starts
from hermes.sessions.session_lookup import find_session, row_to_dict
from hermes.store.records import CapUsage, SpendCap, SpendTotal
from hermes.store.store import Store
from hermes.util.clock import SystemClock

_DAY = "%Y-%m-%d"
_SHOWN_SESSIONS = 20


async def build_usage_report(environ: Mapping[str, str], *, since: str = "", session: str = "") -> Plain:
    """Build the report of `hermes usage`; calls of dead processes are settled first.

    `since` is a local date (`2026-11-01`); without it models and sessions are those of this month. Raises
    NotFoundError when the home holds nothing yet, UsageError for an invalid date.
    """
    home = locate_home(environ)
    begin = _parse_date(since) if since else None
    async with open_existing_store(home) as store:
        if store is None:
            raise NotFoundError(
                N_("Nothing was spent in {root} yet.", root=home.root), 'Start a session: hermes -z "..."'
            )
        settings = load_settings(home).settings
        session_id = (await find_session(store, session)).id if session else None
        await store.spending.settle_lost()
        now = SystemClock().now()
        spent = await _spend_sections(store, CacheSavings(settings), now, begin, session_id)
        caps = configured_caps(settings, now, session_id=session_id or "")
        return spent | await _cap_sections(store, caps, with_session=session_id is not None)


class CacheSavings:
    """Computes what the providers' caches saved, by list prices."""

    def __init__(self, settings: Settings) -> None:
        self._own = configured_prices(settings)
        caching = settings.prompt_caching
        self._hour = caching.enabled and caching.cache_ttl == "1h"
        self._prices: dict[str, Price | None] = {}

    def compute_saved(self, totals: Sequence[SpendTotal]) -> int | None:
        """Return the saved nano-dollars of totals with keys that end in `PROVIDER/MODEL`.

        Returns None where no model has a known price. All calls count at the price of short prompts, and cache
        writes at that of the configured lifetime.
        """
        amounts = [
            compute_savings(total.usage, price) for total in totals if (price := self._price_of(total.key)) is not None
        ]
        return sum(amounts) if amounts else None

    def _price_of(self, key: str) -> Price | None:
        key = key.rpartition(" ")[2]
        if key not in self._prices:
            provider, _, name = key.partition("/")
            try:
                listed = load_record(provider).prices
            except ConfigError:  # a provider of a package that is gone
                listed = {}
            price = find_model_price(provider, name, self._own, listed)
            if price is not None:
                price = structs.replace(price.price_for_hour_cache() if self._hour else price, beyond=0, long=None)
            self._prices[key] = price
        return self._prices[key]


async def session_usage(app: App, actor: SessionActor) -> Plain:
    """Return what the calls of a live session used, cost and got from caches; its epochs and what each cost."""
    services = app.services
    return await build_session_report(services.store, services.settings, actor.conversation)


async def build_session_report(store: Store, settings: Settings, conversation: LiveConversation) -> Plain:
    """Build the report of `/usage`: the session's sums, and its epochs with their reasons and costs.

    Bytes are known of epochs that this process began; prompt tokens are those of an epoch's first answer.
    """
    session_id = conversation.session_id
    models = await store.spending.list_totals(0, session_id=session_id, by="model")
    found = await store.messages.export_session(session_id)
    first: dict[int, int] = {}
    for row in found.messages if found is not None else ():
        if row.prompt_tokens:
            first.setdefault(row.epoch, row.prompt_tokens)
    epochs = [
        {
            "number": one.number,
            "reason": one.begin_reason,
            "uncached_bytes": conversation.epoch_bytes.get(one.number),
            "first_prompt_tokens": first.get(one.number),
        }
        for one in (found.epochs if found is not None else ())
    ]
    total = await store.spending.list_totals(0, session_id=session_id)
    below = await _sum_sub_agents(store, CacheSavings(settings), 0, session_id)
    own = _total_without_key(total, CacheSavings(settings).compute_saved(models))
    return own | {"epochs": epochs, "sub_agents": below}


async def _sum_sub_agents(store: Store, savings: CacheSavings, since: float, session_id: str) -> Plain:
    """Return what the calls of a session's sub-agents used, which are not among its own."""
    models = await store.spending.list_totals(since, root_id=session_id, by="model")
    total = await store.spending.list_totals(since, root_id=session_id)
    return _total_without_key(total, savings.compute_saved(models))


async def _spend_sections(
    store: Store, savings: CacheSavings, now: float, begin: float | None, session_id: str | None
) -> Plain:
    day, month = period_starts(now)
    start = month if begin is None else begin

    async def load_totals(since: float, by: str = "") -> Sequence[SpendTotal]:
        return await store.spending.list_totals(since, session_id=session_id, by=by)

    async def sum_since(since: float) -> Plain:
        return _total_without_key(await load_totals(since), savings.compute_saved(await load_totals(since, "model")))

    of_session: defaultdict[str, list[SpendTotal]] = defaultdict(list)
    for one in await load_totals(start, "session_model"):
        of_session[one.key.partition(" ")[0]].append(one)
    sessions = (await load_totals(start, "session"))[:_SHOWN_SESSIONS]
    below = {"sub_agents": await _sum_sub_agents(store, savings, start, session_id)} if session_id is not None else {}
    return {
        **below,
        "today": await sum_since(day),
        "month": await sum_since(month),
        "since": time.strftime(_DAY, time.localtime(start)),
        "total": await sum_since(start),
        "models": [total_row(one, savings.compute_saved([one])) for one in await load_totals(start, "model")],
        "sessions": [total_row(one, savings.compute_saved(of_session[one.key])) for one in sessions],
    }


async def _cap_sections(store: Store, caps: Sequence[SpendCap], *, with_session: bool) -> Plain:
    """List the caps and what they leave; of caps for a run, or a session that was not named, only their limits."""
    apart = ("run",) if with_session else ("run", "session")
    standings = await store.spending.list_cap_usage([cap for cap in caps if cap.name not in apart])
    return {
        "caps": [cap_row(one) for one in standings],
        "caps_per_run_or_session": [
            {"name": cap.name, "usd": _dollars(cap.nano), "tokens": cap.tokens} for cap in caps if cap.name in apart
        ],
        "under_way": [row_to_dict(one) | {"usd": _dollars(one.nano)} for one in await store.spending.list_open_calls()],
    }


def _parse_date(text: str) -> float:
    try:
        return time.mktime(time.strptime(text, _DAY))
    except (ValueError, OverflowError):
        raise UsageError(N_("{text} is not a date.", text=repr(text)), "Write it as 2026-11-01.") from None


def _total_without_key(totals: Sequence[SpendTotal], saving: int | None) -> Plain:
    """Return the only total there is, or zeros when there was no call."""
    plain = total_row(totals[0] if totals else SpendTotal(), saving)
    del plain["key"]
    return plain


def total_row(total: SpendTotal, saving: int | None) -> Plain:
    """Return a sum of calls with the keys of the JSON output; `saving` is what caches saved, where that is known."""
    usage = total.usage
    return {
        "key": total.key,
        "calls": total.calls,
        "input_tokens": usage.input,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "cache_hit_rate": usage.hit_rate,
        "cache_saved_usd": _dollars(saving),
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "usd": _dollars(total.nano),
        "cost_status": _cost_status(total),
        "calls_reported": total.reported,
        "calls_at_upper_bound": total.bounds,
        "calls_of_unknown_cost": total.uncounted,
    }


def _cost_status(total: SpendTotal) -> str:
    """Return the certainty of the whole sum, which is that of its least certain part."""
    if total.uncounted:
        return "unknown"
    if total.bounds:
        return "upper_bound"
    return "reported" if total.reported == total.calls and total.calls else "computed"


def cap_row(standing: CapUsage) -> Plain:
    """Return a cap with what it leaves."""
    cap = standing.cap
    spent, held = standing.nano, standing.held_nano
    used, held_tokens = standing.tokens, standing.held_tokens
    return {
        "name": cap.name,
        "usd": _dollars(cap.nano),
        "usd_spent": _dollars(spent),
        "usd_held": _dollars(held),
        "usd_left": None if cap.nano is None else _dollars(max(cap.nano - spent - held, 0)),
        "tokens": cap.tokens,
        "tokens_used": used,
        "tokens_held": held_tokens,
        "tokens_left": None if cap.tokens is None else max(cap.tokens - used - held_tokens, 0),
    }


def _dollars(nano: int | None) -> float | None:
    return None if nano is None else nano / NANO_PER_USD


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
        await store.spending.settle_lost()
        return await compute_insights(store, load_settings(home).settings, SystemClock().now(), days=days)


async def compute_insights(store: Store, settings: Settings, now: float, *, days: int = 30) -> Plain:
    """Sum up the last `days` local days, this one included.

    `days` has a row for every day, busy or not; `hours` a sum of calls for each hour of the day and `weekdays` for each
    day of the week from Monday on. Each sum also says how many of its calls have no known cost.
    """
    dates = _list_dates(now, days)
    since = time.mktime(dates[0].timetuple())
    savings = CacheSavings(settings)
    by_day = {one.key: one for one in await store.spending.list_totals(since, by="day")}
    models = await store.spending.list_totals(since, by="model")
    hours, weekdays = _sum_by_hour(await store.spending.list_totals(since, by="hour"))
    tools = await store.spending.list_tool_totals(since)
    work = await store.spending.get_session_total(since)
    total = next(iter(await store.spending.list_totals(since)), SpendTotal())
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
        "purposes": [total_row(one, None) for one in await store.spending.list_totals(since, by="purpose")],
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
