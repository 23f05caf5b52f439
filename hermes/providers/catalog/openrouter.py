"""OpenRouter: one key for the models of most vendors."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="openrouter",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    base_url_variable="OPENROUTER_BASE_URL",
    key_variables=("OPENROUTER_API_KEY",),
    quirks=Quirks(
        vendor_names=True,
        reasoning_replay=True,
        reasoning_field="reasoning_details",
        effort="reasoning",
        cache_marks=("anthropic/claude-*", "~anthropic/claude-*"),
        extra_body=b'"usage":{"include":true}',
        probe="models",
    ),
    notes="reasoning_details go back unmodified (openrouter.ai/docs, Reasoning Tokens); usage.cost "
    "is in US dollars (Usage Accounting). Context lengths: GET /models. "
    "cache_control of Claude models is passed on (Prompt Caching).",
)
