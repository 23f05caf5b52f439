"""The pictures that calls name: a file, an address, a data URL, or a picture of the conversation by its name."""

import asyncio
import base64
import binascii
import os
from collections.abc import Mapping

from msgspec import structs

from hermes.core.errors import ToolError
from hermes.core.frame import Rewrite
from hermes.core.messages import PICTURE_PREFIX, ImagePart, Provenance, Source
from hermes.execution.sandbox.tmpdir import create_memory_file
from hermes.media.reader.picture_bytes import sniff_picture
from hermes.tools.files import open_regular
from hermes.tools.session import NO_WEB, ToolContext

MAX_PICTURE_BYTES = 20 << 20
"""The largest picture that is read, in bytes; providers refuse larger ones."""
_DATA, _FILE = "data:", "file://"
_SIGNATURES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def is_web_address(source: str) -> bool:
    """Return whether a picture is named by an address on the web."""
    return source.strip().lower().startswith(("http://", "https://"))


def find_local_path(source: str) -> str:
    """Return the path by which a picture is named; empty where it is named in another way."""
    source = source.strip()
    if is_web_address(source) or source[: len(_DATA)].lower() == _DATA or source.startswith(PICTURE_PREFIX):
        return ""
    return source.removeprefix(_FILE)


async def load_picture(source: str, ctx: ToolContext) -> ImagePart:
    """Return a picture with where it comes from, as a session takes one in: of a size and a kind that large vendors
    take, upright, without metadata. Raises ToolError.
    """
    source = source.strip()
    if not source:
        raise ToolError("No picture is named.")
    if source.startswith(PICTURE_PREFIX):
        return await _fit_picture(await _find_in_conversation(source, ctx))
    if source[: len(_DATA)].lower() == _DATA:
        data, origin = _decode_data_url(source), None
    elif is_web_address(source):
        data, origin = await _fetch_picture(source, ctx), Provenance(Source.WEB, source)
    else:
        path = find_local_path(source)
        data, origin = await asyncio.to_thread(_read_file, path, ctx), Provenance(Source.FILE, path)
    return await _fit_picture(_build_image(data, origin))


def find_media_type(data: bytes) -> str:
    """Return the media type of a picture by its first bytes; empty for what is none that models take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), "")


def _build_image(data: bytes, origin: Provenance | None) -> ImagePart:
    kind = sniff_picture(data[:64])
    if not kind:
        raise ToolError("That is not a PNG, JPEG, GIF or WebP picture, nor one of AVIF, HEIC, TIFF or BMP.")
    return ImagePart(media_type=f"image/{kind.lower()}", data=base64.b64encode(data).decode(), provenance=origin)


async def _fit_picture(image: ImagePart) -> ImagePart:
    """Return a picture as a session takes it in. This is the only place that has pictures decoded."""
    from hermes.llm.pictures import fit_picture
    from hermes.media.pictures import can_stay, take_picture

    data = base64.b64decode(image.data)
    file = create_memory_file("picture", data)
    try:
        found = await take_picture(file)
    except ToolError as error:
        if not can_stay(data[:64], len(data), error):
            raise ToolError(f"The picture cannot be shown: {error.message}.") from None
    else:
        return structs.replace(image, media_type=found.media_type, data=base64.b64encode(found.data).decode())
    finally:
        os.close(file)
    fitted = await asyncio.to_thread(fit_picture, image, Rewrite.SMALL_IMAGES)
    if fitted is None:
        raise ToolError("The picture is too large, and cannot be made smaller here.")
    return fitted


async def _find_in_conversation(reference: str, ctx: ToolContext) -> ImagePart:
    known = ctx.state.pictures
    found = await asyncio.to_thread(known.find, reference) if known is not None else None
    if found is None:
        raise ToolError(f"There is no {reference} in this conversation any more.")
    if found.data:
        return found
    fetched = await _fetch_picture(found.url, ctx)
    return structs.replace(_build_image(fetched, found.provenance), url="")


def _decode_data_url(source: str) -> bytes:
    head, comma, body = source.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise ToolError("A data URL of a picture is written as data:image/png;base64,...")
    if len(body) * 3 // 4 > MAX_PICTURE_BYTES:
        raise ToolError("The picture is larger than 20 MB.")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("The data URL does not hold base64.") from None


def _read_file(path: str, ctx: ToolContext) -> bytes:
    file, _, status = open_regular(ctx.resolve_path(path), path, ctx)
    with file:
        if status.st_size > MAX_PICTURE_BYTES:
            raise ToolError(f"{path} is larger than 20 MB.")
        data = bytearray()
        while chunk := file.read(1 << 20):
            data += chunk
            if len(data) > MAX_PICTURE_BYTES:
                raise ToolError(f"{path} is larger than 20 MB.")
        return bytes(data)


async def _fetch_picture(url: str, ctx: ToolContext) -> bytes:
    if ctx.web is None:
        raise ToolError(NO_WEB)
    from hermes.web.fetch import FetchLimits

    async with ctx.web.make_fetcher(limits=FetchLimits(bytes=MAX_PICTURE_BYTES)) as fetcher:
        page = await fetcher.fetch_page(url, wanted=_may_be_picture)
    if page.other_site:
        raise ToolError(f"It redirects to another site, {page.other_site}, which was not asked. Give that address.")
    if page.status != 200:
        raise ToolError(f"{url} answered with status {page.status}.")
    if page.is_unread:
        raise ToolError(f"{url} is no picture, but {page.media_type or 'of an unknown kind'}.")
    return page.body


def _may_be_picture(headers: Mapping[str, str]) -> bool:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return not kind or kind.startswith("image/") or kind in ("application/octet-stream", "binary/octet-stream")
