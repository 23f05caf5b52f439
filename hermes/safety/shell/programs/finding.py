"""find and fd: what they delete, and what they start on what they find.

The expression of `find`, read as far as it says that all that reaches an action can be made again.
"""

import re
from collections.abc import Iterator, Sequence

from hermes.safety.shell.call import ProgramCall, Rule, is_in_workspace, is_root_like_path, is_under, resolve_path
from hermes.safety.shell.findings import EffectKind
from hermes.safety.shell.regenerable import are_all_regenerable, is_in_workspace_surely, is_regenerable_text
from hermes.safety.shell.words import Label, ShellStream, Word, word_set

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
    return _found(call, starts, deep=deep)


def _found(call: ProgramCall, starts: Sequence[str], *, deep: bool) -> ShellStream | None:
    """What comes out of it, when that names all files, or only what can be made again."""
    if printed(call, starts):
        return ShellStream(None, frozenset({Label.REGENERABLE}))
    return ShellStream(None, frozenset({Label.EVERYTHING})) if deep else None


def _deleted(call: ProgramCall, starts: Sequence[str], roots: Sequence[str], *, deep: bool) -> None:
    """Judge `-delete`."""
    places = [at for at, text in enumerate(call.args) if text == "-delete"]
    if len(places) > _MOST_STARTS or any(reached(call, starts, at) is None for at in places):
        _deletes(call, roots, "it deletes every file that it finds", deep=deep)
    else:
        call.add_effect(EffectKind.DELETES, roots)


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
    found = reached(call, _starts(call), at) if only_removes(words) else None
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
    elif name in ("cp", "mv") and any("-perm" in text for text in call.args):
        call.ask("privilege", "it takes programs that run with another user's rights")


RULES: dict[str, Rule] = dict.fromkeys(("find", "fd", "fdfind", "gfind"), judge)


_ALONE = word_set("""
    -depth -d -mount -xdev -daystart -noleaf -ignore_readdir_race -noignore_readdir_race -warn -nowarn -empty
    -executable -readable -writable -nouser -nogroup -true -false -delete -print -print0 -ls -prune -quit -a -and
""")
"""Words of an expression that take no argument."""


_PROGRAMS = word_set("-exec -execdir -ok -okdir")


_ELSEWHERE = word_set("-L -H -follow -files0-from , -fprintf")
"""Follows links, or starts where its words do not say; the last make two expressions of one, or take two arguments."""


_PRINTING = word_set("-print -print0")


_SPEAKING = word_set("-printf -ls -exec -execdir -ok -okdir")


_REMOVERS = word_set("rm unlink")


_FRESH: frozenset[str] = frozenset()


_EMPTY = frozenset({"tmp"})
"""Stands for an empty folder: nothing is lost with it."""


class _Group:
    """One pair of brackets: what is known of all that passes each alternative before, and of the present one."""

    __slots__ = ("before", "now", "turned")

    def __init__(self, *, turned: bool) -> None:
        self.before: list[frozenset[str]] = []
        self.now = _FRESH
        self.turned = turned

    def other(self) -> None:
        """Begin another alternative."""
        self.before.append(self.now)
        self.now = _FRESH

    def held(self) -> frozenset[str]:
        """Patterns of which each file that passes the group has one; none when that cannot be told."""
        every = [*self.before, self.now]
        return _FRESH.union(*every) if all(every) and not self.turned else _FRESH


def _known(option: str, value: str) -> frozenset[str]:
    """What a test tells of the files that pass it."""
    if option in ("-name", "-iname") and "/" not in value:
        return frozenset({value}) if are_all_regenerable([value]) else _FRESH
    if option in ("-path", "-ipath", "-wholename"):
        parts = value.strip("*").split("/")
        return frozenset({part for part in parts if are_all_regenerable([part])}) if ".." not in parts else _FRESH
    return _FRESH


def _steps(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their arguments."""
    at = 0
    while at < len(words):
        text = words[at]
        at += 1
        if text in _PROGRAMS:
            while at < len(words) and words[at] not in (";", "+"):
                at += 1
            at += 1
            yield text, ""
        elif text in _ALONE or text in ("(", ")", "!", "-not", "-o", "-or"):
            yield text, ""
        else:
            yield text, words[at] if at < len(words) else ""
            at += 1


def _before(words: Sequence[str]) -> list[_Group]:
    """The open groups behind these words, the outermost first."""
    groups = [_Group(turned=False)]
    turned = folders = False
    for option, value in _steps(words):
        if option == "(":
            groups.append(_Group(turned=turned))
        elif option == ")" and len(groups) > 1:
            held = groups.pop().held()
            groups[-1].now |= held
        elif option in ("-o", "-or"):
            groups[-1].other()
            folders = False
        elif not turned:
            empty = option == "-empty" and folders
            groups[-1].now |= _EMPTY if empty else _known(option, value)
            folders = folders or (option == "-type" and value == "d")
        turned = option in ("!", "-not") and not turned
    return groups


def _expression(call: ProgramCall, starts: Sequence[str]) -> tuple[int, bool]:
    """Where the expression begins, and whether it can be read: it stays in the session's folder, without links."""
    begin = next((at for at, text in enumerate(call.args) if text.startswith(("-", "(", "!"))), len(call.args))
    readable = (
        call.name in ("find", "gfind")
        and is_in_workspace_surely(call)
        and _ELSEWHERE.isdisjoint(call.args)
        and not any(word.dynamic for word in call.words)
        and all(_stays(call, text) for text in starts)
    )
    return begin, readable


def _stays(call: ProgramCall, text: str) -> bool:
    """Whether a start is in the session's folder, and behind no link that this line made."""
    path = call.resolve_path(Word(text))
    moved = any(is_under(path, one) for one in call.state.moved)
    return ".." not in text.split("/") and is_in_workspace(path, call.host.places) and not moved


def reached(call: ProgramCall, starts: Sequence[str], at: int) -> list[str] | None:
    """The patterns of all that reaches the action at this word, when they stand only for what can be made again.

    Empty when it searches only below such folders; None when other files may reach it.
    """
    begin, readable = _expression(call, starts)
    if not readable:
        return None
    if starts and all(is_regenerable_text(call, text) for text in starts):
        return []
    found = _FRESH.union(*(group.now for group in _before(call.args[begin:at])))
    return sorted(found) or None


def printed(call: ProgramCall, starts: Sequence[str]) -> bool:
    """Whether all that it prints can be made again."""
    begin, readable = _expression(call, starts)
    if not readable or not _SPEAKING.isdisjoint(call.args):
        return False
    if starts and all(is_regenerable_text(call, text) for text in starts):
        return True
    printing = [at for at in range(begin, len(call.args)) if call.args[at] in _PRINTING]
    if printing:
        return all(reached(call, starts, at) is not None for at in printing)
    groups = _before(call.args[begin:])
    return len(groups) == 1 and bool(groups[0].held())


def only_removes(words: Sequence[Word]) -> bool:
    """Whether a command that is started on what is found does nothing but delete that."""
    rest = [word.text for word in words[1:]]
    return (
        words[0].text in _REMOVERS
        and rest[-1:] == ["{}"]
        and all(text[:1] == "-" and "{}" not in text for text in rest[:-1])
    )
