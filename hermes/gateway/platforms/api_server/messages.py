"""Messages in OpenAI's formats, parsed strictly: texts, pictures and files."""

import asyncio
import base64
import binascii
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.core.messages import ImagePart, Message, Role, TextPart, ToolResultPart
from hermes.gateway.platforms.api_server.errors import ApiRequestError
from hermes.gateway.platforms.api_server.session_lookup import ParsedConversation
from hermes.gateway.text.recordings import RecordingListener
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.formats.openai_format import from_openai, history_for_prompt
from hermes.sessions.untrusted_text import program_note
from hermes.util.text import clean_surrogates

Plain = Mapping[str, object]
_INSTRUCTIONS = ("system", "developer")
_TEXTS = ("text", "input_text", "output_text", "refusal")
_PICTURES = ("image_url", "input_image")
_RECORDING = "input_audio"
_FILES = ("file", "input_file", _RECORDING)
_PICTURE = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,")
_LONGEST_URL = 4_096
_UNSAFE_CHARACTERS = re.compile(r"[^\w.\- ]+")
MAX_MESSAGES = 20_000
MAX_FILES = 20


class UploadedFile(Struct, frozen=True):
    """A file that came with a message."""

    name: str
    data: bytes
    is_recording: bool = False
    """Whether the person has spoken it in the place of a text."""

    @property
    def placeholder(self) -> str:
        """The text that stands for it in the conversation."""
        return f"[file: {self.name} {hashlib.sha256(self.data).hexdigest()[:12]}]"


def parse_conversation(messages: Sequence[object], system: str = "") -> tuple[ParsedConversation, list[UploadedFile]]:
    """Parse the whole conversation that a client sends each time, and the files of its last message. Raises
    ApiRequestError.
    """
    if not messages or len(messages) > MAX_MESSAGES:
        raise ApiRequestError(400, f"`messages` must hold 1 to {MAX_MESSAGES} messages.", param="messages")
    read = [_parse_message(one, f"messages[{number}]") for number, one in enumerate(messages)]
    instructions = [_join_texts(message["content"]) for message, _ in read if message["role"] in _INSTRUCTIONS]
    spoken = [one for one in read if one[0]["role"] not in _INSTRUCTIONS]
    now, results, before, sent = _split_conversation(spoken)
    if not results and (not now or not now[0].parts):
        said = "The last message must be the user's, and hold something, or hold the result of an open call."
        raise ApiRequestError(400, said, param="messages")
    message = now[0] if now else Message(role=Role.USER, parts=())
    return ParsedConversation("\n\n".join(filter(None, [system, *instructions])), tuple(before), message, results), sent


def parse_input(given: str | list[object], instructions: str | None) -> tuple[ParsedConversation, list[UploadedFile]]:
    """Parse the `input` of a request, where a text is the user's message, with its instructions. Raises
    ApiRequestError.
    """
    messages = _join_items(given) if isinstance(given, list) else [{"role": "user", "content": given}]
    return parse_conversation(messages, instructions or "")


def _join_items(items: Sequence[object]) -> list[object]:
    """Return the items of a Responses request as messages: calls join the assistant's message before them."""
    messages: list[object] = []
    for item in items:
        kind = item.get("type", "message") if isinstance(item, Mapping) else "message"
        if not isinstance(item, Mapping) or kind == "message":
            messages.append(item)
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            last = messages[-1] if messages else None
            if isinstance(last, dict) and last.get("role") == "assistant":
                messages[-1] = {**last, "tool_calls": [*last.get("tool_calls", ()), call]}
            else:
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        elif kind != "reasoning":  # that of other models, which nobody here can use
            raise ApiRequestError(400, f"Items of the kind {str(kind)[:40]!r} are not taken.", param="input")
    return messages


def _split_conversation(
    messages: Sequence[tuple[Plain, list[UploadedFile]]],
) -> tuple[list[Message], tuple[ToolResultPart, ...], list[Message], list[UploadedFile]]:
    """Return the new messages, the results of open calls, the earlier messages, and the files of the new ones."""
    begin = _new_messages_start([message for message, _ in messages])
    answered = _results_start([message for message, _ in messages[:begin]])
    now = from_openai([message for message, _ in messages[begin:]])
    before = history_for_prompt([message for message, _ in messages[:answered]], keeps_open_calls=answered < begin)
    open_ids = {call.call_id for call in before[-1].tool_calls()} if before else None
    results = {
        message["tool_call_id"]: _make_result(message)
        for message, _ in messages[answered:begin]
        if open_ids is None or message.get("tool_call_id") in open_ids
    }
    return now, tuple(results.values()), before, [file for _, files in messages[begin:] for file in files]


def _new_messages_start(messages: Sequence[Plain]) -> int:
    """Return the index of the first new message: the one after the last that is not the user's."""
    begin = len(messages)
    while begin and messages[begin - 1]["role"] == "user":
        begin -= 1
    return begin


def _make_result(message: Plain) -> ToolResultPart:
    call_id, text = str(message["tool_call_id"]), _join_texts(message["content"])
    return ToolResultPart(call_id=call_id, name=str(message.get("name", "")), text=text)


def _results_start(messages: Sequence[Plain]) -> int:
    """Return the index of the first of the results that these messages end with; their number where there is none."""
    begin = len(messages)
    while begin and messages[begin - 1]["role"] == "tool":
        begin -= 1
    return begin


async def build_inbound(
    parsed: ParsedConversation, files: Sequence[UploadedFile], folder: Path, cwd: str, listener: RecordingListener
) -> InboundMessage:
    """Build the session's message from the new ones; save the files, and tell the agent where. The words of a recording
    stand in its place.
    """
    text = "\n\n".join(part.text for part in parsed.now.parts if isinstance(part, TextPart))
    images = tuple(part for part in parsed.now.parts if isinstance(part, ImagePart))
    notes = []
    for file in files:
        if file.is_recording:
            heard = await listener.hear_recording(await _save_file(file, listener.folder), "voice message")
            text = text.replace(file.placeholder, heard.words).strip("\n")
            notes.append(program_note(f"[A voice message came along. {heard.note}]"))
        else:
            notes.append(program_note(f"[A file came along, saved as {await _save_file(file, folder)}.]"))
    return InboundMessage(text=text, images=images, cwd=cwd, quoted=(*notes, *parsed.notes), results=parsed.results)


def _parse_message(given: object, where: str) -> tuple[dict[str, object], list[UploadedFile]]:
    if not isinstance(given, Mapping):
        raise ApiRequestError(400, f"{where} must be an object.", param=where)
    role = given.get("role")
    if role not in (*_INSTRUCTIONS, "user", "assistant", "tool"):
        raise ApiRequestError(
            400, f"{where}.role must be system, developer, user, assistant or tool.", param=f"{where}.role"
        )
    if role == "tool" and not isinstance(given.get("tool_call_id"), str):
        raise ApiRequestError(400, f"{where}.tool_call_id must name a call.", param=f"{where}.tool_call_id")
    content, files = _parse_content(given.get("content"), f"{where}.content")
    kept = {key: given[key] for key in ("tool_calls", "tool_call_id", "name", "reasoning") if key in given}
    return {**kept, "role": role, "content": content}, files


def _parse_content(given: object, where: str) -> tuple[str | list[Plain] | None, list[UploadedFile]]:
    if given is None or isinstance(given, str):
        return given, []
    if not isinstance(given, list):
        raise ApiRequestError(400, f"{where} must be a text or a list of parts.", param=where)
    parts, files = list[Plain](), list[UploadedFile]()
    for number, part in enumerate(given):
        at = f"{where}[{number}]"
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _TEXTS and isinstance(text := part.get("text", part.get("refusal")), str):
            parts.append({"type": "text", "text": text})
        elif kind in _PICTURES:
            parts.append({"type": "image_url", "image_url": {"url": _parse_picture(part.get("image_url"), at)}})
        elif kind in _FILES:
            file = _parse_file(part, at)
            files.append(file)
            parts.append({"type": "text", "text": file.placeholder})
        else:
            raise ApiRequestError(400, f"{at} is of a kind that is not taken: {str(kind)[:40]!r}.", param=at)
    if len(files) > MAX_FILES:
        raise ApiRequestError(400, f"At most {MAX_FILES} files.", param=where)
    return parts, files


def _parse_picture(given: object, where: str) -> str:
    url = given.get("url") if isinstance(given, Mapping) else given
    if isinstance(url, str) and _PICTURE.match(url):
        _decode_base64(url.partition(",")[2], where)
        return url
    if isinstance(url, str) and url.startswith(("https://", "http://")) and len(url) <= _LONGEST_URL:
        return url
    raise ApiRequestError(
        400, f"{where} must be a picture's http address or a data: URL (PNG, JPEG, GIF, WebP).", param=where
    )


def _parse_file(given: Plain, where: str) -> UploadedFile:
    if given.get("type") == _RECORDING:
        return _parse_recording(given, where)
    inner = given.get("file")
    about = inner if isinstance(inner, Mapping) else given
    data, name = about.get("file_data"), about.get("filename")
    if not isinstance(data, str):
        raise ApiRequestError(
            400, f"{where} must carry `file_data`; files by id or address are not taken.", param=where
        )
    head, comma, coded = data.partition(",")
    plain = _UNSAFE_CHARACTERS.sub("_", clean_surrogates(name) if isinstance(name, str) else "").strip(". ")[-80:]
    return UploadedFile(plain or "file", _decode_base64(coded if comma and head.startswith("data:") else data, where))


def _parse_recording(given: Plain, where: str) -> UploadedFile:
    about = given.get("input_audio")
    data, form = (about.get("data"), about.get("format")) if isinstance(about, Mapping) else (None, None)
    if not isinstance(data, str) or form not in ("wav", "mp3"):
        raise ApiRequestError(
            400, f"{where} must carry `input_audio` with `data` and a `format`, wav or mp3.", param=where
        )
    return UploadedFile(f"recording.{form}", _decode_base64(data, where), is_recording=True)


def _decode_base64(coded: str, where: str) -> bytes:
    try:
        return base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        raise ApiRequestError(400, f"{where} is no base64.", param=where) from None


def _join_texts(content: object) -> str:
    if isinstance(content, str):
        return clean_surrogates(content)
    parts = content if isinstance(content, list) else []
    return "\n".join(
        clean_surrogates(str(part["text"])) for part in parts if isinstance(part, Mapping) and "text" in part
    )


async def _save_file(file: UploadedFile, folder: Path) -> Path:
    target = folder / hashlib.sha256(file.data).hexdigest()[:16] / file.name

    def write_file() -> None:
        os.makedirs(target.parent, mode=0o700, exist_ok=True)
        part = target.with_name(f".{os.urandom(6).hex()}")
        with open(part, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(file.data)
        os.replace(part, target)

    await asyncio.to_thread(write_file)
    return target
