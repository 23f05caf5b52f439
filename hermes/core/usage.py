"""Tokens and cost of model calls, as providers report them and as prices make them.

Money is whole nano-dollars: a token of the cheapest models costs a few of them, so that a sum has no rounding error;
and 64 bits of them are nine billion dollars. Fractions are rounded up: a cap holds for what is really billed.
"""

from enum import StrEnum
from typing import TypeGuard

from msgspec import Struct, structs

MAX_CALL_TOKENS = 10**9
"""The most tokens of one call: far above every model's window, and small enough that sums of it fit 64 bits."""
MAX_CALL_USD = 1e6
"""The most dollars that one call is taken to cost."""


class Usage(Struct, frozen=True, omit_defaults=True):
    """Tokens of one or more calls, as the provider reported them.

    `input` counts every prompt token, cached ones included; `cache_read` and `cache_write` are parts of it.
    `output` counts every generated token; `reasoning` is a part of it. `cost_usd` is the provider's own figure, if any.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost_usd: float | None = None

    def __add__(self, other: "Usage") -> "Usage":
        cost = None
        if self.cost_usd is not None or other.cost_usd is not None:
            cost = (self.cost_usd or 0.0) + (other.cost_usd or 0.0)
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
            cost_usd=cost,
        )

    def clamp_counts(self) -> "Usage":
        """Return the usage of one call with every count in its possible range, so that a provider's wrong figure
        neither lowers a sum nor overflows it.

        Counts lie between 0 and `MAX_CALL_TOKENS`, the cost between 0 and `MAX_CALL_USD`; one that is below
        zero or no number becomes 0.
        """
        cost = self.cost_usd
        return Usage(
            input=_clamp_count(self.input),
            output=_clamp_count(self.output),
            cache_read=_clamp_count(self.cache_read),
            cache_write=_clamp_count(self.cache_write),
            reasoning=_clamp_count(self.reasoning),
            cost_usd=min(cost, MAX_CALL_USD) if cost is not None and cost >= 0 else None,
        )

    @property
    def hit_rate(self) -> float | None:
        """Return the share of prompt tokens that came from the provider's cache; None without a prompt."""
        return min(self.cache_read / self.input, 1.0) if self.input else None

    @property
    def total(self) -> int:
        """Return the prompt and generated tokens together."""
        return self.input + self.output


def _clamp_count(count: int) -> int:
    return min(max(count, 0), MAX_CALL_TOKENS)


NANO_PER_USD = 1_000_000_000
"""Nano-dollars in a dollar."""
_MILLION = 1_000_000
MAX_CALL_NANO = int(MAX_CALL_USD) * NANO_PER_USD
"""The most that one call is taken to cost."""


class Price(Struct, frozen=True, kw_only=True):
    """The price of a model's tokens, in dollars a million. Cached tokens without a price of their own cost as `input`.

    Where a provider asks more for long prompts, `long` is the price of every token of a request whose prompt has more
    than `beyond` of them. `as_of` is the date on which `source` (a page, or `config.yaml`) said so.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    hour_write: float | None = None
    """The price of a cache write that is kept for an hour, as a multiple of `input`; None: as any other."""
    beyond: int = 0
    long: "Price | None" = None
    as_of: str = ""
    source: str = ""

    def price_for_prompt(self, prompt: int) -> "Price":
        """Return the price for a request with so many prompt tokens."""
        return self.long if self.long is not None and prompt > self.beyond else self

    def price_for_hour_cache(self) -> "Price":
        """Return the price where every cache write is to be kept for an hour."""
        write = self.cache_write if self.hour_write is None else self.hour_write * self.input
        longer = self.long.price_for_hour_cache() if self.long is not None else None
        return structs.replace(self, cache_write=write, long=longer)

    @property
    def dearest_input(self) -> float:
        """Return the most that a prompt token can cost, cached or not."""
        return max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)


FREE = Price(input=0.0, output=0.0, source="runs on this machine")
"""The price of models that cost nothing."""


def usd_to_nano(usd: float) -> int:
    """Convert dollars to nano-dollars."""
    return round(usd * NANO_PER_USD)


def is_amount(usd: float | None) -> TypeGuard[float]:
    """Return whether a number can be an amount of money: there, finite and not below zero."""
    return usd is not None and 0 <= usd < NANO_PER_USD


def compute_cost(usage: Usage, price: Price) -> int:
    """Return the cost of a call in nano-dollars, rounded up."""
    price = price.price_for_prompt(usage.input)
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    plain = max(usage.input - usage.cache_read - usage.cache_write, 0)
    total = (
        plain * usd_to_nano(price.input) + usage.cache_read * usd_to_nano(read) + usage.cache_write * usd_to_nano(write)
    )
    return _round_up(total + usage.output * usd_to_nano(price.output))


def compute_savings(usage: Usage, price: Price) -> int:
    """Return how much the provider's cache saved at this price, in nano-dollars: below zero when writing to it cost
    more.
    """
    plain = structs.replace(usage, cache_read=0, cache_write=0)
    return compute_cost(plain, price) - compute_cost(usage, price)


def compute_worst_cost(prompt: int, output: int, price: Price) -> int:
    """Return the most that a call with at most so many tokens can cost, in nano-dollars."""
    price = price.price_for_prompt(prompt)
    return _round_up(prompt * usd_to_nano(price.dearest_input) + output * usd_to_nano(price.output))


def compute_affordable_output(prompt: int, nano: int, price: Price) -> int:
    """Return how many tokens of output `nano` still pays for beside the prompt; below zero when not even that is paid
    for.

    For these tokens `compute_worst_cost` is at most `nano`.
    """
    price = price.price_for_prompt(prompt)
    rest = nano * _MILLION - prompt * usd_to_nano(price.dearest_input)
    each = usd_to_nano(price.output)
    if each == 0:
        free = price.dearest_input == 0  # and so it is even under a cap that is overspent
        return _MILLION * _MILLION if free or rest >= 0 else -1
    return rest // each


def _round_up(millionths: int) -> int:
    return min(-(-millionths // _MILLION), MAX_CALL_NANO)


class Certainty(StrEnum):
    """The certainty of a cost; each value is less certain than the one before."""

    REPORTED = "reported"
    """The provider's own figure."""
    COMPUTED = "computed"
    """The provider's count of tokens, by list price."""
    UPPER_BOUND = "upper_bound"
    """An upper bound: the answer broke off, or its process died, before the provider had counted."""
    UNKNOWN = "unknown"
    """The model has no price, or its tokens were not counted: it cost at least this much."""


_CERTAINTY_ORDER = tuple(Certainty)


class Cost(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The cost of one or more calls in nano-dollars, as certain as the least certain of them. Without a call it is
    zero.

    `source` names where prices came from. `cap` says which cap lowered or refused a call, and what was left under it.
    """

    nano: int = 0
    certainty: Certainty = Certainty.REPORTED
    source: str = ""
    cap: str = ""
    saved: int = 0
    """Nano-dollars that the provider's cache saved at list prices; unknown for models without a price."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            nano=self.nano + other.nano,
            certainty=max(self.certainty, other.certainty, key=_CERTAINTY_ORDER.index),
            source=other.source or self.source,
            cap=other.cap or self.cap,
            saved=self.saved + other.saved,
        )

    @property
    def usd(self) -> float | None:
        """Return the cost in dollars; None when it is unknown."""
        return None if self.certainty is Certainty.UNKNOWN and not self.nano else self.nano / NANO_PER_USD


def format_amount(nano: int) -> str:
    """Format an amount for people: two decimals, and four for small amounts."""
    usd = nano / NANO_PER_USD
    return f"{usd:.2f} USD" if usd >= 1 or nano % (NANO_PER_USD // 100) == 0 else f"{usd:.4f} USD"
