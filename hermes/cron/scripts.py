"""Scripts that run before a job, or instead of a model: the person's own files in the home's folder `scripts`.

They run on this machine with the person's own rights and without a sandbox, since only the person can put anything
there: tools may not write into the home. They get the variables of the process except those that hold keys.
"""

import asyncio
import contextlib
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.messages import N_
from hermes.safety.environment import remove_secret_variables
from hermes.tools.output import HeadTailBuffer
from hermes.util.cancellation import run_ignoring_cancellation, wait_for_task
from hermes.util.text import strip_terminal_controls

_KILL_AFTER = 3.0


class ScriptOutput(Struct, frozen=True):
    """The output of a script, and why it failed; empty when it did not."""

    text: str
    failed: str = ""
    code: int | None = 0
    """Its exit code; None where it was killed after its time."""


class JobScripts:
    """The scripts of a home."""

    def __init__(self, folder: Path, environ: Mapping[str, str], redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._environ = environ
        self._redact = redact

    def check_script(self, name: str) -> list[str]:
        """Return the command that runs a script.

        Raises UsageError for a path that is not allowed, ConfigError for a file that cannot be run.
        """
        path = self._resolve_path(name)
        try:
            status = path.lstat()
        except OSError:
            raise ConfigError(
                N_("There is no script {path}.", path=path), N_("Put it there, as a Python file or executable.")
            ) from None
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
            raise ConfigError(
                N_("{path} is not a plain file of yours.", path=path),
                N_("It must belong to you, and nobody else may write it."),
            )
        if path.suffix == ".py":
            return [sys.executable, str(path)]
        if not os.access(path, os.X_OK):
            raise ConfigError(
                N_("{path} cannot be run.", path=path), N_("Make it executable, or give it a name with `.py`.")
            )
        return [str(path)]

    async def run_script(self, name: str, *, seconds: float, job: str) -> ScriptOutput:
        """Run a script to its end, in its folder; it is killed with its process group when it takes too long.

        Raises what `check_script` does.
        """
        command = self.check_script(name)
        environ = remove_secret_variables(self._environ)
        environ |= {"HERMES_HOME": str(self._folder.parent), "HERMES_JOB": job}
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                cwd=self._folder,
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(N_("The script {name} cannot be started: {why}.", name=name, why=why)) from None
        output = HeadTailBuffer()
        reading = asyncio.create_task(_read_output(process, output), name=f"script {name}")
        failed, ended, code = "", False, None
        try:
            async with asyncio.timeout(seconds):
                await wait_for_task(reading)
                code = await process.wait()
            ended = True
            failed = N_("the script {name} ended with code {code}", name=name, code=code) if code else ""
        except TimeoutError:
            failed = N_("the script {name} took longer than {n} seconds", name=name, n=round(seconds))
        finally:
            if not ended:
                await run_ignoring_cancellation(_kill_process_group(process))
        return ScriptOutput(self._redact(strip_terminal_controls(output.to_text())), failed, code)

    def _resolve_path(self, name: str) -> Path:
        """Return the path of a script. Raises UsageError for a path that leads out of the folder, by links too, or is
        none.
        """
        if not name or "\0" in name:
            raise self._make_path_error(name)
        real = Path(os.path.realpath(self._folder))
        given = Path(name)
        path = given if given.is_absolute() else real / given
        for folder in (self._folder, real):
            if path.is_relative_to(folder):
                inside = path.relative_to(folder)
                break
        else:
            inside = Path("..")
        wanted = real / inside
        if ".." in inside.parts or inside == Path() or Path(os.path.realpath(wanted)) != wanted:
            raise self._make_path_error(name)
        return wanted

    def _make_path_error(self, name: str) -> UsageError:
        return UsageError(
            N_("{name!r} is not in the folder of scripts.", name=name[:200]),
            N_("Scripts are in {folder}; links and `..` are not followed.", folder=self._folder),
        )


async def _read_output(process: asyncio.subprocess.Process, output: HeadTailBuffer) -> None:
    assert process.stdout is not None
    while data := await process.stdout.read(65_536):
        output.feed(data)


async def _kill_process_group(process: asyncio.subprocess.Process) -> None:
    """Kill the script's process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_AFTER):
                await process.wait()
