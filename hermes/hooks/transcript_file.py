"""The transcript of a session as a file of JSON lines, in the shape that hooks for Claude Code read."""

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.core.encoding import to_json
from hermes.core.events import Event, MessageAppended
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
"""The most messages that wait to be written; of more the oldest are left out."""


class TranscriptFile:
    """Appends what is new of a session's messages to a private file, once each, when a hook wants to read it.

    Messages that are taken back or summarised later stay in it: it says what was said.
    """

    def __init__(self, file: Path, session_id: str, folder: str, earlier: Sequence[Message]) -> None:
        self._file = file
        self._session_id = session_id
        self._folder = folder
        self._waiting = deque(earlier, maxlen=_MAX_MESSAGES)
        self._is_begun = False

    def take_event(self, event: Event) -> None:
        """Take what was appended to the session; it is written when somebody wants to read the file."""
        if isinstance(event, MessageAppended):
            self._waiting.append(event.message)

    def update(self) -> str:
        """Write what is new, and return the file's path; an empty one where it cannot be written."""
        if self._is_begun and not self._waiting:
            return str(self._file)
        lines = b"".join(self._format(one) + b"\n" for one in self._waiting)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, flags | (os.O_APPEND if self._is_begun else os.O_TRUNC), 0o600)
            with open(handle, "wb") as file:
                file.write(lines)
        except OSError:
            return ""
        self._is_begun = True
        self._waiting.clear()
        return str(self._file)

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
