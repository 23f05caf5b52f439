"""What a program says, in OpenAI's forms, read with care: texts, pictures and files."""

import asyncio
import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.messages import Message
from hermes.core.parts import ImagePart, TextPart
from hermes.gateway.platforms.api_server.errors import ApiError
from hermes.gateway.platforms.api_server.session_lookup import Said
from hermes.runtime.mailbox import Inbound
from hermes.sessions.formats.openai_format import closed_history, from_openai
from hermes.sessions.untrusted_text import program_note
from hermes.util.text import clean_surrogates

Plain = Mapping[str, object]
_INSTRUCTIONS = ("system", "developer")
_TEXTS = ("text", "input_text", "output_text", "refusal")
_PICTURES = ("image_url", "input_image")
_FILES = ("file", "input_file")
_PICTURE = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,")
_LONGEST_URL = 4_096
_SIGNS = re.compile(r"[^\w.\- ]+")
MOST_MESSAGES = 20_000
MOST_FILES = 20


class SentFile(Struct, frozen=True):
    """A file that came with a message."""

    name: str
    data: bytes

    @property
    def mark(self) -> str:
        """How it stands in what was said."""
        return f"[file: {self.name} {hashlib.sha256(self.data).hexdigest()[:12]}]"


def conversation(messages: Sequence[object], system: str = "") -> tuple[Said, list[SentFile]]:
    """A whole conversation as a client sends it each time, and the files of its last message. Raises ApiError."""
    if not messages or len(messages) > MOST_MESSAGES:
        raise ApiError(400, f"`messages` must hold 1 to {MOST_MESSAGES} messages.", param="messages")
    read = [_message(one, f"messages[{number}]") for number, one in enumerate(messages)]
    instructions = [_joined(message["content"]) for message, _ in read if message["role"] in _INSTRUCTIONS]
    spoken = [one for one in read if one[0]["role"] not in _INSTRUCTIONS]
    now, before, sent = _parted(spoken)
    if not now or not now[0].parts:
        raise ApiError(400, "The last message must be the user's, and hold something.", param="messages")
    return Said("\n\n".join(filter(None, [system, *instructions])), tuple(before), now[0]), sent


def _parted(spoken: Sequence[tuple[Plain, list[SentFile]]]) -> tuple[list[Message], list[Message], list[SentFile]]:
    """What is said now, what was said before, and the files of now."""
    begin = _begin([message for message, _ in spoken])
    now = from_openai([message for message, _ in spoken[begin:]])
    before = closed_history([message for message, _ in spoken[:begin]])
    return now, before, [file for _, files in spoken[begin:] for file in files]


def _begin(spoken: Sequence[Plain]) -> int:
    """Where what is said now begins: behind the last message that is not the user's."""
    begin = len(spoken)
    while begin and spoken[begin - 1]["role"] == "user":
        begin -= 1
    return begin


async def inbound(said: Said, files: Sequence[SentFile], folder: Path, cwd: str) -> Inbound:
    """What is said now, for a session; the files are saved, and the agent is told where."""
    texts = [part.text for part in said.now.parts if isinstance(part, TextPart)]
    images = tuple(part for part in said.now.parts if isinstance(part, ImagePart))
    notes = [program_note(f"[A file came along, saved as {await _saved(file, folder)}.]") for file in files]
    return Inbound(text="\n\n".join(texts), images=images, cwd=cwd, quoted=tuple(notes))


def _message(given: object, where: str) -> tuple[dict[str, object], list[SentFile]]:
    if not isinstance(given, Mapping):
        raise ApiError(400, f"{where} must be an object.", param=where)
    role = given.get("role")
    if role not in (*_INSTRUCTIONS, "user", "assistant", "tool"):
        raise ApiError(400, f"{where}.role must be system, developer, user, assistant or tool.", param=f"{where}.role")
    content, files = _content(given.get("content"), f"{where}.content")
    kept = {key: given[key] for key in ("tool_calls", "tool_call_id", "name", "reasoning") if key in given}
    return {**kept, "role": role, "content": content}, files


def _content(given: object, where: str) -> tuple[str | list[Plain] | None, list[SentFile]]:
    if given is None or isinstance(given, str):
        return given, []
    if not isinstance(given, list):
        raise ApiError(400, f"{where} must be a text or a list of parts.", param=where)
    parts, files = list[Plain](), list[SentFile]()
    for number, part in enumerate(given):
        at = f"{where}[{number}]"
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _TEXTS and isinstance(text := part.get("text", part.get("refusal")), str):
            parts.append({"type": "text", "text": text})
        elif kind in _PICTURES:
            parts.append({"type": "image_url", "image_url": {"url": _picture(part.get("image_url"), at)}})
        elif kind in _FILES:
            file = _file(part, at)
            files.append(file)
            parts.append({"type": "text", "text": file.mark})
        else:
            raise ApiError(400, f"{at} is of a kind that is not taken: {str(kind)[:40]!r}.", param=at)
    if len(files) > MOST_FILES:
        raise ApiError(400, f"At most {MOST_FILES} files.", param=where)
    return parts, files


def _picture(given: object, where: str) -> str:
    url = given.get("url") if isinstance(given, Mapping) else given
    if isinstance(url, str) and _PICTURE.match(url):
        _decoded(url.partition(",")[2], where)
        return url
    if isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= _LONGEST_URL:
        return url
    raise ApiError(400, f"{where} must be a picture's http address or a data: URL (PNG, JPEG, GIF, WebP).", param=where)


def _file(given: Plain, where: str) -> SentFile:
    inner = given.get("file")
    about = inner if isinstance(inner, Mapping) else given
    data, name = about.get("file_data"), about.get("filename")
    if not isinstance(data, str):
        raise ApiError(400, f"{where} must carry `file_data`; files by id or address are not taken.", param=where)
    head, comma, coded = data.partition(",")
    plain = _SIGNS.sub("_", clean_surrogates(name) if isinstance(name, str) else "").strip(". ")[-80:]
    return SentFile(plain or "file", _decoded(coded if comma and head.startswith("data:") else data, where))


def _decoded(coded: str, where: str) -> bytes:
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{where} is no base64.", param=where) from None


def _joined(content: object) -> str:
    if isinstance(content, str):
        return clean_surrogates(content)
    parts = content if isinstance(content, list) else []
    return "\n".join(
        clean_surrogates(str(part["text"])) for part in parts if isinstance(part, Mapping) and "text" in part
    )


async def _saved(file: SentFile, folder: Path) -> Path:
    target = folder / hashlib.sha256(file.data).hexdigest()[:16] / file.name

    def write() -> None:
        os.makedirs(target.parent, mode=0o700, exist_ok=True)
        part = target.with_name(f".{os.urandom(6).hex()}")
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(file.data)
        os.replace(part, target)

    await asyncio.to_thread(write)
    return target
