"""What a server answers to a call, as a tool's output: bounded, and marked as the server's own words."""

import base64
import binascii
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field

from hermes.core.parts import ImagePart, Provenance, Source, ToolStatus
from hermes.tools.tool import ToolOutput

_KINDS = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGES = 8
_MAX_PICTURE = 5 * 1024 * 1024
"""Bytes of all pictures of a result, in base64."""
_MAX_URI = 500
_NOTHING = Raw()


class _Resource(Struct):
    uri: str = ""
    media: str = field(default="", name="mimeType")
    text: str | None = None
    blob: str = ""


class _Block(Struct):
    type: str = ""
    text: str = ""
    data: str = ""
    media: str = field(default="", name="mimeType")
    uri: str = ""
    name: str = ""
    resource: _Resource | None = None


class _Result(Struct):
    content: list[Raw] = []
    structured: Raw = field(default=_NOTHING, name="structuredContent")
    failed: bool = field(default=False, name="isError")


def output(result: Raw, server: str) -> ToolOutput:
    """The output of a call that the server has answered with this result."""
    provenance = Provenance(source=Source.MCP, label=server)
    try:
        given = msgspec.json.decode(result, type=_Result)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ToolOutput(
            text="The server's answer is not a result that can be read.", status=ToolStatus.ERROR, provenance=provenance
        )
    texts, images = _parts(given.content, provenance)
    structured = bytes(given.structured)
    if structured not in (b"", b"null") and not any(_same(text, structured) for text in texts):
        texts.append(structured.decode("utf-8", "replace"))
    if images:
        texts.append(f"[{len(images)} picture{'s' if len(images) > 1 else ''}]")
    return ToolOutput(
        text="\n".join(texts) or "(nothing)",
        status=ToolStatus.ERROR if given.failed else ToolStatus.OK,
        images=tuple(images),
        provenance=provenance,
    )


def _parts(content: Iterable[Raw], provenance: Provenance) -> tuple[list[str], list[ImagePart]]:
    """What a result consists of: texts, and as many pictures as there is room for."""
    texts: list[str] = []
    images: list[ImagePart] = []
    room = _MAX_PICTURE
    for raw in content:
        block = _block(raw)
        if block is not None and len(images) < _MAX_IMAGES and len(block.data) <= room and _is_picture(block):
            room -= len(block.data)
            images.append(ImagePart(media_type=block.media, data=block.data, provenance=provenance))
        else:
            texts.append(_in_words(block))
    return texts, images


def _block(raw: Raw) -> _Block | None:
    try:
        return msgspec.json.decode(raw, type=_Block)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _is_picture(block: _Block) -> bool:
    if block.type != "image" or block.media not in _KINDS:
        return False
    try:
        return bool(base64.b64decode(block.data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _in_words(block: _Block | None) -> str:
    """A part of a result as text; what cannot be shown is named."""
    if block is None:
        return "[a part that cannot be read]"
    if block.type == "text":
        return block.text
    found = block.resource
    if found is not None:
        head = f"[resource {found.uri[:_MAX_URI]}]"
        return f"{head}\n{found.text}" if found.text is not None else f"{head} [{found.media}, {len(found.blob)} bytes]"
    if block.uri:
        return f"[link to {block.name[:_MAX_URI]}: {block.uri[:_MAX_URI]}]"
    return f"[{block.type[:40] or 'a part'}, {block.media[:80]}, {len(block.data)} characters that are not shown]"


def _same(text: str, structured: bytes) -> bool:
    """Whether a text is the structured result once more, as servers are asked to send it.

    The official SDK puts a plain value into an object of one member, `result`.
    """
    try:
        value = msgspec.json.decode(structured)
        if isinstance(value, dict) and list(value) == ["result"]:
            value = value["result"]
        return bool(text == value or msgspec.json.decode(text) == value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
