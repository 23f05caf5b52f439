"""JSON-RPC 2.0 as the Model Context Protocol uses it: our requests with their answers, and what a server sends unasked.

A server is not trusted to behave well: messages have a limit, unreadable ones are ignored, a flood ends the connection.
A server's requests are answered (`ping`) or refused: this client offers it nothing.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.tools.schema import join_surrogates
from hermes.util.cancellation import wait_for_task

_MAX_UNREQUESTED, _WINDOW_SECONDS = 10_000, 10.0
"""The most messages that nobody requested, within the seconds of the window."""
_MAX_TASKS = 256
_NOTIFY_SECONDS = 2.0
"""Seconds that a notification to a server may take when nobody waits for it."""
_ID_PATTERN = re.compile(rb'"id"\s*:\s*([0-9]{1,9})\b')
_NOT_SUPPORTED = -32601
_NOTHING = Raw()


class McpRpcError(Exception):
    """The server's own error message for a request that it could not carry out."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error {code}: {message}")


class _RpcFault(Struct):
    code: int = 0
    message: str = ""


class _Message(Struct):
    id: int | str | None = None
    method: str | None = None
    result: Raw = _NOTHING
    error: _RpcFault | None = None


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
        """Set the agreed version of the protocol."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message. Raises `ToolError`."""
        ...

    async def close(self) -> None:
        """End it, with everything that was started for it."""
        ...


class McpConnection:
    """The exchange with one server over a transport. Methods raise `ToolError` when the transport is lost.

    `on_notification` is called with the method of each notification.
    """

    def __init__(self, transport: McpTransport, on_notification: Callable[[str], None]) -> None:
        self.lost_reason = ""
        """Why the transport is lost; empty while it works."""
        self._transport = transport
        self._on_notification = on_notification
        self._pending: dict[int, asyncio.Future[Raw]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._close_task: asyncio.Task[None] | None = None
        self._last_id = 0
        self._unrequested = 0
        self._window_start = 0.0

    async def open(self) -> None:
        """Make the transport ready."""
        await self._transport.open(self.receive_message, self.mark_lost)

    async def request(self, method: str, params: object, seconds: float) -> Raw:
        """Return the result of a request.

        Raises `McpRpcError` with what the server says, `ToolError` when it says nothing. A request that is
        given up, by its time or by cancellation, is cancelled at the server.
        """
        if self.lost_reason:
            raise ToolError(self.lost_reason)
        self._last_id += 1
        number = self._last_id
        message = _encode_message({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        sending = self._start_task(self._transport.send(message))
        try:
            async with asyncio.timeout(seconds):
                either: list[asyncio.Future[Raw] | asyncio.Task[None]] = [sending, answer]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    sending.result()
                    if self._transport.answers_in_place:
                        raise ToolError("it ended its answer without a result")
                return await answer
        except TimeoutError:
            self._cancel_request(number, method)
            raise ToolError(f"it did not answer within {seconds:g} s") from None
        except asyncio.CancelledError:
            self._cancel_request(number, method)
            raise
        finally:
            del self._pending[number]
            if not answer.done() or answer.cancelled():
                sending.cancel()
            elif answer.exception() is None:
                asyncio.get_running_loop().call_later(_NOTIFY_SECONDS, sending.cancel)

    async def confirm_version(self, version: str) -> None:
        """Tell the transport the version, and the server that its work can begin."""
        await self._transport.set_version(version)
        await self._transport.send(_encode_message({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def receive_message(self, data: bytes) -> None:
        """Take a message."""
        message = _decode_message(data)
        if message is None:
            self._count_unrequested()
            self._fail_unreadable(data)
        elif message.method is not None:
            self._count_unrequested()
            if message.id is None:
                self._on_notification(message.method)
            else:
                self._answer_request(message.id, message.method)
        elif isinstance(message.id, int) and (answer := self._pending.get(message.id)) and not answer.done():
            if message.error is not None:
                answer.set_exception(McpRpcError(message.error.code, message.error.message))
            else:
                answer.set_result(message.result)

    def mark_lost(self, reason: str) -> None:
        """Mark the transport as lost: whoever waits is told, and what is left of it is ended."""
        if self._close_task is None:
            self.lost_reason = reason
            self._close_task = asyncio.create_task(self._transport.close())
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ToolError(self.lost_reason))

    async def close(self) -> None:
        """End the connection."""
        self.mark_lost("it was ended")
        for task in self._tasks:
            task.cancel()
        assert self._close_task is not None
        await wait_for_task(self._close_task)

    def _cancel_request(self, number: int, method: str) -> None:
        if method != "initialize" and not self.lost_reason:
            note = {"requestId": number, "reason": "no longer needed"}
            self._send_unawaited({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": note})

    def _answer_request(self, identity: int | str, method: str) -> None:
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": identity}
        if method == "ping":
            self._send_unawaited({**reply, "result": {}})
        else:
            self._send_unawaited(
                {**reply, "error": {"code": _NOT_SUPPORTED, "message": "not supported by this client"}}
            )

    def _send_unawaited(self, message: object) -> None:
        """Send something that nobody waits for."""
        if len(self._tasks) < _MAX_TASKS:
            self._start_task(self._send_in_time(_encode_message(message)))

    async def _send_in_time(self, message: bytes) -> None:
        async with asyncio.timeout(_NOTIFY_SECONDS):
            await self._transport.send(message)

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
        answer = self._pending.get(int(match[1])) if match else None
        if answer is not None and not answer.done():
            answer.set_exception(ToolError("its answer is not valid JSON, or nested too deeply"))


def _encode_message(message: object) -> bytes:
    return to_json(message)


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
