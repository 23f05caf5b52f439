"""Mark text that comes along with a person's message and was not written by them."""

import asyncio
import codecs
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hermes.core.errors import ToolError
from hermes.core.messages import Provenance, Source, TextPart
from hermes.media.recognition import HEAD_BYTES, recognize_file
from hermes.runtime.mailbox import fence_attached_text
from hermes.safety.fencing import fence_untrusted_text
from hermes.util.file_handles import find_real_path
from hermes.util.text import clean_surrogates
from hermes.web.pages import text_from_html

if TYPE_CHECKING:
    from hermes.sessions.session_builder import LiveSession

FILE_LIMIT, ALL_FILES_LIMIT = 20_000, 60_000
"""Characters that are shown of an attached file, and of all that come with one message."""
_LEAST_SHOWN = 200
_MAX_READ_BYTES = 4 * FILE_LIMIT + (16 << 10)
"""Bytes that are read of a file: more than is shown, so that a secret at the cut is recognized whole."""
_FILE_READERS = ("read_file", "terminal")
"""Tools with which a session opens files itself."""


def untrusted_part(text: str, label: str) -> TextPart:
    """Return text of others, fenced and marked with its source; `label` names the platform and the person."""
    provenance = Provenance(Source.OTHER, label)
    return TextPart(text=fence_untrusted_text(clean_surrogates(text), provenance), provenance=provenance)


def program_note(text: str) -> TextPart:
    """Return a fact that Hermes adds to a message, marked as its own."""
    return TextPart(text=text, provenance=Provenance(Source.PROGRAM))


class AttachedFiles:
    """The files that come with one message. Where the session's own tools cannot open them, the model is shown the text
    of those that have some: of documents, the first pages.
    """

    def __init__(self, live: "LiveSession", redact: Callable[[str], str]) -> None:
        self.openers = frozenset(name for name in _FILE_READERS if live.tools.toolbox.find_own(name) is not None)
        """The tools with which the session opens files itself."""
        self.problem = ""
        """Why the file that was read last has no text, as the end of a sentence; empty where nothing reads its kind."""
        self._context = live.tools.context
        self._redact = redact
        self._room = ALL_FILES_LIMIT

    async def find_reader(self, path: Path) -> str:
        """Return the tool of the session's that reads a document; empty for another file, or without such a tool."""
        if "read_file" not in self.openers:
            return ""
        kind = await asyncio.to_thread(_recognize, path)
        return "read_file" if kind not in ("", "page") else ""

    async def read_text(self, path: Path, forwarded: str = "") -> TextPart | None:
        """Return a file's text; None where it has none. What was forwarded is untrusted, from who is named; else it
        is as untrusted as what `read_file` would return of it.
        """
        self.problem = ""
        limit = min(FILE_LIMIT, max(self._room, _LEAST_SHOWN))
        text, place = await asyncio.to_thread(_read_plain_text, path), ""
        kind = await asyncio.to_thread(_recognize, path)
        if text is None or kind:
            document = await self._read_document(path, limit)
            if document is None and text is None:
                return None
            text, place = document if document is not None else (text or "", "")
        text = self._redact(text)
        shown = text[:limit]
        self._room -= len(shown)
        rest = f"\n[Only its first {limit:,} characters are here.]" if len(text) > limit else place
        real = find_real_path(str(path))
        folder = self._context.trust.find_untrusted_folder(real, self._context.places.workspace)
        provenance = Provenance(Source.FILE, folder or real, vouched=not folder)
        if forwarded:
            provenance = Provenance(Source.OTHER, forwarded)
        fenced = fence_untrusted_text(shown, provenance) if provenance.is_untrusted else fence_attached_text(shown)
        return TextPart(fenced + rest, provenance)

    async def _read_document(self, path: Path, limit: int) -> tuple[str, str] | None:
        """Return the beginning of a document's text, and a line that says what is left out; None where it has none."""
        from hermes.media.documents import DocumentWindow, read_document

        file = await asyncio.to_thread(_open_regular, path)
        if file is None:
            return None
        with file:
            kind = recognize_file(os.pread(file.fileno(), HEAD_BYTES, 0), path.name)
            if kind in ("", "picture"):
                return None
            try:
                found = await read_document(file.fileno(), DocumentWindow(characters=limit), kind)
            except ToolError as error:
                self.problem = error.message
                return None
        is_whole = not found.next_unit and not found.next_offset
        place = found.describe_place().partition("; go on with")[0]
        return found.text, "" if is_whole else f"\n[{found.kind}; {place}; the rest is not here.]"


def _open_regular(path: Path) -> BinaryIO | None:
    """Open a file; None for what is none, and for a link, which may lead anywhere."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    file = os.fdopen(handle, "rb")
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return file
    file.close()
    return None


def _recognize(path: Path) -> str:
    """Return what a file is where it is no plain text; see `recognize_file`."""
    file = _open_regular(path)
    if file is None:
        return ""
    with file:
        return recognize_file(file.read(HEAD_BYTES), path.name)


def _read_plain_text(path: Path) -> str | None:
    """Return the beginning of a file in UTF-8; None for what is no text."""
    file = _open_regular(path)
    if file is None:
        return None
    with file:
        data = file.read(_MAX_READ_BYTES)
    if b"\0" in data or data.startswith(b"%PDF-"):
        return None
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < _MAX_READ_BYTES)
    except UnicodeDecodeError:
        return None


async def html_to_markdown(html: str) -> str:
    """Convert HTML to markdown in a process of its own; to bare text where that is not possible."""
    return (await text_from_html(html, "")).text.strip()
