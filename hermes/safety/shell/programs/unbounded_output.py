"""Outputs that never end: which programs hand them on, what bounds them, and what keeps them."""

import re

from hermes.safety.shell import dataflow
from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import interpreters, wrappers
from hermes.safety.shell.programs.shells import SHELLS
from hermes.safety.shell.words import ENDLESS, ShellStream, word_set

_FILTERS = word_set(
    """
    cat tac nl rev cut fold fmt strings tr sed gsed awk gawk mawk nawk grep egrep fgrep rg base64 base32 basenc xxd od
    hexdump hd gzip bzip2 xz zstd lz4 pigz pbzip2 lzop brotli compress openssl gpg age pv tee dd expand unexpand paste
    iconv uniq uuencode jq col column dos2unix unix2dos mbuffer buffer ts split csplit ffmpeg lzma zcat gunzip 7z
    """
)
"""Programs whose output goes on as long as their input does."""
_SOURCES = word_set("yes seq jot head eval")
_PASSING = (
    _FILTERS | _SOURCES | SHELLS | frozenset(interpreters.RULES) | (frozenset(wrappers.RULES) - {"timeout", "gtimeout"})
)
"""What else starts, such as an installer that is answered by `yes`, ends by itself."""
_BOUNDED: dict[str, str] = {
    # By program: words with which it ends, though its input does not.
    **dict.fromkeys(("sed", "gsed"), r"(^|[;{}\d$/ ])\s*[qQ]\d*\s*($|[;}])"),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), r"\bexit\b"),
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), r"^-\w*[mq]|^--(max-count|quiet)"),
    "xxd": r"^-l(en)?|^-\d",
    "od": r"^-\w*N|^--read",
    **dict.fromkeys(("hexdump", "hd"), r"^-\w*n|^--length"),
    "dd": r"^count=",
    "openssl": r"^rand$",
    "perl": r"\b(last|exit)\b",
}
_ENDS = {name: re.compile(text) for name, text in _BOUNDED.items()}
_ANSWERED = SHELLS | frozenset(interpreters.RULES)
"""What `yes` is a list of answers to; only `perl -n` and its like go on for as long as there are lines."""
_EACH_LINE = re.compile(r"-[acdfhlsStTuUvwWX0-9i]*[np]")
_KEPT = re.compile(r"-(o|out|O)$|--output(=|$)|--out(=|$)|of=(?!/dev/)")
_SPLITTING = word_set("split csplit")


def followed(call: ProgramCall, out: ShellStream) -> ShellStream:
    """What a program writes, marked as endless where its input is, or what it is told to read."""
    name = call.name
    begins = name in _FILTERS and not (_FILLERS.isdisjoint(call.args) and _RAW.isdisjoint(call.args))
    given = begins or ENDLESS in call.stdin.labels
    if not given and ENDLESS not in out.labels:
        return out
    if not _goes_on(call):
        return ShellStream(out.text, out.labels - {ENDLESS})
    if given and name in _FILTERS and (name in _SPLITTING or any(map(_KEPT.match, call.args))):
        call.add_effect(EffectKind.EXHAUSTS)
        call.ask("fills", "it fills the disk")
    return ShellStream(None, out.labels | {ENDLESS}) if begins else out


def _goes_on(call: ProgramCall) -> bool:
    """Whether a program that is given what has no end has none."""
    name = call.name if call.name in _PASSING else interpreters.unversioned(call.name)
    if ENDLESS in call.stdin.labels and name in _ANSWERED and not any(map(_EACH_LINE.match, call.args)):
        return False
    ends = _ENDS.get(name)
    return name in _PASSING and not (ends is not None and any(map(ends.search, call.args)))


_FILLERS = frozenset(dataflow.ENDLESS_FILES)
_RAW = frozenset(f"if={path}" for path in dataflow.ENDLESS_FILES)
