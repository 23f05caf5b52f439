"""Commands that only look: before those no copy of the folder is made. What is not known to only look may write."""

from hermes.safety.shell.findings import EffectKind, Judgement, Simple
from hermes.safety.shell.words import words

_LOOKERS = words(
    """
    < ls cat head tail grep egrep fgrep rg wc pwd echo printf stat file du df which type true false : test [ [[ date
    whoami id uname hostname basename dirname realpath readlink cut tr diff cmp comm nl tac rev column seq sleep cd
    pushd popd ps uptime free nproc printenv md5sum sha1sum sha256sum cksum od hexdump strings jq tree export sort
    less more whereis groups locale getconf fold fmt expand unexpand paste
    """
)
_GIT = words(
    """
    status log diff show rev-parse ls-files blame describe shortlog ls-tree cat-file rev-list grep reflog merge-base
    name-rev for-each-ref count-objects
    """
)
_FIND_ACTS = words("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls")
_WRITING = {"tree": ("-o",), "sort": ("-o", "--output"), "git": ("--output", "-o", "--open-files-in-pager", "-O")}
_HARMLESS = (EffectKind.READS, EffectKind.FETCHES, EffectKind.SENDS)
_AWAY = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


def only_looks(judged: Judgement) -> bool:
    """Whether nothing of a command line writes a file, as far as its text tells for sure."""
    if not judged.commands or any(not one.subject for one in judged.findings):
        return False  # what cannot be told apart into commands is not known
    if any(one.kind not in _HARMLESS and one.argv[:1] != ("git",) for one in judged.effects if not _away(one.targets)):
        return False
    return all(map(_looks, judged.commands))


def _away(targets: tuple[str, ...]) -> bool:
    return bool(targets) and all(one in _AWAY for one in targets)


def _looks(one: Simple) -> bool:
    name, rest = one.argv[0] if one.argv else "", one.argv[1:]
    if name == ">":
        return _away(rest)
    if any(word.startswith(_WRITING.get(name, ("\0",))) for word in rest):
        return False
    if name == "git":
        return bool(rest) and rest[0] in _GIT
    if name == "find":
        return _FIND_ACTS.isdisjoint(rest)
    if name == "env":
        return not rest
    return name in _LOOKERS
