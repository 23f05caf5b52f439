"""How a process of the command line ends: at once, and with nothing left undone."""

import subprocess
import sys
import textwrap

from hermes.testing.home import TempHome


def _run(program: str) -> subprocess.CompletedProcess[str]:
    with TempHome() as home:
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            env=home.environ,
            cwd=home.cwd,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


def test_functions_registered_for_the_end_are_called_and_streams_flushed() -> None:
    done = _run("""
        import atexit, sys
        atexit.register(print, "the end")
        sys.argv = ["hermes", "--version"]
        from hermes.__main__ import main
        main()
        print("not reached")
    """)
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["hermes", "the"]


def test_a_thread_that_still_runs_is_waited_for() -> None:
    done = _run("""
        import sys, threading, time
        started, ending = threading.Event(), threading.Event()
        def work():
            started.set()
            ending.wait()
            print("worked")
        threading.Thread(target=work).start()
        started.wait()
        sys.argv = ["hermes", "--version"]
        from hermes.__main__ import main
        code = main()
        ending.set()
        sys.exit(code + 7)
    """)
    assert done.returncode == 7
    assert done.stdout.endswith("worked\n")


def test_exit_codes_are_kept() -> None:
    assert (
        _run("import sys; sys.argv = ['hermes', 'versoin']; from hermes.__main__ import main; main()").returncode == 2
    )
