"""Record the requests to a scripted model, and let tests wait for them."""

import asyncio
import time
import zlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from hermes.testing.conversation import Step, StepRole, as_object, read_conversation

JsonObject = dict[str, Any]
"""A decoded request; tests may index into it freely."""

WIRES_BY_PATH = {
    "/chat/completions": "chat_completions",
    "/responses": "responses",
    "/messages": "anthropic_messages",
}
"""Wire by the end of a request's path."""

_RESULT_MARKS = {
    "chat_completions": b'"tool_call_id"',
    "responses": b'"function_call_output"',
    "anthropic_messages": b'"tool_use_id"',
}
"""Text that occurs once in each tool result.

Quotes inside strings are escaped, so content cannot imitate it.
"""


class RequestHead(msgspec.Struct):
    """The fields a server must know before it answers; decoding them skips the rest of the body."""

    model: str = ""
    stream: bool | None = False
    stream_options: dict[str, object] | None = None


class RecordedRequest:
    """One request as it came in. Times are `time.monotonic()` seconds."""

    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: bytes, connection_id: int) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        """Names in lower case."""
        self.body = body
        self.size = len(body)
        self.connection_id = connection_id
        self.number = -1
        """Position among the model requests of its server, from 0; -1 for any other request."""
        self.arrived_at = time.monotonic()
        self.answered_at: float | None = None
        """When the last byte of the reply was handed to the kernel."""
        self.closed_early_at: float | None = None
        """When the client closed the connection although the reply was not complete."""
        self.held = False
        """Whether the reply waits for `release()` now."""
        self.wire = next((wire for end, wire in WIRES_BY_PATH.items() if path.partition("?")[0].endswith(end)), "")

    def __repr__(self) -> str:
        return f"<request {self.number} {self.method} {self.path} {self.size} bytes>"

    @cached_property
    def head(self) -> RequestHead:
        """Model, stream flag and stream options. Raises `msgspec.DecodeError` when the body is not such JSON."""
        return msgspec.json.decode(self.body, type=RequestHead)

    @cached_property
    def json(self) -> JsonObject:
        """The whole body, decoded when first asked for."""
        decoded: JsonObject = msgspec.json.decode(self.body, type=dict)
        return decoded

    @property
    def model(self) -> str:
        """The requested model."""
        return self.head.model

    @cached_property
    def fingerprint(self) -> str:
        """Eight hex digits that follow from the body alone; call ids are made of them."""
        return f"{zlib.crc32(self.body):08x}"

    @cached_property
    def result_count(self) -> int:
        """How many tool results the body carries, counted without decoding it."""
        return self.body.count(_RESULT_MARKS.get(self.wire, b"\0"))

    @cached_property
    def conversation(self) -> list[Step]:
        """The conversation in one form for every wire; system text first."""
        return read_conversation(self.wire, self.json)

    @property
    def system(self) -> str:
        """The system prompt's text."""
        return "\n".join(step.text for step in self.conversation if step.role is StepRole.SYSTEM)

    @property
    def tools(self) -> list[JsonObject]:
        """The tools array as it was sent."""
        tools: list[JsonObject] = self.json.get("tools") or []
        return tools

    @cached_property
    def tool_names(self) -> list[str]:
        """The names of the offered tools, in order."""
        inner = [as_object(tool.get("function") or tool) for tool in self.tools]
        return [str(tool.get("name") or tool.get("type")) for tool in inner]

    @property
    def messages(self) -> list[JsonObject]:
        """The messages (`input` items on the responses wire) as they were sent."""
        sent: str | list[JsonObject] = self.json.get("messages") or self.json.get("input") or []
        return [{"role": "user", "content": sent}] if isinstance(sent, str) else sent

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message."""
        return next((s.text for s in reversed(self.conversation) if s.role is StepRole.USER), "")

    @property
    def results(self) -> dict[str, str]:
        """The text of each tool result, by call id."""
        return {step.call_id: step.text for step in self.conversation if step.role is StepRole.TOOL}


class RequestRecorder:
    """The requests so far, and conditions on them. Everything happens in one event loop."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []
        """Requests to the model, in order of arrival."""
        self.others: list[RecordedRequest] = []
        """All other requests (model lists, health, unknown paths)."""
        self._changed = asyncio.Event()
        self._releases = 0

    def record_request(self, request: RecordedRequest) -> None:
        """Add a request and wake every waiter."""
        if request.wire and request.method == "POST":
            request.number = len(self.requests)
            self.requests.append(request)
        else:
            self.others.append(request)
        self.notify_waiters()

    def notify_waiters(self) -> None:
        """Wake every waiter to check again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, condition: Callable[[], bool], *, timeout: float = 60.0, what: str = "") -> None:  # noqa: ASYNC109 - a test's limit, not an operation's
        """Return once `condition()` holds; it is checked whenever something happens here. Raises `TimeoutError`."""
        try:
            async with asyncio.timeout(timeout):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"{what or 'condition'} not met in {timeout} s; requests: {self.requests}") from None

    async def wait_for(self, count: int, *, timeout: float = 60.0) -> RecordedRequest:  # noqa: ASYNC109
        """Return the `count`-th request (from 1) once it has arrived."""
        await self.wait_until(lambda: len(self.requests) >= count, timeout=timeout, what=f"{count} requests")
        return self.requests[count - 1]

    async def wait_closed(self, request: RecordedRequest, *, timeout: float = 60.0) -> float:  # noqa: ASYNC109
        """Wait until the client has closed `request` early, and return the moment."""
        await self.wait_until(lambda: request.closed_early_at is not None, timeout=timeout, what=f"close of {request}")
        return request.closed_early_at or 0.0

    async def wait_held(self, request: RecordedRequest, *, timeout: float = 60.0) -> None:  # noqa: ASYNC109
        """Return when the reply to `request` has reached its `hold_at`."""
        await self.wait_until(lambda: request.held, timeout=timeout, what=f"hold of {request}")

    def release(self) -> None:
        """Let every held reply go on."""
        self._releases += 1
        self.notify_waiters()

    async def hold_reply(self, request: RecordedRequest) -> None:
        """Hold the reply to `request` until the next `release()`."""
        seen = self._releases
        request.held = True
        self.notify_waiters()
        while self._releases == seen:
            await self._changed.wait()
        request.held = False
