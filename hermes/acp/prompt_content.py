"""A person's message as an editor sends it: texts, pictures, and files that are named or come along."""

import base64
import binascii
import os
import re
from collections.abc import Sequence
from typing import Protocol
from urllib.parse import unquote, urlsplit

from hermes.acp.protocol import AudioBlock, ContentBlock, ImageBlock, LinkBlock, ResourceBlock, TextBlock
from hermes.core.errors import UsageError
from hermes.core.messages import PERSON, ImagePart, TextPart
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import InboundMessage
from hermes.util.text import clean_surrogates, to_one_line

_MAX_PICTURE = 20 << 20
_MAX_BLOCKS = 1_000
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LINES = re.compile(r"L(\d{1,7})(?:[:-]L?(\d{1,7}))?")
_UNSAFE = re.compile(r'["\x00-\x1f\x7f]')
"""What cannot stand in a reference."""
_MAX_NAME = 300


class EmbeddedReader(Protocol):
    """Makes parts of texts that come along."""

    def build_part(self, uri: str, text: str) -> TextPart:
        """Return a text, marked with where it is from."""
        ...


def build_inbound(blocks: Sequence[ContentBlock], cwd: str, reader: EmbeddedReader) -> InboundMessage:
    """Return the message of a prompt. A file that is only named becomes a reference, which the session reads through
    its gate as if it had been typed.

    Raises UsageError for what cannot be used.
    """
    if len(blocks) > _MAX_BLOCKS:
        raise UsageError(N_("The message has more than {n} parts.", n=_MAX_BLOCKS))
    words: list[str] = []
    images: list[ImagePart] = []
    quoted: list[TextPart] = []
    for block in blocks:
        match block:
            case TextBlock():
                words.append(block.text)
            case ImageBlock():
                images.append(_read_picture(block.data, block.mime_type))
            case LinkBlock():
                words.append(format_link(block.uri, block.name))
            case ResourceBlock():
                _take_resource(block, words, images, quoted, reader)
            case AudioBlock():
                raise UsageError(N_("Hermes takes no sound from an editor."), N_("Send words, files or pictures."))
    text = clean_surrogates("".join(words))
    if not text.strip() and not images and not quoted:
        raise UsageError(N_("The message is empty."))
    return InboundMessage(text=text, images=tuple(images), cwd=cwd, quoted=tuple(quoted))


def format_link(uri: str, name: str) -> str:
    """Return the words that stand for a file or an address: a reference for a file or folder of this machine."""
    path, lines = _split_file_uri(uri)
    if not path or _UNSAFE.search(path):
        return _quote_name(f"{name} <{uri}>")
    kind = "folder" if os.path.isdir(path) else "file"
    return f' @{kind}:"{path}{lines}" '


def _quote_name(text: str) -> str:
    """Return a name as code, in which nothing is a reference."""
    shown = to_one_line(clean_surrogates(text).replace("`", "'"), _MAX_NAME)
    return f" `{shown}` "


def _take_resource(
    block: ResourceBlock,
    words: list[str],
    images: list[ImagePart],
    quoted: list[TextPart],
    reader: EmbeddedReader,
) -> None:
    contents = block.resource
    words.append(_quote_name(contents.uri))
    if contents.text is not None:
        quoted.append(reader.build_part(contents.uri, contents.text))
    elif contents.blob is not None and contents.mime_type in _PICTURES:
        images.append(_read_picture(contents.blob, contents.mime_type))


def _read_picture(data: str, kind: str) -> ImagePart:
    if kind not in _PICTURES:
        raise UsageError(N_("{kind} is not a PNG, JPEG, GIF or WebP picture.", kind=kind[:60]))
    if len(data) > _MAX_PICTURE * 4 // 3 + 4:
        raise UsageError(N_("The picture is larger than 20 MB."), N_("Make it smaller."))
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(N_("The picture is not in base64.")) from None
    return ImagePart(media_type=kind, data=data, provenance=PERSON)


def _split_file_uri(uri: str) -> tuple[str, str]:
    """Return the absolute path that a `file:` address names, and its lines as a reference has them; empty for another
    address.
    """
    if not uri.startswith("file://"):
        return "", ""
    try:
        found = urlsplit(uri)
    except ValueError:
        return "", ""
    if found.netloc not in ("", "localhost"):
        return "", ""
    lines = _LINES.fullmatch(found.fragment)
    told = "" if lines is None else f":{lines[1]}" + (f"-{lines[2]}" if lines[2] else "")
    return unquote(found.path, errors="surrogateescape"), told
