"""Scripts that run before a job, or instead of a model: the person's own files in the home's folder `scripts`.

They run plainly on this machine, in the person's own right and without a sandbox, since nobody but the person can put
anything there: tools may not write into the home. They get the variables of the process but those that hold keys.
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
from hermes.i18n.messages import phrase
from hermes.safety.environment import public_environment
from hermes.tools.output import HeadTailBuffer
from hermes.util.cancellation import finished, unbroken
from hermes.util.text import inert

_KILL_AFTER = 3.0


class Said(Struct, frozen=True):
    """What a script said, and why it failed; empty: it did not."""

    text: str
    failed: str = ""


class Scripts:
    """The scripts of a home."""

    def __init__(self, folder: Path, environ: Mapping[str, str], redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._environ = environ
        self._redact = redact

    def check(self, name: str) -> list[str]:
        """The command that runs a script. Raises UsageError for a path that is not allowed, ConfigError for a file that
        cannot be run."""
        path = self._place(name)
        try:
            status = path.lstat()
        except OSError:
            raise ConfigError(
                phrase("There is no script {path}.", path=path), phrase("Put it there, as a Python file or executable.")
            ) from None
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
            raise ConfigError(
                phrase("{path} is not a plain file of yours.", path=path),
                phrase("It must belong to you, and nobody else may write it."),
            )
        if path.suffix == ".py":
            return [sys.executable, str(path)]
        if not os.access(path, os.X_OK):
            raise ConfigError(
                phrase("{path} cannot be run.", path=path), phrase("Make it executable, or give it a name with `.py`.")
            )
        return [str(path)]

    async def run(self, name: str, *, seconds: float, job: str) -> Said:
        """Run a script to its end, in its folder; it is killed with its process group when it takes too long.

        Raises what `check` does.
        """
        command = self.check(name)
        environ = public_environment(self._environ)
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
            raise ConfigError(phrase("The script {name} cannot be started: {why}.", name=name, why=why)) from None
        kept = HeadTailBuffer()
        reading = asyncio.create_task(_read(process, kept), name=f"script {name}")
        failed, ended = "", False
        try:
            async with asyncio.timeout(seconds):
                await finished(reading)
                code = await process.wait()
            ended = True
            failed = phrase("the script {name} ended with code {code}", name=name, code=code) if code else ""
        except TimeoutError:
            failed = phrase("the script {name} took longer than {n} seconds", name=name, n=round(seconds))
        finally:
            if not ended:
                await unbroken(_end(process))
        return Said(self._redact(inert(kept.to_text())), failed)

    def _place(self, name: str) -> Path:
        """Where a script lies. Raises UsageError for a path that leads out of the folder, by links too."""
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
        if not name or ".." in inside.parts or inside == Path() or Path(os.path.realpath(wanted)) != wanted:
            raise UsageError(
                phrase("{name!r} is not in the folder of scripts.", name=name[:200]),
                phrase("Scripts lie in {folder}; links and `..` are not followed.", folder=self._folder),
            )
        return wanted


async def _read(process: asyncio.subprocess.Process, kept: HeadTailBuffer) -> None:
    assert process.stdout is not None
    while data := await process.stdout.read(65_536):
        kept.feed(data)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing of the script's process group running."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_AFTER):
                await process.wait()
