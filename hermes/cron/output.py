"""Output of jobs, as files `cron/output/JOB/TIME.md`; the newest of each job are kept."""

import contextlib
import os
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.i18n.messages import N_
from hermes.util.atomic_write import write_atomic
from hermes.util.text import clean_surrogates

MAX_FILES = 50
"""The number of files that are kept of a job."""
MAX_CHARACTERS = 1_000_000
"""The number of characters that a file may have."""

_NAME = re.compile(r"[\w-]+/[\w.]+\.md", re.ASCII)


class JobOutputs:
    """The folder of all output files. Methods block for a moment; they are called in threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write_output(self, job_id: str, at: float, text: str) -> str:
        """Write the output of an instant; return the file's name below the folder. Raises StoreError."""
        moment = datetime.fromtimestamp(at, UTC)
        name = f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z.md"
        folder = self._folder / job_id
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(folder / name, clean_surrogates(text)[:MAX_CHARACTERS].encode(), mode=0o600)
        except OSError as error:
            raise StoreError(
                N_("{folder} cannot be written: {why}.", folder=folder, why=error.strerror or str(error)),
                N_("Make room, or make the folder writable."),
            ) from None
        for old in sorted(entry for entry in os.listdir(folder) if entry.endswith(".md"))[:-MAX_FILES]:
            with contextlib.suppress(OSError):
                (folder / old).unlink()
        return f"{job_id}/{name}"

    def read_output(self, name: str) -> str | None:
        """Return the content of a file, or None when it is gone, or the name is none that `write_output` gives."""
        if not _NAME.fullmatch(name):
            return None
        try:
            return (self._folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def remove_outputs(self, job_id: str) -> None:
        """Remove a job's files."""
        shutil.rmtree(self._folder / job_id, ignore_errors=True)
