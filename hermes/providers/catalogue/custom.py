"""Any server that speaks one of the three wires, named by its address."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="custom",
    title="The configured server",
    base_url="",
    base_url_variable="OPENAI_BASE_URL",
    key_variables=("CUSTOM_API_KEY", "OPENAI_API_KEY"),
    key_required=False,
    quirks=Quirks(vendor_names=True, probe="models"),
    notes="`model.base_url` says where; the key of OPENAI_API_KEY is sent to the address in `model.base_url` as the "
    "described system does.",
)
