"""JSON-RPC 2.0 in both directions over lines of JSON: a program asks, and is asked.

The program is not trusted to behave well: messages have a limit, what cannot be read is answered as the protocol says,
and one that takes nothing any more ends the connection.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from hermes.core.encoding import to_json
from hermes.core.errors import HermesError
from hermes.core.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RequestId, RpcError
from hermes.i18n.messages import N_, join_sentences, localize
from hermes.util.text import escape_surrogates

MAX_MESSAGE_BYTES = 64 << 20
"""The most bytes of one message: pictures come in them."""
MAX_WAITING_BYTES = 256 << 20
"""The most bytes that a program has not taken before it counts as gone."""
MAX_OPEN_REQUESTS = 256
CANCELLED = -32800
_MOST_AHEAD, _TAKE_SECONDS = 4 << 20, 60.0
"""The bytes that may wait for a program before what is long goes on, and the seconds in which it must take the rest."""
_MAX_WARNINGS = 20
"""The most notifications that are logged as not taken: who reads the log, or does not, must not be drowned."""
_NOTHING = Raw()
_CHUNK = 1 << 16
_LOG = logging.getLogger(__name__)


class GoneError(RpcError):
    """The other side is gone; nothing it was asked will be answered."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_ERROR, "The other side is gone.")


class RpcHandler(Protocol):
    """What answers the other side."""

    async def answer_request(self, method: str, params: Raw) -> object:
        """Return the result of a request. Raises RpcError, HermesError and msgspec.MsgspecError."""
        ...

    def take_notification(self, method: str, params: Raw) -> None:
        """Take a notification. Raises RpcError and msgspec.MsgspecError for one that means nothing, which is logged."""
        ...


class MessageSink(Protocol):
    """Where messages go; a pipe."""

    is_closed: bool
    """Whether nobody reads it any more."""

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were not taken yet."""
        ...

    def write(self, data: bytes) -> None:
        """Write without waiting."""
        ...

    async def wait_until_taken(self, most: int) -> None:
        """Wait until at most `most` bytes were not taken yet, or it is closed."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class _Fault(Struct):
    code: int = INTERNAL_ERROR
    message: str = ""


class _Message(Struct):
    id: RequestId | msgspec.UnsetType | None = msgspec.UNSET
    method: str | None = None
    params: Raw = _NOTHING
    result: Raw = _NOTHING
    error: _Fault | None = None


class _CancelParams(Struct):
    request_id: RequestId | None = msgspec.field(name="requestId")


def _describe_plainly(error: HermesError) -> RpcError:
    return RpcError(INTERNAL_ERROR, join_sentences(localize(error.message), localize(error.hint)))


class RpcDialect(Struct, frozen=True, kw_only=True):
    """What a protocol adds to JSON-RPC 2.0."""

    cancel_method: str = "$/cancel_request"
    """The notification by which a request is taken back."""
    answers_cancelled: bool = True
    """Whether a request that was taken back is answered all the same, with an error."""
    allows_null_id: bool = True
    """Whether `null` is the id of a request."""
    describe_error: Callable[[HermesError], RpcError] = _describe_plainly
    """Returns an error of ours as the other side is told it."""


class RpcPeer:
    """The exchange with one program. `close` cancels what it has asked, and fails what it was asked."""

    def __init__(
        self, handler: RpcHandler, writer: MessageSink, on_gone: Callable[[], None], dialect: RpcDialect
    ) -> None:
        self._handler = handler
        self._dialect = dialect
        self._writer = writer
        self._on_gone = on_gone
        self._running: dict[RequestId | None, asyncio.Task[None]] = {}
        self._asked: dict[int, asyncio.Future[Raw]] = {}
        self._last_id = 0
        self._is_closed = False
        self._warnings = 0
        self._held: list[bytes] | None = None
        """Messages that are written at once, while there are many."""

    @contextlib.contextmanager
    def join_messages(self) -> Iterator[None]:
        """Write all that is sent in the context at once, at its end: each write would wake the program."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            self._writer.write(b"".join(held))

    async def wait_until_taken(self) -> None:
        """Wait until the program has taken nearly all that it was sent. Where it does not in time the exchange ends.

        Raises GoneError.
        """
        try:
            async with asyncio.timeout(_TAKE_SECONDS):
                await self._writer.wait_until_taken(_MOST_AHEAD)
        except TimeoutError:
            self._on_gone()
            raise GoneError from None

    def receive_message(self, line: bytes) -> None:
        """Take one message. What it asks runs in a task of its own; a notification is taken after the first step of
        what was asked before it.
        """
        try:
            line.decode()  # what stays raw is not looked at by msgspec, and decoded elsewhere
            message = msgspec.json.decode(line, type=_Message)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self._refuse_unreadable(line)
            return
        if message.method is None:
            self._take_answer(message)
        elif message.id is None and not self._dialect.allows_null_id:
            self._send_error(None, RpcError(INVALID_REQUEST, "The id of a request must be a number or a text."))
        elif message.id is msgspec.UNSET:
            asyncio.get_running_loop().call_soon(self._take_notification, message.method, message.params)
        else:
            self._begin_request(message.id, message.method, message.params)

    async def request(self, method: str, params: object, seconds: float | None) -> Raw:
        """Ask the program and return its result. Raises RpcError with what it says, TimeoutError.

        A question that is given up, by its time or by cancellation, is cancelled there.
        """
        if self._is_closed:
            raise GoneError
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except (TimeoutError, asyncio.CancelledError):
            self.notify(self._dialect.cancel_method, {"requestId": number})
            raise
        finally:
            del self._asked[number]

    def notify(self, method: str, params: object) -> None:
        """Tell the program something."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def close(self) -> None:
        """Cancel what runs for the program, and wait for its end."""
        self._is_closed = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(GoneError())
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        self._writer.close()

    def _begin_request(self, identity: RequestId | None, method: str, params: Raw) -> None:
        if identity in self._running or len(self._running) >= MAX_OPEN_REQUESTS:
            self._send_error(identity, RpcError(INVALID_REQUEST, "Its id is in use, or too many requests are open."))
            return
        task = asyncio.create_task(self._run_request(identity, method, params), name=f"answer to {method[:80]}")
        self._running[identity] = task
        task.add_done_callback(lambda _: self._running.pop(identity, None))

    async def _run_request(self, identity: RequestId | None, method: str, params: Raw) -> None:
        try:
            result = await self._handler.answer_request(method, params)
        except asyncio.CancelledError:
            if self._dialect.answers_cancelled:
                self._send_error(identity, RpcError(CANCELLED, "The request was cancelled."))
        except RpcError as error:
            self._send_error(identity, error)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._send_error(identity, RpcError(INVALID_PARAMS, f"The parameters of {method} cannot be used: {error}"))
        except HermesError as error:
            self._send_error(identity, self._dialect.describe_error(error))
        except Exception as error:  # noqa: BLE001 - who asks must get an answer; the fault is logged
            _LOG.exception("answering %s failed", method)
            said = N_("Hermes has failed inside ({name}).", name=type(error).__name__)
            self._send_error(identity, RpcError(INTERNAL_ERROR, localize(said)))
        else:
            self._send({"jsonrpc": "2.0", "id": identity, "result": result})

    def _take_notification(self, method: str, params: Raw) -> None:
        try:
            if method == self._dialect.cancel_method:
                wanted = msgspec.json.decode(params, type=_CancelParams).request_id
                if (task := self._running.get(wanted)) is not None:
                    task.cancel()
            else:
                self._handler.take_notification(method, params)
        except (RpcError, msgspec.MsgspecError) as error:
            self._warnings += 1
            if self._warnings <= _MAX_WARNINGS:
                _LOG.warning("the notification %s was not taken: %s", escape_surrogates(method[:80]), error)

    def _take_answer(self, message: _Message) -> None:
        answer = self._asked.get(message.id) if isinstance(message.id, int) else None
        if answer is None or answer.done():
            return
        if message.error is not None:
            answer.set_exception(RpcError(message.error.code, message.error.message))
        else:
            answer.set_result(message.result)

    def _refuse_unreadable(self, line: bytes) -> None:
        try:
            found = msgspec.json.decode(line)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            self._send_error(None, RpcError(PARSE_ERROR, "The message is not JSON."))
            return
        identity = found.get("id") if isinstance(found, dict) and "method" not in found else None
        if isinstance(identity, int) and (answer := self._asked.get(identity)) is not None and not answer.done():
            answer.set_exception(RpcError(INVALID_REQUEST, "The answer cannot be read."))
            return
        self._send_error(None, RpcError(INVALID_REQUEST, "The message is no request of JSON-RPC 2.0."))

    def _send_error(self, identity: RequestId | None, error: RpcError) -> None:
        told: dict[str, object] = {"code": error.code, "message": error.message}
        if error.data is not None:
            told["data"] = error.data
        self._send({"jsonrpc": "2.0", "id": identity, "error": told})

    def _send(self, message: object) -> None:
        try:
            data = to_json(message)
        except UnicodeEncodeError:  # a name of a file that is not UTF-8
            data = to_json(_escape(message))
        data += b"\n"
        if self._held is not None:
            self._held.append(data)
            return
        self._writer.write(data)
        if self._writer.is_closed or self._writer.waiting_bytes > MAX_WAITING_BYTES:
            self._on_gone()


def _escape(value: object) -> object:
    """Return a message with lone surrogates escaped in all of its texts."""
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        return {key: _escape(one) for key, one in value.items()}
    return [_escape(one) for one in value] if isinstance(value, list | tuple) else value


async def read_lines(
    read: Callable[[int], Awaitable[bytes]],
    take: Callable[[bytes], None],
    received: bytes = b"",
    *,
    limit: int = MAX_MESSAGE_BYTES,
) -> None:
    """Read to the end, and hand over each line that is not empty, first those of what was `received` before. A line
    beyond the limit ends it.
    """
    waiting: list[bytes] = []
    size = 0
    chunk = received or await read(_CHUNK)
    while chunk:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            if joined := b"".join((*waiting, line)).strip():
                take(joined)
            waiting, size = [], 0
        if rest:
            waiting.append(rest)
            size += len(rest)
        if size > limit:
            _LOG.warning("a message of more than %d bytes has come: the exchange ends", limit)
            return
        chunk = await read(_CHUNK)
