"""Programs that edit files in place: what they are given to work on is overwritten."""

import re
from collections.abc import Callable, Sequence

from hermes.safety.shell.call import ProgramCall
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.words import ShellStream, Word

Rule = Callable[[ProgramCall], ShellStream | None]
_IN_PLACE: dict[str, tuple[int, str]] = {
    # By program: how many of its first words are no files, and what of its words says that files are overwritten.
    **dict.fromkeys(("sd", "rpl"), (2, r"(?!.*(-p\b|--preview|-s\b|--dry-run))")),
    **dict.fromkeys(("dos2unix", "unix2dos", "mac2unix", "fromdos", "todos"), (0, r"(?!.*(-i\b|--info))")),
    "xmlstarlet": (1, r"ed\b.*(-\w*L|--inplace)"),
    "crudini": (1, r"--(set|del|merge)"),
}
_SAYS = {name: re.compile(text) for name, (_, text) in _IN_PLACE.items()}
_OPTION = re.compile(r"(-i|-w|--in-?place|--write|--fix|--overwrite|--inplace-edit)(=.*)?$")
_OUTPUT = re.compile(r"(-o|--out|--output|--output-file|--outfile|--write-to)(=|$)")
_PATH = ("/", "~", "..", "${HOME}")
_SWITCH = re.compile(r"-[acdfhlnpsStTuUvwWX0-9]*i")
_LOOPS = re.compile(r"-[acdfhlnpsStTuUvwWX0-9i]*[np]")
_FILES = re.compile(r"/files(/\S+)")
_PUTS_NOTHING = re.compile(r"""\s*(\$_\s*=\s*(''|""|undef)|undef\s*\(?\$_\)?|0|)\s*;?\s*""")


def judge(call: ProgramCall) -> None:
    """sd, dos2unix, xmlstarlet and their like."""
    skipped, _ = _IN_PLACE[call.name]
    if _SAYS[call.name].match(" ".join(call.args[:12])):
        overwritten(call, [word for word in call.words if word.text[:1] != "-"][skipped:])


def overwritten(call: ProgramCall, words: Sequence[Word]) -> None:
    """Judge files that are edited in place."""
    for word in words[:50]:
        call.judge_write(call.resolve_path(word), kind=EffectKind.OVERWRITES)


def augeas(call: ProgramCall) -> None:
    """augtool: files of settings, by the paths of their tree."""
    text = " ".join(call.args)
    if re.search(r"\b(set|setm|rm|mv|move|ins|insert|clear)\b", text) or (call.fed and call.stdin.text is None):
        for found in _FILES.finditer(text[:4000]):
            call.judge_write(found[1], kind=EffectKind.OVERWRITES)


def by_option(call: ProgramCall) -> None:
    """A program without a rule: options say that it writes what it is given, or where it puts what it makes."""
    for at, word in enumerate(call.words[:40]):
        if word.text[:1] != "-":
            continue
        if _OPTION.match(word.text):
            overwritten(call, [one for one in call.words if one.text.startswith(_PATH)])
            return
        if found := _OUTPUT.match(word.text):
            value = word.text[found.end() :] if found[2] else "".join(call.args[at + 1 : at + 2])
            if value.startswith(_PATH):
                call.judge_write(call.resolve_path(Word(value, word.dynamic)), kind=EffectKind.OVERWRITES)


def by_switch(call: ProgramCall, codes: Sequence[Word], rest: Sequence[Word]) -> None:
    """`perl -i`, `ruby -i`: the files behind the program text are what it prints."""
    if not any(map(_SWITCH.match, call.args[:12])):
        return
    overwritten(call, [word for word in rest if word.text[:1] != "-"])
    silent = not any("p" in text for text in call.args[:12] if _LOOPS.match(text) and text[:2] != "--")
    code = ";".join(word.text for word in codes)
    if rest and _PUTS_NOTHING.fullmatch(code) and (silent or "$_" in code):
        call.ask("emptied", "it deletes what files hold")


RULES: dict[str, Rule] = {**dict.fromkeys(_IN_PLACE, judge), "augtool": augeas}
