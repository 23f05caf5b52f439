"""Programs that run other programs: what they would run."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hermes.safety.shell import Simple, Word
from hermes.safety.words import words as word_set

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "rbash"})
INTERPRETERS = frozenset({"python", "perl", "ruby", "node", "php", "lua", "tclsh", "deno", "bun", "osascript", "pwsh"})
FETCHERS = word_set(
    """
    curl wget fetch aria2c nc ncat netcat socat lynx http https ftp base64 base32 xxd openssl uudecode gpg rev
    """
)

_WITH_VALUE: dict[str, tuple[str, int]] = {
    # options that take a value, and how many words of its own come before the program
    "sudo": ("-u -g -h -p -C -r -t -T -U -D -R --user --group --chdir --host --prompt", 0),
    "doas": ("-u -C", 0),
    "env": ("-u -C --unset --chdir", 0),
    "nohup": ("", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p -P", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "xargs": ("-I -n -P -L -d -a -s -E --max-args --max-procs --arg-file --delimiter --replace", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "time": ("-o -f", 0),
    "stdbuf": ("-i -o -e", 0),
    "setsid": ("", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "chroot": ("--userspec --groups", 1),
    "unshare": ("-S -G -R -w", 0),
    "nsenter": ("-t", 0),
    "strace": ("-o -e -p -s -u -E", 0),
    "ltrace": ("-o -e -p -s -u", 0),
    "flock": ("-w -E", 1),
    "watch": ("-n --interval", 0),
    "parallel": ("-j -I --jobs", 0),
    "systemd-run": ("-p -u --unit --property --uid --gid", 0),
    "taskset": ("", 1),
    "caffeinate": ("-t -w", 0),
    "proot": ("-r -b -w", 0),
    "dbus-run-session": ("", 0),
    "faketime": ("", 1),
    "pkexec": ("--user", 0),
}


@dataclass(slots=True)
class Inner:
    """What a wrapper runs: words, or shell texts; `ask` names why it cannot be told."""

    words: Sequence[Word] = ()
    texts: list[str] = field(default_factory=list)
    ask: str = ""
    reason: str = ""


def unwrap(name: str, words: Sequence[Word], simple: Simple) -> Inner:
    """What `name words...` runs, when it is a program that runs others."""
    name = name.rstrip("0123456789.") or name
    if name in _WITH_VALUE:
        return _wrapped(name, words)
    if name in SHELLS:
        return _shell(words, simple)
    follow = _OTHERS.get(name)
    return follow(words, simple) if follow is not None else Inner()


def displaces(name: str, words: Sequence[Word], inner: Inner) -> bool:
    """Whether a wrapper adds words of its own to what it runs, or runs it in another folder or on another machine."""
    if name in _DISPLACING:
        return True
    own = words[: len(words) - len(inner.words)] if inner.words else ()
    return name in ("env", "sudo", "doas") and any(word.text.startswith(_CHANGES_FOLDER) for word in own)


def fetches(simple: Simple | None) -> bool:
    """Whether a command, its pipe or its substitutions download or decode something."""
    seen = 0
    queue: list[Simple | None] = [simple]
    while queue and seen < 200:
        current = queue.pop()
        if current is None:
            continue
        seen += 1
        if any(word.text.rpartition("/")[2] in FETCHERS for word in current.words[:3]):
            return True
        queue += [current.source, *current.inner]
    return False


def _wrapped(name: str, words: Sequence[Word]) -> Inner:
    valued, skip = _WITH_VALUE[name]
    options = valued.split()
    begins = _OPTION_OR_VARIABLE if name in ("env", "sudo", "doas") else _OPTION
    at = 0
    while at < len(words) and begins.match(words[at].text):
        text = words[at].text
        if (name, text) in _ASKS_ONLY:
            return Inner()
        if (name, text) in _SPLITS:
            return Inner(texts=[_joined(words[at + 1 :])])
        at += 2 if text in options else 1
        if text == "--":
            break
    rest = words[at + skip :]
    if name in ("xargs", "parallel") and _deletes(rest):
        return Inner(words=rest, ask="deletes-given", reason=_DELETES_GIVEN)
    return Inner(texts=[rest[0].text]) if name in ("watch", "parallel") and len(rest) == 1 else Inner(words=rest)


_OPTION = re.compile("-")
_OPTION_OR_VARIABLE = re.compile("-|[^=]*=")
_DISPLACING = word_set(
    """
    xargs parallel ssh mosh chroot nsenter unshare proot systemd-run find fd fdfind su runuser script start-stop-daemon
    """
)
_CHANGES_FOLDER = ("-C", "-D", "-R", "--ch")
_DELETING = word_set("rm unlink shred rmdir srm")
_DELETES_GIVEN = "it deletes everything that it is given"
_ASKS_ONLY = (("command", "-v"), ("command", "-V"))
_SPLITS = (("env", "-S"), ("env", "--split-string"))


def _joined(words: Sequence[Word]) -> str:
    return " ".join(word.text for word in words)


def _deletes(words: Sequence[Word]) -> bool:
    return bool(words) and words[0].text.rpartition("/")[2] in _DELETING


def _shell(words: Sequence[Word], simple: Simple) -> Inner:
    """`sh -c text`, `sh < something`, `something | sh`; a script file is not followed."""
    for word, following in pairwise(words):
        if _SHELL_TEXT.match(word.text):
            return _text(following, simple)
    script = _script(words)
    if not script.dynamic and script.text != "/dev/stdin":
        return Inner()
    if fetches(simple):
        return Inner(ask="remote-exec", reason="it runs what it downloads or decodes")
    if script.dynamic:
        return Inner(ask="unknown-command", reason="which script runs is only known when it runs")
    said = [target.text for operator, target in simple.redirects if operator == "<<<"]
    said += [simple.heredoc] if simple.heredoc is not None else []
    return Inner(texts=said) if said else _piped(simple)


def _script(words: Sequence[Word]) -> Word:
    return next((word for word in words if not word.text.startswith("-")), Word("/dev/stdin"))


_SHELL_TEXT = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*$")


def _piped(simple: Simple) -> Inner:
    source = simple.source
    if source is None or not source.words:
        return Inner()
    words = source.words
    if words[0].text in ("echo", "printf") and not any(word.dynamic for word in words):
        return Inner(texts=[" ".join(word.text for word in words[1:] if not word.text.startswith("-"))])
    if words[0].text == "cat" and source.heredoc is not None:
        return Inner(texts=[source.heredoc])
    return Inner(ask="unknown-command", reason="what the shell is given is only known when it runs")


def _text(word: Word, simple: Simple) -> Inner:
    if not word.dynamic:
        return Inner(texts=[word.text])
    if fetches(simple):
        return Inner(ask="remote-exec", reason="it runs what it downloads or decodes")
    return (
        Inner(texts=[word.text])
        if "$()" not in word.text
        else Inner(ask="unknown-command", reason="the text that runs is only known when it runs")
    )


def _evaluated(words: Sequence[Word], simple: Simple) -> Inner:
    if not any(word.dynamic for word in words):
        return Inner(texts=[_joined(words)])
    if fetches(simple):
        return Inner(ask="remote-exec", reason="it runs what it downloads or decodes")
    if simple.inner and all(word.text == "$()" for word in words):
        return Inner()  # the output of a named program (ssh-agent -s, direnv hook), which is judged by itself
    return Inner(ask="unknown-command", reason="the text that runs is only known when it runs")


def _remote(words: Sequence[Word], _: Simple) -> Inner:
    valued = word_set("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w")
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        if "ProxyCommand" in words[at].text or (at + 1 < len(words) and "ProxyCommand" in words[at + 1].text):
            return Inner(ask="nested-program", reason="ssh is told to start a command here")
        at += 2 if words[at].text in valued else 1
    rest = [word for word in words[at + 1 :] if word.text != "--"]
    return Inner(texts=[_joined(rest)]) if rest else Inner()


def _sourced(words: Sequence[Word], simple: Simple) -> Inner:
    fetched = any(word.dynamic for word in words) and fetches(simple)
    return Inner(ask="remote-exec", reason="it runs what it downloads") if fetched else Inner()


def _found(words: Sequence[Word], _: Simple) -> Inner:
    at = next((index for index, word in enumerate(words) if word.text in _FIND_EXEC), None)
    if at is None:
        return Inner()
    run = words[at + 1 :]
    return Inner(words=run, ask="find-delete" if _deletes(run) else "", reason=_DELETES_GIVEN)


def _with_text(words: Sequence[Word], _: Simple) -> Inner:
    """`su -c text` and its like; the option may stand in a group."""
    for word, following in pairwise(words):
        if word.text == "--command" or (word.text.startswith("-") and word.text.endswith("c")):
            return Inner(texts=[following.text])
    return Inner()


def _awk(words: Sequence[Word], _: Simple) -> Inner:
    if any("system(" in word.text or "| getline" in word.text or '| "' in word.text for word in words):
        return Inner(ask="nested-program", reason="an awk program starts commands")
    return Inner()


def _python(words: Sequence[Word], _: Simple) -> Inner:
    """`python -m hermes ...` is `hermes ...`."""
    for at, word in enumerate(words):
        module, rest = (word.text[2:], at + 1) if word.text.startswith("-m") else ("", 0)
        if word.text == "-m" and at + 1 < len(words):
            module, rest = words[at + 1].text, at + 2
        if module:
            return Inner(words=[Word("hermes"), *words[rest:]]) if _OURSELVES.match(module) else Inner()
        if not word.text.startswith("-"):
            return Inner()
    return Inner()


_OURSELVES = re.compile(r"hermes(\.__main__|\.cli.*)?$")


def _trap(words: Sequence[Word], _: Simple) -> Inner:
    return Inner(texts=[words[0].text]) if len(words) > 1 else Inner()


def _alias(words: Sequence[Word], _: Simple) -> Inner:
    return Inner(texts=[word.text.partition("=")[2] for word in words if "=" in word.text])


_FIND_EXEC = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
_OTHERS: dict[str, Callable[[Sequence[Word], Simple], Inner]] = {
    "eval": _evaluated,
    "ssh": _remote,
    "mosh": _remote,
    "trap": _trap,
    "python": _python,
    "alias": _alias,
    **dict.fromkeys(("source", "."), _sourced),
    **dict.fromkeys(("find", "fd", "fdfind"), _found),
    **dict.fromkeys(("su", "script", "runuser"), _with_text),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
}
