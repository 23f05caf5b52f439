"""Files that an answer names: taken out of its text, judged, and opened so that what was judged is what is sent.

A model names a file with `MEDIA:/path` (quoted where the name has spaces), or with a picture's path on a line of its
own. What may be sent lies in folders that are handed in, is of a kind that people open, and is refused by no rule.
"""

import os
import re
import stat
from collections.abc import Callable
from typing import BinaryIO

from msgspec import Struct

from hermes.core.chats import MediaKind
from hermes.core.errors import HermesError
from hermes.gateway.platform import Fault, SendError
from hermes.i18n.messages import phrase, say, translated
from hermes.markup.source_spans import apart
from hermes.util.text import escaped

_KINDS = {
    MediaKind.IMAGE: "png jpg jpeg gif webp bmp",
    MediaKind.VOICE: "ogg oga opus",
    MediaKind.AUDIO: "mp3 m4a aac flac wav",
    MediaKind.VIDEO: "mp4 mov webm mkv m4v",
    MediaKind.DOCUMENT: "pdf txt md csv tsv json yaml yml xml html svg ics log diff patch tex epub ods odt odp docx"
    " xlsx pptx doc xls ppt rtf zip tar gz tgz bz2 xz 7z tif tiff heic avif py js ts sh sql ipynb toml ini parquet db3",
}
KINDS = {end: kind for kind, ends in _KINDS.items() for end in ends.split()}
"""What a file is, by the end of its name; what is not here is not sent."""
_MEDIA_ENDS = "|".join(end for end, kind in KINDS.items() if kind is not MediaKind.DOCUMENT) + "|pdf"

_TAG = re.compile(
    r"""(?<![\w/])MEDIA:[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|<([^>\n]+)>|((?:[/~.]|[\w-]+/?)[^\s"'<>]*))""",
)
_TAG_IN_CODE = re.compile(r"`+[ \t]*MEDIA:[ \t]*([^`\n]+?)[ \t]*`+$")
_PICTURE = re.compile(r"!\[([^\]\n]*)\]\((?:file://)?(/[^()\s]+|~/[^()\s]+)\)")
_BARE = re.compile(
    rf"^[ \t]*(?:[-*][ \t]+)?((?:/|~/)[^\n`*|]+\.(?:{_MEDIA_ENDS}))[ \t]*$", re.IGNORECASE | re.MULTILINE
)
_END = re.compile(r"[.,;:!?)\]}*_]+$")
_EMPTY_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*){2,}")
MOST = 20
"""Files of one answer at most."""


class Rules(Struct, frozen=True, kw_only=True):
    """What may be sent."""

    roots: tuple[str, ...]
    """Folders, absolute; files lie in one of them. What is named by a relative path lies in the first."""
    refused: Callable[[str], str]
    """Why a file (an absolute, resolved path) may not leave the machine, in English; empty when it may."""
    home: str = ""
    """What `~` stands for."""
    limit: int = 50_000_000
    """Bytes of the largest file."""


class Sendable(Struct, frozen=True):
    """A file that may be sent."""

    path: str
    """Absolute and resolved."""
    kind: MediaKind


class Taken(Struct, frozen=True):
    """An answer without the names of its files."""

    text: str
    files: tuple[Sendable, ...] = ()
    refused: tuple[str, ...] = ()
    """Lines for the person about files that are not sent; they stand in `text` already."""


class MediaRefusedError(HermesError):
    """A file is not sent; the message says why."""


def take(markdown: str, rules: Rules) -> Taken:
    """The answer without its `MEDIA:` tags, local pictures and lines that are a picture's path; code stays as it is.

    What a tag names and may not be sent is told at the end of the text; a mere path that may not be sent stays.
    """
    if "MEDIA:" not in markdown and "/" not in markdown:
        return Taken(markdown)
    search = _Search(rules)
    found = []
    for text, prose in apart(markdown):
        if prose:
            found.append(search.prose(text))
        elif match := _TAG_IN_CODE.match(text):
            found.append(search.named(match[1]))
        else:
            found.append(text)
    if not search.files and not search.refused:
        return Taken(markdown)
    text = _EMPTY_LINES.sub("\n\n", "".join(found)).strip()
    lines = tuple(dict.fromkeys(search.refused))
    if lines:
        text = "\n\n".join(one for one in (text, "\n".join(lines)) if one)
    return Taken(text, tuple(dict.fromkeys(search.files)), lines)


class _Search:
    """Finds the files of one answer."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self.files: list[Sendable] = []
        self.refused: list[str] = []

    def prose(self, text: str) -> str:
        text = _TAG.sub(self._tag, text) if "MEDIA:" in text else text
        text = _PICTURE.sub(self._picture, text) if "![" in text else text
        return _BARE.sub(self._line, text)

    def named(self, path: str) -> str:
        """Take a file that is to be sent; what stands in its place: nothing."""
        try:
            self._add(path)
        except MediaRefusedError as error:
            name = escaped(os.path.basename(path.rstrip("/")) or path).replace("`", "'")
            self.refused.append(
                say("(The file `{name}` was not sent: {reason}.)", name=name, reason=translated(error.message))
            )
        return ""

    def _add(self, path: str) -> None:
        if len(set(self.files)) >= MOST:
            raise MediaRefusedError(phrase("an answer can have {most} files", most=MOST))
        self.files.append(judge(path, self._rules))

    def _tag(self, match: re.Match[str]) -> str:
        quoted = match[1] or match[2] or match[3]
        if quoted:
            return self.named(quoted)
        path = match[4]
        spare = _END.search(path)
        if spare:
            path = path[: spare.start()]
        self.named(path)
        return spare[0] if spare else ""

    def _picture(self, match: re.Match[str]) -> str:
        self.named(match[2])
        return match[1]

    def _line(self, match: re.Match[str]) -> str:
        try:
            self._add(match[1].strip())
        except MediaRefusedError:
            return match[0]
        return ""


def judge(path: str, rules: Rules) -> Sendable:
    """A file that may be sent. Raises MediaRefusedError."""
    if "\0" in path:
        raise MediaRefusedError(phrase("there is no such file"))
    if rules.home and (path == "~" or path.startswith("~/")):
        path = rules.home + path[1:]
    real = os.path.realpath(os.path.join(rules.roots[0] if rules.roots else "/", path))
    if not any(_inside(real, os.path.realpath(root)) for root in rules.roots):
        raise MediaRefusedError(phrase("it is outside of the folders that files are sent from"))
    kind = KINDS.get(os.path.splitext(real)[1][1:].lower())
    if kind is None:
        raise MediaRefusedError(phrase("files of this kind are not sent"))
    if reason := rules.refused(real):
        raise MediaRefusedError(reason)
    open_file(real, rules.limit).close()
    return Sendable(real, kind)


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def attached(path: str, limit: int) -> BinaryIO:
    """The file of a message, open. Raises SendError: nothing will make it sendable."""
    try:
        return open_file(path, limit)
    except MediaRefusedError as error:
        name = escaped(os.path.basename(path))
        reason = phrase("{name} cannot be sent: {reason}.", name=name, reason=error.message)
        raise SendError(Fault.FORBIDDEN, reason) from None


def content_of(path: str, limit: int) -> bytes:
    """The content of a message's file, at most `limit` bytes. Raises SendError."""
    with attached(path, limit) as file:
        return file.read(limit)


def open_file(path: str, limit: int) -> BinaryIO:
    """Open a file that was judged, to send it: never a link, a pipe or a device, at most `limit` bytes. Raises
    MediaRefusedError."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise MediaRefusedError(phrase("there is no such file")) from None
    except OSError as error:
        if os.path.islink(path):
            raise MediaRefusedError(phrase("a link stands in its place")) from None
        raise MediaRefusedError(phrase("it cannot be read: {reason}", reason=error.strerror or "?")) from None
    try:
        _check(number, path, limit)
    except BaseException:
        os.close(number)
        raise
    return os.fdopen(number, "rb")


def _check(number: int, path: str, limit: int) -> None:
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode):
        raise MediaRefusedError(phrase("it is not a regular file"))
    # The folders on the way could have been swapped for links since the path was resolved.
    real = os.path.realpath(path)
    if real != path or not os.path.samestat(found, os.lstat(real)):
        raise MediaRefusedError(phrase("a link stands in its place"))
    if found.st_size > limit:
        raise MediaRefusedError(phrase("it is larger than {limit} MB", limit=limit // 1_000_000))
