"""The process of a plug-in: started when it is first needed, asked, watched, started again when it died, and given up
when it fails too often.
"""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Raw, Struct

from hermes.core.errors import ToolError
from hermes.execution.layout import AccessLayout
from hermes.execution.line_program import LineProgram, LineProgramTransport
from hermes.execution.sandbox.egress_proxy import AllowedHosts, EgressProxy
from hermes.execution.sandbox.probe import SandboxProbe
from hermes.execution.sandbox.program_box import BoxedCall
from hermes.execution.supervisor import Supervisors
from hermes.i18n.messages import N_
from hermes.plugin_host.box import BoxPlan, make_boxed_call
from hermes.plugin_host.channel import MAX_RECEIVED_BYTES, PluginChannel, PluginError, PluginRefusedError
from hermes.plugin_host.folders import PluginFolder
from hermes.plugin_host.stored_files import MAX_DATA_BYTES, MAX_DATA_FILES, exceeds_data_limit, store_plugin_files
from hermes.safety.paths import Places
from hermes.safety.secrets.redactor import Redactor

PROTOCOL = 1
"""The version of the protocol that is spoken."""
START_SECONDS = 10.0
_MAX_FAILURES, _FAILURE_SECONDS = 5, 300.0
"""The failures within these seconds after which a plug-in is off until Hermes is started again."""
_MAX_STARTS, _STABLE_SECONDS = 5, 600.0
"""The starts within these seconds after which it is off."""
_PAUSES = (0.0, 0.2, 1.0, 3.0, 6.0)
"""Seconds before each start, by how many there were before."""
_IDLE_SECONDS = 900.0
"""Seconds without a request after which the process is ended; the next request starts another."""
_WATCH_SECONDS = 1.0
_MAX_LATENCIES = 500
_ERROR_LIMIT = 8 * 1024 * 1024


class _Welcome(Struct, forbid_unknown_fields=True):
    protocol: int


class ProcessFacts(Struct, frozen=True, kw_only=True):
    """What `hermes plugins doctor` shows of a plug-in's process; `p95` is in milliseconds."""

    starts: int
    calls: int
    failures: int
    p95: float
    is_running: bool
    problem: str


class HostParts(Struct, frozen=True, kw_only=True):
    """What all processes are started with. `root` is the home of Hermes, `places` the folders that safety knows."""

    root: Path
    supervisors: Supervisors
    probe: SandboxProbe
    redactor: Redactor
    environ: Mapping[str, str]
    places: Places


class PluginProcess:
    """One process of a plug-in; `workspace` is the folder that it may see, empty for none, and `layout` how that
    appears where it may be written.
    """

    def __init__(
        self, folder: PluginFolder, parts: HostParts, workspace: str = "", layout: AccessLayout | None = None
    ) -> None:
        self.folder = folder
        self.problem = ""
        """Why it is off until Hermes is started again, as the end of a sentence; empty while it is not."""
        self._parts = parts
        self._workspace = workspace
        self._layout = layout
        self._data = parts.root / "plugin-data" / folder.identity
        self._lock = asyncio.Lock()
        self._channel: PluginChannel | None = None
        self._proxy: EgressProxy | None = None
        self._watching: asyncio.Task[None] | None = None
        self._starts: deque[float] = deque(maxlen=_MAX_STARTS)
        self._failures: deque[float] = deque(maxlen=_MAX_FAILURES)
        self._latencies: deque[float] = deque(maxlen=_MAX_LATENCIES)
        self._start_count = self._call_count = self._failure_count = 0
        self._last_problem = ""
        self._used_at = 0.0
        self._is_closed = False
        self._loop = asyncio.get_running_loop()

    async def request(self, method: str, params: object, seconds: float) -> Raw:
        """Return the result of a request; the process is started if need be. Raises PluginError with the end of a
        sentence, and PluginRefusedError with what the plug-in says.
        """
        began = self._used_at = self._loop.time()
        self._call_count += 1
        try:
            channel = self._channel
            if channel is None or channel.lost_reason:
                channel = await self._ensure_started()
            result = await channel.request(method, params, seconds)
        except PluginError as error:
            self._note_failure(error.reason)
            raise
        finally:
            self._used_at = self._loop.time()
            self._latencies.append(self._used_at - began)
        return result

    async def start(self) -> None:
        """Start it if it does not run. Raises PluginError."""
        try:
            await self._ensure_started()
        except PluginError as error:
            self._note_failure(error.reason)
            raise

    @property
    def is_busy(self) -> bool:
        """Whether a request waits for its answer."""
        return self._channel is not None and self._channel.is_busy

    def list_facts(self) -> ProcessFacts:
        """Return what there is to tell of it."""
        sorted_latencies = sorted(self._latencies)
        last = int(len(sorted_latencies) * 0.95)
        return ProcessFacts(
            starts=self._start_count,
            calls=self._call_count,
            failures=self._failure_count,
            p95=1_000 * sorted_latencies[min(last, len(sorted_latencies) - 1)] if sorted_latencies else 0.0,
            is_running=self._channel is not None and not self._channel.lost_reason,
            problem=self.problem or self._last_problem,
        )

    async def close(self) -> None:
        """End the process for good."""
        self._is_closed = True
        await self._end_channel()

    async def _ensure_started(self) -> PluginChannel:
        async with self._lock:
            if self._channel is not None and not self._channel.lost_reason:
                return self._channel
            if self._is_closed:
                raise PluginError(N_("Hermes ends"))
            if self.problem:
                raise PluginError(self.problem)
            await self._end_channel()
            await self._pause_before_start()
            try:
                async with asyncio.timeout(START_SECONDS):
                    self._channel = await self._start()
            except TimeoutError:
                raise PluginError(N_("it was not ready within {seconds:g} s", seconds=START_SECONDS)) from None
            self._watching = asyncio.create_task(self._watch(self._channel), name=f"plug-in {self.folder.name}")
            return self._channel

    async def _pause_before_start(self) -> None:
        now = self._loop.time()
        recent = [one for one in self._starts if now - one < _STABLE_SECONDS]
        if len(recent) >= _MAX_STARTS:
            self.problem = N_(
                "it was started {count} times in {seconds:g} s and is off until Hermes is started again",
                count=_MAX_STARTS,
                seconds=_STABLE_SECONDS,
            )
            raise PluginError(self.problem)
        self._starts.append(now)
        await asyncio.sleep(_PAUSES[len(recent)])

    async def _start(self) -> PluginChannel:
        """Start the process and greet it. Raises PluginError."""
        parts, manifest = self._parts, self.folder.manifest
        try:
            support = await parts.probe.find_support()
            files = await asyncio.to_thread(store_plugin_files, self.folder, parts.root / "cache" / "plugins")
            data = await asyncio.to_thread(_make_data_folder, self._data)
            if await asyncio.to_thread(exceeds_data_limit, self._data):
                raise PluginError(_DATA_PROBLEM)
            plan = BoxPlan(
                manifest=manifest,
                files=files,
                data=data,
                workspace=self._workspace,
                layout=self._layout,
                places=parts.places,
                variables={name: parts.environ[name] for name in manifest.env if name in parts.environ},
            )
            with contextlib.ExitStack() as given:
                proxy_end: socket.socket | None = None
                if manifest.hosts:
                    self._proxy = EgressProxy(AllowedHosts(manifest.hosts), None)
                    proxy_end = given.enter_context(self._proxy.open())
                call = given.enter_context(make_boxed_call(plan, support, proxy_end))
                channel = PluginChannel(LineProgramTransport(self._build_program(call, files), parts.supervisors))
                await self._open_channel(channel)
        except (ToolError, OSError, ValueError) as error:
            reason = error.message if isinstance(error, ToolError) else getattr(error, "strerror", None) or str(error)
            raise PluginError(reason) from None
        self._start_count += 1
        return channel

    def _build_program(self, call: BoxedCall, files: str) -> LineProgram:
        return LineProgram(
            command=call.arguments[0],
            arguments=call.arguments[1:],
            environment={},
            folder=files,
            log=self._parts.root / "logs" / f"plugin-{self.folder.identity}.log",
            redact=self._parts.redactor.redact,
            handles=call.handles,
            message_limit=MAX_RECEIVED_BYTES,
            error_limit=_ERROR_LIMIT,
        )

    async def _open_channel(self, channel: PluginChannel) -> None:
        manifest = self.folder.manifest
        greeting = {"protocol": PROTOCOL, "name": manifest.name, "version": manifest.version}
        try:
            await channel.open()
            raw = await channel.request("initialize", greeting, START_SECONDS)
            welcome = msgspec.json.decode(raw, type=_Welcome)
        except (msgspec.MsgspecError, RecursionError, PluginRefusedError) as error:
            await channel.close()
            raise PluginError(N_("its greeting cannot be used: {error}", error=error)) from None
        except BaseException:
            await channel.close()
            raise
        if welcome.protocol != PROTOCOL:
            await channel.close()
            raise PluginError(N_("it speaks version {version} of the protocol", version=welcome.protocol))

    async def _watch(self, channel: PluginChannel) -> None:
        """End the process when its data are too many, and when nobody has asked it for long."""
        while not channel.lost_reason:
            await asyncio.sleep(_WATCH_SECONDS)
            if await asyncio.to_thread(exceeds_data_limit, self._data):
                channel.mark_lost(_DATA_PROBLEM)
                self._note_failure(_DATA_PROBLEM)
            elif not channel.is_busy and self._loop.time() - self._used_at > _IDLE_SECONDS:
                channel.mark_lost(N_("it had nothing to do"))

    def _note_failure(self, reason: str) -> None:
        now = self._loop.time()
        self._failure_count += 1
        self._last_problem = reason
        self._failures.append(now)
        if len(self._failures) == _MAX_FAILURES and now - self._failures[0] < _FAILURE_SECONDS and not self.problem:
            self.problem = N_(
                "it failed {count} times and is off until Hermes is started again; the last time {reason}",
                count=_MAX_FAILURES,
                reason=reason,
            )
            if self._channel is not None:
                self._channel.mark_lost(self.problem)

    async def _end_channel(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        channel, self._channel = self._channel, None
        proxy, self._proxy = self._proxy, None
        if channel is not None:
            await channel.close()
        if proxy is not None:
            await proxy.close()


def _make_data_folder(folder: Path) -> str:
    """Make the folder, private to its owner, and return its real path."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return os.path.realpath(folder)


_DATA_PROBLEM = N_(
    "it holds more than {size} MB or {count} files in its folder of plugin-data; remove some of them",
    size=MAX_DATA_BYTES >> 20,
    count=MAX_DATA_FILES,
)
