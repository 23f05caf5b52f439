"""xAI."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="xai",
    title="xAI",
    base_url="https://api.x.ai/v1",
    base_url_variable="XAI_BASE_URL",
    key_variables=("XAI_API_KEY",),
    quirks=Quirks(
        max_tokens_field="max_completion_tokens",
        effort="",
        native_prefix="x-ai/",
    ),
    notes="Most Grok models refuse `reasoning_effort`, so it is left out (docs.x.ai, Reasoning). reasoning_content is "
    "not sent back. `api_mode: responses` works too.",
)
