"""Tells whether there may be a sandbox on this machine, without trying one."""

import ctypes
import os
import shutil
import sys
from collections.abc import Mapping

_QUERY_VERSION = 1


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
