"""Commands under wardens: this process's side of `supervisor_main.py`."""

import asyncio
import contextlib
import marshal
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution import process_tree, supervisor_main

_PROGRAM = "import sys; sys.path.append(sys.argv.pop()); import supervisor_main; supervisor_main.main()"
"""Imported rather than run, so that its compiled form is used; `-I -S` keep everything of anybody else's out of it."""
_KEPT = ("PATH", "LD_LIBRARY_PATH")
"""What the helper sees of the environment: commands can read that of their ancestors, and ours holds keys."""
_PATIENCE = 10.0
"""Seconds that the helper may take to start, and a warden to start its command."""
_ANSWER = 3.0
"""Seconds that the helper may take for a warden; then another helper is tried."""
_NUDGES = (0.05, 0.2, 1.0, 3.0)
"""Seconds after an order at which its warden is made to go on: the command may stop it before it could answer."""
_INSIST = 0.2
"""Seconds that a warden may take to kill; then it is done in its place, again and again at doubled distances."""
_INSIST_LONGEST = 4.0
_IDLE = 2
"""Wardens kept without a command, a megabyte each."""
_RECORD = 5
_QUEUE_NAP = 0.005


class Order(Struct, frozen=True, kw_only=True):
    """What to run, and the handles it gets. `source` None stands for no input at all.

    `others` are found by the command at `warden.OTHERS` and following; it is put into the namespaces `spaces`, in that
    order, and cannot be started without a warden then.
    """

    folder: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    output: int
    source: int | None = None
    note: int | None = None
    others: Sequence[int] = ()
    spaces: Sequence[int] = ()


class Warden(Struct, frozen=True):
    """A warden, the near end of its leash, and the helper that it came from."""

    leash: socket.socket
    entry: process_tree.Entry
    helper: subprocess.Popen[bytes]

    def wake(self) -> None:
        """Have it go on: a command can stop the process above it."""
        for one in process_tree.alive({self.entry}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGCONT)

    def end_below(self) -> None:
        """Kill in its place."""
        for one in process_tree.alive({self.entry}):
            supervisor_main.end_below(one.pid)


class Wardens:
    """Starts commands under wardens. One serves a whole process; it costs nothing before the first command.

    Where there can be none (not Linux, no subreaper) `start` says so, once and for all. A helper that dies is replaced
    at the next command; those that run have wardens of their own.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {name: environment[name] for name in _KEPT if name in environment}
        self._possible = sys.platform == "linux" and bool(sys.executable)
        self._launching = asyncio.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: list[Warden] = []
        """Those without a command."""

    @property
    def helper(self) -> int | None:
        """The helper's process id; None while there is none."""
        return self._helper.pid if self._helper is not None else None

    async def ready(self) -> bool:
        """Whether there are wardens here; the helper is started to know it."""
        return await self._reached() is not None

    async def start(self, order: Order, held: Sequence[int] = ()) -> "Leash | None":
        """Start a command; its warden keeps `held` open while anything of the command lives. None: no wardens here.

        Raises OSError and ValueError as `subprocess.Popen` does, ToolError when the warden does not answer. Cancelling
        this ends what was started.
        """
        packed = _packed(order)
        handles = [one for one in (order.output, order.source, order.note) if one is not None]
        handles += (*order.others, *order.spaces)
        try:
            async with asyncio.timeout(_PATIENCE):
                while (chosen := await self._warden()) is not None:
                    with contextlib.suppress(ConnectionError):  # killed before it had read the order: to another one
                        return await self._run(chosen, [*handles, *held], packed)
                return None
        except TimeoutError:
            raise ToolError("The command could not be started: its warden does not answer.") from None

    async def _run(self, chosen: Warden, handles: list[int], packed: bytes) -> "Leash":
        """Order a command of a warden and wait until it runs. Raises as `start`; ConnectionError: it did not begin."""
        leash = chosen.leash
        with contextlib.ExitStack() as undo:
            undo.enter_context(leash)
            undo.callback(chosen.end_below)
            socket.send_fds(leash, [bytes([supervisor_main.ORDER])], handles)
            await asyncio.get_running_loop().sock_sendall(leash, packed)
            with contextlib.ExitStack() as answered:
                for nap in _NUDGES:
                    answered.callback(asyncio.get_running_loop().call_later(nap, chosen.wake).cancel)
                kind, number = await _answer(leash)
            undo.pop_all()
        if kind == b"S":
            return Leash(chosen, number, self._take_back)
        self._take_back(chosen)
        raise OSError(number, os.strerror(number)) if number else ValueError

    async def close(self) -> None:
        """End the helper and idle wardens. Wardens of commands that are still under way stay with them."""
        control = self._control
        self._possible = False
        if control is not None:
            with contextlib.suppress(OSError, TimeoutError):
                self._wake_helper()
                control.send(supervisor_main.BYE)
                async with asyncio.timeout(1):
                    await asyncio.get_running_loop().sock_recv(control, 1)
        self._drop()

    def _take_back(self, free: Warden) -> None:
        """Keep a warden whose command is over for the next one."""
        if self._control is not None and len(self._idle) < _IDLE:
            self._idle.append(free)
        else:
            free.leash.close()

    async def _warden(self) -> Warden | None:
        """A warden without a command, which has answered; None: no wardens here.

        Nothing is ordered before that answer, so that trying again never runs a command twice.
        """
        if self._idle:
            free = self._idle.pop()
            free.wake()
            return free
        patience: float | None = _ANSWER
        while (leash := await self._leash()) is not None:
            helper = self._helper
            assert helper is not None
            try:
                async with asyncio.timeout(patience):
                    if (entry := await _hello(leash)) is not None:
                        return Warden(leash, entry, helper)
            except TimeoutError:
                patience = None  # the second may take what is left
                if helper is self._helper:
                    self._drop()
        return None

    async def _leash(self) -> socket.socket | None:
        """The leash of a warden that the helper was asked for; None: no wardens here."""
        with contextlib.ExitStack() as undo:
            leash, far = socket.socketpair()
            undo.enter_context(leash)
            leash.setblocking(False)
            with far:
                if not await self._send(supervisor_main.WARDEN, [far.fileno()]):
                    return None
            undo.pop_all()
        return leash

    async def _send(self, what: bytes, handles: list[int]) -> bool:
        """Tell the helper, which is started first when there is none (any more). False: no wardens here."""
        while (control := await self._reached()) is not None:
            try:
                self._wake_helper()
                socket.send_fds(control, [what], handles)
                return True
            except BlockingIOError:
                await asyncio.sleep(_QUEUE_NAP)
            except ConnectionError:  # killed since: what was asked of it before runs on under its own warden
                if control is self._control:
                    self._drop()
        return False

    async def _reached(self) -> socket.socket | None:
        """The socket of a helper that is ready."""
        async with self._launching:
            if self._control is None and self._possible:
                self._control = await self._launched()
            return self._control

    async def _launched(self) -> socket.socket | None:
        """Start the helper and wait until it is ready; None when it cannot be."""
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        near.setblocking(False)
        with contextlib.ExitStack() as stack:
            stack.callback(self._drop)
            stack.enter_context(near)
            with far:
                try:
                    self._helper = self._launch(far)
                except OSError:  # no process can be made just now
                    return None
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    if await asyncio.get_running_loop().sock_recv(near, 1):
                        stack.pop_all()
                        return near
        self._possible = False
        return None

    def _launch(self, far: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(Path(supervisor_main.__file__).parent)],
            cwd="/",
            env=self._environment,
            stdin=far.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wake_helper(self) -> None:
        """Have the helper go on: a command can stop it."""
        if self._helper is not None:
            self._helper.send_signal(signal.SIGCONT)

    def _drop(self) -> None:
        """Forget the helper, which has ended or is made to."""
        helper, self._helper = self._helper, None
        if self._control is not None:
            self._control.close()
            self._control = None
        for free in self._idle:
            free.wake()
            free.leash.close()
        self._idle.clear()
        if helper is not None:
            helper.kill()
            helper.wait()


class Leash:
    """A command under its warden. `code` is how the shell ended, negative for a signal; None while it runs."""

    def __init__(self, held: Warden, pid: int, take_back: Callable[[Warden], None]) -> None:
        self.pid = pid
        self.code: int | None = None
        self._warden = held
        self._socket: socket.socket | None = held.leash
        self._take_back = take_back
        self._rest = b""
        self._over = asyncio.Event()
        self._unsure = False
        """Nobody is left who could know what lives."""
        self._changed: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(held.leash, self._read)

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when the shell has ended, and when nothing is left."""
        self._changed = changed

    def left(self) -> bool:
        """Whether the shell or anything that it started still lives, or may do."""
        return self._unsure or not self._over.is_set()

    async def signal(self, signum: signal.Signals) -> None:
        """Signal everything that the command started, wherever it went. KILL is repeated until nothing is left."""
        self._tell(signum)

    def kill(self) -> None:
        """Kill everything, without waiting."""
        self._tell(signal.SIGKILL)

    async def gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        return not self.left()

    def release(self) -> None:
        """Let what an ended shell left live on without us; a command that is still under way is ended."""
        if self.code is not None:
            self._tell(supervisor_main.RELEASE)
        self._warden.wake()
        if (leash := self._let_go()) is not None:
            leash.close()
        self._over.set()

    def _tell(self, order: int) -> None:
        if self._socket is not None:
            self._warden.wake()
            with contextlib.suppress(OSError):
                self._socket.send(bytes([order]))
            if order == signal.SIGKILL:
                self._loop.call_later(_INSIST, self._insist, 2 * _INSIST)

    def _insist(self, nap: float) -> None:
        """Kill in the warden's place when it does not. Not in a thread: it is never given another command meanwhile."""
        if self._socket is not None:
            self._warden.end_below()
            if nap < _INSIST_LONGEST:
                self._loop.call_later(nap, self._insist, 2 * nap)

    def _let_go(self) -> socket.socket | None:
        leash, self._socket = self._socket, None
        if leash is not None:
            self._loop.remove_reader(leash)
        return leash

    def _read(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._rest += data
        while len(self._rest) >= _RECORD:
            kind, number = _record(self._rest)
            self._rest = self._rest[_RECORD:]
            if kind == b"X":
                self.code = number
            elif kind == b"G" and self._let_go() is not None:
                self._take_back(self._warden)
                self._over.set()
        if not data:
            self._lost()
        self._changed()

    def _lost(self) -> None:
        """The warden was killed. The helper ends what it stood over; while the shell lived, we do so too.

        With the helper killed as well, what left the shell's session and descent is found by nobody.
        """
        if (leash := self._let_go()) is not None:
            leash.close()
        if self.code is None:
            self.code = -signal.SIGKILL
            ending = self._loop.run_in_executor(None, process_tree.end, self.pid)
            ending.add_done_callback(self._finished)
        else:
            self._unsure = self._helper_ended()
            self._over.set()

    def _finished(self, ending: asyncio.Future[bool]) -> None:
        self._unsure = self._helper_ended() or not ending.result()
        self._over.set()
        self._changed()

    def _helper_ended(self) -> bool:
        """Whether the helper has ended; one that lives is made to go on."""
        self._warden.helper.send_signal(signal.SIGCONT)
        return self._warden.helper.poll() is not None


def _packed(order: Order) -> bytes:
    """The order as the warden reads it. Raises ValueError for text that no program can be given."""
    data = marshal.dumps(
        (
            order.source is not None,
            order.note is not None,
            len(order.others),
            len(order.spaces),
            os.fsencode(order.folder),
            [os.fsencode(one) for one in order.arguments],
            {os.fsencode(name): os.fsencode(value) for name, value in order.environment.items()},
        )
    )
    return len(data).to_bytes(4, "little") + data


async def _hello(leash: socket.socket) -> process_tree.Entry | None:
    """Who holds the other end; None, with the leash closed, when it was killed. Raises OSError: it cannot be made."""
    with contextlib.ExitStack() as undo:
        undo.enter_context(leash)
        with contextlib.suppress(ToolError, ConnectionError):
            kind, number = await _answer(leash)
            if kind == b"E":
                raise OSError(number, os.strerror(number))
            if (entry := await asyncio.to_thread(process_tree.entry, number)) is not None:
                undo.pop_all()
            return entry
    return None


async def _answer(leash: socket.socket) -> tuple[bytes, int]:
    """The first record of a warden, no more: what follows is for the `Leash`.

    The kernel tells an end with the order unread (ConnectionResetError) from one after it was read; then nobody knows
    how far the command came.
    """
    data = b""
    while len(data) < _RECORD:
        more = await asyncio.get_running_loop().sock_recv(leash, _RECORD - len(data))
        if not more:
            raise ToolError("The warden of the command was killed as it started. Look what was done, and try again.")
        data += more
    return _record(data)


def _record(data: bytes) -> tuple[bytes, int]:
    return data[:1], int.from_bytes(data[1:_RECORD], "little", signed=True)
