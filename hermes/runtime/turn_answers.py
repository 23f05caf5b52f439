"""The answers of turns as they are stored: for whoever was not there while they were given."""

from collections.abc import Sequence
from itertools import pairwise

from hermes.agent.resume import collect_answer
from hermes.core.messages import Message, Role
from hermes.store.store import Store


async def load_answer(store: Store, turn_id: str) -> str:
    """Return the text that a turn has ended with; empty when it has ended without one. Raises StoreError."""
    messages = await store.messages.list_spoken(turn_id)
    answer = "".join(collect_answer(messages))
    # A turn may also end with what was said beside its last call.
    return answer or next((one.text for one in reversed(messages) if one.role is Role.ASSISTANT), "")


async def load_told_text(store: Store, turn_id: str, separator: str) -> str:
    """Return all that the model has said in a turn so far, with a separator where it has called tools in between: so
    somebody has heard it who listened from the beginning. Raises StoreError.
    """
    return _join_told([one for one in await store.messages.list_spoken(turn_id) if not one.synthetic], separator)


def _join_told(messages: Sequence[Message], separator: str) -> str:
    spoken = [one for one in messages if one.role is Role.ASSISTANT]
    told = spoken[0].text if spoken else ""
    for before, message in pairwise(spoken):
        apart = separator if told and message.text and any(before.tool_calls()) else ""
        told += apart + message.text
    return told + (separator if told and any(spoken[-1].tool_calls()) else "")
