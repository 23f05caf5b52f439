"""The prompt's part about skills: a line for each, never what they say."""

from collections.abc import Sequence

from hermes.context.prompt import Tier
from hermes.skills.catalogue import Catalogue, Skill
from hermes.util.text import escaped, one_line

INDEX_LIMIT = 3_000
"""Characters of the list of skills."""
_LINES = (72, 45)
"""Characters of a description, the first that lets the list fit."""
GUIDANCE = "Skills are proven instructions. When one fits the task, read it with skill_view first."
WRITING = " What took several attempts to find out, keep with skill_manage: mend the skill you used, or create one."


class SkillsSection:
    """The index of skills as it is when an epoch begins. `writes` says whether the model may propose changes."""

    name = "skills"
    tier = Tier.CONTEXT

    def __init__(self, catalogue: Catalogue, *, writes: bool) -> None:
        self._catalogue = catalogue
        self._writes = writes
        self._remarks: tuple[str, ...] = ()

    def text(self) -> str:
        """The guidance and the list; empty without skills that could be used or written."""
        skills = self._catalogue.all()
        self._remarks = tuple(
            f"The skill {escaped(skill.name)} cannot be used: {escaped(skill.head.wrong[0])}."
            for skill in skills
            if skill.head.wrong
        )
        listed = listing([skill for skill in skills if skill.offered])
        if not listed and not self._writes:
            return ""
        return "\n".join(filter(None, (GUIDANCE + (WRITING if self._writes else ""), listed)))

    def remarks(self) -> Sequence[str]:
        """The skills that cannot be used, and why."""
        return self._remarks


def listing(skills: Sequence[Skill], limit: int = INDEX_LIMIT) -> str:
    """Names with descriptions, as long as the list fits; else names by category, and how many are left. Of those that
    nobody vouches for only how many there are: what they are called is a stranger's choice too."""
    strangers = sum(not skill.vouched for skill in skills)
    told = f"- {strangers} in folders that nobody vouches for: skills_list names them" if strangers else ""
    known = _vouched([skill for skill in skills if skill.vouched], limit - len(told) - 1)
    return "\n".join(filter(None, (known, told)))


def _vouched(skills: Sequence[Skill], limit: int) -> str:
    for width in _LINES:
        text = "\n".join(f"- {skill.name}: {described(skill, width)}" for skill in skills)
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
        line = f"- {one_line(escaped(category), 40)}: "
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


def described(skill: Skill, width: int) -> str:
    """A skill's description on one line; a stranger's is not given."""
    if not skill.vouched:
        return "(nobody vouches for its folder)"
    told = one_line(escaped(skill.head.description), 2 * width)
    return told if len(told) <= width else one_line(told.partition(". ")[0], width)
