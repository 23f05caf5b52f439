"""Records which functions of ours a run enters. It imports nothing of ours, so it adds no module to what it records."""

import inspect
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_PACKAGE = f"{Path(__file__).resolve().parent.parent / 'hermes'}{os.sep}"
OUTPUT_VARIABLE = "HERMES_BENCH_PATHS"
"""The file into which a recorded process writes."""


Function = tuple[str, str]
"""A file of the package, and the qualified name of a function in it."""


class CallRecorder:
    """Counts the calls of our functions in all threads, while it is on.

    Of the `watched` function the callers are counted too; functions of the files and names in `passed` only hand a call
    on, so their own caller counts.
    """

    def __init__(self, watched: Function | None = None, passed: frozenset[str] = frozenset()) -> None:
        self.calls: Counter[Function] = Counter()
        self.callers: Counter[Function] = Counter()
        self.is_on = False
        self._watched = watched
        self._passed = passed

    def install(self) -> None:
        """Hook this thread and all that begin later. Threads that run already are not seen."""
        threading.setprofile(self._count_call)
        sys.setprofile(self._count_call)

    def uninstall(self) -> None:
        """Unhook this thread and those that begin later."""
        threading.setprofile(None)
        sys.setprofile(None)

    def list_files(self) -> list[str]:
        """Return the files of the package that were entered, without those that tests alone use."""
        return sorted({file for file, _ in self.calls if not file.startswith("testing/")})

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Count what happens inside."""
        self.is_on = True
        try:
            yield
        finally:
            self.is_on = False

    def _count_call(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_ours = self.is_on and event == "call" and code.co_filename.startswith(_PACKAGE)
        if is_ours and code.co_flags & inspect.CO_OPTIMIZED:  # the bodies of modules and classes are not
            function = code.co_filename.removeprefix(_PACKAGE), code.co_qualname
            self.calls[function] += 1
            if function == self._watched:
                self.callers[self._find_caller(frame.f_back)] += 1

    def _find_caller(self, frame: FrameType | None) -> Function:
        """Return the function of ours that asked for a call, past those that only hand it on."""
        while frame is not None:
            code = frame.f_code
            file, name = code.co_filename.removeprefix(_PACKAGE), code.co_qualname
            name = name.partition(".<locals>")[0]
            if file != code.co_filename and file not in self._passed and name not in self._passed:
                return file, name
            frame = frame.f_back
        return "", ""


def run_recorded_prompt() -> int:
    """Run `hermes` with this process's arguments, and write what it entered and imported as JSON."""
    recorder = CallRecorder()
    recorder.install()
    from hermes.cli.main import main

    with recorder.recording():
        code = main(sys.argv[1:])
    recorder.uninstall()
    modules = sorted(name for name in sys.modules if name.split(".")[0] == "hermes")
    Path(os.environ[OUTPUT_VARIABLE]).write_text(json.dumps({"files": recorder.list_files(), "modules": modules}))
    return code
