"""Recognizes command lines that only read: no copy of the folder is made before those. An unknown command may write."""

from hermes.safety.shell.findings import CommandJudgement, EffectKind, SimpleCommand
from hermes.safety.shell.words import word_set

_READ_ONLY_COMMANDS = word_set("""
    < ls cat head tail grep egrep fgrep rg wc pwd echo printf stat file du df which type true false : test [ [[ date
    whoami id uname basename dirname realpath readlink cut tr diff cmp comm nl tac rev column seq sleep cd
    pushd popd ps uptime free nproc printenv md5sum sha1sum sha256sum cksum od hexdump strings jq tree export sort
    less more whereis groups locale getconf fold fmt expand unexpand paste
""")


_READ_ONLY_GIT_COMMANDS = word_set("""
    status log diff show rev-parse ls-files blame describe shortlog ls-tree cat-file rev-list grep reflog merge-base
    name-rev for-each-ref count-objects
""")


_FIND_ACTIONS = word_set("-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls")


_OUTPUT_OPTIONS = {
    name: tuple(options)
    for name, *options in map(str.split, (
        "tree -o", "sort -o --output --compress", "rg --pre --hostname-bin", "less + -o -O --log", "more +",
        "date -s --set", "file -C --compile", "git --output -o --open-files-in-pager -O",
    ))
}  # fmt: skip
"""By the name of a program the beginnings of words with which it writes a file, or starts another program."""


_READ_ONLY_EFFECTS = (EffectKind.READS, EffectKind.FETCHES, EffectKind.SENDS)


_DISCARDING_TARGETS = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")


def is_read_only_line(judged: CommandJudgement) -> bool:
    """Return whether nothing of a command line writes a file, as far as its text tells for sure."""
    if not judged.commands or any(not one.subject for one in judged.findings):
        return False  # what cannot be told apart into commands is not known
    kept = (one for one in judged.effects if not _is_discarded(one.targets))
    if any(one.kind not in _READ_ONLY_EFFECTS and one.argv[:1] != ("git",) for one in kept):
        return False
    return all(map(is_read_only_command, judged.commands))


def _is_discarded(targets: tuple[str, ...]) -> bool:
    return bool(targets) and all(one in _DISCARDING_TARGETS for one in targets)


def is_read_only_command(one: SimpleCommand) -> bool:
    """Return whether one command of a line writes no file, as far as its words tell for sure."""
    name, rest = one.argv[0] if one.argv else "", one.argv[1:]
    if name == ">":
        return _is_discarded(rest)
    if any(word.startswith(_OUTPUT_OPTIONS.get(name, ("\0",))) for word in rest):
        return False
    if name == "git":
        return bool(rest) and rest[0] in _READ_ONLY_GIT_COMMANDS
    if name == "find":
        return _FIND_ACTIONS.isdisjoint(rest)
    if name == "env":
        return not rest
    return name in _READ_ONLY_COMMANDS
