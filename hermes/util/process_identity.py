"""Identities of processes that stay unique when a process number is used again."""

import os
from pathlib import Path


def identify_this_process() -> str:
    """Return the identity of this process: the machine's boot, the process's number and its start.

    Where /proc is missing only the number is known.
    """
    pid = os.getpid()
    return f"{_read_boot_id()}/{pid}/{_read_start_ticks(pid)}"


def is_alive(identity: str) -> bool:
    """Return whether the process of that identity still runs.

    One in another container may be taken for dead; an identity that cannot be parsed is dead.
    """
    boot, _, rest = identity.partition("/")
    number, _, started = rest.partition("/")
    if not number.isdigit() or boot != _read_boot_id():
        return False
    if started:
        return started == _read_start_ticks(int(number))
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _read_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _read_start_ticks(pid: int) -> str:
    """Return the time at which a process was started, in clock ticks since the boot; empty when there is no
    such process, or it waits to be reaped.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return ""
    fields = status[status.rindex(b")") + 2 :].split()  # the name before may hold anything
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")
