"""A session that lives in another process of this home, as a front-end of this process uses it."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hermes.commands.context import MenuOption
from hermes.config.home import HermesHome
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Event, Level, Notice, TurnEnded, TurnResumed, TurnStarted, WorkEnded, WorkStarted
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import N_, get_language
from hermes.ipc import frames
from hermes.ipc.frames import IpcConnection
from hermes.ipc.listener import GATEWAY_SOCKET, peer_uid, process_socket_path, short_socket_path
from hermes.runtime.locks import find_lock_owner
from hermes.runtime.mailbox import InboundMessage
from hermes.tools.session import Asker

_CONNECT_SECONDS = 5.0


class CommandDisplay(Protocol):
    """Shows the output and prompts of commands to the user; a command context is one."""

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines."""
        ...

    def show(self, markdown: str) -> None:
        """Show a text."""
        ...

    async def choose(self, title: str, options: list[MenuOption], *, chosen: int = 0) -> int | None:
        """Let the user choose one of the options."""
        ...

    async def confirm(self, question: str) -> bool:
        """Ask for yes or no."""
        ...

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """Ask for a line of text."""
        ...


class _RemoteApprovals:
    """Sends answers to approval prompts to the other process."""

    def __init__(self, connection: "IpcConnection[frames.ResponseFrame]") -> None:
        self._connection = connection
        self.can_ask = False
        self.unasked = 0

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        """Send an answer; an event tells whether it was in time."""
        del by
        self._connection.send(frames.ApprovalAnswerFrame(approval_id=approval_id, scope=scope.value))
        return True


class RemoteSession:
    """A `SessionPort` over a socket, until `close`. `on_lost` is called when the other process is gone."""

    unfinished = 0

    def __init__(self, connection: "IpcConnection[frames.ResponseFrame]", attached: frames.AttachedFrame) -> None:
        self._connection = connection
        self.attached = attached
        self.approvals = _RemoteApprovals(connection)
        self.on_lost: list[Callable[[], None]] = []
        self.lost = False
        self.display: CommandDisplay | None = None
        """The display of the output of commands."""
        self.asker: Asker | None = None
        """The asker that puts the model's questions to the user."""
        self._working = attached.busy
        self.doing = ""
        """What works there between two turns, where it may take its time."""
        self._numbers = itertools.count(1)
        self._subscribers: list[Callable[[Event], None]] = []
        self._turns: dict[int, asyncio.Future[TurnEnded]] = {}
        self._commands: dict[int, asyncio.Future[None]] = {}
        self._prompt_tasks: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._oneshot_end: asyncio.Future[frames.TurnEndedFrame] | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.attached.session_id

    @property
    def busy(self) -> bool:
        """Whether a turn runs there, or is about to run."""
        return self._working or bool(self._turns)

    def subscribe(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        """Call `subscriber` with every event from now on; return a function that unsubscribes it."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def post(self, inbound: InboundMessage) -> "asyncio.Future[TurnEnded]":
        """Queue a message; the future ends with the turn that answers it."""
        return self._send_message(inbound, "queue")

    def steer(
        self, inbound: InboundMessage, *, joins_only: bool = False, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Add a message to the running turn."""
        del joins_only
        return self._send_message(inbound, "steer", in_order=in_order)

    def interrupt(self, inbound: InboundMessage) -> "asyncio.Future[TurnEnded]":
        """Stop the running turn, and answer this message next."""
        return self._send_message(inbound, "interrupt")

    def forward(
        self, letter_id: str, inbound: InboundMessage, *, joins: bool = False, first: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Process a message that is stored in the session's inbox already."""
        number, ended = self._register_turn()
        self._connection.send(
            frames.ForwardFrame(id=number, letter_id=letter_id, inbound=inbound, joins=joins, first=first)
        )
        return ended

    def resume(self) -> "asyncio.Future[TurnEnded] | None":
        """Return None, because a living process leaves nothing unfinished."""
        return None

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        busy = self.busy
        if busy:
            self._connection.send(frames.StopFrame())
        return busy

    async def idle(self) -> None:
        """Wait until every message that was sent from here is answered."""
        if self._turns:
            await asyncio.wait(self._turns.values())

    async def run_command(self, name: str, text: str, display: CommandDisplay) -> None:
        """Run a slash command there, and show its output here. Raises what the command raises."""
        self.display = display
        number = next(self._numbers)
        done = self._commands[number] = asyncio.get_running_loop().create_future()
        self._connection.send(frames.CommandFrame(id=number, name=name, text=text))
        try:
            if self.lost:
                raise _lost_error()
            await done
        finally:
            self._commands.pop(number, None)

    def expect_oneshot_end(self) -> "asyncio.Future[frames.TurnEndedFrame]":
        """Return the future end of a request that was sent before attaching; without a turn when the other is gone."""
        self._oneshot_end = asyncio.get_running_loop().create_future()
        return self._oneshot_end

    def start_reading(self) -> None:
        """Start to receive the events of the session."""
        self._reader = asyncio.create_task(self._read_frames(), name=f"remote {self.session_id}")

    async def close(self) -> None:
        """Detach; the session goes on where it lives."""
        self.on_lost.clear()
        for task in (*self._prompt_tasks, *([self._reader] if self._reader is not None else [])):
            task.cancel()
        if self._reader is not None:
            await asyncio.wait({self._reader})
        await self._connection.close()

    def _send_message(
        self, inbound: InboundMessage, way: str, *, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        number, ended = self._register_turn()
        self._connection.send(frames.PostFrame(id=number, inbound=inbound, way=way, in_order=in_order))
        return ended

    def _register_turn(self) -> "tuple[int, asyncio.Future[TurnEnded]]":
        if self.lost:
            raise _lost_error()
        number = next(self._numbers)
        ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()
        self._turns[number] = ended
        return number, ended

    async def _read_frames(self) -> None:
        try:
            async for frame in self._connection.iterate_frames():
                self._handle_frame(frame)
        finally:
            self._on_disconnect()

    def _handle_frame(self, frame: frames.ResponseFrame) -> None:
        match frame:
            case frames.EventFrame():
                self._publish_event(frame.event)
            case frames.TurnEndedFrame():
                self._settle_turn(frame)
            case frames.OutputFrame():
                self._show_output(frame)
            case frames.PromptFrame():
                task = asyncio.create_task(self._reply_to_prompt(frame))
                self._prompt_tasks.add(task)
                task.add_done_callback(self._prompt_tasks.discard)
            case frames.DoneFrame():
                self._finish_command(frame.id, None)
            case frames.ErrorFrame():
                self._finish_command(frame.id, frames.error_from_frame(frame))
            case _:
                pass

    def _show_output(self, frame: frames.OutputFrame) -> None:
        if self.display is None:
            self._publish_event(Notice(level=Level(frame.level), text=frame.text))
        elif frame.markdown:
            self.display.show(frame.text)
        else:
            self.display.tell(frame.text, Level(frame.level))

    def _publish_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted | TurnResumed):
            self._working = True
        elif isinstance(event, TurnEnded):
            self._working = False
        elif isinstance(event, WorkStarted | WorkEnded):
            self.doing = event.doing if isinstance(event, WorkStarted) else ""
            self._working = bool(self.doing)
        for subscriber in tuple(self._subscribers):
            subscriber(event)

    def _settle_turn(self, frame: frames.TurnEndedFrame) -> None:
        if self._oneshot_end is not None and not frame.id:
            if not self._oneshot_end.done():
                self._oneshot_end.set_result(frame)
            return
        ended = self._turns.pop(frame.id, None)
        if ended is None or ended.done():
            return
        if frame.error is not None:
            ended.set_exception(frames.error_from_frame(frame.error))
        elif frame.ended is None:
            ended.cancel()
        else:
            ended.set_result(frame.ended)

    def _finish_command(self, number: int, error: HermesError | None) -> None:
        done = self._commands.get(number)
        if done is None or done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(None)

    async def _reply_to_prompt(self, frame: frames.PromptFrame) -> None:
        value: int | str | None = None
        front = self.display
        options = [MenuOption(*row) for row in frame.options]
        if frame.kind == "model":
            value = await self.asker.ask(frame.title, [one.label for one in options]) if self.asker else None
        elif front is not None and frame.kind == "confirm":
            value = int(await front.confirm(frame.title))
        elif front is not None and options:
            value = await front.choose(frame.title, options, chosen=frame.chosen)
        elif front is not None:
            value = await front.ask(frame.title, default=frame.default)
        self._connection.send(frames.PromptReplyFrame(id=frame.id, value=value))

    def _on_disconnect(self) -> None:
        """Fail what is open, because the other process is gone or has closed the session."""
        self.lost = True
        if self._oneshot_end is not None and not self._oneshot_end.done():
            self._oneshot_end.set_result(frames.TurnEndedFrame())
        self._working = False
        turns, self._turns = self._turns, {}
        for ended in turns.values():
            if not ended.done():
                ended.set_exception(_lost_error())
        for done in self._commands.values():
            if not done.done():
                done.set_exception(_lost_error())
        for told in tuple(self.on_lost):
            told()


def _lost_error() -> BusyError:
    return BusyError(N_("The process that held this session has let it go."), N_("Try again in a moment."))


async def attach_session(home: HermesHome, session_id: str, *, asks: bool) -> RemoteSession | None:
    """Attach to a session that another process holds; return None when no process lets us."""
    pid = find_lock_owner(home.locks, session_id)
    if pid is None or pid == os.getpid():
        return None
    for path in (process_socket_path(home.locks, pid), home.locks / GATEWAY_SOCKET):
        wire = await connect_socket(path)
        if wire is None:
            continue
        wire.send(frames.AttachFrame(session_id=session_id, asks=asks, language=get_language()))
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                first = await wire.next_frame()
        except TimeoutError:
            first = None
        if isinstance(first, frames.AttachedFrame):
            session = RemoteSession(wire, first)
            session.start_reading()
            return session
        await wire.close()
    return None


async def connect_socket(path: Path) -> "IpcConnection[frames.ResponseFrame] | None":
    """Connect to the process that listens there; return None when there is none, or it is another user's."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.setblocking(False)
    try:
        with short_socket_path(path) as name:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(one, name)
        if peer_uid(one) != os.getuid():
            raise ConnectionRefusedError
    except (OSError, TimeoutError):
        one.close()
        return None
    reader, writer = await asyncio.open_unix_connection(sock=one, limit=frames.MAX_FRAME_BYTES)
    return IpcConnection(reader, writer, frames.response_decoder())
