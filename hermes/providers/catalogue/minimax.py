"""MiniMax."""

from hermes.providers.wire import ProviderRecord, Quirks

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
    notes="With `reasoning_split` thinking comes as reasoning_details and the whole message must go back "
    "(platform.minimax.io, OpenAI compatible API). tool_choice is not documented there.",
)
