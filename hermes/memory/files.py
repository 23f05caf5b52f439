"""MEMORY.md and USER.md: short entries, `§` on a line of its own between them, a limit for the whole file, and their
sections of the prompt, which are read when an epoch begins and stay the same to its end.

A file is read as its user may have edited it: blanks around entries and line ends do not count. What is no such file (a
link, no text, too large to be one) is never written over.
"""

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from hermes.context.prompt import PromptTier
from hermes.core.errors import HermesError, StoreError, UsageError
from hermes.i18n.messages import N_
from hermes.safety.fencing import reveal_hidden_text, show_control_characters
from hermes.util.atomic_write import write_atomic
from hermes.util.text import clean_surrogates, to_one_line

DELIMITER = "\n§\n"
_MAX_FILE_BYTES = 1 << 20
_DELIMITER_LINE = re.compile(r"(?:\A|(?<=\n))[ \t]*§[ \t]*(?:\n|\Z)")
_QUOTE_LENGTH = 60


class MemoryTarget(StrEnum):
    """Which of the two files."""

    MEMORY = "memory"
    """What the agent notes for itself."""
    USER = "user"
    """Who the person is."""

    @property
    def file(self) -> str:
        """Return the file's name in the folder of memories."""
        return f"{self.name}.md"

    @property
    def header(self) -> str:
        """Return the file's heading in the prompt."""
        return _HEADERS[self]


_HEADERS = {MemoryTarget.MEMORY: "MEMORY (your personal notes)", MemoryTarget.USER: "USER PROFILE (who the user is)"}


class EntryChange(Struct, frozen=True):
    """A change of one entry. No `before`: it is new; no `after`: it is removed."""

    target: MemoryTarget
    before: str | None
    after: str | None

    def is_applied_to(self, entries: Sequence[str]) -> bool:
        """Return whether these entries are as if the change had been made."""
        return (self.after is None or self.after in entries) and (
            self.before is None or self.before == self.after or self.before not in entries
        )


class MemoryNotebook(Struct, frozen=True):
    """One of the memory files. `limit` is in characters, delimiters between the entries counted."""

    target: MemoryTarget
    folder: Path
    limit: int

    @property
    def path(self) -> Path:
        """Return the file's path."""
        return self.folder / self.target.file

    def read_entries(self) -> tuple[str, ...]:
        """Return the entries; none where there is no file. Raises UsageError for what cannot be a memory."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return ()
        except OSError as error:
            why = (
                "is a link, which is not followed"
                if error.errno == errno.ELOOP
                else f"cannot be read: {_describe_os_error(error)}"
            )
            raise self._unusable_error(why) from None
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, handle)
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise self._unusable_error("is not a regular file")
            if status.st_size > _MAX_FILE_BYTES:
                raise self._unusable_error(f"has {status.st_size:,} bytes, too many for a memory")
            try:
                raw = os.read(handle, _MAX_FILE_BYTES)
            except OSError as error:
                raise self._unusable_error(f"cannot be read: {_describe_os_error(error)}") from None
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise self._unusable_error("is not a text file")
        return split_entries(text)

    def write_entries(self, entries: Sequence[str]) -> None:
        """Write these entries into the file, with the lock held. Raises StoreError when that fails."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = None if self.path.exists() else 0o600
            write_atomic(self.path, DELIMITER.join(entries).encode(), mode=mode, check=self._check_inside)
        except OSError as error:
            said = N_(
                "{path} cannot be written: {describe_os_error}; nothing was changed.",
                path=self.path,
                describe_os_error=_describe_os_error(error),
            )
            raise StoreError(said, N_("Make {folder} writable.", folder=self.folder)) from None

    def format_usage(self, entries: Sequence[str]) -> str:
        """Format how full the file is with these entries: `1,950/2,200`."""
        return f"{count_characters(entries):,}/{self.limit:,}"

    def check_room(self, entries: Sequence[str], before: Sequence[str]) -> None:
        """Raise UsageError when the entries are over the limit and not fewer characters than before."""
        if count_characters(entries) <= self.limit or count_characters(entries) < count_characters(before):
            return
        over = count_characters(entries) - self.limit
        raise UsageError(
            N_(
                "{file} would hold {format_usage} characters, {over} too many; it holds {format_usage_2} now.",
                file=self.target.file,
                format_usage=self.format_usage(entries),
                over=format(over, ","),
                format_usage_2=self.format_usage(before),
            ),
            N_(
                "Shorten, merge or remove entries first, in the same call if you like. Entries: {format_entries}",
                format_entries=format_entries(before),
            ),
        )

    def _check_inside(self, real: str) -> None:
        if os.path.dirname(real) != os.path.realpath(self.folder) or os.path.basename(real) != self.target.file:
            raise OSError(errno.ELOOP, "a link leads out of its folder")

    def _unusable_error(self, why: str) -> UsageError:
        return UsageError(
            N_("{path} {why}.", path=self.path, why=why),
            "Check it, then fix it or move it away; it was left unchanged.",
        )


def split_entries(text: str) -> tuple[str, ...]:
    """Return the entries in a file's text, each once."""
    lines = clean_surrogates(text).replace("\r\n", "\n").replace("\r", "\n")
    return tuple(dict.fromkeys(filter(None, (piece.strip() for piece in _DELIMITER_LINE.split(lines)))))


def count_characters(entries: Sequence[str]) -> int:
    """Return the characters of a file with these entries."""
    return len(DELIMITER.join(entries))


def clean_entry(text: str) -> str:
    """Return an entry as it is stored: nothing in it that cannot be seen. Raises UsageError for one that cannot be."""
    entry = reveal_hidden_text(show_control_characters(clean_surrogates(text))).text.strip()
    if not entry:
        raise UsageError("An entry needs words.")
    if _DELIMITER_LINE.search(entry):
        raise UsageError("A line of nothing but § separates entries; an entry cannot hold one.")
    return entry


def apply_change(entries: Sequence[str], change: EntryChange) -> tuple[str, ...]:
    """Return the entries with a change made.

    Raises UsageError when the entry it begins with is gone, or the one it ends with already exists.
    """
    if change.before is not None and change.before not in entries:
        raise UsageError(
            N_(
                "{quote_entry} is no longer in {file}.",
                quote_entry=quote_entry(change.before),
                file=change.target.file,
            )
        )
    if change.after is not None and change.after != change.before and change.after in entries:
        raise UsageError(
            N_(
                "{quote_entry} stands in {file} already.",
                quote_entry=quote_entry(change.after),
                file=change.target.file,
            )
        )
    if change.before is None:
        return (*entries, change.after or "")
    at = entries.index(change.before)
    return (*entries[:at], *(() if change.after is None else (change.after,)), *entries[at + 1 :])


def find_entry(entries: Sequence[str], old_text: str, name: str) -> str:
    """Return the one entry that `old_text` is a part of, or is. Raises UsageError when there is none, or several."""
    wanted = old_text.strip()
    if not wanted:
        raise UsageError("old_text is needed: words of the one entry that is meant.")
    found = [entry for entry in entries if entry == wanted] or [entry for entry in entries if wanted in entry]
    if len(dict.fromkeys(found)) == 1:
        return found[0]
    if found:
        raise UsageError(
            N_(
                "{quote_entry} is in {found} entries of {name}: {format_entries} Give more of it.",
                quote_entry=quote_entry(wanted),
                found=len(found),
                name=name,
                format_entries=format_entries(found),
            )
        )
    raise UsageError(
        N_("{quote_entry} is in no entry of {name}.", quote_entry=quote_entry(wanted), name=name),
        N_("Entries: {format_entries}", format_entries=format_entries(entries)),
    )


def quote_entry(text: str) -> str:
    """Return an entry's beginning, for messages."""
    return f"“{to_one_line(text, _QUOTE_LENGTH)}”"


def format_entries(entries: Sequence[str]) -> str:
    """Format all entries, each on a line of its own."""
    return "".join(f"\n- {to_one_line(entry, 2_000)}" for entry in entries) or "none."


def _describe_os_error(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


GUIDANCE = (
    "Save with the memory tool what later sessions need, a line each: who the person is and what they want, their"
    " corrections, hard-won facts of their machine and projects. Not task progress, guesses, or what is easily found."
)


class MemoryGuidanceSection:
    """The prompt section that says when to save something, and when not."""

    name = "memory guidance"
    tier = PromptTier.STABLE

    def render_text(self) -> str:
        """Return the guidance."""
        return GUIDANCE

    def list_remarks(self) -> Sequence[str]:
        """Return nothing: there is never a remark."""
        return ()


class MemoryFileSection:
    """The prompt section with one of the memory files as it is when an epoch begins."""

    tier = PromptTier.VOLATILE

    def __init__(self, book: MemoryNotebook) -> None:
        self.name = book.target.file
        self._book = book
        self._remarks: tuple[str, ...] = ()

    def render_text(self) -> str:
        """Return the file's header and entries; empty when there are none, or with a remark when it cannot
        be a memory.
        """
        self._remarks = ()
        try:
            entries = self._book.read_entries()
        except HermesError as error:
            self._remarks = (f"{error} Nothing of it is in the prompt.",)
            return ""
        if not entries:
            return ""
        shown = DELIMITER.join(reveal_hidden_text(show_control_characters(entry)).text for entry in entries)
        limit = self._book.limit
        if count_characters(entries) > limit:
            shown = f"{shown[:limit]}\n[... the rest is over the limit]"
            held = f"{self._book.path} holds {self._book.format_usage(entries)} characters"
            self._remarks = (f"{held}: the model sees the first {limit:,}. Shorten it.",)
        return f"{self._book.target.header} [{self._book.format_usage(entries)} characters]\n{shown}"

    def list_remarks(self) -> Sequence[str]:
        """Return what is wrong with the file."""
        return self._remarks


class MemoryProviderSection:
    """The prompt section of the session's memory provider, as it was when the session was opened."""

    name = "memory provider"
    tier = PromptTier.VOLATILE

    def __init__(self, block: Callable[[], str], lines: Callable[[], Sequence[str]]) -> None:
        self._block = block
        self._lines = lines

    def render_text(self) -> str:
        """Return the provider's block."""
        return self._block()

    def list_remarks(self) -> Sequence[str]:
        """Return what went wrong while the provider was initialized."""
        return self._lines()
