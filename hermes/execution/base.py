"""The contract of a terminal backend: where commands run, and what is known of one that does."""

import signal
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from msgspec import Struct


class Network(StrEnum):
    """What a sandboxed command may reach."""

    OFF = "off"
    ALLOWLIST = "allowlist"
    """Hosts that the person's settings name; others are asked about, one question a host."""
    ON = "on"


class Permit(Struct, frozen=True):
    """An answer; `why` says in words why it is no, `once` that it is for this command alone, not for the session."""

    allowed: bool
    why: str = ""
    once: bool = False


class Door(Protocol):
    """Who is asked when a command in a sandbox wants more than it has. Each answer is a person's, or no."""

    async def connect(self, host: str, port: int, name: str = "") -> Permit:
        """Whether it may reach this host. `name` is what led to it where it is an address."""
        ...

    async def write(self, path: str) -> Permit:
        """Whether it may write this path, and below it."""
        ...


class Command(Struct, frozen=True, kw_only=True):
    """A shell command to start.

    `network` and `door` are for backends that hold commands back: the most that this command may reach (the backend's
    own setting may be less), and who is asked for more (None: nobody, so no).

    `environment` is laid over the backend's own, `unset` is taken out of it. `interactive` gives the command an input
    that can be written to; `pty` a terminal besides. `hold_state` asks for the folder and variables it leaves behind.
    """

    text: str
    cwd: str
    environment: Mapping[str, str] = {}
    unset: frozenset[str] = frozenset()
    interactive: bool = False
    pty: bool = False
    hold_state: bool = False
    network: Network = Network.ON
    door: Door | None = None
    writable: tuple[str, ...] = ()
    """Paths that this command may write besides, in a backend that holds commands back: a person said so."""
    settings: tuple[str, ...] = ()
    """Files of git's settings that it may change; what would let git run programs is taken back afterwards."""


class ShellState(Struct, frozen=True):
    """Where a command left its shell: the directory, and variables set or removed against the backend's own."""

    cwd: str
    environment: dict[str, str]
    unset: frozenset[str]


class Exit(Struct, frozen=True):
    """How a command ended. `code` is negative for a signal. `state` is None when it could not be learnt.

    `left_running` says that processes which it started are still there.
    """

    code: int
    state: ShellState | None = None
    left_running: bool = False


def by_signal(code: int) -> int:
    """The exit code as the contract has it, where a shell told it: 128 and more stand for signals."""
    try:
        return -signal.Signals(code - 128) if 128 < code < 160 else code
    except ValueError:
        return code


class Stopped(StrEnum):
    """What is known of a command's processes after it was stopped."""

    GONE = "gone"
    """None is left: that was seen."""
    UNCERTAIN = "uncertain"
    """Some may still run: they could not be ended, or the other end could not be asked."""


class Running(Protocol):
    """A command under way. Its output goes to the sink given at the start, both streams merged, as it comes."""

    @property
    def pid(self) -> int:
        """The process id on the machine where it runs; also its process group."""
        ...

    @property
    def heard(self) -> frozenset[str] | None:
        """The hosts from which anything came to it so far; None where nobody sees that."""
        ...

    async def wait(self) -> Exit:
        """Wait for its end; the sink has then had all output. Cancelling the wait leaves the command alone."""
        ...

    async def stop(self) -> Stopped:
        """End the whole tree: INT, TERM after 1.5 s, KILL after 3 s. Cancelling this kills at once. Idempotent.

        A backend whose commands run elsewhere asks the other end at once, within the same times, and answers GONE only
        when that end has confirmed it; no answer is UNCERTAIN, never an error.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send input. Raises `ToolError` when it takes none (any more)."""
        ...

    def close_input(self) -> None:
        """End of input."""
        ...


Sink = Callable[[bytes], None]


class TerminalBackend(Protocol):
    """A place where commands run: this machine, a sandbox, a container, another host."""

    name: str
    contained: bool
    """Whether the kernel, or another machine, keeps its commands from this machine's files and network."""

    async def line(self, *, whole: bool = False) -> str:
        """What really holds commands here, on one line for the person; `whole`: with the lesser gaps. Never raises."""
        ...

    def take_notices(self) -> list[str]:
        """Lines for the person about what commands left, each given once."""
        ...

    def writable(self, path: str) -> bool:
        """Whether commands may write here (absolute, resolved); file tools hold to the same."""
        ...

    def outside(self, path: str) -> str:
        """Where a path that commands name (absolute) lies on this machine."""
        ...

    def inside(self, path: str) -> str:
        """The way back: how commands, and people, name a path of this machine (absolute, resolved)."""
        ...

    def gone(self, path: str) -> bool:
        """Whether a folder that an earlier command was left in is known to be there no more."""
        ...

    def denied_path(self, output: str, cwd: str) -> str:
        """What a command was kept from writing, as its output tells, where a person may open it; empty: nothing."""
        ...

    def never_opened(self, output: str, cwd: str) -> str:
        """A line on why what it was kept from writing, as its output tells, is opened to nobody; empty: nothing."""
        ...

    def grant(self, path: str) -> None:
        """Let this session's commands write here, too: a person said so. Raises `ToolError` when it is protected."""
        ...

    async def start(self, command: Command, sink: Sink) -> Running:
        """Start a command. Raises `ToolError` when it cannot be started. The caller owns the result and must end it."""
        ...

    async def close(self) -> None:
        """Give back what the backend itself holds; commands are ended by their owners."""
        ...
