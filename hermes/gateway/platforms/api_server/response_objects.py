"""The objects and events of `/v1/responses`: https://platform.openai.com/docs/api-reference/responses."""

import secrets

import msgspec
from msgspec import Struct

from hermes.core.events import TurnEnded
from hermes.core.outcomes import ExitReason
from hermes.core.usage import Usage
from hermes.gateway.platforms.api_server.errors import ApiRequestError

JsonBody = dict[str, object]


class ResponseInfo(Struct, frozen=True, kw_only=True):
    """The fields of a response object that come from its request."""

    id: str
    created: int
    model: str
    instructions: str = ""
    previous: str = ""
    metadata: dict[str, str] = {}
    user: str = ""
    store: bool = True
    background: bool = False


def build_response(
    info: ResponseInfo,
    status: str,
    *,
    text: str = "",
    item_id: str = "",
    ended: TurnEnded | None = None,
    error: ApiRequestError | None = None,
) -> JsonBody:
    """Build a whole response object."""
    body: JsonBody = {
        "id": info.id,
        "object": "response",
        "created_at": info.created,
        "status": status,
        "background": info.background,
        "error": None if error is None else {"code": error.code or "server_error", "message": str(error)},
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": info.instructions or None,
        "max_output_tokens": None,
        "metadata": info.metadata,
        "model": info.model,
        "output": [build_message_item(item_id, text, _ITEM_STATES.get(status, "in_progress"))] if text else [],
        "parallel_tool_calls": True,
        "previous_response_id": info.previous or None,
        "reasoning": {"effort": None, "summary": None},
        "store": info.store,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if ended is None else format_usage(ended.usage),
        "user": info.user or None,
    }
    return body


_ITEM_STATES = {"completed": "completed", "incomplete": "incomplete", "failed": "incomplete", "cancelled": "incomplete"}


def response_status(ended: TurnEnded) -> str:
    """Return the status of a response that has an answer."""
    if ended.reason is ExitReason.INTERRUPTED:
        return "cancelled"
    return "completed" if ended.reason.is_completed else "incomplete"


def build_message_item(item_id: str, text: str, status: str) -> JsonBody:
    """Build the output item that holds the answer."""
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [build_text_part(text)] if text else [],
    }


def build_text_part(text: str) -> JsonBody:
    """Build the content part with the answer's text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def format_usage(usage: Usage) -> JsonBody:
    """Return the tokens of all model calls of the turn."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


class ResponseEventEncoder:
    """Encodes the numbered events of one streamed response."""

    def __init__(self, item_id: str) -> None:
        self._item_id = item_id
        self._number = -1

    def encode_response(self, kind: str, body: JsonBody) -> bytes:
        """Return an event that carries the response object."""
        return self._encode_event(kind, {"response": body})

    def encode_begin(self) -> bytes:
        """Return the events that begin the message."""
        item = build_message_item(self._item_id, "", "in_progress")
        added = self._encode_event("response.output_item.added", {"output_index": 0, "item": item})
        return added + self._encode_event(
            "response.content_part.added", {**self._position, "part": build_text_part("")}
        )

    def encode_delta(self, text: str) -> bytes:
        """Return an event with more text."""
        return self._encode_event("response.output_text.delta", {**self._position, "delta": text, "logprobs": []})

    def encode_end(self, text: str, status: str) -> bytes:
        """Return the events that end the message."""
        done = self._encode_event("response.output_text.done", {**self._position, "text": text, "logprobs": []})
        done += self._encode_event("response.content_part.done", {**self._position, "part": build_text_part(text)})
        item = build_message_item(self._item_id, text, status)
        return done + self._encode_event("response.output_item.done", {"output_index": 0, "item": item})

    def encode_other(self, kind: str, body: JsonBody) -> bytes:
        """Return an event of Hermes' own."""
        return self._encode_event(kind, body)

    @property
    def _position(self) -> JsonBody:
        return {"item_id": self._item_id, "output_index": 0, "content_index": 0}

    def _encode_event(self, kind: str, body: JsonBody) -> bytes:
        self._number += 1
        data = msgspec.json.encode({"type": kind, "sequence_number": self._number, **body})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def new_id(prefix: str) -> str:
    """Return a random id that cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(16)}"
