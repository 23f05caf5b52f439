"""The message form `/name what to do`: a skill that the user asks for by its name, attached to their message."""

import re

from hermes.core.parts import Provenance, Source, TextPart
from hermes.safety.fencing import fence_untrusted_text
from hermes.skills.catalog import Skill
from hermes.skills.usage import SKILL_MARK

_COMMAND = re.compile(r"/([a-z0-9]+(?:-[a-z0-9]+)*)(?=\s|\Z)")


def parse_skill_name(text: str) -> str:
    """Return the skill name that a message begins with as a command; empty when there is none. A path has a second
    slash.
    """
    match = _COMMAND.match(text)
    return match[1] if match else ""


def build_skill_part(skill: Skill, body: str) -> TextPart:
    """Build the part of the user's message with the skill's instructions; those of an untrusted skill are fenced."""
    origin = skill_provenance(skill)
    missing = f"\n[It lacks here: {', '.join(skill.missing)}.]" if skill.missing else ""
    text = f"{body}{missing}\n[Its other files lie in {skill.folder}.]"
    return TextPart(
        f"{SKILL_MARK.format(name=skill.name)}\n{fence_untrusted_text(text, origin) if origin.is_untrusted else text}",
        origin,
    )


def skill_provenance(skill: Skill) -> Provenance:
    """Return the provenance of a skill's text."""
    if skill.trusted:
        return Provenance(Source.FILE, f"skill {skill.name}", vouched=True)
    return Provenance(Source.OTHER, f"{Source.FILE}:{skill.folder}")
