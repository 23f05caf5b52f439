"""Faults of our own go to a file of the home with all their detail; the person sees a line."""

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

from hermes.config.home import Home

Redact = Callable[[str], str]

LIMIT = 4 << 20
"""Bytes after which the file begins anew; the one before is kept."""


class FaultLog(logging.Handler):
    """Appends to `errors.log` in a folder that is made when there is something to write. Never raises.

    What is written is redacted as a whole: the message, the traceback, and the values that exceptions show.
    """

    def __init__(self, folder: Path, redact: Redact) -> None:
        super().__init__(logging.WARNING)
        self.redact = redact
        self._file = folder / "errors.log"

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a disk that takes none is no second fault."""
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._file.exists() and self._file.stat().st_size > LIMIT:
                self._file.replace(self._file.with_suffix(".old.log"))
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.redact(self.format(record)) + "\n")


def redaction(environ: Mapping[str, str], home: Home) -> Redact:
    """Redaction for what is seldom written: the secrets are gathered when there is something to write."""

    @cache
    def made() -> Redact:
        from hermes.sessions.secrets import build_lenient_redactor

        return build_lenient_redactor(environ, home).redact

    def redact(text: str) -> str:
        return made()(text)

    return redact


def log_to(folder: Path, redact: Redact) -> FaultLog:
    """Send what our own modules log to `folder` instead of standard error, and show crashes, without secrets."""
    logger = logging.getLogger("hermes")
    handler = FaultLog(folder, redact)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False

    def crashed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = crashed
    return handler
