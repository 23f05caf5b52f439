"""`python -m hermes`, and the `hermes` command."""

import gc
import sys

_YOUNG_THRESHOLD = 100_000


def main() -> int:
    """Run the command line, and end the process with its exit code."""
    # What imports make stays: by default it is looked through eighty times before the first request, in a tenth of its
    # cost. What a turn leaves behind for the collector is far less than this many objects.
    gc.set_threshold(_YOUNG_THRESHOLD)
    try:
        from hermes.cli.main import main as run

        code = run()
    except KeyboardInterrupt:  # while the first modules are imported
        code = 130
    _exit_at_once(code)
    return code


def _exit_at_once(code: int) -> None:
    """End the process without taking modules and objects apart first, which is a fifth of the cost of a short run.

    What a program may rely on at its end is still done: functions registered with `atexit` are called, and the standard
    streams are flushed. Returns, so that Python ends the process in its usual way, where another thread must be waited
    for, or a debugger, a profiler or a measurement of coverage writes its result at the end.
    """
    import atexit
    import os
    import signal
    import threading

    watched = sys.gettrace() is not None or sys.getprofile() is not None
    if watched or any(not one.daemon for one in threading.enumerate() if one is not threading.current_thread()):
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends what is left to do, without a traceback
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to call them before the end
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
