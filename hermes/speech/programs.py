"""Runs a program on a sound: bytes in by a handle, out by a pipe, within limits, and in a box where one is asked for.

A voice message is untrusted content and ffmpeg a large parser in C, so what reads one sees nothing of this machine but
the file's handle.
"""

import asyncio
import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.line_program import FIRST_HANDLE
from hermes.execution.sandbox.landlock import READ_RIGHTS
from hermes.execution.sandbox.program_box import SYSTEM_PATH, ProgramBox, explain_missing_box, make_boxed_call
from hermes.execution.supervisor import LaunchRequest
from hermes.i18n.messages import N_
from hermes.speech.errors import SpeechError
from hermes.util.pipes import PipeReader
from hermes.util.text import strip_control_characters, to_one_line

if TYPE_CHECKING:
    from hermes.execution.local import ProcessTree
    from hermes.execution.sandbox.probe import SandboxProbe
    from hermes.execution.supervisor import Supervisors

_CHUNK = 65_536
_MAX_ERRORS = 4_096
_MEMORY = 1 << 30
"""Bytes of address space of a boxed program; ffmpeg maps far more than it uses."""
_GONE_SECONDS = 2.0
_AT_ONCE = 2
"""Programs that run at once: each keeps a processor busy."""
_SEPARATE_ERRORS = ("/bin/sh", "-c", f'exec "$@" 2>&{FIRST_HANDLE - 1} {FIRST_HANDLE - 1}>&-', "sh")
"""A supervisor gives one output for both streams; this shell separates the error stream."""


class Confinement(Enum):
    """Whether a program runs in a box."""

    REQUIRED = auto()
    """It reads untrusted content: without a box it does not run."""
    PREFERRED = auto()
    """It reads what an engine of the person has made."""
    NONE = auto()
    """It is the person's own."""


class SoundProgram(Struct, frozen=True, kw_only=True):
    """A program by its absolute path, its arguments, and how long and how much it may print."""

    words: tuple[str, ...]
    source: int | None = None
    """The handle that is its standard input."""
    confinement: Confinement = Confinement.REQUIRED
    environment: Mapping[str, str] = {}
    readable: str = ""
    """The file behind `source`, which may be opened a second time by way of it."""
    seconds: float = 60.0
    most: int = 64_000_000
    """Bytes that it may print."""


class SoundPrograms:
    """Starts programs under the process's supervisors, each with a time-out."""

    def __init__(self, get_supervisors: "Callable[[], Supervisors]", environ: Mapping[str, str]) -> None:
        self._get_supervisors = get_supervisors
        self._environ = environ
        self._probe: SandboxProbe | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def find_program(self, name: str) -> str:
        """Return the path of a program of this machine; empty where there is none. A relative folder of PATH does not
        count, since it is whatever somebody works in.
        """
        folders = [one for one in self._environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(one)]
        return shutil.which(name, path=os.pathsep.join(folders)) or ""

    async def explain_missing_box(self) -> str:
        """Return why no program can be confined here; empty where one can."""
        return explain_missing_box(await self._get_probe().find_support())

    async def run(self, program: SoundProgram, take: Callable[[bytes], object]) -> None:
        """Run a program to its end and give what it prints to `take`, piece by piece. Raises SpeechError."""
        async with self._slots:
            await self._run(program, take)

    async def _run(self, program: SoundProgram, take: Callable[[bytes], object]) -> None:
        name = os.path.basename(program.words[0])
        with contextlib.ExitStack() as held:
            source = program.source
            if source is None:
                source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
                held.callback(os.close, source)
            output, errors = held.enter_context(_pipe()), held.enter_context(_pipe())
            try:
                async with asyncio.timeout(program.seconds):
                    tree = await self._start(program, source, output, errors)
                    try:
                        said = await _read_all(program, tree, output, errors, take)
                    finally:
                        await _end(tree)
            except TimeoutError:
                reason = N_("{program} took longer than {n:g} s.", program=name, n=program.seconds)
                raise SpeechError(reason) from None
            except OSError as error:
                reason = N_("{program} cannot be started: {why}.", program=name, why=error.strerror or str(error))
                raise SpeechError(reason) from None
            except ToolError as error:
                raise SpeechError(N_("{program} cannot be started: {why}.", program=name, why=error.message)) from None
        if tree.code:
            raise SpeechError(N_("{program} failed: {why}", program=name, why=said or f"exit {tree.code}"))

    async def _start(self, program: SoundProgram, source: int, output: "_Pipe", errors: "_Pipe") -> "ProcessTree":
        try:
            if program.confinement is Confinement.NONE:
                return await self._launch(program.words, program.environment, (source, output.writes, errors.writes))
            support = await self._get_probe().find_support()
            why = explain_missing_box(support)
            if why and program.confinement is Confinement.REQUIRED:
                name = os.path.basename(program.words[0])
                raise SpeechError(N_("{program} is not run on it: {why}.", program=name, why=why))
            if why:
                return await self._launch(program.words, _SMALL_ENVIRONMENT, (source, output.writes, errors.writes))
            with make_boxed_call(_make_box(program), support) as call:
                streams = (source, output.writes, errors.writes)
                return await self._launch(call.arguments, _SMALL_ENVIRONMENT, streams, call.handles)
        finally:
            output.close_far()
            errors.close_far()

    async def _launch(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        streams: tuple[int, int, int],
        handles: Sequence[int] = (),
    ) -> "ProcessTree":
        request = LaunchRequest(
            folder="/",
            arguments=(*_SEPARATE_ERRORS, *words),
            environment=environment,
            source=streams[0],
            output=streams[1],
            extra_handles=(streams[2], *handles),
        )
        started = await self._get_supervisors().start(request)
        if started is not None:
            return started
        if handles:
            raise OSError("there is no supervisor for it here")
        from hermes.execution.process_tree import UnsupervisedProcess

        process = await asyncio.to_thread(
            subprocess.Popen[bytes],
            words,
            cwd="/",
            env=environment,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )
        return UnsupervisedProcess(process)

    def _get_probe(self) -> "SandboxProbe":
        if self._probe is None:
            from hermes.execution.sandbox.probe import SandboxProbe

            self._probe = SandboxProbe(self._environ)
        return self._probe


_SMALL_ENVIRONMENT = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/"}


def _make_box(program: SoundProgram) -> ProgramBox:
    seconds = int(program.seconds) + 1
    return ProgramBox(
        program=program.words,
        folder="/",
        variables=_SMALL_ENVIRONMENT,
        shown=(program.words[0],),  # it may lie beside the system's own programs
        rules=((program.readable, READ_RIGHTS),) if program.readable else (),
        limits=(
            (resource.RLIMIT_AS, _MEMORY),
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_NOFILE, 64),
        ),
    )


class _Pipe:
    """A pipe whose far end is given away and closed here at once."""

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()

    def close_far(self) -> None:
        """Close our copy of the program's end."""
        if self.writes >= 0:
            os.close(self.writes)
            self.writes = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_far()
        os.close(self.reads)


@contextlib.contextmanager
def _pipe() -> Iterator[_Pipe]:
    pipe = _Pipe()
    try:
        yield pipe
    finally:
        pipe.close()


async def _read_all(
    program: SoundProgram, tree: "ProcessTree", output: _Pipe, errors: _Pipe, take: Callable[[bytes], object]
) -> str:
    """Read a program's output and errors to their ends, and wait for its own; return its last words on errors."""
    ended = asyncio.Event()
    tree.set_change_callback(ended.set)
    said = bytearray()

    async def read_errors() -> None:
        reader = PipeReader(errors.reads)
        while data := await reader.read(_CHUNK):
            said.extend(data[: _MAX_ERRORS - len(said)])

    async def read_output() -> None:
        reader, total = PipeReader(output.reads), 0
        while data := await reader.read(_CHUNK):
            total += len(data)
            if total > program.most:
                name = os.path.basename(program.words[0])
                raise SpeechError(N_("{program} printed more than {n} MB.", program=name, n=program.most // 1_000_000))
            take(data)

    readers = [asyncio.ensure_future(read_errors()), asyncio.ensure_future(read_output())]
    try:
        await asyncio.gather(*readers)
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    while tree.code is None:
        ended.clear()
        if tree.code is None:
            await ended.wait()
    last = said.decode("utf-8", "replace").strip().splitlines()[-1:]
    return to_one_line(strip_control_characters("".join(last)), 200)


async def _end(tree: "ProcessTree") -> None:
    if tree.code is None or tree.is_alive():
        tree.kill()
    with contextlib.suppress(TimeoutError):
        await tree.wait_until_gone(_GONE_SECONDS)
