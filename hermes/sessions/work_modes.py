"""The mode of a live session: changed by a person, told to the model by a note in the next message.

System prompt and tools stay as they were, so what was sent stays.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.core.errors import UsageError
from hermes.core.messages import PROGRAM, Message, Role, TextPart
from hermes.core.work_mode import WorkMode
from hermes.i18n.messages import N_

if TYPE_CHECKING:
    from hermes.execution.base import BackendHandle

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


def build_mode_note(mode: WorkMode, messages: Sequence[Message]) -> Sequence[TextPart]:
    """Return what tells the model of the mode; nothing where it was told that last."""
    note = _NOTES[mode]
    told = _find_last_note(messages) or _NOTES[WorkMode.ASK]
    return () if note == told else (TextPart(note, PROGRAM),)


def _find_last_note(messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        if message.role is not Role.USER:
            continue
        for part in message.parts:
            if isinstance(part, TextPart) and part.provenance == PROGRAM and part.text.startswith(_BEGINNING):
                return part.text
    return ""
