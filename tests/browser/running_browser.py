"""A headless Chromium of the machine, started for tests."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from hermes.browser.cdp import CdpConnection
from hermes.browser.transport import PipeTransport
from tests.requirements import find_program

_FLAGS = (
    "--headless=new",
    "--site-per-process",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--mute-audio",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--metrics-recording-only",
    "--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider",
)


class RunningBrowser:
    """A browser's process, and the connection to it."""

    def __init__(self, process: asyncio.subprocess.Process, connection: CdpConnection) -> None:
        self.process = process
        self.connection = connection

    def kill(self) -> None:
        """Kill the browser with everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def run_browser(
    folder: Path, *flags: str, program: str = "chromium-headless-shell"
) -> AsyncIterator[RunningBrowser]:
    """Start a browser with its profile in `folder`; nothing of it runs afterwards."""
    from_us, to_browser = os.pipe()
    from_browser, to_us = os.pipe()
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f'exec 3<&{from_us} 4>&{to_us}; exec "$@"',
        "bash",
        str(find_program(program)),
        *_FLAGS,
        f"--user-data-dir={folder}",
        *flags,
        "about:blank",
        pass_fds=(from_us, to_us),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(from_us)
    os.close(to_us)
    connection = CdpConnection(PipeTransport(from_browser, to_browser))
    connection.start()
    running = RunningBrowser(process, connection)
    try:
        yield running
    finally:
        running.kill()
        await process.wait()
        await connection.close()
