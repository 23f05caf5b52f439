"""MEMORY.md and USER.md: short entries, `§` on a line of its own between them, and a limit for the whole file.

A file is read as its person may have edited it: blanks around entries and line ends do not count. What is no such file
(a link, no text, too large to be one) is never written over.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from hermes.core.errors import StoreError, UsageError
from hermes.safety.fencing import inert, visible
from hermes.util.atomic import write_atomic
from hermes.util.text import clean_surrogates, one_line

DELIMITER = "\n§\n"
MEMORY_LIMIT = 2_200
USER_LIMIT = 1_375
_LARGEST = 1 << 20
_BETWEEN = re.compile(r"(?:\A|(?<=\n))[ \t]*§[ \t]*(?:\n|\Z)")
_SHOWN = 60


class Target(StrEnum):
    """Which of the two files."""

    MEMORY = "memory"
    """What the agent notes for itself."""
    USER = "user"
    """Who the person is."""

    @property
    def file(self) -> str:
        """The file's name in the folder of memories."""
        return f"{self.name}.md"

    @property
    def header(self) -> str:
        """What it is called in the prompt."""
        return _HEADERS[self]


_HEADERS = {Target.MEMORY: "MEMORY (your personal notes)", Target.USER: "USER PROFILE (who the user is)"}


class Change(Struct, frozen=True):
    """One entry that is to stand in another's place. None before: it is new; None after: it goes."""

    target: Target
    before: str | None
    after: str | None

    def done(self, entries: Sequence[str]) -> bool:
        """Whether these entries are as if it had been made."""
        return (self.after is None or self.after in entries) and (
            self.before is None or self.before == self.after or self.before not in entries
        )


class Notebook(Struct, frozen=True):
    """One of the files. `limit` is in characters, what stands between the entries counted."""

    target: Target
    folder: Path
    limit: int

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.target.file

    def read(self) -> tuple[str, ...]:
        """The entries as they stand; none where there is no file. Raises UsageError for what cannot be a memory."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            why = "is a link, which is not followed" if error.errno == errno.ELOOP else f"cannot be read: {_why(error)}"
            raise self._unusable(why) from None
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, handle)
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise self._unusable("is not a regular file")
            if status.st_size > _LARGEST:
                raise self._unusable(f"has {status.st_size:,} bytes, too many for a memory")
            try:
                raw = os.read(handle, _LARGEST)
            except OSError as error:
                raise self._unusable(f"cannot be read: {_why(error)}") from None
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise self._unusable("is not a text file")
        return parted(text)

    def write(self, entries: Sequence[str]) -> None:
        """Put these entries into the file, the others' lock held. Raises StoreError when that cannot be."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = None if self.path.exists() else 0o600
            write_atomic(self.path, DELIMITER.join(entries).encode(), mode=mode, check=self._inside)
        except OSError as error:
            said = f"{self.path} cannot be written: {_why(error)}; nothing was changed."
            raise StoreError(said, f"Make {self.folder} writable.") from None

    def usage(self, entries: Sequence[str]) -> str:
        """How full it is with these entries: `1,950/2,200`."""
        return f"{size(entries):,}/{self.limit:,}"

    def check_room(self, entries: Sequence[str], before: Sequence[str]) -> None:
        """Raise UsageError when the entries are over the limit and not fewer characters than before."""
        if size(entries) <= self.limit or size(entries) < size(before):
            return
        over = size(entries) - self.limit
        raise UsageError(
            f"{self.target.file} would hold {self.usage(entries)} characters, {over:,} too many; it holds"
            f" {self.usage(before)} now.",
            f"Shorten, merge or remove entries first, in the same call if you like. Entries: {listed(before)}",
        )

    def _inside(self, real: str) -> None:
        if os.path.dirname(real) != os.path.realpath(self.folder) or os.path.basename(real) != self.target.file:
            raise OSError(errno.ELOOP, "a link leads out of its folder")

    def _unusable(self, why: str) -> UsageError:
        return UsageError(f"{self.path} {why}.", "Look at it, and mend or move it; it was left as it is.")


def parted(text: str) -> tuple[str, ...]:
    """The entries in a file's text, each once."""
    lines = clean_surrogates(text).replace("\r\n", "\n").replace("\r", "\n")
    return tuple(dict.fromkeys(filter(None, (piece.strip() for piece in _BETWEEN.split(lines)))))


def size(entries: Sequence[str]) -> int:
    """Characters of a file with these entries."""
    return len(DELIMITER.join(entries))


def clean(text: str) -> str:
    """An entry as it is kept: nothing in it that cannot be seen. Raises UsageError for one that cannot stand."""
    entry = visible(inert(clean_surrogates(text))).text.strip()
    if not entry:
        raise UsageError("An entry needs words.")
    if _BETWEEN.search(entry):
        raise UsageError("A line of nothing but § parts entries; it cannot stand in one.")
    return entry


def changed(entries: Sequence[str], change: Change) -> tuple[str, ...]:
    """The entries with a change made. Raises UsageError when what it begins with no longer stands there, or its end
    already does."""
    if change.before is not None and change.before not in entries:
        raise UsageError(f"{quoted(change.before)} does not stand in {change.target.file} any more.")
    if change.after is not None and change.after != change.before and change.after in entries:
        raise UsageError(f"{quoted(change.after)} stands in {change.target.file} already.")
    if change.before is None:
        return (*entries, change.after or "")
    at = entries.index(change.before)
    return (*entries[:at], *(() if change.after is None else (change.after,)), *entries[at + 1 :])


def meant(entries: Sequence[str], old_text: str, name: str) -> str:
    """The one entry that `old_text` is a part of, or is. Raises UsageError when there is none, or several."""
    wanted = old_text.strip()
    if not wanted:
        raise UsageError("old_text is needed: words of the one entry that is meant.")
    found = [entry for entry in entries if entry == wanted] or [entry for entry in entries if wanted in entry]
    if len(dict.fromkeys(found)) == 1:
        return found[0]
    if found:
        raise UsageError(f"{quoted(wanted)} stands in {len(found)} entries of {name}: {listed(found)} Give more of it.")
    raise UsageError(f"{quoted(wanted)} stands in no entry of {name}.", f"Entries: {listed(entries)}")


def quoted(text: str) -> str:
    """An entry's beginning, for messages."""
    return f"“{one_line(text, _SHOWN)}”"


def listed(entries: Sequence[str]) -> str:
    """All of them, on lines of their own."""
    return "".join(f"\n- {one_line(entry, 2_000)}" for entry in entries) or "none."


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
