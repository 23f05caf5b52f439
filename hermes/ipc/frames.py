"""The frames of the socket protocol: one JSON object per line.

The process that connects sends requests, the one that listens sends replies and events. `id` is chosen by the
requester, and names the reply's request. The class tags and the fields are the protocol and never change.

A connection that sends objects as JSON lines, with a limit on unread bytes.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from hermes.core.encoding import restore_messages, to_json, to_json_with_wordings
from hermes.core.errors import BusyError, ConfigError, HermesError, NotFoundError, StoreError, UsageError
from hermes.core.events import Event, TurnEnded
from hermes.runtime.mailbox import InboundMessage

MAX_FRAME_BYTES = 32 << 20
"""The largest line in bytes; pictures are part of it."""


class AttachFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="attach"):
    """Attach to a session that this process holds; answered by `AttachedFrame`, then by its events."""

    session_id: str
    asks: bool = False
    """Whether somebody is there to answer approval prompts."""
    language: str = ""


class PostFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="post"):
    """Send a message; answered by `TurnEndedFrame` when its turn has ended.

    `way` is that of `Delivery`: queue, steer, interrupt.
    """

    id: int
    inbound: InboundMessage
    way: str = "queue"
    in_order: bool = False


class ForwardFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="forward"):
    """Process a message that is stored in the session's inbox already, as `letter_id`."""

    id: int
    letter_id: str
    inbound: InboundMessage
    joins: bool = False
    first: bool = False


class StopFrame(Struct, frozen=True, tag="stop"):
    """Stop the running turn."""


class ApprovalAnswerFrame(Struct, frozen=True, kw_only=True, tag="answer"):
    """Answer an approval prompt."""

    approval_id: str
    scope: str


class CommandFrame(Struct, frozen=True, kw_only=True, tag="command"):
    """Run a slash command; answered by `DoneFrame`, and before that by its output and prompts."""

    id: int
    name: str
    text: str = ""


class PromptReplyFrame(Struct, frozen=True, kw_only=True, tag="reply"):
    """Answer a `PromptFrame`: the number of a row, a text, or nothing."""

    id: int
    value: int | str | None = None


class OneshotFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="oneshot"):
    """Send one message to a fresh session, or to the one that `resume` or `latest` names, and wait for its end.

    Answered by `TurnEndedFrame`. `environ` and `cwd` are the caller's.
    """

    text: str
    environ: dict[str, str]
    cwd: str
    asks: bool = False
    resume: str | None = None
    latest: bool = False
    model: str = ""
    provider: str = ""
    max_turns: int | None = None
    max_cost: float | None = None
    toolsets: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ()
    piped: str = ""
    """Text that was piped into the caller; it goes along with the message."""
    report: str = ""
    """What the caller reports to a program: `json`, `stream` (it is sent every event), or nothing."""


class OneshotConfirmFrame(Struct, frozen=True, tag="go"):
    """Confirm that the caller has received `OneshotAcceptedFrame`, and waits."""


class SendFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="send"):
    """Deliver a message to a chat, retried until delivered; answered by `DoneFrame`."""

    id: int
    to: str
    text: str = ""
    file: str = ""


class StatusRequestFrame(Struct, frozen=True, tag="status"):
    """Request the gateway's state; answered by `StatusFrame`."""


class ReloadFrame(Struct, frozen=True, tag="reload"):
    """Reload the settings; answered by `DoneFrame` with the result."""

    id: int = 0


class HandOffFrame(Struct, frozen=True, kw_only=True, tag="handoff"):
    """Let a chat of the owner's go on with a session; answered by `DoneFrame`."""

    id: int
    session_id: str
    to: str


class DeliverJobsFrame(Struct, frozen=True, kw_only=True, tag="deliver_jobs"):
    """Deliver now what runs of jobs have left to be delivered; answered by `DoneFrame` before that has happened."""

    id: int


RequestFrame = (
    AttachFrame
    | PostFrame
    | ForwardFrame
    | StopFrame
    | ApprovalAnswerFrame
    | CommandFrame
    | PromptReplyFrame
    | OneshotFrame
    | OneshotConfirmFrame
    | SendFrame
    | StatusRequestFrame
    | ReloadFrame
    | HandOffFrame
    | DeliverJobsFrame
)


class AttachedFrame(Struct, frozen=True, kw_only=True, tag="attached"):
    """The state of the session to which the peer has attached."""

    session_id: str
    pid: int
    busy: bool
    model: str
    window: int | None = None
    place: str = ""
    title: str = ""
    yolo: bool = False


class EventFrame(Struct, frozen=True, tag="happened"):
    """An event of the session."""

    event: Event


class TurnEndedFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="ended"):
    """The end of a turn; without one it was cancelled or, with `error`, never came to an end."""

    id: int = 0
    ended: TurnEnded | None = None
    error: "ErrorFrame | None" = None
    code: int = 0
    """The exit code for the caller's process, of a `OneshotFrame`."""
    files_changed: tuple[str, ...] | None = None
    """The files that the turn changed, of a `OneshotFrame` with `report`; None where that is not recorded."""


class OutputFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="told"):
    """Output of a command: lines, or (`markdown`) a text."""

    text: str
    level: str = "info"
    markdown: bool = False


class PromptFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="asked"):
    """A prompt of a command or of the model: choose one of the rows, or enter a text."""

    id: int
    title: str
    options: tuple[tuple[str, str], ...] = ()
    chosen: int = 0
    kind: str = "choose"
    """`choose`, `confirm`, `line` (with `default`), or `model`: one of the rows or a text."""
    default: str = ""


class ErrorFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="trouble"):
    """An error; `id` names the request."""

    kind: str
    message: str
    hint: str = ""
    id: int = 0


class DoneFrame(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="done"):
    """The request with this id was carried out."""

    id: int
    said: str = ""
    code: int = 0
    """The exit code for the caller's process."""
    notices: tuple[str, ...] = ()
    """Lines for whoever looks after Hermes."""


class StatusFrame(Struct, frozen=True, kw_only=True, tag="standing"):
    """The gateway's state."""

    health: dict[str, object]


class OneshotAcceptedFrame(Struct, frozen=True, omit_defaults=True, tag="taken"):
    """A `OneshotFrame` is accepted, in this session; nothing starts before `OneshotConfirmFrame`.

    `reports`: this gateway knows `piped` and `report`. One that does not would leave them out silently.
    """

    session_id: str
    model: str = ""
    provider: str = ""
    reports: bool = False


class RunLocallyFrame(Struct, frozen=True, tag="alone"):
    """The request must be carried out by the caller's own process."""

    why: str = ""


ResponseFrame = (
    AttachedFrame
    | EventFrame
    | TurnEndedFrame
    | OutputFrame
    | PromptFrame
    | ErrorFrame
    | DoneFrame
    | StatusFrame
    | OneshotAcceptedFrame
    | RunLocallyFrame
)

_ERROR_CLASSES: dict[str, type[HermesError]] = {
    kind.__name__: kind for kind in (BusyError, ConfigError, NotFoundError, StoreError, UsageError)
}


def error_frame(error: HermesError, request_id: int = 0) -> ErrorFrame:
    """Return the frame of an error."""
    return ErrorFrame(kind=type(error).__name__, message=error.message, hint=error.hint, id=request_id)


def error_from_frame(frame: ErrorFrame) -> HermesError:
    """Return the error of a frame, as far as callers distinguish its class."""
    return _ERROR_CLASSES.get(frame.kind, HermesError)(frame.message, frame.hint)


def request_decoder() -> "msgspec.json.Decoder[RequestFrame]":
    """Return the decoder of request frames."""
    return msgspec.json.Decoder(RequestFrame)


def response_decoder() -> "msgspec.json.Decoder[ResponseFrame]":
    """Return the decoder of response frames."""
    return msgspec.json.Decoder(ResponseFrame)


FrameT = TypeVar("FrameT")


def encode_frame(frame: object) -> bytes:
    """Return the line of a frame. Its messages are English; `wordings` beside its fields holds what translates them.

    A peer of an earlier version leaves that out, and shows the English.
    """
    line, wordings = to_json_with_wordings(frame)
    return line[:-1] + b',"wordings":' + to_json(wordings) + b"}\n" if wordings else line + b"\n"


def decode_frame(line: bytes, decoder: "msgspec.json.Decoder[FrameT]") -> FrameT:
    """Return the frame of a line. Raises msgspec.MsgspecError or ValueError for what is none."""
    frame = decoder.decode(line)
    wordings = msgspec.json.decode(line).get("wordings") if b'"wordings":' in line else None
    return restore_messages(frame, wordings) if isinstance(wordings, dict) else frame


_MAX_UNREAD_BYTES = 64 << 20
"""Bytes that may wait for a peer that does not read; beyond that it is disconnected."""


class IpcConnection(Generic[FrameT]):
    """Both directions of a connection. `decoder` reads the frames of the peer."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: "msgspec.json.Decoder[FrameT]"
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder
        self.closed = False

    def send(self, frame: object) -> None:
        """Send a frame; do nothing once the peer is gone."""
        if self.closed or self._writer.is_closing():
            return
        self._writer.write(encode_frame(frame))
        if self._writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
            self.abort()

    async def next_frame(self) -> FrameT | None:
        """Return the peer's next frame; None once it is gone, or sends what cannot be decoded."""
        with contextlib.suppress(
            OSError, ValueError, RecursionError, msgspec.MsgspecError
        ):  # too long, not ours: it is cut off
            line = await self._reader.readline()
            return decode_frame(line, self._decoder) if line else None
        return None

    async def iterate_frames(self) -> AsyncIterator[FrameT]:
        """Yield the peer's frames until the connection ends."""
        while (frame := await self.next_frame()) is not None:
            yield frame

    async def flush(self) -> None:
        """Wait until the peer has been given everything."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def abort(self) -> None:
        """Cut the connection."""
        self.closed = True
        self._writer.transport.abort()

    async def close(self) -> None:
        """Send the rest, and close the connection."""
        if not self.closed:
            self.closed = True
            self._writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._writer.wait_closed()
