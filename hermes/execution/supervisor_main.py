"""The program that supervises commands, so that none of their processes escapes or outlives Hermes.

It runs as a process of its own with the standard library only, and imports little: it starts in about 10 ms, once.
`supervisor.py` is its other side. Two kinds of process run this file:

- The *helper*, one for each Hermes. Over its standard input, a `SOCK_SEQPACKET` socket, it gets the far
ends of channels, one a packet, and forks a supervisor for each.
- A *supervisor*, for one command at a time. Over its channel, a stream socket, it is told what to run,
reports how that goes, and takes signal numbers for everything that the command started. It is a
subreaper (prctl(2)): whatever the command's processes do, fork twice, begin a session, clear their
environment, they stay its descendants. When there are none left it may be given the next command, which
saves a fork. An end of the channel without a word means that Hermes died: then it ends them all before
it leaves.

On the channel, to the supervisor: `LAUNCH` with handles beside it (output, input if any, state file if any, what else
the command gets, the namespaces it is put into, and what the supervisor is to hold while anything of the command
lives), 4 bytes of length and a marshalled (has input, has state file, number of extra handles, number of namespaces,
handle of an order, folder, arguments, environment); single bytes, each a signal's number or `RELEASE`. An order is for
`sandbox/landlock_exec.py` and says what to run: a fork that carries it out costs a tenth of a new interpreter.

From it, 5 bytes each, a letter and a number: `W` a supervisor is there (its process id), `S` started (process id), `E`
not started (error number, 0 for an unusable text), `X` the shell has ended (its code), `G` nothing is left.
"""

import _signal  # type: ignore[import-not-found]
import _socket  # half of the start-up is saved by not importing what `socket` and `signal` lay over these
import contextlib
import fcntl
import functools
import gc
import marshal
import os
import select
import time
from collections.abc import Callable, Iterator
from types import ModuleType

NEW_SUPERVISOR = b"w"
BYE = b"bye"
LAUNCH = 0
RELEASE = 255
NOTE = 3
"""The handle at which a command finds its note."""
EXTRA_HANDLES = 4
"""The first of the handles at which a command finds what else it gets."""

_GRACE_SECONDS = 0.5
"""Seconds between TERM and KILL for what a dead Hermes left."""
_GIVE_UP_SECONDS = 5.0
"""Seconds of killing in vain (a process of another user, one stuck in the kernel) after which a dead Hermes' supervisor
lets go of what it holds.
"""
_RELEASED_CODE = 3
"""Exit code of a supervisor that left living processes on purpose."""
_SUBREAPER, _NAME = 36, 15
_PROCESS_NAME = b"warden"
_PROCESS_TITLE = b"warden of commands"
_IGNORED_SIGNALS = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGTERM,
    _signal.SIGPIPE,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGXFSZ,
)
_KILL_INTERVAL = 0.002
_FIRST_FREE_HANDLE = 64
"""The lowest number to which handles are moved that could collide with those that a command gets."""
_NEVER = float("inf")
_Environment = dict[bytes, bytes]


def main() -> None:
    """Serve as the helper until Hermes says goodbye or dies."""
    if _prctl(_SUBREAPER, 1) or not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        os._exit(1)
    _prctl(_NAME, _PROCESS_NAME)
    _set_process_title()
    for number in _signal.valid_signals() - {_signal.SIGKILL, _signal.SIGSTOP}:
        _signal.signal(number, _signal.SIG_IGN if number in _IGNORED_SIGNALS else _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    gc.disable()
    gc.freeze()  # so that forks share the pages
    control = _socket.socket(fileno=0)
    control.send(b"+")
    _Helper(control).run()
    os._exit(0)


def _prctl(option: int, value: int | bytes) -> int:
    import ctypes  # here, since Hermes reads this file for its constants only

    return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))


def _set_process_title() -> None:
    """Overwrite the command line of this process: a stray `pkill -f` of Hermes or of Python must not hit supervisors.

    Fields: arg_start and arg_end of proc(5).
    """
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        first, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    if first and end - first > len(_PROCESS_TITLE):
        ctypes.memset(first, 0, end - first)
        ctypes.memmove(first, _PROCESS_TITLE, len(_PROCESS_TITLE))


class _Helper:
    def __init__(self, control: _socket.socket) -> None:
        self._control = control
        self._supervisors: set[int] = set()
        self._released: set[int] = set()
        """Children that are no supervisors and may live on: what released commands left."""
        self._is_sweeping = False

    def run(self) -> None:
        """Fork supervisors as asked; end what a killed one leaves; at the end of Hermes wait for all of them."""
        wake = _open_child_wakeup()
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(wake, select.POLLIN)
        give_up = None
        while give_up is None or (self._supervisors and time.monotonic() < give_up):
            for handle, _ in poll.poll(5 if self._is_sweeping else None):
                if handle == wake:
                    os.read(wake, 512)
                    self._reap_children()
                elif not self._serve_request():
                    poll.unregister(0)
                    self._is_sweeping = True
                    give_up = time.monotonic() + 2 * _GIVE_UP_SECONDS
            if self._is_sweeping:
                self._reap_children()
                orphans = self._find_orphans()
                signal_trees(orphans, _signal.SIGKILL)
                self._is_sweeping = bool(orphans) or give_up is not None

    def _serve_request(self) -> bool:
        """Take one request; return False when Hermes is gone."""
        try:
            data, handles = _receive_message(self._control, 16)
        except OSError:
            return False
        if data == BYE:
            os._exit(0)
        for channel in handles:
            self._fork_supervisor(channel)
            os.close(channel)
        return bool(data)

    def _fork_supervisor(self, channel: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            _send_record(channel, b"E", error.errno or 0)
            return
        if pid:
            self._supervisors.add(pid)
            return
        code = 1
        try:
            os.dup2(1, 0)  # the null device: Hermes must see it when the helper itself dies
            _prctl(_SUBREAPER, 1)
            code = _Supervisor(channel).run()
        finally:
            os._exit(code)

    def _reap_children(self) -> None:
        violent = False
        released = False
        for pid, code in _reap_ended():
            if pid in self._supervisors:
                self._supervisors.discard(pid)
                violent |= code < 0
                released |= code == _RELEASED_CODE
            else:
                self._released.discard(pid)
                released = True
        if violent:
            self._is_sweeping = True
        elif released and not self._is_sweeping:
            self._released |= set(self._find_orphans())

    def _find_orphans(self) -> list[int]:
        """Return the children that no supervisor owns, and that were not released on purpose."""
        return [pid for pid in list_children(os.getpid()) if pid not in self._supervisors and pid not in self._released]


class _Supervisor:
    """Supervises one command after another."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._wake = _open_child_wakeup()
        self._shell_pid = 0
        self._kill_at = self._give_up = _NEVER
        self._interval = _KILL_INTERVAL

    def run(self) -> int:
        """Serve until Hermes has no more use for it, or has died; return the exit code."""
        channel = _socket.socket(fileno=self._channel)
        _send_record(self._channel, b"W", os.getpid())
        while True:
            kind, handles = _receive_message(channel, 1)
            if not kind:
                return 0
            if kind[0] != LAUNCH:  # a signal that came when nothing was left to get it
                continue
            if self._start_command(handles) and (code := self._watch_command()) is not None:
                return code
            for handle in handles:
                os.close(handle)

    def _start_command(self, handles: list[int]) -> bool:
        """Run a command as requested; this closes the handles that were the command's own."""
        size = int.from_bytes(_read_exactly(self._channel, 4), "little")
        request = marshal.loads(_read_exactly(self._channel, size))  # noqa: S302 - from the process that started this one
        has_input, has_state, others, namespaces, order, folder, arguments, environment = request
        given = 1 + has_input + has_state + others
        own = given + namespaces
        for number, handle in enumerate(handles[:given] if others else ()):
            handles[number] = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_HANDLE)
            os.close(handle)
        placements = [(handles[0], 1), (handles[0], 2), (handles[1] if has_input else 0, 0)]
        if has_state:
            placements.append((handles[1 + has_input], NOTE))
        placements += zip(handles[given - others : given], range(EXTRA_HANDLES, EXTRA_HANDLES + others), strict=True)
        try:
            os.chdir(folder)
            entered = handles[given:own]
            if order:
                self._shell_pid = _spawn_by_fork(entered, placements, _load_confinement(order))
            elif len(entered) > 1:  # the first is a user's, out of which no way leads back
                self._shell_pid = _spawn_by_fork(
                    entered,
                    placements,
                    lambda: os.execve(arguments[0], arguments, environment),  # noqa: S606 - as ordered
                )
            else:
                with _visited_network(entered):
                    self._shell_pid = _spawn_process(placements, arguments, environment)
        except (OSError, ValueError) as error:
            _send_record(self._channel, b"E", getattr(error, "errno", None) or 0)
            return False
        finally:
            os.chdir("/")  # so that it keeps no file system busy
        _send_record(self._channel, b"S", self._shell_pid)
        for _ in range(own):
            os.close(handles.pop(0))
        return True

    def _watch_command(self) -> int | None:
        """Wait until nothing is left of the command and pass on signals; return the code to leave with, if it must."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {handle for handle, _ in poll.poll(self._kill_if_due())}
            if self._wake in ready:
                os.read(self._wake, 512)
            if self._report_ended():
                break
            if time.monotonic() > self._give_up:
                return 1
            if self._channel in ready and not self._read_orders():
                return _RELEASED_CODE
            if self._give_up < _NEVER:
                poll = select.poll()
                poll.register(self._wake, select.POLLIN)
        self._kill_at, self._interval = self._give_up, _KILL_INTERVAL
        return None if self._give_up == _NEVER else 0

    def _report_ended(self) -> bool:
        """Report what has ended since the last call; return whether nothing is left.

        In one piece: who reads the end of the shell alone must take it that something of the command may be left.
        """
        ended = [_pack_record(b"X", code) for pid, code in _reap_ended() if pid == self._shell_pid]
        is_over = not _has_children()
        if is_over:
            ended.append(_pack_record(b"G", 0))
        if ended:
            _send(self._channel, b"".join(ended))
        return is_over

    def _kill_if_due(self) -> float | None:
        """Kill when it is time; return how long to wait for news then, in milliseconds."""
        now = time.monotonic()
        if now >= self._kill_at:
            signal_trees(list_children(os.getpid()), _signal.SIGKILL)
            self._interval = min(2 * self._interval, 0.2)
            return self._interval * 1000
        return None if self._kill_at == _NEVER else (self._kill_at - now) * 1000 + 1

    def _read_orders(self) -> bool:
        """Carry out what arrives on the channel; return False when released."""
        try:
            orders = os.read(self._channel, 64)
        except OSError:
            orders = b""
        if not orders:
            signal_trees(list_children(os.getpid()), _signal.SIGTERM)
            self._kill_at = min(self._kill_at, time.monotonic() + _GRACE_SECONDS)
            self._give_up = self._kill_at + _GIVE_UP_SECONDS
        for order in orders:
            if order == RELEASE:
                return False
            if order == _signal.SIGKILL:
                self._kill_at, self._interval = 0.0, _KILL_INTERVAL
            else:
                signal_trees(list_children(os.getpid()), order)
        return True


def _spawn_process(placements: list[tuple[int, int]], arguments: list[bytes], environment: _Environment) -> int:
    """Start a program in a session of its own, with handles in their places."""
    return os.posix_spawn(
        arguments[0],
        arguments,
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, handle, place) for handle, place in placements],
        setsid=True,
        setsigdef=_IGNORED_SIGNALS,
        setsigmask=(),
    )


@contextlib.contextmanager
def _visited_network(network: list[int]) -> Iterator[None]:
    """Be in this network, if one is given, as long as a program is started, and back in our own afterwards."""
    if not network:
        yield
        return
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter_namespaces(network)
        try:
            yield
        finally:
            _return_to(own)
    finally:
        os.close(own)


def _return_to(own: int) -> None:
    try:
        _enter_namespaces([own])
    except OSError:
        os.kill(os.getpid(), _signal.SIGKILL)  # rather than that the next command runs in another one's network


def _load_confinement(order: int) -> Callable[[], None]:
    """Return what confines a process by the order at this handle, and becomes its program."""
    return functools.partial(_load_landlock_exec().run_order, order)


@functools.cache
def _load_landlock_exec() -> ModuleType:
    """Load the neighbour that applies an order, by its path: this program has no packages to import from."""
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sandbox", "landlock_exec.py")
    spec = spec_from_file_location("landlock_exec", path)
    if spec is None or spec.loader is None:
        raise OSError(f"{path} cannot be loaded")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _spawn_by_fork(namespaces: list[int], placements: list[tuple[int, int]], become: Callable[[], object]) -> int:
    """Start what this process becomes in these namespaces. What is killed before that counts as started."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        error_end = fcntl.fcntl(write_end, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_HANDLE)
        try:
            os.setsid()
            for number in _IGNORED_SIGNALS:
                _signal.signal(number, _signal.SIG_DFL)
            _enter_namespaces(namespaces)
            for handle, place in placements:
                os.dup2(handle, place)
            become()
        except (OSError, ValueError) as error:
            os.write(error_end, b"%d" % (getattr(error, "errno", None) or 0))
        finally:
            os._exit(1)
    os.close(write_end)
    error_text = os.read(read_end, 16)
    os.close(read_end)
    if not error_text:
        return pid
    os.waitpid(pid, 0)
    raise OSError(int(error_text), os.strerror(int(error_text))) if int(error_text) else ValueError


def _enter_namespaces(namespaces: list[int]) -> None:
    import ctypes

    kernel = ctypes.CDLL(None, use_errno=True)
    for one in namespaces:
        if kernel.setns(one, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _receive_message(source: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Return data and the handles that came beside it."""
    data, beside, _, _ = source.recvmsg(size, _socket.CMSG_SPACE(4 * 32), _socket.MSG_CMSG_CLOEXEC)
    packed = b"".join(part for _, _, part in beside)
    return data, [int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4)]


def _read_exactly(handle: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(handle, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def _send_record(channel: int, kind: bytes, number: int) -> None:
    _send(channel, _pack_record(kind, number))


def _pack_record(kind: bytes, number: int) -> bytes:
    return kind + number.to_bytes(4, "little", signed=True)


def _send(channel: int, records: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(channel, records)


def _open_child_wakeup() -> int:
    """Return a handle that can be read from after each SIGCHLD."""
    wake, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    return wake


def _reap_ended() -> list[tuple[int, int]]:
    """Return (process id, code) of the children that ended since the last call; the code is negative for a signal."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append((one[0], os.waitstatus_to_exitcode(one[1])))
    return found


def _has_children() -> bool:
    """Return whether a child is left. A subreaper without children has no descendants at all."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def list_children(pid: int) -> list[int]:
    """Return the children of a process, whichever of its threads started them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def is_supervisor(pid: int) -> bool:
    """Return whether a process bears a supervisor's name."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return file.read() == _PROCESS_NAME + b"\n"
    return False


def parent_pid(pid: int) -> int | None:
    """Return the parent of a process, 0 where it is outside of this pid namespace; None for an unknown process."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
    return None


def kill_descendants(pid: int) -> None:
    """Kill all that a supervisor owns, in its place, and send it CONT: a command can stop the process above it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal_trees(list_children(pid), _signal.SIGKILL, os.getpgid(pid))
        os.kill(pid, _signal.SIGCONT)


def signal_trees(roots: list[int], number: int, own_group: int = 0) -> None:
    """Signal processes with everything below them, group by group: what forks meanwhile does not slip through.

    The kernel signals a group as one. A command begins a session, and nobody joins a group of another session: all
    members of such a group came from the command. `own_group` is the group of all supervisors, the caller's when it is
    one: a process that was only just forked may not have its session yet.
    """
    done: set[int] = set()
    own_group = own_group or os.getpgrp()
    queue = list(roots)
    for pid in queue:
        queue += list_children(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            group = os.getpgid(pid)
            if group == own_group:
                os.kill(pid, number)
            elif group not in done:
                done.add(group)
                os.killpg(group, number)
