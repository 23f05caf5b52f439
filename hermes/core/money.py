"""Money, prices, and the cost of calls.

Money is whole nano-dollars: a token of the cheapest models costs a few of them, so that a sum has no rounding error;
and 64 bits of them are nine billion dollars. Fractions are rounded up: a cap holds for what is really billed.
"""

from enum import StrEnum
from typing import TypeGuard

from msgspec import Struct, structs

from hermes.core.usage import MAX_CALL_USD, Usage

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
