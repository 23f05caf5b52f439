"""The transcript of a session as a file of JSON lines, in the shape that hooks for Claude Code read."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from hermes.core.encoding import to_json
from hermes.core.messages import (
    ImagePart,
    Message,
    ReasoningPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)

_MAX_MESSAGES = 2_000
"""The most messages of an earlier time that are written when the file is made."""


class TranscriptFile:
    """Appends what is new of a session's messages to a private file, once each, when a hook wants to read it."""

    def __init__(
        self, file: Path, session_id: str, folder: str, list_messages: Callable[[], Sequence[Message]]
    ) -> None:
        self._file = file
        self._session_id = session_id
        self._folder = folder
        self._list_messages = list_messages
        self._last: Message | None = None
        self._is_begun = False

    def update(self) -> str:
        """Write what is new, and return the file's path; an empty one where it cannot be written."""
        messages = self._list_messages()
        fresh = self._find_fresh(messages)
        if not fresh and self._is_begun:
            return str(self._file)
        lines = b"".join(self._format(one) + b"\n" for one in fresh)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, flags | (os.O_APPEND if self._is_begun else os.O_TRUNC), 0o600)
            with open(handle, "wb") as file:
                file.write(lines)
        except OSError:
            return ""
        self._is_begun = True
        self._last = messages[-1] if messages else None
        return str(self._file)

    def _find_fresh(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages behind the last one that was written; where that is gone all, in a file begun anew."""
        if self._last is not None:
            for back, message in enumerate(reversed(messages)):
                if message is self._last:
                    return messages[len(messages) - back :]
            self._is_begun = False
        return messages[-_MAX_MESSAGES:]

    def _format(self, message: Message) -> bytes:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        return to_json(
            {
                "type": role,
                "sessionId": self._session_id,
                "cwd": self._folder,
                "isMeta": message.synthetic,
                "message": {"role": role, "content": [_format_part(part) for part in message.parts]},
            }
        )


def _format_part(part: object) -> dict[str, object]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    if isinstance(part, ToolCallPart):
        return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": _read_arguments(part.arguments)}
    if isinstance(part, ToolResultPart):
        is_error = part.status is not ToolStatus.OK
        return {"type": "tool_result", "tool_use_id": part.call_id, "content": part.text, "is_error": is_error}
    if isinstance(part, ReasoningPart):
        return {"type": "thinking", "thinking": part.text}
    return {"type": "image" if isinstance(part, ImagePart) else "text", "text": ""}


def _read_arguments(raw: str) -> object:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {"text": raw}
