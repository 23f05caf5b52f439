"""Tells what a sandbox needs on this machine: whether there may be one, and what programs read as they start."""

import ctypes
import functools
import os
import shutil
import sys
from collections.abc import Mapping

_QUERY_VERSION = 1
_LOADER_CACHE = "/etc/ld.so.cache"
_LIST_SECONDS = 5.0


def landlock_version() -> int:
    """Return the version of Landlock that this kernel speaks; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(444, None, 0, _QUERY_VERSION)))


def is_sandbox_possible(environ: Mapping[str, str]) -> bool:
    """Return whether there may be a sandbox here, without trying it: one that seems to exist and fails refuses
    commands.
    """
    if sys.platform == "darwin":
        return os.access("/usr/bin/sandbox-exec", os.X_OK)
    return shutil.which("bwrap", path=environ.get("PATH", os.defpath)) is not None or landlock_version() > 0


@functools.cache
def list_loaded_files(program: str) -> tuple[str, ...]:
    """Return what a program's start reads beside itself: its loader and libraries, as ld.so(8) lists them. Raises
    OSError and `subprocess.SubprocessError`.
    """
    import subprocess

    listed = subprocess.run(
        (program, "--version"),
        env={"LD_TRACE_LOADED_OBJECTS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LIST_SECONDS,
        check=False,
    ).stdout
    found = (word for word in os.fsdecode(listed).split() if word.startswith("/"))
    return tuple(dict.fromkeys(one for one in (*found, _LOADER_CACHE) if os.path.isfile(one)))
