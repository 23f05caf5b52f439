"""What a shell command would do, and what of it a person should be asked about, or is never done.

The text is parsed once and walked: words are resolved as far as they are constant, wrappers such as `sudo` are taken
off, programs given as arguments are followed, and each simple command is judged by the rule of its name, with what
comes to it by pipes, files and variables. Arguments that are data (a commit message, a pattern) are never looked at.
What cannot be determined asks.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from hermes.safety.places import Places
from hermes.safety.shell.budget import Budget
from hermes.safety.shell.findings import Effect, Finding, Judgement, Verdict
from hermes.safety.shell.late import evaluated_late
from hermes.safety.shell.variables import started_with
from hermes.safety.shell.walk import Walk
from hermes.safety.shell.words import State, started

MAX_TEXT = 200_000
"""Characters of the longest command that is looked into; a longer one asks."""
_TOO_LONG = "the command has too many parts to be judged"
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INVISIBLE = ("Cf", "Mn", "Me", "Cc", "Co", "Cs")


def normalise(text: str) -> str:
    """The text as it looks: no escape sequences, compatibility forms folded, nothing invisible."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return _CONTROL.sub("", text)
    folded = unicodedata.normalize("NFKC", text)
    hidden = [char for char in set(folded) - {"\n", "\t"} if unicodedata.category(char) in _INVISIBLE]
    return folded.translate(dict.fromkeys(map(ord, hidden))) if hidden else folded


def analyse(
    text: str, cwd: str, places: Places, variables: Mapping[str, str] | None = None, moved: Iterable[str] = ()
) -> Judgement:
    """What running `text` in `cwd` would do. Linear in the text; it starts, opens and resolves nothing.

    `variables` are those that the shell has when it starts, `moved` is what earlier lines moved or linked. A text that
    looks like another one than it is, because of characters that are folded or not seen, is judged in both readings.
    """
    if len(text) > MAX_TEXT:
        return Judgement((Finding(Verdict.ASK, "too-long", "the command is too long to be judged"),))
    # A shell drops NUL.
    text = text.replace("\0", "")
    known = variables or {}
    budget = Budget(len(text))
    before = frozenset(moved)
    state = started(places.workspace, cwd, known)
    state.moved.update(before)
    walk = _read(text, state, places, budget)
    shown = normalise(text)
    # What takes too long to be parsed asks, in both readings.
    if shown != text and not walk.unread:
        again = started(places.workspace, cwd, known)
        again.moved = state.moved
        other = _read(shown, again, places, budget)
        walk.findings.update(other.findings)
        walk.effects.update(other.effects)
        walk.commands.extend(other.commands)
    late = tuple(evaluated_late(text, walk.commands))
    findings = (*walk.findings, *(one for one in late if isinstance(one, Finding)))
    effects = (*walk.effects, *(one for one in late if isinstance(one, Effect)))
    return Judgement(findings, effects, tuple(walk.commands), tuple(sorted(state.moved - before)))


def _read(text: str, state: State, places: Places, budget: Budget) -> Walk:
    walk = Walk(places, budget)
    try:
        if state.variables:
            started_with(walk, state)
        walk.script(text, state, None)
    except RecursionError:
        walk.unclear("the command is nested too deeply to be read")
    if budget.spent:
        walk.unclear(_TOO_LONG)
    return walk
