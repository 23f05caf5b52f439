"""Together AI."""

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="together",
    title="Together AI",
    base_url="https://api.together.xyz/v1",
    base_url_variable="TOGETHER_BASE_URL",
    hosts=("api.together.ai",),
    key_variables=("TOGETHER_API_KEY",),
    quirks=Quirks(vendor_names=True, reasoning_field="reasoning", probe="models"),
    prices={
        "openai/gpt-oss-120b": Price(
            input=0.15, output=0.6, as_of="2026-05-19", source="https://docs.together.ai/docs/serverless/models"
        ),
    },
    notes="GET /models gives context_length (docs.together.ai, List all models).",
)
