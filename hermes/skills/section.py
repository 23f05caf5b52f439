"""The skills in a session's words: a line for each in the prompt, never their text; which ones a conversation used, and
whether its turn ended well, which is the basis of the usefulness counts.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from hermes.context.prompt import PromptTier
from hermes.core.messages import Message, Source, TextPart, ToolCallPart, ToolResultPart, ToolStatus
from hermes.core.outcomes import ExitReason
from hermes.skills.catalog import Skill, SkillCatalog, SkillTier
from hermes.util.text import escape_unseen_characters, to_one_line

INDEX_LIMIT = 3_000
"""Characters of the list of skills."""
_WIDTHS = (72, 45)
"""Characters of a description; the first width that lets the list fit is used."""
GUIDANCE = "Skills are proven instructions. When one fits the task, read it with skill_view first."
WRITING_GUIDANCE = (
    " What took several attempts to find out, keep with skill_manage: fix the skill you used, or create one."
)


class SkillsSection:
    """The index of skills as it is when an epoch begins. `writes` says whether the model may propose changes."""

    name = "skills"
    tier = PromptTier.CONTEXT

    def __init__(self, catalogue: SkillCatalog, *, writes: bool) -> None:
        self._catalogue = catalogue
        self._writes = writes
        self._remarks: tuple[str, ...] = ()

    def render_text(self) -> str:
        """Return the guidance and the list; empty without skills that could be used or written."""
        skills = self._catalogue.list_all()
        self._remarks = tuple(
            f"The skill {escape_unseen_characters(skill.name)} cannot be used: "
            f"{escape_unseen_characters(skill.head.wrong[0])}."
            for skill in skills
            if skill.head.wrong and skill.tier is not SkillTier.FOREIGN
        )
        listed = format_index([skill for skill in skills if skill.is_offered])
        if not listed and not self._writes:
            return ""
        return "\n".join(filter(None, (GUIDANCE + (WRITING_GUIDANCE if self._writes else ""), listed)))

    def list_remarks(self) -> Sequence[str]:
        """Return the skills that cannot be used, and why."""
        return self._remarks


def format_index(skills: Sequence[Skill], limit: int = INDEX_LIMIT) -> str:
    """Return names with descriptions, as long as the list fits; else names by category, and how many are left.

    Of untrusted skills it says only how many there are: their names are untrusted content too.
    """
    untrusted_count = sum(not skill.trusted for skill in skills)
    told = f"- {untrusted_count} in untrusted folders: skills_list names them" if untrusted_count else ""
    known = _format_trusted([skill for skill in skills if skill.trusted], limit - len(told) - 1)
    return "\n".join(filter(None, (known, told)))


def _format_trusted(skills: Sequence[Skill], limit: int) -> str:
    for width in _WIDTHS:
        text = "\n".join(f"- {skill.name}: {describe_skill(skill, width)}" for skill in skills)
        if len(text) <= limit:
            return text
    by_category: dict[str, list[str]] = {}
    for skill in skills:
        by_category.setdefault(skill.category or "other", []).append(skill.name)
    lines = ["More skills than fit here; skills_list(category) tells what each is for."]
    room = limit - len(lines[0]) - 60
    left = 0
    for category in sorted(by_category):
        names = by_category[category]
        line = f"- {to_one_line(escape_unseen_characters(category), 40)}: "
        shown = 0
        for name in names:
            if len(line) + len(name) + 2 > room:
                break
            line += (", " if shown else "") + name
            shown += 1
        left += len(names) - shown
        if shown:
            room -= len(line) + 1
            lines.append(line)
    return "\n".join([*lines, *([f"- and {left} more"] if left else [])])


def describe_skill(skill: Skill, width: int) -> str:
    """Return a skill's description on one line; an untrusted one's is not given."""
    if not skill.trusted:
        return "(its folder is not trusted)"
    told = to_one_line(escape_unseen_characters(skill.head.description), 2 * width)
    return told if len(told) <= width else to_one_line(told.partition(". ")[0], width)


SKILL_MARK = "[Skill {name}, which the person asked for:]"
"""The line that stands before a skill's text in a person's message."""
_SKILL_MARK_LINE = re.compile(r"\[Skill ([^\W_](?:[^\W_]|-){0,63}), which the person asked for:\]")


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
