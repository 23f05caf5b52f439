"""Tokens and cost of model calls, as providers report them."""

from msgspec import Struct

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
