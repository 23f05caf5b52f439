"""What was spent: totals, by model and by session, how sure they are, and what the caps leave. For `hermes usage`."""

import time
from collections.abc import Mapping, Sequence

from hermes.app.openai_form import Plain
from hermes.app.sessions import find_session, to_plain
from hermes.app.spending import configured_caps, midnights
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.errors import NotFoundError, UsageError
from hermes.core.money import NANO
from hermes.store.rows import Cap, SpendTotal, Standing
from hermes.store.store import Store
from hermes.util.clock import SystemClock

_DAY = "%Y-%m-%d"
_SHOWN_SESSIONS = 20


async def usage_report(environ: Mapping[str, str], *, since: str = "", session: str = "") -> Plain:
    """Everything that `hermes usage` shows; calls of dead processes are settled first.

    `since` is a local date (`2026-11-01`); without it models and sessions are those of this month. Raises
    NotFoundError when the home holds nothing yet, UsageError for what is no date.
    """
    home = locate_home(environ)
    home.check()
    clock = SystemClock()
    begin = _date(since) if since else None
    if not home.database.exists():
        raise NotFoundError(f"Nothing was spent in {home.root} yet.", 'Start a session: hermes -z "..."')
    settings = load_settings(home).settings
    store = await Store.open(home.root, clock)
    try:
        session_id = (await find_session(store, session)).id if session else None
        await store.settle_lost()
        now = clock.now()
        spent = await _spent(store, now, begin, session_id)
        caps = configured_caps(settings, now, session_id=session_id or "")
        return spent | await _caps(store, caps, with_session=session_id is not None)
    finally:
        await store.close()


async def _spent(store: Store, now: float, begin: float | None, session_id: str | None) -> Plain:
    day, month = midnights(now)
    start = month if begin is None else begin

    async def totals(since: float, by: str = "") -> Sequence[SpendTotal]:
        return await store.spend_totals(since, session_id=session_id, by=by)

    return {
        "today": _sum(await totals(day)),
        "month": _sum(await totals(month)),
        "since": time.strftime(_DAY, time.localtime(start)),
        "total": _sum(await totals(start)),
        "models": [_plain(one) for one in await totals(start, "model")],
        "sessions": [_plain(one) for one in (await totals(start, "session"))[:_SHOWN_SESSIONS]],
    }


async def _caps(store: Store, caps: Sequence[Cap], *, with_session: bool) -> Plain:
    """The caps and what they leave; of caps for a run or for a session that was not named only what they are."""
    apart = ("run",) if with_session else ("run", "session")
    standings = await store.standings([cap for cap in caps if cap.name not in apart])
    return {
        "caps": [_cap(one) for one in standings],
        "caps_per_run_or_session": [
            {"name": cap.name, "usd": _usd(cap.nano), "tokens": cap.tokens} for cap in caps if cap.name in apart
        ],
        "under_way": [to_plain(one) | {"usd": _usd(one.nano)} for one in await store.calls_under_way()],
    }


def _date(text: str) -> float:
    try:
        return time.mktime(time.strptime(text, _DAY))
    except (ValueError, OverflowError):
        raise UsageError(f"{text!r} is not a date.", "Write it as 2026-11-01.") from None


def _sum(totals: Sequence[SpendTotal]) -> Plain:
    """The one sum there is; of nothing, when there was no call."""
    plain = _plain(totals[0] if totals else SpendTotal())
    del plain["key"]
    return plain


def _plain(total: SpendTotal) -> Plain:
    usage = total.usage
    return {
        "key": total.key,
        "calls": total.calls,
        "input_tokens": usage.input,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "usd": _usd(total.nano),
        "cost_status": _status(total),
        "calls_reported": total.reported,
        "calls_at_upper_bound": total.bounds,
        "calls_of_unknown_cost": total.uncounted,
    }


def _status(total: SpendTotal) -> str:
    """How sure the whole sum is: as sure as its least sure part."""
    if total.uncounted:
        return "unknown"
    if total.bounds:
        return "upper_bound"
    return "reported" if total.reported == total.calls and total.calls else "computed"


def _cap(standing: Standing) -> Plain:
    cap = standing.cap
    spent, held = standing.nano, standing.held_nano
    used, held_tokens = standing.tokens, standing.held_tokens
    return {
        "name": cap.name,
        "usd": _usd(cap.nano),
        "usd_spent": _usd(spent),
        "usd_held": _usd(held),
        "usd_left": None if cap.nano is None else _usd(max(cap.nano - spent - held, 0)),
        "tokens": cap.tokens,
        "tokens_used": used,
        "tokens_held": held_tokens,
        "tokens_left": None if cap.tokens is None else max(cap.tokens - used - held_tokens, 0),
    }


def _usd(nano: int | None) -> float | None:
    return None if nano is None else nano / NANO
