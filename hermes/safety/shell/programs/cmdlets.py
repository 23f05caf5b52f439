"""Texts of PowerShell: what each of their commands would do, by its verb."""

import re
from collections.abc import Iterator, Sequence

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.programs import windows
from hermes.safety.shell.words import Word

_VALUED = re.compile(
    r"-(ex\w*|ep|w|windowstyle|v|version|inputformat|outputformat|if|of|configurationname|config|workingdirectory|wd|"
    r"settingsfile|custompipename|psconsolefile|o|i)$",
    re.IGNORECASE,
)
_TEXT = re.compile(r"-(c|co\w*)$", re.IGNORECASE)
_FILE = re.compile(r"-f(i\w*)?$", re.IGNORECASE)
_BETWEEN = re.compile(r"[;|\n{}()]+|&&?|\$\w+\s*=(?!=)")
_NAMES = {
    **dict.fromkeys(("rm", "ri", "del", "rd", "rmdir", "erase"), "Remove-Item"),
    **dict.fromkeys(("clc", "clear-content"), "Clear-Content"),
    **dict.fromkeys(("kill", "spps"), "Stop-Process"),
    "spsv": "Stop-Service",
    "sp": "Set-ItemProperty",
    "rp": "Remove-ItemProperty",
}
"""Short names that PowerShell has from the start."""
_QUOTES = "'\""
_LOOKING = re.compile(
    r"(invoke-(webrequest|restmethod|command)|iwr|start-process|get-credential|add-type)$", re.IGNORECASE
)
"""What a program text is asked about by other rules, or does no harm in it."""
_MOST = 100


def judge(call: ProgramCall) -> None:
    """Judge what powershell or pwsh is given on its command line."""
    text = _given(call.name, call.words)
    if text:
        _spoken(call, text)


def _given(name: str, words: Sequence[Word]) -> str:
    """The program text on a command line; empty when there is none."""
    at = 0
    while at < len(words) and words[at].text[:1] == "-":
        if _TEXT.match(words[at].text):
            return _joined(words[at + 1 :])
        if _FILE.match(words[at].text):
            return ""
        at += 2 if _VALUED.match(words[at].text) else 1
    first = words[at].text if at < len(words) else ""
    # What stands alone is a text to the one, and a file to the other.
    spoken = name == "powershell" or "-" in first or " " in first
    return _joined(words[at:]) if spoken and not first.endswith(".ps1") else ""


def _joined(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


def _spoken(call: ProgramCall, text: str) -> None:
    for words in _commands(text[:20_000]):
        name = _NAMES.get(words[0].lower(), words[0])
        inner = ProgramCall(name, [Word(one.strip(_QUOTES)) for one in words[1:]], call.state, None, call.host)
        low = name.lower().removesuffix(".exe")
        if low in windows.RULES:
            windows.judge(ProgramCall(low, inner.words, call.state, None, call.host))
        elif not _LOOKING.match(name):
            windows.powershell(inner)


def _commands(text: str) -> Iterator[list[str]]:
    for piece in _BETWEEN.split(text)[:_MOST]:
        words = piece.replace("`", "").split()
        if words:
            words[0] = words[0].strip(_QUOTES)
            yield words[:40]
