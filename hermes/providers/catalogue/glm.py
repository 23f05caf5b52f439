"""Zhipu / Z.ai GLM."""

from hermes.providers.wire import ProviderRecord, Quirks

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
    notes="With tools reasoning_content must go back; `clear_thinking: false` keeps that of earlier turns "
    "and the cache (docs.z.ai, Thinking Mode). 200,000 tokens is documented for GLM-4.6 and 4.7 (docs.z.ai, Models).",
    context_lengths={"glm-4.6": 200_000, "glm-4.7": 200_000},
)
