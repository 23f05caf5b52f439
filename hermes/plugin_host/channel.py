"""Requests to the process of a plug-in, and its answers: JSON-RPC, one message a line.

The process is not trusted to behave well. Everything that it sends must be the answer to a request that waits, or to
one that was given up a moment ago; anything else ends the channel, with a reason in words.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw, Struct

from hermes.core.encoding import to_json, to_plain
from hermes.core.errors import ToolError
from hermes.i18n.messages import N_
from hermes.safety.fencing import show_control_characters
from hermes.tools.schema import join_surrogates
from hermes.util.text import to_one_line

MAX_SENT_BYTES = 4 * 1024 * 1024
"""The most bytes of a request."""
MAX_RECEIVED_BYTES = 1024 * 1024
"""The most bytes of an answer."""
_GRACE_SECONDS = 1.0
"""Seconds that a process has to answer a request that was given up, before it counts as stuck."""
_MAX_SAID = 500
_MAX_PENDING = 64
_NOTHING = Raw()


class PluginError(Exception):
    """A plug-in did not do what was asked; `reason` is the end of a sentence that names the plug-in."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PluginRefusedError(Exception):
    """A plug-in says itself that it cannot do what was asked; the text is its own, on one line."""


class _Fault(Struct, forbid_unknown_fields=True):
    message: str
    code: int = 0


class _Answer(Struct, forbid_unknown_fields=True):
    id: int
    jsonrpc: str = "2.0"
    result: Raw = _NOTHING
    error: _Fault | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


class LineTransport(Protocol):
    """Carries lines to a process and back."""

    async def open(self, on_message: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Start the process. Raises ToolError."""
        ...

    async def send_line(self, message: bytes) -> None:
        """Send a line. Raises ToolError."""
        ...

    async def close(self) -> None:
        """End the process with all that it started."""
        ...


class PluginChannel:
    """The channel to one process. `lost_reason` says why it cannot be used any more; empty while it can."""

    def __init__(self, transport: LineTransport) -> None:
        self.lost_reason = ""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[Raw]] = {}
        self._given_up: dict[int, asyncio.TimerHandle] = {}
        self._notes: set[asyncio.Task[None]] = set()
        self._last_id = 0
        self._close_task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for its answer."""
        return bool(self._waiting)

    async def open(self) -> None:
        """Start the process. Raises ToolError."""
        await self._transport.open(self._receive, self.mark_lost)

    async def request(self, method: str, params: object, seconds: float) -> Raw:
        """Return the result of a request. Raises PluginError, and PluginRefusedError with what the plug-in says.

        A request that is given up, by its time or by cancellation, is cancelled in the process, which is ended if it
        does not answer that either.
        """
        if self.lost_reason:
            raise PluginError(self.lost_reason)
        if len(self._waiting) >= _MAX_PENDING:
            raise PluginError(N_("too many requests wait for it"))
        self._last_id += 1
        number = self._last_id
        message = _encode_request({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        if len(message) > MAX_SENT_BYTES:
            raise PluginError(N_("it cannot be sent more than {size} MB", size=MAX_SENT_BYTES >> 20))
        answer: asyncio.Future[Raw] = self._loop.create_future()
        self._waiting[number] = answer
        timer = self._loop.call_later(
            seconds, _fail, answer, _LateError(N_("it did not answer within {seconds:g} s", seconds=seconds))
        )
        try:
            await self._transport.send_line(message)
            return await answer
        except ToolError as error:
            raise PluginError(error.message) from None
        except (_LateError, asyncio.CancelledError):
            self._give_up(number)
            raise
        finally:
            timer.cancel()
            del self._waiting[number]

    def _give_up(self, number: int) -> None:
        if not self.lost_reason and number not in self._given_up:
            stuck = N_("it did not answer within {seconds:g} s that a request was given up", seconds=_GRACE_SECONDS)
            self._given_up[number] = self._loop.call_later(_GRACE_SECONDS, self.mark_lost, stuck)
            note = to_json({"jsonrpc": "2.0", "method": "cancel", "params": {"id": number}})
            task = self._loop.create_task(self._send_note(note))
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)

    async def _send_note(self, note: bytes) -> None:
        try:
            await self._transport.send_line(note)
        except ToolError as error:
            self.mark_lost(error.message)

    def _receive(self, line: bytes) -> None:
        if self.lost_reason:
            return
        try:
            answer = _decode_answer(line)
        except RecursionError:
            self.mark_lost(N_("it sent a message that is nested too deeply"))
        except (msgspec.MsgspecError, UnicodeError) as error:
            self.mark_lost(N_("it sent a line that is no answer: {error}", error=to_one_line(str(error), 120)))
        else:
            self._take_answer(answer)

    def _take_answer(self, answer: _Answer) -> None:
        waiting = self._waiting.get(answer.id)
        if (timer := self._given_up.pop(answer.id, None)) is not None:
            timer.cancel()
        elif waiting is None or waiting.done():
            self.mark_lost(N_("it answered a request that was not made"))
        elif answer.error is not None:
            text = to_one_line(show_control_characters(answer.error.message), _MAX_SAID)
            waiting.set_exception(PluginRefusedError(text or "it does not say why"))
        elif answer.result == _NOTHING:
            self.mark_lost(N_("it sent an answer without a result"))
        else:
            waiting.set_result(answer.result)

    def mark_lost(self, reason: str) -> None:
        """End the channel: whoever waits is told why, and the process is ended."""
        if self._close_task is not None:
            return
        self.lost_reason = reason
        self._close_task = asyncio.create_task(self._transport.close())
        for timer in self._given_up.values():
            timer.cancel()
        self._given_up.clear()
        for waiting in self._waiting.values():
            _fail(waiting, PluginError(reason))

    async def close(self) -> None:
        """End the process, and wait until it is gone with all that it started."""
        self.mark_lost(N_("it was ended"))
        assert self._close_task is not None
        await asyncio.shield(self._close_task)


class _LateError(PluginError):
    """The answer has not come in time."""


def _encode_request(request: dict[str, object]) -> bytes:
    """Encode a request. Lone surrogates in it, which names of files may bring, are sent escaped. Raises PluginError."""
    try:
        try:
            return to_json(request)
        except UnicodeEncodeError:
            return json.dumps(to_plain(request)).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(N_("it cannot be sent this request: {error}", error=to_one_line(str(error), 120))) from None


def _decode_answer(line: bytes) -> _Answer:
    """Decode an answer. Lone surrogates, which msgspec refuses, are replaced. Raises MsgspecError, RecursionError."""
    try:
        return _ANSWER.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        joined = join_surrogates(line.decode("utf-8", "replace")) if b"\\ud" in line.lower() else None
        if joined is None:
            raise
    return _ANSWER.decode(joined)


def _fail(answer: "asyncio.Future[Raw]", error: PluginError) -> None:
    if not answer.done():
        answer.set_exception(error)
