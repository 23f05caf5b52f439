"""Money, prices, and what a call cost.

Money is whole nano-dollars: a token of the cheapest models costs a few of them, so that a sum has no rounding error;
and 64 bits of them are nine billion dollars. Whatever does not come out even is
rounded up: a cap holds for what is really billed.
"""

from enum import StrEnum
from typing import TypeGuard

from msgspec import Struct, structs

from hermes.core.usage import MOST_USD, Usage

NANO = 1_000_000_000
"""Nano-dollars in a dollar."""
_MILLION = 1_000_000
MOST = int(MOST_USD) * NANO
"""The most that one call is taken to cost."""


class Price(Struct, frozen=True, kw_only=True):
    """What a model's tokens cost, in dollars a million. Cached tokens without a price of their own cost as `input`.

    Where a provider asks more for long prompts, `long` is the price of every token of a request whose prompt has more
    than `beyond` of them. `as_of` is the date on which `source` (a page, or `config.yaml`) said so.
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    hour_write: float | None = None
    """What a cache write that is to be kept for an hour costs, as a multiple of `input`; empty: as any other."""
    beyond: int = 0
    long: "Price | None" = None
    as_of: str = ""
    source: str = ""

    def at(self, prompt: int) -> "Price":
        """The price for a request with so many prompt tokens."""
        return self.long if self.long is not None and prompt > self.beyond else self

    def for_an_hour(self) -> "Price":
        """The price where every cache write is to be kept for an hour."""
        write = self.cache_write if self.hour_write is None else self.hour_write * self.input
        longer = self.long.for_an_hour() if self.long is not None else None
        return structs.replace(self, cache_write=write, long=longer)

    @property
    def dearest_input(self) -> float:
        """The most that a prompt token can cost, cached or not."""
        return max(self.input, self.cache_read or 0.0, self.cache_write or 0.0)


FREE = Price(input=0.0, output=0.0, source="runs on this machine")
"""Of models that nobody charges for."""


def to_nano(usd: float) -> int:
    """Dollars as nano-dollars."""
    return round(usd * NANO)


def is_amount(usd: float | None) -> TypeGuard[float]:
    """Whether a number can be an amount of money: there, finite and not below zero."""
    return usd is not None and 0 <= usd < NANO


def cost(usage: Usage, price: Price) -> int:
    """What a call cost in nano-dollars, rounded up."""
    price = price.at(usage.input)
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    plain = max(usage.input - usage.cache_read - usage.cache_write, 0)
    total = plain * to_nano(price.input) + usage.cache_read * to_nano(read) + usage.cache_write * to_nano(write)
    return _up(total + usage.output * to_nano(price.output))


def saved(usage: Usage, price: Price) -> int:
    """What the provider's cache saved at this price, in nano-dollars: below zero when writing to it cost more."""
    plain = structs.replace(usage, cache_read=0, cache_write=0)
    return cost(plain, price) - cost(usage, price)


def worst_cost(prompt: int, output: int, price: Price) -> int:
    """The most that a call with at most so many tokens can cost, in nano-dollars."""
    price = price.at(prompt)
    return _up(prompt * to_nano(price.dearest_input) + output * to_nano(price.output))


def affordable_output(prompt: int, nano: int, price: Price) -> int:
    """How many tokens of output `nano` still pays for beside the prompt; below zero when not even that is paid for.

    For these tokens `worst_cost` is at most `nano`.
    """
    price = price.at(prompt)
    rest = nano * _MILLION - prompt * to_nano(price.dearest_input)
    each = to_nano(price.output)
    if each == 0:
        free = price.dearest_input == 0  # and so it is even under a cap that is overspent
        return _MILLION * _MILLION if free or rest >= 0 else -1
    return rest // each


def _up(millionths: int) -> int:
    return min(-(-millionths // _MILLION), MOST)


class Certainty(StrEnum):
    """How sure a cost is; the less sure, the further down."""

    REPORTED = "reported"
    """The provider's own figure."""
    COMPUTED = "computed"
    """The provider's count of tokens, by list price."""
    UPPER_BOUND = "upper_bound"
    """It cannot be more: the answer broke off, or its process died, before the provider had counted."""
    UNKNOWN = "unknown"
    """The model has no price, or nobody counted its tokens: at least this much."""


_ORDER = tuple(Certainty)


class Cost(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one or more calls cost, in nano-dollars, as sure as the least sure of them. Without a call it is nothing.

    `source` names where prices came from. `cap` says which cap lowered or refused a call, and what was left under it.
    """

    nano: int = 0
    certainty: Certainty = Certainty.REPORTED
    source: str = ""
    cap: str = ""
    saved: int = 0
    """Nano-dollars that the provider's cache saved at list prices; of models without a price nothing is known."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            nano=self.nano + other.nano,
            certainty=max(self.certainty, other.certainty, key=_ORDER.index),
            source=other.source or self.source,
            cap=other.cap or self.cap,
            saved=self.saved + other.saved,
        )

    @property
    def usd(self) -> float | None:
        """In dollars; None when nothing is known."""
        return None if self.certainty is Certainty.UNKNOWN and not self.nano else self.nano / NANO


def shown(nano: int) -> str:
    """An amount as people read it: cents, and more digits for what is less."""
    usd = nano / NANO
    return f"{usd:.2f} USD" if usd >= 1 or nano % (NANO // 100) == 0 else f"{usd:.4f} USD"
