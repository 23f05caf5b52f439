"""Mistral AI."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="mistral",
    title="Mistral",
    base_url="https://api.mistral.ai/v1",
    base_url_variable="MISTRAL_BASE_URL",
    key_variables=("MISTRAL_API_KEY",),
    quirks=Quirks(
        prefill=False,
        stream_usage=False,
        effort="",
        native_prefix="mistralai/",
        call_id_limit=9,
        call_id_exact=True,
    ),
    notes="Ids of tool calls must be nine letters and digits; usage comes in the last chunk unasked (docs.mistral.ai).",
)
