"""The program that stands over commands, so that none of their processes escapes or outlives Hermes.

It runs as a process of its own with the standard library only, and imports little: it starts in about 10 ms, once.
`wardens.py` is its other side. Two kinds of process run this file:

- The *helper*, one for a Hermes. Over its standard input, a `SOCK_SEQPACKET` socket, it gets the far ends of leashes,
  one a packet, and forks a warden for each.
- A *warden*, for one command at a time. Over its leash, a stream socket, it is told what to run, tells how that goes,
  and takes signal numbers for everything that the command started. It is a subreaper (prctl(2)): whatever the command's
  processes do, fork twice, begin a session, clear their environment, they stay its descendants. When there are none
  any more it may be given the next command, which saves a fork. An end of the leash without a word means that Hermes
  died: then it ends them all before it leaves.

On the leash, to the warden: `ORDER` with handles beside it (output, input if any, note if any, what else the command
gets, and which namespaces it is put into, and what the warden is to hold while anything of the command lives), 4 bytes
of length and a marshalled (has input, has note, number of others, number of namespaces, folder, arguments,
environment); single bytes, each a signal's number or `RELEASE`.
From it, 5 bytes each, a letter and a number: `W` a warden is there (its process id), `S` started (process id), `E` not
started (error number, 0 for an unusable text), `X` the shell has ended (its code), `G` nothing is left.
"""

import _socket  # a third of the start-up is saved by not importing what `socket` lays over it
import contextlib
import fcntl
import gc
import marshal
import os
import select
import signal
import time

WARDEN = b"w"
BYE = b"bye"
ORDER = 0
RELEASE = 255
NOTE = 3
"""The handle at which a command finds its note."""
OTHERS = 4
"""The first of the handles at which a command finds what else it gets."""

_GRACE = 0.5
"""Seconds between TERM and KILL for what a dead Hermes left."""
_GIVE_UP = 5.0
"""Seconds of killing in vain (a process of another user, one stuck in the kernel) after which a dead Hermes' warden
lets go of what it holds."""
_RELEASED = 3
"""Exit code of a warden that left living processes on purpose."""
_SUBREAPER, _NAME = 36, 15
_COMM = b"warden"
_TITLE = b"warden of commands"
_IGNORED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGXFSZ,
)
_NAP = 0.002
_ASIDE = 64
"""Where handles are moved that could be in the way of those that a command gets."""
_NEVER = float("inf")
_Variables = dict[bytes, bytes]


def main() -> None:
    """Serve as the helper until Hermes says goodbye or dies."""
    if _prctl(_SUBREAPER, 1) or not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        os._exit(1)
    _prctl(_NAME, _COMM)
    _retitle()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number in _IGNORED else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.disable()
    gc.freeze()  # so that forks share the pages
    control = _socket.socket(fileno=0)
    control.send(b"+")
    _Helper(control).run()
    os._exit(0)


def _prctl(option: int, value: int | bytes) -> int:
    import ctypes  # here, since Hermes reads this file for its constants only

    return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0))


def _retitle() -> None:
    """Write another command line over this one: a stray `pkill -f` of Hermes or of Python must not hit the wardens.

    Fields: arg_start and arg_end of proc(5).
    """
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        first, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    if first and end - first > len(_TITLE):
        ctypes.memset(first, 0, end - first)
        ctypes.memmove(first, _TITLE, len(_TITLE))


class _Helper:
    def __init__(self, control: _socket.socket) -> None:
        self._control = control
        self._wardens: set[int] = set()
        self._pardoned: set[int] = set()
        """Children that are no wardens and may live on: what released commands left."""
        self._sweeping = False

    def run(self) -> None:
        """Fork wardens as asked; end what a killed one leaves; at the end of Hermes wait for all of them."""
        wake = _wake_on_children()
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(wake, select.POLLIN)
        give_up = None
        while give_up is None or (self._wardens and time.monotonic() < give_up):
            for handle, _ in poll.poll(5 if self._sweeping else None):
                if handle == wake:
                    os.read(wake, 512)
                    self._reap()
                elif not self._serve():
                    poll.unregister(0)
                    self._sweeping = True
                    give_up = time.monotonic() + 2 * _GIVE_UP
            if self._sweeping:
                self._reap()
                orphans = self._orphans()
                signal_all(orphans, signal.SIGKILL)
                self._sweeping = bool(orphans) or give_up is not None

    def _serve(self) -> bool:
        """Take one request; False when Hermes is gone."""
        try:
            data, handles = _receive(self._control, 16)
        except OSError:
            return False
        if data == BYE:
            os._exit(0)
        for leash in handles:
            self._fork(leash)
            os.close(leash)
        return bool(data)

    def _fork(self, leash: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            _tell(leash, b"E", error.errno or 0)
            return
        if pid:
            self._wardens.add(pid)
            return
        code = 1
        try:
            os.dup2(1, 0)  # the null device: Hermes must see it when the helper itself dies
            _prctl(_SUBREAPER, 1)
            code = _Warden(leash).run()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        violent = False
        released = False
        for pid, code in _ended():
            if pid in self._wardens:
                self._wardens.discard(pid)
                violent |= code < 0
                released |= code == _RELEASED
            else:
                self._pardoned.discard(pid)
                released = True
        if violent:
            self._sweeping = True
        elif released and not self._sweeping:
            self._pardoned |= set(self._orphans())

    def _orphans(self) -> list[int]:
        """Children that no warden stands over, and that nobody wanted to live on."""
        return [pid for pid in children(os.getpid()) if pid not in self._wardens and pid not in self._pardoned]


class _Warden:
    """Stands over one command after another."""

    def __init__(self, leash: int) -> None:
        self._leash = leash
        self._wake = _wake_on_children()
        self._shell = 0
        self._kill_at = self._give_up = _NEVER
        self._nap = _NAP

    def run(self) -> int:
        """Until Hermes has no more use for it, or has died; the exit code."""
        leash = _socket.socket(fileno=self._leash)
        _tell(self._leash, b"W", os.getpid())
        while True:
            kind, handles = _receive(leash, 1)
            if not kind:
                return 0
            if kind[0] != ORDER:  # a signal that came when nothing was left to get it
                continue
            if self._start(handles) and (code := self._watch()) is not None:
                return code
            for handle in handles:
                os.close(handle)

    def _start(self, handles: list[int]) -> bool:
        """Run a command as ordered; closes the handles that were the command's own."""
        size = int.from_bytes(_exactly(self._leash, 4), "little")
        order = marshal.loads(_exactly(self._leash, size))  # noqa: S302 - from the process that started this one
        has_input, has_note, others, spaces, folder, arguments, environment = order
        given = 1 + has_input + has_note + others
        own = given + spaces
        for number, handle in enumerate(handles[:given] if others else ()):
            handles[number] = fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, _ASIDE)
            os.close(handle)
        places = [(handles[0], 1), (handles[0], 2), (handles[1] if has_input else 0, 0)]
        if has_note:
            places.append((handles[1 + has_input], NOTE))
        places += zip(handles[given - others : given], range(OTHERS, OTHERS + others), strict=True)
        try:
            os.chdir(folder)
            start = _inside if spaces else _spawned
            self._shell = start(handles[given:own], places, arguments, environment)
        except (OSError, ValueError) as error:
            _tell(self._leash, b"E", getattr(error, "errno", None) or 0)
            return False
        finally:
            os.chdir("/")  # so that it keeps no file system busy
        _tell(self._leash, b"S", self._shell)
        for _ in range(own):
            os.close(handles.pop(0))
        return True

    def _watch(self) -> int | None:
        """Wait until nothing is left of the command and pass on signals; the code to leave with, if it must."""
        poll = select.poll()
        poll.register(self._leash, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = {handle for handle, _ in poll.poll(self._pause())}
            if self._wake in ready:
                os.read(self._wake, 512)
            for pid, code in _ended():
                if pid == self._shell:
                    _tell(self._leash, b"X", code)
            if not _any_children():
                break
            if time.monotonic() > self._give_up:
                return 1
            if self._leash in ready and not self._obey():
                return _RELEASED
            if self._give_up < _NEVER:
                poll = select.poll()
                poll.register(self._wake, select.POLLIN)
        _tell(self._leash, b"G", 0)
        self._kill_at, self._nap = self._give_up, _NAP
        return None if self._give_up == _NEVER else 0

    def _pause(self) -> float | None:
        """Kill when it is time; how long to wait for news then, in milliseconds."""
        now = time.monotonic()
        if now >= self._kill_at:
            signal_all(children(os.getpid()), signal.SIGKILL)
            self._nap = min(2 * self._nap, 0.2)
            return self._nap * 1000
        return None if self._kill_at == _NEVER else (self._kill_at - now) * 1000 + 1

    def _obey(self) -> bool:
        """Take what the leash brings; False when released."""
        try:
            orders = os.read(self._leash, 64)
        except OSError:
            orders = b""
        if not orders:
            signal_all(children(os.getpid()), signal.SIGTERM)
            self._kill_at = min(self._kill_at, time.monotonic() + _GRACE)
            self._give_up = self._kill_at + _GIVE_UP
        for order in orders:
            if order == RELEASE:
                return False
            if order == signal.SIGKILL:
                self._kill_at, self._nap = 0.0, _NAP
            else:
                signal_all(children(os.getpid()), order)
        return True


def _spawned(spaces: list[int], places: list[tuple[int, int]], arguments: list[bytes], environment: _Variables) -> int:
    """A process of a session of its own that runs a program, with handles in places. It enters no `spaces`."""
    return os.posix_spawn(
        arguments[0],
        arguments,
        environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, handle, place) for handle, place in places],
        setsid=True,
        setsigdef=_IGNORED,
        setsigmask=(),
    )


def _inside(spaces: list[int], places: list[tuple[int, int]], arguments: list[bytes], environment: _Variables) -> int:
    """The same in these namespaces, which costs a fork. What is killed before the program runs counts as started."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        told = fcntl.fcntl(write_end, fcntl.F_DUPFD_CLOEXEC, _ASIDE)
        try:
            os.setsid()
            for number in _IGNORED:
                signal.signal(number, signal.SIG_DFL)
            _enter(spaces)
            for handle, place in places:
                os.dup2(handle, place)
            os.execve(arguments[0], arguments, environment)  # noqa: S606 - what was ordered
        except (OSError, ValueError) as error:
            os.write(told, b"%d" % (getattr(error, "errno", None) or 0))
        finally:
            os._exit(1)
    os.close(write_end)
    said = os.read(read_end, 16)
    os.close(read_end)
    if not said:
        return pid
    os.waitpid(pid, 0)
    raise OSError(int(said), os.strerror(int(said))) if int(said) else ValueError


def _enter(spaces: list[int]) -> None:
    import ctypes

    kernel = ctypes.CDLL(None, use_errno=True)
    for one in spaces:
        if kernel.setns(one, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _receive(source: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Data, and the handles beside it."""
    data, beside, _, _ = source.recvmsg(size, _socket.CMSG_SPACE(4 * 32), _socket.MSG_CMSG_CLOEXEC)
    packed = b"".join(part for _, _, part in beside)
    return data, [int.from_bytes(packed[at : at + 4], "little") for at in range(0, len(packed), 4)]


def _exactly(handle: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(handle, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def _tell(leash: int, kind: bytes, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        os.write(leash, kind + number.to_bytes(4, "little", signed=True))


def _wake_on_children() -> int:
    """A handle that can be read from after each SIGCHLD."""
    wake, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wake


def _ended() -> list[tuple[int, int]]:
    """(process id, code) of the children that have ended since the last call; the code is negative for a signal."""
    found: list[tuple[int, int]] = []
    with contextlib.suppress(ChildProcessError):
        while (one := os.waitpid(-1, os.WNOHANG))[0]:
            found.append((one[0], os.waitstatus_to_exitcode(one[1])))
    return found


def _any_children() -> bool:
    """Whether a child is left. A subreaper without children has no descendants at all."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def children(pid: int) -> list[int]:
    """The children of a process, whichever of its threads started them."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def named(pid: int) -> bool:
    """Whether a process bears a warden's name."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return file.read() == _COMM + b"\n"
    return False


def parent(pid: int) -> int:
    """The parent of a process; 0 when that is not known."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
    return 0


def end_below(pid: int) -> None:
    """Kill all that a warden stands over, in its place, and have it go on: a command can stop the process above it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        signal_all(children(pid), signal.SIGKILL, os.getpgid(pid))
        os.kill(pid, signal.SIGCONT)


def signal_all(roots: list[int], number: int, own: int = 0) -> None:
    """Signal processes with everything below them, group by group: what forks meanwhile does not slip through.

    The kernel signals a group as one. A command begins a session, and nobody joins a group of another session: all
    members of such a group came of the command. `own` is the group of all wardens, the caller's when it is one: who is
    signalled at once may not have its session yet.
    """
    done: set[int] = set()
    own = own or os.getpgrp()
    queue = list(roots)
    for pid in queue:
        queue += children(pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            group = os.getpgid(pid)
            if group == own:
                os.kill(pid, number)
            elif group not in done:
                done.add(group)
                os.killpg(group, number)
