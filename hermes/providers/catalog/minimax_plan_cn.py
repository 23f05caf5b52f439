"""MiniMax's models by a subscription, in China."""

from hermes.providers.wire import ProviderRecord, Quirks

RECORD = ProviderRecord(
    name="minimax_plan_cn",
    title="MiniMax Token Plan (China)",
    base_url="https://api.minimax.cn/anthropic",
    wire="anthropic_messages",
    sign_in="minimax-cn",
    default_model="MiniMax-M3",
    quirks=Quirks(
        reasoning_replay=True,
        native_prefix="minimax/",
        default_max_tokens=32_000,
        unreasoning_models=("MiniMax-*",),
    ),
    notes="`hermes auth login minimax-cn` signs in; keys belong to the provider `minimax`. As in MiniMax's own program "
    "mmx, the format is Messages, with the token in the place of a key.",
)
