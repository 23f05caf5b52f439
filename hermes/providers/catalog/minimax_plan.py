"""MiniMax's models by a subscription."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="minimax_plan",
    title="MiniMax Token Plan",
    base_url="https://api.minimax.io/anthropic",
    wire="anthropic_messages",
    sign_in="minimax",
    default_model="MiniMax-M3",
    quirks=Quirks(
        reasoning_replay=True,
        native_prefix="minimax/",
        default_max_tokens=32_000,
        unreasoning_models=("MiniMax-*",),
    ),
    notes="`hermes auth login minimax` signs in; keys belong to the provider `minimax`. As in MiniMax's own program "
    "mmx, the format is Messages, with the token in the place of a key.",
)
