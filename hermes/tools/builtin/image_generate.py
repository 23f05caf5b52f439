"""`image_generate`: has a picture made or changed."""

import asyncio
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

from hermes.core.errors import ToolError
from hermes.tools.pictures.generation import MAX_ANSWER_BYTES, MadePicture, PictureRequest, make_picture
from hermes.tools.pictures.makers import AspectRatio, choose_maker
from hermes.tools.pictures.sources import find_local_path, is_web_address, load_picture
from hermes.tools.schema import Arguments
from hermes.tools.session import NO_WEB, ToolContext, WebAccess
from hermes.tools.tool import Parallel, PathUse, ToolOutput, ToolRequirements, tool
from hermes.util.atomic_write import write_atomic
from hermes.util.text import to_one_line
from hermes.web.fetch import FetchLimits, find_host

MAX_INPUTS = 5
"""Pictures that one call may give."""
_MAX_SHOWN = 60
_ENDS = {"image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif"}


def _list_sources(arguments: Arguments) -> list[str]:
    """Return the pictures that a call gives, each once."""
    more = arguments.get("reference_image_urls")
    given = [arguments.get("image_url"), *(more if isinstance(more, list | tuple) else ())]
    return list(dict.fromkeys(str(one).strip() for one in given if one and str(one).strip()))


@tool(
    "image_gen",
    parallel=Parallel.SAFE,
    deferred=True,
    brief="make or change a picture",
    summary=lambda args: f"make a picture: {to_one_line(str(args['prompt']), _MAX_SHOWN)}",
    paths=lambda args: [PathUse(path) for one in _list_sources(args) if (path := find_local_path(one))],
    hosts=lambda args: [one for one in _list_sources(args) if is_web_address(one)],
    requirements=ToolRequirements(variables=("OPENAI_API_KEY|FAL_KEY|OPENROUTER_API_KEY",)),
)
async def image_generate(
    ctx: ToolContext,
    prompt: Annotated[str, "What it shows, or how it is changed."],
    aspect_ratio: Annotated[AspectRatio, "Its form."] = "landscape",
    image_url: Annotated[str, "A picture to change: a path, an https or data URL, or picture:..."] = "",
    reference_image_urls: Annotated[tuple[str, ...], "Pictures to go by."] = (),
) -> ToolOutput:
    """Make a picture from words, or change one. It is saved; a chat is sent it by the MEDIA line."""
    if not prompt.strip():
        raise ToolError("Say what the picture is to show.")
    sources = _list_sources({"image_url": image_url, "reference_image_urls": reference_image_urls})
    if len(sources) > MAX_INPUTS:
        raise ToolError(f"{len(sources)} pictures are too many: at most {MAX_INPUTS}.")
    web, chosen = ctx.web, ctx.image_generation
    if web is None or chosen is None:
        raise ToolError(NO_WEB)
    maker = choose_maker(chosen.provider, web.environ)
    request = PictureRequest(
        maker=maker,
        base=maker.base_url(chosen.base_url, web.environ),
        key=maker.find_key(web.environ),
        model=chosen.model or maker.model,
        prompt=ctx.redact(prompt.strip()),
        ratio=aspect_ratio,
        images=tuple([await load_picture(one, ctx) for one in sources]),
    )
    made = await _make_in_time(request, web, chosen.seconds)
    path = await asyncio.to_thread(_save_picture, made.data, _ENDS[made.media_type], chosen.folder)
    cost = f" It cost {made.cost:.4g} USD." if made.cost is not None else ""
    size = f"{made.media_type}, {len(made.data):,} bytes"
    return ToolOutput(text=f"MEDIA:{path}\nMade by {maker.title} {request.model} ({size}).{cost}")


async def _make_in_time(request: PictureRequest, web: WebAccess, seconds: float) -> MadePicture:
    # A service of the person's own needs no leave: it may well stand in their own network.
    own = () if request.base == request.maker.base else (find_host(request.base),)
    limits = FetchLimits(seconds=seconds, bytes=MAX_ANSWER_BYTES)
    try:
        async with web.make_fetcher(*own, limits=limits) as fetcher, asyncio.timeout(seconds):
            return await make_picture(request, fetcher)
    except TimeoutError:
        raise ToolError(f"{request.maker.title} made no picture within {seconds:g} s.") from None


def _save_picture(data: bytes, end: str, folder: Path) -> Path:
    """Write a picture to a private file that is named by what it holds. Raises ToolError."""
    path = folder / f"picture-{blake2b(data, digest_size=8).hexdigest()}.{end}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, data, mode=0o600)
    except OSError as error:
        raise ToolError(f"The picture was made, and cannot be saved in {folder}: {error.strerror}.") from None
    return path
