"""Tokens and money of model calls."""

from msgspec import Struct

MOST_TOKENS = 10**9
"""The most tokens of one call: far above every model's window, and small enough that sums of it fit 64 bits."""
MOST_USD = 1e6
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

    def bounded(self) -> "Usage":
        """The use of one call within what can be: a provider's lie neither lowers a sum nor overflows it.

        Counts lie between 0 and `MOST_TOKENS`, the cost between 0 and `MOST_USD`; one that is below zero or no number
        is none.
        """
        cost = self.cost_usd
        return Usage(
            input=_bounded(self.input),
            output=_bounded(self.output),
            cache_read=_bounded(self.cache_read),
            cache_write=_bounded(self.cache_write),
            reasoning=_bounded(self.reasoning),
            cost_usd=min(cost, MOST_USD) if cost is not None and cost >= 0 else None,
        )

    @property
    def hit_rate(self) -> float | None:
        """The share of prompt tokens that came from the provider's cache; None without a prompt."""
        return min(self.cache_read / self.input, 1.0) if self.input else None

    @property
    def total(self) -> int:
        """Prompt and generated tokens together."""
        return self.input + self.output


def _bounded(count: int) -> int:
    return min(max(count, 0), MOST_TOKENS)
