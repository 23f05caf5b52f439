"""Explain in a sentence what replaces commands that people know from other agents."""

from hermes.commands.command import CommandCall, CommandGroup, RunCommand, SlashCommand
from hermes.i18n.messages import phrase, say

_REPLACEMENTS = (
    (
        "reload",
        (),
        phrase("Keys and settings are read when Hermes starts: leave, and `hermes --continue` goes on here."),
    ),
    ("debug", (), phrase("/doctor and `hermes logs` tell what there is to know; nothing is uploaded anywhere.")),
    ("plugins", (), phrase("Plug-ins are Python packages; `hermes doctor` and `hermes tools` show what they brought.")),
    ("learn", (), phrase("Say it in a message: “Make a skill of …”. /skills pending shows what came of it.")),
    ("curator", (), phrase("/skills shows how skills are used, and /skills rollback NAME takes a change back.")),
    ("bundles", (), phrase("There are no bundles of skills; a skill can name others. /skills lists them.")),
    (
        "journey",
        ("learning", "memory-graph"),
        phrase("/memory log and /skills log NAME tell what was learned, and when."),
    ),
    ("subgoal", (), phrase("Write it into the goal itself: /goal TEXT sets the whole of it anew.")),
    ("footer", (), phrase("The line below the input says it all the time: /statusbar.")),
    ("indicator", (), phrase("There is one sign for work, and /skin chooses its colours.")),
    (
        "approve",
        ("deny",),
        phrase("A question is answered where it is shown; /approvals shows those that wait elsewhere."),
    ),
)


def _explain(text: str) -> RunCommand:
    async def show_explanation(call: CommandCall) -> None:
        call.context.tell(say(text))

    return show_explanation


COMMANDS = tuple(
    SlashCommand(name=name, aliases=aliases, about=text, group=CommandGroup.ELSEWHERE, run=_explain(text))
    for name, aliases, text in _REPLACEMENTS
)
