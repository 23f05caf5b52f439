"""A session that lives in another process of this home, as this one takes part in it."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hermes.commands.context import Option
from hermes.config.home import Home
from hermes.core.errors import BusyError, HermesError
from hermes.core.events import Event, Level, Notice, TurnEnded, TurnResumed, TurnStarted
from hermes.core.outcomes import AnswerScope
from hermes.i18n.messages import phrase, spoken
from hermes.ipc import frames
from hermes.ipc.connection import Wire
from hermes.ipc.listener import GATEWAY, peer_uid, process_socket, short_path
from hermes.runtime.locks import lock_owner
from hermes.runtime.mailbox import Inbound
from hermes.tools.session import Asker

_CONNECT_SECONDS = 5.0


class Front(Protocol):
    """Shows what commands tell and ask, where the person sits; a `Desk` is one."""

    def tell(self, text: str, level: Level = Level.INFO) -> None:
        """Show lines."""
        ...

    def show(self, markdown: str) -> None:
        """Show a text."""
        ...

    async def choose(self, title: str, options: list[Option], *, chosen: int = 0) -> int | None:
        """Let the person pick one."""
        ...

    async def confirm(self, question: str) -> bool:
        """A yes or no."""
        ...

    async def ask(self, question: str, *, default: str = "") -> str | None:
        """A line from the person."""
        ...


class _Questions:
    """Answers go to the other process."""

    def __init__(self, wire: "Wire[frames.Tell]") -> None:
        self._wire = wire
        self.can_ask = False
        self.unasked = 0

    def answer(self, approval_id: str, *, scope: AnswerScope, by: str) -> bool:
        """Send an answer; whether it was in time is told by an event."""
        del by
        self._wire.send(frames.Answer(approval_id=approval_id, scope=scope.value))
        return True


class RemoteSession:
    """A `SessionPort` over a socket, from `attached` to `close`. `on_lost` is called when the other process is gone."""

    unfinished = 0

    def __init__(self, wire: "Wire[frames.Tell]", about: frames.Attached) -> None:
        self._wire = wire
        self.about = about
        self.approvals = _Questions(wire)
        self.on_lost: list[Callable[[], None]] = []
        self.lost = False
        self.front: Front | None = None
        """Who shows what commands say."""
        self.asker: Asker | None = None
        """Who puts the model's questions to the person."""
        self._working = about.busy
        self._numbers = itertools.count(1)
        self._subscribers: list[Callable[[Event], None]] = []
        self._turns: dict[int, asyncio.Future[TurnEnded]] = {}
        self._commands: dict[int, asyncio.Future[None]] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._awaited: asyncio.Future[frames.Ended] | None = None

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.about.session_id

    @property
    def busy(self) -> bool:
        """Whether a turn runs there, or is about to."""
        return self._working or bool(self._turns)

    def subscribe(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        """Show every event from now on; returns how to stop that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def post(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Say something; the end of the turn that answers it."""
        return self._said(inbound, "queue")

    def steer(
        self, inbound: Inbound, *, joins_only: bool = False, in_order: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Let words join the running turn."""
        del joins_only
        return self._said(inbound, "steer", in_order=in_order)

    def interrupt(self, inbound: Inbound) -> "asyncio.Future[TurnEnded]":
        """Stop the running turn, and answer this next."""
        return self._said(inbound, "interrupt")

    def forward(
        self, letter_id: str, inbound: Inbound, *, joins: bool = False, first: bool = False
    ) -> "asyncio.Future[TurnEnded]":
        """Say what stands in the session's inbox already."""
        number, ended = self._turn()
        self._wire.send(frames.Forward(id=number, letter_id=letter_id, inbound=inbound, joins=joins, first=first))
        return ended

    def resume(self) -> "asyncio.Future[TurnEnded] | None":
        """Nothing is left unfinished by a process that lives."""
        return None

    def stop(self) -> bool:
        """Stop the running turn; False when none runs."""
        busy = self.busy
        if busy:
            self._wire.send(frames.Stop())
        return busy

    async def idle(self) -> None:
        """Wait until what was said from here is answered."""
        if self._turns:
            await asyncio.wait(self._turns.values())

    async def command(self, name: str, text: str, front: Front) -> None:
        """Have a slash command carried out there; what it says is shown here. Raises what it raises."""
        self.front = front
        number = next(self._numbers)
        done = self._commands[number] = asyncio.get_running_loop().create_future()
        self._wire.send(frames.Command(id=number, name=name, text=text))
        try:
            if self.lost:
                raise _gone()
            await done
        finally:
            self._commands.pop(number, None)

    def awaited(self) -> "asyncio.Future[frames.Ended]":
        """How what was asked for before this took part comes to its end; without a turn when the other is gone."""
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    def listen(self) -> None:
        """Hear what happens there from now on."""
        self._reader = asyncio.create_task(self._read(), name=f"remote {self.session_id}")

    async def close(self) -> None:
        """Take part no more; the session goes on where it lives."""
        self.on_lost.clear()
        for task in (*self._asking, *([self._reader] if self._reader is not None else [])):
            task.cancel()
        if self._reader is not None:
            await asyncio.wait({self._reader})
        await self._wire.close()

    def _said(self, inbound: Inbound, way: str, *, in_order: bool = False) -> "asyncio.Future[TurnEnded]":
        number, ended = self._turn()
        self._wire.send(frames.Post(id=number, inbound=inbound, way=way, in_order=in_order))
        return ended

    def _turn(self) -> "tuple[int, asyncio.Future[TurnEnded]]":
        if self.lost:
            raise _gone()
        number = next(self._numbers)
        ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()
        self._turns[number] = ended
        return number, ended

    async def _read(self) -> None:
        try:
            async for frame in self._wire.frames():
                self._take(frame)
        finally:
            self._over()

    def _take(self, frame: frames.Tell) -> None:
        match frame:
            case frames.Happened():
                self._hear(frame.event)
            case frames.Ended():
                self._settle(frame)
            case frames.Told():
                self._tell(frame)
            case frames.Asked():
                task = asyncio.create_task(self._reply(frame))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            case frames.Done():
                self._finish(frame.id, None)
            case frames.Trouble():
                self._finish(frame.id, frames.error_of(frame))
            case _:
                pass

    def _tell(self, told: frames.Told) -> None:
        if self.front is None:
            self._hear(Notice(level=Level(told.level), text=told.text))
        elif told.markdown:
            self.front.show(told.text)
        else:
            self.front.tell(told.text, Level(told.level))

    def _hear(self, event: Event) -> None:
        if isinstance(event, TurnStarted | TurnResumed):
            self._working = True
        elif isinstance(event, TurnEnded):
            self._working = False
        for subscriber in tuple(self._subscribers):
            subscriber(event)

    def _settle(self, frame: frames.Ended) -> None:
        if self._awaited is not None and not frame.id:
            if not self._awaited.done():
                self._awaited.set_result(frame)
            return
        ended = self._turns.pop(frame.id, None)
        if ended is None or ended.done():
            return
        if frame.error is not None:
            ended.set_exception(frames.error_of(frame.error))
        elif frame.ended is None:
            ended.cancel()
        else:
            ended.set_result(frame.ended)

    def _finish(self, number: int, error: HermesError | None) -> None:
        done = self._commands.get(number)
        if done is None or done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(None)

    async def _reply(self, asked: frames.Asked) -> None:
        value: int | str | None = None
        front = self.front
        options = [Option(*row) for row in asked.options]
        if asked.kind == "model":
            value = await self.asker.ask(asked.title, [one.label for one in options]) if self.asker else None
        elif front is not None and asked.kind == "confirm":
            value = int(await front.confirm(asked.title))
        elif front is not None and options:
            value = await front.choose(asked.title, options, chosen=asked.chosen)
        elif front is not None:
            value = await front.ask(asked.title, default=asked.default)
        self._wire.send(frames.Reply(id=asked.id, value=value))

    def _over(self) -> None:
        """The other process is gone, or has closed the session."""
        self.lost = True
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(frames.Ended())
        self._working = False
        turns, self._turns = self._turns, {}
        for ended in turns.values():
            if not ended.done():
                ended.set_exception(_gone())
        for done in self._commands.values():
            if not done.done():
                done.set_exception(_gone())
        for told in tuple(self.on_lost):
            told()


def _gone() -> BusyError:
    return BusyError(phrase("The process that held this session has let it go."), phrase("Try again in a moment."))


async def attached(home: Home, session_id: str, *, asks: bool) -> RemoteSession | None:
    """Take part in a session that another process holds; None when nobody lets us."""
    pid = lock_owner(home.locks, session_id)
    if pid is None or pid == os.getpid():
        return None
    for path in (process_socket(home.locks, pid), home.locks / GATEWAY):
        wire = await connected(path)
        if wire is None:
            continue
        wire.send(frames.Attach(session_id=session_id, asks=asks, language=spoken()))
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                first = await wire.next()
        except TimeoutError:
            first = None
        if isinstance(first, frames.Attached):
            session = RemoteSession(wire, first)
            session.listen()
            return session
        await wire.close()
    return None


async def connected(path: Path) -> "Wire[frames.Tell] | None":
    """A wire to who listens there; None when nobody does, or it is not a process of ours."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.setblocking(False)
    try:
        with short_path(path) as name:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(one, name)
        if peer_uid(one) != os.getuid():
            raise ConnectionRefusedError
    except (OSError, TimeoutError):
        one.close()
        return None
    reader, writer = await asyncio.open_unix_connection(sock=one, limit=frames.LARGEST)
    return Wire(reader, writer, frames.decoder_of_tells())
