"""The gateway of a home as a process: whether it runs, starting it without a service manager, and ending it."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hermes.admin.service.service import ServiceError
from hermes.admin.service.units import Wish
from hermes.config.home import Home
from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import phrase
from hermes.sessions.open_sessions import is_held

LOCK = "gateway.lock"
START_SECONDS = 120.0
_POLL = 0.05
_TOLD = 2_000
"""Characters of what a gateway said that did not start."""


def gateway_pid(home: Home) -> int | None:
    """The process id of the gateway that runs in this home; None when none does, 0 when it has not said it yet."""
    file = home.locks / LOCK
    if not is_held(file):
        return None
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text("ascii", "replace").split()[0])
    return 0


def start_detached(home: Home, wish: Wish, environ: Mapping[str, str]) -> int:
    """Start the gateway as a process of its own, and wait until it runs; its process id.

    Raises BusyError when one runs already, ServiceError with its last words when it ends or does not come up.
    """
    pid = gateway_pid(home)
    if pid is not None:
        raise BusyError(phrase("The gateway runs already (pid {pid}).", pid=pid))
    log = Path(wish.log)
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            open(log, "wb", opener=_private) as out,
            tempfile.TemporaryDirectory(prefix="hermes-") as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
        ):
            ready.bind(f"{folder}/ready")
            process = subprocess.Popen(
                wish.arguments,
                cwd=wish.folder,
                env={**environ, **wish.environ, "NOTIFY_SOCKET": f"{folder}/ready"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            return _started(process, ready, log)
    except OSError as error:
        raise StoreError(
            phrase("{file} cannot be written: {reason}.", file=str(error.filename or log), reason=error.strerror or "")
        ) from None


def _started(process: subprocess.Popen[bytes], ready: socket.socket, log: Path) -> int:
    ready.settimeout(_POLL)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(TimeoutError):
            said = ready.recv(4096).split(b"\n")
            if b"READY=1" in said:
                process.returncode = 0  # it goes on without this process, which is not to wait for it
                return process.pid
            continue
        if process.poll() is not None:
            raise _failed(phrase("The gateway ended at once (exit code {code}).", code=process.returncode), log)
    return process.pid


def _failed(what: str, log: Path) -> ServiceError:
    try:
        said = log.read_text("utf-8", "replace").strip()[-_TOLD:]
    except OSError:
        said = ""
    return ServiceError(what, said)


def end(home: Home, seconds: float) -> bool:
    """Ask the gateway to end, and wait for it; False when none runs. One that does not end in time is killed."""
    pid = gateway_pid(home)
    if pid is None:
        return False
    file = home.locks / LOCK
    _signal(pid, signal.SIGTERM)
    if not _gone(file, seconds):
        _signal(pid, signal.SIGKILL)
        if not _gone(file, 10.0):
            raise BusyError(phrase("The gateway does not end (pid {pid}).", pid=pid))
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _gone(lock: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_held(lock):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL)
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
