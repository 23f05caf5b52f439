"""Alibaba Cloud Model Studio (Qwen)."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="qwen",
    title="Qwen (Alibaba Cloud)",
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    base_url_variable="DASHSCOPE_BASE_URL",
    hosts=("dashscope.aliyuncs.com", "dashscope-us.aliyuncs.com"),
    key_variables=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
    quirks=Quirks(effort="", native_prefix="qwen/"),
    notes="Earlier reasoning is not to be sent (Model Studio, Deep thinking, multi-turn). Keys of mainland China need "
    "`model.base_url: https://dashscope.aliyuncs.com/compatible-mode/v1`.",
)
