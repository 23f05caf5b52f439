"""Which skills a conversation used, and whether its turn ended well: what the measure of their use is made of."""

import re
from collections.abc import Iterable

import msgspec

from hermes.core.messages import Message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Source, TextPart, ToolCallPart, ToolResultPart, ToolStatus

CALLED = "[Skill {name}, which the person asked for:]"
"""The line that stands before a skill's text in a person's message."""
_CALLED = re.compile(r"\[Skill ([a-z0-9-]{1,64}), which the person asked for:\]")


class _View(msgspec.Struct):
    name: str = ""
    file_path: str = ""


def used_skills(messages: Iterable[Message]) -> tuple[str, ...]:
    """The skills whose instructions were read in these messages, by tool or by `/name`, in that order, each once."""
    asked: dict[str, str] = {}
    found: dict[str, None] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.name == "skill_view":
                asked[part.call_id] = _name(part.arguments)
            elif isinstance(part, ToolResultPart) and part.status is ToolStatus.OK and asked.get(part.call_id):
                found[asked[part.call_id]] = None
            elif isinstance(part, TextPart) and (called := _called(part)):
                found[called] = None
    return tuple(found)


def ended_well(reason: ExitReason) -> bool | None:
    """Whether a turn that ended so did its work; None where that says nothing about the skills that it used."""
    if reason.completed:
        return True
    said_nothing = (
        ExitReason.INTERRUPTED,
        ExitReason.PROVIDER_ERROR,
        ExitReason.RETRIES_EXHAUSTED,
        ExitReason.SPEND_LIMIT,
        ExitReason.LOCAL_ERROR,
        ExitReason.COMPRESSION_EXHAUSTED,
    )
    return None if reason in said_nothing else False


def _called(part: TextPart) -> str:
    if part.provenance is None or part.provenance.source is Source.PERSON:
        return ""  # who types that line has not used a skill
    match = _CALLED.match(part.text)
    return match[1] if match else ""


def _name(arguments: str) -> str:
    try:
        return msgspec.json.decode(arguments, type=_View).name
    except msgspec.MsgspecError:
        return ""
