"""Runs commands that the kernel confines: what they may write, read, reach and signal is decided outside of them."""

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack

import msgspec

from hermes.core.errors import ToolError
from hermes.execution.base import (
    CommandExit,
    DeniedPath,
    NetworkMode,
    OutputSink,
    ShellCommand,
    StopOutcome,
    normalize_exit_code,
)
from hermes.execution.layout import AccessLayout
from hermes.execution.local import LocalBackend, LocalCommand
from hermes.execution.sandbox.bubblewrap import (
    NO_EXITS,
    BubblewrapSandbox,
    HeldOutput,
    NetworkExits,
    StartSignal,
    build_trial,
)
from hermes.execution.sandbox.egress_proxy import AllowedHosts, EgressProxy, ResolveHost
from hermes.execution.sandbox.landlock import LandlockSandbox
from hermes.execution.sandbox.mounted_files import MountedFiles, MountedFilesWatch
from hermes.execution.sandbox.network import LoopbackNetwork, make_loopback
from hermes.execution.sandbox.planted_guard import PlantedGuard
from hermes.execution.sandbox.policy import (
    SandboxPolicy,
    explain_kept_settings,
    explain_unseen_processes,
    find_code_paths,
)
from hermes.execution.sandbox.probe import SandboxMechanism, SandboxProbe, SandboxSupport
from hermes.execution.sandbox.seatbelt import SeatbeltSandbox
from hermes.execution.sandbox.session_layout import SessionLayout
from hermes.execution.sandbox.settings_copies import SettingsCopies
from hermes.execution.sandbox.tmpdir import SandboxTmpdir
from hermes.execution.supervisor import Supervisors
from hermes.safety.paths import is_or_below

_SERVICE_VARIABLES = frozenset(
    str.split("""
    SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS WAYLAND_DISPLAY DISPLAY
    XAUTHORITY XDG_RUNTIME_DIR DOCKER_HOST CONTAINER_HOST TMUX STY TMPDIR TMP TEMP
""")
)
"""Variables that lead to services of this machine, and to temporary folders that are not the session's."""
_NO_PHONE_HOME_VARIABLES = dict(
    one.split("=")
    for one in str.split("""
    npm_config_update_notifier=false NO_UPDATE_NOTIFIER=1 PIP_DISABLE_PIP_VERSION_CHECK=1 YARN_ENABLE_TELEMETRY=0
    GH_NO_UPDATE_NOTIFIER=1 HOMEBREW_NO_AUTO_UPDATE=1 HOMEBREW_NO_ANALYTICS=1 DENO_NO_UPDATE_CHECK=1
    CHECKPOINT_DISABLE=1 DOTNET_CLI_TELEMETRY_OPTOUT=1 NEXT_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1
""")
)
"""Variables by which programs stop their own update checks and usage reports, unless a person set them:
each would cause a question about a host that nobody wanted to reach.
"""
_NO_SHARED_LOOPBACK = (
    "Commands cannot share a loopback interface here, so a server that one starts is not reached by others"
)
_LESS_NETWORK_NOTE = (
    b"\n[sandbox: this command had less network than others that run, and cannot reach their servers]\n"
)
_NOT_ALONE = (
    "git's settings change only while nothing else of the session runs, which could change them, too: end what runs "
    "in the background first."
)
_UNSIGNED_NOTE = b"\n[sandbox: no key is in here, so git signs nothing; the person can sign what was recorded]\n"
_MAX_STARTS = 5
"""How often a command is started while what its sandbox hides changes under the program that makes it."""
_START_SECONDS = 10.0
"""Seconds until a sandbox whose shell does not report counts as begun; a busy machine needs a tenth of a second."""
_NETWORK_ORDER = (NetworkMode.OFF, NetworkMode.ALLOWLIST, NetworkMode.ON)


class SandboxBackend:
    """Runs commands as `LocalBackend` does, each in a sandbox.

    The mechanism of the sandbox is found out at the first command; where there is none, every start raises `ToolError`.
    `resolve` finds the addresses of a name for the proxy. The other parameters are those of `LocalBackend`.
    """

    name = "sandbox"
    contained = True

    def __init__(
        self,
        environment: Mapping[str, str],
        policy: SandboxPolicy,
        *,
        passed_variables: Collection[str] = (),
        held_handles: Sequence[int] = (),
        supervisors: Supervisors | None = None,
        probe: SandboxProbe | None = None,
        resolve: ResolveHost | None = None,
    ) -> None:
        inner = {name: value for name, value in environment.items() if name not in _SERVICE_VARIABLES}
        set_names = {name.lower() for name in inner}
        inner |= {name: value for name, value in _NO_PHONE_HOME_VARIABLES.items() if name.lower() not in set_names}
        self._local = LocalBackend(
            inner,
            passed_variables=(*passed_variables, *_NO_PHONE_HOME_VARIABLES),
            held_handles=held_handles,
            supervisors=supervisors,
        )
        workspace = os.path.realpath(policy.places.workspace)
        self._policy = msgspec.structs.replace(
            policy,
            code=policy.code or find_code_paths(),
            places=msgspec.structs.replace(policy.places, workspace=workspace),
            writable=tuple(map(os.path.realpath, policy.writable)),
        )
        self._probe = probe or SandboxProbe(environment)
        self._hosts = AllowedHosts(policy.hosts, resolve)
        self._tmpdir: SandboxTmpdir | None = None
        self._settings_copies = SettingsCopies(policy.places.home, environment)
        self._layouts = SessionLayout(self._policy, self._settings_copies, self._probe.mounts)
        self.list_opened = self._layouts.list_opened
        """Return the places outside of the workspace that a person has opened to all commands of the session."""
        self._commands: list[SandboxedCommand] = []
        self._watch = MountedFilesWatch(lambda: [one.check_mounts for one in self._commands if not one.is_over])
        self._loopbacks: dict[NetworkMode, LoopbackNetwork | None] = {}
        self._loopback_lock = asyncio.Lock()
        self._has_told_leftovers = False
        self._has_told_signing = False
        self.notices: list[str] = []
        """Lines for the person: what commands left that was moved aside. The model reads them as output."""
        self._planted = PlantedGuard(self._policy, workspace, self.notices)
        self.describe_size = self._planted.describe_size
        """Return a line when the last look did not see every folder."""
        self.is_kept = self._planted.is_kept
        """Return whether a path is, or lies in, what was found to be obeyed by programs."""

    async def require_support(self) -> SandboxSupport:
        """Return what the sandbox enforces here. Raises `ToolError` when it enforces nothing."""
        support = await self._probe.find_support()
        if not support.is_usable:
            raise ToolError(
                f"Commands are to run in a sandbox, and there is none here: {support.reason}.",
                "Install bubblewrap, or set terminal.backend to local to run them without.",
            )
        return support

    async def start(self, command: ShellCommand, sink: OutputSink) -> "SandboxedCommand":
        """Start a command in its sandbox. Raises `ToolError` when it cannot be started, or not be confined."""
        support = await self.require_support()
        network = min(self._policy.network, command.network, key=_NETWORK_ORDER.index)
        if network is not NetworkMode.ON and not support.network:
            raise ToolError("The network cannot be kept from commands here, and the settings say that it is to be.")
        if not _may_run_beside(command, self._commands):
            raise ToolError(_NOT_ALONE)
        with self._planted.count_start():
            layout = await self._prepare_layout(command)
            if command.git_settings and not self._planted.is_alone:
                raise ToolError(_NOT_ALONE)
            for left in reversed(range(_MAX_STARTS)):
                output = HeldOutput(sink)
                running, signal = await self._start_once(command, output.write, layout, network)
                if signal is None or await running.has_begun(signal):
                    break
                changed = await asyncio.to_thread(self._layouts.build_for_command, command, self._get_tmpdir())
                if not left or changed == layout:
                    break
                # A path that was listed has gone, such as a socket that its program removed: nothing has run.
                await running.abandon()
                self._commands.remove(running)
                layout = changed
            output.release()
        self._watch.start()
        return running

    async def _start_once(
        self, command: ShellCommand, sink: OutputSink, layout: AccessLayout, network: NetworkMode
    ) -> "tuple[SandboxedCommand, StartSignal | None]":
        """Start a command in a sandbox of that layout. Bubblewrap alone makes it after it was started."""
        support = await self.require_support()
        async with AsyncExitStack() as undo:
            later: list[bytes] = []
            proxy: EgressProxy | None = None
            if network is NetworkMode.ALLOWLIST and support.hosts:
                proxy = EgressProxy(
                    self._hosts,
                    command.permissions,
                    _make_refusal_printer(sink if command.interactive else later.append),
                )
            signal: StartSignal | None = None
            has_mounts = support.mechanism is SandboxMechanism.BUBBLEWRAP
            mounted = MountedFiles(layout, self._layouts.list_keys(), undo, by_mounts=has_mounts)
            with ExitStack() as given:
                exits = await self._make_exits(support, network, proxy, undo, given)
                with _make_wrapper(support, command, self._get_tmpdir(), layout, network, exits) as wrapper:
                    if isinstance(wrapper, BubblewrapSandbox):
                        signal = wrapper.make_start_signal()
                        undo.callback(signal.close)
                    local_command = await self._local.start(command, sink, wrapper)
            running = SandboxedCommand(self, local_command, sink, layout, mounted, undo.pop_all())
            running.may_change_settings = bool(command.git_settings)
            running.network = network
            running.proxy = proxy
            running.closing_notes = later
            if self._settings_copies.signing_is_off and not self._has_told_signing and "git" in command.text:
                self._has_told_signing = True
                later.append(_UNSIGNED_NOTE)
            running.has_shell_code = support.mechanism is SandboxMechanism.BUBBLEWRAP
        self._commands.append(running)
        return running, signal

    async def quarantine_planted(self, command: "SandboxedCommand") -> list[str]:
        """Quarantine files that programs would obey, after a command that could have made them; return a line for each
        thing.
        """
        # What one of them may change is not fixed, whichever ends first.
        others = (one for one in self._commands if not (one.is_settled and one.is_over))
        checks = [one.mounted.is_fixed for one in (command, *others)]
        return await self._planted.look(
            command.layout,
            lambda path: all(is_fixed(path) for is_fixed in checks),
            lambda: all(one.is_over for one in self._commands),
        )

    async def look_again(self) -> Sequence[str]:
        """Look again at what commands have left that still run; return a line for each thing that was moved aside."""
        running = [one for one in self._commands if not one.is_over]
        return [*await self.quarantine_planted(running[-1]), *self.describe_size()] if running else ()

    def note_leftovers(self, layout: AccessLayout) -> bytes:
        """Return a line for the model, once a session: that files in /tmp will not stay."""
        left = self._tmpdir.find_leftovers(layout) if self._tmpdir is not None and not self._has_told_leftovers else ""
        self._has_told_leftovers = self._has_told_leftovers or bool(left)
        return f"\n[sandbox: {left} is this session's own and goes when it ends]\n".encode() if left else b""

    def has_wider_network(self, than: "SandboxedCommand") -> bool:
        """Return whether another command runs that may reach more, and so is in another network."""
        reach = _NETWORK_ORDER.index(than.network)
        return any(_NETWORK_ORDER.index(one.network) > reach and not one.is_over for one in self._commands)

    def current_layout(self) -> AccessLayout:
        """Return how commands see the folders of this machine now."""
        return self._layouts.current_layout()

    async def describe(self, *, detailed: bool = False) -> str:
        """Describe what the sandbox enforces on this machine, found out by trying."""
        return (await self._probe.find_support()).describe(self._policy.network, detailed=detailed)

    def take_notices(self) -> list[str]:
        """Return the notices about quarantined files since the last call."""
        notices, self.notices[:] = self.notices[:], []
        return notices

    def to_local_path(self, path: str) -> str:
        """Return where a path that a command names lies on this machine: /tmp is a folder of the session's own."""
        plain = os.path.normpath(path)
        if self._layouts.is_open(plain) or not any(is_or_below(plain, one) for one in self._policy.private):
            return path  # the usual cases, and the layout costs a look at the disk
        tmpdir = self._get_tmpdir()
        local_path = tmpdir.to_local_path(path, self.current_layout())
        if local_path != path and not is_or_below(os.path.realpath(local_path), tmpdir.root):
            return os.path.join(
                tmpdir.empty_folder, os.path.basename(plain)
            )  # a link of a command's means its own places
        return local_path

    def to_command_path(self, path: str) -> str:
        """Return how commands name a path of this machine."""
        return self._tmpdir.to_command_path(path) if self._tmpdir is not None else path

    def is_writable(self, path: str) -> bool:
        """Return whether commands may write this path: in the workspace, what was granted, and the
        session's own /tmp.
        """
        places = self._policy.places
        if not self._layouts.is_open(path):
            return self._get_tmpdir().to_command_path(path) != path
        # As in the layout: in the home itself only what is in folders without a dot.
        of_home = os.path.relpath(path, places.home) if is_or_below(path, places.home) else ""
        return not (of_home.startswith(".") and is_or_below(places.home, places.workspace))

    def is_missing_folder(self, path: str) -> bool:
        """Return whether there is no such folder."""
        return not os.path.isdir(self.to_local_path(path))

    def find_denied_path(self, command: str, cwd: str, output: str) -> DeniedPath | None:
        """Return the path that a command was kept from, judging by its output, where a grant would open it."""
        return self._layouts.find_denied_path(command, cwd, output)

    def can_open(self, denied: DeniedPath) -> bool:
        """Return whether a grant would open a path (resolved)."""
        return not self._layouts.explain_refusal(denied)

    def explain_denials(self, command: str, cwd: str, output: str, *, failed: bool) -> list[str]:
        """Explain which path is closed, that git's settings are kept, and which variables commands do not get."""
        settings = explain_kept_settings(output)
        is_open = failed and self._layouts.find_denied_path(command, cwd, output) is not None
        closed = self._layouts.explain_closed_path(output, cwd, failed=failed) if not (settings or is_open) else ""
        if failed and not closed:
            is_alone = self._probe.is_landlock_alone
            closed = self._layouts.explain_kept_folder(output, cwd) if is_alone else explain_unseen_processes(output)
        denied = [one for one in (closed, settings) if one]
        return [*denied, *self._local.explain_denials(command, cwd, output, failed=failed)]

    def grant_write(self, path: str) -> None:
        """Let this session's commands write what a person named. Raises `ToolError` for what is protected."""
        self._layouts.open_to_write(os.path.realpath(path))

    def grant_read(self, path: str) -> None:
        """Let this session's commands read what a person named, but for keys in it. Raises `ToolError` for what is
        never opened: keys, Hermes' own, homes as a whole.
        """
        self._layouts.open_to_read(os.path.realpath(path))

    async def close(self) -> None:
        """End what is left in the sandbox, check what that left, and release what the session had."""
        await self._watch.close()
        await asyncio.gather(*(one.stop() for one in self._commands if not one.is_over))
        for one in self._commands:
            await one.settle_if_over()
            await one.release()
        self._commands.clear()
        await self._planted.close()
        await self._local.close()
        for shared in self._loopbacks.values():
            if shared is not None:
                shared.close()
        self._loopbacks.clear()
        if self._tmpdir is not None:
            await self._tmpdir.close()
            self._tmpdir = None

    async def _prepare_layout(self, command: ShellCommand) -> AccessLayout:
        """Return the layout for a command that starts now.

        With no command running, the files that exist are the person's own.
        """
        support = await self.require_support()
        self._layouts.has_sockets = support.mechanism is not SandboxMechanism.LANDLOCK
        self._planted.note_enforcement(is_enforced=self._layouts.has_sockets)
        for one in self._commands:
            await one.settle_if_over()
        finished = [one for one in self._commands if one.is_over]
        self._commands = [one for one in self._commands if one not in finished]
        for one in finished:
            await one.release()
        layouts, tmpdir = self._layouts, self._get_tmpdir()

        is_alone = not self._commands

        def build_fixed(paths: tuple[str, ...], sockets: Sequence[str]) -> AccessLayout:
            layouts.note_found(paths, sockets, is_alone=is_alone)
            return layouts.build_for_command(command, tmpdir)

        return await self._planted.prepare_command(
            lambda: layouts.build_unfixed(command), build_fixed, is_alone=is_alone
        )

    def _get_tmpdir(self) -> SandboxTmpdir:
        if self._tmpdir is None:
            self._tmpdir = SandboxTmpdir([os.path.realpath(one) for one in self._policy.private if os.path.isdir(one)])
            self._planted.note_unseen_folder(self._tmpdir.root)
        return self._tmpdir

    async def _make_exits(
        self,
        support: SandboxSupport,
        network: NetworkMode,
        proxy: EgressProxy | None,
        undo: AsyncExitStack,
        handed_over: ExitStack,
    ) -> NetworkExits:
        """Return the ways out of the command's sandbox.

        `undo` closes them when all is over, `handed_over` closes what the sandbox has copies of by then.
        """
        if support.mechanism is not SandboxMechanism.BUBBLEWRAP or network is NetworkMode.ON:
            return NO_EXITS
        loopback = await self._get_loopback(support, network)
        if proxy is None:
            return NetworkExits(shared=loopback.namespaces) if loopback is not None else NO_EXITS
        undo.push_async_callback(proxy.close)
        if loopback is not None:
            undo.callback(loopback.remove_proxy, proxy)
            return NetworkExits(shared=loopback.namespaces, proxy=loopback.add_proxy(proxy))
        proxy_socket = handed_over.enter_context(proxy.open())  # the end of the box's copies is seen here
        return NetworkExits(proxy_socket=proxy_socket.fileno())

    async def _get_loopback(self, support: SandboxSupport, network: NetworkMode) -> LoopbackNetwork | None:
        """Return the loopback interface shared by the commands that may reach as much; None: each has its own.

        There is one for each network mode, so that a command without the proxy cannot reach commands that have it.
        """
        async with self._loopback_lock:
            if network in self._loopbacks:
                return self._loopbacks[network]
            reason, self._loopbacks[network] = "no process can supervise them", None
            if await self._local.is_supervised():
                try:
                    listen = network is NetworkMode.ALLOWLIST
                    self._loopbacks[network] = await make_loopback(build_trial(support.program), listen=listen)
                except ToolError as error:
                    reason = str(error)
            notice = f"{_NO_SHARED_LOOPBACK} ({reason})."
            if self._loopbacks[network] is None and notice not in self.notices:
                self.notices.append(notice)
            return self._loopbacks[network]


def _may_run_beside(command: ShellCommand, others: Iterable["SandboxedCommand"]) -> bool:
    """Return whether a command can run beside others: what one of them may change all may, since the kernel takes the
    mounts over a file away when the file is replaced.
    """
    running = [one for one in others if not one.is_over]
    return not running or not (command.git_settings or any(one.may_change_settings for one in running))


class SandboxedCommand:
    """A command in its sandbox. When it has ended, what it left is checked before the end is reported."""

    def __init__(
        self,
        backend: SandboxBackend,
        local_command: LocalCommand,
        sink: OutputSink,
        layout: AccessLayout,
        mounted: MountedFiles,
        resources: AsyncExitStack,
    ) -> None:
        self._backend = backend
        self._local_command = local_command
        self._sink = sink
        self.layout = layout
        self.mounted = mounted
        self.was_ended = False
        """Whether it was killed for what it could reach."""
        self._resources = resources
        self._settle_lock = asyncio.Lock()
        self.may_change_settings = False
        """Whether a person has allowed it to change settings of git's."""
        self.is_settled = False
        """Whether what it left was looked at."""
        self.network = NetworkMode.ON
        self.proxy: EgressProxy | None = None
        self.closing_notes: list[bytes] = []
        """What is printed after its output, so that no shortening removes it."""
        self.has_shell_code = False
        """Whether its exit code is reported by a shell or another program above it, which have a code for a signal."""

    @property
    def pid(self) -> int:
        """The process id of what made the sandbox, which is also its process group."""
        return self._local_command.pid

    @property
    def contacted_hosts(self) -> frozenset[str] | None:
        """The hosts from which anything came: what its proxy saw, since there is no other way in."""
        if self.network is NetworkMode.ON:
            return None
        return self.proxy.contacted_hosts if self.proxy is not None else frozenset()

    @property
    def is_over(self) -> bool:
        """Whether its end has been reported, and nothing is known to be left of it."""
        return self._local_command.is_over

    async def wait(self) -> CommandExit:
        """Wait for its end, for the last of its output, and for the check of what it left."""
        ended = await self._local_command.wait()
        await self._check_leftovers()
        if self.has_shell_code and (left := self._backend.note_leftovers(self.layout)):
            self._sink(left)
        while self.closing_notes:
            self._sink(self.closing_notes.pop(0))
        if ended.code and self._backend.has_wider_network(self):
            self._sink(_LESS_NETWORK_NOTE)
        return msgspec.structs.replace(
            ended, code=normalize_exit_code(ended.code) if self.has_shell_code else ended.code
        )

    async def stop(self) -> StopOutcome:
        """End the whole tree, as `LocalCommand` does."""
        stopped = await self._local_command.stop()
        if stopped is StopOutcome.GONE:
            await self._check_leftovers()
        return stopped

    async def check_mounts(self) -> None:
        """Kill the whole tree, and say why, if it sees a key by now, or may change what programs obey and something of
        that had to be moved aside.
        """
        line = await asyncio.to_thread(self.mounted.describe_shown_key)
        change = "" if line else await asyncio.to_thread(self.mounted.describe_change)
        if change and await self._backend.quarantine_planted(self):
            line = change if await asyncio.to_thread(self.mounted.describe_change) else ""
        if line and not self.was_ended:
            self.was_ended = True
            self._backend.notices.append(line)
            self._sink(f"\n[sandbox: {line}]\n".encode("utf-8", "replace"))
            self._local_command.kill()
            await self.stop()

    async def write(self, data: bytes) -> None:
        """Send input."""
        await self._local_command.write(data)

    def close_input(self) -> None:
        """Signal the end of input."""
        self._local_command.close_input()

    async def settle_if_over(self) -> None:
        """Check what it left, if it has ended and nobody waited for that."""
        if self.is_over:
            await self._check_leftovers()

    async def has_begun(self, signal: StartSignal) -> bool:
        """Wait until its shell runs; return False when no sandbox could be made. Cancelling this kills it."""
        try:
            return await signal.wait_for_start(_START_SECONDS)
        except asyncio.CancelledError:
            self._local_command.kill()
            raise

    async def abandon(self) -> None:
        """Wait for the end of a sandbox that could not be made, and release what it had."""
        await self._local_command.wait()
        await self.release()

    async def release(self) -> None:
        """Close the resources that were kept open for it."""
        await self._resources.aclose()

    async def _check_leftovers(self) -> None:
        async with self._settle_lock:
            if not self.is_settled:
                is_last = self.is_over  # what is left of it may change more
                for note in (*await self._backend.quarantine_planted(self), *self._backend.describe_size()):
                    self._sink(f"\n[sandbox: {note}]\n".encode("utf-8", "replace"))
                self.is_settled = is_last
            if self.is_over:
                await self.release()


def _make_wrapper(
    support: SandboxSupport,
    command: ShellCommand,
    tmpdir: SandboxTmpdir,
    layout: AccessLayout,
    network: NetworkMode,
    exits: NetworkExits,
) -> BubblewrapSandbox | LandlockSandbox | SeatbeltSandbox:
    if support.mechanism is SandboxMechanism.BUBBLEWRAP:
        return BubblewrapSandbox(
            command, tmpdir, layout, network, program=support.program, abi=support.abi, exits=exits
        )
    if support.mechanism is SandboxMechanism.SEATBELT:
        return SeatbeltSandbox(command, tmpdir, layout, network)
    return LandlockSandbox(command, tmpdir, layout, network, abi=support.abi)


def _make_refusal_printer(sink: OutputSink) -> Callable[[str], None]:
    """Return a function that tells the model of a refusal; few programs show the answer of a proxy."""
    return lambda refusal: sink(f"\n[sandbox: {refusal}]\n".encode())
