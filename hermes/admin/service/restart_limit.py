"""Keeps a gateway that cannot start from being started again and again without a pause."""

import contextlib
import os
import time
from pathlib import Path

MOST = 5
WINDOW = 60.0
"""So many starts that came to nothing, within so many seconds, are waited for."""


class Starts:
    """The starts of a home's gateway that did not get so far that it ran."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "gateway.starts"

    def begin(self) -> float:
        """Note a start; the seconds to wait before it, 0 most of the time."""
        now = time.time()
        failed = [one for one in self._read() if now - WINDOW < one < now + 1]
        self._write([*failed, now][-2 * MOST :])
        return max(failed[-MOST] + WINDOW - now, 0.0) if len(failed) >= MOST else 0.0

    def succeeded(self) -> None:
        """The gateway runs: what was before counts no more."""
        with contextlib.suppress(OSError):
            self._file.unlink()

    def _read(self) -> list[float]:
        try:
            text = self._file.read_text("ascii", "replace")
        except OSError:
            return []
        found = []
        for word in text.split():
            with contextlib.suppress(ValueError):
                found.append(float(word))
        return found

    def _write(self, times: list[float]) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(" ".join(f"{one:.3f}" for one in times))
