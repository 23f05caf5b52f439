"""The small model that comes with Hermes, started in this process."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="local",
    title="The embedded model",
    base_url="",
    key_required=False,
    quirks=Quirks(effort=""),
    notes="No tools: its template knows none. Used when nothing else is configured.",
)
