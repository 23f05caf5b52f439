"""Moonshot AI's Kimi."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-09-29", source="https://platform.kimi.ai/docs/pricing/chat")

RECORD = ProviderRecord(
    name="kimi",
    title="Kimi (Moonshot AI)",
    base_url="https://api.moonshot.ai/v1",
    base_url_variable="KIMI_BASE_URL",
    hosts=("api.moonshot.cn",),
    key_variables=("KIMI_API_KEY", "MOONSHOT_API_KEY"),
    quirks=Quirks(
        reasoning_replay=True,
        reasoning_required=True,
        effort="",
        native_prefix="moonshotai/",
        call_id_limit=256,
    ),
    prices={
        "kimi-k3": _price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.0),
        "kimi-k2.7-code": _price(input=0.95, output=4.0, cache_read=0.19),
        "kimi-k2.7-code-highspeed": _price(input=1.9, output=8.0, cache_read=0.38),
        "kimi-k2.6": _price(input=0.95, output=4.0, cache_read=0.16),
    },
    notes="Thinking models demand reasoning_content in every assistant message with tool calls (platform.kimi.ai, Kimi "
    "K2.6 quickstart, Tool use compatibility). Keys of api.moonshot.cn need `model.base_url`.",
)
