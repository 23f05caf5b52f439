"""OpenAI's models by a ChatGPT subscription (Codex)."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="codex",
    title="OpenAI Codex",
    base_url="https://chatgpt.com/backend-api/codex",
    wire="responses",
    sign_in="openai",
    default_model="gpt-6-sol",
    quirks=Quirks(
        native_prefix="openai/",
        organisation_header="chatgpt-account-id",
        extra_headers={"originator": "hermes", "openai-beta": "responses=experimental"},
        dropped_members=("max_output_tokens", "temperature", "top_p"),
    ),
    notes="`hermes auth login openai` signs in; there are no keys. The account goes in a header field of its own, and "
    "limits of an answer's length are refused here.",
)
