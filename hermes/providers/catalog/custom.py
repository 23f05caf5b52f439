"""Any server that speaks one of the three wires, named by its address."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="custom",
    title="The configured server",
    base_url="",
    base_url_variable="OPENAI_BASE_URL",
    key_variables=("CUSTOM_API_KEY",),
    address_keys=("OPENAI_API_KEY",),
    key_required=False,
    quirks=Quirks(vendor_names=True, probe="any", think_tags=True),
    tested=True,
    notes="Run against llama-server on all three wires. `model.base_url` says where. OPENAI_API_KEY goes with "
    "OPENAI_BASE_URL; for another server say so: `model.api_key: ${OPENAI_API_KEY}`.",
)
