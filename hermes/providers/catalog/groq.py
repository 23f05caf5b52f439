"""Groq."""

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="groq",
    title="Groq",
    base_url="https://api.groq.com/openai/v1",
    base_url_variable="GROQ_BASE_URL",
    key_variables=("GROQ_API_KEY",),
    quirks=Quirks(
        vendor_names=True,
        max_tokens_field="max_completion_tokens",
        reasoning_field="reasoning",
        unreasoning_models=("llama*", "meta-llama/*", "moonshotai/*", "gemma*"),
        probe="models",
    ),
    prices={
        "openai/gpt-oss-120b": Price(
            input=0.15, output=0.6, as_of="2026-05-19", source="https://console.groq.com/docs/models"
        ),
    },
    notes="GET /models gives context_window (console.groq.com/docs, Models). Reasoning comes in `reasoning`.",
)
