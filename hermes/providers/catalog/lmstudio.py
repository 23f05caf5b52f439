"""LM Studio, on this machine."""

from hermes.core.usage import FREE
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="lmstudio",
    title="LM Studio",
    base_url="http://127.0.0.1:1234/v1",
    base_url_variable="LM_BASE_URL",
    key_variables=("LM_API_KEY",),
    key_required=False,
    quirks=Quirks(vendor_names=True, probe="any", strict_roles=True, think_tags=True),
    prices={"*": FREE},
    notes="GET /api/v0/models tells loaded_context_length (lmstudio.ai/docs, REST API).",
)
