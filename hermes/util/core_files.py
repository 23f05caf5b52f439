"""Core files: the memory of a process that has crashed, as the kernel writes it down."""

import contextlib
import resource


def forbid_core_files() -> None:
    """Have this process leave none, since its memory holds secrets. The hard limit stays: a program that it starts can
    raise its own again.
    """
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))
