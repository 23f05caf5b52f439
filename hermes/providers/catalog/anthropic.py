"""Anthropic."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(
    Price, hour_write=2.0, as_of="2026-10-24", source="https://platform.claude.com/docs/en/about-claude/pricing"
)
"""Cache writes at the price for five minutes; for an hour every model takes twice the price of a prompt token."""

RECORD = ProviderRecord(
    name="anthropic",
    title="Anthropic",
    base_url="https://api.anthropic.com",
    base_url_variable="ANTHROPIC_BASE_URL",
    wire="anthropic_messages",
    key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN"),
    quirks=Quirks(
        native_prefix="anthropic/",
        tool_choice_none=False,
        default_max_tokens=32_000,
        cache_marks=("claude-*",),
        budget_models=(
            "claude-haiku-4-5*",
            "claude-sonnet-4-5*",
            "claude-opus-4-5*",
            "claude-opus-4-1*",
            "claude-opus-4",
            "claude-sonnet-4-20*",
            "claude-3-7*",
        ),
        unreasoning_models=("claude-3-5*", "claude-3-haiku*", "claude-3-opus*"),
    ),
    context_lengths={"claude-*": 200_000},
    prices={
        "claude-fable-5-1": _price(input=10.0, output=50.0, cache_read=0.25, cache_write=12.5),
        "claude-fable-5": _price(input=10.0, output=50.0, cache_read=1.0, cache_write=12.5),
        "claude-opus-5-5": _price(input=4.0, output=20.0, cache_read=0.2, cache_write=5.0),
        "claude-opus-5": _price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25),
        "claude-opus-4-8": _price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25),
        "claude-opus-4-7": _price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25),
        "claude-opus-4-6": _price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25),
        "claude-opus-4-5": _price(input=5.0, output=25.0, cache_read=0.5, cache_write=6.25),
        "claude-opus-4-1": _price(input=15.0, output=75.0, cache_read=1.5, cache_write=18.75),
        "claude-opus-4-20*": _price(input=15.0, output=75.0, cache_read=1.5, cache_write=18.75),
        "claude-sonnet-5-5": _price(input=2.0, output=10.0, cache_read=0.1, cache_write=2.5),
        "claude-sonnet-5": _price(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5),
        "claude-sonnet-4-6": _price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75),
        "claude-sonnet-4-5": _price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75),
        "claude-sonnet-4": _price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75),
        "claude-haiku-5-5": _price(
            input=0.1,
            output=0.5,
            cache_read=0.01,
            cache_write=0.125,
            beyond=100_000,
            long=_price(input=0.5, output=2.5, cache_read=0.05, cache_write=0.625),
        ),
        "claude-haiku-4-5": _price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25),
    },
    notes="Changing tool_choice invalidates the cached messages (docs, Prompt caching, What invalidates the cache). "
    "200,000 tokens for every Claude model without a beta header (docs, Context windows); larger windows: set "
    "`model.context_length`.",
)
