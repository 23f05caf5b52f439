"""MiniMax's models by a subscription, in China: another account at another address."""

from msgspec import structs

from hermes.providers.catalog import minimax_plan

RECORD = structs.replace(
    minimax_plan.RECORD,
    name="minimax_plan_cn",
    title="MiniMax Token Plan (China)",
    base_url="https://api.minimax.cn/anthropic",
    sign_in="minimax-cn",
    notes="`hermes auth login minimax-cn` signs in; in all else as `minimax_plan`.",
)
