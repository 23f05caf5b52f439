"""find and fd: what they delete, and what they start on what they find."""

import re
from collections.abc import Callable, Sequence

from hermes.safety.shell.call import ProgramCall, is_in_workspace, is_root_like_path, is_temporary, resolve_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.programs import searching
from hermes.safety.shell.words import REGENERABLE, ShellStream, Word, word_set

Rule = Callable[[ProgramCall], ShellStream | None]
_EDITORS = word_set("sed gsed perl ruby awk gawk")
_IN_PLACE = re.compile(r"-\w{0,5}i|--in-place|inplace")
_NARROWING = re.compile(
    r"-(i?name|i?path|i?wholename|i?regex|[mca]time|[mca]min|newer\w*|size|empty|user|inum|samefile|group|perm)$"
)
_ANYTHING = re.compile(r"\*?(\.\*)?\*?$|\*\.?\*$")
_EXEC = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_WRITING = word_set("-fprint -fprintf -fls -fprint0")
_DELETING = word_set("rm unlink shred rmdir srm wipe truncate")
_WRAPPING = word_set("env sudo busybox nice ionice doas command nohup time")
_REASON = "it deletes everything that it is given"
_MOST_STARTS = 20


LISTED = "listed"
"""What comes out of it names files outside of the session's folder."""
EVERYTHING = "everything"
"""What comes out of it names all files of the system, or of a home."""


def judge(call: ProgramCall) -> ShellStream | None:
    """find, fd: what it starts is followed; what it deletes asks."""
    args = call.args
    starts = _starts(call)
    roots = [resolve_path(text, call.cwd, call.host.places) for text in starts] or [call.cwd]
    deep = any(is_root_like_path(path, call.host.places) for path in roots) and not _narrowed(args)
    if "-delete" in args:
        _deleted(call, starts, roots, deep=deep)
    if sum(text in _EXEC for text in args) > _MOST_STARTS:
        call.ask("nested-program", "it starts too many programs to be judged")
        return None
    for at, text in enumerate(args):
        if text in _WRITING and at + 1 < len(args):
            call.judge_write(call.resolve_path(call.words[at + 1]), kind=EffectKind.OVERWRITES)
        if text in _EXEC:
            _started(call, at, roots, deep=deep)
    return _found(call, starts, roots, deep=deep)


def _deleted(call: ProgramCall, starts: Sequence[str], roots: Sequence[str], *, deep: bool) -> None:
    """Judge `-delete`."""
    places = [at for at, text in enumerate(call.args) if text == "-delete"]
    if len(places) > _MOST_STARTS or any(searching.reached(call, starts, at) is None for at in places):
        _deletes(call, roots, "it deletes every file that it finds", deep=deep)
    else:
        call.add_effect(EffectKind.DELETES, roots)


def _found(call: ProgramCall, starts: Sequence[str], roots: Sequence[str], *, deep: bool) -> ShellStream | None:
    """What comes out of it, when that names files outside, or only what can be made again."""
    if searching.printed(call, starts):
        return ShellStream(None, frozenset({REGENERABLE}))
    if deep:
        return ShellStream(None, frozenset({EVERYTHING, LISTED}))
    if all(is_in_workspace(path, call.host.places) or is_temporary(path) for path in roots):
        return None
    return ShellStream(None, frozenset({LISTED}))


def _deletes(call: ProgramCall, roots: Sequence[str], reason: str, *, deep: bool) -> None:
    """Say that what it finds is deleted: never all of a system."""
    call.add_effect(EffectKind.DELETES, roots)
    if deep:
        call.deny("find-delete", reason)
    else:
        call.ask("find-delete", reason)


def _starts(call: ProgramCall) -> list[str]:
    """The folders in which it looks."""
    if call.name not in ("find", "gfind"):
        return [word.text for word in call.parse_options().operands[1:]]
    starts: list[str] = []
    for text in call.args:
        if text.startswith(("-", "(", "!")) and text not in ("-L", "-H", "-P"):
            break
        if not text.startswith("-"):
            starts.append(text)
    return starts


def _narrowed(args: Sequence[str]) -> bool:
    """Whether only some of the files are meant: by a test that is not turned round, and not one that all pass."""
    for at, text in enumerate(args[:-1]):
        before = args[at - 1] if at else ""
        if _NARROWING.match(text) and before not in ("-not", "!") and not _ANYTHING.match(args[at + 1]):
            return True
    return False


def _started(call: ProgramCall, at: int, roots: Sequence[str], *, deep: bool) -> None:
    words = list(call.words[at + 1 :])
    for end, word in enumerate(words):
        if word.text in (";", "+"):
            words = words[:end]
            break
    if not words:
        return
    if _removed(call, at, words, roots):
        return
    _edits(call, words, roots)
    for root in roots[:2]:
        for path in [f"{root}/*"] if deep else _named(call.args, root):
            call.judge_program([_filled(word, path) for word in words], lost=True)
    _deleting(call, words, roots, deep=deep)


def _edits(call: ProgramCall, words: Sequence[Word], roots: Sequence[str]) -> None:
    """Judge a program that changes files in place."""
    in_place = words[0].text in _EDITORS and any(_IN_PLACE.match(word.text) for word in words[1:])
    if in_place and any(is_root_like_path(path, call.host.places) for path in roots):
        call.ask("edits-found", "it changes every file that it finds")


def _removed(call: ProgramCall, at: int, words: Sequence[Word], roots: Sequence[str]) -> bool:
    """Judge a program that only deletes what can be made again; whether it is one."""
    found = searching.reached(call, _starts(call), at) if searching.only_removes(words) else None
    if found is None:
        return False
    call.add_effect(EffectKind.DELETES, roots)
    for root in roots[:2]:
        for name in found or [".found"]:
            call.judge_program([_filled(word, f"{root}/{name}") for word in words])
    return True


def _named(args: Sequence[str], root: str) -> list[str]:
    """Paths as the tests ask for: what could be found."""
    paths = [f"{root}/.found"]
    for at, text in enumerate(args[:-1]):
        if text in ("-path", "-ipath", "-wholename") and args[at + 1].startswith("*/"):
            paths.append(root + args[at + 1][1:])
        elif text in ("-name", "-iname"):
            paths.append(f"{root}/{args[at + 1]}")
    return paths[:4]


def _filled(word: Word, path: str) -> Word:
    return Word(word.text.replace("{}", path), word.dynamic, word.quoted, word.labels)


def _deleting(call: ProgramCall, words: Sequence[Word], roots: Sequence[str], *, deep: bool) -> None:
    name = words[0].text.rpartition("/")[2]
    if name in _DELETING or (name in _WRAPPING and any(word.text in _DELETING for word in words)):
        _deletes(call, roots, _REASON, deep=deep)
    else:
        _changing(call, name, rooted=any(is_root_like_path(path, call.host.places) for path in roots))


def _changing(call: ProgramCall, name: str, *, rooted: bool) -> None:
    """Judge a program that changes rights, copies or moves; `rooted`: in the whole system or a home."""
    if name in ("chown", "chmod", "chgrp") and rooted:
        call.ask("permissions", "it changes owner or rights of the whole system or home")
    elif name in ("cp", "mv") and any("-perm" in text for text in call.args):
        call.ask("privilege", "it takes programs that run with another user's rights")
    elif name == "mv" and rooted:
        call.ask("mv-away", "it moves away what other things depend on")


RULES: dict[str, Rule] = dict.fromkeys(("find", "fd", "fdfind", "gfind"), judge)
