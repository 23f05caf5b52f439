"""xAI."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-09-29", source="https://docs.x.ai/developers/models")

RECORD = ProviderRecord(
    name="xai",
    title="xAI",
    base_url="https://api.x.ai/v1",
    base_url_variable="XAI_BASE_URL",
    key_variables=("XAI_API_KEY",),
    default_model="grok-4.7",
    quirks=Quirks(
        max_tokens_field="max_completion_tokens",
        effort="",
        native_prefix="x-ai/",
    ),
    prices={
        "grok-4.7": _price(
            input=2.0, output=6.0, cache_read=0.5, beyond=199_999, long=_price(input=4.0, output=12.0, cache_read=1.0)
        ),
    },
    notes="Most Grok models refuse `reasoning_effort`, so it is left out (docs.x.ai, Reasoning). reasoning_content is "
    "not sent back. `api_mode: responses` works too.",
)
