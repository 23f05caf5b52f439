"""OpenAI."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-09-24", source="https://developers.openai.com/api/docs/pricing")
"""Of GPT-6 only; what else is used has its price in config.yaml."""

RECORD = ProviderRecord(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    base_url_variable="OPENAI_BASE_URL",
    wire="responses",
    key_variables=("OPENAI_API_KEY",),
    quirks=Quirks(
        max_tokens_field="max_completion_tokens",
        native_prefix="openai/",
        unreasoning_models=("gpt-4*", "gpt-3.5*", "chatgpt-4o*"),
    ),
    prices={
        "gpt-6-astra": _price(
            input=10.0,
            output=50.0,
            cache_read=1.0,
            cache_write=12.5,
            beyond=272_000,
            long=_price(input=20.0, output=75.0, cache_read=2.0, cache_write=25.0),
        ),
        "gpt-6-sol": _price(
            input=2.0,
            output=10.0,
            cache_read=0.2,
            cache_write=2.5,
            beyond=272_000,
            long=_price(input=4.0, output=15.0, cache_read=0.4, cache_write=5.0),
        ),
        "gpt-6-luna": _price(
            input=0.1,
            output=0.5,
            cache_read=0.01,
            cache_write=0.125,
            beyond=272_000,
            long=_price(input=0.2, output=0.75, cache_read=0.02, cache_write=0.25),
        ),
    },
    notes="Reasoning models keep their reasoning over tool calls only on the Responses API, so that is the wire here; "
    "`api_mode: chat_completions` works too. Context lengths are not told by the API: set `model.context_length`.",
)
