"""Moonshot AI's Kimi."""

from hermes.providers.wire import ProviderRecord, Quirks

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
    notes="Thinking models demand reasoning_content in every assistant message with tool calls (platform.kimi.ai, Kimi "
    "K2.6 quickstart, Tool use compatibility). Keys of api.moonshot.cn need `model.base_url`.",
)
