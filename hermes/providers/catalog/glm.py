"""Zhipu / Z.ai GLM."""

from functools import partial

from hermes.core.usage import Price
from hermes.providers.wire import ProviderRecord, Quirks

_price = partial(Price, as_of="2026-09-29", source="https://docs.z.ai/guides/overview/pricing")

RECORD = ProviderRecord(
    name="glm",
    title="GLM (Z.ai)",
    base_url="https://api.z.ai/api/paas/v4",
    base_url_variable="GLM_BASE_URL",
    hosts=("open.bigmodel.cn",),
    key_variables=("GLM_API_KEY", "ZAI_API_KEY", "Z_AI_API_KEY", "ZHIPUAI_API_KEY"),
    quirks=Quirks(
        reasoning_replay=True,
        effort="",
        native_prefix="z-ai/",
        extra_body=b'"thinking":{"type":"enabled","clear_thinking":false}',
    ),
    prices={
        "glm-5.3": _price(input=1.4, output=4.4, cache_read=0.26),
        "glm-5.3-flash": _price(input=0.15, output=0.5, cache_read=0.03),
        "glm-5.3-flashx": _price(input=0.37, output=1.25, cache_read=0.075),
        "glm-5.2": _price(input=1.4, output=4.4, cache_read=0.26),
        "glm-5.1": _price(input=1.4, output=4.4, cache_read=0.26),
        "glm-5": _price(input=1.0, output=3.2, cache_read=0.2),
        "glm-4.7": _price(input=0.6, output=2.2, cache_read=0.11),
        "glm-4.7-flashx": _price(input=0.07, output=0.4, cache_read=0.01),
        "glm-4.7-flash": _price(input=0.0, output=0.0),
        "glm-4.6": _price(input=0.6, output=2.2, cache_read=0.11),
        "glm-4.5": _price(input=0.6, output=2.2, cache_read=0.11),
        "glm-4.5-air": _price(input=0.2, output=1.1, cache_read=0.03),
    },
    notes="With tools reasoning_content must go back; `clear_thinking: false` keeps that of earlier turns "
    "and the cache (docs.z.ai, Thinking Mode). 200,000 tokens is documented for GLM-4.6 and 4.7 (docs.z.ai, Models).",
    context_lengths={"glm-4.6": 200_000, "glm-4.7": 200_000},
)
