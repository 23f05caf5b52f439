"""Mistral AI."""

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="mistral",
    title="Mistral",
    base_url="https://api.mistral.ai/v1",
    base_url_variable="MISTRAL_BASE_URL",
    key_variables=("MISTRAL_API_KEY",),
    quirks=Quirks(
        strict_roles=True,
        stream_usage=False,
        effort="",
        native_prefix="mistralai/",
        call_id_limit=9,
        call_id_exact=True,
    ),
    prices={
        "mistral-medium-3.5": Price(
            input=1.5,
            output=7.5,
            as_of="2026-04-30",
            source="https://docs.mistral.ai/models/model-cards/mistral-medium-3-5-26-04",
        ),
    },
    notes="Ids of tool calls must be nine letters and digits; usage comes in the last chunk unasked (docs.mistral.ai). "
    "No user message may follow a tool's (mistral-common, validator).",
)
