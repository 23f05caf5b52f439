"""Runs the programs of hooks: a shell each, under a supervisor, with bounded time and output.

What a program starts ends with it where it runs too long or is cancelled, and when Hermes dies; what one that ended by
itself has left running goes on.
"""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from msgspec import Struct

from hermes.core.errors import ToolError
from hermes.execution.local import ProcessTree
from hermes.execution.process_tree import UnsupervisedProcess
from hermes.execution.supervisor import LaunchRequest, Supervisors
from hermes.hooks.hook import HookError
from hermes.hooks.shell_answers import ProgramEnd
from hermes.util.pipes import PipeWriter

_MAX_OUTPUT = 1_000_000
"""The most bytes of each stream; a program that writes more is ended."""
_READ_SIZE = 65_536
_KILL_SECONDS = 2.0
_SEPARATE_ERRORS = "exec 2>&4 4>&-\n"
"""A supervisor gives one output for both streams; the shell separates that of errors itself."""
_SHELL = "/bin/sh"


class HookProgram(Struct, frozen=True, kw_only=True):
    """A program to run: a text and the shell that reads it, its input, where, with which variables, and for how many
    seconds at most.
    """

    command: str
    shell: str
    given: bytes
    folder: str
    environment: Mapping[str, str]
    seconds: float


async def run_program(program: HookProgram, find_supervisors: Callable[[], Supervisors]) -> ProgramEnd:
    """Run a program to its end. Raises HookError where it cannot be started, takes too long or writes too much.

    Cancelling this kills it with all that it has started.
    """
    try:
        async with asyncio.timeout(program.seconds):
            return await _run(program, find_supervisors())
    except TimeoutError:
        raise HookError(f"it took longer than {program.seconds:g} s") from None
    except (OSError, ValueError, ToolError) as error:
        raise HookError(f"it cannot be run: {getattr(error, 'strerror', None) or error}") from None


class _Streams:
    """Our ends of a program's streams, and what came out of it."""

    def __init__(self, source: int, output: int, errors: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._input = PipeWriter(source)
        self._kept = {output: bytearray(), errors: bytearray()}
        self._output, self._errors = output, errors
        self.overflowed = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when its process has ended."""
        for handle in self._kept:
            os.set_blocking(handle, False)
            self._loop.add_reader(handle, self._read, handle)

    def send(self, given: bytes) -> None:
        """Send the input, and then its end. A program that does not read it loses nothing."""
        self._input.write(given)
        self._input.close_when_written()

    def read_rest(self) -> tuple[str, str]:
        """Return what was written by now, also what still lies in the pipes."""
        for handle in self._kept:
            while self._read(handle):
                pass
        return self._decode(self._output), self._decode(self._errors)

    def close(self) -> None:
        """Close our ends."""
        self._input.close()
        for handle in self._kept:
            self._loop.remove_reader(handle)
            os.close(handle)

    def _decode(self, handle: int) -> str:
        return self._kept[handle].decode("utf-8", "replace")

    def _read(self, handle: int) -> bool:
        """Read what is there; return whether more may be."""
        try:
            data = os.read(handle, _READ_SIZE)
        except OSError:
            return False
        if not data:
            self._loop.remove_reader(handle)
            return False
        self._kept[handle] += data
        if len(self._kept[handle]) > _MAX_OUTPUT:
            self._loop.remove_reader(handle)
            self.overflowed.set()
            self.ended.set()
            return False
        return True


async def _run(program: HookProgram, supervisors: Supervisors) -> ProgramEnd:
    tree: ProcessTree | None = None
    streams: _Streams | None = None
    try:
        with _open_pipes() as pipes:
            tree = await _start(program, supervisors, (pipes[0][0], pipes[1][1], pipes[2][1]))
            streams = _Streams(pipes[0][1], pipes[1][0], pipes[2][0])
        ended = streams.ended
        started = tree

        def notice_end() -> None:
            if started.code is not None:
                ended.set()

        tree.set_change_callback(notice_end)
        notice_end()
        streams.send(program.given)
        await ended.wait()
        if streams.overflowed.is_set() or tree.code is None:
            raise HookError(f"it wrote more than {_MAX_OUTPUT:,} bytes")
        output, errors = streams.read_rest()
        tree.release()
        code, tree = tree.code, None
        return ProgramEnd(code, output, errors)
    finally:
        if streams is not None:
            streams.close()
        if tree is not None:
            tree.kill()
            await tree.wait_until_gone(_KILL_SECONDS)


@contextlib.contextmanager
def _open_pipes() -> Iterator[list[tuple[int, int]]]:
    """Open three pipes: input, output, errors. The program's ends are closed behind, ours too where it failed."""
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        pipes = []
        for is_input in (True, False, False):
            reading, writing = os.pipe()
            pipes.append((reading, writing))
            ours.callback(os.close, writing if is_input else reading)
            theirs.callback(os.close, reading if is_input else writing)
        yield pipes
        ours.pop_all()


async def _start(program: HookProgram, supervisors: Supervisors, streams: tuple[int, int, int]) -> ProcessTree:
    source, output, errors = streams
    request = LaunchRequest(
        folder=program.folder,
        arguments=(_find_shell(program.shell), "-c", _SEPARATE_ERRORS + program.command),
        environment=program.environment,
        source=source,
        output=output,
        extra_handles=(errors,),
    )
    return await supervisors.start(request) or _start_unsupervised(program, streams)


@cache
def _find_shell(name: str) -> str:
    """Return the path of a shell; that of `sh` where there is no other."""
    return f"/bin/{name}" if os.path.exists(f"/bin/{name}") else _SHELL


def _start_unsupervised(program: HookProgram, streams: tuple[int, int, int]) -> UnsupervisedProcess:
    return UnsupervisedProcess(
        subprocess.Popen(
            (_find_shell(program.shell), "-c", program.command),
            cwd=program.folder,
            env=dict(program.environment),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            start_new_session=True,
        )
    )
