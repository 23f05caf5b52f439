"""A program with its arguments, as the rules see it, and what they can say about it."""

import os.path
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from hermes.i18n.messages import phrase
from hermes.safety.autorun_files import runs_later
from hermes.safety.globs import spelled
from hermes.safety.paths import OWN, in_own_workspace, is_root_like, reaches, read_refused, write_refused
from hermes.safety.places import Places
from hermes.safety.shell import key_files
from hermes.safety.shell.budget import Budget
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.safety.shell.words import DECODED, FETCHED, NONE, SECRET, UNTOLD, State, Stream, Word
from hermes.safety.shell.words import words as word_set

BLOCK_DEVICE = re.compile(
    r"^/dev/((sd|hd|vd|xvd)[a-z*?\[{]|(nvme|mmcblk|r?disk|dm-|md|loop)[\d*?\[{]|mapper/|(root|mem|kmem|port)$|\*)"
)
"""Disks and memory, or wildcards that stand for them."""
CONTAINED = word_set(
    """
    unknown-command remote-exec nested-program program-text privilege system service wall network time kill-unknown
    kill-self kill-all runs-written chmod-open chown-recursive permissions protected-path users packages container
    hijack traces fills bomb reads-secret raw-shell
    """
)
"""Rules whose harm a sandbox takes out: outside is read-only, keys are hidden, other processes cannot be seen."""
_LONGEST_ARGV = 64
"""Words that are kept with an effect."""
_BY_INPUT = word_set("remote-exec program-text sql exfiltration unknown-command")
"""Rules that may speak of what a command is given by a pipe or a here-document, which its words do not show."""
_AT_RUN_TIME = re.compile(r"\$\{|\$\(\)|/dev/fd/")
_OTHER_HOME = re.compile(r"^(?:/home/[^/]+|/Users/[^/]+|/root)(?=/|$)")
_SECRET = frozenset({SECRET})
_PRIVATE = re.compile(
    r"(^|/)(\.env(\.(?!example|sample|template|dist|test)[\w.-]+)?|[^/]*\.(pem|key|kdbx|p12|pfx|jks|ovpn)|"
    r"[^/]*(credentials?|secrets?|passwords?)(\.\w+)?|\.(npmrc|pypirc|netrc|pgpass|git-credentials|htpasswd|dockercfg)|"
    r"\.\w+_history|id_(rsa|dsa|ecdsa|ed25519)|tokens?\.(json|txt|ya?ml)|(passwd|shadow))$",
    re.IGNORECASE,
)
_HISTORY = re.compile(r"/\.\w{1,20}_history$")
_UNTOLD = re.compile(r"[*?\[]|\{\}|\$\(\)|\$\{|\.found")
"""What stands for something else in a path: wildcards, what `find` puts in, and what is known when it runs."""
_CODE = re.compile(r"\.([cm]?js|ts|py|rb|p[lm]|php|lua|sh|[ch]|rs|go|so)$")
_SPELLS_PATH = re.compile(r"[/~]|^\.|\$\{H")


class Host(Protocol):
    """Who walks through the script: takes what rules say, and follows programs inside programs."""

    places: Places
    budget: Budget

    def say(self, verdict: Verdict, rule: str, reason: str, subject: str, *, contained: bool) -> None:
        """Note a finding."""

    def note(self, kind: EffectKind, argv: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Note an effect."""

    def run(self, words: Sequence[Word], state: State, stdin: Stream | None) -> Stream:
        """Judge a simple command."""
        ...

    def script(self, text: str, state: State, stdin: Stream | None) -> Stream:
        """Judge a shell text."""
        ...

    def at_end(self, text: str, state: State) -> None:
        """Judge a shell text once more when all else of this line is judged, with what its shell knows then."""


class Options:
    """The options of a command line, read as GNU programs do: groups of letters, `--name=value`, abbreviations."""

    __slots__ = ("letters", "longs", "operands", "values")

    def __init__(
        self, words: Sequence[Word], valued: str = "", named: frozenset[str] = NONE, *, stop: bool = False
    ) -> None:
        """`valued` are the letters, `named` the long names that take a value. `stop`: options end at an operand."""
        self.letters: set[str] = set()
        self.longs: list[str] = []
        self.values: dict[str, list[Word]] = {}
        self.operands: list[Word] = []
        at = 0
        while at < len(words):
            word = words[at]
            text = word.text
            at += 1
            if text == "--":
                self.operands += words[at:]
                return
            if text.startswith("--"):
                at += self._long(word, words[at] if at < len(words) else None, named)
            elif len(text) > 1 and text[0] == "-":
                at += self._group(word, words[at] if at < len(words) else None, valued)
            else:
                if stop:
                    self.operands += words[at - 1 :]
                    return
                self.operands.append(word)

    def _long(self, word: Word, following: Word | None, named: frozenset[str]) -> int:
        name, equals, value = word.text[2:].partition("=")
        self.longs.append(name)
        if equals:
            self.values.setdefault(name, []).append(Word(value, word.dynamic, labels=word.labels))
            return 0
        if following is not None and (name in named or any(one.startswith(name) for one in named)):
            self.values.setdefault(name, []).append(following)
            return 1
        return 0

    def _group(self, word: Word, following: Word | None, valued: str) -> int:
        text = word.text
        for place, letter in enumerate(text[1:], 2):
            self.letters.add(letter)
            if letter in valued:
                rest = text[place:]
                if rest:
                    self.values.setdefault(letter, []).append(Word(rest, word.dynamic, labels=word.labels))
                    return 0
                if following is not None:
                    self.values.setdefault(letter, []).append(following)
                    return 1
                return 0
        return 0

    def has(self, *names: str) -> bool:
        """Whether one of these is given: letters, or long names, also abbreviated."""
        return any(
            name in self.letters if len(name) == 1 else any(name.startswith(given) for given in self.longs if given)
            for name in names
        )

    def all(self, *names: str) -> list[Word]:
        """The values given to these, abbreviated or not."""
        found: list[Word] = []
        for given, values in self.values.items():
            if any(given == name or (len(name) > 1 < len(given) and name.startswith(given)) for name in names):
                found += values
        return found


class Call:
    """A program with its words, wrappers taken off."""

    __slots__ = ("_subject", "args", "fed", "host", "name", "state", "stdin", "words")

    def __init__(self, name: str, words: Sequence[Word], state: State, stdin: Stream | None, host: Host) -> None:
        self.name = name
        self.words = words
        self.args = [word.text for word in words]
        self.state = state
        self.fed = stdin is not None
        self.stdin = stdin if stdin is not None else UNTOLD
        self.host = host
        self._subject: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command."""
        return (self.name, *self.args[:_LONGEST_ARGV])

    @property
    def cwd(self) -> str:
        """Where it runs."""
        return self.state.where.now

    def subject(self) -> str:
        """What a pattern has to cover."""
        if self._subject is None:
            told = not any(word.dynamic and _AT_RUN_TIME.search(word.text) for word in self.words)
            self._subject = self.state.where.subject(spelled((self.name, *self.args))) if told else ""
        return self._subject

    def ask(self, rule: str, reason: str, *, contained: bool | None = None) -> None:
        """A person should be asked."""
        subject = "" if self.fed and rule in _BY_INPUT else self.subject()
        self.host.say(
            Verdict.ASK, rule, reason, subject, contained=rule in CONTAINED if contained is None else contained
        )

    def deny(self, rule: str, reason: str) -> None:
        """It is never done."""
        self.host.say(Verdict.DENY, rule, reason, self.subject(), contained=False)

    def effect(self, kind: EffectKind, targets: Iterable[str] = ()) -> None:
        """It would do this."""
        if kind is EffectKind.RUNS:
            targets = [_constant(target, self.cwd) for target in targets]
            if self.state.files and any(self._fetched_into(target) for target in targets):
                self.ask("remote-exec", "it runs what it downloads or decodes")
        self.host.note(kind, self.argv, tuple(targets))

    def _fetched_into(self, folder: str) -> bool:
        """Whether this line put code of strangers into a folder out of which code is taken."""
        return any(
            stream.labels & {FETCHED, DECODED} and under(path, folder) and _is_code(path)
            for path, stream in self.state.files.items()
        )

    def options(self, valued: str = "", named: frozenset[str] = NONE, *, stop: bool = False) -> Options:
        """Its options, by what takes a value."""
        return Options(self.words, valued, named, stop=stop)

    def given(self) -> Stream | None:
        """What it is given by a pipe or a file; None when nothing is."""
        return self.stdin if self.fed else None

    def run(self, words: Sequence[Word], *, lost: bool = False, stdin: Stream | None = None) -> Stream:
        """Follow a program that this one starts; `lost`: elsewhere, or with more arguments."""
        if not words:
            return UNTOLD
        state = self.state.copy(self.state.where.lost()) if lost else self.state
        return self.host.run(words, state, stdin if stdin is not None else self.given())

    def script(self, text: str, *, lost: bool = False, stdin: Stream | None = None) -> Stream:
        """Follow a shell text that this one runs."""
        state = self.state.copy(self.state.where.lost() if lost else None)
        return self.host.script(text, state, stdin if stdin is not None else self.given())

    def path(self, word: Word) -> str:
        """The path that a word names, as far as text alone tells."""
        return resolve(word.text, self.cwd, self.host.places)

    def writes(
        self, path: str, *, how: str = "writes", kind: EffectKind = EffectKind.WRITES, noted: bool = False
    ) -> bool:
        """Judge a file being written, replaced or deleted; whether something was said."""
        if not noted:
            self.effect(kind, (path,))
        return judge_write(self.host, path, how, self.subject(), self.state)

    def secret(self, word: Word) -> str:
        """Why the file that a word names may not be read; empty when it may."""
        return names_secret(word, self.cwd, self.host.places)

    def reads(self, named: Sequence[Word]) -> frozenset[str]:
        """Judge files being read; the labels of what comes out."""
        labels = NONE
        reasons: list[tuple[str, str]] = []
        for word in named:
            labels |= word.labels | self._read(word, reasons)
        for path, reason in sorted(reasons, key=lambda one: not names_own(one[0], one[1], self.host.places))[:1]:
            self.effect(EffectKind.READS, (path,))
            self.reads_secret(path, reason)
        return labels

    def reads_secret(self, path: str, reason: str) -> None:
        """Say that a file is read which may not be."""
        verdict, rule, _ = said_of_secret(path, reason, self.host.places)
        if verdict is Verdict.DENY:
            self.host.say(verdict, rule, reason, self.subject(), contained=True)
        else:
            self.ask(rule, reason)

    def _read(self, word: Word, reasons: list[tuple[str, str]]) -> frozenset[str]:
        """The labels of one file; why it may not be read is added to `reasons`."""
        text, files = path_in(word.text), self.state.files
        if not text:
            return NONE
        plain = not _SPELLS_PATH.search(text) and not is_closed(self.cwd, self.host.places)
        if plain and not files and not word.dynamic and self.cwd.startswith(self.host.places.workspace):
            return _SECRET if _PRIVATE.search(text) else NONE
        path = resolve(text, self.cwd, self.host.places)
        held = files.get(text) or files.get(path)
        return held.labels if held is not None else self._labels(word, path, reasons, plain=plain)

    def _labels(self, word: Word, path: str, reasons: list[tuple[str, str]], *, plain: bool) -> frozenset[str]:
        """The labels of a file that this line did not write."""
        if reason := ("" if plain else self.secret(word)) or self._shows_key(word, path):
            reasons.append((path, reason))
            return _SECRET
        return _SECRET if _PRIVATE.search(path) else NONE

    def _shows_key(self, word: Word, path: str) -> str:
        """Why a key comes to light: it is shown, and not handed to a program that uses it. Empty when none does."""
        if self.name not in key_files.SHOWING or (word.text[:1] == "-" and "=" not in word.text):
            return ""
        listed = word.dynamic and key_files.KEYED in word.labels
        return key_files.called(path) if listed or key_files.holds_key(path, self.host.places) else ""


def _is_code(path: str) -> bool:
    return runs_later(path) or _CODE.search(path) is not None


def _constant(target: str, cwd: str) -> str:
    """The file that runs; where its name is only known when it runs, the folder that it is surely in."""
    found = _UNTOLD.search(target)
    if found is None:
        return target
    folder = target[: found.start()].rpartition("/")[0]
    return folder or ("/" if target.startswith("/") else cwd)


_HOW = (
    phrase("writes"),
    phrase("deletes"),
    phrase("overwrites"),
    phrase("replaces"),
    phrase("cuts off"),
    phrase("unpacks into"),
    phrase("changes the rights of"),
)
"""What may be done to a path, as reasons call it."""


def judge_write(host: Host, path: str, how_said: str, subject: str, state: State) -> bool:
    """Judge a path that is written, by a program or a redirect; whether something was said."""
    places = host.places
    if path.startswith(("/dev/tcp/", "/dev/udp/", "/dev/fd/")):
        return False
    opened = any(under(path, one) for one in places.own) or in_own_workspace(path, places)
    own = under(path, places.hermes) and not opened
    if BLOCK_DEVICE.match(path):
        host.say(Verdict.DENY, "raw-disk", f"it {how_said} a disk", subject, contained=False)
    elif own:
        reason = f"it {how_said} {path}: Hermes' own settings and state"
        host.say(Verdict.DENY, "own-state", reason, subject, contained=False)
    elif refused := _refused(path, places):
        held = not inside(path, places)
        host.say(Verdict.ASK, "protected-path", f"it {how_said} {path}: {refused}", subject, contained=held)
    elif _HISTORY.search(path):
        host.say(Verdict.ASK, "traces", "it wipes or rewrites the history of commands", subject, contained=True)
    elif how_said == "writes" and operator_loses(host, path, state):
        host.say(Verdict.ASK, "emptied", f"it replaces {path}, which may hold keys", subject, contained=False)
    else:
        return False
    return True


def _refused(path: str, places: Places) -> str:
    """Why a path may not be written, by the name it has here, below the person's home, and as a pattern."""
    named = mapped(path, places)
    refused = write_refused(path, places) or (write_refused(named, places) if named != path else "")
    if not refused and any(sign in path for sign in ("*", "?", "[", "${")):
        refused = write_refused(_reached(path, places), places)
    return refused


def operator_loses(host: Host, path: str, state: State) -> bool:
    """Whether replacing a file loses what nobody else knows."""
    del host
    return path not in state.files and path.rpartition("/")[2] in (".env", ".env.production", ".env.local")


def resolve(text: str, cwd: str, places: Places) -> str:
    """An absolute path without `..`, as far as text alone tells."""
    if text.startswith("${"):
        for name, value in (("${HOME}", places.home), ("${HERMES_HOME}", places.hermes), ("${PWD}", cwd)):
            if text.startswith(name):
                text = value + text[len(name) :]
    elif text.startswith("~"):
        text = _tilde(text, places)
    path = os.path.normpath(text if text.startswith("/") else f"{cwd}/{text}")
    path = path[1:] if path.startswith("//") else path
    for prefix in ("/proc/self/root", "/proc/1/root", "/proc/thread-self/root"):
        if under(path, prefix):
            return path[len(prefix) :] or "/"
    return path


_reached = lru_cache(maxsize=128)(reaches)


def _tilde(text: str, places: Places) -> str:
    if text.startswith("~+"):
        return "." + text[2:]
    if text[1:2] in ("", "/"):
        return places.home + text[1:]
    user, slash, rest = text[1:].partition("/")
    if not user.isidentifier():
        return text
    return ("/root" if user == "root" else f"{os.path.dirname(places.home)}/{user}") + slash + rest


def path_in(text: str) -> str:
    """The path inside a word such as `@file`, `field=@file`, `--option=file`, `if=file` or `file:///path`."""
    text = text.removeprefix("file://")
    if text.startswith(("@", "<")) or "=@" in text or "=<" in text:
        return text.rpartition("@")[2].rpartition("<")[2]
    return text.rpartition("=")[2] if text.startswith(("-", "if=", "input=", "of=")) else text


def names_secret(word: Word, cwd: str, places: Places) -> str:
    """Why the file that a word names may not be read; empty when it may."""
    path = resolve(path_in(word.text), cwd, places)
    if path.startswith("/dev/"):
        return ""
    if word.dynamic or "*" in path or "?" in path or "[" in path:
        path = _reached(path, places)
    refused = read_refused(path if path != places.hermes else f"{path}/x", places)
    named = mapped(path, places)
    if not refused and named != path:
        refused = read_refused(named, places)
    return f"it reads {path}: {refused}" if refused else ""


def names_own(path: str, reason: str, places: Places) -> bool:
    """Whether such a reason is that this very path is Hermes' own settings, keys or state."""
    told = not any(sign in path for sign in "*?[$")
    return reason.endswith(OWN) and (told or path.startswith(f"{places.hermes}/"))


def said_of_secret(path: str, reason: str, places: Places) -> tuple[Verdict, str, str]:
    """Verdict, rule and reason for a file that may not be read: what is Hermes' own is as closed as it is to tools."""
    own = names_own(path, reason, places)
    return Verdict.DENY if own else Verdict.ASK, "own-state" if own else "reads-secret", reason


def private(path: str) -> bool:
    """Whether what a file holds should not leave the machine, by its name."""
    return _PRIVATE.search(path) is not None


def is_closed(folder: str, places: Places) -> bool:
    """Whether every file in a folder is closed to tools."""
    return (folder.startswith((places.home, places.hermes, "/proc", "/etc"))) and bool(
        read_refused(f"{folder}/x", places)
    )


def mapped(path: str, places: Places) -> str:
    """The path as it would be below the person's home, when it is below somebody's."""
    return _OTHER_HOME.sub(lambda _: places.home, path, count=1)


def under(path: str, folder: str) -> bool:
    """Whether a path is a folder or below it."""
    return path == folder or path.startswith(folder + "/")


def temporary(path: str, places: Places | None = None) -> bool:
    """Whether a path is among temporary files; the session's own folder, if `places` say where it is, is not."""
    found = path.startswith(("/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/"))  # noqa: S108 - rules name them
    return found and not (places is not None and inside(path, places))


def inside(path: str, places: Places) -> bool:
    """Whether a path is in the session's folder."""
    return under(path, places.workspace)


def root_like(path: str, places: Places) -> bool:
    """Whether losing a path as a whole loses the system, or somebody's home."""
    return is_root_like(path, places) or is_root_like(mapped(path, places), places) or _gutted(path)


_SYSTEM = re.compile(r"^/(bin|boot|dev|etc|lib\w*|proc|sbin|sys|usr|System|Library)(/\*)*$|^/var(/lib)?(/\*)*$")


def _gutted(path: str) -> bool:
    return bool(_SYSTEM.match(path)) or re.fullmatch(r"/[*?.\[\]!]+", path) is not None
