"""The rules by program name, on resolved words: quoting, the order of options and paths to programs do not matter."""

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from hermes.safety import wrappers
from hermes.safety.findings import Verdict
from hermes.safety.paths import is_root_like, reaches, read_refused, write_refused
from hermes.safety.places import Places
from hermes.safety.shell import Simple, Word
from hermes.safety.words import ALWAYS, FLOOR, NETWORK, SEQUENCES
from hermes.safety.words import words as word_set
from hermes.safety.wrappers import INTERPRETERS, Inner

Said = tuple[Verdict, str, str]

BLOCK_DEVICE = re.compile(
    r"^/dev/(sd[a-z]|nvme\d|hd[a-z]|vd[a-z]|xvd[a-z]|mmcblk\d|disk\d|rdisk\d|dm-\d|md\d|mapper/|loop\d|root)"
)
HIJACKING = word_set(
    """
    LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV ENV PROMPT_COMMAND DYLD_INSERT_LIBRARIES PYTHONSTARTUP PERL5OPT
    NODE_OPTIONS RUBYOPT GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_CONFIG_COUNT HISTFILE
    """
)
_CODE = re.compile(
    r"rmtree|unlink|remove\(|rmdir|subprocess|os\.system|popen|pty\.spawn|child_process|exec\w{0,30}\(|\bexec\s+sprintf|system\(|"
    r"`|socket|TCPSocket|urlopen|requests\.(post|put)|__import__|b64decode|fromhex|fork|rmSync|rm_rf|File\.delete|write_text|"
    r"open\([^)]*['\"][wa]|chmod|kill\(|shutil\.move|ctypes|HERMES_HOME|hermes\.(cli|app|__main__)|runpy",
    re.IGNORECASE,
)
_SQL_CLIENTS = word_set(
    """
    psql mysql mariadb sqlite3 sqlite sqlcmd cockroach clickhouse-client duckdb mongosh mongo bq cqlsh isql
    """
)
_SQL = re.compile(
    r"\s*(?:(drop|truncate)\b|alter\s+\w+\s+\S+\s+drop\b|(delete)\s+from\b|(update)\s+\S+\s+set\b|db\.dropDatabase|db\.\w+\.(drop|deleteMany)\()",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\bwhere\b(?!\s*\(?\s*(1\s*=\s*1|true|'?(\w)'?\s*=\s*'?\2'?)\s*\)?\s*($|;))", re.IGNORECASE)
_WORLD = re.compile(
    r"^0*[0-7]?[0-7][0-7][2367]$|^[ugoa]*[oa][ugoa]*[+=][rwxXst]*w|^\+[rwx]*w[rwx]*$|^[ugoa]*\+[rwx]*s|^0*[4-7][0-7]{3}$"
)
_SELF = re.compile(r"hermes|gateway", re.IGNORECASE)
_SHOWN = ("get", "show", "list", "path", "status", "check", "search", "view", "--help", "-h")


@dataclass(slots=True)
class Call:
    """A program with its words, wrappers taken off."""

    name: str
    words: Sequence[Word]
    simple: Simple
    cwd: str
    places: Places
    subject: str

    @property
    def args(self) -> list[str]:
        """The words' texts."""
        return [word.text for word in self.words]

    def operands(self) -> list[Word]:
        """The words that are not options."""
        texts = self.args
        after = texts.index("--") if "--" in texts else len(texts)
        return [
            word for at, word in enumerate(self.words) if at > after or (not word.text.startswith("-") and at != after)
        ]

    def has(self, letters: str = "", *names: str) -> bool:
        """Whether an option is given: one of the `letters` in a short group, or a long one, also abbreviated."""
        for text in self.args:
            if text == "--":
                return False
            if text.startswith("--"):
                given = text.partition("=")[0]
                if any(name.startswith(given) and len(given) > 3 for name in names):
                    return True
            elif text.startswith("-") and any(letter in text[1:] for letter in letters):
                return True
        return False


def resolve(word: Word, cwd: str, places: Places) -> str:
    """The path that a word names, as far as text alone tells."""
    text = word.text
    if text.startswith("${HOME}"):
        text = "~" + text[7:]
    elif text.startswith("${HERMES_HOME}"):
        text = places.hermes + text[14:]
    elif text.startswith("~+"):
        text = "." + text[2:]
    elif text.startswith("~") and text[1:2] not in ("", "/"):
        user, slash, rest = text[1:].partition("/")
        text = ("/root" if user == "root" else f"{os.path.dirname(places.home)}/{user}") + slash + rest
    return os.path.normpath(places.expand(text, cwd))


def unwrap(call: Call) -> Inner:
    """What the program runs besides itself."""
    return wrappers.unwrap(call.name, call.words, call.simple)


def judge_call(call: Call) -> Iterator[Said]:
    """What speaks against this call by itself."""
    name = call.name
    yield from _by_words(call)
    rule = _RULES.get(name) or _RULES.get(name.rstrip("0123456789."))
    if rule is not None:
        yield from rule(call)
    elif name.startswith("mkfs"):
        yield _disk(call)
    elif name in _SQL_CLIENTS:
        yield from _sql(call)
    if name not in _LOOKERS:
        yield from _secrets(call)
    if rule is None and name not in _TAKES_DATA and _COMMAND_TEXT.search(" ".join(call.args)):
        yield Verdict.ASK, "nested-program", "its arguments hold a command that deletes or downloads"


def _by_words(call: Call) -> Iterator[Said]:
    name, args = call.name, call.args
    if name in FLOOR and (not FLOOR[name] or FLOOR[name].intersection(args)):
        yield Verdict.DENY, "power", "it stops the machine"
    if name in ALWAYS:
        yield Verdict.ASK, "privilege" if name in ("sudo", "su", "doas", "pkexec") else "system", ALWAYS[name]
    for wanted, reason in SEQUENCES.get(name, ()):
        if _follows(wanted, args):
            yield Verdict.ASK, name, reason


def _follows(wanted: Sequence[str], args: Sequence[str]) -> bool:
    """Whether the wanted words stand in `args` in that order; a word that ends in `*` stands for its beginnings."""
    at = 0
    for text in args:
        if at < len(wanted) and (text == wanted[at] or (wanted[at][-1] == "*" and text.startswith(wanted[at][:-1]))):
            at += 1
    return at == len(wanted)


def _remove(call: Call) -> Iterator[Said]:
    recursive = call.has("rR", "--recursive")
    for word in call.operands():
        path = resolve(word, call.cwd, call.places)
        if recursive and is_root_like(path, call.places):
            yield Verdict.DENY, "rm-root", f"it deletes {path}"
            return
        if write_refused(path, call.places):
            yield Verdict.ASK, "protected-path", f"it deletes {path}"
    if recursive:
        yield Verdict.ASK, "rm-recursive", "it deletes folders with all that is in them"


def _permissions(call: Call) -> Iterator[Said]:
    operands = call.operands()
    recursive = call.has("R", "--recursive")
    if recursive and any(is_root_like(resolve(word, call.cwd, call.places), call.places) for word in operands[1:]):
        yield Verdict.DENY, "permissions-root", "it changes owner or rights of the whole system or home"
    elif call.name == "chmod" and any(_WORLD.match(part) for word in operands[:1] for part in word.text.split(",")):
        yield Verdict.ASK, "chmod-open", "it lets everybody write, or run as the owner"
    elif call.name in ("chown", "chgrp") and recursive:
        yield Verdict.ASK, "chown-recursive", "it changes the owner of whole folders"
    for word in operands[1:]:
        if write_refused(resolve(word, call.cwd, call.places), call.places):
            yield Verdict.ASK, "protected-path", f"it changes the rights of {word.text}"


def _disk(call: Call) -> Said:
    device = any(
        BLOCK_DEVICE.match(word.text.rpartition("of=")[2]) or word.text.startswith("/dev/") for word in call.words
    )
    return (Verdict.DENY if device else Verdict.ASK), "raw-disk", "it overwrites a disk"


def _partition(call: Call) -> Iterator[Said]:
    if call.operands() and not call.has("l", "--list", "--print"):
        yield _disk(call)


def _copy_raw(call: Call) -> Iterator[Said]:
    for text in call.args:
        if text.startswith("of="):
            target = resolve(Word(text[3:]), call.cwd, call.places)
            if BLOCK_DEVICE.match(target):
                yield Verdict.DENY, "raw-disk", "it overwrites a disk"
            elif not target.startswith("/dev/"):
                yield Verdict.ASK, "dd", "it overwrites a file block by block"


def _written(call: Call) -> Iterator[Said]:
    """tee, cp, mv, ln, install, truncate, sed -i, rsync ...: protected targets, and things moved out of their place."""
    operands = call.operands()
    targets = operands if call.name in _WRITES_ALL else operands[-1:]
    targets += [Word(text.partition("=")[2]) for text in call.args if text.startswith("--target-directory=")]
    if call.name != "sed" or call.has("i", "--in-place"):
        for word in targets:
            yield from _target(resolve(word, call.cwd, call.places), call.places)
    if call.name in ("mv", "cp", "ln") and len(operands) > 1:
        yield from _moved(call, operands)
    if call.name == "truncate" and call.has("s", "--size"):
        yield Verdict.ASK, "emptied", "it cuts files off"


def _target(path: str, places: Places) -> Iterator[Said]:
    if BLOCK_DEVICE.match(path):
        yield Verdict.DENY, "raw-disk", "it overwrites a disk"
    elif refused := write_refused(path, places):
        yield Verdict.ASK, "protected-path", f"it writes {path}: {refused}"


def _moved(call: Call, operands: Sequence[Word]) -> Iterator[Said]:
    sources = [resolve(word, call.cwd, call.places) for word in operands[:-1]]
    if call.name == "mv" and any(is_root_like(path, call.places) or path.endswith("/.git") for path in sources):
        yield Verdict.ASK, "mv-away", "it moves away what other things depend on"
    if "/dev/null" in (*sources, operands[-1].text):
        yield Verdict.ASK, "emptied", "it replaces a file by nothing, or moves one into nothing"


def _git(call: Call) -> Iterator[Said]:
    args = call.args
    at = 0
    while at < len(args) and args[at].startswith("-"):
        valued = args[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path")
        if args[at] == "-c" and (args[at + 1 : at + 2] or [""])[0].lower().startswith(_GIT_PROGRAMS):
            yield Verdict.ASK, "nested-program", "git is told to start another program"
        at += 2 if valued else 1
    verb = args[at] if at < len(args) else ""
    rest = Call(verb, call.words[at + 1 :], call.simple, call.cwd, call.places, "")
    rule = _GIT.get(verb)
    if rule is not None and rule[0](rest):
        yield Verdict.ASK, f"git-{verb}", rule[1]


def _git_push(rest: Call) -> bool:
    forced = rest.has("fd", "--force", "--force-with-lease", "--mirror", "--delete", "--prune")
    named = any(word.text.startswith(("+", ":")) for word in rest.operands()[1:])
    return (forced or named) and not _rehearsed(rest)


def _rehearsed(rest: Call) -> bool:
    return rest.has("n", "--dry-run")


def _git_overwrites(rest: Call) -> bool:
    whole = not rest.has("", "--staged") and any(text in (".", ":/", "*") for text in rest.args)
    return whole or rest.has("f", "--force", "--discard-changes")


def _git_branch(rest: Call) -> bool:
    return rest.has("D") or (rest.has("d", "--delete") and rest.has("f", "--force"))


def _git_config(rest: Call) -> bool:
    return len(rest.args) > 1 and any(text.lower().startswith(_GIT_PROGRAMS) for text in rest.args)


def _begins(*verbs: str) -> Callable[[Call], bool]:
    return lambda rest: rest.args[:1] != [] and rest.args[0] in verbs


_GIT_PROGRAMS = (
    "alias.", "core.sshcommand", "core.pager", "core.editor", "core.hookspath", "core.fsmonitor", "diff.external",
    "credential.", "include.",
)  # fmt: skip
_UNCOMMITTED = "it throws away changes that were not committed"
_WAY_BACK = "it deletes the way back to earlier states"
_GIT: dict[str, tuple[Callable[[Call], bool], str]] = {
    "reset": (lambda rest: rest.has("", "--hard", "--merge", "--keep"), _UNCOMMITTED),
    "push": (_git_push, "it rewrites or deletes what others have"),
    "clean": (
        lambda rest: rest.has("f", "--force") and not _rehearsed(rest),
        "it deletes files that git does not know",
    ),
    "checkout": (_git_overwrites, _UNCOMMITTED),
    "restore": (_git_overwrites, _UNCOMMITTED),
    "switch": (_git_overwrites, _UNCOMMITTED),
    "branch": (_git_branch, "it deletes commits that were not merged"),
    "stash": (_begins("clear", "drop"), "it throws away stashed changes"),
    "filter-branch": (lambda _: True, "it rewrites history"),
    "filter-repo": (lambda _: True, "it rewrites history"),
    "update-ref": (lambda rest: rest.has("d", "--delete") or "--stdin" in rest.args, _WAY_BACK),
    "symbolic-ref": (lambda rest: len(rest.operands()) > 1, _WAY_BACK),
    "reflog": (_begins("expire", "delete"), _WAY_BACK),
    "gc": (lambda rest: any("now" in text or "all" in text for text in rest.args), _WAY_BACK),
    "worktree": (lambda rest: rest.has("f", "--force") and "remove" in rest.args, "it deletes work"),
    "submodule": (lambda rest: rest.has("f", "--force") and "deinit" in rest.args, "it deletes work"),
    "config": (_git_config, "it changes which programs git starts"),
}


def _kill(call: Call) -> Iterator[Said]:
    texts = call.args
    if "-1" in texts[1:] or texts[-1:] == ["1"]:
        yield Verdict.DENY, "kill-all", "it ends every process, or the first one"
    elif any(word.dynamic for word in call.words) or not (
        call.has("l") or any(text.lstrip("-").isdigit() for text in texts)
    ):
        yield Verdict.ASK, "kill-unknown", "which process it ends is only known when it runs; it may be Hermes itself"


def _kill_named(call: Call) -> Iterator[Said]:
    if any(_SELF.search(text) for text in call.args):
        yield Verdict.ASK, "kill-self", "it may end Hermes itself"
    elif any(text in ("-u", "--user", "*", ".") for text in call.args):
        yield Verdict.ASK, "kill-all", "it ends every process of a user"


def _find(call: Call) -> Iterator[Said]:
    args = call.args
    if "-delete" in args or any(text in ("-fprint", "-fprintf", "-fls") for text in args):
        roots = [word for word in call.words[:1] if not word.text.startswith("-")]
        deep = any(is_root_like(resolve(word, call.cwd, call.places), call.places) for word in roots)
        narrowed = any(text in ("-name", "-iname", "-mtime", "-path", "-mmin", "-size", "-type") for text in args)
        yield (
            (Verdict.DENY if deep and not narrowed else Verdict.ASK),
            "find-delete",
            "it deletes every file that it finds",
        )


def _sync(call: Call) -> Iterator[Said]:
    if call.has("", "--delete", "--delete-after", "--delete-before", "--delete-excluded", "--remove-source-files"):
        yield Verdict.ASK, "sync-delete", "it deletes what the other side does not have"
    if call.has("e", "--rsh", "--rsync-path") and any("sh -c" in text for text in call.args):
        yield Verdict.ASK, "nested-program", "rsync is told to start another program"
    yield from _written(call)


def _archive(call: Call) -> Iterator[Said]:
    if any(
        text.startswith(("--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--compress-prog"))
        for text in call.args
    ):
        yield Verdict.ASK, "nested-program", "it is told to start another program"


def _interpreter(call: Call) -> Iterator[Said]:
    codes, from_input = _program_text(call)
    given = from_input or any("$()" in code for code in codes)
    if given and wrappers.fetches(call.simple):
        yield Verdict.ASK, "remote-exec", "it runs what it downloads or decodes"
    if any(_CODE.search(code) for code in codes):
        yield Verdict.ASK, "program-text", "the program text starts programs, deletes, or opens connections"
    yield from _read_by(codes, call)
    if call.name == "perl" and call.has("i"):
        yield from _written(call)


def _read_by(codes: Sequence[str], call: Call) -> Iterator[Said]:
    """Files with keys that a program text spells out."""
    tokens = {token for code in codes for token in _PATHS.findall(code) if "/" in token or token.startswith(".")}
    for token in sorted(tokens):
        if reason := names_secret(Word(token), call.cwd, call.places):
            yield Verdict.ASK, "reads-secret", reason
            return


_PATHS = re.compile(r"[~\w./-]+")


def _program_text(call: Call) -> tuple[list[str], bool]:
    """(program texts that an interpreter is given, whether it reads its program from its input)."""
    args = call.args
    codes = [code for option, code in pairwise(args) if option in _CODE_OPTIONS]
    scripts = [text for text in args if not text.startswith("-")]
    if codes or (scripts and scripts[0] != "/dev/stdin"):
        return codes, False
    return [call.simple.heredoc or ""], True


def _sql(call: Call) -> Iterator[Said]:
    texts = [*call.args, call.simple.heredoc or ""]
    texts += [target.text for operator, target in call.simple.redirects if operator == "<<<"]
    if call.simple.source is not None:
        texts += [word.text for word in call.simple.source.words[1:]]
    for text in texts:
        for statement in text.split(";"):
            match = _SQL.match(statement)
            if match and not ((match[2] or match[3]) and _WHERE.search(statement)):
                yield Verdict.ASK, "sql", "it deletes tables or rows without a condition"
                return


def _hermes(call: Call) -> Iterator[Said]:
    args = call.args
    verb = args[0] if args else ""
    if verb in _POLICY:
        if not any(text in _SHOWN for text in args[1:]):
            yield Verdict.DENY, "own-policy", "Hermes' own settings are not changed by its commands"
    elif verb not in _HARMLESS and not (verb == "home" and len(args) == 1):
        yield Verdict.ASK, "own-state", "it starts another Hermes, or reaches into other sessions"


_POLICY = word_set("config auth approvals trust setup uninstall plugins skills hooks mcp cron tools")
_HARMLESS = word_set("version help status -V --version -h --help")


def _crontab(call: Call) -> Iterator[Said]:
    if not call.has("l"):
        yield Verdict.ASK, "crontab", "it changes what runs later by itself"


def _network(call: Call) -> Iterator[Said]:
    if call.name in ("nc", "ncat", "netcat", "socat") and (
        call.has("ec", "--exec", "--sh-exec") or "EXEC" in call.subject.upper()
    ):
        yield Verdict.ASK, "remote-shell", "it gives a shell to the other side"
    source = call.simple.source
    while source is not None:
        names = [word.text for word in source.words[:1]]
        if names and names[0] in ("env", "printenv", "set", "export"):
            yield Verdict.ASK, "exfiltration", "it sends the environment away"
        source = source.source


def _secrets(call: Call) -> Iterator[Said]:
    """Words that name a file with keys; the pattern of a search is no such word."""
    named = call.words[1:] if call.name in _PATTERN_FIRST else call.words
    among_secrets = bool(named) and _closed(call.cwd, call.places)
    for word in named:
        if (among_secrets or _SPELLS_PATH.search(word.text)) and (reason := names_secret(word, call.cwd, call.places)):
            yield Verdict.ASK, "reads-secret", reason
            return


@lru_cache(maxsize=64)
def _closed(folder: str, places: Places) -> bool:
    """Whether every file in a folder is closed to tools."""
    return bool(read_refused(f"{folder}/x", places))


def names_secret(word: Word, cwd: str, places: Places) -> str:
    """Why the file that a word names may not be read; empty when it may."""
    text = _path_in(word.text)
    path = resolve(Word(text), cwd, places)
    if path.startswith("/dev/"):
        return ""
    if word.dynamic:
        path = reaches(path, places)
    refused = read_refused(path if path != places.hermes else f"{path}/x", places)
    return f"it reads {path}: {refused}" if refused else ""


def _path_in(text: str) -> str:
    """The path inside a word such as `@file`, `field=@file`, `--option=file`, `if=file` or `file:///path`."""
    text = text.removeprefix("file://")
    if text.startswith("@") or "=@" in text:
        return text.rpartition("@")[2]
    return text.rpartition("=")[2] if text.startswith(("-", "if=", "input=")) else text


_SPELLS_PATH = re.compile(r"[/~]|^\.|\$\{H")
_PATTERN_FIRST = word_set("grep egrep fgrep rg ag sed awk")
_WRITES_ALL = word_set("tee truncate touch sed sponge perl unlink")
_CODE_OPTIONS = word_set("-c -e -E -r -p --eval -ne -pe -command eval")
_COMMAND_TEXT = re.compile(
    r"\brm\s+(-\w+\s+)*-\w*[rR]|\bmkfs\b|\bdd\s+if=|(curl|wget)\b[^|]{0,300}\|\s*\w*sh\b|removeSync|:\(\)\s*\{"
)
_TAKES_DATA = word_set(
    """
    echo printf grep egrep fgrep rg ag ack gh glab jq yq cat less more head tail man wall logger say notify-send
    test [ [[ export : true false read column comm diff which type help tldr fzf todo task bd jira curl wget http
    sh bash zsh dash
    """
)
_LOOKERS = word_set(
    """
    echo printf ls du tree realpath readlink stat test [ chmod chown mkdir ssh ssh-keygen ssh-add ssh-copy-id git cd
    file dirname basename
    """
)
_RULES: dict[str, Callable[[Call], Iterator[Said]]] = {
    **dict.fromkeys(("rm", "srm", "rmdir", "del"), _remove),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), _permissions),
    **dict.fromkeys(
        ("wipefs", "sgdisk", "parted", "fdisk", "sfdisk", "cfdisk", "blkdiscard", "mke2fs", "mkswap", "cryptsetup"),
        _partition,
    ),
    "dd": _copy_raw,
    "kill": _kill,
    **dict.fromkeys(
        ("tee", "cp", "mv", "ln", "install", "truncate", "touch", "sed", "sponge", "scp", "unlink"), _written
    ),
    **dict.fromkeys(("pkill", "killall", "skill", "killall5"), _kill_named),
    **dict.fromkeys(("find", "fd"), _find),
    "rsync": _sync,
    **dict.fromkeys(("tar", "sort", "bsdtar", "zip"), _archive),
    **dict.fromkeys(INTERPRETERS, _interpreter),
    **dict.fromkeys(NETWORK, _network),
    "git": _git,
    "crontab": _crontab,
    "hermes": _hermes,
}
