"""Analyzes shell commands: their effects, and the findings for which a person is asked or the command is refused.

The text is parsed once and walked: words are resolved as far as they are constant, wrappers such as `sudo` are taken
off, programs given as arguments are followed, and each simple command is judged by the rule of its name, with its input
from pipes, files and variables. Arguments that are data (a commit message, a pattern) are never looked at. What cannot
be determined asks.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from hermes.safety.places import Places
from hermes.safety.shell.budget import AnalysisBudget
from hermes.safety.shell.findings import CommandEffect, CommandFinding, CommandJudgement, Verdict
from hermes.safety.shell.late import find_late_evaluation
from hermes.safety.shell.variables import judge_initial_variables
from hermes.safety.shell.walk import ShellWalk
from hermes.safety.shell.words import AnalysisState, initial_state

MAX_COMMAND_CHARS = 200_000
"""Characters of the longest command that is analyzed; a longer one asks."""
_TOO_LONG = "the command has too many parts to be judged"
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INVISIBLE = ("Cf", "Mn", "Me", "Cc", "Co", "Cs")


def normalize_text(text: str) -> str:
    """Return the text as it looks: no escape sequences, compatibility forms folded, no invisible characters."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return _CONTROL.sub("", text)
    folded = unicodedata.normalize("NFKC", text)
    hidden = [char for char in set(folded) - {"\n", "\t"} if unicodedata.category(char) in _INVISIBLE]
    return folded.translate(dict.fromkeys(map(ord, hidden))) if hidden else folded


def analyze_command(
    text: str, cwd: str, places: Places, variables: Mapping[str, str] | None = None, moved: Iterable[str] = ()
) -> CommandJudgement:
    """Analyze what running `text` in `cwd` would do. Linear in the text; it starts, opens and resolves nothing.

    `variables` are those that the shell has when it starts, `moved` is what earlier lines moved or linked. A text that
    looks different from what it is, because of characters that are folded or invisible, is judged in both readings.
    """
    if len(text) > MAX_COMMAND_CHARS:
        return CommandJudgement((CommandFinding(Verdict.ASK, "too-long", "the command is too long to be judged"),))
    # A shell drops NUL.
    text = text.replace("\0", "")
    known = variables or {}
    budget = AnalysisBudget(len(text))
    before = frozenset(moved)
    state = initial_state(places.workspace, cwd, known)
    state.moved.update(before)
    walk = _walk_text(text, state, places, budget)
    shown = normalize_text(text)
    # What takes too long to be parsed asks, in both readings.
    if shown != text and not walk.is_unread:
        again = initial_state(places.workspace, cwd, known)
        again.moved = state.moved
        other = _walk_text(shown, again, places, budget)
        walk.findings.update(other.findings)
        walk.effects.update(other.effects)
        walk.commands.extend(other.commands)
    late = tuple(find_late_evaluation(text, walk.commands))
    findings = (*walk.findings, *(one for one in late if isinstance(one, CommandFinding)))
    effects = (*walk.effects, *(one for one in late if isinstance(one, CommandEffect)))
    return CommandJudgement(findings, effects, tuple(walk.commands), tuple(sorted(state.moved - before)))


def _walk_text(text: str, state: AnalysisState, places: Places, budget: AnalysisBudget) -> ShellWalk:
    walk = ShellWalk(places, budget)
    try:
        if state.variables:
            judge_initial_variables(walk, state)
        walk.judge_script(text, state, None)
    except RecursionError:
        walk.add_unclear("the command is nested too deeply to be read")
    if budget.spent:
        walk.add_unclear(_TOO_LONG)
    return walk
