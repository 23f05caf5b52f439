"""Tells whoever has started this process how it stands, by the protocol of sd_notify(3)."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Mapping, MutableMapping

VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Sends states to the socket that the environment names; without one it does nothing. Never raises, never waits."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._interval = _interval(environ)
        self._task: asyncio.Task[None] | None = None

    def ready(self, status: str = "") -> None:
        """It runs, and takes things in."""
        self._send("READY=1", status)

    def reloading(self) -> None:
        """It reads its settings anew; `ready` says that this is done."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={_monotonic()}")

    def stopping(self, status: str = "") -> None:
        """It comes to its end."""
        self._send("STOPPING=1", status)

    def status(self, text: str, *, more_seconds: float = 0.0) -> None:
        """What it does now; with `more_seconds` its start may take so much longer."""
        self._send(f"STATUS={text}", f"EXTEND_TIMEOUT_USEC={int(more_seconds * 1e6)}" if more_seconds else "")

    def watch(self) -> None:
        """From the event loop, say regularly that it turns: one that is stuck falls silent, and is started anew."""
        if self._interval and self._address:
            self._task = asyncio.create_task(self._pet(self._interval / 2), name="watchdog")

    async def close(self) -> None:
        """Stop saying so."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def _pet(self, seconds: float) -> None:
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(seconds)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        text = "\n".join(line for line in lines if line)
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
            one.setblocking(False)
            one.sendto(text.encode(), self._address)


def without_notices(environ: MutableMapping[str, str]) -> None:
    """Take the variables out that are for this process alone: what it starts must not speak for it."""
    for name in VARIABLES:
        environ.pop(name, None)


def _interval(environ: Mapping[str, str]) -> float:
    """Seconds within which a sign of life is wanted; 0 where none is."""
    whose = environ.get("WATCHDOG_PID", "")
    microseconds = environ.get("WATCHDOG_USEC", "")
    mine = not whose or whose == str(os.getpid())
    return int(microseconds) / 1e6 if mine and microseconds.isdecimal() else 0.0


def _monotonic() -> int:
    import time

    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
