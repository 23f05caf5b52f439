"""Ollama, on this machine or another."""

from hermes.core.usage import FREE
from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="ollama",
    title="Ollama",
    base_url="http://127.0.0.1:11434/v1",
    base_url_variable="OLLAMA_BASE_URL",
    key_variables=("OLLAMA_API_KEY",),
    key_required=False,
    quirks=Quirks(reasoning_field="reasoning", probe="show", tool_choice_none=False, think_tags=True),
    prices={"*": FREE},
    notes="The window is what the server was started with (OLLAMA_CONTEXT_LENGTH, num_ctx), often less than the "
    "model's own; /api/show tells both (docs.ollama.com, API). tool_choice is not supported (OpenAI compatibility).",
)
