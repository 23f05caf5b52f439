"""Fireworks AI."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="fireworks",
    title="Fireworks AI",
    base_url="https://api.fireworks.ai/inference/v1",
    base_url_variable="FIREWORKS_BASE_URL",
    key_variables=("FIREWORKS_API_KEY",),
    quirks=Quirks(vendor_names=True, reasoning_replay=True, probe="models"),
    notes="reasoning_content of earlier answers is taken and used between tool calls (docs.fireworks.ai, Reasoning).",
)
