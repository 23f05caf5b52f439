"""Settings of Python's garbage collector for a process that has started, and of both its and the C library's memory
for one that holds much.
"""

import gc

_YOUNG_THRESHOLD = 1000
_MIDDLE_THRESHOLD = 20
_OLD_THRESHOLD = 500
_RUNNING_THRESHOLDS = 700, 10, 10
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_BLOCK = 256 * 1024
"""Bytes: more than most conversations have, since a block from the system costs half a millisecond a megabyte."""


def collect_after_start() -> None:
    """Collect garbage as Python 3.11 does by default from now on, but never look again at what exists now.

    `hermes.__main__` puts collections off while modules are imported. A chat must not go on like that: its
    garbage would be found a hundred thousand objects at a time, in a pause of 50 ms that delays keys.
    """
    gc.freeze()
    gc.set_threshold(*_RUNNING_THRESHOLDS)


def tune_garbage_collector() -> None:
    """Tune the garbage collector so that it does not pause a process that holds much: a full collection takes
    0.2 s with a thousand live sessions, and by default one comes whenever the live objects have grown by a
    quarter.

    Objects that exist now are frozen and never looked at again. Young objects are collected as before, all others only
    after ten million more objects were made than dropped. Closed sessions leave no cycles behind, so nothing waits for
    that. A caller who knows a quiet moment may call `gc.collect()` then.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_THRESHOLD, _MIDDLE_THRESHOLD, _OLD_THRESHOLD)


def map_large_blocks() -> None:
    """Have the C library (glibc) take each large block from the system and give it back when it is freed, always.

    By itself it does so only until one was freed: later ones up to that size come from its heap. A long conversation is
    one growing block, and each request a copy of it: both then move to wherever there is room for a little more, and
    the places that they leave are soon too small for them. These add up to twice the conversation.
    """
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
        set_option(_M_TRIM_THRESHOLD, 2 * _LARGE_BLOCK)  # as much as glibc itself would make of it


def release_free_memory() -> None:
    """Give free memory of the process back to the system, where the C library can (glibc), which otherwise
    keeps holes between long-lived objects. It takes milliseconds and should run in a thread.
    """
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
