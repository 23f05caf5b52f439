"""Commands that the kernel holds back: what they may write, read, reach and signal is decided outside of them."""

import os
from collections.abc import Collection, Mapping, Sequence

from hermes.core.errors import ToolError
from hermes.tools.backends.base import Command, Exit, Network, Sink, Stopped
from hermes.tools.backends.local import LocalBackend, LocalRunning
from hermes.tools.backends.sandbox_bwrap import BwrapBox
from hermes.tools.backends.sandbox_landlock import LandlockBox
from hermes.tools.backends.sandbox_policy import Layout, SandboxPolicy, grant_refused, is_or_below, lay_out
from hermes.tools.backends.sandbox_probe import Held, Probe, Way
from hermes.tools.backends.sandbox_room import Room
from hermes.tools.backends.wardens import Wardens

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
_ORDER = (Network.OFF, Network.ALLOWLIST, Network.ON)


class SandboxBackend:
    """Runs commands as `LocalBackend` does, each in a box.

    What makes the box is found out at the first command; where nothing can, every start raises `ToolError`. The other
    parameters are those of `LocalBackend`.
    """

    name = "sandbox"
    contained = True

    def __init__(
        self,
        environment: Mapping[str, str],
        policy: SandboxPolicy,
        *,
        passed: Collection[str] = (),
        shell: str | None = None,
        held: Sequence[int] = (),
        wardens: Wardens | None = None,
        probe: Probe | None = None,
    ) -> None:
        inner = {name: value for name, value in environment.items() if name not in _OUTWARD}
        self._local = LocalBackend(inner, passed=passed, shell=shell, held=held, wardens=wardens)
        self._policy = policy
        self._probe = probe or Probe(environment)
        self._room: Room | None = None
        self._granted: list[str] = []

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
        room = self._opened()
        with self._box(held, command, room, self.layout(), network) as box:
            return SandboxRunning(await self._local.start(command, sink, box))

    def layout(self) -> Layout:
        """How the folders of this machine are seen now."""
        return lay_out(self._policy, self._granted)

    def outside(self, path: str) -> str:
        """Where a path that a command names lies on this machine: /tmp is a folder of the session's own."""
        return self._opened().outside(path)

    def writable(self, path: str) -> bool:
        """Whether commands may write here: in the workspace, what was granted, and the session's own /tmp."""
        places = self._policy.places
        if not any(is_or_below(path, root) for root in (places.workspace, *self._policy.writable, *self._granted)):
            return self._opened().inside(path) != path
        # As in the layout: in the home itself only what is in folders without a dot.
        of_home = os.path.relpath(path, places.home) if is_or_below(path, places.home) else ""
        return not (of_home.startswith(".") and is_or_below(places.home, places.workspace))

    def inside(self, path: str) -> str:
        """How commands name a path of this machine."""
        return self._opened().inside(path)

    def grant(self, path: str) -> None:
        """Let this session's commands write a file or folder that a person named. Raises `ToolError`: it is protected."""
        path = os.path.realpath(path)
        why = grant_refused(path, self._policy)
        if not why and not os.path.exists(path):
            why = "it does not exist"
        if why:
            raise ToolError(f"{path} is not opened to commands: {why}.")
        self._granted.append(path)

    async def close(self) -> None:
        """Give back what the session has; commands are ended by their owners."""
        await self._local.close()
        if self._room is not None:
            await self._room.close()
            self._room = None

    def _opened(self) -> Room:
        if self._room is None:
            self._room = Room([os.path.realpath(one) for one in self._policy.private if os.path.isdir(one)])
        return self._room

    def _box(
        self, held: Held, command: Command, room: Room, layout: Layout, network: Network
    ) -> BwrapBox | LandlockBox:
        if held.way is Way.BUBBLEWRAP:
            return BwrapBox(command, room, layout, network, program=held.program)
        return LandlockBox(command, room, layout, network, abi=held.abi)


class SandboxRunning:
    """A command in its box."""

    def __init__(self, running: LocalRunning) -> None:
        self._running = running

    @property
    def pid(self) -> int:
        """The process id of what made the box; also its process group."""
        return self._running.pid

    async def wait(self) -> Exit:
        """Wait for its end and for the last of its output."""
        return await self._running.wait()

    async def stop(self) -> Stopped:
        """End the whole tree, as `LocalRunning` does."""
        return await self._running.stop()

    async def write(self, data: bytes) -> None:
        """Send input."""
        await self._running.write(data)

    def close_input(self) -> None:
        """End of input."""
        self._running.close_input()
