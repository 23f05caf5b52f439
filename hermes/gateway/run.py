"""The gateway as a process: its event loop, its signals, its end.

Delay a gateway that fails to start again and again. `hermes serve` runs one with the API server alone.
"""

import asyncio
import contextlib
import os
import resource
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from hermes.admin.service.sd_notify import ServiceNotifier, remove_notify_variables
from hermes.client.objects import EVENT_SCHEMA_VERSION
from hermes.config.home import locate_home
from hermes.core.errors import ConfigError
from hermes.gateway.accounts import plan_account
from hermes.gateway.gateway import Gateway, check_settings
from hermes.gateway.platforms.api_server.adapter import ApiServerPlatform
from hermes.gateway.platforms.api_server.keys import ApiOptions
from hermes.i18n.messages import N_
from hermes.sessions.app import App
from hermes.sessions.options import SessionOptions
from hermes.util.cancellation import cancel_tasks
from hermes.util.garbage_collector import map_large_blocks, tune_garbage_collector
from hermes.util.hosts import is_loopback

MAX_FAILED_STARTS = 5
WINDOW_SECONDS = 60.0
"""After so many failed starts within so many seconds, the next start is delayed."""
Report = Callable[[str], None]
_MAX_HANDLES = 65_536
"""File handles that the process may have where the system allows it: one a live session, and connections."""


API_PLATFORM = "api_server"
_LISTEN_SECONDS = 30.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}  # noqa: S104 - compared with, not listened on


class FailedStarts:
    """The starts of a home's gateway that did not succeed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "gateway.starts"

    def record_start(self) -> float:
        """Record a start and return the seconds to wait before it, mostly 0."""
        now = time.time()
        failed = [one for one in self._read_times() if now - WINDOW_SECONDS < one < now + 1]
        self._write_times([*failed, now][-2 * MAX_FAILED_STARTS :])
        if len(failed) < MAX_FAILED_STARTS:
            return 0.0
        return max(WINDOW_SECONDS - (now - failed[-MAX_FAILED_STARTS]), 0.0)

    def clear_starts(self) -> None:
        """Forget the earlier starts, because the gateway runs."""
        with contextlib.suppress(OSError):
            self._file.unlink()

    def _read_times(self) -> list[float]:
        try:
            text = self._file.read_text("ascii", "replace")
        except OSError:
            return []
        found = []
        for word in text.split():
            with contextlib.suppress(ValueError):
                found.append(float(word))
        return found

    def _write_times(self, times: list[float]) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(" ".join(map(repr, times)))


class DoorAddress(Struct, frozen=True):
    """Where programs find the door. `key` is the one that was made for this run; None where keys are configured."""

    url: str
    key: str | None
    openapi: str
    event_schema: int = EVENT_SCHEMA_VERSION


class ProgramDoor:
    """The door for programs (`hermes serve`): the choice of accounts, and their options here.

    An empty host and a port of None are those of the settings; `show_address` is called once, when the port is
    listening.
    """

    def __init__(self, host: str, port: int | None, show_address: Callable[[DoorAddress], None]) -> None:
        self._host = host
        self._port = port
        self._show_address = show_address
        self._fresh_key = secrets.token_urlsafe(32)
        self._has_keys = False

    def select_platforms(
        self, given: Mapping[str, Mapping[str, object]], environ: Mapping[str, str]
    ) -> Mapping[str, Mapping[str, object]]:
        """Return the account of the API server alone, with the host, port and key that it has here. One that others
        reach gets no key: the server refuses to listen until one is configured.
        """
        name = next((one for one in given if _platform_of(one, given[one]) == API_PLATFORM), API_PLATFORM)
        account: dict[str, object] = {**given.get(name, {}), "enabled": True}
        if self._host:
            account["host"] = self._host
        if self._port is not None:
            account["port"] = str(self._port)  # a 0 would be taken for one that is not given
        with contextlib.suppress(ConfigError):  # whoever opens the accounts says what is wrong
            plan = plan_account(name, account, environ)
            assert plan is not None and isinstance(plan.options, ApiOptions)
            self._has_keys = bool(plan.options.key or plan.options.keys)
            if not self._has_keys and is_loopback(plan.options.host):
                account["key"] = self._fresh_key
        return {name: account}

    async def announce_address(self, gateway: Gateway) -> None:
        """Show the address once the port is listening. Raises ConfigError where it cannot be listened on."""
        account = next(iter(gateway.accounts.values()), None)
        if account is None or not await account.wait_connected(_LISTEN_SECONDS):
            problem = account.last_problem if account is not None else next(iter(gateway.config_problems), "")
            raise ConfigError(problem or N_("The API server does not come up."))
        platform, options = account.platform, account.plan.options
        assert isinstance(platform, ApiServerPlatform) and isinstance(options, ApiOptions)
        host = _EVERYWHERE.get(options.host.strip("[]"), options.host)
        url = f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{platform.port}"
        self._show_address(DoorAddress(url, None if self._has_keys else self._fresh_key, f"{url}/openapi.json"))


def _platform_of(name: str, settings: Mapping[str, object]) -> object:
    return settings.get("platform") or name


def serve(environ: Mapping[str, str], options: SessionOptions, report: Report, door: ProgramDoor | None = None) -> int:
    """Run the gateway until a signal ends it: TERM and INT after running work has ended, a second one at once. HUP
    reloads the settings, or ends the gateway where it runs in a terminal. With a door nothing but that is open. Return
    the exit code; raises HermesError when it cannot start.
    """
    _raise_handle_limit()
    map_large_blocks()
    process = _GatewayProcess(environ, options, report, door)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(process.run())
    if process.restarts:  # the same process, so that a service manager sees the one that it started
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very program again
    return code


class _GatewayProcess:
    """One run of the gateway process."""

    def __init__(
        self, environ: Mapping[str, str], options: SessionOptions, report: Report, door: ProgramDoor | None
    ) -> None:
        self._door = door
        self._environ = dict(environ)
        self._notifier = ServiceNotifier(environ)
        remove_notify_variables(self._environ)
        self._options = options
        self._report = report
        self._stop, self._hurry, self._reload = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.restarts = False
        """Whether the process begins again once it has ended."""

    async def run(self) -> int:
        """Run the gateway; return the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._request_stop)
        # Of a terminal it says that it was closed; of everything else, that the settings are to be read.
        loop.add_signal_handler(signal.SIGHUP, self._request_stop if os.isatty(0) else self._reload.set)
        starts = FailedStarts(locate_home(self._environ).locks)
        if self._door is None and not await self._back_off(starts):
            return 0
        async with App(self._environ, self._options) as app:
            if self._door is None:
                await check_settings(app)
            for line in app.notices:
                self._report(line)
            async with self._make_gateway(app) as gateway:
                gateway.offer_restart(self._request_restart)
                await gateway.start()
                if self._door is not None:
                    await self._door.announce_address(gateway)
                starts.clear_starts()
                tune_garbage_collector()
                await self._run_gateway(gateway)
        self._report("The gateway has ended.")
        return 0

    def _make_gateway(self, app: App) -> Gateway:
        if self._door is None:
            return Gateway(app, self._report)
        return Gateway(app, self._report, partial(self._door.select_platforms, environ=app.services.environ))

    async def _run_gateway(self, gateway: Gateway) -> None:
        """Run a started gateway until it has drained."""
        runs = f"The gateway runs: {', '.join(gateway.accounts) or 'no account'}."
        self._report(runs)
        gateway.telemetry.log_event("began", count=os.getpid())
        self._notifier.notify_ready(f"STATUS={runs}")
        self._notifier.start_watchdog()
        try:
            await self._wait_for_stop(gateway)
            if self.restarts:  # a service manager that is told of an end would kill the next start
                self._notifier.notify_reloading()
            else:
                self._notifier.notify_stopping("STATUS=Nothing new is taken in, what runs comes to its end.")
            self._report("The gateway ends: nothing new is taken in, what runs comes to its end.")
            await _drain_gateway(gateway, gateway.app.services.settings.gateway.drain_seconds, self._hurry)
            gateway.telemetry.log_event("ended")
        finally:
            await self._notifier.close()

    async def _wait_for_stop(self, gateway: Gateway) -> None:
        stop = asyncio.create_task(self._stop.wait())
        try:
            while not stop.done():
                news = asyncio.create_task(self._reload.wait())
                await asyncio.wait({stop, news}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                if self._reload.is_set() and not stop.done():
                    self._reload.clear()
                    self._notifier.notify_reloading()
                    outcome = await gateway.reload_settings()
                    self._notifier.notify_ready(f"STATUS={outcome.said}")
        finally:
            stop.cancel()

    def _request_restart(self) -> None:
        self.restarts = True
        self._stop.set()

    def _request_stop(self) -> None:
        (self._hurry if self._stop.is_set() else self._stop).set()

    async def _back_off(self, starts: FailedStarts) -> bool:
        """Wait where starting has failed too often; return False when a signal ended the wait."""
        seconds = starts.record_start()
        if seconds:
            said = (
                f"The gateway failed to start {MAX_FAILED_STARTS} times within {WINDOW_SECONDS:.0f} s; "
                f"it waits for {seconds:.0f} s."
            )
            self._report(said)
            self._notifier.notify_status(said, more_seconds=seconds + WINDOW_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
        return not self._stop.is_set()


async def _drain_gateway(gateway: Gateway, seconds: float, hurry: asyncio.Event) -> None:
    draining = asyncio.create_task(gateway.drain(seconds))
    hurried = asyncio.create_task(hurry.wait())
    await asyncio.wait({draining, hurried}, return_when=asyncio.FIRST_COMPLETED)
    await cancel_tasks([draining, hurried])


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop factory where it is installed, else None."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None


def _raise_handle_limit() -> None:
    """Raise the limit on open files as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_HANDLES if hard == resource.RLIM_INFINITY else min(hard, _MAX_HANDLES)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
