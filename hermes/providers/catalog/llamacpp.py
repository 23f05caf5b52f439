"""llama.cpp's server."""

from hermes.core.usage import FREE
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="llamacpp",
    title="llama.cpp",
    base_url="http://127.0.0.1:8080/v1",
    base_url_variable="LLAMACPP_BASE_URL",
    key_variables=("LLAMA_API_KEY",),
    key_required=False,
    quirks=Quirks(vendor_names=True, reasoning_replay=True, probe="props", strict_roles=True, think_tags=True),
    tested=True,
    prices={"*": FREE},
    notes="Run against llama-server on all three wires. Templates that know reasoning_content place it, others ignore "
    "it (llama.cpp, tools/server/README.md); /props tells n_ctx of a slot.",
)
