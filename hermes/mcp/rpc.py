"""JSON-RPC 2.0 as the Model Context Protocol uses it: our requests with their answers, and what a server says unasked.

A server is not believed to be well behaved: messages have a limit, what cannot be read is passed over, a flood ends the
connection. Requests of a server's are answered (`ping`) or refused: this client offers it nothing.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from hermes.core.errors import ToolError
from hermes.tools.schema import join_surrogates
from hermes.util.cancellation import finished

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message."""
_FLOOD, _WINDOW = 10_000, 10.0
"""Messages that nobody asked for, and the seconds in which so many are too many."""
_MAX_TASKS = 256
_FAREWELL = 2.0
"""Seconds that telling a server about something may take when nobody waits for it."""
_ID = re.compile(rb'"id"\s*:\s*([0-9]{1,9})\b')
_NOT_SUPPORTED = -32601
_NOTHING = Raw()


class RpcError(Exception):
    """A server's own words about a request that it could not do."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"error {code}: {message}")


class _Fault(Struct):
    code: int = 0
    message: str = ""


class _Message(Struct):
    id: int | str | None = None
    method: str | None = None
    result: Raw = _NOTHING
    error: _Fault | None = None


class Link(Protocol):
    """A way to a server."""

    answers_in_place: bool
    """Whether `send` ends when the answer to what was sent has arrived, or never will."""

    async def open(self, received: Callable[[bytes], None], lost: Callable[[str], None]) -> None:
        """Make the way ready. `received` gets each message, `lost` is told once why there will be no more.

        Raises `ToolError`.
        """
        ...

    async def agreed(self, version: str) -> None:
        """The protocol's version is settled."""
        ...

    async def send(self, message: bytes) -> None:
        """Send a message. Raises `ToolError`."""
        ...

    async def close(self) -> None:
        """End it, with everything that was started for it."""
        ...


class Peer:
    """The conversation with one server over a link. Methods raise `ToolError` when the link is no more.

    `notified` is called with the method of each notification.
    """

    def __init__(self, link: Link, notified: Callable[[str], None]) -> None:
        self.gone = ""
        """Why the link is no more; empty while it is."""
        self._link = link
        self._notified = notified
        self._waiting: dict[int, asyncio.Future[Raw]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self._last = 0
        self._unasked = 0
        self._window = 0.0

    async def open(self) -> None:
        """Make the link ready."""
        await self._link.open(self.receive, self.lost)

    async def request(self, method: str, params: object, seconds: float) -> Raw:
        """The result of a request. Raises `RpcError` with what the server says, `ToolError` when it says nothing.

        A request that is given up, by its time or by cancellation, is taken back.
        """
        if self.gone:
            raise ToolError(self.gone)
        self._last += 1
        number = self._last
        message = _packed({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        sending = self._spawn(self._link.send(message))
        try:
            async with asyncio.timeout(seconds):
                either: list[asyncio.Future[Raw] | asyncio.Task[None]] = [sending, answer]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    sending.result()
                    if self._link.answers_in_place:
                        raise ToolError("it ended its answer without a result")
                return await answer
        except TimeoutError:
            self._take_back(number, method)
            raise ToolError(f"it did not answer within {seconds:g} s") from None
        except asyncio.CancelledError:
            self._take_back(number, method)
            raise
        finally:
            del self._waiting[number]
            if not answer.done() or answer.cancelled():
                sending.cancel()
            elif answer.exception() is None:
                asyncio.get_running_loop().call_later(_FAREWELL, sending.cancel)

    async def agreed(self, version: str) -> None:
        """Tell the link, and the server that its work can begin."""
        await self._link.agreed(version)
        await self._link.send(_packed({"jsonrpc": "2.0", "method": "notifications/initialized"}))

    def receive(self, data: bytes) -> None:
        """Take a message."""
        message = _unpacked(data)
        if message is None:
            self._count()
            self._unreadable(data)
        elif message.method is not None:
            self._count()
            if message.id is None:
                self._notified(message.method)
            else:
                self._answer(message.id, message.method)
        elif isinstance(message.id, int) and (answer := self._waiting.get(message.id)) and not answer.done():
            if message.error is not None:
                answer.set_exception(RpcError(message.error.code, message.error.message))
            else:
                answer.set_result(message.result)

    def lost(self, why: str) -> None:
        """The link is no more; whoever waits is told, and what is left of it is ended."""
        if self._closing is None:
            self.gone = why
            self._closing = asyncio.create_task(self._link.close())
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ToolError(self.gone))

    async def close(self) -> None:
        """End the link."""
        self.lost("it was ended")
        for task in self._tasks:
            task.cancel()
        assert self._closing is not None
        await finished(self._closing)

    def _take_back(self, number: int, method: str) -> None:
        if method != "initialize" and not self.gone:
            note = {"requestId": number, "reason": "no longer needed"}
            self._tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": note})

    def _answer(self, identity: int | str, method: str) -> None:
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": identity}
        if method == "ping":
            self._tell({**reply, "result": {}})
        else:
            self._tell({**reply, "error": {"code": _NOT_SUPPORTED, "message": "not supported by this client"}})

    def _tell(self, message: object) -> None:
        """Send something that nobody waits for."""
        if len(self._tasks) < _MAX_TASKS:
            self._spawn(_within(_FAREWELL, self._link.send(_packed(message))))

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; of the rest nobody needs to know

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._window > _WINDOW:
            self._window, self._unasked = now, 0
        self._unasked += 1
        if self._unasked > _FLOOD:
            self.lost(f"it sent more than {_FLOOD:,} messages that nobody asked for")

    def _unreadable(self, data: bytes) -> None:
        """An answer that cannot be read is one all the same."""
        match = _ID.search(data) if data[:1] == b"{" else None
        answer = self._waiting.get(int(match[1])) if match else None
        if answer is not None and not answer.done():
            answer.set_exception(ToolError("its answer is not valid JSON, or nested too deeply"))


def _packed(message: object) -> bytes:
    return msgspec.json.encode(message)


def _unpacked(data: bytes) -> _Message | None:
    """The message; None when it is none. Half characters in it, which msgspec refuses, are replaced."""
    try:
        return msgspec.json.decode(data, type=_Message)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        joined = join_surrogates(data.decode("utf-8", "replace")) if data[:1] == b"{" else None
    try:
        return msgspec.json.decode(joined, type=_Message) if joined is not None else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


async def _within(seconds: float, work: Coroutine[object, object, None]) -> None:
    async with asyncio.timeout(seconds):
        await work
