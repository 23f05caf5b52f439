"""Commands that the kernel holds back: what they may write, read, reach and signal is decided outside of them."""

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import msgspec

from hermes.core.errors import ToolError
from hermes.execution.base import Command, Exit, Network, Sink, Stopped, by_signal
from hermes.execution.local import LocalBackend, LocalRunning
from hermes.execution.sandbox.bubblewrap import ALONE, BwrapBox, Exits, trial
from hermes.execution.sandbox.denied import denied_path, never_opened
from hermes.execution.sandbox.egress_proxy import Hosts, Proxy, Resolve
from hermes.execution.sandbox.landlock import LandlockBox
from hermes.execution.sandbox.network import Loopback, make_loopback
from hermes.execution.sandbox.planted_files import Plants
from hermes.execution.sandbox.policy import (
    PROJECT_FILES,
    Kind,
    Layout,
    SandboxPolicy,
    code_places,
    fixed_places,
    grant_refused,
    lay_out,
    with_fixed,
)
from hermes.execution.sandbox.probe import Held, Probe, Way
from hermes.execution.sandbox.seatbelt import SeatbeltBox
from hermes.execution.sandbox.tmpdir import Room
from hermes.execution.supervisor import Wardens
from hermes.safety.paths import is_or_below

_OUTWARD = frozenset(
    {
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "DBUS_SYSTEM_BUS_ADDRESS",
        "WAYLAND_DISPLAY",
        "DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "DOCKER_HOST",
        "CONTAINER_HOST",
        "TMUX",
        "STY",
        "TMPDIR",
        "TMP",
        "TEMP",
    }
)
"""Variables that lead to services of this machine, and to temporary folders that are not the session's."""
_UNASKED = {
    "npm_config_update_notifier": "false",
    "NO_UPDATE_NOTIFIER": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "YARN_ENABLE_TELEMETRY": "0",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "HOMEBREW_NO_AUTO_UPDATE": "1",
    "HOMEBREW_NO_ANALYTICS": "1",
    "DENO_NO_UPDATE_CHECK": "1",
    "CHECKPOINT_DISABLE": "1",
    "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "NEXT_TELEMETRY_DISABLED": "1",
    "DO_NOT_TRACK": "1",
}
"""Variables by which programs leave their own looks for updates, and their reports home, unless a person set them: each
would be a question about a host that nobody wanted to reach."""
_OWN_LOOPBACK = "Commands cannot share a loopback interface here, so a server that one starts is not reached by others"
_LESS = b"\n[sandbox: this command had less network than others that run, and cannot reach their servers]\n"
_TOO_MANY = "The workspace has too many folders to look for git hooks in all of them."
_ORDER = (Network.OFF, Network.ALLOWLIST, Network.ON)


class SandboxBackend:
    """Runs commands as `LocalBackend` does, each in a box.

    What makes the box is found out at the first command; where nothing can, every start raises `ToolError`. `resolve`
    finds the addresses of a name for the proxy. The other parameters are those of `LocalBackend`.
    """

    name = "sandbox"
    contained = True

    def __init__(
        self,
        environment: Mapping[str, str],
        policy: SandboxPolicy,
        *,
        passed: Collection[str] = (),
        held: Sequence[int] = (),
        wardens: Wardens | None = None,
        probe: Probe | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        inner = {name: value for name, value in environment.items() if name not in _OUTWARD}
        said = {name.lower() for name in inner}
        inner |= {name: value for name, value in _UNASKED.items() if name.lower() not in said}
        self._local = LocalBackend(inner, passed=passed, held=held, wardens=wardens)
        code = policy.code or code_places(str(Path(__file__).resolve().parents[2]))
        workspace = os.path.realpath(policy.places.workspace)
        self._policy = msgspec.structs.replace(
            policy,
            code=code,
            places=msgspec.structs.replace(policy.places, workspace=workspace),
            writable=tuple(map(os.path.realpath, policy.writable)),
        )
        self._probe = probe or Probe(environment)
        self._hosts = Hosts(policy.hosts, resolve)
        self._room: Room | None = None
        self._granted: list[str] = []
        self._running: list[SandboxRunning] = []
        self._fixed: tuple[str, ...] = ()
        self._plants = Plants()
        self._looking = asyncio.Lock()
        self._loopbacks: dict[Network, Loopback | None] = {}
        self._making = asyncio.Lock()
        self._told_left = False
        self.notices: list[str] = []
        """Lines for the person: what commands left that was taken out of the way. The model reads them as output."""

    async def held(self) -> Held:
        """What holds here. Raises `ToolError` when nothing does."""
        held = await self._probe.held()
        if not held.usable:
            raise ToolError(
                f"Commands are to run in a sandbox, and there is none here: {held.reason}.",
                "Install bubblewrap, or set terminal.backend to local to run them without.",
            )
        return held

    async def start(self, command: Command, sink: Sink) -> "SandboxRunning":
        """Start a command in its box. Raises `ToolError` when it cannot be started, or not be held back."""
        held = await self.held()
        network = min(self._policy.network, command.network, key=_ORDER.index)
        if network is not Network.ON and not held.network:
            raise ToolError("The network cannot be kept from commands here, and the settings say that it is to be.")
        async with AsyncExitStack() as undo:
            layout = await self._looked_at(command)
            later: list[bytes] = []
            proxy: Proxy | None = None
            if network is Network.ALLOWLIST and held.hosts:
                proxy = Proxy(self._hosts, command.door, _teller(sink if command.interactive else later.append))
            with ExitStack() as given:
                exits = await self._exits(held, network, proxy, undo, given)
                with self._box(held, command, layout, network, exits) as box:
                    inner = await self._local.start(command, sink, box)
            running = SandboxRunning(self, inner, sink, layout, undo.pop_all())
            running.network = network
            running.proxy = proxy
            running.later = later
            running.told = held.way is Way.BUBBLEWRAP
        self._running.append(running)
        return running

    async def look(self, layout: Layout, sink: Sink) -> None:
        """Take what programs would obey out of the way, after a command that could have made it."""
        fixed = held_by_kernel(layout) if (await self.held()).way is not Way.LANDLOCK else _never
        async with self._looking:
            notes = await asyncio.to_thread(self._plants.look, layout.of(Kind.WRITE), PROJECT_FILES, fixed)
            complete = self._plants.complete
        if not complete:
            notes.append(_TOO_MANY)
        self.notices += notes
        for note in notes:
            sink(f"\n[sandbox: {note}]\n".encode("utf-8", "replace"))

    def left_in(self, layout: Layout) -> bytes:
        """A line for the model, once a session: that what lies in /tmp will not stay."""
        left = self._room.left(layout) if self._room is not None and not self._told_left else ""
        self._told_left = self._told_left or bool(left)
        return f"\n[sandbox: {left} is this session's own and goes when it ends]\n".encode() if left else b""

    def more_network(self, than: "SandboxRunning") -> bool:
        """Whether another command runs that may reach more, and so is in another network."""
        reach = _ORDER.index(than.network)
        return any(_ORDER.index(one.network) > reach and not one.over for one in self._running)

    def layout(self, command: Command | None = None) -> Layout:
        """How the folders of this machine are seen now, by this command with what was opened to it alone."""
        alone = command.writable if command is not None else ()
        opened = [one for one in alone if os.path.realpath(one) == one and not grant_refused(one, self._policy)]
        changing = command.settings if command is not None else ()
        fixed = [one for one in self._fixed if one not in changing]
        return with_fixed(lay_out(self._policy, (*self._granted, *opened)), fixed)

    async def line(self, *, whole: bool = False) -> str:
        """What holds on this machine, found out by trying."""
        return (await self._probe.held()).line(self._policy.network, whole=whole)

    def take_notices(self) -> list[str]:
        """What was taken out of the way since the last time."""
        notices, self.notices = self.notices, []
        return notices

    def outside(self, path: str) -> str:
        """Where a path that a command names lies on this machine: /tmp is a folder of the session's own."""
        plain = os.path.normpath(path)
        if self._open(plain) or not any(is_or_below(plain, one) for one in self._policy.private):
            return path  # the usual cases, and the layout costs a look at the disk
        room = self._opened()
        there = room.outside(path, self.layout())
        if there != path and not is_or_below(os.path.realpath(there), room.root):
            return os.path.join(room.nothing, os.path.basename(plain))  # a link of a command's means its own places
        return there

    def inside(self, path: str) -> str:
        """How commands name a path of this machine."""
        return self._room.inside(path) if self._room is not None else path

    def _open(self, path: str) -> bool:
        """Whether a path lies in a folder that commands see, and may write, as this machine does."""
        roots = (self._policy.places.workspace, *self._policy.writable, *self._granted)
        return any(is_or_below(path, root) for root in roots)

    def writable(self, path: str) -> bool:
        """Whether commands may write here: in the workspace, what was granted, and the session's own /tmp."""
        places = self._policy.places
        if not self._open(path):
            return self._opened().inside(path) != path
        # As in the layout: in the home itself only what is in folders without a dot.
        of_home = os.path.relpath(path, places.home) if is_or_below(path, places.home) else ""
        return not (of_home.startswith(".") and is_or_below(places.home, places.workspace))

    def gone(self, path: str) -> bool:
        """Whether there is no such folder."""
        return not os.path.isdir(self.outside(path))

    def denied_path(self, output: str, cwd: str) -> str:
        """The file or folder that a command was kept from writing, as its output tells; empty when it tells of none.

        What no grant would open is not named.
        """
        return denied_path(output, self.layout(), cwd, lambda path: grant_refused(path, self._policy))

    def never_opened(self, output: str, cwd: str) -> str:
        """Why the file or folder that a command was kept from writing is opened to nobody; empty when it is not so."""
        return never_opened(output, self.layout(), cwd, lambda path: grant_refused(path, self._policy))

    def grant(self, path: str) -> None:
        """Let this session's commands write what a person named. Raises `ToolError` for what is protected."""
        path = os.path.realpath(path)
        why = grant_refused(path, self._policy)
        if not why and not os.path.exists(path):
            why = "it does not exist"
        if why:
            raise ToolError(f"{path} is not opened to commands: {why}.")
        self._granted.append(path)

    async def close(self) -> None:
        """End what is left in the sandbox, look at what that left, and give back what the session had."""
        await asyncio.gather(*(one.stop() for one in self._running if not one.over))
        for one in self._running:
            await one.settle()
            await one.let_go()
        self._running.clear()
        await self._local.close()
        for shared in self._loopbacks.values():
            if shared is not None:
                shared.close()
        self._loopbacks.clear()
        if self._room is not None:
            await self._room.close()
            self._room = None

    async def _looked_at(self, command: Command) -> Layout:
        """The layout for a command that starts now. With none under way, what lies there is the person's own."""
        for one in self._running:
            await one.settle()
        gone = [one for one in self._running if one.over]
        self._running = [one for one in self._running if one not in gone]
        for one in gone:
            await one.let_go()
        async with self._looking:
            if not self._running:
                await asyncio.to_thread(self._begin)
            return await asyncio.to_thread(self.layout, command)

    def _begin(self) -> None:
        layout = lay_out(self._policy, self._granted)
        self._plants.begin(layout.of(Kind.WRITE), PROJECT_FILES)
        self._fixed = fixed_places(layout, self._plants.git_dirs())
        if not self._plants.complete and _TOO_MANY not in self.notices:
            self.notices.append(_TOO_MANY)

    def _opened(self) -> Room:
        if self._room is None:
            self._room = Room([os.path.realpath(one) for one in self._policy.private if os.path.isdir(one)])
        return self._room

    async def _exits(
        self, held: Held, network: Network, proxy: Proxy | None, undo: AsyncExitStack, given: ExitStack
    ) -> Exits:
        """What leads out of the command's box; `undo` closes it when all is over, `given` what the box has by then."""
        if held.way is not Way.BUBBLEWRAP or network is Network.ON:
            return ALONE
        shared = await self._shared(held, network)
        if proxy is None:
            return Exits(shared=shared.spaces) if shared is not None else ALONE
        undo.push_async_callback(proxy.close)
        if shared is not None:
            undo.callback(shared.shut, proxy)
            return Exits(shared=shared.spaces, proxy=shared.open(proxy))
        door = given.enter_context(proxy.open())  # the end of the box's copies is seen here
        return Exits(door=door.fileno())

    async def _shared(self, held: Held, network: Network) -> Loopback | None:
        """The loopback interface of this session's commands that may reach as much; None: each has its own.

        Not one for all: what must not reach the proxy must not reach what can.
        """
        async with self._making:
            if network not in self._loopbacks:
                self._loopbacks[network] = await self._made(held, network)
            return self._loopbacks[network]

    async def _made(self, held: Held, network: Network) -> Loopback | None:
        why = "no process can stand over them"
        if await self._local.wardened():
            try:
                return await make_loopback(trial(held.program), listen=network is Network.ALLOWLIST)
            except ToolError as error:
                why = str(error)
        told = f"{_OWN_LOOPBACK} ({why})."
        if told not in self.notices:
            self.notices.append(told)
        return None

    def _box(
        self, held: Held, command: Command, layout: Layout, network: Network, exits: Exits
    ) -> BwrapBox | LandlockBox | SeatbeltBox:
        room = self._opened()
        if held.way is Way.BUBBLEWRAP:
            return BwrapBox(command, room, layout, network, program=held.program, abi=held.abi, exits=exits)
        if held.way is Way.SEATBELT:
            return SeatbeltBox(command, room, layout, network)
        return LandlockBox(command, room, layout, network, abi=held.abi)


class SandboxRunning:
    """A command in its box. What it may have left is looked at once it has ended, before that is told."""

    def __init__(
        self, backend: SandboxBackend, running: LocalRunning, sink: Sink, layout: Layout, things: AsyncExitStack
    ) -> None:
        self._backend = backend
        self._running = running
        self._sink = sink
        self._layout = layout
        self._things = things
        self._settling = asyncio.Lock()
        self._settled = False
        self.network = Network.ON
        self.proxy: Proxy | None = None
        self.later: list[bytes] = []
        """What is told after its output, so that no shortening takes it away."""
        self.told = False
        """Whether its exit code is told by a shell or another program above it, which have a code for a signal."""

    @property
    def pid(self) -> int:
        """The process id of what made the box; also its process group."""
        return self._running.pid

    @property
    def heard(self) -> frozenset[str] | None:
        """The hosts from which anything came: what its proxy saw, since there is no other way in."""
        if self.network is Network.ON:
            return None
        return self.proxy.heard if self.proxy is not None else frozenset()

    @property
    def over(self) -> bool:
        """Whether its end has been told, and nothing is known to be left of it."""
        return self._running.over

    async def wait(self) -> Exit:
        """Wait for its end, for the last of its output, and for what it left to be looked at."""
        ended = await self._running.wait()
        await self._settle()
        if self.told and (left := self._backend.left_in(self._layout)):
            self._sink(left)
        while self.later:
            self._sink(self.later.pop(0))
        if ended.code and self._backend.more_network(self):
            self._sink(_LESS)
        return msgspec.structs.replace(ended, code=by_signal(ended.code) if self.told else ended.code)

    async def stop(self) -> Stopped:
        """End the whole tree, as `LocalRunning` does."""
        stopped = await self._running.stop()
        if stopped is Stopped.GONE:
            await self._settle()
        return stopped

    async def write(self, data: bytes) -> None:
        """Send input."""
        await self._running.write(data)

    def close_input(self) -> None:
        """End of input."""
        self._running.close_input()

    async def settle(self) -> None:
        """Look at what it left, if it has ended and nobody waited for that."""
        if self.over:
            await self._settle()

    async def let_go(self) -> None:
        """Close what was held for it."""
        await self._things.aclose()

    async def _settle(self) -> None:
        async with self._settling:
            if not self._settled:
                await self._backend.look(self._layout, self._sink)
                self._settled = True
            if self.over:
                await self.let_go()


def _teller(sink: Sink) -> Callable[[str], None]:
    """Tells the model of a refusal; few programs show the answer of a proxy."""
    return lambda refusal: sink(f"\n[sandbox: {refusal}]\n".encode())


def held_by_kernel(layout: Layout) -> Callable[[str], bool]:
    """Whether commands in this layout could not change a file, where mounts hold it."""
    return lambda path: layout.kind(path) is not Kind.WRITE


def _never(path: str) -> bool:
    return False
