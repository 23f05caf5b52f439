"""What servers answer, as the output of a tool: bounded, and marked as coming from the server."""

import base64
import binascii
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field, structs

from hermes.core.messages import ImagePart, Provenance, Source, TextPart, ToolStatus
from hermes.i18n.messages import N_
from hermes.tools.tool import ToolOutput

_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_MAX_IMAGES = 8
_MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""The most bytes of all pictures of a result, in base64."""
_MAX_URI, _MAX_ABOUT = 500, 300
_MAX_LISTED = 1_000
"""The most resources of one page that are told of."""
_NOTHING = Raw()


class _Resource(Struct):
    uri: str = ""
    media: str = field(default="", name="mimeType")
    text: str | None = None
    blob: str = ""


class _ContentBlock(Struct):
    type: str = ""
    text: str = ""
    data: str = ""
    media: str = field(default="", name="mimeType")
    uri: str = ""
    name: str = ""
    resource: _Resource | None = None


class _CallResult(Struct):
    content: list[Raw] = []
    structured: Raw = field(default=_NOTHING, name="structuredContent")
    failed: bool = field(default=False, name="isError")


def to_tool_output(result: Raw, server: str) -> ToolOutput:
    """Return the output of a call that the server has answered with this result."""
    provenance = Provenance(source=Source.MCP, label=server)
    try:
        call_result = msgspec.json.decode(result, type=_CallResult)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _unreadable(provenance)
    texts, images = read_content(call_result.content, provenance)
    structured = bytes(call_result.structured)
    if structured not in (b"", b"null") and not _is_repeated(texts, structured):
        texts.append(structured.decode("utf-8", "replace"))
    if images:
        texts.append(f"[{len(images)} picture{'s' if len(images) > 1 else ''}]")
    return ToolOutput(
        text="\n".join(texts) or "(nothing)",
        status=ToolStatus.ERROR if call_result.failed else ToolStatus.OK,
        images=tuple(images),
        provenance=provenance,
    )


async def fit_pictures(output: ToolOutput) -> ToolOutput:
    """Return the output with its pictures as the transcript keeps them; words stand for those that cannot be shown."""
    if not output.images:
        return output
    from hermes.media.pictures import take_images

    parts = await take_images(output.images)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    images = tuple(part for part in parts if isinstance(part, ImagePart))
    return structs.replace(output, text="\n".join([output.text, *texts]), images=images)


def read_content(content: Iterable[Raw], provenance: Provenance) -> tuple[list[str], list[ImagePart]]:
    """Return the contents of a result or of a message: texts, and as many pictures as the limit allows."""
    texts: list[str] = []
    images: list[ImagePart] = []
    room = _MAX_IMAGE_BYTES
    for raw in content:
        block = _parse_block(raw)
        if block is not None and len(images) < _MAX_IMAGES and len(block.data) <= room and _is_image(block):
            room -= len(block.data)
            images.append(ImagePart(media_type=block.media, data=block.data, provenance=provenance))
        else:
            texts.append(_block_to_text(block))
    return texts, images


def _parse_block(raw: Raw) -> _ContentBlock | None:
    try:
        return msgspec.json.decode(raw, type=_ContentBlock)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _is_image(block: _ContentBlock) -> bool:
    if block.type != "image" or block.media not in _IMAGE_TYPES:
        return False
    try:
        return bool(base64.b64decode(block.data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _block_to_text(block: _ContentBlock | None) -> str:
    """Return a part of a result as text; what cannot be shown is named."""
    if block is None:
        return "[a part that cannot be read]"
    if block.type == "text":
        return block.text
    found = block.resource
    if found is not None:
        head = f"[resource {found.uri[:_MAX_URI]}]"
        return (
            f"{head}\n{found.text}"
            if found.text is not None
            else N_("{head} [{media}, {blob} bytes]", head=head, media=found.media, blob=len(found.blob))
        )
    if block.uri:
        return f"[link to {block.name[:_MAX_URI]}: {block.uri[:_MAX_URI]}]"
    return f"[{block.type[:40] or 'a part'}, {block.media[:80]}, {len(block.data)} characters that are not shown]"


def _is_repeated(texts: Iterable[str], structured: bytes) -> bool:
    """Return whether one of the texts repeats the structured result, as servers are asked to send it.

    The official SDK puts a plain value into an object of one member, `result`.
    """
    try:
        value = msgspec.json.decode(structured)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    if isinstance(value, dict) and list(value) == ["result"]:
        value = value["result"]
    return any(text == value or _is_json_of(text, value) for text in texts)


def _is_json_of(text: str, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == value)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


class _ReadResult(Struct):
    contents: list[_Resource] = []


class _ListedResource(Struct):
    uri: str = ""
    template: str = field(default="", name="uriTemplate")
    name: str = ""
    description: str | None = None
    media: str | None = field(default=None, name="mimeType")


class _ResourcePage(Struct):
    resources: list[Raw] = []
    templates: list[Raw] = field(default_factory=list, name="resourceTemplates")
    cursor: str | None = field(default=None, name="nextCursor")


def read_resource_output(result: Raw, server: str) -> ToolOutput:
    """Return what a server has given of a resource: texts, pictures, and the size of what cannot be shown."""
    provenance = Provenance(source=Source.MCP, label=server)
    try:
        contents = msgspec.json.decode(result, type=_ReadResult).contents
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _unreadable(provenance)
    texts: list[str] = []
    images: list[ImagePart] = []
    for one in contents:
        block = _ContentBlock(type="image", data=one.blob, media=one.media)
        is_picture = one.text is None and len(images) < _MAX_IMAGES and len(one.blob) <= _MAX_IMAGE_BYTES
        if is_picture and _is_image(block):
            images.append(ImagePart(media_type=one.media, data=one.blob, provenance=provenance))
        texts.append(_block_to_text(_ContentBlock(type="resource", resource=one)))
    return ToolOutput(text="\n".join(texts) or "(nothing)", images=tuple(images), provenance=provenance)


def list_resource_lines(result: Raw) -> tuple[list[str], str] | None:
    """Return a line for each resource or template of a page, and where the next page begins; None for another thing."""
    try:
        page = msgspec.json.decode(result, type=_ResourcePage)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    lines = []
    for raw in (*page.resources, *page.templates)[:_MAX_LISTED]:
        try:
            one = msgspec.json.decode(raw, type=_ListedResource)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        about = " ".join(" ".join(filter(None, (one.name, one.description or "", one.media or ""))).split())
        lines.append(f"{(one.uri or one.template)[:_MAX_URI]}  {about[:_MAX_ABOUT]}".rstrip())
    return lines, page.cursor or ""


def _unreadable(provenance: Provenance) -> ToolOutput:
    return ToolOutput(
        text="The server's answer is not a result that can be read.", status=ToolStatus.ERROR, provenance=provenance
    )
