"""What jobs said, as files: `cron/output/JOB/TIME.md`, the newest of each job."""

import contextlib
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from hermes.core.errors import StoreError
from hermes.i18n.messages import phrase
from hermes.util.atomic import write_atomic
from hermes.util.text import clean_surrogates

KEEP = 50
"""Files of a job."""
MOST = 1_000_000
"""Characters of one."""


class Outputs:
    """The folder of them all. Methods block for a moment; they are called in threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, job_id: str, at: float, text: str) -> str:
        """Keep what came of an instant; the file's name below the folder. Raises StoreError."""
        moment = datetime.fromtimestamp(at, UTC)
        name = f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z.md"
        folder = self._folder / job_id
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(folder / name, clean_surrogates(text)[:MOST].encode(), mode=0o600)
        except OSError as error:
            raise StoreError(
                phrase("{folder} cannot be written: {why}.", folder=folder, why=error.strerror or str(error)),
                phrase("Make room, or make the folder writable."),
            ) from None
        for old in sorted(entry for entry in os.listdir(folder) if entry.endswith(".md"))[:-KEEP]:
            with contextlib.suppress(OSError):
                (folder / old).unlink()
        return f"{job_id}/{name}"

    def read(self, name: str) -> str | None:
        """What a file holds; None when it is gone."""
        try:
            return (self._folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def path(self, name: str) -> Path:
        """Where a file is."""
        return self._folder / name

    def forget(self, job_id: str) -> None:
        """Remove a job's files."""
        shutil.rmtree(self._folder / job_id, ignore_errors=True)
