"""The objects and events of `/v1/responses`: https://platform.openai.com/docs/api-reference/responses."""

import secrets

import msgspec
from msgspec import Struct

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.errors import ApiError

Body = dict[str, object]


class About(Struct, frozen=True, kw_only=True):
    """What a response object says of its request."""

    id: str
    created: int
    model: str
    instructions: str = ""
    previous: str = ""
    metadata: dict[str, str] = {}
    user: str = ""
    store: bool = True
    background: bool = False


def response_object(
    about: About,
    status: str,
    *,
    text: str = "",
    item: str = "",
    ended: TurnEnded | None = None,
    error: ApiError | None = None,
) -> Body:
    """A whole response object."""
    body: Body = {
        "id": about.id,
        "object": "response",
        "created_at": about.created,
        "status": status,
        "background": about.background,
        "error": None if error is None else {"code": error.code or "server_error", "message": str(error)},
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": about.instructions or None,
        "max_output_tokens": None,
        "metadata": about.metadata,
        "model": about.model,
        "output": [message_item(item, text, _ITEM_STATES.get(status, "in_progress"))] if text else [],
        "parallel_tool_calls": True,
        "previous_response_id": about.previous or None,
        "reasoning": {"effort": None, "summary": None},
        "store": about.store,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if ended is None else usage_of(ended.usage),
        "user": about.user or None,
    }
    return body


_ITEM_STATES = {"completed": "completed", "incomplete": "incomplete", "failed": "incomplete", "cancelled": "incomplete"}


def state_of(ended: TurnEnded) -> str:
    """How a response ended that has an answer."""
    if ended.reason is ExitReason.INTERRUPTED:
        return "cancelled"
    return "completed" if ended.reason.completed else "incomplete"


def message_item(item: str, text: str, status: str) -> Body:
    """The message that the answer is."""
    return {
        "id": item,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [part(text)] if text else [],
    }


def part(text: str) -> Body:
    """Its text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def usage_of(usage: Usage) -> Body:
    """Tokens, of all the model calls of the turn together."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


class Events:
    """The events of one streamed response, numbered."""

    def __init__(self, item: str) -> None:
        self._item = item
        self._number = -1

    def whole(self, kind: str, body: Body) -> bytes:
        """An event that carries the response object."""
        return self._event(kind, {"response": body})

    def begin(self) -> bytes:
        """The message begins."""
        item = message_item(self._item, "", "in_progress")
        added = self._event("response.output_item.added", {"output_index": 0, "item": item})
        return added + self._event("response.content_part.added", {**self._place, "part": part("")})

    def delta(self, text: str) -> bytes:
        """More text."""
        return self._event("response.output_text.delta", {**self._place, "delta": text, "logprobs": []})

    def end(self, text: str, status: str) -> bytes:
        """The message ends."""
        done = self._event("response.output_text.done", {**self._place, "text": text, "logprobs": []})
        done += self._event("response.content_part.done", {**self._place, "part": part(text)})
        item = message_item(self._item, text, status)
        return done + self._event("response.output_item.done", {"output_index": 0, "item": item})

    def other(self, kind: str, body: Body) -> bytes:
        """Something else that happens, of a kind of Hermes' own."""
        return self._event(kind, body)

    @property
    def _place(self) -> Body:
        return {"item_id": self._item, "output_index": 0, "content_index": 0}

    def _event(self, kind: str, body: Body) -> bytes:
        self._number += 1
        data = msgspec.json.encode({"type": kind, "sequence_number": self._number, **body})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def fresh(prefix: str) -> str:
    """An id that nobody guesses."""
    return f"{prefix}_{secrets.token_hex(16)}"
