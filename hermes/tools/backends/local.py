"""Commands on this machine, as the person who started Hermes."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Collection, Mapping
from typing import IO

from hermes.core.errors import ToolError
from hermes.safety.environment import public_environment
from hermes.tools.backends import tree
from hermes.tools.backends.base import Command, Exit, ShellState, Sink

_CHUNK = 65_536
_DRAIN = 4 * 1024 * 1024
"""Bytes read at most after a command's end; what still writes then is a process it left behind."""
_GRACE = 0.1
"""Seconds to wait for the end of the output once the command itself has ended."""
_PATIENCE = ((signal.SIGINT, 1.5), (signal.SIGTERM, 1.5), (signal.SIGKILL, 1.0))
_POLL = 0.02
_QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "TERM", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", *_QUIET})
"""Variables that belong to each shell, and those that would change what a later one runs: never carried on."""


class LocalBackend:
    """Runs commands with the shell of this machine.

    `environment` is the process's own; of its keys only those named in `passed` are handed on.
    """

    name = "local"

    def __init__(
        self, environment: Mapping[str, str], *, passed: Collection[str] = (), shell: str | None = None
    ) -> None:
        kept = {name: environment[name] for name in passed if name in environment}
        self._environment = public_environment(environment) | kept
        self._shell = shell or shutil.which("bash", path=environment.get("PATH", os.defpath)) or "/bin/sh"

    async def start(self, command: Command, sink: Sink) -> "LocalRunning":
        """Start a command in a session of its own. Raises `ToolError` when it cannot be started."""
        import tempfile

        note: IO[bytes] | None = tempfile.TemporaryFile() if command.hold_state else None  # noqa: SIM115 - the command's
        near, far = _terminal() if command.pty else _pipes(interactive=command.interactive)
        try:
            process = self._spawn(command, far, note)
        except (OSError, ValueError) as error:
            for handle in set(near) - {-1}:
                os.close(handle)
            if note is not None:
                note.close()
            raise ToolError(_why_not(error, command)) from None
        finally:
            for handle in far:
                os.close(handle)
        return LocalRunning(process, near, sink, note, self._environment)

    def _spawn(self, command: Command, far: tuple[int, ...], note: IO[bytes] | None) -> subprocess.Popen[bytes]:
        """Start the shell on the command's ends of the pipes, or on its terminal. It returns once the program runs."""
        kept = {name: value for name, value in self._environment.items() if name not in command.unset}
        environment = {**kept, **command.environment, **_QUIET, "TERM": "xterm" if command.pty else "dumb"}
        script = command.text
        if note is not None:
            report = f'{{ pwd; printf "\\0"; /usr/bin/env -0; }} >/dev/fd/{note.fileno()} 2>/dev/null'
            script = f"trap '{report}' EXIT; {script}"
        if command.pty:
            # The shell leads its session, so the terminal that it opens becomes the one that controls it.
            script = f": <{os.ttyname(far[0])}; {script}"
        return subprocess.Popen(
            [self._shell, "-c", script],
            cwd=command.cwd,
            env=environment,
            stdin=far[0] if command.pty or command.interactive else subprocess.DEVNULL,
            stdout=far[-1],
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(note.fileno(),) if note is not None else (),
        )

    async def close(self) -> None:
        """Nothing is held between commands."""


class LocalRunning:
    """A command that runs on this machine. Callbacks of the event loop do the work, so it needs no task."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        near: tuple[int, int],
        sink: Sink,
        note: IO[bytes] | None,
        base: Mapping[str, str],
    ) -> None:
        self._process = process
        self._output, self._input = near
        self._sink = sink
        self._note = note
        self._base = base
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._reading = True
        self._exited = False
        self._finished = False
        self._loop.add_reader(self._output, self._read)
        self._watch_exit()

    @property
    def pid(self) -> int:
        """The process id; also the process group and the session."""
        return self._process.pid

    async def wait(self) -> Exit:
        """Wait for its end and for the last of its output."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        """End the whole tree: INT, TERM after 1.5 s, KILL after 3 s. Cancelling this kills at once.

        The process table is read in a thread: on a busy machine that takes milliseconds.
        """
        tracked: set[tree.Entry] = set()
        try:
            tracked = await asyncio.to_thread(tree.members, self.pid)
            for signum, patience in _PATIENCE:
                if await self._gone(tracked):
                    break
                await asyncio.to_thread(tree.send, self.pid, tracked, signum)
                tracked |= await self._wait_gone(tracked, patience)
        except asyncio.CancelledError:
            tree.send(self.pid, tracked | tree.members(self.pid), signal.SIGKILL)
            raise
        if self._exited:
            self._finish()

    async def write(self, data: bytes) -> None:
        """Send input, as fast as the command takes it."""
        while data:
            if self._input < 0:
                raise ToolError("Its input is closed.")
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                raise ToolError(f"It takes no input any more ({error.strerror}).") from None

    def close_input(self) -> None:
        """End of input; a terminal is sent its end-of-file character."""
        if self._input == self._output:
            with contextlib.suppress(OSError):
                os.write(self._input, b"\x04")
        elif self._input >= 0:
            os.close(self._input)
            self._input = -1

    async def _writable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_writer(self._input, ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_writer(self._input)

    async def _gone(self, tracked: set[tree.Entry]) -> bool:
        return self._exited and not await asyncio.to_thread(tree.any_left, self.pid, tracked)

    async def _wait_gone(self, tracked: set[tree.Entry], patience: float) -> set[tree.Entry]:
        """Wait until everything is gone, at most `patience` seconds; what was started meanwhile."""
        deadline = self._loop.time() + patience
        while self._loop.time() < deadline:
            await asyncio.sleep(_POLL)
            if await self._gone(tracked):
                return set()
        return await asyncio.to_thread(tree.members, self.pid)

    def _watch_exit(self) -> None:
        try:
            handle = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            # Not Linux, or too old a kernel: a thread waits.
            waiting = self._loop.run_in_executor(None, self._process.wait)
            waiting.add_done_callback(lambda _: self._on_exit())
            return

        def ready() -> None:
            self._loop.remove_reader(handle)
            os.close(handle)
            self._on_exit()

        self._loop.add_reader(handle, ready)

    def _on_exit(self) -> None:
        self._process.poll()
        self._exited = True
        taken = 0
        while self._reading and taken < _DRAIN and (size := self._read()):
            taken += size
        if self._reading:
            self._loop.call_later(_GRACE, self._finish)
        else:
            self._finish()

    def _read(self) -> int:
        """Take what is there; the number of bytes, 0 when there is nothing more for now or at all."""
        try:
            data = os.read(self._output, _CHUNK)
        except BlockingIOError:
            return 0
        except OSError:  # EIO is how a terminal ends
            data = b""
        if data:
            self._sink(data)
            return len(data)
        self._reading = False
        self._loop.remove_reader(self._output)
        if self._exited:
            self._finish()
        return 0

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        self._loop.remove_reader(self._output)
        self._reading = False
        for handle in {self._output, self._input} - {-1}:
            os.close(handle)
        self._input = self._output = -1
        state = None
        try:
            if self._note is not None:
                with self._note:
                    state = _state(self._note.fileno(), self._base)
        finally:
            # Whatever becomes of the note, the one who waits for the command hears of its end.
            self._tell(state)

    def _tell(self, state: ShellState | None) -> None:
        """Set the outcome. Only when something of the group is left is the process table read, in a thread."""
        if not tree.group_exists(self.pid):
            self._ended.set_result(Exit(code=self._process.returncode, state=state))
            return
        looking = self._loop.run_in_executor(None, tree.members, self.pid)
        looking.add_done_callback(
            lambda found: self._ended.set_result(
                Exit(code=self._process.returncode, state=state, left_running=bool(found.result()))
            )
        )


def _pipes(*, interactive: bool) -> tuple[tuple[int, int], tuple[int, ...]]:
    """(our ends: output, input or -1), (the command's ends: input if any, output)."""
    output, command_output = os.pipe()
    os.set_blocking(output, False)
    if not interactive:
        return (output, -1), (command_output,)
    command_input, write_end = os.pipe()
    os.set_blocking(write_end, False)
    return (output, write_end), (command_input, command_output)


def _terminal() -> tuple[tuple[int, int], tuple[int, ...]]:
    import termios

    near, far = os.openpty()
    termios.tcsetwinsize(far, (40, 120))
    os.set_blocking(near, False)
    return (near, near), (far,)


def _state(note: int, base: Mapping[str, str]) -> ShellState | None:
    """What the shell wrote at its end; None when it could not (it was killed, or replaced itself)."""
    cwd, found, rest = os.pread(note, os.fstat(note).st_size, 0).partition(b"\n\0")
    if not found:
        return None
    pairs = (os.fsdecode(item).partition("=") for item in rest.split(b"\0") if item)
    variables = {name: value for name, _, value in pairs if name not in _OWN}
    return ShellState(
        cwd=os.fsdecode(cwd),
        environment={name: value for name, value in variables.items() if base.get(name) != value},
        unset=frozenset(name for name in base if name not in variables and name not in _OWN),
    )


def _why_not(error: Exception, command: Command) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"The folder {command.cwd} does not exist. Give a workdir that does."
    if isinstance(error, PermissionError):
        return f"The folder {command.cwd} may not be entered. Give another workdir."
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return "The command is too long for the system. Write it to a script file and run that."
    if isinstance(error, ValueError):
        return "The command holds a null character. Leave it out."
    return f"The command could not be started: {error}."
