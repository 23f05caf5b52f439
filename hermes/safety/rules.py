"""The rules by program name. Each looks at resolved words, so quoting, option order and paths to the program do not matter."""

import os.path
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hermes.safety import wrappers
from hermes.safety.findings import Verdict
from hermes.safety.paths import Places, is_root_like, read_refused, write_refused
from hermes.safety.shell import Simple, Word
from hermes.safety.wrappers import INTERPRETERS, Inner
from hermes.safety.words import ALWAYS, FLOOR, NETWORK, SEQUENCES

Said = tuple[Verdict, str, str]

BLOCK_DEVICE = re.compile(r"^/dev/(sd[a-z]|nvme\d|hd[a-z]|vd[a-z]|xvd[a-z]|mmcblk\d|disk\d|rdisk\d|dm-\d|md\d|mapper/|loop\d|root)")
HIJACKING = frozenset("LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT BASH_ENV ENV PROMPT_COMMAND DYLD_INSERT_LIBRARIES PYTHONSTARTUP PERL5OPT "
                      "NODE_OPTIONS RUBYOPT GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_CONFIG_COUNT HISTFILE".split())  # fmt: skip
_CODE = re.compile(
    r"rmtree|unlink|remove\(|rmdir|subprocess|os\.system|popen|pty\.spawn|child_process|exec[A-Z]?\w*\(|\bexec\s+sprintf|system\(|"
    r"`|socket|TCPSocket|urlopen|requests\.(post|put)|__import__|b64decode|fromhex|fork|rmSync|rm_rf|File\.delete|write_text|"
    r"open\([^)]*['\"][wa]|chmod|kill\(|shutil\.move|ctypes",
    re.IGNORECASE,
)
_SQL_CLIENTS = frozenset("psql mysql mariadb sqlite3 sqlite sqlcmd cockroach clickhouse-client duckdb mongosh mongo bq cqlsh isql".split())
_SQL = re.compile(
    r"\s*(?:(drop|truncate)\b|alter\s+\w+\s+\S+\s+drop\b|(delete)\s+from\b|(update)\s+\S+\s+set\b|db\.dropDatabase|db\.\w+\.(drop|deleteMany)\()",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\bwhere\b(?!\s*\(?\s*(1\s*=\s*1|true|'?(\w)'?\s*=\s*'?\2'?)\s*\)?\s*($|;))", re.IGNORECASE)
_WORLD = re.compile(r"^0*[0-7]?[0-7][0-7][2367]$|^[ugoa]*[oa][ugoa]*[+=][rwxXst]*w|^\+[rwx]*w[rwx]*$|^[ugoa]*\+[rwx]*s|^0*[4-7][0-7]{3}$")
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
        return [word for at, word in enumerate(self.words) if at > after or (not word.text.startswith("-") and at != after)]

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
    if name in ALWAYS:
        yield Verdict.ASK, "privilege" if name in ("sudo", "su", "doas", "pkexec") else "system", ALWAYS[name]
    if any(not word or word in call.args for word in FLOOR.get(name, ())):
        yield Verdict.DENY, "power", "it stops the machine"
    for words, reason in SEQUENCES.get(name, ()):
        if _follows(words.split(), call.args):
            yield Verdict.ASK, name, reason
    if name.startswith("mkfs"):
        yield _disk(call)
    rule = _RULES.get(name) or _RULES.get(name.rstrip("0123456789."))
    if rule is not None:
        yield from rule(call)
    elif name in _SQL_CLIENTS:
        yield from _sql(call)
    if name not in _LOOKERS:
        yield from _secrets(call)
    if name not in _TAKES_DATA and rule is None and _COMMAND_TEXT.search(" ".join(call.args)):
        yield Verdict.ASK, "nested-program", "its arguments hold a command that deletes or downloads"


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
    device = any(BLOCK_DEVICE.match(word.text.rpartition("of=")[2]) or word.text.startswith("/dev/") for word in call.words)
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
    targets = operands if call.name in ("tee", "truncate", "touch", "sed", "sponge", "perl", "unlink") else operands[-1:]
    targets += [Word(text.partition("=")[2]) for text in call.args if text.startswith("--target-directory=")]
    for word in targets:
        path = resolve(word, call.cwd, call.places)
        if BLOCK_DEVICE.match(path):
            yield Verdict.DENY, "raw-disk", "it overwrites a disk"
        elif (refused := write_refused(path, call.places)) and not (call.name == "sed" and not call.has("i", "--in-place")):
            yield Verdict.ASK, "protected-path", f"it writes {path}: {refused}"
    if call.name in ("mv", "cp", "ln") and len(operands) > 1:
        sources = [resolve(word, call.cwd, call.places) for word in operands[:-1]]
        if call.name == "mv" and any(is_root_like(path, call.places) or path.endswith("/.git") for path in sources):
            yield Verdict.ASK, "mv-away", "it moves away what other things depend on"
        if "/dev/null" in (*sources, operands[-1].text):
            yield Verdict.ASK, "emptied", "it replaces a file by nothing, or moves one into nothing"
    if call.name == "truncate" and call.has("s", "--size"):
        yield Verdict.ASK, "emptied", "it cuts files off"


def _git(call: Call) -> Iterator[Said]:
    args = call.args
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] == "-c" and at + 1 < len(args):
            key = args[at + 1].lower()
            if "!" in key or key.startswith(("core.sshcommand", "core.pager", "core.editor", "core.hookspath", "core.fsmonitor", "diff.external")):
                yield Verdict.ASK, "nested-program", "git is told to start another program"
        at += 2 if args[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path") else 1
    if at >= len(args):
        return
    verb = args[at]
    rest = Call(name=verb, words=call.words[at + 1 :], simple=call.simple, cwd=call.cwd, places=call.places, subject="")
    if rest.has("n", "--dry-run") and verb in ("push", "clean"):
        return
    reason = _git_verb(verb, rest)
    if reason:
        yield Verdict.ASK, f"git-{verb}", reason


def _git_verb(verb: str, rest: Call) -> str:  # noqa: PLR0911 - one line a verb
    args = rest.args
    match verb:
        case "reset":
            return "it throws away changes that were not committed" if rest.has("", "--hard", "--merge", "--keep") else ""
        case "push":
            forced = rest.has("fd", "--force", "--force-with-lease", "--mirror", "--delete", "--prune")
            named = any(word.text.startswith(("+", ":")) for word in rest.operands()[1:])
            return "it rewrites or deletes what others have" if forced or named else ""
        case "clean":
            return "it deletes files that git does not know" if rest.has("f", "--force") else ""
        case "checkout" | "restore" | "switch":
            whole = any(text in (".", ":/", "*") for text in args) and not (verb == "restore" and "--staged" in args)
            return "it throws away changes that were not committed" if whole or rest.has("f", "--force", "--discard-changes") else ""
        case "branch":
            return "it deletes commits that were not merged" if rest.has("D") or (rest.has("d", "--delete") and rest.has("f", "--force")) else ""
        case "stash":
            return "it throws away stashed changes" if args[:1] and args[0] in ("clear", "drop") else ""
        case "filter-branch" | "filter-repo":
            return "it rewrites history"
        case "update-ref":
            return "it deletes references" if rest.has("d", "--delete") or "--stdin" in args else ""
        case "reflog":
            return "it deletes the way back" if args[:1] and args[0] in ("expire", "delete") else ""
        case "gc" | "prune":
            return "it deletes the way back" if any("now" in text or "all" in text for text in args) else ""
        case "worktree" | "submodule":
            return "it deletes work" if rest.has("f", "--force") and args[:1] and args[0] in ("remove", "deinit") else ""
        case "config":
            risky = ("alias.", "core.hookspath", "core.sshcommand", "core.pager", "core.editor", "credential.", "include.")
            return "it changes which programs git starts" if any(text.lower().startswith(risky) for text in args) and len(args) > 1 else ""
    return ""


def _kill(call: Call) -> Iterator[Said]:
    texts = call.args
    if call.name == "kill":
        pids = [text for text in texts if text.lstrip("-").isdigit()]
        if "-1" in texts[1:] or (texts[-1:] == ["1"]):
            yield Verdict.DENY, "kill-all", "it ends every process, or the first one"
        elif "${PPID}" in texts or any(word.dynamic for word in call.words) or not (pids or call.has("l")):
            yield Verdict.ASK, "kill-unknown", "which process it ends is only known when it runs; it may be Hermes itself"
    elif any(_SELF.search(text) for text in texts):
        yield Verdict.ASK, "kill-self", "it may end Hermes itself"
    elif any(text in ("-u", "--user", "*", ".") for text in texts):
        yield Verdict.ASK, "kill-all", "it ends every process of a user"


def _find(call: Call) -> Iterator[Said]:
    args = call.args
    if "-delete" in args or any(text in ("-fprint", "-fprintf", "-fls") for text in args):
        roots = [word for word in call.words[:1] if not word.text.startswith("-")]
        deep = any(is_root_like(resolve(word, call.cwd, call.places), call.places) for word in roots)
        narrowed = any(text in ("-name", "-iname", "-mtime", "-path", "-mmin", "-size", "-type") for text in args)
        yield (Verdict.DENY if deep and not narrowed else Verdict.ASK), "find-delete", "it deletes every file that it finds"


def _sync(call: Call) -> Iterator[Said]:
    if call.has("", "--delete", "--delete-after", "--delete-before", "--delete-excluded", "--remove-source-files"):
        yield Verdict.ASK, "sync-delete", "it deletes what the other side does not have"
    if call.has("e", "--rsh", "--rsync-path") and any("sh -c" in text for text in call.args):
        yield Verdict.ASK, "nested-program", "rsync is told to start another program"
    yield from _written(call)


def _archive(call: Call) -> Iterator[Said]:
    if any(text.startswith(("--to-command", "--checkpoint-action", "--use-compress-program", "-I", "--compress-prog")) for text in call.args):
        yield Verdict.ASK, "nested-program", "it is told to start another program"


def _interpreter(call: Call) -> Iterator[Said]:
    args = call.args
    codes = [args[at + 1] for at, text in enumerate(args[:-1]) if text in ("-c", "-e", "-E", "-r", "--eval", "-ne", "-pe", "-command")]
    scripts = [text for text in args if not text.startswith("-")]
    if not codes and not scripts:
        if wrappers.fetches(call.simple):
            yield Verdict.ASK, "remote-exec", "it runs what it downloads or decodes"
        codes = [call.simple.heredoc or ""]
    elif not codes and scripts[0] in ("/dev/stdin", "-") and wrappers.fetches(call.simple):
        yield Verdict.ASK, "remote-exec", "it runs what it downloads or decodes"
    if any("$()" in code for code in codes) and wrappers.fetches(call.simple):
        yield Verdict.ASK, "remote-exec", "it runs what it downloads or decodes"
    if any(_CODE.search(code) for code in codes):
        yield Verdict.ASK, "program-text", "the program text starts programs, deletes, or opens connections"
    if call.name == "perl" and call.has("i"):
        yield from _written(call)


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
    if args and args[0] in ("config", "auth", "approvals", "trust", "setup", "uninstall", "plugins", "skills", "hooks", "mcp", "cron", "tools"):
        if not any(text in _SHOWN for text in args[1:]):
            yield Verdict.DENY, "own-policy", "Hermes' own settings are not changed by its commands"
    elif args and args[0] in ("gateway", "stop", "sessions"):
        yield Verdict.ASK, "own-state", "it changes the running Hermes"


def _network(call: Call) -> Iterator[Said]:
    if call.name in ("nc", "ncat", "netcat", "socat") and (call.has("ec", "--exec", "--sh-exec") or "EXEC" in call.subject.upper()):
        yield Verdict.ASK, "remote-shell", "it gives a shell to the other side"
    source = call.simple.source
    while source is not None:
        names = [word.text for word in source.words[:1]]
        if names and names[0] in ("env", "printenv", "set", "export"):
            yield Verdict.ASK, "exfiltration", "it sends the environment away"
        source = source.source


def _secrets(call: Call) -> Iterator[Said]:
    words = call.words[1:] if call.name in ("grep", "egrep", "fgrep", "rg", "ag", "sed", "awk") else call.words
    for word in (*words, *(target for operator, target in call.simple.redirects if operator == "<")):
        text = word.text.rpartition("@")[2] if word.text.startswith(("@", "-")) or "=@" in word.text else word.text
        text = text.rpartition("=")[2] if text.startswith(("-", "if=", "input=")) else text
        if not text.startswith(("/", "~", "${HOME}", "..")) and ".ssh/" not in text and not text.startswith("."):
            continue
        path = resolve(Word(text), call.cwd, call.places)
        if not path.startswith("/dev/") and (refused := read_refused(path, call.places)):
            yield Verdict.ASK, "reads-secret", f"it reads {path}: {refused}"
            return


_COMMAND_TEXT = re.compile(r"\brm\s+(-\w+\s+)*-\w*[rR]|\bmkfs\b|\bdd\s+if=|(curl|wget)\b[^|]{0,300}\|\s*\w*sh\b|removeSync|:\(\)\s*\{")
_TAKES_DATA = frozenset(
    """echo printf grep egrep fgrep rg ag ack gh glab jq yq cat less more head tail man wall logger say notify-send test [ [[ export
    : true false read column comm diff which type help tldr fzf todo task bd jira curl wget http sh bash zsh dash""".split()
)
_LOOKERS = frozenset("echo printf ls stat test [ chmod chown mkdir ssh ssh-keygen ssh-add ssh-copy-id git cd file dirname basename".split())
_RULES: dict[str, Callable[[Call], Iterator[Said]]] = {
    **dict.fromkeys(("rm", "srm", "rmdir", "del"), _remove),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), _permissions),
    **dict.fromkeys(("wipefs", "sgdisk", "parted", "fdisk", "sfdisk", "cfdisk", "blkdiscard", "mke2fs", "mkswap", "cryptsetup"), _partition),
    "dd": _copy_raw,
    **dict.fromkeys(("tee", "cp", "mv", "ln", "install", "truncate", "touch", "sed", "sponge", "scp", "unlink"), _written),
    **dict.fromkeys(("kill", "pkill", "killall", "skill", "killall5"), _kill),
    **dict.fromkeys(("find", "fd"), _find),
    "rsync": _sync,
    **dict.fromkeys(("tar", "sort", "bsdtar", "zip"), _archive),
    **dict.fromkeys(INTERPRETERS, _interpreter),
    **dict.fromkeys(NETWORK, _network),
    "git": _git,
    "hermes": _hermes,
}
