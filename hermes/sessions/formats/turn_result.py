"""Build the result of a turn as a plain dict with the documented keys."""

from hermes.core.events import TurnEnded
from hermes.core.messages import Role
from hermes.core.money import NANO
from hermes.core.outcomes import ExitReason
from hermes.providers.wire import Endpoint
from hermes.runtime.actor import SessionActor
from hermes.sessions.formats.openai_format import Plain, to_openai
from hermes.util.text import shown_address


def build_turn_result(actor: SessionActor, ended: TurnEnded, endpoint: Endpoint) -> Plain:
    """Return the turn's result as a plain dict; `messages` is the session's whole visible transcript."""
    usage = ended.usage
    transcript = actor.conversation.messages
    reasoning = next((message.reasoning for message in reversed(transcript) if message.role is Role.ASSISTANT), "")
    return {
        "final_response": ended.text,
        "last_reasoning": reasoning or None,
        "messages": [plain for message in transcript for plain in to_openai(message)],
        "api_calls": ended.calls,
        "completed": ended.reason.completed,
        "turn_exit_reason": ended.reason.value,
        "failed": not ended.reason.completed and ended.reason is not ExitReason.INTERRUPTED,
        "partial": ended.reason in (ExitReason.PARTIAL_STREAM, ExitReason.TRUNCATED),
        "interrupted": ended.reason is ExitReason.INTERRUPTED,
        "error": ended.error or None,
        "refused": ended.refused,
        "model": endpoint.model,
        "provider": endpoint.record.name,
        "base_url": shown_address(endpoint.base_url),
        "input_tokens": usage.input - usage.cache_read - usage.cache_write,
        "output_tokens": usage.output,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "reasoning_tokens": usage.reasoning,
        "cache_hit_rate": usage.hit_rate,
        "cache_saved_usd": ended.cost.saved / NANO,
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "last_prompt_tokens": ended.last_prompt_tokens,
        "estimated_cost_usd": ended.cost.usd,
        "cost_status": ended.cost.certainty.value,
        "cost_source": ended.cost.source or None,
        "session_id": actor.session_id,
    }
