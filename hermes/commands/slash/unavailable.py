"""Explain in a sentence what replaces commands that people know from other agents."""

from hermes.commands.command import CommandCall, CommandGroup, RunCommand, SlashCommand
from hermes.i18n.messages import N_, tr

_REPLACEMENTS = (
    (
        "reload",
        (),
        N_("Keys and settings are read when Hermes starts: leave, and `hermes --continue` goes on here."),
    ),
    ("debug", (), N_("/doctor and `hermes logs` tell what there is to know; nothing is uploaded anywhere.")),
    ("plugins", (), N_("Plug-ins are Python packages; `hermes doctor` and `hermes tools` show what they brought.")),
    ("learn", (), N_("Say it in a message: “Make a skill of …”. /skills pending shows what came of it.")),
    ("curator", (), N_("/skills shows how skills are used, and /skills rollback NAME takes a change back.")),
    ("bundles", (), N_("There are no bundles of skills; a skill can name others. /skills lists them.")),
    (
        "journey",
        ("learning", "memory-graph"),
        N_("/memory log and /skills log NAME tell what was learned, and when."),
    ),
    ("subgoal", (), N_("Write it into the goal itself: /goal TEXT sets the whole of it anew.")),
    ("footer", (), N_("The line below the input says it all the time: /statusbar.")),
    ("indicator", (), N_("There is one sign for work, and /skin chooses its colours.")),
    (
        "approve",
        ("deny",),
        N_("A question is answered where it is shown; /approvals shows those that wait elsewhere."),
    ),
)


def _explain(text: str) -> RunCommand:
    async def show_explanation(call: CommandCall) -> None:
        call.context.tell(tr(text))

    return show_explanation


COMMANDS = tuple(
    SlashCommand(name=name, aliases=aliases, about=text, group=CommandGroup.ELSEWHERE, run=_explain(text))
    for name, aliases, text in _REPLACEMENTS
)
