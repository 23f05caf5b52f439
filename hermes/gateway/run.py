"""Runs the gateway as a process: its loop, its signals, its end."""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Callable, Mapping

from hermes.admin.service.restart_limit import MOST, WINDOW, Starts
from hermes.admin.service.sd_notify import Notifier, without_notices
from hermes.config.home import locate_home
from hermes.gateway.gateway import Gateway, check_settings
from hermes.sessions.app import App
from hermes.sessions.options import Options
from hermes.util.garbage_collection import calm_collector

Report = Callable[[str], None]
_HANDLES = 65_536
"""File handles that the process may have, where the system allows so many: one a live session, and connections."""


def serve(environ: Mapping[str, str], options: Options, report: Report) -> int:
    """Run until a signal ends it: TERM and INT after what runs has come to its end, a second one at once. HUP has it
    read its settings anew, or end where it runs in a terminal. Returns the exit code; raises HermesError when it cannot
    start."""
    _raise_limits()
    with asyncio.Runner(loop_factory=_loop()) as runner:
        return runner.run(_Process(environ, options, report).run())


class _Process:
    """One run of the gateway, from its first line to its last."""

    def __init__(self, environ: Mapping[str, str], options: Options, report: Report) -> None:
        self._environ = dict(environ)
        self._notifier = Notifier(environ)
        without_notices(self._environ)
        self._options = options
        self._report = report
        self._stop, self._hurry, self._reload = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> int:
        """Run it; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked)
        # Of a terminal it says that it was closed; of everything else, that the settings are to be read.
        loop.add_signal_handler(signal.SIGHUP, self._asked if os.isatty(0) else self._reload.set)
        starts = Starts(locate_home(self._environ).locks)
        if not await self._calm(starts):
            return 0
        async with App(self._environ, self._options) as app:
            await check_settings(app)
            for line in app.notices:
                self._report(line)
            async with Gateway(app, self._report) as gateway:
                await gateway.start()
                starts.succeeded()
                calm_collector()
                await self._watched(gateway)
        self._report("The gateway has ended.")
        return 0

    async def _watched(self, gateway: Gateway) -> None:
        """From the moment that it runs until it has come to its end."""
        runs = f"The gateway runs: {', '.join(gateway.accounts) or 'no account'}."
        self._report(runs)
        gateway.watch.note("began", count=os.getpid())
        self._notifier.ready(f"STATUS={runs}")
        self._notifier.watch()
        try:
            await self._until_stopped(gateway)
            self._notifier.stopping("STATUS=Nothing new is taken in, what runs comes to its end.")
            self._report("The gateway ends: nothing new is taken in, what runs comes to its end.")
            await _drained(gateway, gateway.app.premises.settings.gateway.drain_seconds, self._hurry)
            gateway.watch.note("ended")
        finally:
            await self._notifier.close()

    async def _until_stopped(self, gateway: Gateway) -> None:
        stop = asyncio.create_task(self._stop.wait())
        try:
            while not stop.done():
                news = asyncio.create_task(self._reload.wait())
                await asyncio.wait({stop, news}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if self._reload.is_set() and not stop.done():
                    self._reload.clear()
                    self._notifier.reloading()
                    said = await gateway.reload()
                    self._notifier.ready(f"STATUS={said}")
        finally:
            stop.cancel()

    def _asked(self) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def _calm(self, starts: Starts) -> bool:
        """Wait where it was tried too often to start; False when it was told to end meanwhile."""
        seconds = starts.begin()
        if seconds:
            said = f"The gateway failed to start {MOST} times within {WINDOW:.0f} s; it waits for {seconds:.0f} s."
            self._report(said)
            self._notifier.status(said, more_seconds=seconds + WINDOW)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
        return not self._stop.is_set()


async def _drained(gateway: Gateway, seconds: float, hurry: asyncio.Event) -> None:
    draining = asyncio.create_task(gateway.drain(seconds))
    hurried = asyncio.create_task(hurry.wait())
    await asyncio.wait({draining, hurried}, return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, hurried):
        task.cancel()
    await asyncio.wait({draining, hurried})


def _loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


def _raise_limits() -> None:
    """As many file handles as the system lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _HANDLES if hard == resource.RLIM_INFINITY else min(hard, _HANDLES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
