"""JSON-RPC 2.0 as the Model Context Protocol uses it: our requests with their answers, and what a server sends unasked.

A server is not trusted to behave well: messages have a limit, unreadable ones are ignored, a flood ends the connection.
A server's requests are answered by the handler that the connection has for them, or refused.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.mcp.revisions import META_PREFIX
from hermes.tools.schema import join_surrogates
from hermes.util.cancellation import wait_for_task

METHOD_NOT_FOUND = -32601
_MAX_UNREQUESTED, _WINDOW_SECONDS = 10_000, 10.0
"""The most messages that nobody requested, within the seconds of the window."""
_MAX_TASKS = 256
_NOTIFY_SECONDS = 2.0
"""Seconds that a notification to a server may take when nobody waits for it."""
_MAX_EXTENSIONS = 20
"""How many times its own length a request may last because the server reports progress."""
_MAX_DATA_BYTES = 64 * 1024
"""The most bytes of the data of an error that are kept."""
_ID_PATTERN = re.compile(rb'"id"\s*:\s*([0-9]{1,9})\b')
_NOTHING = Raw()
_CLOSED = "it was ended"
_UNCANCELLABLE = frozenset({"initialize", "server/discover"})
"""Requests that the protocol forbids to take back."""


class McpRpcError(Exception):
    """The server's own error message for a request that it could not carry out, with its data as JSON."""

    def __init__(self, code: int, message: str, data: bytes = b"") -> None:
        super().__init__(f"error {code}: {message}")
        self.code = code
        self.data = data if len(data) <= _MAX_DATA_BYTES else b""


class NoAnswerError(ToolError):
    """A server took a request and has ended its answer without one, or refused it as a whole."""


class UnknownAddressError(NoAnswerError):
    """A server takes nothing at the address to which a message was posted."""


class OutgoingMessage(Struct, frozen=True, kw_only=True):
    """A message to a server. With `version` it is of the stateless protocol, where each message names its version."""

    body: bytes
    method: str = ""
    name: str = ""
    """The tool, prompt or resource that it is about."""
    version: str = ""
    headers: Mapping[str, str] = {}
    """Parameters that the server wants as header fields, too."""
    is_answered: Callable[[], bool] = lambda: True
    """Returns whether its answer has arrived; always, for a message that gets none."""


class McpNotification(Struct, frozen=True):
    """A notification of a server."""

    method: str
    params: Raw


RequestHandler = Callable[[str, Raw], Awaitable[object]]
"""Returns the result of a server's request. Raises `McpRpcError` to refuse it."""


class _RpcFault(Struct):
    code: int = 0
    message: str = ""
    data: Raw = _NOTHING


class _Message(Struct):
    id: int | str | None = None
    method: str | None = None
    params: Raw = _NOTHING
    result: Raw = _NOTHING
    error: _RpcFault | None = None


class _ProgressParams(Struct):
    token: int | str = msgspec.field(default="", name="progressToken")


class McpTransport(Protocol):
    """A transport to a server."""

    answers_in_place: bool
    """Whether `send` ends when the answer to what was sent has arrived, or never will."""

    async def open(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Make the transport ready. `on_message` gets each message, `on_lost` is called once with why there will be no
        more.

        Raises `ToolError`.
        """
        ...

    async def set_version(self, version: str) -> None:
        """Set the agreed version of a protocol with sessions."""
        ...

    async def send(self, message: OutgoingMessage) -> None:
        """Send a message. Raises `ToolError`."""
        ...

    async def close(self) -> None:
        """End it, with everything that was started for it."""
        ...


class _PendingRequest:
    """A request that waits for its answer."""

    def __init__(self, seconds: float) -> None:
        self.answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self.deadline: asyncio.Timeout | None = None
        self._seconds = seconds
        self._last_end = asyncio.get_running_loop().time() + seconds * _MAX_EXTENSIONS
        self._pauses = 0
        """The questions that are open; while there are some the time stands."""
        self._paused_at = 0.0

    def extend(self) -> None:
        """Let the time begin again, as the server is at work, up to `_MAX_EXTENSIONS` times its length."""
        if self._seconds and not self._pauses and self.deadline is not None and not self.deadline.expired():
            now = asyncio.get_running_loop().time()
            self.deadline.reschedule(min(now + self._seconds, max(self._last_end, now)))

    def pause(self) -> None:
        """Stop the time: the person is asked something."""
        self._pauses += 1
        if self._pauses == 1:
            self._paused_at = asyncio.get_running_loop().time()
            if self.deadline is not None and not self.deadline.expired():
                self.deadline.reschedule(None)

    def resume(self) -> None:
        """Let the time begin again when the last question has its answer. The last end moves by the time that the
        questions took and no further: a server that asks again and again does not last for ever.
        """
        self._pauses -= 1
        if not self._pauses:
            self._last_end += asyncio.get_running_loop().time() - self._paused_at
            self.extend()


class McpConnection:
    """The exchange with one server over a transport. Methods raise `ToolError` when the transport is lost.

    `on_notification` is called with each notification, `answer_request` with each request of the server.
    """

    def __init__(
        self,
        transport: McpTransport,
        on_notification: Callable[[McpNotification], None],
        answer_request: RequestHandler,
        client: Mapping[str, object],
    ) -> None:
        self.lost_reason = ""
        """Why the transport is lost; empty while it works."""
        self.version = ""
        """The version of the stateless protocol; empty where the server has sessions."""
        self._transport = transport
        self._on_notification = on_notification
        self._answer_request = answer_request
        self._client = client
        self._pending: dict[int, _PendingRequest] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._close_task: asyncio.Task[None] | None = None
        self._last_id = 0
        self._unrequested = 0
        self._window_start = 0.0

    @property
    def was_lost_after_request(self) -> bool:
        """Whether the transport was lost once it was ready, so that what was sent may be the reason."""
        return bool(self._last_id and self.lost_reason and self.lost_reason != _CLOSED)

    async def open(self) -> None:
        """Make the transport ready."""
        await self._transport.open(self.receive_message, self.mark_lost)

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        seconds: float | None,
        *,
        name: str = "",
        headers: Mapping[str, str] | None = None,
        version: str = "",
    ) -> Raw:
        """Return the result of a request; without `seconds` it may last as long as the connection does.

        `version` makes it a request of the stateless protocol before that is agreed. Raises `McpRpcError` with what the
        server says, `ToolError` when it says nothing. A request that is given up, by its time or by cancellation, is
        cancelled at the server. Progress that the server reports lets its time begin again.
        """
        if self.lost_reason:
            raise ToolError(self.lost_reason)
        self._last_id += 1
        number = self._last_id
        version = version or self.version
        pending = self._pending[number] = _PendingRequest(seconds or 0.0)
        answer = pending.answer
        sent_params = self._add_meta(params, number, version)
        message = OutgoingMessage(
            body=to_json({"jsonrpc": "2.0", "id": number, "method": method, "params": sent_params}),
            method=method,
            name=name,
            version=version,
            headers=headers or {},
            is_answered=answer.done,
        )
        sending = self._start_task(self._transport.send(message))
        try:
            async with asyncio.timeout(seconds) as pending.deadline:
                either: list[asyncio.Future[Raw] | asyncio.Task[None]] = [sending, answer]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    sending.result()
                    if self._transport.answers_in_place:
                        raise NoAnswerError("it ended its answer without a result")
                return await answer
        except TimeoutError:
            self._cancel_request(number, method, version)
            raise ToolError(f"it did not answer within {seconds:g} s") from None
        except asyncio.CancelledError:
            self._cancel_request(number, method, version)
            raise
        finally:
            del self._pending[number]
            pending.deadline = None
            if not answer.done() or answer.cancelled():
                sending.cancel()
            elif answer.exception() is None:
                asyncio.get_running_loop().call_later(_NOTIFY_SECONDS, sending.cancel)

    def request_unawaited(self, method: str, params: Mapping[str, object]) -> None:
        """Send a request whose answer does not matter."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        if not self.lost_reason:
            self._send_unawaited(message)

    async def confirm_version(self, version: str) -> None:
        """Tell the transport the version, and the server that its work can begin."""
        await self._transport.set_version(version)
        await self._transport.send(
            OutgoingMessage(body=to_json({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        )

    def receive_message(self, data: bytes) -> None:
        """Take a message."""
        message = _decode_message(data)
        if message is None:
            self._count_unrequested()
            self._fail_unreadable(data)
        elif message.method is not None:
            self._count_unrequested()
            if message.id is not None:
                self._take_request(message.id, message.method, message.params)
            elif message.method == "notifications/progress":
                self._take_progress(message.params)
            else:
                self._on_notification(McpNotification(message.method, message.params))
        else:
            self._take_answer(message)

    def mark_lost(self, reason: str) -> None:
        """Mark the transport as lost: whoever waits is told, and what is left of it is ended."""
        if self._close_task is None:
            self.lost_reason = reason
            self._close_task = asyncio.create_task(self._transport.close())
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(ToolError(self.lost_reason))

    async def close(self) -> None:
        """End the connection."""
        self.mark_lost(_CLOSED)
        for task in self._tasks:
            task.cancel()
        assert self._close_task is not None
        await wait_for_task(self._close_task)

    def _add_meta(self, params: Mapping[str, object], number: int, version: str) -> Mapping[str, object]:
        """Return the parameters with what the protocol says about the request itself."""
        meta: dict[str, object] = {"progressToken": number} if _reports_progress(params) else {}
        if version:
            meta[f"{META_PREFIX}protocolVersion"] = version
            meta[f"{META_PREFIX}clientInfo"] = self._client["clientInfo"]
            meta[f"{META_PREFIX}clientCapabilities"] = self._client["capabilities"]
        return {**params, "_meta": meta} if meta else params

    def _take_answer(self, message: _Message) -> None:
        pending = self._pending.get(message.id) if isinstance(message.id, int) else None
        if pending is None and message.error is not None and message.id is None and self._transport.answers_in_place:
            # A server that refuses a message before it has read its id; only one can be meant where one is open.
            pending = next(iter(self._pending.values())) if len(self._pending) == 1 else None
        if pending is None or pending.answer.done():
            self._count_unrequested()
            return
        if message.error is not None:
            fault = message.error
            pending.answer.set_exception(McpRpcError(fault.code, fault.message, bytes(fault.data)))
        else:
            pending.answer.set_result(message.result)

    def _take_progress(self, params: Raw) -> None:
        try:
            token = msgspec.json.decode(params, type=_ProgressParams).token
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        if isinstance(token, int) and (pending := self._pending.get(token)) is not None:
            pending.extend()

    def _cancel_request(self, number: int, method: str, version: str) -> None:
        """Take a request back. Over stateless HTTP the end of its exchange says so, and nothing else may."""
        if method in _UNCANCELLABLE or self.lost_reason or (version and self._transport.answers_in_place):
            return
        note = {"requestId": number, "reason": "no longer needed"}
        self._send_unawaited({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": note})

    def _take_request(self, identity: int | str, method: str, params: Raw) -> None:
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": identity}
        if method == "ping":
            self._send_unawaited({**reply, "result": {}})
        elif len(self._tasks) < _MAX_TASKS:
            self._start_task(self._answer_and_send(reply, method, params))

    async def _answer_and_send(self, reply: Mapping[str, object], method: str, params: Raw) -> None:
        """Answer a request of the server. The time of ours does not run while it is answered."""
        waiting = list(self._pending.values())
        for one in waiting:
            one.pause()
        try:
            answered: Mapping[str, object] = {**reply, "result": await self._answer_request(method, params)}
        except McpRpcError as error:
            said = str(error).partition(": ")[2]
            answered = {**reply, "error": {"code": error.code, "message": said}}
        finally:
            for one in waiting:
                one.resume()
        await self._send_in_time(to_json(answered))

    def _send_unawaited(self, message: object) -> None:
        """Send something that nobody waits for."""
        if len(self._tasks) < _MAX_TASKS:
            self._start_task(self._send_in_time(to_json(message)))

    async def _send_in_time(self, message: bytes) -> None:
        async with asyncio.timeout(_NOTIFY_SECONDS):
            await self._transport.send(OutgoingMessage(body=message))

    def _start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; of the rest nobody needs to know

    def _count_unrequested(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._window_start > _WINDOW_SECONDS:
            self._window_start, self._unrequested = now, 0
        self._unrequested += 1
        if self._unrequested > _MAX_UNREQUESTED:
            self.mark_lost(f"it sent more than {_MAX_UNREQUESTED:,} messages that nobody asked for")

    def _fail_unreadable(self, data: bytes) -> None:
        """Fail the request that an unreadable answer belongs to."""
        match = _ID_PATTERN.search(data) if data[:1] == b"{" else None
        pending = self._pending.get(int(match[1])) if match else None
        if pending is not None and not pending.answer.done():
            pending.answer.set_exception(ToolError("its answer is not valid JSON, or nested too deeply"))


def _reports_progress(params: Mapping[str, object]) -> bool:
    """Return whether a request is one that may take long: a call, a prompt or a resource."""
    return "name" in params or "uri" in params


def _decode_message(data: bytes) -> _Message | None:
    """Decode a message; None when it is none. Lone surrogates, which msgspec refuses, are replaced."""
    try:
        return msgspec.json.decode(data, type=_Message)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        joined = join_surrogates(data.decode("utf-8", "replace")) if data[:1] == b"{" else None
    try:
        return msgspec.json.decode(joined, type=_Message) if joined is not None else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
