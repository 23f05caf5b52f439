"""Runs the command line in this process: `run_command_line`.

What only reads its arguments and prints needs no interpreter of its own, whose start costs more than all the rest.
"""

import contextlib
import contextvars
import io
import os
import sys

from hermes.cli.main import main
from hermes.testing.home import ProgramResult, TempHome


def run_command_line(home: TempHome, *words: str, **more: str) -> ProgramResult:
    """Run `hermes` with these words in a home, and return what it printed. No event loop may run meanwhile.

    `more` are variables beside those of the home.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, folder, terminal = dict(os.environ), os.getcwd(), sys.stdin
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            sys.stdin = io.TextIOWrapper(io.BytesIO(), "utf-8")
            os.environ.clear()
            os.environ.update(home.environ | more)
            os.chdir(home.cwd)
            code = contextvars.copy_context().run(main, list(words))  # the language is set in the context
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        finally:
            sys.stdin = terminal
            os.environ.clear()
            os.environ.update(before)
            os.chdir(folder)
    return ProgramResult(code, *(one.buffer.getvalue().decode(errors="replace") for one in (out, err)))
