"""Forks processes that run `hermes` and have their imports behind them: the other end of `tests/forked_hermes.py`.

The process has one thread and does nothing but fork. An order comes over its control socket as one byte with some
handles: a socket, the standard streams of the new process and, if it gets one, the terminal that controls it. The new
process reads a line of JSON from the socket (its words, environment and folder, and what it runs if that is not the
program: the text behind `python -c`); the server writes its process id to
the socket, and its exit code when it ended.
"""

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import termios
import threading
import time
from types import ModuleType
from typing import NoReturn

import hermes

_LEFT_OUT = "acp", "batch", "dashboard", "gateway", "mcp_server", "testing"
"""Packages that a short command does not need."""
_running: dict[int, socket.socket] = {}


def main(control: socket.socket) -> None:
    """Fork a process for each order until the other end is closed."""
    _import_everything()
    # Ctrl-C at the tests is not for the server, which ends with them; a fork has what was there before.
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: _report_the_dead())
    # An end that comes just before the next order is waited for would be told with that order: it wakes this up.
    woken, waking = socket.socketpair()
    waking.setblocking(False)
    signal.set_wakeup_fd(waking.fileno())
    while True:
        ready = select.select([control, woken], [], [])[0]
        if woken in ready:
            woken.recv(4096)
            continue
        order, handles, *_ = socket.recv_fds(control, 1, 5)
        if not order:
            return
        line, streams = socket.socket(fileno=handles[0]), handles[1:]
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        if not (child := os.fork()):
            signal.set_wakeup_fd(-1)
            for own in (control, woken, waking):
                own.close()
            for other in _running.values():
                other.close()
            signal.signal(signal.SIGINT, interrupted)
            _become_hermes(line, streams)
        _running[child] = line
        _tell(line, child)
        for handle in streams:
            os.close(handle)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _import_everything() -> None:
    gc.disable()
    for module in pkgutil.walk_packages(hermes.__path__, "hermes.", onerror=_refuse):
        if module.name.split(".")[1] not in (*_LEFT_OUT, "__main__"):
            importlib.import_module(module.name)
    assert threading.active_count() == 1
    # What is shared is not written to: the collector of a fork leaves these objects alone.
    gc.freeze()
    gc.enable()


def _refuse(name: str) -> NoReturn:
    raise ImportError(name)


def _report_the_dead() -> None:
    while _running:
        try:
            child, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:  # the same handler, called while this call of it ran, has told the last one's end
            return
        if not child:
            return
        with _running.pop(child) as line:
            _tell(line, os.waitstatus_to_exitcode(status))


def _tell(line: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # a test that was broken off does not listen
        line.send(b"%d\n" % number)


def _become_hermes(line: socket.socket, streams: list[int]) -> NoReturn:
    """Run `python -m hermes` as a new interpreter would, and end as forks of an interpreter end."""
    if terminals := streams[3:]:
        # As a login does: the terminal is the process's, and Ctrl-C works even if the suite runs in the background.
        os.setsid()
        fcntl.ioctl(terminals[0], termios.TIOCSCTTY, 0)
        os.close(terminals[0])
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams(streams[:3])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    with line, line.makefile(encoding="utf-8", errors="surrogateescape") as told:
        words, environ, folder, code_text = json.loads(told.readline())
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    os.chdir(folder)
    sys.path[0] = folder
    sys.argv[1:] = words
    code: object = 0
    try:
        if code_text:
            _run_text(code_text)
        else:
            runpy.run_module("hermes", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # as an interpreter ends that nobody keeps from it
    except BaseException:  # noqa: BLE001 - what an interpreter does with it
        sys.excepthook(*sys.exc_info())
        code = 1
    _end(code)


def _run_text(text: str) -> None:
    """Run a text as `python -c` does."""
    sys.argv[0], sys.path[0] = "-c", ""
    sys.modules["__main__"] = module = ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), vars(module))


def _open_streams(handles: list[int]) -> None:
    for number, (name, handle) in enumerate(zip(("stdin", "stdout", "stderr"), handles, strict=True)):
        os.dup2(handle, number)
        os.close(handle)
        before = getattr(sys, name)
        mode, buffering = ("w", 1) if number == 2 else ("w" if number else "r", -1)
        stream = os.fdopen(number, mode, buffering, before.encoding, before.errors, closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _end(code: object) -> NoReturn:
    """End without taking the modules apart, which would copy the whole memory of the server first."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120  # what an interpreter ends with that cannot write the last of its output
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv.pop())))
