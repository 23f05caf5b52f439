"""Delay a gateway that fails to start again and again."""

import contextlib
import os
import time
from pathlib import Path

MAX_FAILED_STARTS = 5
WINDOW_SECONDS = 60.0
"""After so many failed starts within so many seconds, the next start is delayed."""


class FailedStarts:
    """The starts of a home's gateway that did not succeed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "gateway.starts"

    def record_start(self) -> float:
        """Record a start and return the seconds to wait before it, mostly 0."""
        now = time.time()
        failed = [one for one in self._read_times() if now - WINDOW_SECONDS < one < now + 1]
        self._write_times([*failed, now][-2 * MAX_FAILED_STARTS :])
        return max(failed[-MAX_FAILED_STARTS] + WINDOW_SECONDS - now, 0.0) if len(failed) >= MAX_FAILED_STARTS else 0.0

    def clear_starts(self) -> None:
        """Forget the earlier starts, because the gateway runs."""
        with contextlib.suppress(OSError):
            self._file.unlink()

    def _read_times(self) -> list[float]:
        try:
            text = self._file.read_text("ascii", "replace")
        except OSError:
            return []
        found = []
        for word in text.split():
            with contextlib.suppress(ValueError):
                found.append(float(word))
        return found

    def _write_times(self, times: list[float]) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(" ".join(f"{one:.3f}" for one in times))
