"""Amazon Bedrock."""

from hermes.providers.wire import ProviderRecord, Quirks

_CLAUDE = tuple(
    f"{place}anthropic.*" for place in ("", "global.", "us.", "us-gov.", "eu.", "apac.", "jp.", "au.", "ca.")
)
"""Claude models, by themselves and by the places that may serve a call (cross-region inference)."""

RECORD = ProviderRecord(
    name="bedrock",
    title="Amazon Bedrock",
    base_url="",
    cloud="bedrock",
    wires=dict.fromkeys(_CLAUDE, "anthropic_messages"),
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    credential_variables=("AWS_ACCESS_KEY_ID",),
    quirks=Quirks(
        vendor_names=True,
        tool_choice_none=False,
        cache_marks=_CLAUDE,
        budget_models=tuple(
            f"{one[:-1]}{name}*"
            for one in _CLAUDE
            for name in ("claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-1")
        ),
    ),
    context_lengths=dict.fromkeys(_CLAUDE, 200_000),
    notes="Claude models are called at bedrock-mantle in Anthropic's format, others at bedrock-runtime in OpenAI's "
    "chat format. A model that only the other serves: `model.base_url` (https://bedrock-mantle.REGION.api.aws/v1). "
    "Without a key of Bedrock requests are signed with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile's.",
)
