"""DeepSeek."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-10-27", source="https://api-docs.deepseek.com/quick_start/pricing")
"""At peak hours (Monday to Friday, 01:00 to 04:00 and 06:00 to 10:00 UTC); it is half of that at other times."""

RECORD = ProviderRecord(
    name="deepseek",
    title="DeepSeek",
    base_url="https://api.deepseek.com/v1",
    base_url_variable="DEEPSEEK_BASE_URL",
    key_variables=("DEEPSEEK_API_KEY",),
    quirks=Quirks(reasoning_replay=True, reasoning_required=True, native_prefix="deepseek/"),
    pictures={"deepseek-*": False},
    prices={
        "deepseek-flash": _price(input=0.3, output=1.2, cache_read=0.006),
        "deepseek-v4-flash": _price(input=0.3, output=1.2, cache_read=0.006),
        "deepseek-v4-pro": _price(input=1.32, output=3.96, cache_read=0.044),
    },
    notes="Once a tool was called, every assistant message must carry reasoning_content or the API answers 400; where "
    "no tool was called it is ignored (api-docs.deepseek.com, Thinking Mode). So it always goes back.",
)
