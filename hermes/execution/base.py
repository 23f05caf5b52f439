"""The contract of a terminal backend: where commands run, and what is known of a running command."""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from hermes.core.errors import HermesError
from hermes.execution.layout import AccessLayout
from hermes.i18n.messages import N_
from hermes.safety.environment import DroppedVariables


class NetworkMode(StrEnum):
    """How much of the network a sandboxed command may reach."""

    OFF = "off"
    ALLOWLIST = "allowlist"
    """Only hosts that the person's settings name; for each other host one question is asked."""
    ON = "on"


class Permit(Struct, frozen=True):
    """The answer to a request for more rights. `why` is the reason for a no; `once` limits a yes to this
    command instead of the session.
    """

    allowed: bool
    reason: str = ""
    once: bool = False


class DeniedPath(Struct, frozen=True):
    """A path that a command was kept from reading or writing, and that a person may open."""

    path: str
    is_write: bool


class CommandPermissions(Protocol):
    """Decides when a sandboxed command wants more than it has. Each answer comes from a person, or is no."""

    async def connect(self, host: str, port: int, name: str = "") -> Permit:
        """Return whether the command may reach this host; `name` is the host name that led to it, when it is an
        address.
        """
        ...

    async def open_path(self, denied: DeniedPath) -> Permit:
        """Return whether the command may read, or write, this path and everything below it."""
        ...


class SitePermissions(Protocol):
    """Decides about sites for the call that the browser works for. Each answer comes from a person, or is no."""

    async def open_site(self, host: str, port: int) -> Permit:
        """Return whether pages of this host may be opened in the browser."""
        ...

    async def send_to_site(self, host: str, port: int, sender: str) -> Permit:
        """Return whether a page of `sender` may send data to this host."""
        ...


class CallPermissions(CommandPermissions, SitePermissions, Protocol):
    """Decides for one call when its command, or the browser, wants more than it has."""


class StopPatience(Struct, frozen=True, kw_only=True):
    """Seconds that a stopped command and all that it started have to end after each signal."""

    interrupt: float = 1.5
    terminate: float = 1.5
    kill: float = 1.0
    """After these, what is left is beyond reach, and the outcome of the stop is uncertain."""


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A shell command to start.

    `network` and `permissions` are for backends that confine commands: the most that this command may reach (the
    backend's own setting may be less), and who is asked for more (None: nobody, so the answer is no).

    `environment` is laid over the backend's own, `unset` is removed from it. `interactive` gives the command an input
    that can be written to; `pty` gives it a terminal as well. `hold_state` asks for the folder and variables that it
    leaves behind.
    """

    text: str
    cwd: str
    environment: Mapping[str, str] = {}
    unset: frozenset[str] = frozenset()
    interactive: bool = False
    pty: bool = False
    report_state: bool = False
    network: NetworkMode = NetworkMode.ON
    permissions: CommandPermissions | None = None
    opened_paths: tuple[DeniedPath, ...] = ()
    """Paths that a person opened to this command alone, in a backend that confines commands."""
    git_settings: tuple[str, ...] = ()
    """Git settings files that it may change; whatever would let git run programs is reverted afterwards. Give it no
    variables that other commands have set: they could lead git to a program.
    """
    keeps_files: bool = False
    """Whether it may write nothing but the session's own temporary files; only a sandbox of this machine can do that.
    """
    stop_patience: StopPatience = StopPatience()
    """For commands on this machine; elsewhere the script that ends a run has its own times."""


class FinalShellState(Struct, frozen=True):
    """The state in which a command left its shell: the folder, and variables set or removed compared with the backend's
    own.
    """

    cwd: str
    environment: dict[str, str]
    unset: frozenset[str]


class CommandExit(Struct, frozen=True):
    """How a command ended. `code` is negative for a signal; `state` is None when it could not be learned.

    `left_running` tells that processes which it started still run.
    """

    code: int
    state: FinalShellState | None = None
    left_running: bool = False


def normalize_exit_code(code: int) -> int:
    """Return an exit code as the contract has it when a shell reported it: codes above 128 stand for signals."""
    try:
        return -signal.Signals(code - 128) if 128 < code < 160 else code
    except ValueError:
        return code


class StopOutcome(StrEnum):
    """What is known of a command's processes after it was stopped."""

    GONE = "gone"
    """None is left: that was observed."""
    UNCERTAIN = "uncertain"
    """Some may still run: they could not be ended, or the remote side could not be asked."""


class RunningCommand(Protocol):
    """A running command. Its output goes to the sink given at the start, both streams merged, as it arrives."""

    @property
    def pid(self) -> int:
        """The process id on the machine where it runs, which is also its process group."""
        ...

    @property
    def contacted_hosts(self) -> frozenset[str] | None:
        """The hosts from which anything has reached the command so far; None when nobody observes that."""
        ...

    async def wait(self) -> CommandExit:
        """Wait for its end; by then the sink has had all output. Cancelling the wait leaves the command alone."""
        ...

    async def stop(self) -> StopOutcome:
        """End the whole tree: INT, TERM after 1.5 s, KILL after 3 s. Cancelling this kills at once. Idempotent.

        A backend whose commands run elsewhere asks the remote side at once, within the same times, and answers
        GONE only when that side has confirmed it; no answer is UNCERTAIN, never an error.
        """
        ...

    async def write(self, data: bytes) -> None:
        """Send input. Raises `ToolError` when the command takes none, or no more."""
        ...

    def close_input(self) -> None:
        """Signal the end of input."""
        ...


OutputSink = Callable[[bytes], None]


class TerminalBackend(Protocol):
    """A place where commands run: this machine, a sandbox, a container, another host."""

    name: str
    contained: bool
    """Whether the kernel, or another machine, keeps its commands from this machine's files and network."""

    async def describe(self, *, detailed: bool = False) -> str:
        """Describe on one line, for the person, what really confines commands here. Never raises.

        `detailed` adds the lesser gaps.
        """
        ...

    def take_notices(self) -> list[str]:
        """Return the lines for the person about what commands left, each given once."""
        ...

    def is_writable(self, path: str) -> bool:
        """Return whether commands may write this path (absolute, resolved); file tools obey the same rule."""
        ...

    def current_layout(self) -> AccessLayout | None:
        """Return how commands see the folders of this machine now; None where no wall stands around them."""
        ...

    def to_local_path(self, path: str) -> str:
        """Return where a path (absolute) that commands name lies on this machine."""
        ...

    def to_command_path(self, path: str) -> str:
        """Return how commands, and people, name a path of this machine (absolute, resolved)."""
        ...

    def is_kept(self, path: str) -> bool:
        """Return whether a path (resolved) was found to be, or to lie in, what programs obey, so that commands are kept
        from changing it.
        """
        ...

    def is_missing_folder(self, path: str) -> bool:
        """Return whether the folder in which an earlier command ended is known to be missing now."""
        ...

    def find_denied_path(self, command: str, cwd: str, output: str) -> DeniedPath | None:
        """Return the path that a command was kept from, judging by its text and output, where a person may open it."""
        ...

    def can_open(self, denied: DeniedPath) -> bool:
        """Return whether a person may open a path (resolved) to commands that they do not see, or may not write."""
        ...

    def list_opened(self) -> Sequence[DeniedPath]:
        """Return the places outside of the workspace that a person has opened to all commands of the session."""
        ...

    def explain_denials(self, command: str, cwd: str, output: str, *, failed: bool) -> list[str]:
        """Explain what a command did not get here, judging by its text and output: paths that are opened to nobody,
        settings that are kept, variables. A line for each; of what may come again only the first time.
        """
        ...

    def grant_write(self, path: str) -> None:
        """Let this session's commands write here as well, because a person allowed it. Raises `ToolError` if it is
        protected.
        """
        ...

    def grant_read(self, path: str) -> None:
        """Let this session's commands read here as well, because a person allowed it. Raises `ToolError` if it is
        never opened.
        """
        ...

    async def start(self, command: ShellCommand, sink: OutputSink) -> RunningCommand:
        """Start a command. Raises `ToolError` when it cannot be started. The caller owns the result and must end it."""
        ...

    async def look_again(self) -> Sequence[str]:
        """Look again at what commands that still run have left for other programs to obey; return a line for each thing
        that was moved aside.
        """
        ...

    async def close(self) -> None:
        """Release what the backend itself holds; commands are ended by their owners."""
        ...


class UnconfinedBackend:
    """What backends have in common around whose commands this machine builds no wall: nothing is kept from them, so
    nothing can be opened to them, and paths are called as they are here.
    """

    def __init__(self, dropped: DroppedVariables) -> None:
        self._dropped = dropped

    def take_notices(self) -> list[str]:
        """Return nothing: there are no notices."""
        return []

    def current_layout(self) -> None:
        """Return None: no wall of this machine's stands around its commands."""

    def is_writable(self, path: str) -> bool:
        """Return True: where commands run does not restrict file tools on this machine."""
        return True

    def is_kept(self, path: str) -> bool:
        """Return False: what commands change is not known here."""
        return False

    def to_local_path(self, path: str) -> str:
        """Return the path itself."""
        return path

    def to_command_path(self, path: str) -> str:
        """Return the path itself."""
        return path

    def find_denied_path(self, command: str, cwd: str, output: str) -> None:
        """Return None: no answer could open anything."""

    def can_open(self, denied: DeniedPath) -> bool:
        """Return False: nothing is kept from commands, so nothing can be opened."""
        return False

    def list_opened(self) -> Sequence[DeniedPath]:
        """Return nothing: there is no wall in which something could be opened."""
        return ()

    def explain_denials(self, command: str, cwd: str, output: str, *, failed: bool) -> list[str]:
        """Explain which variables a command used that commands do not get; no place is closed here."""
        return self._dropped.explain_use(f"{command}\n{output if failed else ''}")

    def grant_write(self, path: str) -> None:
        """Do nothing: there is nothing to open."""

    def grant_read(self, path: str) -> None:
        """Do nothing: there is nothing to open."""

    async def look_again(self) -> Sequence[str]:
        """Return nothing: what commands leave is not taken back while they run."""
        return ()


class BackendHandle:
    """The terminal backend of a session. It is created when something first asks for it: most turns run no command."""

    def __init__(self, name: str, create: Callable[[], TerminalBackend]) -> None:
        self.name = name
        self._create = create
        self._lock = threading.Lock()  # file tools ask from threads of their own
        self.backend: TerminalBackend | None = None
        """The backend; None before anything has asked for it."""
        self._is_closed = False

    @classmethod
    def from_backend(cls, backend: TerminalBackend) -> "BackendHandle":
        """Return a handle to a backend that exists."""
        handle = cls(backend.name, lambda: backend)
        handle.backend = backend
        return handle

    def get(self) -> TerminalBackend:
        """Return the backend, the same one each time, whichever thread asks. Raises HermesError once it is closed."""
        with self._lock:
            if self.backend is None:
                if self._is_closed:
                    raise HermesError(N_("The session is being closed."))
                self.backend = self._create()
            return self.backend

    async def close(self) -> None:
        """Close the backend, if it was created; none is created afterwards."""
        with self._lock:
            self._is_closed = True
            backend = self.backend
        if backend is not None:
            await backend.close()
