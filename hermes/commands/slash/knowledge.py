"""`/skills`, `/memory`, `/reload-skills`: show skills and memories, and decide on their changes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.admin.skills import skill_admin
from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.commands.context import MenuOption
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, tr, tr_plural

if TYPE_CHECKING:
    from hermes.admin.skills import SkillAdmin

_SKILL_VERBS = ("pending", "diff", "approve", "reject", "view", "rollback", "log")
_SKILL_USAGE = N_("/skills takes: pending, diff WHICH, approve N, reject N, view NAME, log NAME, rollback NAME.")


async def manage_skills(call: CommandCall) -> None:
    """List skills, view one, or decide on changes."""
    from hermes.commands.views.skills import format_skill, format_skill_change, format_skill_diff

    admin = skill_admin(call.context.app)
    match call.words:
        case [] | ["list"]:
            lines = [format_skill(row) for row in await admin.list_skills()] or [tr("There are no skills.")]
        case ["pending"]:
            lines = [format_skill_change(row) for row in await admin.list_pending()] or [tr("No change waits.")]
        case ["diff", which]:
            lines = format_skill_diff(*await admin.diff_change(which))
        case ["view", name]:
            await _show_skill(call, admin, name)
            return
        case ["install" | "search" | "remove", *_]:
            raise UsageError(N_("Skills are installed and removed outside of a chat."), "hermes skills --help")
        case [verb, which]:
            lines = await _run_skill_verb(admin, verb, which)
        case _:
            raise UsageError(N_(_SKILL_USAGE))
    call.context.tell("\n".join(lines))


async def _show_skill(call: CommandCall, admin: "SkillAdmin", name: str) -> None:
    found = await admin.view_skill(name)
    files = found["files"]
    assert isinstance(files, list)
    call.context.tell("\n".join([f"{found['name']} ({found['tier']}, {found['folder']})", *map(str, files)]))
    call.context.show(str(found["text"]))


async def _run_skill_verb(admin: "SkillAdmin", verb: str, which: str) -> list[str]:
    """Run a verb on a skill or a change, and return lines about the result. Raises UsageError for an unknown verb."""
    from hermes.commands.views.skills import format_decided_change, format_skill_change

    decide = {"approve": admin.approve_change, "reject": admin.reject_change}
    if verb in decide and which.isdecimal():
        return [format_decided_change(await decide[verb](int(which[:18])))]
    if verb == "rollback":
        return [format_decided_change(await admin.rollback_skill(which, None))]
    if verb == "log":
        none = tr("No change of a skill of that name is known.")
        return [format_skill_change(row) for row in await admin.list_log(which)] or [none]
    raise UsageError(N_(_SKILL_USAGE))


async def complete_skills(call: CommandCall) -> Sequence[MenuOption]:
    """Complete a verb, then a skill or a change."""
    words = call.text.split()
    if len(words) + call.text.endswith(" ") < 2:
        return [MenuOption(verb) for verb in _SKILL_VERBS]
    admin = skill_admin(call.context.app)
    if words[0] in ("approve", "reject", "diff"):
        return [MenuOption(str(row["id"]), str(row["name"])) for row in await admin.list_pending()]
    return [MenuOption(name) for name in await admin.usable_names()]


async def reload_skills(call: CommandCall) -> None:
    """Report the skills that can be used. They are found on each look, so nothing needs to be reloaded."""
    call.require_no_arguments()
    rows = await skill_admin(call.context.app).list_skills()
    usable = sum(row["state"] == "ok" for row in rows)
    call.context.tell(
        tr_plural("{n} skill can be used.", "{n} skills can be used.", usable)
        + " "
        + tr("The agent hears of new ones after /new or /compress.")
    )


COMMANDS = (
    SlashCommand(
        name="skills",
        about=N_("what the agent can look up; decide on changes that wait"),
        usage=N_("[pending|diff|approve|reject|view|log|rollback] [which]"),
        group=CommandGroup.KNOWLEDGE,
        run=manage_skills,
        complete=complete_skills,
    ),
    SlashCommand(
        name="reload-skills",
        aliases=("reload_skills",),
        about=N_("look for new skills"),
        group=CommandGroup.KNOWLEDGE,
        run=reload_skills,
    ),
)
