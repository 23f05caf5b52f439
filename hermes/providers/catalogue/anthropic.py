"""Anthropic."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="anthropic",
    title="Anthropic",
    base_url="https://api.anthropic.com",
    base_url_variable="ANTHROPIC_BASE_URL",
    wire="anthropic_messages",
    key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN"),
    quirks=Quirks(
        native_prefix="anthropic/",
        tool_choice_none=False,
        default_max_tokens=32_000,
        budget_models=(
            "claude-haiku-4-5*",
            "claude-sonnet-4-5*",
            "claude-opus-4-5*",
            "claude-opus-4-1*",
            "claude-opus-4-20*",
            "claude-sonnet-4-20*",
            "claude-3-7*",
        ),
        unreasoning_models=("claude-3-5*", "claude-3-haiku*", "claude-3-opus*"),
    ),
    context_lengths={"claude-*": 200_000},
    notes="Changing tool_choice invalidates the cached messages (docs, Prompt caching, What invalidates the cache). "
    "200,000 tokens for every Claude model without a beta header (docs, Context windows); larger windows: set "
    "`model.context_length`.",
)
