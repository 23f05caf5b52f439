"""OpenAI."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="openai",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    base_url_variable="OPENAI_BASE_URL",
    wire="responses",
    key_variables=("OPENAI_API_KEY",),
    quirks=Quirks(
        max_tokens_field="max_completion_tokens",
        native_prefix="openai/",
        unreasoning_models=("gpt-4*", "gpt-3.5*", "chatgpt-4o*"),
    ),
    notes="Reasoning models keep their reasoning over tool calls only on the Responses API, so that is the wire here; "
    "`api_mode: chat_completions` works too. Context lengths are not told by the API: set `model.context_length`.",
)
