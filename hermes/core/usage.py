"""Tokens and money of model calls."""

from msgspec import Struct


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

    @property
    def total(self) -> int:
        """Prompt and generated tokens together."""
        return self.input + self.output
