"""The mode of a live session: changed by a person, told to the model by a note in the next message.

System prompt and tools stay as they were, so what was sent stays.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.core.errors import UsageError
from hermes.core.messages import PROGRAM, ImagePart, Message, Role, TextPart
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_
from hermes.runtime.mailbox import AttachmentProvider, InboundMessage

if TYPE_CHECKING:
    from hermes.execution.base import BackendHandle
    from hermes.runtime.conversation import LiveConversation
    from hermes.tools.session import ToolState

_BEGINNING = "[Mode: "
_NOTES = {
    WorkMode.ASK: "[Mode: ask. Files may be changed as usual.]",
    WorkMode.PLAN: (
        "[Mode: plan. Nothing can be changed until the person leaves this mode: read, search and run what only looks. "
        "End with a numbered plan of what you would do; the person decides whether it is carried out.]"
    ),
    WorkMode.AUTO: "[Mode: auto. The person is asked less: go on until the task is done, and check your work.]",
}


def check_mode(mode: WorkMode, backend: "BackendHandle") -> None:
    """Raise UsageError for a mode that is not safe where the session's commands run."""
    if mode is WorkMode.AUTO and backend.name == "local":
        raise UsageError(
            N_("Auto mode needs a sandbox: here commands run with all of your rights."),
            N_("`hermes doctor` says what a sandbox needs."),
        )


def make_mode_notes(state: "ToolState", conversation: "LiveConversation") -> AttachmentProvider:
    """Return what tells the model of the mode in the next message, where it does not know of it."""
    is_known = not conversation.messages

    async def attach_note(_inbound: InboundMessage) -> Sequence[ImagePart | TextPart]:
        nonlocal is_known
        if state.mode is WorkMode.ASK and is_known:
            return ()
        # After a change, or where the session began earlier, the transcript says what the model was told last.
        is_known = state.mode is WorkMode.ASK
        note = _NOTES[state.mode]
        told = _find_last_note(conversation.messages) or _NOTES[WorkMode.ASK]
        return () if note == told else (TextPart(note, PROGRAM),)

    return attach_note


def _find_last_note(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message.role is not Role.USER:
            continue
        for part in message.parts:
            if isinstance(part, TextPart) and part.provenance == PROGRAM and part.text.startswith(_BEGINNING):
                return part.text
    return ""
