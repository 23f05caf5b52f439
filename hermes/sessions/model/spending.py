"""Enforce spending caps on every model call of a session, and record what the calls cost."""

import asyncio
import logging
import random
import time
from itertools import count

from msgspec import Struct, structs

from hermes.config.settings import Settings
from hermes.core.errors import HermesError
from hermes.core.ids import new_run_id
from hermes.core.outcomes import FailureKind
from hermes.core.stream import Failure
from hermes.core.usage import (
    Certainty,
    Cost,
    Price,
    Usage,
    compute_cost,
    compute_savings,
    compute_worst_cost,
    format_amount,
    is_amount,
    usd_to_nano,
)
from hermes.i18n.messages import N_
from hermes.llm.exchange import CallGrant, CallUsage, find_price
from hermes.llm.lineage import Lineage
from hermes.sessions.options import SessionOptions
from hermes.store.ledgers import SpendingRepository
from hermes.store.records import (
    CallSpend,
    CapUsage,
    SpendCap,
    SpendOrigin,
    SpendRefusal,
    SpendRequest,
    SpendReservation,
)
from hermes.util.clock import Clock
from hermes.util.process_identity import identify_this_process

_LOG = logging.getLogger(__name__)

MIN_OUTPUT_TOKENS = 1_024
"""A call for which fewer tokens are left is refused, unless it asks for fewer itself."""
ENOUGH_OUTPUT_TOKENS = 4_096
"""A call that gets fewer tokens waits, as long as running calls may release more."""
DEFAULT_OUTPUT_TOKENS = 8_192
"""The most tokens of an answer under a cap where nothing else says: every current model takes that limit."""
MAX_WAIT_SECONDS = 60.0
PERSON_CAP = "person"
"""The name of the daily cap of one person."""
SUB_AGENT_CAP = "sub-agent"
"""The name of the cap of one sub-agent (`delegation.max_cost`)."""
_MIN_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 0.5


class ProcessBudget:
    """The budget of one process: it knows the caps, and creates the meter of each session."""

    def __init__(self, settings: Settings, options: SessionOptions, store: SpendingRepository, clock: Clock) -> None:
        self.run_id = new_run_id()
        self.owner = identify_this_process()
        self.store = store
        self.clock = clock
        self.prices = configured_prices(settings)
        self._settings = settings
        self._options = options

    def use_settings(self, settings: Settings) -> None:
        """Use the caps and prices of other settings from the next call on, in live sessions too."""
        self.prices = configured_prices(settings)
        self._settings = settings

    def caps_for(self, session_id: str, options: SessionOptions) -> tuple[SpendCap, ...]:
        """Return every cap that holds now for a call of this session with these options."""
        top = options.root_id or session_id
        caps = configured_caps(self._settings, self.clock.now(), session_id=top, run_id=self.run_id)
        run = next((cap for cap in caps if cap.name == "run"), SpendCap(name="run", column="run_id", value=self.run_id))
        if self._options.max_cost is not None:
            run = structs.replace(run, nano=usd_to_nano(self._options.max_cost))
        if self._options.max_total_tokens is not None:
            run = structs.replace(run, tokens=self._options.max_total_tokens)
        own = (
            person_cap(options.person, options.usd_per_day, self.clock.now()),
            session_cap(session_id, options.max_session_cost),
        )
        others = (*(cap for cap in caps if cap.name != "run"), *(cap for cap in own if cap is not None))
        return others if run.nano is None and run.tokens is None else (run, *others)

    def create_meter(self, session_id: str, options: SessionOptions) -> "SpendMeter":
        """Create the meter for the calls of a session with these options."""
        return SpendMeter(self, session_id, options)


def configured_prices(settings: Settings) -> dict[str, Price]:
    """Return the prices of the settings."""
    return {
        name: Price(
            input=one.input,
            output=one.output,
            cache_read=one.cache_read,
            cache_write=one.cache_write,
            source="config.yaml",
        )
        for name, one in settings.prices.items()
    }


def configured_caps(settings: Settings, now: float, *, session_id: str = "", run_id: str = "") -> tuple[SpendCap, ...]:
    """Return the caps of the settings as they hold now.

    Day and month begin at local midnight. They have no end: when the clock goes back, what was spent meanwhile counts
    for the earlier day too, so that no day's cap opens twice. Run, session and user caps use no clock.
    """
    spending = settings.spending
    day, month = period_starts(now)
    scopes = (
        (SpendCap(name="run", column="run_id", value=run_id), spending.run),
        (SpendCap(name="session", column="root_id", value=session_id), spending.session),
        (SpendCap(name="user", column="user_id", value=session_id), spending.user),
        (SpendCap(name="day", since=day), spending.day),
        (SpendCap(name="month", since=month), spending.month),
    )
    return tuple(
        structs.replace(cap, nano=None if limit.usd is None else usd_to_nano(limit.usd), tokens=limit.tokens)
        for cap, limit in scopes
        if limit.usd is not None or limit.tokens is not None
    )


def person_cap(person: str, usd: float | None, now: float) -> SpendCap | None:
    """Return what a person who talks from a chat may spend today, in all their sessions; None means no own limit."""
    if not person or usd is None:
        return None
    return SpendCap(name=PERSON_CAP, column="person", value=person, since=period_starts(now)[0], nano=usd_to_nano(usd))


def session_cap(session_id: str, usd: float | None) -> SpendCap | None:
    """Return what one sub-agent may spend; None means no own limit."""
    if usd is None:
        return None
    return SpendCap(name=SUB_AGENT_CAP, column="session_id", value=session_id, nano=usd_to_nano(usd))


def period_starts(now: float) -> tuple[float, float]:
    """Return when this day and this month began in local time."""
    local = time.localtime(now)
    day = time.mktime((local.tm_year, local.tm_mon, local.tm_mday, 0, 0, 0, 0, 0, -1))
    return day, time.mktime((local.tm_year, local.tm_mon, 1, 0, 0, 0, 0, 0, -1))


class _MeteredCall(Struct, frozen=True):
    """A call under way: who makes it, its price, and the reservation held for it (0 for none)."""

    who: SpendOrigin
    price: Price | None
    lineage: Lineage
    held: int = 0
    text_bound: int = 0
    most_input: int = 0
    output: int = 0


class SpendMeter:
    """The `Meter` of a session. Without a cap nothing is reserved, and costs are written asynchronously."""

    def __init__(self, spending: ProcessBudget, session_id: str, options: SessionOptions) -> None:
        self._spending = spending
        self._session_id = session_id
        self._options = options
        self._capped = bool(spending.caps_for(session_id, options))
        self._turn_id: str | None = None
        self._cost = Cost()
        self._numbers = count(1)
        self._calls: dict[int, _MeteredCall] = {}
        self._pending_writes: list[asyncio.Future[None]] = []
        self._write_error: HermesError | None = None

    def begin_turn(self, turn_id: str) -> None:
        """Start counting the cost of a turn."""
        self._turn_id = turn_id
        self._cost = Cost()

    @property
    def cost(self) -> Cost:
        """The cost of the calls since `begin`."""
        return self._cost

    async def reserve(self, lineage: Lineage, *, final: bool, purpose: str = "turn") -> CallGrant | Failure:
        """Allow the next call; under a cap once its worst case is reserved on disk."""
        del final  # it counts like any other
        self._raise_write_error()
        endpoint = lineage.endpoint
        who = SpendOrigin(
            provider=endpoint.record.name,
            model=endpoint.model,
            session_id=self._session_id,
            turn_id=self._turn_id,
            run_id=self._spending.run_id,
            purpose=purpose,
            owner=self._spending.owner,
            root_id=self._options.root_id or None,
        )
        call = _MeteredCall(who=who, price=find_price(endpoint, self._spending.prices), lineage=lineage)
        if not self._capped:
            # What is known of its size tells the most that it can have cost, should it break off.
            wish = self._build_request(call)
            known = structs.replace(
                call, text_bound=lineage.max_text_tokens, most_input=wish.prompt, output=wish.output
            )
            return self._grant(known, None)
        return await self._reserve_under_caps(call)

    def settle(self, grant: CallGrant, heard: CallUsage) -> None:
        """Record what a call cost."""
        call = self._calls.pop(grant.number)
        spent = _compute_spent(call, heard) if heard.billed else None
        if spent is not None:
            self._cost += spent.cost
        if heard.whole and heard.usage is not None and heard.usage.input > 0:
            call.lineage.learn_input_tokens(call.text_bound, heard.usage.input)
        store = self._spending.store
        try:
            if call.held:
                self._track_write(store.settle(call.held, spent))
            elif spent is not None:
                self._track_write(store.record(call.who, spent))
        except HermesError as error:
            self._write_error = error

    def add_cost(self, cost: Cost) -> None:
        """Count what a sub-agent of the turn cost; its calls are recorded as its own."""
        self._cost += cost

    async def flush(self) -> None:
        """Wait until everything settled is on disk."""
        if self._pending_writes:
            self._spending.store.begin_held_writes()
        while self._pending_writes:
            await asyncio.wait({self._pending_writes[0]})
            self._raise_write_error()
        self._raise_write_error()

    def side_meter(self, purpose: str) -> "SideTaskMeter":
        """Create the meter of side tasks: the same caps and the same turn, under another purpose."""
        return SideTaskMeter(self, purpose)

    async def _reserve_under_caps(self, call: _MeteredCall) -> CallGrant | Failure:
        """Reserve a call's worst case, as soon as there is room for it."""
        spending, lineage = self._spending, call.lineage
        wish, text_bound = self._build_request(call), lineage.max_text_tokens
        clock = spending.clock
        deadline, pause = clock.monotonic() + MAX_WAIT_SECONDS, _MIN_POLL_SECONDS
        while True:
            caps = spending.caps_for(self._session_id, self._options)
            if call.price is None and any(cap.nano is not None for cap in caps):
                return _unpriced_failure(call.who, caps)
            answer = await self._request_reservation(call.who, wish, caps)
            if isinstance(answer, SpendReservation):
                if answer.tightest is not None:
                    self._cost += Cost(cap=_describe_cap(answer.tightest))
                held = _MeteredCall(call.who, call.price, lineage, answer.id, text_bound, wish.prompt, answer.output)
                return self._grant(held, answer.output)
            if not answer.may_come or (wish.enough == wish.least and clock.monotonic() >= deadline):
                self._cost += Cost(cap=_describe_cap(answer.tightest))
                return _cap_failure(answer, wish)
            if clock.monotonic() >= deadline:
                wish = structs.replace(wish, enough=wish.least)
                continue
            await clock.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 1.5, _MAX_POLL_SECONDS)

    async def _request_reservation(
        self, who: SpendOrigin, request: SpendRequest, caps: tuple[SpendCap, ...]
    ) -> SpendReservation | SpendRefusal:
        """Request a reservation. A caller that is cancelled meanwhile leaves nothing reserved."""
        future = self._spending.store.reserve(who, request, caps)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(self._release_reservation)
            raise

    def _release_reservation(self, reservation: "asyncio.Future[SpendReservation | SpendRefusal]") -> None:
        if reservation.cancelled() or reservation.exception() is not None:
            return
        answer = reservation.result()
        if isinstance(answer, SpendReservation):
            try:
                self._track_write(self._spending.store.settle(answer.id, None))
            except HermesError as error:
                self._write_error = error

    def _build_request(self, call: _MeteredCall) -> SpendRequest:
        lineage = call.lineage
        own = lineage.frame.sampling.max_tokens
        output = own or lineage.endpoint.record.quirks.default_max_tokens or DEFAULT_OUTPUT_TOKENS
        return SpendRequest(
            prompt=lineage.max_input_tokens,
            output=output,
            enough=min(output, ENOUGH_OUTPUT_TOKENS),
            least=min(output, MIN_OUTPUT_TOKENS),
            price=call.price,
            share=own is None,
        )

    def _grant(self, call: _MeteredCall, max_tokens: int | None) -> CallGrant:
        number = next(self._numbers)
        self._calls[number] = call
        return CallGrant(number=number, max_tokens=max_tokens)

    def _track_write(self, written: "asyncio.Future[None]") -> None:
        self._pending_writes.append(written)
        written.add_done_callback(self._on_write_done)

    def _on_write_done(self, done: "asyncio.Future[None]") -> None:
        self._pending_writes.remove(done)
        error = None if done.cancelled() else done.exception()
        if isinstance(error, HermesError):
            self._write_error = error
        elif error is not None:
            _LOG.error("what a call cost could not be written", exc_info=error)

    def _raise_write_error(self) -> None:
        """Raise the error that kept a cost from being written, once."""
        if self._write_error is not None:
            error, self._write_error = self._write_error, None
            raise error


class SideTaskMeter:
    """A session's meter for its side tasks."""

    def __init__(self, meter: SpendMeter, purpose: str) -> None:
        self._meter = meter
        self._purpose = purpose
        self.begin_turn = meter.begin_turn
        self.settle = meter.settle
        self.flush = meter.flush

    @property
    def cost(self) -> Cost:
        """The cost of all calls of the turn."""
        return self._meter.cost

    async def reserve(self, lineage: Lineage, *, final: bool) -> CallGrant | Failure:
        """Allow a side task's call."""
        return await self._meter.reserve(lineage, final=final, purpose=self._purpose)


def _compute_spent(call: _MeteredCall, heard: CallUsage) -> CallSpend:
    """Compute what a served call used and cost."""
    usage = heard.usage.clamp_counts() if heard.usage is not None and heard.usage.input > 0 else None
    if usage is None or not heard.whole:
        return _worst_case_spent(call, usage)
    # Under a cap nothing is free that has a price: who reports 0 may bill elsewhere.
    free = usage.cost_usd == 0 and call.held and call.price is not None and compute_cost(usage, call.price) > 0
    gain = 0 if call.price is None else compute_savings(usage, call.price)
    if is_amount(usage.cost_usd) and not free:
        return CallSpend(usage=usage, cost=Cost(nano=usd_to_nano(usage.cost_usd), source="provider", saved=gain))
    if call.price is None:
        return CallSpend(usage=usage)
    nano = compute_cost(usage, call.price)
    return CallSpend(
        usage=usage, cost=Cost(nano=nano, certainty=Certainty.COMPUTED, source=_price_source(call.price), saved=gain)
    )


def _worst_case_spent(call: _MeteredCall, usage: Usage | None) -> CallSpend:
    """Compute the most a call can have cost when its provider has not counted its answer.

    Without `usage` not even the prompt was counted.
    """
    if not call.held and call.price is None:
        return CallSpend(usage=usage or Usage(input=call.most_input))
    prompt = usage or Usage(input=call.most_input)
    used = structs.replace(prompt, output=call.output, cost_usd=None)
    if call.price is None:
        return CallSpend(usage=used)
    nano = (
        compute_cost(used, call.price) if usage is not None else compute_worst_cost(used.input, used.output, call.price)
    )
    return CallSpend(
        usage=used, cost=Cost(nano=nano, certainty=Certainty.UPPER_BOUND, source=_price_source(call.price))
    )


def _price_source(price: Price) -> str:
    return f"{price.source} {price.as_of}".strip()


def _unpriced_failure(who: SpendOrigin, caps: tuple[SpendCap, ...]) -> Failure:
    names = ", ".join(cap.name for cap in caps if cap.nano is not None)
    return Failure(
        kind=FailureKind.SPEND_LIMIT,
        message=N_(
            "The price of {provider}/{model} is not known, so it is not called under a cap in dollars ({names}).",
            provider=who.provider,
            model=who.model,
            names=names,
        ),
        hint=N_(
            "Set `prices: {{{model}: {{input: ..., output: ...}}}}` in config.yaml (dollars a million tokens), "
            "or cap tokens instead of dollars.",
            model=who.model,
        ),
    )


def _cap_failure(answer: SpendRefusal, request: SpendRequest) -> Failure:
    cap = answer.tightest.cap
    need = N_("{prompt} tokens", prompt=format(request.prompt + request.least, ","))
    if cap.nano is not None and request.price is not None:
        need = f"{format_amount(compute_worst_cost(request.prompt, request.least, request.price))} or {need}"
    if cap.name == PERSON_CAP:
        return Failure(
            kind=FailureKind.SPEND_LIMIT,
            message="Your daily spending limit is reached, or the next model call could exceed it.",
            hint="You can go on tomorrow; /usage shows what is left.",
        )
    option = {"run": " or with --max-cost or --max-total-tokens"}.get(cap.name, "")
    setting = "delegation.max_cost" if cap.name == SUB_AGENT_CAP else f"spending.{cap.name}"
    told = _describe_cap(answer.tightest)
    return Failure(
        kind=FailureKind.SPEND_LIMIT,
        message=N_(
            "The next model call does not fit under the cap for the {name}: {told}; with a short "
            "answer it could cost {need}.",
            name=cap.name,
            told=told,
            need=need,
        ),
        hint=N_(
            "Raise `{setting}` in config.yaml{option}, or go on in a new session; `hermes usage` shows what was spent.",
            setting=setting,
            option=option,
        ),
    )


def _describe_cap(standing: CapUsage) -> str:
    """Describe on one line how much of a cap is used."""
    cap, parts = standing.cap, []
    if cap.nano is not None:
        left = max(cap.nano - standing.nano - standing.held_nano, 0)
        held = (
            N_(", {format_amount} held by calls under way", format_amount=format_amount(standing.held_nano))
            if standing.held_nano
            else ""
        )
        parts.append(
            N_(
                "{format_amount} of {format_amount_2} spent{held}, {format_amount_3} left",
                format_amount=format_amount(standing.nano),
                format_amount_2=format_amount(cap.nano),
                held=held,
                format_amount_3=format_amount(left),
            )
        )
    if cap.tokens is not None:
        left = max(cap.tokens - standing.tokens - standing.held_tokens, 0)
        held = (
            N_(", {held_tokens} held by calls under way", held_tokens=format(standing.held_tokens, ","))
            if standing.held_tokens
            else ""
        )
        parts.append(
            N_(
                "{tokens} of {tokens_2} tokens used{held}, {left} left",
                tokens=format(standing.tokens, ","),
                tokens_2=format(cap.tokens, ","),
                held=held,
                left=format(left, ","),
            )
        )
    return "; ".join(parts)
