"""Starts commands under supervisors: this process's side of `supervisor_main.py`."""

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

_HELPER_PROGRAM = "import sys; sys.path.append(sys.argv.pop()); import supervisor_main; supervisor_main.main()"
"""The helper's program. It is imported rather than run, so that its compiled form is used; `-I -S` keep
all foreign code out.
"""
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH")
"""What the helper sees of the environment: commands can read that of their ancestors, and ours holds keys."""
_START_SECONDS = 10.0
"""Seconds that the helper may take to start, and a supervisor to start its command."""
_WAKE_DELAYS = (0.05, 0.2, 1.0, 3.0)
"""Seconds after a launch request at which its supervisor is sent CONT: the command may stop it before it answers."""
_KILL_SECONDS = 0.2
"""Seconds that a supervisor may take to kill; then Hermes kills instead, repeatedly at doubled intervals."""
_MAX_KILL_INTERVAL = 4.0
_MAX_IDLE = 4
"""The most supervisors kept without a command, a megabyte each."""
_RECORD_SIZE = 5
_RETRY_SECONDS = 0.005


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """What to run, and the handles that it gets. `source` None stands for no input at all.

    `extra_handles` are found by the command at `supervisor_main.EXTRA_HANDLES` and following; it is put
    into `namespaces`, in that order, and cannot be started without a supervisor then. `order` is the handle of
    what `landlock_exec.py` is to do, which a supervisor does itself instead of running `arguments`; 0 for none.
    """

    folder: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    output: int
    source: int | None = None
    state_handle: int | None = None
    extra_handles: Sequence[int] = ()
    namespaces: Sequence[int] = ()
    order: int = 0


class Supervisor(Struct, frozen=True):
    """A supervisor, our end of its channel, and the helper that it came from."""

    channel: socket.socket
    process: process_tree.ProcessIdentity
    helper: subprocess.Popen[bytes]

    def wake(self) -> None:
        """Send CONT to it: a command can stop the process above it."""
        for one in process_tree.filter_alive({self.process}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one.pid, signal.SIGCONT)

    def kill_descendants(self) -> None:
        """Kill its descendants in its place."""
        for one in process_tree.filter_alive({self.process}):
            supervisor_main.kill_descendants(one.pid)


class Supervisors:
    """Starts commands under supervisors. One serves a whole process; it costs nothing before the first command.

    Where supervisors are impossible (not Linux, no subreaper) `start` returns None from then on. A helper that dies is
    replaced at the next command; running commands have supervisors of their own. The helper may take
    `supervisor_seconds` for a supervisor; then another helper is tried.
    """

    def __init__(self, environment: Mapping[str, str], *, supervisor_seconds: float = 3.0) -> None:
        self._supervisor_seconds = supervisor_seconds
        self._environment = {name: environment[name] for name in _KEPT_VARIABLES if name in environment}
        self._is_possible = sys.platform == "linux" and bool(sys.executable)
        self._launch_lock = asyncio.Lock()
        self._helper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._idle: list[Supervisor] = []
        """Supervisors without a command."""

    async def is_available(self) -> bool:
        """Return whether supervisors work here; the helper is started to find out."""
        return await self._connect_helper() is not None

    async def start(self, request: LaunchRequest, held_handles: Sequence[int] = ()) -> "SupervisedProcess | None":
        """Start a command; its supervisor keeps `held_handles` open while anything of the command lives.

        Returns None where there are no supervisors. Raises OSError and ValueError as `subprocess.Popen` does,
        ToolError when the supervisor does not answer. Cancelling this ends what was started.
        """
        packed = _pack_request(request)
        handles = [one for one in (request.output, request.source, request.state_handle) if one is not None]
        handles += (*request.extra_handles, *request.namespaces)
        try:
            async with asyncio.timeout(_START_SECONDS):
                while (chosen := await self._get_supervisor()) is not None:
                    with contextlib.suppress(ConnectionError):  # killed before it had read the order: to another one
                        return await self._launch_command(chosen, [*handles, *held_handles], packed)
                return None
        except TimeoutError:
            raise ToolError("The command could not be started: its warden does not answer.") from None

    async def _launch_command(self, supervisor: Supervisor, handles: list[int], packed: bytes) -> "SupervisedProcess":
        """Have a supervisor run a command and wait until it runs.

        Raises as `start`; ConnectionError: the command did not begin.
        """
        channel = supervisor.channel
        with contextlib.ExitStack() as undo:
            undo.enter_context(channel)
            undo.callback(supervisor.kill_descendants)
            socket.send_fds(channel, [bytes([supervisor_main.LAUNCH])], handles)
            await asyncio.get_running_loop().sock_sendall(channel, packed)
            with contextlib.ExitStack() as answered:
                for nap in _WAKE_DELAYS:
                    answered.callback(asyncio.get_running_loop().call_later(nap, supervisor.wake).cancel)
                kind, number = await _read_answer(channel)
            undo.pop_all()
        if kind == b"S":
            return SupervisedProcess(supervisor, number, self._return_supervisor)
        self._return_supervisor(supervisor)
        raise OSError(number, os.strerror(number)) if number else ValueError

    async def close(self) -> None:
        """End the helper and idle supervisors. Supervisors of commands that still run stay with them."""
        control = self._control
        self._is_possible = False
        if control is not None:
            with contextlib.suppress(OSError, TimeoutError):
                self._wake_helper()
                control.send(supervisor_main.BYE)
                async with asyncio.timeout(1):
                    await asyncio.get_running_loop().sock_recv(control, 1)
        self._drop_helper()

    def _return_supervisor(self, supervisor: Supervisor) -> None:
        """Keep a supervisor whose command is over for the next one."""
        if self._control is not None and len(self._idle) < _MAX_IDLE:
            self._idle.append(supervisor)
        else:
            supervisor.channel.close()

    async def _get_supervisor(self) -> Supervisor | None:
        """Return a supervisor without a command, which has answered; None where there are no supervisors.

        Nothing is requested before that answer, so that a retry never runs a command twice.
        """
        if self._idle:
            return self._idle.pop()  # one that another command has stopped is woken when it does not answer
        patience: float | None = self._supervisor_seconds
        while (channel := await self._request_supervisor()) is not None:
            helper = self._helper
            assert helper is not None
            try:
                async with asyncio.timeout(patience):
                    if (entry := await _read_hello(channel)) is not None:
                        return Supervisor(channel, entry, helper)
            except TimeoutError:
                patience = None  # the second may take what is left
                if helper is self._helper:
                    self._drop_helper()
        return None

    async def _request_supervisor(self) -> socket.socket | None:
        """Ask the helper for a supervisor and return our end of its channel; None where there are no supervisors."""
        with contextlib.ExitStack() as undo:
            channel, supervisor_end = socket.socketpair()
            undo.enter_context(channel)
            channel.setblocking(False)
            with supervisor_end:
                if not await self._send_to_helper(supervisor_main.NEW_SUPERVISOR, [supervisor_end.fileno()]):
                    return None
            undo.pop_all()
        return channel

    async def _send_to_helper(self, what: bytes, handles: list[int]) -> bool:
        """Send a request to the helper, which is started first if necessary. False where there are no supervisors."""
        while (control := await self._connect_helper()) is not None:
            try:
                self._wake_helper()
                socket.send_fds(control, [what], handles)
                return True
            except BlockingIOError:
                await asyncio.sleep(_RETRY_SECONDS)
            except ConnectionError:  # killed since: what was asked of it before runs on under its own warden
                if control is self._control:
                    self._drop_helper()
        return False

    async def _connect_helper(self) -> socket.socket | None:
        """Return the socket of a helper that is ready, or None."""
        async with self._launch_lock:
            if self._control is None and self._is_possible:
                self._control = await self._start_helper()
            return self._control

    async def _start_helper(self) -> socket.socket | None:
        """Start the helper and wait until it is ready; None when it cannot be started."""
        own_end, helper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own_end.setblocking(False)
        with contextlib.ExitStack() as stack:
            stack.callback(self._drop_helper)
            stack.enter_context(own_end)
            with helper_end:
                try:
                    self._helper = self._spawn_helper(helper_end)
                except OSError:  # no process can be made just now
                    return None
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_START_SECONDS):
                    if await asyncio.get_running_loop().sock_recv(own_end, 1):
                        stack.pop_all()
                        return own_end
        self._is_possible = False
        return None

    def _spawn_helper(self, helper_end: socket.socket) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER_PROGRAM, str(Path(supervisor_main.__file__).parent)],
            cwd="/",
            env=self._environment,
            stdin=helper_end.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _wake_helper(self) -> None:
        """Send CONT to the helper: a command can stop it."""
        if self._helper is not None:
            self._helper.send_signal(signal.SIGCONT)

    def _drop_helper(self) -> None:
        """Forget the helper, which has ended or is ended here."""
        helper, self._helper = self._helper, None
        if self._control is not None:
            self._control.close()
            self._control = None
        for free in self._idle:
            free.wake()
            free.channel.close()
        self._idle.clear()
        if helper is not None:
            helper.kill()
            helper.wait()


class SupervisedProcess:
    """A command under its supervisor.

    `code` is how the shell ended, negative for a signal; None while it runs.
    """

    def __init__(self, supervisor: Supervisor, pid: int, return_supervisor: Callable[[Supervisor], None]) -> None:
        self.pid = pid
        self.code: int | None = None
        self._supervisor = supervisor
        self._socket: socket.socket | None = supervisor.channel
        self._return_supervisor = return_supervisor
        self._unparsed = b""
        self._gone_event = asyncio.Event()
        self._is_uncertain = False
        """Whether no process is left that could know what lives."""
        self._on_change: Callable[[], None] = lambda: None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(supervisor.channel, self._read_records)

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set the callback that is called when the shell has ended, and when nothing is left."""
        self._on_change = callback

    def is_alive(self) -> bool:
        """Return whether the shell or anything that it started still lives, or may do."""
        return self._is_uncertain or not self._gone_event.is_set()

    async def send_signal(self, signum: signal.Signals) -> None:
        """Signal everything that the command started, wherever it went. KILL is repeated until nothing is left."""
        self._send_order(signum)

    def kill(self) -> None:
        """Kill everything, without waiting."""
        self._send_order(signal.SIGKILL)

    async def wait_until_gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most this many seconds; return whether that was reached."""
        # Not `asyncio.timeout`: before Python 3.11.3 one that expires while its task is being cancelled cancels again.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone_event.wait(), seconds)
        return not self.is_alive()

    def release(self) -> None:
        """Let the processes that an ended shell left live on without supervision; a running command is ended."""
        if self.code is not None:
            self._send_order(supervisor_main.RELEASE)
        if (channel := self._detach_channel()) is not None:
            self._supervisor.wake()
            channel.close()
        self._gone_event.set()

    def _send_order(self, order: int) -> None:
        if self._socket is not None:
            self._supervisor.wake()
            with contextlib.suppress(OSError):
                self._socket.send(bytes([order]))
            if order == signal.SIGKILL:
                self._loop.call_later(_KILL_SECONDS, self._repeat_kill, 2 * _KILL_SECONDS)

    def _repeat_kill(self, nap: float) -> None:
        """Kill in the supervisor's place when it does not. Not in a thread: it gets no other command meanwhile."""
        if self._socket is not None:
            self._supervisor.kill_descendants()
            if nap < _MAX_KILL_INTERVAL:
                self._loop.call_later(nap, self._repeat_kill, 2 * nap)

    def _detach_channel(self) -> socket.socket | None:
        channel, self._socket = self._socket, None
        if channel is not None:
            self._loop.remove_reader(channel)
        return channel

    def _read_records(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._unparsed += data
        while len(self._unparsed) >= _RECORD_SIZE:
            kind, number = _parse_record(self._unparsed)
            self._unparsed = self._unparsed[_RECORD_SIZE:]
            if kind == b"X":
                self.code = number
            elif kind == b"G" and self._detach_channel() is not None:
                self._return_supervisor(self._supervisor)
                self._gone_event.set()
        if not data:
            self._on_supervisor_lost()
        self._on_change()

    def _on_supervisor_lost(self) -> None:
        """Handle the death of the supervisor.

        The helper ends what it supervised; while the shell lived, this process does so too. With the helper
        killed as well, what left the shell's session and descent is found by nobody.
        """
        if (channel := self._detach_channel()) is not None:
            channel.close()
        if self.code is None:
            self.code = -signal.SIGKILL
            kill_future = self._loop.run_in_executor(None, process_tree.kill_until_gone, self.pid)
            kill_future.add_done_callback(self._on_killed)
        else:
            self._is_uncertain = self._has_helper_ended()
            self._gone_event.set()

    def _on_killed(self, kill_future: asyncio.Future[bool]) -> None:
        self._is_uncertain = self._has_helper_ended() or not kill_future.result()
        self._gone_event.set()
        self._on_change()

    def _has_helper_ended(self) -> bool:
        """Return whether the helper has ended; one that lives is sent CONT."""
        self._supervisor.helper.send_signal(signal.SIGCONT)
        return self._supervisor.helper.poll() is not None


def _pack_request(request: LaunchRequest) -> bytes:
    """Encode the request as the supervisor reads it. Raises ValueError for text that no program can be given."""
    data = marshal.dumps(
        (
            request.source is not None,
            request.state_handle is not None,
            len(request.extra_handles),
            len(request.namespaces),
            request.order,
            os.fsencode(request.folder),
            [os.fsencode(one) for one in request.arguments],
            {os.fsencode(name): os.fsencode(value) for name, value in request.environment.items()},
        )
    )
    return len(data).to_bytes(4, "little") + data


async def _read_hello(channel: socket.socket) -> process_tree.ProcessIdentity | None:
    """Return which process holds the other end; None, with the channel closed, when it was killed.

    Raises OSError when it cannot be made.
    """
    with contextlib.ExitStack() as undo:
        undo.enter_context(channel)
        with contextlib.suppress(ToolError, ConnectionError):
            kind, number = await _read_answer(channel)
            if kind == b"E":
                raise OSError(number, os.strerror(number))
            if (entry := await asyncio.to_thread(process_tree.identify_process, number)) is not None:
                undo.pop_all()
            return entry
    return None


async def _read_answer(channel: socket.socket) -> tuple[bytes, int]:
    """Return the first record of a supervisor, no more: what follows is for the `SupervisedProcess`.

    The kernel tells an end with the request unread (ConnectionResetError) from one after it was read; then
    it is unknown how far the command came.
    """
    data = b""
    while len(data) < _RECORD_SIZE:
        more = await asyncio.get_running_loop().sock_recv(channel, _RECORD_SIZE - len(data))
        if not more:
            raise ToolError("The warden of the command was killed as it started. Look what was done, and try again.")
        data += more
    return _parse_record(data)


def _parse_record(data: bytes) -> tuple[bytes, int]:
    return data[:1], int.from_bytes(data[1:_RECORD_SIZE], "little", signed=True)
