"""Finds text that a shell evaluates late: it looks like data when a line is read, and is run as a command afterwards.

Subscripts are evaluated wherever a number or a variable's name is wanted (`$((X))`, `[[ -eq ]]`, `let`, `test -v`,
`read`, `declare`, `printf -v`: bash(1), ARITHMETIC EVALUATION), prompts by `${X@P}`, completion by `compgen`.
"""

import re
from collections.abc import Iterable, Iterator

from hermes.safety.shell.findings import CommandEffect, CommandFinding, EffectKind, SimpleCommand, Verdict

_SUBSCRIPT = re.compile(r"\w\[[^\]\n]{0,40}(?:\$\((?!\()|`)")
_PROMPT = re.compile(r"@P\}")
_FROM_HANDLE = re.compile(r"(?:^|[\s/;&|(])(?:ba|z|da|k)?sh[^\n;&|]{0,80}<&\s{0,4}[\d$]")
_HOME_SHELL = re.compile(
    r"\bHOME=(?![\"']?(?:\$HOME|\$\{HOME\}|~)[\"']?\s)[^\s;&|]{1,300}\s+(?:[^\s;&|]{0,100}/)?(?:ba|z|k)?sh\s+-\w{0,8}[il]"
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
_CALLS_BACK = {"compgen": ("-C", "-W", "-F"), "complete": ("-C", "-F"), "mapfile": ("-C",), "readarray": ("-C",)}
_TEXT_PATTERNS = (
    (_SUBSCRIPT, "["),
    (_PROMPT, "@P"),
    (_FROM_HANDLE, "<&"),
    (_HOME_SHELL, "HOME="),
)
_REASON = "the shell evaluates a text late, so what it runs is only known then"


def find_late_evaluation(text: str, commands: Iterable[SimpleCommand]) -> Iterator[CommandFinding | CommandEffect]:
    """Yield findings and effects of late evaluation; none for nearly all lines."""
    if any(sign in text and pattern.search(text) for pattern, sign in _TEXT_PATTERNS) or _has_late_program(
        text, commands
    ):
        yield CommandFinding(Verdict.ASK, "evaluated-late", _REASON, "", contained=True)
        yield CommandEffect(EffectKind.UNKNOWN)


def _has_late_program(text: str, commands: Iterable[SimpleCommand]) -> bool:
    """Return whether programs of the line call others back, or a shell reads from a pipe
    with a name or a co-process.
    """
    named = [(one.argv[0].rpartition("/")[2], one.argv[1:]) for one in commands if one.argv]
    if any(word[:2] in _CALLS_BACK.get(name, ()) for name, words in named for word in words):
        return True
    names = {name for name, _ in named}
    return ("mkfifo" in names or "coproc" in text) and not _SHELLS.isdisjoint(names)
