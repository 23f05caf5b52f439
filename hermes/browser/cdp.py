"""A connection to a browser over the Chrome DevTools Protocol: calls that are answered, and events in order.

The protocol: https://chromedevtools.github.io/devtools-protocol/. One connection serves all sessions of a browser (its
pages, frames and workers); a message without a session is for the browser itself.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from hermes.browser.transport import MessageTransport
from hermes.core.encoding import to_json
from hermes.core.errors import BrowserError, BrowserGoneError
from hermes.util.cancellation import cancel_tasks
from hermes.util.text import to_one_line

T = TypeVar("T")
EventHandler = Callable[[str, Raw], None]
"""Takes an event's name and its parameters, as they came. It is quick, and does not raise."""

EventWatch = Callable[[str, str, Raw], bool]
"""Takes a session, an event's name and its parameters, and returns whether it keeps the event."""

CALL_SECONDS = 30.0
MAX_WAITING_CALLS = 1_000
MAX_WAITING_BYTES = 64 << 20
"""The bytes that a browser has not taken before it counts as gone."""
_MESSAGES_AT_ONCE = 64
_MAX_ERROR = 300
_ID = re.compile(rb'\{"id":(\d{1,15}),')
_NO_PARAMS: Mapping[str, object] = {}
_NOTHING = Raw(b"{}")
_LOG = logging.getLogger(__name__)


class CdpError(BrowserError):
    """The browser has refused a call. `method` is what was called, `code` and `reason` are its own."""

    def __init__(self, method: str, code: int, reason: str) -> None:
        self.method = method
        self.code = code
        self.reason = to_one_line(reason, _MAX_ERROR)
        super().__init__(f"The browser could not do {method}: {self.reason}")


class CallTimeoutError(BrowserError):
    """The browser has not answered a call in time. `method` is what was called, `seconds` how long it had."""

    def __init__(self, method: str, seconds: float) -> None:
        self.method = method
        self.seconds = seconds
        super().__init__(f"The browser has not answered {method} within {seconds:g} seconds.")


class _Fault(Struct):
    code: int = 0
    message: str = ""


class _Message(Struct, rename="camel"):
    id: int | None = None
    method: str = ""
    params: Raw = _NOTHING
    result: Raw = _NOTHING
    error: _Fault | None = None
    session_id: str = ""


class CdpConnection:
    """The exchange with one browser. Whoever makes it calls `start`, and `close` in the end.

    `on_gone` is called once when the browser has ended or its transport has, not after `close`.
    """

    def __init__(self, transport: MessageTransport, *, on_gone: Callable[[], None] | None = None) -> None:
        self._transport = transport
        self._on_gone = on_gone
        self._waiting: dict[int, asyncio.Future[Raw]] = {}
        self._handlers: dict[str, EventHandler] = {}
        self._watch: EventWatch | None = None
        self._last_id = 0
        self._task: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    @property
    def is_gone(self) -> bool:
        """Whether the browser is gone, or the connection is closed."""
        return self._gone.is_set()

    def start(self) -> None:
        """Begin to receive; inside a running event loop."""
        self._task = asyncio.create_task(self._receive_all(), name="messages of a browser")

    async def wait_until_gone(self) -> None:
        """Wait until the browser is gone or the connection is closed."""
        await self._gone.wait()

    def set_handler(self, session_id: str, handler: EventHandler) -> None:
        """Have the events of a session (empty: of the browser itself) handed over, in the order in which they come.

        One handler a session; another one takes its place.
        """
        self._handlers[session_id] = handler

    def set_watch(self, watch: EventWatch) -> None:
        """Show each event to `watch` before its session's handler, which does not get what that keeps."""
        self._watch = watch

    def remove_handler(self, session_id: str) -> None:
        """Drop the events of a session from now on."""
        self._handlers.pop(session_id, None)

    async def call(
        self,
        method: str,
        params: Mapping[str, object] = _NO_PARAMS,
        session_id: str = "",
        timeout: float | None = CALL_SECONDS,  # noqa: ASYNC109 - each call of the protocol has its own
    ) -> Raw:
        """Call a method and return its result as it came.

        Raises CdpError with what the browser says, CallTimeoutError, BrowserGoneError. A call that is given up leaves
        nothing here, but the browser may still do it.
        """
        answer = self._send(method, params, session_id)
        number = self._last_id
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise CallTimeoutError(method, timeout or 0.0) from None
        except _FaultError as error:
            raise CdpError(method, error.fault.code, error.fault.message) from None
        finally:
            self._waiting.pop(number, None)

    async def call_for(
        self,
        result: type[T],
        method: str,
        params: Mapping[str, object] = _NO_PARAMS,
        session_id: str = "",
        timeout: float | None = CALL_SECONDS,  # noqa: ASYNC109 - each call of the protocol has its own
    ) -> T:
        """Call a method and return its result as a value of this type.

        Raises as `call`, and BrowserError when the result has another shape.
        """
        raw = await self.call(method, params, session_id, timeout)
        try:
            return msgspec.json.decode(raw, type=result)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BrowserError(f"The browser's answer to {method} cannot be read: {error}") from error

    def post(self, method: str, params: Mapping[str, object] = _NO_PARAMS, session_id: str = "") -> None:
        """Call a method whose answer nobody waits for; a browser that is gone is not told."""
        if not self.is_gone:
            self._write(method, params, session_id)

    async def close(self) -> None:
        """End the connection: calls that wait get BrowserGoneError, and the transport is closed."""
        self._on_gone = None
        if self._task is not None:
            await cancel_tasks([self._task])
        self._end()

    def _send(self, method: str, params: Mapping[str, object], session_id: str) -> "asyncio.Future[Raw]":
        if self.is_gone:
            raise BrowserGoneError("The browser is gone.")
        if len(self._waiting) >= MAX_WAITING_CALLS:
            raise BrowserError(f"{MAX_WAITING_CALLS} calls already wait for the browser.")
        if self._transport.waiting_bytes > MAX_WAITING_BYTES:
            raise BrowserError("The browser takes nothing any more.")
        self._write(method, params, session_id)
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = answer
        return answer

    def _write(self, method: str, params: Mapping[str, object], session_id: str) -> None:
        self._last_id += 1
        message: dict[str, object] = {"id": self._last_id, "method": method, "params": params}
        if session_id:
            message["sessionId"] = session_id
        self._transport.send_message(to_json(message))

    async def _receive_all(self) -> None:
        taken = 0
        try:
            while message := await self._transport.receive_message():
                self._take_message(message)
                taken += 1
                if taken % _MESSAGES_AT_ONCE == 0:
                    await asyncio.sleep(0)
        except OSError as error:
            _LOG.warning("the connection to a browser has ended: %s", error)
        finally:
            self._end()

    def _take_message(self, data: bytes) -> None:
        try:
            message = msgspec.json.decode(data, type=_Message)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._refuse_unreadable(data, error)
            return
        if message.id is None:
            self._take_event(message)
            return
        answer = self._waiting.get(message.id)
        if answer is None or answer.done():
            return
        if message.error is not None:
            _fail(answer, _FaultError(message.error))
        else:
            answer.set_result(message.result)

    def _take_event(self, message: _Message) -> None:
        handler = self._handlers.get(message.session_id)
        try:
            kept = self._watch is not None and self._watch(message.session_id, message.method, message.params)
            if handler is not None and not kept:
                handler(message.method, message.params)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _LOG.warning("the event %s of a browser cannot be read: %s", message.method[:80], error)

    def _refuse_unreadable(self, data: bytes, error: Exception) -> None:
        """Fail the call whose answer is no JSON or too long; an event of that kind is dropped."""
        _LOG.warning("a message of %d bytes from a browser cannot be read: %s", len(data), error)
        found = _ID.match(data)
        answer = self._waiting.get(int(found[1])) if found is not None else None
        if answer is not None and not answer.done():
            _fail(answer, _FaultError(_Fault(message="its answer is too long, or no JSON")))

    def _end(self) -> None:
        if self.is_gone:
            return
        self._gone.set()
        self._transport.close()
        self._handlers.clear()
        self._watch = None
        for answer in self._waiting.values():
            if not answer.done():
                _fail(answer, BrowserGoneError("The browser is gone."))
        if self._on_gone is not None:
            self._on_gone()


class _FaultError(Exception):
    """Carries what the browser says to the call that waits, which knows its method."""

    def __init__(self, fault: _Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _fail(answer: "asyncio.Future[Raw]", error: Exception) -> None:
    """Fail a call; nothing is logged where whoever waits is cancelled at the same moment."""
    answer.set_exception(error)
    answer.exception()
