"""Runs commands on this machine, with the rights of the person who started Hermes."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO, Protocol

from hermes.core.errors import ToolError
from hermes.execution.base import (
    CommandExit,
    FinalShellState,
    OutputSink,
    ShellCommand,
    StopOutcome,
    StopPatience,
    UnconfinedBackend,
)
from hermes.execution.process_tree import UnsupervisedProcess
from hermes.execution.supervisor import LaunchRequest, Supervisors
from hermes.execution.supervisor_main import EXTRA_HANDLES, NOTE
from hermes.i18n.messages import N_
from hermes.safety.environment import DroppedVariables, remove_secret_variables, select_command_variables

_READ_SIZE = 65_536
_MAX_DRAINED_BYTES = 4 * 1024 * 1024
"""The most bytes read after a command's end; whatever still writes then is a process that it left behind."""
_GRACE_SECONDS = 0.1
"""Seconds to wait for the end of the output, and of what it started, after the command itself has ended."""
QUIET_VARIABLES = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_SHELL_VARIABLES = frozenset(
    {"_", "SHLVL", "PWD", "OLDPWD", "TERM", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", *QUIET_VARIABLES}
)
"""Variables that belong to each shell, and those that would change what a later one runs: never carried over."""
_MAX_STATE_BYTES = 4 * 1024 * 1024
"""The most bytes of a reported state that are accepted; no environment that a program can be started with is larger."""


class ProcessTree(Protocol):
    """The processes of one command: its shell and everything that the shell started."""

    pid: int
    code: int | None
    """How the shell ended, negative for a signal; None while it runs."""

    def set_change_callback(self, callback: Callable[[], None]) -> None:
        """Set the callback that is called when the shell has ended, and when it is known that nothing is left."""

    def is_alive(self) -> bool:
        """Return whether any of them still lives, as far as that is known."""
        ...

    async def send_signal(self, signum: signal.Signals) -> None:
        """Signal all of them."""

    async def wait_until_gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most this many seconds; return whether that was reached."""
        ...

    def kill(self) -> None:
        """Kill all of them, without waiting."""

    def release(self) -> None:
        """Let the processes that an ended shell left live on without supervision."""


class CommandWrapper(Protocol):
    """Confines one command so that it reaches less than this process does. Made for one command."""

    folder: str
    """The folder where the confining program is started, if not in the command's folder."""
    variables: Mapping[str, str]
    """Variables laid under the command's own and over the backend's. Those left as given are no change by the command.
    """
    temporary_folder: str | None
    """A folder for a file that both this process and the command can write."""
    handles: Sequence[int]
    """What the confining program gets besides the command's streams."""
    namespaces: Sequence[int]
    """Namespaces that it is started in, which takes a supervisor."""
    order_index: int | None
    """Which of the handles leads to the order that `landlock_exec.py` is to carry out, if that is what confines."""

    def wrap_shell(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the program that confines `shell` and runs it, with its own variables; `handles` says where it finds
        them.
        """
        ...

    def shell_arguments(self, text: str, terminal: str) -> tuple[str, ...]:
        """Return arguments for a shell to run `text`, on the `terminal` of that name or, when it is empty, on none."""
        ...


class LocalBackend(UnconfinedBackend):
    """Runs commands with the shell of this machine, under supervisors where the system supports them.

    `environment` is the process's own; commands get what is on a list of it, and what `passed_variables` names. With
    `runs_clients` the programs are those that lead commands elsewhere, and get everything but keys.
    The handles in `held_handles`, a session's lock, stay open while anything of a command lives, in its
    supervisor, not in the command. `supervisors` are shared by all backends of a process; without them this
    one has its own.
    """

    name = "local"
    contained = False

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        passed_variables: Collection[str] = (),
        shell: str | None = None,
        held_handles: Sequence[int] = (),
        supervisors: Supervisors | None = None,
        runs_clients: bool = False,
    ) -> None:
        kept = select_command_variables(environment, passed_variables)
        self._environment = remove_secret_variables(environment) | kept if runs_clients else kept
        super().__init__(DroppedVariables(environment, passed_variables))
        self._shell = shell or shutil.which("bash", path=environment.get("PATH", os.defpath)) or "/bin/sh"
        self._held_handles = tuple(held_handles)
        self._supervisors = supervisors or Supervisors(environment)
        self._owns_supervisors = supervisors is None
        self._started: list[LocalCommand] = []

    async def describe(self, *, detailed: bool = False) -> str:
        """Describe that nothing confines commands here."""
        del detailed
        return N_(
            "Commands run on this machine with all of your rights; only your answers to questions hold them back."
        )

    def is_missing_folder(self, path: str) -> bool:
        """Return whether there is no such folder."""
        return not os.path.isdir(path)

    async def start(
        self, command: ShellCommand, sink: OutputSink, wrapper: CommandWrapper | None = None
    ) -> "LocalCommand":
        """Start a command in a session of its own. Raises `ToolError` when it cannot be started."""
        import tempfile

        base = {**self._environment, **wrapper.variables} if wrapper is not None else self._environment

        with contextlib.ExitStack() as undo:
            state_file: IO[bytes] | None = None
            if command.report_state:
                state_file = undo.enter_context(
                    tempfile.TemporaryFile(dir=wrapper.temporary_folder if wrapper is not None else None)
                )
            own_ends, command_ends = _open_terminal() if command.pty else _open_pipes(interactive=command.interactive)
            for handle in set(own_ends) - {-1}:
                undo.callback(os.close, handle)
            with contextlib.ExitStack() as ends:
                for handle in command_ends:
                    ends.callback(os.close, handle)
                try:
                    process_tree = await self._start_shell(command, command_ends, state_file, wrapper)
                except (OSError, ValueError) as error:
                    raise ToolError(_explain_start_error(error, command)) from None
            undo.pop_all()
        running = LocalCommand(process_tree, own_ends, sink, state_file, base, patience=command.stop_patience)
        self._started = [one for one in self._started if not one.is_over]
        self._started.append(running)
        return running

    async def _start_shell(
        self,
        command: ShellCommand,
        command_ends: tuple[int, ...],
        state_file: IO[bytes] | None,
        wrapper: CommandWrapper | None,
    ) -> ProcessTree:
        """Start the shell on the command's ends of the pipes, or on its terminal. It returns once the program runs."""

        def make_request(state_handle: int, extra_handles: Sequence[int]) -> LaunchRequest:
            arguments, environment = self._build_shell_call(
                command, command_ends, state_handle if state_file is not None else None, wrapper
            )
            if wrapper is not None:
                arguments, environment = wrapper.wrap_shell(arguments, environment, extra_handles)
            return LaunchRequest(
                folder=(wrapper.folder if wrapper is not None else "") or command.cwd,
                arguments=arguments,
                environment=environment,
                source=command_ends[0] if command.pty or command.interactive else None,
                output=command_ends[-1],
                state_handle=state_file.fileno() if state_file is not None else None,
                extra_handles=others,
                namespaces=wrapper.namespaces if wrapper is not None else (),
                order=_find_order(wrapper, extra_handles),
            )

        others = wrapper.handles if wrapper is not None else ()
        process_tree = await self._supervisors.start(
            make_request(NOTE, range(EXTRA_HANDLES, EXTRA_HANDLES + len(others))), self._held_handles
        )
        return process_tree or _start_unsupervised(
            make_request(state_file.fileno() if state_file is not None else NOTE, others)
        )

    def _build_shell_call(
        self,
        command: ShellCommand,
        command_ends: tuple[int, ...],
        state_handle: int | None,
        wrapper: CommandWrapper | None,
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """Return the shell call that runs the command, and its variables."""
        base = {**self._environment, **wrapper.variables} if wrapper is not None else self._environment
        kept = {name: value for name, value in base.items() if name not in command.unset}
        environment = {**kept, **command.environment, **QUIET_VARIABLES, "TERM": "xterm" if command.pty else "dumb"}
        script = command.text
        if state_handle is not None:
            report = f'{{ pwd; printf "\\0"; /usr/bin/env -0; }} >/dev/fd/{state_handle} 2>/dev/null'
            script = f"trap '{report}' EXIT; {script}"
        terminal = os.ttyname(command_ends[0]) if command.pty else ""
        if wrapper is not None:
            return (self._shell, *wrapper.shell_arguments(script, terminal)), environment
        # The shell leads its session, so the terminal that it opens becomes the one that controls it.
        return (self._shell, "-c", f": <{terminal}; {script}" if terminal else script), environment

    async def is_supervised(self) -> bool:
        """Return whether commands run under supervisors here."""
        return await self._supervisors.is_available()

    async def close(self) -> None:
        """Let go of what ended commands left running; supervisors of commands that were not ended end them."""
        for one in self._started:
            one.release()
        self._started.clear()
        if self._owns_supervisors:
            await self._supervisors.close()


class LocalCommand:
    """A command that runs on this machine. Callbacks of the event loop do the work, so it needs no task."""

    contacted_hosts: None = None
    """None: nobody observes what it reaches."""

    def __init__(
        self,
        process_tree: ProcessTree,
        own_ends: tuple[int, int],
        sink: OutputSink,
        state_file: IO[bytes] | None,
        base_environment: Mapping[str, str],
        *,
        patience: StopPatience,
    ) -> None:
        self._patience = patience
        self._process_tree = process_tree
        self._output, self._input = own_ends
        self._sink = sink
        self._state_file = state_file
        self._base_environment = base_environment
        self._loop = asyncio.get_running_loop()
        self._exit_future: asyncio.Future[CommandExit] = self._loop.create_future()
        self._is_reading = True
        self._is_finished = False
        self._has_room = asyncio.Event()
        self._grace_timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._output, self._read_output)
        process_tree.set_change_callback(self._check_finished)

    @property
    def pid(self) -> int:
        """The process id, which is also the process group and the session."""
        return self._process_tree.pid

    @property
    def has_ended(self) -> bool:
        """Whether the program that was started has ended, whatever it left."""
        return self._process_tree.code is not None

    @property
    def is_over(self) -> bool:
        """Whether its end has been reported, and nothing is known to be left of it."""
        return self._is_finished and not self._process_tree.is_alive()

    def release(self) -> None:
        """Finish with it: what an ended shell left may live on, a running command is ended by its supervisor."""
        self._process_tree.release()
        self._report_exit()

    def kill(self) -> None:
        """Kill the whole tree, without waiting."""
        self._process_tree.kill()

    async def wait(self) -> CommandExit:
        """Wait for its end and for the last of its output."""
        return await asyncio.shield(self._exit_future)

    async def stop(self) -> StopOutcome:
        """End the whole tree: INT, TERM after 1.5 s, KILL after 3 s, unless the command has other times.

        Cancelling this kills at once.
        """
        patience = self._patience
        steps = (
            (signal.SIGINT, patience.interrupt),
            (signal.SIGTERM, patience.terminate),
            (signal.SIGKILL, patience.kill),
        )
        try:
            gone = await self._process_tree.wait_until_gone(0)
            for signum, seconds in steps:
                if gone:
                    break
                await self._process_tree.send_signal(signum)
                gone = await self._process_tree.wait_until_gone(seconds)
        except asyncio.CancelledError:
            self._process_tree.kill()
            raise
        if self._process_tree.code is not None:
            self._report_exit()
        return StopOutcome.GONE if gone else StopOutcome.UNCERTAIN

    async def write(self, data: bytes) -> None:
        """Send input, as fast as the command takes it."""
        while data:
            if self._input < 0:
                raise ToolError("Its input is closed.")
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                await self._wait_writable()
            except OSError as error:
                raise ToolError(f"It takes no input any more ({error.strerror}).") from None

    def close_input(self) -> None:
        """Signal the end of input; a terminal is sent its end-of-file character."""
        if self._input == self._output:
            with contextlib.suppress(OSError):
                os.write(self._input, b"\x04")
        elif self._input >= 0:
            self._stop_writing()
            os.close(self._input)
            self._input = -1

    async def _wait_writable(self) -> None:
        self._has_room.clear()
        self._loop.add_writer(self._input, self._has_room.set)
        try:
            await self._has_room.wait()
        finally:
            self._stop_writing()

    def _stop_writing(self) -> None:
        """Let nobody wait for room in the input any more; before it is closed, above all."""
        if self._input >= 0:
            self._loop.remove_writer(self._input)
        self._has_room.set()

    def _check_finished(self) -> None:
        """Finish at once if the shell, its output and everything it started have ended;
        else shortly after the shell.
        """
        if self._is_finished or self._process_tree.code is None:
            return
        if self._grace_timer is None:
            self._grace_timer = self._loop.call_later(_GRACE_SECONDS, self._report_exit)
            taken = 0
            while self._is_reading and taken < _MAX_DRAINED_BYTES and (size := self._read_output()):
                taken += size
        if not self._is_reading and not self._process_tree.is_alive():
            self._report_exit()

    def _read_output(self) -> int:
        """Read what is available; return the number of bytes, 0 when there is nothing more for now or at all."""
        try:
            data = os.read(self._output, _READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError:  # EIO is how a terminal ends
            data = b""
        if data:
            self._sink(data)
            return len(data)
        self._is_reading = False
        self._loop.remove_reader(self._output)
        self._check_finished()
        return 0

    def _report_exit(self) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        if self._grace_timer is not None:
            self._grace_timer.cancel()
        self._loop.remove_reader(self._output)
        self._is_reading = False
        self._stop_writing()
        for handle in {self._output, self._input} - {-1}:
            os.close(handle)
        self._input = self._output = -1
        state = None
        try:
            if self._state_file is not None:
                with self._state_file:
                    state = parse_shell_state(
                        os.pread(self._state_file.fileno(), _MAX_STATE_BYTES + 1, 0), self._base_environment
                    )
        finally:
            # Whatever becomes of the note, the one who waits for the command hears of its end.
            code = self._process_tree.code if self._process_tree.code is not None else -signal.SIGKILL
            self._exit_future.set_result(
                CommandExit(code=code, state=state, left_running=self._process_tree.is_alive())
            )


def _find_order(wrapper: CommandWrapper | None, handles: Sequence[int]) -> int:
    """Return where the program that confines finds its order; 0 where none does by an order."""
    return handles[wrapper.order_index] if wrapper is not None and wrapper.order_index is not None else 0


def _start_unsupervised(request: LaunchRequest) -> UnsupervisedProcess:
    """Start a command without a supervisor.

    Raises OSError when the command must be put into namespaces: it would run outside of them.
    """
    if request.namespaces:
        raise OSError("there is no warden that could put it into its network")
    return UnsupervisedProcess(
        subprocess.Popen(
            request.arguments,
            cwd=request.folder,
            env=request.environment,
            stdin=request.source if request.source is not None else subprocess.DEVNULL,
            stdout=request.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(*([request.state_handle] if request.state_handle is not None else []), *request.extra_handles),
        )
    )


def _open_pipes(*, interactive: bool) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return (our ends: output, input or -1), (the command's ends: input if any, output)."""
    output, command_output = os.pipe()
    os.set_blocking(output, False)
    if not interactive:
        return (output, -1), (command_output,)
    command_input, write_end = os.pipe()
    os.set_blocking(write_end, False)
    return (output, write_end), (command_input, command_output)


def _open_terminal() -> tuple[tuple[int, int], tuple[int, ...]]:
    import termios

    near, far = os.openpty()
    termios.tcsetwinsize(far, (40, 120))
    os.set_blocking(near, False)
    return (near, near), (far,)


def parse_shell_state(data: bytes, base_environment: Mapping[str, str]) -> FinalShellState | None:
    """Parse what the shell wrote at its end; None when it could not (it was killed, or replaced itself).

    A command can write anything there: no more than it could export is accepted, and nothing that would
    keep other commands from starting.
    """
    cwd, found, rest = data.partition(b"\n\0")
    if not found or not cwd.startswith(b"/") or b"\0" in cwd or len(data) > _MAX_STATE_BYTES:
        return None
    variables = _parse_variables(rest)
    return FinalShellState(
        cwd=os.fsdecode(cwd),
        environment={name: value for name, value in variables.items() if base_environment.get(name) != value},
        unset=frozenset(name for name in base_environment if name not in variables and name not in _SHELL_VARIABLES),
    )


def _parse_variables(block: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in block.split(b"\0") if item)
    return {name: value for name, _, value in pairs if name and name not in _SHELL_VARIABLES}


def _explain_start_error(error: Exception, command: ShellCommand) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"The folder {command.cwd} does not exist. Give a workdir that does."
    if isinstance(error, PermissionError):
        return f"The folder {command.cwd} may not be entered. Give another workdir."
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return "The command is too long for the system. Write it to a script file and run that."
    if isinstance(error, UnicodeError):
        return "The command holds half a character (a lone surrogate). Write it again."
    if isinstance(error, ValueError):
        return "The command holds a null character. Leave it out."
    return f"The command could not be started: {error}."
