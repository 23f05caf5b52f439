"""Which process something belongs to, told in a way that outlives the process and the next one of the same number."""

import os
from pathlib import Path


def this_process() -> str:
    """The identity of this process: the machine's boot, the process's number and its start.

    Where /proc is missing only the number is known.
    """
    pid = os.getpid()
    return f"{_boot()}/{pid}/{_started(pid)}"


def is_alive(identity: str) -> bool:
    """Whether the process of that identity still runs.

    One in another container may be taken for dead; what nobody can read is.
    """
    boot, _, rest = identity.partition("/")
    number, _, started = rest.partition("/")
    if not number.isdigit() or boot != _boot():
        return False
    if started:
        return started == _started(int(number))
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process was started, in clock ticks since the boot; empty when there is none, or it waits to be reaped."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = status[status.rindex(b")") + 2 :].split()  # the name before may hold anything
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")
