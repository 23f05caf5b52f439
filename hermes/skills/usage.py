"""Finds which skills a conversation used, and whether its turn ended well: the basis of the usefulness counts."""

import re
from collections.abc import Iterable

import msgspec

from hermes.core.messages import Message
from hermes.core.outcomes import ExitReason
from hermes.core.parts import Source, TextPart, ToolCallPart, ToolResultPart, ToolStatus

SKILL_MARK = "[Skill {name}, which the person asked for:]"
"""The line that stands before a skill's text in a person's message."""
_SKILL_MARK_LINE = re.compile(r"\[Skill ([a-z0-9-]{1,64}), which the person asked for:\]")


class _ViewArguments(msgspec.Struct):
    name: str = ""
    file_path: str = ""


def find_used_skills(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the skills whose instructions were read in these messages, by tool or by `/name`, in order, each once."""
    asked: dict[str, str] = {}
    found: dict[str, None] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.name == "skill_view":
                asked[part.call_id] = _parse_view_name(part.arguments)
            elif isinstance(part, ToolResultPart) and part.status is ToolStatus.OK and asked.get(part.call_id):
                found[asked[part.call_id]] = None
            elif isinstance(part, TextPart) and (called := _parse_skill_mark(part)):
                found[called] = None
    return tuple(found)


def has_ended_well(reason: ExitReason) -> bool | None:
    """Return whether a turn that ended so did its work; None where that says nothing about the skills that it used."""
    if reason.is_completed:
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


def _parse_skill_mark(part: TextPart) -> str:
    if part.provenance is None or part.provenance.source is Source.PERSON:
        return ""  # who types that line has not used a skill
    match = _SKILL_MARK_LINE.match(part.text)
    return match[1] if match else ""


def _parse_view_name(arguments: str) -> str:
    try:
        return msgspec.json.decode(arguments, type=_ViewArguments).name
    except msgspec.MsgspecError:
        return ""
