"""Nous Research."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="nous",
    title="Nous Research",
    base_url="https://inference-api.nousresearch.com/v1",
    base_url_variable="NOUS_INFERENCE_BASE_URL",
    key_variables=("NOUS_API_KEY",),
    quirks=Quirks(vendor_names=True, effort="reasoning", reasoning_field="reasoning_details", probe="models"),
    notes="By key, or by `hermes auth login nous` with a client id of your own.",
)
