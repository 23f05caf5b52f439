"""Google's Gemini over its OpenAI-compatible address."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="gemini",
    title="Google Gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    base_url_variable="GEMINI_BASE_URL",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    quirks=Quirks(native_prefix="google/"),
    context_lengths={"gemini-2.5-*": 1_048_576},
    notes="Thought signatures come and go in `extra_content` of a tool call (ai.google.dev, Thought signatures, OpenAI "
    "compatibility). Window: ai.google.dev, Gemini models, input token limit.",
)
