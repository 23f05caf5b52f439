"""Tell the service manager the state of this process, by the protocol of sd_notify(3)."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping

NOTIFY_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class ServiceNotifier:
    """Sends states to the socket that the environment names; without one it does nothing. It never raises or waits."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._interval = _watchdog_interval(environ)
        self._task: asyncio.Task[None] | None = None

    def notify_ready(self, status: str = "") -> None:
        """Report that the process runs and accepts requests."""
        self._send_lines("READY=1", status)

    def notify_reloading(self) -> None:
        """Report that the settings are being reloaded; `notify_ready` ends that."""
        self._send_lines("RELOADING=1", f"MONOTONIC_USEC={_monotonic_microseconds()}")

    def notify_stopping(self, status: str = "") -> None:
        """Report that the process is stopping."""
        self._send_lines("STOPPING=1", status)

    def notify_status(self, text: str, *, more_seconds: float = 0.0) -> None:
        """Report what the process does now; with `more_seconds` its start may take so much longer."""
        self._send_lines(f"STATUS={text}", f"EXTEND_TIMEOUT_USEC={int(more_seconds * 1e6)}" if more_seconds else "")

    def start_watchdog(self) -> None:
        """Report regularly that the event loop runs, so that a stuck process is restarted."""
        if self._interval and self._address:
            self._task = asyncio.create_task(self._report_alive(self._interval / 2), name="watchdog")

    async def close(self) -> None:
        """Stop the watchdog reports."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def _report_alive(self, seconds: float) -> None:
        while True:
            self._send_lines("WATCHDOG=1")
            await asyncio.sleep(seconds)

    def _send_lines(self, *lines: str) -> None:
        if not self._address:
            return
        text = "\n".join(line for line in lines if line)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.sendto(text.encode(), self._address)


def remove_notify_variables(environ: MutableMapping[str, str]) -> None:
    """Remove the variables that are meant for this process alone, so that its children do not report for it."""
    for name in NOTIFY_VARIABLES:
        environ.pop(name, None)


def _watchdog_interval(environ: Mapping[str, str]) -> float:
    """Return the seconds within which a watchdog report is expected; 0 where none is."""
    whose = environ.get("WATCHDOG_PID", "")
    microseconds = environ.get("WATCHDOG_USEC", "")
    mine = not whose or whose == str(os.getpid())
    return int(microseconds) / 1e6 if mine and microseconds.isdecimal() else 0.0


def _monotonic_microseconds() -> int:
    import time

    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
