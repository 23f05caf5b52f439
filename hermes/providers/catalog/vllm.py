"""vLLM."""

from hermes.core.usage import FREE
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="vllm",
    title="vLLM",
    base_url="http://127.0.0.1:8000/v1",
    base_url_variable="VLLM_BASE_URL",
    key_variables=("VLLM_API_KEY",),
    key_required=False,
    quirks=Quirks(vendor_names=True, reasoning_field="reasoning", probe="models", strict_roles=True, think_tags=True),
    prices={"*": FREE},
    notes="GET /v1/models tells max_model_len (docs.vllm.ai, OpenAI-compatible server).",
)
