"""What was spent: totals, by model and by session, how sure they are, and what the caps leave. For `hermes usage`."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import structs

from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.config.settings import Settings
from hermes.core.errors import ConfigError, NotFoundError, UsageError
from hermes.core.money import NANO, Price, saved
from hermes.llm.prices import model_price
from hermes.providers.records import record
from hermes.runtime.actor import SessionActor
from hermes.runtime.conversation import Conversation
from hermes.sessions.app import App
from hermes.sessions.formats.openai_format import Plain
from hermes.sessions.model.spending import configured_caps, midnights, own_prices
from hermes.sessions.session_lookup import find_session, to_plain
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
        spent = await _spent(store, Savings(settings), now, begin, session_id)
        caps = configured_caps(settings, now, session_id=session_id or "")
        return spent | await _caps(store, caps, with_session=session_id is not None)
    finally:
        await store.close()


class Savings:
    """What the providers' caches saved, by list prices."""

    def __init__(self, settings: Settings) -> None:
        self._own = own_prices(settings)
        caching = settings.prompt_caching
        self._hour = caching.enabled and caching.cache_ttl == "1h"
        self._prices: dict[str, Price | None] = {}

    def of(self, totals: Sequence[SpendTotal]) -> int | None:
        """In nano-dollars, for totals whose keys end in `PROVIDER/MODEL`; None where no model has a known price.

        All calls count at the price of short prompts, and writes at that of the time that is configured now.
        """
        amounts = [saved(total.usage, price) for total in totals if (price := self._price(total.key)) is not None]
        return sum(amounts) if amounts else None

    def _price(self, key: str) -> Price | None:
        key = key.rpartition(" ")[2]
        if key not in self._prices:
            provider, _, name = key.partition("/")
            try:
                listed = record(provider).prices
            except ConfigError:  # a provider of a package that is gone
                listed = {}
            price = model_price(provider, name, self._own, listed)
            if price is not None:
                price = structs.replace(price.for_an_hour() if self._hour else price, beyond=0, long=None)
            self._prices[key] = price
        return self._prices[key]


async def session_usage(app: App, actor: SessionActor) -> Plain:
    """Return what the calls of a live session used, cost and got from caches; its epochs and what each cost."""
    services = app.premises
    return await session_report(services.store, services.settings, actor.conversation)


async def session_report(store: Store, settings: Settings, conversation: Conversation) -> Plain:
    """What `/usage` shows: the session's sums, and its epochs with their reasons and costs.

    Bytes are known of epochs that this process began; prompt tokens are those of an epoch's first answer.
    """
    session_id = conversation.session_id
    models = await store.spend_totals(0, session_id=session_id, by="model")
    found = await store.export_session(session_id)
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
    total = await store.spend_totals(0, session_id=session_id)
    return _sum(total, Savings(settings).of(models)) | {"epochs": epochs}


async def _spent(store: Store, savings: Savings, now: float, begin: float | None, session_id: str | None) -> Plain:
    day, month = midnights(now)
    start = month if begin is None else begin

    async def totals(since: float, by: str = "") -> Sequence[SpendTotal]:
        return await store.spend_totals(since, session_id=session_id, by=by)

    async def summed(since: float) -> Plain:
        return _sum(await totals(since), savings.of(await totals(since, "model")))

    of_session: defaultdict[str, list[SpendTotal]] = defaultdict(list)
    for one in await totals(start, "session_model"):
        of_session[one.key.partition(" ")[0]].append(one)
    sessions = (await totals(start, "session"))[:_SHOWN_SESSIONS]
    return {
        "today": await summed(day),
        "month": await summed(month),
        "since": time.strftime(_DAY, time.localtime(start)),
        "total": await summed(start),
        "models": [total_row(one, savings.of([one])) for one in await totals(start, "model")],
        "sessions": [total_row(one, savings.of(of_session[one.key])) for one in sessions],
    }


async def _caps(store: Store, caps: Sequence[Cap], *, with_session: bool) -> Plain:
    """The caps and what they leave; of caps for a run or for a session that was not named only what they are."""
    apart = ("run",) if with_session else ("run", "session")
    standings = await store.standings([cap for cap in caps if cap.name not in apart])
    return {
        "caps": [cap_row(one) for one in standings],
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


def _sum(totals: Sequence[SpendTotal], saving: int | None) -> Plain:
    """The one sum there is; of nothing, when there was no call."""
    plain = total_row(totals[0] if totals else SpendTotal(), saving)
    del plain["key"]
    return plain


def total_row(total: SpendTotal, saving: int | None) -> Plain:
    """A sum of calls under the names that JSON output has; `saving` is what caches saved, where that is known."""
    usage = total.usage
    return {
        "key": total.key,
        "calls": total.calls,
        "input_tokens": usage.input,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "cache_hit_rate": usage.hit_rate,
        "cache_saved_usd": _usd(saving),
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


def cap_row(standing: Standing) -> Plain:
    """A cap with what it leaves."""
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
