"""Write turns as JSON files, for inspection and for training."""

import asyncio
from pathlib import Path

import msgspec

from hermes.core.encoding import to_json
from hermes.core.events import TurnEnded
from hermes.core.messages import Message
from hermes.sessions.formats.openai_format import to_openai
from hermes.util.atomic_write import write_atomic


async def write_trajectory(
    folder: Path, session_id: str, *, system: str, messages: list[Message], ended: TurnEnded
) -> Path:
    """Write one turn to `folder` and return the file's path. Raises OSError.

    The file holds the system prompt, the turn's messages as the model saw them (synthetic ones included),
    the outcome and the tokens used.
    """
    document = {
        "session_id": session_id,
        "turn_id": ended.turn_id,
        "completed": ended.reason.is_completed,
        "exit_reason": ended.reason.value,
        "usage": ended.usage,
        "messages": [
            {"role": "system", "content": system},
            *(plain for message in messages for plain in to_openai(message, hidden=True)),
        ],
    }
    file = folder / f"{session_id}_{ended.turn_id}.json"

    def write_file() -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(file, msgspec.json.format(to_json(document)) + b"\n", mode=0o600, sync=False)

    await asyncio.to_thread(write_file)
    return file
