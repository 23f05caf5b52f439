"""Python's collector of circles in a process that runs long and holds much."""

import ctypes
import gc

_YOUNG = 1000
_MIDDLE = 20
_RARELY = 500


def calm_collector() -> None:
    """Keep the collector from stopping a process that holds much: a look at everything that is alive takes 0.2 s with
    a thousand live sessions, and it comes whenever what is alive has grown by a quarter.

    What is there now is taken to stay and is never looked at again. What is young is looked at as before, everything
    only after ten million more objects were made than dropped. Sessions leave no circles behind when they are closed,
    so nothing waits for that. Whoever knows a quiet moment may call `gc.collect()` then.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _RARELY)


def give_back() -> None:
    """Give the memory that is free within the process back to the system, where the C library can (glibc): it keeps
    holes between what lives long. Takes milliseconds; for a thread."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
