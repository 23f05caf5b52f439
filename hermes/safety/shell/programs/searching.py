"""The expression of `find`, read as far as it says that all that reaches an action can be made again."""

from collections.abc import Iterator, Sequence

from hermes.safety.shell.call import ProgramCall, is_in_workspace, is_under
from hermes.safety.shell.regenerable import are_all_regenerable, is_in_workspace_surely, is_regenerable_text
from hermes.safety.shell.words import Word, word_set

_ALONE = word_set(
    """
    -depth -d -mount -xdev -daystart -noleaf -ignore_readdir_race -noignore_readdir_race -warn -nowarn -empty
    -executable -readable -writable -nouser -nogroup -true -false -delete -print -print0 -ls -prune -quit -a -and
    """
)
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
