"""A terminal output that shows each update at once: nothing flickers, and nothing is seen half drawn."""

import sys

from prompt_toolkit.data_structures import Size
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised output: a terminal that knows it draws what stands between at once; others ignore both."""


class SynchronizedOutput(Vt100_Output):
    """Holds back what is written while `held`, so that it leaves together with the drawing that follows."""

    def __init__(self, term: str, depth: ColorDepth | None, *, synchronised: bool) -> None:
        import os

        def read_size() -> Size:
            rows, columns = 0, 0
            for stream in (sys.__stdout__, sys.__stdin__):
                try:
                    columns, rows = os.get_terminal_size(stream.fileno() if stream is not None else 1)
                    break
                except (OSError, ValueError):
                    continue
            return Size(rows=max(rows or 24, 2), columns=max(columns or 80, 2))

        super().__init__(sys.stdout, read_size, term=term, default_color_depth=depth, enable_cpr=False)
        self._marks = (_BEGIN, _END) if synchronised else ("", "")
        self.held = False

    def hold_output(self) -> None:
        """Hold back what is written from now on until `release_output`."""
        if not self.held:
            self.write_raw(self._marks[0])
        self.held = True

    def release_output(self) -> None:
        """Let out what was held back with the next drawing."""
        self.held = False

    def finish_frame(self) -> None:
        """Tell the terminal that the drawing is done and may be shown."""
        if self._marks[1]:
            self.write_raw(self._marks[1])
            self.flush()

    def flush(self) -> None:
        """Write what is there, unless it is held back."""
        if not self.held:
            super().flush()
