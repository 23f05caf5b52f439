"""Mark text that comes along with a person's message and was not written by them."""

import asyncio
import codecs
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.core.messages import Provenance, Source, TextPart
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
    """The files that come with one message, for a session whose own tools cannot open them: the model is shown the text
    of those that are text.
    """

    def __init__(self, live: "LiveSession", redact: Callable[[str], str]) -> None:
        self._context = live.tools.context
        self._redact = redact
        self._room = ALL_FILES_LIMIT

    async def read_text(self, path: Path, forwarded: str = "") -> TextPart | None:
        """Return a file's text; None where it is no text. What was forwarded is untrusted, from who is named; else it
        is as untrusted as what `read_file` would return of it.
        """
        text = await asyncio.to_thread(_read_plain_text, path)
        if text is None:
            return None
        text = self._redact(text)
        limit = min(FILE_LIMIT, max(self._room, _LEAST_SHOWN))
        shown = text[:limit]
        self._room -= len(shown)
        rest = f"\n[Only its first {limit:,} characters are here.]" if len(text) > limit else ""
        real = find_real_path(str(path))
        folder = self._context.trust.find_untrusted_folder(real, self._context.places.workspace)
        provenance = Provenance(Source.FILE, folder or real, vouched=not folder)
        if forwarded:
            provenance = Provenance(Source.OTHER, forwarded)
        fenced = fence_untrusted_text(shown, provenance) if provenance.is_untrusted else fence_attached_text(shown)
        return TextPart(fenced + rest, provenance)


def open_attached_files(live: "LiveSession", redact: Callable[[str], str]) -> AttachedFiles | None:
    """Return what shows attached files to a session; None where its own tools can open them."""
    if any(live.tools.toolbox.find_own(name) is not None for name in _FILE_READERS):
        return None
    return AttachedFiles(live, redact)


def _read_plain_text(path: Path) -> str | None:
    """Return the beginning of a file in UTF-8; None for what is no text, and for a link, which may lead anywhere."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
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
