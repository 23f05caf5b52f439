"""Files that an answer names: extracted from its text, checked, and opened so that the checked file is the one sent.

A model names a file with `MEDIA:/path` (quoted where the name has spaces), or with a picture's path on a line of its
own. A file may be sent when it lies in given folders, is of a common kind, and is refused by no rule.
"""

import errno
import os
import re
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from hermes.core.chats import MediaKind
from hermes.core.errors import HermesError
from hermes.gateway.platform import SendError, SendFault
from hermes.i18n.messages import N_, localize, tr
from hermes.markup.source_spans import split_code
from hermes.util.file_handles import hold_unlinked
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.speech.ogg_opus import VoiceFacts

_KINDS = {
    MediaKind.IMAGE: "png jpg jpeg gif webp bmp",
    MediaKind.VOICE: "ogg oga opus",
    MediaKind.AUDIO: "mp3 m4a aac flac wav",
    MediaKind.VIDEO: "mp4 mov webm mkv m4v",
    MediaKind.DOCUMENT: "pdf txt md csv tsv json yaml yml xml html svg ics log diff patch tex epub ods odt odp docx"
    " xlsx pptx doc xls ppt rtf zip tar gz tgz bz2 xz 7z tif tiff heic avif py js ts sh sql ipynb toml ini parquet db3",
}
KINDS = {end: kind for kind, ends in _KINDS.items() for end in ends.split()}
"""The kind of a file by its extension; files with other extensions are not sent."""
_MEDIA_ENDS = "|".join(end for end, kind in KINDS.items() if kind is not MediaKind.DOCUMENT) + "|pdf"

_TAG = re.compile(
    r"""(?<![\w/])MEDIA:[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|<([^>\n]+)>|((?:[/~.]|[\w-]+/?)[^\s"'<>]*))""",
)
_TAG_IN_CODE = re.compile(r"`+[ \t]*MEDIA:[ \t]*([^`\n]+?)[ \t]*`+$")
_BEGUN_TAG = re.compile(r"(?<![\w/])`*(?:M|ME|MED|MEDI|MEDIA|MEDIA:[^\n]*)$")
_PICTURE = re.compile(r"!\[([^\]\n]*)\]\((?:file://)?(/[^()\s]+|~/[^()\s]+)\)")
_BARE = re.compile(
    rf"^[ \t]*(?:[-*][ \t]+)?((?:/|~/)[^\n`*|]+\.(?:{_MEDIA_ENDS}))[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_END = re.compile(r"[.,;:!?)\]}*_]+$")
_GONE = "\0"
"""Stands in a text where the name of a file was taken out, until the gap is closed."""
_GONE_IN_MARKS = re.compile(
    r"\([ \t]*\0[ \t]*\)|\[[ \t]*\0[ \t]*\]|(\*{1,3}|_{1,3}|~~|[\"'])[ \t]*\0[ \t]*\1|\0(?:[ \t]*\0)+"
)
_GONE_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]*\0[ \t]*(?:\n|\Z)", re.MULTILINE)
_GAP = re.compile(r"([ \t]*)\0([ \t]*)([.,;:!?。，；：！？、]?)([ \t]*)")
_NESTED_MARKS = 4
_EMPTY_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
MAX_FILES = 20
"""Files of one answer at most."""


class MediaRules(Struct, frozen=True, kw_only=True):
    """The rules for files that may be sent."""

    roots: tuple[str, ...]
    """Absolute folders; files lie in one of them. A relative path lies in the first."""
    refusal_reason: Callable[[str], str]
    """Return why a file (an absolute, resolved path) may not leave the machine, in English; empty when it may."""
    home: str = ""
    """The folder that `~` stands for."""
    limit: int = 50_000_000
    """Bytes of the largest file."""


class SendableFile(Struct, frozen=True):
    """A file that may be sent."""

    path: str
    """Absolute and resolved."""
    kind: MediaKind


class ExtractedMedia(Struct, frozen=True):
    """An answer without the names of its files."""

    text: str
    files: tuple[SendableFile, ...] = ()
    refused: tuple[str, ...] = ()
    """Lines for the person about files that are not sent; they stand in `text` already."""


class MediaRefusedError(HermesError):
    """A file is not sent; the message says why."""


def extract_media(markdown: str, rules: MediaRules) -> ExtractedMedia:
    """Return the answer without its `MEDIA:` tags, local pictures and lines that are a picture's path; code stays.

    A tag's file that may not be sent is named at the end of the text; a mere path that may not be sent stays.
    """
    if "MEDIA:" not in markdown and "/" not in markdown:
        return ExtractedMedia(markdown)
    search = _MediaSearch(rules)
    found = []
    for text, prose in split_code(markdown.replace(_GONE, "")):
        if prose:
            found.append(search.extract_from_prose(text))
        elif match := _TAG_IN_CODE.match(text):
            found.append(search.extract_named(match[1]))
        else:
            found.append(text)
    if not search.files and not search.refused:
        return ExtractedMedia(markdown)
    text = _EMPTY_LINES.sub("\n\n", _close_gaps("".join(found))).strip()
    lines = tuple(dict.fromkeys(search.refused))
    if lines:
        text = "\n\n".join(one for one in (text, "\n".join(lines)) if one)
    return ExtractedMedia(text, tuple(dict.fromkeys(search.files)), lines)


def hide_tags(markdown: str) -> str:
    """Return a text that is still being written without its tags, and without one that has begun at its end."""
    text = _TAG.sub("", markdown) if "MEDIA:" in markdown else markdown
    head, line_break, last = text.rpartition("\n")
    begun = _BEGUN_TAG.search(last)
    return f"{head}{line_break}{last[: begun.start()]}" if begun else text


def _close_gaps(text: str) -> str:
    """Return the text without a trace of what was taken out: no double blanks, empty brackets, marks or items."""
    for _ in range(_NESTED_MARKS):
        text, count = _GONE_IN_MARKS.subn(_GONE, text)
        if not count:
            break
    return _GAP.sub(_join_around, _GONE_ITEM.sub("", text))


def _join_around(match: re.Match[str]) -> str:
    """Return what joins the words before and behind a gap."""
    text, (before_gap, after_gap, sign, after_sign) = match.string, match.groups()
    before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
    if before in ("", "\n"):
        return ""
    if sign:
        return after_sign if before in ":：" else sign + after_sign
    at_edge = before in "([" or after in ("", "\n", ")", "]")
    return " " if (before_gap or after_gap) and not at_edge else ""


class _MediaSearch:
    """Finds the files of one answer."""

    def __init__(self, rules: MediaRules) -> None:
        self._rules = rules
        self.files: list[SendableFile] = []
        self.refused: list[str] = []

    def extract_from_prose(self, text: str) -> str:
        text = _TAG.sub(self._replace_tag, text) if "MEDIA:" in text else text
        text = _PICTURE.sub(self._replace_picture, text) if "![" in text else text
        return _BARE.sub(self._replace_path_line, text)

    def extract_named(self, path: str) -> str:
        """Add a file that is to be sent, or a line about its refusal; return what stands in the text for it."""
        try:
            self._add_file(path)
        except MediaRefusedError as error:
            name = escape_unseen_characters(os.path.basename(path.rstrip("/")) or path).replace("`", "'")
            self.refused.append(
                tr("(The file `{name}` was not sent: {reason}.)", name=name, reason=localize(error.message))
            )
        return _GONE

    def _add_file(self, path: str) -> None:
        if len(set(self.files)) >= MAX_FILES:
            raise MediaRefusedError(N_("an answer can have {most} files", most=MAX_FILES))
        self.files.append(check_sendable(path, self._rules))

    def _replace_tag(self, match: re.Match[str]) -> str:
        quoted = match[1] or match[2] or match[3]
        if quoted:
            return self.extract_named(quoted)
        path = match[4]
        spare = _END.search(path)
        if spare:
            path = path[: spare.start()]
        return self.extract_named(path) + (spare[0] if spare else "")

    def _replace_picture(self, match: re.Match[str]) -> str:
        gone = self.extract_named(match[2])
        return match[1] or gone

    def _replace_path_line(self, match: re.Match[str]) -> str:
        try:
            self._add_file(match[1].strip())
        except MediaRefusedError:
            return match[0]
        return ""


def check_sendable(path: str, rules: MediaRules) -> SendableFile:
    """Return a file that may be sent. Raises MediaRefusedError."""
    if "\0" in path:
        raise MediaRefusedError(N_("there is no such file"))
    if rules.home and (path == "~" or path.startswith("~/")):
        path = rules.home + path[1:]
    real = os.path.realpath(os.path.join(rules.roots[0] if rules.roots else "/", path))
    if not any(_is_inside(real, os.path.realpath(root)) for root in rules.roots):
        raise MediaRefusedError(N_("it is outside of the folders that files are sent from"))
    kind = KINDS.get(os.path.splitext(real)[1][1:].lower())
    if kind is None:
        raise MediaRefusedError(N_("files of this kind are not sent"))
    if reason := rules.refusal_reason(real):
        raise MediaRefusedError(reason)
    open_checked_file(real, rules.limit).close()
    return SendableFile(real, kind)


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def open_attachment(path: str, limit: int) -> BinaryIO:
    """Open the file of a message. Raises SendError: a retry would not help."""
    try:
        return open_checked_file(path, limit)
    except MediaRefusedError as error:
        name = escape_unseen_characters(os.path.basename(path))
        reason = N_("{name} cannot be sent: {reason}.", name=name, reason=error.message)
        raise SendError(SendFault.FORBIDDEN, reason) from None


def content_of(path: str, limit: int) -> bytes:
    """Return the content of a message's file, at most `limit` bytes. Raises SendError."""
    with open_attachment(path, limit) as file:
        return file.read(limit)


def read_facts(file: BinaryIO) -> "VoiceFacts | None":
    """Return what platforms show of a voice message; None for a file that is none. The file is left at its
    beginning.
    """
    from hermes.speech.ogg_opus import read_voice_facts

    file.seek(0)
    facts = read_voice_facts(file)
    file.seek(0)
    return facts


def open_checked_file(path: str, limit: int) -> BinaryIO:
    """Open a checked file to send it: never a link, a pipe or a device, at most `limit` bytes. Raises
    MediaRefusedError.
    """
    try:
        with hold_unlinked(path) as held:
            if stat.S_ISLNK(held.read_status().st_mode):
                raise MediaRefusedError(N_("a link took its place"))
            file = os.fdopen(held.open_read(), "rb")
    except FileNotFoundError:
        raise MediaRefusedError(N_("there is no such file")) from None
    except NotADirectoryError:
        raise MediaRefusedError(N_("a link took its place")) from None
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise MediaRefusedError(N_("it is not a regular file")) from None
        raise MediaRefusedError(N_("it cannot be read: {reason}", reason=error.strerror or "?")) from None
    if os.fstat(file.fileno()).st_size > limit:
        file.close()
        raise MediaRefusedError(N_("it is larger than {limit} MB", limit=limit // 1_000_000))
    return file
