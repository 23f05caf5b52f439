"""Runs the gateway as a process: its loop, its signals, its end."""

import asyncio
import contextlib
import resource
import signal
from collections.abc import Callable, Mapping

from hermes.app.options import Options
from hermes.app.wiring import App
from hermes.gateway.gateway import Gateway, check_settings
from hermes.util.collector import calm_collector

Report = Callable[[str], None]
_HANDLES = 65_536
"""File handles that the process may have, where the system allows so many: one a live session, and connections."""


def serve(environ: Mapping[str, str], options: Options, report: Report) -> int:
    """Run until a signal ends it: TERM and INT after what runs has come to its end, a second one at once. Returns the
    exit code; raises HermesError when it cannot start."""
    _raise_limits()
    with asyncio.Runner(loop_factory=_loop()) as runner:
        return runner.run(_serve(environ, options, report))


async def _serve(environ: Mapping[str, str], options: Options, report: Report) -> int:
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    async with App(environ, options) as app:
        check_settings(app)
        for line in app.notices:
            report(line)
        async with Gateway(app, report) as gateway:
            await gateway.start()
            calm_collector()
            report(f"The gateway runs: {', '.join(gateway.accounts) or 'no account'}.")
            await stop.wait()
            report("The gateway ends: nothing new is taken in, what runs comes to its end.")
            await _drained(gateway, app.premises.settings.gateway.drain_seconds, hurry)
    report("The gateway has ended.")
    return 0


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
