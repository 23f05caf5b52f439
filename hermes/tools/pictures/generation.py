"""Asks a service for a picture, in the way that its record names, and takes what comes back."""

import asyncio
import base64
import binascii
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, structs

from hermes.core.encoding import to_json
from hermes.core.errors import ToolError
from hermes.core.messages import ImagePart
from hermes.core.secret import KeyHolder
from hermes.tools.pictures.makers import AspectRatio, PictureMaker
from hermes.tools.pictures.sources import find_media_type
from hermes.web.fetch import FetchedPage, WebFetcher

MAX_ANSWER_BYTES = 60_000_000
"""The largest answer of a service, in which a picture is base64."""
_POLL_SECONDS = (0.5, 1.0, 2.0, 3.0)
"""The pauses between looks at a job; the last is repeated."""
_CANCEL_SECONDS = 3.0
_MAX_SAID = 300
_REFUSED_CODES = ("moderation_blocked", "content_policy_violation", "content_filter", "safety", "prohibited_content")
_REFUSED_WORDS = ("safety system", "content policy", "moderation")
_ONLY_IMAGES = "requested output modalities"


class PictureRequest(KeyHolder, frozen=True, kw_only=True):
    """A picture that is asked for. Its `repr` shows no key."""

    maker: PictureMaker
    base: str
    key: str
    model: str
    prompt: str
    ratio: AspectRatio
    images: tuple[ImagePart, ...] = ()
    """The pictures that are to be changed, or taken as a pattern."""


class MadePicture(Struct, frozen=True, kw_only=True):
    """A picture that was made; `cost` is what the service says that it cost, in dollars."""

    data: bytes
    media_type: str
    cost: float | None = None


async def make_picture(request: PictureRequest, fetcher: WebFetcher) -> MadePicture:
    """Return the picture. Raises ToolError, in which no key stands; a stop ends the job at the service, too."""
    try:
        return await _WIRES[request.maker.wire](request, fetcher)
    except ToolError as error:
        raise ToolError(str(error).replace(request.key, "[key]")) from None


async def _ask_openai(request: PictureRequest, fetcher: WebFetcher) -> MadePicture:
    field, value = request.maker.find_ratio(request.model, request.ratio)
    words = {"model": request.model, "prompt": request.prompt, field: value}
    if request.images:
        body, kind = _build_form(words, request.images)
        path = "/images/edits"
    else:
        body, kind = to_json({**words, "n": 1}), "application/json"
        path = "/images/generations"
    headers = {"authorization": f"Bearer {request.key}", "content-type": kind, "accept": "application/json"}
    page = await fetcher.send_request("POST", f"{request.base}{path}", headers=headers, body=body)
    answer = _read_answer(request.maker, page)
    first = _first_row(_get(answer, "data"))
    encoded, url = _get(first, "b64_json"), _get(first, "url")
    if isinstance(encoded, str) and encoded:
        return _decode_picture(request.maker, encoded)
    return await _fetch_result(request.maker, url, fetcher)


def _build_form(words: Mapping[str, str], images: Sequence[ImagePart]) -> tuple[bytes, str]:
    """Return the body of a form with files, and its content type."""
    mark = f"hermes-{secrets.token_hex(16)}"
    start = f"--{mark}\r\ncontent-disposition: form-data; name="
    parts = [f'{start}"{name}"\r\n\r\n{value}\r\n'.encode() for name, value in words.items()]
    for number, image in enumerate(images):
        name = f"picture{number}.{image.media_type.removeprefix('image/')}"
        parts.append(f'{start}"image[]"; filename="{name}"\r\ncontent-type: {image.media_type}\r\n\r\n'.encode())
        parts += [base64.b64decode(image.data), b"\r\n"]
    return b"".join([*parts, f"--{mark}--\r\n".encode()]), f"multipart/form-data; boundary={mark}"


async def _ask_fal(request: PictureRequest, fetcher: WebFetcher) -> MadePicture:
    field, value = request.maker.find_ratio(request.model, request.ratio)
    arguments: dict[str, object] = {"prompt": request.prompt, field: value, "num_images": 1, "output_format": "png"}
    model, suffix = request.model, request.maker.edit_suffix
    if request.images:
        arguments["image_urls"] = [_to_data_url(image) for image in request.images]
        model = model if model.endswith(suffix) else f"{model}{suffix}"
    headers = {"authorization": f"Key {request.key}", "content-type": "application/json", "accept": "application/json"}
    page = await fetcher.send_request("POST", f"{request.base}/{model}", headers=headers, body=to_json(arguments))
    job = _read_answer(request.maker, page)
    addresses = [_own_address(request, _get(job, name)) for name in ("status_url", "response_url", "cancel_url")]
    status_url, response_url, cancel_url = addresses
    try:
        await _wait_for_job(request, status_url, headers, fetcher)
    except (asyncio.CancelledError, TimeoutError):
        await _cancel_job(cancel_url, headers, fetcher)
        raise
    page = await fetcher.send_request("GET", response_url, headers=headers, body=b"")
    first = _first_row(_get(_read_answer(request.maker, page), "images"))
    return await _fetch_result(request.maker, _get(first, "url"), fetcher)


def _own_address(request: PictureRequest, url: object) -> str:
    """Return an address of a job. The key goes to nobody but the service. Raises ToolError."""
    if not isinstance(url, str) or urlsplit(url)[:2] != urlsplit(request.base)[:2]:
        raise ToolError(f"{request.maker.title} names an address of its job that is not its own.")
    return url


async def _wait_for_job(
    request: PictureRequest, status_url: str, headers: Mapping[str, str], fetcher: WebFetcher
) -> None:
    looks = 0
    while True:
        page = await fetcher.send_request("GET", status_url, headers=headers, body=b"")
        answer = _read_answer(request.maker, page)
        status = _get(answer, "status")
        if status == "COMPLETED":
            if error := _get(answer, "error"):
                _refuse(request.maker, str(_get(answer, "error_type") or ""), str(error), 0)
            return
        if status not in ("IN_QUEUE", "IN_PROGRESS"):
            raise ToolError(f"{request.maker.title} says of its job what is not known: {status!r:.60}.")
        await asyncio.sleep(_POLL_SECONDS[min(looks, len(_POLL_SECONDS) - 1)])
        looks += 1


async def _cancel_job(cancel_url: str, headers: Mapping[str, str], fetcher: WebFetcher) -> None:
    """Ask for a job to be ended, not long: nothing is left to be done where that fails."""
    task = asyncio.create_task(fetcher.send_request("PUT", cancel_url, headers=headers, body=b""))
    await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _ask_chat(request: PictureRequest, fetcher: WebFetcher) -> MadePicture:
    field, value = request.maker.find_ratio(request.model, request.ratio)
    content: list[object] = [{"type": "text", "text": request.prompt}]
    content += [{"type": "image_url", "image_url": {"url": _to_data_url(image)}} for image in request.images]
    body: dict[str, object] = {
        "model": request.model,
        "messages": [{"role": "user", "content": content}],
        "modalities": ["image", "text"],
        "image_config": {field: value},
        "usage": {"include": True},
    }
    headers = {"authorization": f"Bearer {request.key}", "content-type": "application/json"}
    url = f"{request.base}/chat/completions"
    page = await fetcher.send_request("POST", url, headers=headers, body=to_json(body))
    if page.status == 404 and _ONLY_IMAGES.encode() in page.body:  # a model that gives pictures alone
        body["modalities"] = ["image"]
        page = await fetcher.send_request("POST", url, headers=headers, body=to_json(body))
    answer = _read_answer(request.maker, page)
    choice = _first_row(_get(answer, "choices"))
    message = _get(choice, "message")
    found = _get(_get(_first_row(_get(message, "images")), "image_url"), "url")
    if not isinstance(found, str):
        reasons = (_get(choice, "native_finish_reason"), _get(choice, "finish_reason"))
        why = next((str(one) for one in reasons if isinstance(one, str)), "")
        _refuse(request.maker, why.lower(), str(_get(message, "content") or "it gave no picture"), 200)
    cost = _get(_get(answer, "usage"), "cost")
    if found.startswith("data:"):
        made = _decode_picture(request.maker, found.partition(",")[2])
    else:
        made = await _fetch_result(request.maker, found, fetcher)
    return structs.replace(made, cost=float(cost) if isinstance(cost, int | float) else None)


def _read_answer(maker: PictureMaker, page: FetchedPage) -> object:
    try:
        answer: object = msgspec.json.decode(page.body)
    except (msgspec.DecodeError, RecursionError):
        answer = None
    if page.status not in (200, 201, 202):
        error = _get(answer, "error")
        row = _first_row(_get(answer, "detail"))
        code = _get(error, "code") or _get(row, "type") or _get(answer, "error_type")
        said = _get(error, "message") or _get(row, "msg") or _get(answer, "detail") or error
        _refuse(maker, str(code or ""), said if isinstance(said, str) else "", page.status)
    if answer is None:
        raise ToolError(f"{maker.title} did not answer with JSON.")
    return answer


def _refuse(maker: PictureMaker, code: str, said: str, status: int) -> NoReturn:
    """Raise ToolError that says why there is no picture: a refusal for what it would show is named as such."""
    words = " ".join(said.split())[:_MAX_SAID]
    if any(one in code.lower() for one in _REFUSED_CODES) or any(one in words.lower() for one in _REFUSED_WORDS):
        raise ToolError(f"{maker.title} refuses to make this picture because of what it would show: {words or code}")
    hint = {
        401: f"The key in {maker.key_variables[0]} is not accepted.",
        402: "The account has no credit left.",
        403: f"The key in {maker.key_variables[0]} is not accepted.",
        429: "It has been asked too often; try again later.",
    }.get(status, "")
    what = f"answered with status {status}" if status not in (0, 200) else "made no picture"
    raise ToolError(" ".join(part for part in (f"{maker.title} {what}.", hint, words) if part))


async def _fetch_result(maker: PictureMaker, url: object, fetcher: WebFetcher) -> MadePicture:
    """Return the picture at an address that a service has named, which is judged as any address."""
    if not isinstance(url, str) or not url:
        raise ToolError(f"{maker.title} gave no picture.")
    if url.startswith("data:"):
        return _decode_picture(maker, url.partition(",")[2])
    page = await fetcher.fetch_page(url)
    if page.status != 200 or page.other_site:
        raise ToolError(f"{maker.title} has made the picture, and it cannot be fetched: status {page.status}.")
    return _check_picture(maker, page.body)


def _decode_picture(maker: PictureMaker, encoded: str) -> MadePicture:
    try:
        return _check_picture(maker, base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise ToolError(f"{maker.title} gave a picture that cannot be read.") from None


def _check_picture(maker: PictureMaker, data: bytes) -> MadePicture:
    kind = find_media_type(data)
    if not kind:
        raise ToolError(f"{maker.title} gave something that is no picture.")
    return MadePicture(data=data, media_type=kind)


def _to_data_url(image: ImagePart) -> str:
    return f"data:{image.media_type};base64,{image.data}"


def _get(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _first_row(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


_WIRES: Mapping[str, Callable[[PictureRequest, WebFetcher], Awaitable[MadePicture]]] = {
    "openai_images": _ask_openai,
    "fal_queue": _ask_fal,
    "chat_modalities": _ask_chat,
}
