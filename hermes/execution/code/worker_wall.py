"""Makes the program by which the interpreter's worker is started, behind a wall of the kernel where there is one.

The interpreter keeps code from everything by itself. The wall is a second one, should that have a hole: the worker sees
no file but its own, no network and no other process, and ends with the process that started it.
"""

import contextlib
import functools
import os
import resource
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from hermes.execution.sandbox import seccomp
from hermes.execution.sandbox.landlock import LANDLOCK_SCOPES, build_confined_call
from hermes.execution.sandbox.probe import find_bwrap
from hermes.execution.sandbox.support import landlock_version, list_loaded_files

_TRIAL_SECONDS = 10.0
_EXECUTE, _READ_FILE = 1, 1 << 2
_ALL_FILE_RIGHTS = (1 << 13) - 1
_TCP_RIGHTS = 3
_REQUEST_HANDLE = 9
_END_WITH_PARENT = "import ctypes; ctypes.CDLL(None).prctl(1, 9); "
"""The worker is killed when the process that started it ends: it may be in the middle of a loop then."""


class WorkerWall(StrEnum):
    """What stands around the worker."""

    BUBBLEWRAP = "bubblewrap"
    LANDLOCK = "landlock"
    NONE = "none"


def find_worker_program() -> str | None:
    """Return the interpreter's program, which its package installs beside the other programs of this environment; None
    without it. It is looked for nowhere else: another program may have the same name.
    """
    folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent)]
    with contextlib.suppress(KeyError):
        folders.append(sysconfig.get_path("scripts", f"{os.name}_user"))
    found = (os.path.join(folder, "monty") for folder in folders)
    return next((os.path.realpath(one) for one in found if os.access(one, os.X_OK)), None)


@functools.cache
def choose_wall(program: str, path: str) -> WorkerWall:
    """Return the best wall behind which the program starts here. It is tried once a process."""
    for wall in (WorkerWall.BUBBLEWRAP, WorkerWall.LANDLOCK):
        with contextlib.suppress(OSError, subprocess.SubprocessError), make_launcher(program, path, wall) as launcher:
            done = subprocess.run(
                (launcher, "--version"), capture_output=True, timeout=_TRIAL_SECONDS, check=False, env={}
            )
            if done.returncode == 0:
                return wall
    return WorkerWall.NONE


@contextlib.contextmanager
def make_launcher(program: str, path: str, wall: WorkerWall) -> Iterator[str]:
    """Yield the path of a script that starts the worker behind this wall; it is needed until the worker runs.

    Raises OSError where the wall cannot be made.
    """
    folder = tempfile.mkdtemp(prefix="hermes-code-")
    try:
        launcher = os.path.join(folder, "worker")
        if wall is WorkerWall.BUBBLEWRAP:
            line = _build_bubblewrap_line(program, path)
        elif wall is WorkerWall.LANDLOCK:
            line = _build_landlock_line(program, folder)
        else:
            line = f'exec env -i {shlex.quote(program)} "$@"'
        handle = os.open(launcher, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o700)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        yield launcher
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _build_bubblewrap_line(program: str, path: str) -> str:
    bwrap = find_bwrap(path)
    if bwrap is None or sys.platform != "linux":
        raise OSError("there is no bubblewrap")
    files = [word for one in list_loaded_files(program) for word in ("--ro-bind", os.path.realpath(one), one)]
    options = ("--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--cap-drop", "ALL")
    words = (bwrap, *files, "--ro-bind", program, "/worker", *options, "--chdir", "/", "--", "/worker")
    return f'exec {shlex.join(words)} "$@"'


def _build_landlock_line(program: str, folder: str) -> str:
    version = landlock_version()
    if not version:
        raise OSError("there is no Landlock")
    rights = [
        (os.fsencode(os.path.realpath(one)), _EXECUTE | _READ_FILE) for one in (program, *list_loaded_files(program))
    ]
    request: dict[str, object] = {
        "fs": _ALL_FILE_RIGHTS,
        "net": _TCP_RIGHTS if version >= 4 else 0,
        "scoped": LANDLOCK_SCOPES if version >= 6 else 0,
        "rules": rights,
        "filter": seccomp.build_filter(unix=False, datagrams=False),
        "limits": [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 64)],
        "capabilities": True,
    }
    # The script's own arguments come last: the request names all of them.
    lines = []
    for number, arguments in enumerate((("--version",), ("subprocess",))):
        stored = os.path.join(folder, f"request{number}")
        handle = os.open(stored, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            words = build_confined_call(handle, _REQUEST_HANDLE, dict(request), (program, *arguments), {})
        finally:
            os.close(handle)
        start = [_END_WITH_PARENT + word if word.startswith("import sys;") else word for word in words]
        lines.append(f'[ "$1" = {arguments[0]} ] && exec {shlex.join(start)} {_REQUEST_HANDLE}<{shlex.quote(stored)}')
    return "\n".join((*lines, "exit 125"))
