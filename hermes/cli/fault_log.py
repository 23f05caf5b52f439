"""Log Hermes' own faults in detail to a file of the home; the person sees one line."""

import contextlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType

from hermes.config.home import HermesHome

Redact = Callable[[str], str]

MAX_LOG_BYTES = 4 << 20
"""Bytes after which the file is started again; the previous file is kept."""


class FaultLog(logging.Handler):
    """Appends to `errors.log` in a folder that is created when there is something to write. Never raises.

    The whole record is redacted: the message, the traceback, and the values that exceptions show.
    """

    def __init__(self, folder: Path, redact: Redact) -> None:
        super().__init__(logging.WARNING)
        self.redact = redact
        self._file = folder / "errors.log"

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record. A disk that takes none is ignored."""
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._file.exists() and self._file.stat().st_size > MAX_LOG_BYTES:
                self._file.replace(self._file.with_suffix(".old.log"))
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(self.redact(self.format(record)) + "\n")


def build_lazy_redactor(environ: Mapping[str, str], home: HermesHome) -> Redact:
    """Return a redactor that gathers the secrets only when there is something to write."""

    @cache
    def load_redactor() -> Redact:
        from hermes.sessions.secrets import build_lenient_redactor

        return build_lenient_redactor(environ, home).redact

    def redact(text: str) -> str:
        return load_redactor()(text)

    return redact


def install_fault_log(folder: Path, redact: Redact) -> FaultLog:
    """Send what our own modules log to `folder` instead of standard error, and print crashes without secrets."""
    logger = logging.getLogger("hermes")
    handler = FaultLog(folder, redact)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False

    def print_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = print_crash
    return handler
