"""DeepSeek."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="deepseek",
    title="DeepSeek",
    base_url="https://api.deepseek.com/v1",
    base_url_variable="DEEPSEEK_BASE_URL",
    key_variables=("DEEPSEEK_API_KEY",),
    quirks=Quirks(reasoning_replay=True, reasoning_required=True, native_prefix="deepseek/"),
    notes="Once a tool was called, every assistant message must carry reasoning_content or the API answers 400; where "
    "no tool was called it is ignored (api-docs.deepseek.com, Thinking Mode). So it always goes back.",
)
