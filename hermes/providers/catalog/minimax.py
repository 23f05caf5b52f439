"""MiniMax."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-09-29", source="https://platform.minimax.io/docs/guides/pricing-paygo")

RECORD = ProviderRecord(
    name="minimax",
    title="MiniMax",
    base_url="https://api.minimax.io/v1",
    base_url_variable="MINIMAX_BASE_URL",
    hosts=("api.minimaxi.com", "api.minimax.chat"),
    key_variables=("MINIMAX_API_KEY",),
    quirks=Quirks(
        reasoning_replay=True,
        reasoning_field="reasoning_details",
        max_tokens_field="max_completion_tokens",
        effort="",
        tool_choice_none=False,
        native_prefix="minimax/",
        extra_body=b'"reasoning_split":true',
    ),
    prices={
        "MiniMax-M3": _price(
            input=0.3, output=1.2, cache_read=0.06, beyond=512_000, long=_price(input=0.6, output=2.4, cache_read=0.12)
        ),
        "MiniMax-M2.7": _price(input=0.3, output=1.2, cache_read=0.06, cache_write=0.375),
        "MiniMax-M2.7-highspeed": _price(input=0.6, output=2.4, cache_read=0.06, cache_write=0.375),
        "MiniMax-M2.5": _price(input=0.3, output=1.2, cache_read=0.03, cache_write=0.375),
        "MiniMax-M2.5-highspeed": _price(input=0.6, output=2.4, cache_read=0.03, cache_write=0.375),
        "MiniMax-M2.1": _price(input=0.3, output=1.2, cache_read=0.03, cache_write=0.375),
        "MiniMax-M2.1-highspeed": _price(input=0.6, output=2.4, cache_read=0.03, cache_write=0.375),
        "MiniMax-M2": _price(input=0.3, output=1.2, cache_read=0.03, cache_write=0.375),
    },
    notes="With `reasoning_split` thinking comes as reasoning_details and the whole message must go back "
    "(platform.minimax.io, OpenAI compatible API). tool_choice is not documented there.",
)
