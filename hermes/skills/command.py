"""`/name what to do`: a skill that the person asks for by its name, brought along with their message."""

import re

from hermes.core.parts import Provenance, Source, TextPart
from hermes.safety.fencing import fence
from hermes.skills.catalogue import Skill
from hermes.skills.use import CALLED

_COMMAND = re.compile(r"/([a-z0-9]+(?:-[a-z0-9]+)*)(?=\s|\Z)")


def named(text: str) -> str:
    """The name that a message begins with as a command; empty when it begins with none. A path has a second slash."""
    match = _COMMAND.match(text)
    return match[1] if match else ""


def skill_part(skill: Skill, body: str) -> TextPart:
    """The skill's instructions as a part of the person's message; a stranger's are fenced."""
    origin = provenance(skill)
    missing = f"\n[It lacks here: {', '.join(skill.missing)}.]" if skill.missing else ""
    text = f"{body}{missing}\n[Its other files lie in {skill.folder}.]"
    return TextPart(f"{CALLED.format(name=skill.name)}\n{fence(text, origin) if origin.untrusted else text}", origin)


def provenance(skill: Skill) -> Provenance:
    """Whose words a skill's are."""
    if skill.vouched:
        return Provenance(Source.FILE, f"skill {skill.name}", vouched=True)
    return Provenance(Source.OTHER, f"{Source.FILE}:{skill.folder}")
