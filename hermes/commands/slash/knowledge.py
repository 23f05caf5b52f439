"""`/skills`, `/memory`, `/reload-skills`: what it can look up and what it remembers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.admin.memory import memory_admin
from hermes.admin.skills import skill_admin
from hermes.commands.command import Call, Command, Group
from hermes.commands.context import Option
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say, say_many

if TYPE_CHECKING:
    from hermes.admin.skills import SkillDesk

_SKILL_VERBS = ("pending", "diff", "approve", "reject", "view", "rollback", "log")
_SKILL_USAGE = phrase("/skills takes: pending, diff WHICH, approve N, reject N, view NAME, log NAME, rollback NAME.")
_ANSWERS = ("approve", "reject", "undo")
_NONE = {"pending": phrase("No change waits."), "log": phrase("Nothing was ever changed.")}
_MEMORY_VERBS = ("pending", "approve", "reject", "undo", "log", "add", "remove")


async def skills(call: Call) -> None:
    """List skills, look at one, and decide on changes."""
    from hermes.commands.views.skills import change_line, diff_text, skill_line

    desk = skill_admin(call.desk.app)
    match call.words:
        case [] | ["list"]:
            lines = [skill_line(row) for row in await desk.rows()] or [say("There are no skills.")]
        case ["pending"]:
            lines = [change_line(row) for row in await desk.pending()] or [say("No change waits.")]
        case ["diff", which]:
            lines = diff_text(*await desk.diff(which))
        case ["view", name]:
            await _view(call, desk, name)
            return
        case ["install" | "search" | "remove", *_]:
            raise UsageError(phrase("Skills are installed and removed outside of a chat."), "hermes skills --help")
        case [verb, which]:
            lines = await _skill_done(desk, verb, which)
        case _:
            raise UsageError(phrase(_SKILL_USAGE))
    call.desk.tell("\n".join(lines))


async def _view(call: Call, desk: "SkillDesk", name: str) -> None:
    found = await desk.view(name)
    files = found["files"]
    assert isinstance(files, list)
    call.desk.tell("\n".join([f"{found['name']} ({found['tier']}, {found['folder']})", *map(str, files)]))
    call.desk.show(str(found["text"]))


async def _skill_done(desk: "SkillDesk", verb: str, which: str) -> list[str]:
    """What came of a verb that takes a skill or a change. Raises UsageError for one that is none."""
    from hermes.commands.views.skills import change_line, decided

    decide = {"approve": desk.approve, "reject": desk.reject}
    if verb in decide and which.isdecimal():
        return [decided(await decide[verb](int(which[:18])))]
    if verb == "rollback":
        return [decided(await desk.rollback(which, None))]
    if verb == "log":
        none = say("No change of a skill of that name is known.")
        return [change_line(row) for row in await desk.log(which)] or [none]
    raise UsageError(phrase(_SKILL_USAGE))


async def complete_skills(call: Call) -> Sequence[Option]:
    """A verb, then what it is about."""
    words = call.text.split()
    if len(words) + call.text.endswith(" ") < 2:
        return [Option(verb) for verb in _SKILL_VERBS]
    desk = skill_admin(call.desk.app)
    if words[0] in ("approve", "reject", "diff"):
        return [Option(str(row["id"]), str(row["name"])) for row in await desk.pending()]
    return [Option(name) for name in await desk.names()]


async def memory(call: Call) -> None:
    """What is remembered, and deciding on changes of it."""
    from hermes.commands.views.memory import answered, change_lines, file_lines

    desk = memory_admin(call.desk.app, call.desk.actor)
    match call.words:
        case []:
            lines = [line for row in await desk.rows() for line in file_lines(row)]
        case [("pending" | "log") as verb]:
            rows = await {"pending": desk.pending, "log": desk.log}[verb]()
            lines = [line for row in rows for line in change_lines(row)] or [say(_NONE[verb])]
        case [verb, number] if verb in _ANSWERS and number.isdecimal():
            lines = [await answered(desk, verb, int(number[:18]))]
        case [("add" | "remove") as verb, _, *_]:
            write = {"add": desk.add, "remove": desk.remove}[verb]
            lines = [await write("memory", call.text.removeprefix(verb).strip())]
        case _:
            raise UsageError(
                phrase("/memory takes: pending, approve N, reject N, undo N, log, add TEXT, remove WORDS.")
            )
    call.desk.tell("\n".join(lines))


async def complete_memory(call: Call) -> Sequence[Option]:
    """A verb, then a change."""
    if len(call.text.split()) + call.text.endswith(" ") < 2:
        return [Option(verb) for verb in _MEMORY_VERBS]
    return [
        Option(str(row["id"]), str(row["what"])) for row in await memory_admin(call.desk.app, call.desk.actor).pending()
    ]


async def reload_skills(call: Call) -> None:
    """Look for skills anew; they are found by looking, so this only says what there is."""
    call.nothing_behind()
    rows = await skill_admin(call.desk.app).rows()
    usable = sum(row["state"] == "ok" for row in rows)
    call.desk.tell(
        say_many("{n} skill can be used.", "{n} skills can be used.", usable)
        + " "
        + say("The agent hears of new ones after /new or /compress.")
    )


COMMANDS = (
    Command(
        name="skills",
        about=phrase("what the agent can look up; decide on changes that wait"),
        usage=phrase("[pending|diff|approve|reject|view|log|rollback] [which]"),
        group=Group.KNOWLEDGE,
        run=skills,
        complete=complete_skills,
    ),
    Command(
        name="memory",
        about=phrase("what is remembered; decide on changes that wait"),
        usage=phrase("[pending|approve|reject|undo|log|add|remove] [which]"),
        group=Group.KNOWLEDGE,
        run=memory,
        complete=complete_memory,
    ),
    Command(
        name="reload-skills",
        aliases=("reload_skills",),
        about=phrase("look for new skills"),
        group=Group.KNOWLEDGE,
        run=reload_skills,
    ),
)
