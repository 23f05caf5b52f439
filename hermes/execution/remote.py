"""Commands that run elsewhere, each through a client program on this machine: what ssh and containers share."""

import asyncio
import contextlib
import itertools
import secrets
import signal
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from hermes.core.errors import ToolError
from hermes.execution import remote_scripts
from hermes.execution.base import Command, Exit, ShellState, Sink, Stopped, by_signal
from hermes.execution.local import QUIET, LocalBackend, LocalRunning, shell_state
from hermes.execution.remote_records import Early, Records, two_numbers

_CONNECT = 30.0
"""Seconds that the far side may take to answer."""
_GRACE = 0.1
"""Seconds to wait for the end of the output once the far side has told the command's end."""
_STOP = 5.0
"""Seconds that the far side may take to end a command, and to say so."""
_MOST = 1_000_000
"""Bytes that a short script of ours may print, where its caller says nothing else."""
_PIECE = 1 << 18
_BEYOND = frozenset({"HERMES_RUN", "SSH_TTY"})

_One = TypeVar("_One")
_Other = TypeVar("_Other")

Lead = Callable[[str, bool, bool], Sequence[str]]
"""The client's arguments that run a script there, given whether it has input and whether it has a terminal."""


class Client:
    """A box that is none: it puts the client program in the place of a shell."""

    folder = "/"
    variables: Mapping[str, str] = {}
    temporary: str | None = None
    handles: Sequence[int] = ()
    spaces: Sequence[int] = ()

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = tuple(arguments)

    def wrap(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """The client with its own variables, not with a command's."""
        return self._arguments, environment

    def script(self, text: str, terminal: str) -> tuple[str, ...]:
        """Nothing of it runs on this machine."""
        return ()


class Far:
    """Runs commands at the far end of a client program.

    `local` runs the client, `lead` says how, `where` names the place to the person. `inward` and `outward` turn
    folders of this machine into those there and back.
    """

    def __init__(
        self,
        local: LocalBackend,
        lead: Lead,
        where: str,
        *,
        inward: Callable[[str], str] = str,
        outward: Callable[[str], str] = str,
    ) -> None:
        self.local = local
        self.lead = lead
        self.where = where
        self.inward = inward
        self.outward = outward
        self.base: dict[str, str] | None = None
        """The environment there, before anything of ours is laid over it."""
        self.missing: set[str] = set()
        """Folders that a command was to begin in, and that were not there."""
        self.session = secrets.token_hex(16)
        self._numbers = itertools.count(1)
        self._keeper: LocalRunning | None = None
        self._running: list[FarRunning] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def mark(self) -> str:
        """A mark for one run. It ends in a dot, so that none is the beginning of another."""
        return f"{self.session}.{next(self._numbers)}."

    @property
    def kept(self) -> bool:
        """Whether what stands by on the far side is there, as far as is known."""
        return self._keeper is not None and not self._keeper.ended

    @property
    def busy(self) -> bool:
        """Whether a command is under way, or left something running."""
        return any(not one.over for one in self._running)

    async def keep(self, arguments: Callable[[str], Sequence[str]], ready: Callable[[], bool] = lambda: True) -> None:
        """Start what stands by on the far side while this process lives. Raises `ToolError` with what was said."""
        early = Early()
        told = asyncio.Event()
        records = Records(self.session, early.feed, lambda letter, data: told.set())
        box = Client(arguments(remote_scripts.packed(remote_scripts.keep(self.session))))
        running = await self.local.start(Command(text="", cwd="/", interactive=True), records.feed, box)
        ending = asyncio.ensure_future(running.wait())
        waiting = asyncio.ensure_future(told.wait())
        try:
            await _first(ending, waiting, _CONNECT)
            if not told.is_set() or not ready():
                raise ToolError(f"{self.where} cannot be used: {early.text() or 'it does not answer'}")
            if self._keeper is not None:
                self.own(self._keeper.stop(), "what a lost keeper left")
            self._keeper = running
        finally:
            waiting.cancel()
            ending.cancel()
            if self._keeper is not running:
                await running.stop()

    async def start(
        self, command: Command, sink: Sink, after: Callable[[], Awaitable[Sequence[str]]] | None = None
    ) -> "FarRunning":
        """Start a command there. `after` is done once it has ended, before that is told; it gives lines to show."""
        if "\0" in command.text:
            raise ToolError("The command holds a null character. Leave it out.")
        mark = self.mark()
        script = remote_scripts.boot(
            command,
            self.inward(command.cwd),
            mark,
            environment={**command.environment, **QUIET, "TERM": "xterm" if command.pty else "dumb"},
            tell_base=command.hold_state and self.base is None,
        )
        running = FarRunning(self, mark, sink, after)
        loader = remote_scripts.packed(remote_scripts.loader(mark if command.pty else ""))
        client = Client(self.lead(loader, True, command.pty))
        # The script goes over the input: what stands in arguments is seen in the lists of processes of both sides.
        order = Command(text="", cwd="/", interactive=True, pty=command.pty)
        try:
            line = remote_scripts.line(script)
        except UnicodeEncodeError:
            raise ToolError("The command holds half a character (a lone surrogate). Write it anew.") from None
        await running.begin(await self.local.start(order, running.feed, client), command, line)
        self._running = [one for one in self._running if not one.over]
        self._running.append(running)
        return running

    async def run(
        self, script: str, sink: Sink, source: bytes = b"", *, seconds: float = 60.0, most: int = _MOST
    ) -> int:
        """Run a short script of ours there; its exit code. Raises `ToolError` when the far side does not do it.

        It may take so many `seconds`, and print so many bytes. What is left of one that was broken off is ended.
        """
        answer, mark = _Answer(sink, most), self.mark()
        try:
            return await self._run(script, mark, answer, source, seconds)
        finally:
            if answer.code is None and self.kept:
                self.own(self.end(mark, -1, -1, at_once=True), "what is left of a script")

    async def _run(self, script: str, mark: str, answer: "_Answer", source: bytes, seconds: float) -> int:
        client = Client(self.lead(remote_scripts.packed(remote_scripts.short(script, mark)), bool(source), False))
        order = Command(text="", cwd="/", interactive=bool(source))
        running = await self.local.start(order, Records(mark, answer.feed, answer.told).feed, client)
        ending = asyncio.ensure_future(running.wait())
        try:
            async with asyncio.timeout(seconds):
                if source:
                    with contextlib.suppress(ToolError):  # it ended early: its code tells
                        await _write(running, source)
                    running.close_input()
                await _first(ending, answer.flood, None)
        except TimeoutError:
            raise ToolError(f"{self.where} does not answer.") from None
        finally:
            ending.cancel()
            await running.stop()
        if answer.flood.done():
            raise ToolError(f"{self.where} sends more than it was asked for: over {answer.most} bytes.")
        if answer.code is None:
            raise ToolError(f"{self.where} cannot be used: {answer.early.text() or 'the connection was lost'}")
        return answer.code

    async def end(self, mark: str, top: int, above: int, *, at_once: bool = False) -> Stopped:
        """Have the far side end a run, and confirm it."""
        heard = bytearray()
        script = remote_scripts.end(mark, top, above, at_once=at_once)
        with contextlib.suppress(ToolError):
            await self._run(script, self.mark(), _Answer(heard.extend, _MOST), b"", _STOP)
        return Stopped.GONE if b"\x1e" + mark.encode() + b":G\x1f" in heard else Stopped.UNCERTAIN

    def own(self, work: Awaitable[object], name: str) -> asyncio.Task[None]:
        """Have work done that nobody waits for; it is over when `close` has returned."""

        async def done() -> None:
            await work

        task = asyncio.create_task(done(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End commands that are under way, and let go of the far side."""
        await asyncio.gather(*(one.kill() for one in self._running if not one.over))
        self._running.clear()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_STOP)
        for task in self._tasks:
            task.cancel()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with contextlib.suppress(ToolError):
                await keeper.write(b"bye\n")
            keeper.close_input()
            try:
                async with asyncio.timeout(_STOP):
                    await keeper.wait()
            except TimeoutError:
                pass
            finally:
                await keeper.stop()
        await self.local.close()


class FarRunning:
    """A command that runs elsewhere."""

    heard: None = None
    """Nobody sees what it reaches."""

    def __init__(self, far: Far, mark: str, sink: Sink, after: Callable[[], Awaitable[Sequence[str]]] | None) -> None:
        self._far = far
        self._mark = mark
        self._sink = sink
        self._after = after
        self._records = Records(mark, self._output, self._told)
        loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[bool] = loop.create_future()
        self._reported: asyncio.Future[tuple[int, int]] = loop.create_future()
        self._ended: asyncio.Future[Exit] = loop.create_future()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._early = Early()
        self._pids = (-1, -1)
        self._state: ShellState | None = None
        self._gone = False
        self._inner: LocalRunning | None = None
        self._interactive = False

    @property
    def pid(self) -> int:
        """The process id on the machine where it runs; also its process group, where bash runs it."""
        return self._pids[0]

    @property
    def over(self) -> bool:
        """Whether its end has been told, and nothing is known to be left of it."""
        return self._gone or (self._ended.done() and not self._ended.result().left_running)

    def feed(self, data: bytes) -> None:
        """Take what the client prints."""
        if not self._ended.done():
            self._records.feed(data)

    async def begin(self, inner: LocalRunning, command: Command, line: bytes) -> None:
        """Send the script, and wait until the far side runs it. Raises `ToolError` when it does not."""
        self._inner = inner
        ending = asyncio.ensure_future(inner.wait())
        try:
            with contextlib.suppress(TimeoutError, ToolError):  # what it said instead is told below
                async with asyncio.timeout(_CONNECT):
                    if command.pty:
                        await _first(ending, self._ready, None)
                    await _write(inner, line)
            if not command.interactive and not command.pty:
                inner.close_input()
            await _first(ending, self._begun, _CONNECT)
            self._check_begun(command.cwd)
        except BaseException:
            ending.cancel()
            self._far.own(self._abandon(inner), "abandoned command")
            raise
        self._far.missing.discard(command.cwd)
        self._interactive = command.interactive
        self._far.own(self._follow(inner, ending), "command elsewhere")

    async def wait(self) -> Exit:
        """Wait for its end, the last of its output, and what is done after each command."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> Stopped:
        """Have the far side end the whole tree. Cancelling this has it killed at once."""
        if self.over:
            return Stopped.GONE
        try:
            stopped = await self._far.end(self._mark, *self._targets())
        except asyncio.CancelledError:
            self._far.own(self.kill(), "kill of a command elsewhere")
            raise
        return await self._after_stop(stopped)

    async def kill(self) -> Stopped:
        """Have it killed at once."""
        return await self._after_stop(await self._far.end(self._mark, *self._targets(), at_once=True))

    async def write(self, data: bytes) -> None:
        """Send input."""
        if self._ended.done() or self._inner is None or not self._interactive:
            raise ToolError("Its input is closed.")
        await self._inner.write(data)

    def close_input(self) -> None:
        """End of input."""
        if self._inner is not None and not self._ended.done():
            self._inner.close_input()

    def _check_begun(self, cwd: str) -> None:
        if not self._begun.done():
            raise ToolError(f"{self._far.where} cannot be used: {self._early.text() or 'it does not answer'}")
        if not self._begun.result():
            self._far.missing.add(cwd)
            raise ToolError(f"The folder {cwd} does not exist there. Give a workdir that does.")

    def _targets(self) -> tuple[int, int]:
        """The process ids to go by; those of an ended command may be somebody else's by now."""
        return (-1, -1) if self._reported.done() else self._pids

    async def _after_stop(self, stopped: Stopped) -> Stopped:
        self._gone = stopped is Stopped.GONE
        if self._gone:
            await asyncio.wait({self._ended}, timeout=0.2)
        if self._inner is not None and not self._ended.done():
            self._far.own(self._inner.stop(), "client of a stopped command")
        return stopped

    async def _abandon(self, inner: LocalRunning) -> None:
        if self._pids[0] > 0:
            await self._far.end(self._mark, *self._targets(), at_once=True)
        await inner.stop()

    async def _follow(self, inner: LocalRunning, ending: "asyncio.Future[Exit]") -> None:
        """Wait for the end, and tell it."""
        await _first(ending, self._reported, None)
        if not ending.done():
            await asyncio.wait({ending}, timeout=_GRACE)
        self._records.flush()
        if self._reported.done():
            code, left = self._reported.result()
        elif self._gone:
            code, left = -signal.SIGKILL, 0
        else:
            self._sink(f"\n[{self._far.where}: the connection was lost; the command may still run]\n".encode())
            code, left = -signal.SIGHUP, 1
        try:
            await self._afterwards()
        finally:  # whatever becomes of that, the one who waits for the command hears of its end
            self._ended.set_result(Exit(code=code, state=self._state, left_running=bool(left)))
        if ending.done():
            return
        ending.cancel()
        await inner.stop()

    async def _afterwards(self) -> None:
        if self._after is None:
            return
        try:
            lines = await self._after()
        except (ToolError, OSError) as error:
            lines = [str(error)]
        for line in lines:
            self._sink(f"\n[{line}]\n".encode("utf-8", "replace"))

    def _output(self, data: bytes) -> None:
        if self._begun.done():
            self._sink(data)
        else:
            self._early.feed(data)

    def _told(self, letter: str, data: bytes) -> None:
        """Take a record. One that does not say what it should, which only a far side that lies sends, is nothing."""
        with contextlib.suppress(ValueError):
            self._believed(letter, data)

    def _believed(self, letter: str, data: bytes) -> None:
        if letter == "R" and not self._ready.done():
            self._ready.set_result(None)
        elif letter in ("P", "F"):
            self._begins(letter, data)
        elif letter == "B":
            block = b64decode(data).decode("utf-8", "surrogateescape")
            self._far.base = {
                name: value for name, _, value in (one.partition("=") for one in block.split("\0")) if name
            }
        elif letter == "S" and self._far.base is not None:
            self._state = self._held(data)
        elif letter == "X" and not self._reported.done():
            code, left = two_numbers(data)
            self._reported.set_result((by_signal(code & 0xFF), left))

    def _begins(self, letter: str, data: bytes) -> None:
        if self._begun.done():
            return
        if letter == "P":
            self._pids = two_numbers(data)
        self._begun.set_result(letter == "P")

    def _held(self, data: bytes) -> ShellState | None:
        state = shell_state(b64decode(data), self._far.base or {})
        if state is None:
            return None
        return ShellState(
            cwd=self._far.outward(state.cwd),
            environment={name: value for name, value in state.environment.items() if name not in _BEYOND},
            unset=state.unset - _BEYOND,
        )


class _Answer:
    """What a short script of ours prints, as long as that is no flood, and its exit code."""

    def __init__(self, sink: Sink, most: int) -> None:
        self.early = Early()
        self.code: int | None = None
        self.flood: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sink = sink
        self.most = self._room = most
        self._begun = False

    def feed(self, data: bytes) -> None:
        """Take what is printed."""
        if not self._begun:
            self.early.feed(data)
            return
        self._room -= len(data)
        if self._room >= 0:
            self._sink(data)
        elif not self.flood.done():
            self.flood.set_result(None)

    def told(self, letter: str, data: bytes) -> None:
        """Take a record."""
        self._begun = True
        if letter == "X":
            with contextlib.suppress(ValueError):
                self.code = two_numbers(data)[0]


async def _write(running: LocalRunning, data: bytes) -> None:
    """Send much, in pieces: what is left of a piece is copied whenever a part of it was taken."""
    for at in range(0, len(data), _PIECE):
        await running.write(data[at : at + _PIECE])


async def _first(one: asyncio.Future[_One], other: asyncio.Future[_Other], seconds: float | None) -> None:
    """Wait until one of two is done, neither of which is cancelled by that."""
    both: set[asyncio.Future[_One] | asyncio.Future[_Other]] = {one, other}
    await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
