"""Commands on this machine, as the person who started Hermes."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import IO, Protocol

from hermes.core.errors import ToolError
from hermes.execution.base import Command, Exit, ShellState, Sink, Stopped
from hermes.execution.supervisor import Order, Wardens
from hermes.execution.supervisor_main import NOTE, OTHERS
from hermes.execution.unsupervised import Direct
from hermes.i18n.messages import phrase
from hermes.safety.environment import public_environment

_CHUNK = 65_536
_DRAIN = 4 * 1024 * 1024
"""Bytes read at most after a command's end; what still writes then is a process it left behind."""
_GRACE = 0.1
"""Seconds to wait for the end of the output, and of what it started, once the command itself has ended."""
_PATIENCE = ((signal.SIGINT, 1.5), (signal.SIGTERM, 1.5), (signal.SIGKILL, 1.0))
QUIET = {"PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
_OWN = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "TERM", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", *QUIET})
"""Variables that belong to each shell, and those that would change what a later one runs: never carried on."""
_LARGEST_NOTE = 4 * 1024 * 1024
"""Bytes of a state that is believed; no environment that a program can be started with is larger."""


class Tree(Protocol):
    """The processes of one command: its shell and everything that came of it."""

    pid: int
    code: int | None
    """How the shell ended, negative for a signal; None while it runs."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Have `changed` called when the shell has ended, and when it is learnt that nothing is left."""

    def left(self) -> bool:
        """Whether any of them still lives, as far as that is known."""
        ...

    async def signal(self, signum: signal.Signals) -> None:
        """Signal all of them."""

    async def gone(self, seconds: float) -> bool:
        """Wait until nothing is left, at most so many seconds."""
        ...

    def kill(self) -> None:
        """Kill all of them, without waiting."""

    def release(self) -> None:
        """Let what an ended shell left live on without us."""


class Box(Protocol):
    """What a command is put into, so that it reaches less than this process. Made for one command."""

    folder: str
    """Where the program that makes the box is started, if not in the command's folder."""
    variables: Mapping[str, str]
    """Laid under the command's own variables, over the backend's. What stays as given is no change of the command's."""
    temporary: str | None
    """Where a file can be made that both this process and the command can write."""
    handles: Sequence[int]
    """What that program gets besides the command's streams."""
    spaces: Sequence[int]
    """Namespaces that it is started in, which takes a warden."""

    def wrap(
        self, shell: Sequence[str], environment: Mapping[str, str], handles: Sequence[int]
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """The program that makes the box and runs `shell` in it, with its own variables; where it finds `handles`."""
        ...

    def script(self, text: str, terminal: str) -> tuple[str, ...]:
        """Arguments for a shell to run `text`, on the `terminal` of that name or, when it is empty, on none."""
        ...


class LocalBackend:
    """Runs commands with the shell of this machine, under wardens where there can be some.

    `environment` is the process's own; of its keys only those named in `passed` are handed on. The handles `held`, a
    session's lock, stay open while anything of a command lives, in its warden, not in the command. `wardens` are
    shared by all backends of a process; without them this one has its own.
    """

    name = "local"
    contained = False

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        passed: Collection[str] = (),
        shell: str | None = None,
        held: Sequence[int] = (),
        wardens: Wardens | None = None,
    ) -> None:
        kept = {name: environment[name] for name in passed if name in environment}
        self._environment = public_environment(environment) | kept
        self._shell = shell or shutil.which("bash", path=environment.get("PATH", os.defpath)) or "/bin/sh"
        self._held = tuple(held)
        self._wardens = wardens or Wardens(environment)
        self._own = wardens is None
        self._started: list[LocalRunning] = []

    async def line(self, *, whole: bool = False) -> str:
        """Nothing holds them."""
        del whole
        return phrase(
            "Commands run on this machine with all of your rights; nothing holds them back but the questions."
        )

    def take_notices(self) -> list[str]:
        """There is nothing to tell."""
        return []

    def writable(self, path: str) -> bool:
        """Nothing is closed but what the rules protect."""
        return True

    def outside(self, path: str) -> str:
        """Commands see this machine as it is."""
        return path

    def inside(self, path: str) -> str:
        """Commands see this machine as it is."""
        return path

    def gone(self, path: str) -> bool:
        """Whether there is no such folder."""
        return not os.path.isdir(path)

    def denied_path(self, output: str, cwd: str) -> str:
        """Nothing is kept from commands here."""
        return ""

    def never_opened(self, output: str, cwd: str) -> str:
        """No place has to be told of here."""
        return ""

    def grant(self, path: str) -> None:
        """Everything is open already."""

    async def start(self, command: Command, sink: Sink, box: Box | None = None) -> "LocalRunning":
        """Start a command in a session of its own. Raises `ToolError` when it cannot be started."""
        import tempfile

        base = {**self._environment, **box.variables} if box is not None else self._environment

        with contextlib.ExitStack() as undo:
            note: IO[bytes] | None = None
            if command.hold_state:
                note = undo.enter_context(tempfile.TemporaryFile(dir=box.temporary if box is not None else None))
            near, far = _terminal() if command.pty else _pipes(interactive=command.interactive)
            for handle in set(near) - {-1}:
                undo.callback(os.close, handle)
            with contextlib.ExitStack() as ends:
                for handle in far:
                    ends.callback(os.close, handle)
                try:
                    tree = await self._spawn(command, far, note, box)
                except (OSError, ValueError) as error:
                    raise ToolError(_why_not(error, command)) from None
            undo.pop_all()
        running = LocalRunning(tree, near, sink, note, base)
        self._started = [one for one in self._started if not one.over]
        self._started.append(running)
        return running

    async def _spawn(self, command: Command, far: tuple[int, ...], note: IO[bytes] | None, box: Box | None) -> Tree:
        """Start the shell on the command's ends of the pipes, or on its terminal. It returns once the program runs."""

        def order(note_at: int, others_at: Sequence[int]) -> Order:
            arguments, environment = self._program(command, far, note_at if note is not None else None, box)
            if box is not None:
                arguments, environment = box.wrap(arguments, environment, others_at)
            return Order(
                folder=(box.folder if box is not None else "") or command.cwd,
                arguments=arguments,
                environment=environment,
                source=far[0] if command.pty or command.interactive else None,
                output=far[-1],
                note=note.fileno() if note is not None else None,
                others=others,
                spaces=box.spaces if box is not None else (),
            )

        others = box.handles if box is not None else ()
        tree = await self._wardens.start(order(NOTE, range(OTHERS, OTHERS + len(others))), self._held)
        return tree or _without_warden(order(note.fileno() if note is not None else NOTE, others))

    def _program(
        self, command: Command, far: tuple[int, ...], note: int | None, box: Box | None
    ) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """The shell that runs the command, and its variables."""
        base = {**self._environment, **box.variables} if box is not None else self._environment
        kept = {name: value for name, value in base.items() if name not in command.unset}
        environment = {**kept, **command.environment, **QUIET, "TERM": "xterm" if command.pty else "dumb"}
        script = command.text
        if note is not None:
            report = f'{{ pwd; printf "\\0"; /usr/bin/env -0; }} >/dev/fd/{note} 2>/dev/null'
            script = f"trap '{report}' EXIT; {script}"
        terminal = os.ttyname(far[0]) if command.pty else ""
        if box is not None:
            return (self._shell, *box.script(script, terminal)), environment
        # The shell leads its session, so the terminal that it opens becomes the one that controls it.
        return (self._shell, "-c", f": <{terminal}; {script}" if terminal else script), environment

    async def wardened(self) -> bool:
        """Whether commands run under wardens here."""
        return await self._wardens.ready()

    async def close(self) -> None:
        """Let go of what ended commands left running; wardens of commands that were not ended end them."""
        for one in self._started:
            one.let_go()
        self._started.clear()
        if self._own:
            await self._wardens.close()


class LocalRunning:
    """A command that runs on this machine. Callbacks of the event loop do the work, so it needs no task."""

    heard: None = None
    """Nobody sees what it reaches."""

    def __init__(
        self,
        tree: Tree,
        near: tuple[int, int],
        sink: Sink,
        note: IO[bytes] | None,
        base: Mapping[str, str],
    ) -> None:
        self._tree = tree
        self._output, self._input = near
        self._sink = sink
        self._note = note
        self._base = base
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._reading = True
        self._finished = False
        self._grace: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._output, self._read)
        tree.watch(self._check)

    @property
    def pid(self) -> int:
        """The process id; also the process group and the session."""
        return self._tree.pid

    @property
    def ended(self) -> bool:
        """Whether the program that was started has ended, whatever it left."""
        return self._tree.code is not None

    @property
    def over(self) -> bool:
        """Whether its end has been told, and nothing is known to be left of it."""
        return self._finished and not self._tree.left()

    def let_go(self) -> None:
        """Be done with it: what an ended shell left may live on, a command under way is ended by its warden."""
        self._tree.release()
        self._finish()

    async def wait(self) -> Exit:
        """Wait for its end and for the last of its output."""
        return await asyncio.shield(self._ended)

    async def stop(self) -> Stopped:
        """End the whole tree: INT, TERM after 1.5 s, KILL after 3 s. Cancelling this kills at once."""
        try:
            gone = await self._tree.gone(0)
            for signum, patience in _PATIENCE:
                if gone:
                    break
                await self._tree.signal(signum)
                gone = await self._tree.gone(patience)
        except asyncio.CancelledError:
            self._tree.kill()
            raise
        if self._tree.code is not None:
            self._finish()
        return Stopped.GONE if gone else Stopped.UNCERTAIN

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

    def _check(self) -> None:
        """Something has changed: finish when the shell has ended, its output too, and nothing is left; or soon."""
        if self._finished or self._tree.code is None:
            return
        if self._grace is None:
            self._grace = self._loop.call_later(_GRACE, self._finish)
            taken = 0
            while self._reading and taken < _DRAIN and (size := self._read()):
                taken += size
        if not self._reading and not self._tree.left():
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
        self._check()
        return 0

    def _finish(self) -> None:
        if self._finished:
            return
        self._finished = True
        if self._grace is not None:
            self._grace.cancel()
        self._loop.remove_reader(self._output)
        self._reading = False
        for handle in {self._output, self._input} - {-1}:
            os.close(handle)
        self._input = self._output = -1
        state = None
        try:
            if self._note is not None:
                with self._note:
                    state = shell_state(os.pread(self._note.fileno(), _LARGEST_NOTE + 1, 0), self._base)
        finally:
            # Whatever becomes of the note, the one who waits for the command hears of its end.
            code = self._tree.code if self._tree.code is not None else -signal.SIGKILL
            self._ended.set_result(Exit(code=code, state=state, left_running=self._tree.left()))


def _without_warden(order: Order) -> Direct:
    """Raises OSError when the command must be put into namespaces: it would run outside of them."""
    if order.spaces:
        raise OSError("there is no warden that could put it into its network")
    return Direct(
        subprocess.Popen(
            order.arguments,
            cwd=order.folder,
            env=order.environment,
            stdin=order.source if order.source is not None else subprocess.DEVNULL,
            stdout=order.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(*([order.note] if order.note is not None else []), *order.others),
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


def shell_state(note: bytes, base: Mapping[str, str]) -> ShellState | None:
    """What the shell wrote at its end; None when it could not (it was killed, or replaced itself).

    A command can write what it likes there: no more than it could export, and nothing that would keep others from
    starting.
    """
    cwd, found, rest = note.partition(b"\n\0")
    if not found or not cwd.startswith(b"/") or b"\0" in cwd or len(note) > _LARGEST_NOTE:
        return None
    variables = _variables(rest)
    return ShellState(
        cwd=os.fsdecode(cwd),
        environment={name: value for name, value in variables.items() if base.get(name) != value},
        unset=frozenset(name for name in base if name not in variables and name not in _OWN),
    )


def _variables(block: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(item).partition("=") for item in block.split(b"\0") if item)
    return {name: value for name, _, value in pairs if name and name not in _OWN}


def _why_not(error: Exception, command: Command) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"The folder {command.cwd} does not exist. Give a workdir that does."
    if isinstance(error, PermissionError):
        return f"The folder {command.cwd} may not be entered. Give another workdir."
    if isinstance(error, OSError) and error.errno == 7:  # E2BIG
        return "The command is too long for the system. Write it to a script file and run that."
    if isinstance(error, UnicodeError):
        return "The command holds half a character (a lone surrogate). Write it anew."
    if isinstance(error, ValueError):
        return "The command holds a null character. Leave it out."
    return f"The command could not be started: {error}."
