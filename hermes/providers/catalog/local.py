"""The small model that comes with Hermes, started in this process."""

from hermes.core.usage import FREE
from hermes.i18n.messages import N_
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="local",
    title=N_("The embedded model"),
    base_url="",
    key_required=False,
    quirks=Quirks(effort="", strict_roles=True, think_tags=True),
    tools=False,
    pictures={"*": False},
    prompt="You are a helpful assistant. Answer in one short sentence.",
    temperature=0.0,
    max_tokens=200,
    tested=True,
    prices={"*": FREE},
    notes="No tools: its template knows none. Used when nothing else is configured.",
)
