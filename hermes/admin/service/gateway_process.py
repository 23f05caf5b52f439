"""Find, start and stop the gateway process of a home without a service manager."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from hermes.admin.service.service import ServiceError, ServiceSpec
from hermes.config.home import HermesHome
from hermes.core.errors import BusyError, StoreError
from hermes.i18n.messages import N_
from hermes.util.file_lock import is_lock_held

LOCK_FILE = "gateway.lock"
START_SECONDS = 120.0
_POLL_SECONDS = 0.05
_MAX_OUTPUT = 2_000
"""Characters of the output of a gateway that failed to start."""


def find_gateway_pid(home: HermesHome) -> int | None:
    """Return the process id of the gateway of this home; None when none runs, 0 when it is not known yet."""
    file = home.locks / LOCK_FILE
    if not is_lock_held(file):
        return None
    with contextlib.suppress(OSError, ValueError):
        return int(file.read_text("ascii", "replace").split()[0])
    return 0


def start_detached(home: HermesHome, spec: ServiceSpec, environ: Mapping[str, str]) -> int:
    """Start the gateway as a process of its own, wait until it runs, and return its process id.

    Raises BusyError when one runs already, ServiceError with its last output when it ends or does not come up.
    """
    pid = find_gateway_pid(home)
    if pid is not None:
        raise BusyError(N_("The gateway runs already (pid {pid}).", pid=pid))
    log = Path(spec.log)
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (
            open(log, "wb", opener=_open_private) as out,
            tempfile.TemporaryDirectory(prefix="hermes-") as folder,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready,
        ):
            ready.bind(f"{folder}/ready")
            process = subprocess.Popen(
                spec.arguments,
                cwd=spec.folder,
                env={**environ, **spec.environ, "NOTIFY_SOCKET": f"{folder}/ready"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
            return _wait_until_ready(process, ready, log)
    except OSError as error:
        raise StoreError(
            N_("{file} cannot be written: {reason}.", file=str(error.filename or log), reason=error.strerror or "")
        ) from None


def _wait_until_ready(process: subprocess.Popen[bytes], ready: socket.socket, log: Path) -> int:
    ready.settimeout(_POLL_SECONDS)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(TimeoutError):
            said = ready.recv(4096).split(b"\n")
            if b"READY=1" in said:
                process.returncode = 0  # it goes on without this process, which is not to wait for it
                return process.pid
            continue
        if process.poll() is not None:
            raise _start_error(N_("The gateway ended at once (exit code {code}).", code=process.returncode), log)
    return process.pid


def _start_error(what: str, log: Path) -> ServiceError:
    try:
        said = log.read_text("utf-8", "replace").strip().removeprefix("hermes: ")[-_MAX_OUTPUT:]
    except OSError:
        said = ""
    return ServiceError(what, said)


def stop_gateway(home: HermesHome, seconds: float) -> bool:
    """Stop the gateway and wait for its end; return False when none runs. One that does not end in time is killed.

    Raises BusyError where that is not done.
    """
    pid = find_gateway_pid(home)
    if pid is None:
        return False
    if pid and not _is_owners(pid, home):
        raise BusyError(
            N_("The process {pid} does not belong to who owns {home}.", pid=pid, home=home.root),
            N_("Nothing was stopped."),
        )
    file = home.locks / LOCK_FILE
    _send_signal(pid, signal.SIGTERM)
    if not _wait_for_release(file, seconds):
        _send_signal(pid, signal.SIGKILL)
        if not _wait_for_release(file, 10.0):
            raise BusyError(N_("The gateway does not end (pid {pid}).", pid=pid))
    return True


def _is_owners(pid: int, home: HermesHome) -> bool:
    """Return whether a process may be the gateway of a home: where root acts for another account, that one has written
    the process id, and could name any process.
    """
    if pid < 1:
        return False
    owner = home.root.stat().st_uid
    if os.getuid() == owner:
        return True
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return any(line.split()[1:2] == [str(owner)] for line in file if line.startswith("Uid:"))
    return False


def _send_signal(pid: int, number: signal.Signals) -> None:
    if pid:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _wait_for_release(lock: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while is_lock_held(lock):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
