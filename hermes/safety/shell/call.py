"""A program with its arguments, as the rules see it, and the findings and effects that rules add for it."""

import os.path
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from hermes.i18n.messages import N_
from hermes.safety.autorun_files import is_autorun_file
from hermes.safety.globs import quote_argv
from hermes.safety.paths import (
    OWN_STATE_REASON,
    Places,
    expand_to_protected,
    is_home_entry,
    is_in_own_workspace,
    is_root_like,
    is_ssh_public,
    read_refusal,
    write_refusal,
)
from hermes.safety.shell import key_files
from hermes.safety.shell.findings import EffectKind, Verdict
from hermes.safety.shell.syntax import AnalysisBudget
from hermes.safety.shell.words import NO_LABELS, UNKNOWN_STREAM, AnalysisState, Label, ShellStream, Word, word_set

BLOCK_DEVICE = re.compile(
    r"^/dev/((sd|hd|vd|xvd)[a-z*?\[{]|(nvme|mmcblk|r?disk|dm-|md|loop)[\d*?\[{]|mapper/|(root|mem|kmem|port)$|\*)"
)
"""Disks and memory, or wildcards that stand for them."""
CONTAINED = word_set("""
    unknown-command remote-exec nested-program program-text privilege system service wall network time kill-unknown
    kill-self kill-all runs-written chmod-open chown-recursive permissions protected-path users packages container
    hijack traces fills bomb reads-secret raw-shell
""")
"""Rules whose harm a sandbox prevents: outside is read-only, keys are hidden, other processes cannot be seen."""
MAX_ARGV = 64
"""Words that are kept with an effect."""
_INPUT_RULES = word_set("remote-exec program-text sql exfiltration unknown-command")
"""Rules that may be about the input from a pipe or a here-document, which the command's words do not show."""
_RUN_TIME_VALUE = re.compile(r"\$\{|\$\(\)|/dev/fd/")
_OTHER_HOME = re.compile(r"^(?:/home/[^/]+|/Users/[^/]+|/root)(?=/|$)")
_SECRET = frozenset({Label.SECRET})
_ONLY_COPIES = (".env", ".env.production", ".env.local")
"""Files with secrets that exist nowhere else."""
_HISTORY = re.compile(r"/\.\w{1,20}_history$")
_UNKNOWN_PART = re.compile(r"[*?\[]|\{\}|\$\(\)|\$\{|\.found")
"""Parts of a path that stand for unknown text: wildcards, the placeholder of `find`, values known at run time."""
_CODE_FILE = re.compile(r"\.([cm]?js|ts|py|rb|p[lm]|php|lua|sh|[ch]|rs|go|so)$")
_SPELLS_PATH = re.compile(r"[/~]|^\.|\$\{H")


class AnalysisHost(Protocol):
    """The analysis of a script: it collects the findings of rules, and follows programs inside programs."""

    places: Places
    budget: AnalysisBudget

    def add_finding(self, verdict: Verdict, rule: str, reason: str, subject: str, *, contained: bool) -> None:
        """Add a finding."""

    def add_effect(self, kind: EffectKind, argv: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Add an effect."""

    def judge_command(self, words: Sequence[Word], state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a simple command."""
        ...

    def judge_script(self, text: str, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a shell text."""
        ...

    def judge_at_exit(self, text: str, state: AnalysisState) -> None:
        """Judge a shell text once more after the rest of this line, with the shell's state at that time."""


class CommandOptions:
    """The options of a command line, read as GNU programs do: groups of letters, `--name=value`, abbreviations."""

    __slots__ = ("letters", "longs", "operands", "values")

    def __init__(
        self,
        words: Sequence[Word],
        valued: str = "",
        named: str = "",
        *,
        attached: str = "",
        last: str = "",
        stop: bool = False,
    ) -> None:
        """Read the options. `valued` are the letters, `named` the long names that take a value; `attached` are letters
        that take one only in their own word. `stop`: options end at an operand; `last`: and behind these letters.
        """
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
                at += self._read_long_option(word, words[at] if at < len(words) else None, named)
            elif len(text) > 1 and text[0] == "-":
                at += self._read_letter_group(word, words[at] if at < len(words) else None, valued, attached)
                if not self.letters.isdisjoint(last):
                    self.operands += words[at:]
                    return
            elif stop:
                self.operands += words[at - 1 :]
                return
            else:
                self.operands.append(word)

    def _read_long_option(self, word: Word, following: Word | None, named: str) -> int:
        name, equals, value = word.text[2:].partition("=")
        self.longs.append(name)
        if equals:
            self.values.setdefault(name, []).append(Word(value, word.dynamic, labels=word.labels))
            return 0
        if following is not None and any(one.startswith(name) for one in named.split()):
            self.values.setdefault(name, []).append(following)
            return 1
        return 0

    def _read_letter_group(self, word: Word, following: Word | None, valued: str, attached: str) -> int:
        text = word.text
        for place, letter in enumerate(text[1:], 2):
            self.letters.add(letter)
            rest = text[place:]
            if rest and (letter in valued or letter in attached):
                self.values.setdefault(letter, []).append(Word(rest, word.dynamic, labels=word.labels))
                return 0
            if letter in valued and following is not None:
                self.values.setdefault(letter, []).append(following)
                return 1
        return 0

    def has_option(self, *names: str) -> bool:
        """Return whether one of these is given: letters, or long names, also abbreviated."""
        return any(
            name in self.letters if len(name) == 1 else any(name.startswith(given) for given in self.longs if given)
            for name in names
        )

    def option_values(self, *names: str) -> list[Word]:
        """Return the values given to these, abbreviated or not."""
        found: list[Word] = []
        for given, values in self.values.items():
            if any(given == name or (len(name) > 1 < len(given) and name.startswith(given)) for name in names):
                found += values
        return found


class ProgramCall:
    """A program with its words, wrappers taken off."""

    __slots__ = ("_subject", "args", "fed", "host", "name", "state", "stdin", "words")

    def __init__(
        self, name: str, words: Sequence[Word], state: AnalysisState, stdin: ShellStream | None, host: AnalysisHost
    ) -> None:
        self.name = name
        self.words = words
        self.args = [word.text for word in words]
        self.state = state
        self.fed = stdin is not None
        self.stdin = stdin if stdin is not None else UNKNOWN_STREAM
        self.host = host
        self._subject: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the whole command."""
        return (self.name, *self.args[:MAX_ARGV])

    @property
    def cwd(self) -> str:
        """Return the folder in which it runs."""
        return self.state.where.current

    def subject(self) -> str:
        """Return the subject that a person's pattern has to cover; empty when it is only known at run time."""
        if self._subject is None:
            is_known = not any(word.dynamic and _RUN_TIME_VALUE.search(word.text) for word in self.words)
            self._subject = self.state.where.subject(quote_argv((self.name, *self.args))) if is_known else ""
        return self._subject

    def ask(
        self,
        rule: str,
        reason: str,
        *,
        contained: bool | None = None,
        effect: EffectKind | None = None,
        targets: Iterable[str] = (),
    ) -> None:
        """Add a finding that requires approval, and the effect that it is about, if there is one."""
        if effect is not None:
            self.add_effect(effect, targets)
        subject = "" if self.fed and rule in _INPUT_RULES else self.subject()
        self.host.add_finding(
            Verdict.ASK, rule, reason, subject, contained=rule in CONTAINED if contained is None else contained
        )

    def ask_about_origin(self, labels: Collection[str]) -> bool:
        """Ask about a program text that is downloaded or decoded; return whether it is.

        What is downloaded asks in a sandbox, too: nobody has seen what runs.
        """
        if Label.FETCHED not in labels and Label.DECODED not in labels:
            return False
        self.ask("remote-exec", "it runs what it downloads or decodes", contained=Label.FETCHED not in labels)
        return True

    def deny(self, rule: str, reason: str, *, effect: EffectKind | None = None, targets: Iterable[str] = ()) -> None:
        """Add a finding that refuses the command, and the effect that it is about, if there is one."""
        if effect is not None:
            self.add_effect(effect, targets)
        self.host.add_finding(Verdict.DENY, rule, reason, self.subject(), contained=False)

    def add_effect(self, kind: EffectKind, targets: Iterable[str] = ()) -> None:
        """Add an effect."""
        if kind is EffectKind.RUNS:
            targets = [_known_target(target, self.cwd) for target in targets]
            for target in targets if self.state.files else ():
                self.ask_about_origin(self._origin_of_code(target))
        self.host.add_effect(kind, self.argv, tuple(targets))

    def _origin_of_code(self, folder: str) -> frozenset[str]:
        """Return the labels of the code that this line put into a folder from which code is loaded."""
        code = (
            stream.labels
            for path, stream in self.state.files.items()
            if is_under(path, folder) and (is_autorun_file(path) or _CODE_FILE.search(path))
        )
        return NO_LABELS.union(*code)

    def parse_options(self, valued: str = "", named: str = "", *, stop: bool = False) -> CommandOptions:
        """Parse its options; `valued` and `named` are those that take a value."""
        return CommandOptions(self.words, valued, named, stop=stop)

    def piped_input(self) -> ShellStream | None:
        """Return its input from a pipe or a file; None when it has none."""
        return self.stdin if self.fed else None

    def judge_program(
        self, words: Sequence[Word], *, lost: bool = False, stdin: ShellStream | None = None
    ) -> ShellStream:
        """Follow a program that this one starts; `lost`: elsewhere, or with more arguments."""
        if not words:
            return UNKNOWN_STREAM
        state = self.state.copy(self.state.where.lose_track()) if lost else self.state
        return self.host.judge_command(words, state, stdin if stdin is not None else self.piped_input())

    def judge_script(self, text: str, *, lost: bool = False, stdin: ShellStream | None = None) -> ShellStream:
        """Follow a shell text that this one runs."""
        state = self.state.copy(self.state.where.lose_track() if lost else None)
        return self.host.judge_script(text, state, stdin if stdin is not None else self.piped_input())

    def resolve_path(self, word: Word) -> str:
        """Return the path that a word names, as far as text alone tells."""
        return resolve_path(word.text, self.cwd, self.host.places)

    def judge_write(
        self, path: str, *, how: str = "writes", kind: EffectKind = EffectKind.WRITES, noted: bool = False
    ) -> bool:
        """Judge a file being written, replaced or deleted. Return whether a finding was added."""
        if not noted:
            self.add_effect(kind, (path,))
        return judge_path_write(self.host, path, how, self.subject(), self.state)

    def secret_reason(self, word: Word) -> str:
        """Return why the file that a word names may not be read; empty when it may."""
        return secret_read_reason(word, self.cwd, self.host.places)

    def judge_reads(self, named: Sequence[Word]) -> frozenset[str]:
        """Judge files being read. Return the labels of the output."""
        labels = NO_LABELS
        reasons: list[tuple[str, str]] = []
        for word in named:
            labels |= word.labels | self._file_labels(word, reasons)
        for path, reason in sorted(reasons, key=lambda one: not is_own_state(one[0], one[1], self.host.places))[:1]:
            self.add_effect(EffectKind.READS, (path,))
            self.report_secret_read(path, reason)
        return labels

    def report_secret_read(self, path: str, reason: str) -> None:
        """Add a finding that a secret file is read."""
        verdict, rule, _ = classify_secret_read(path, reason, self.host.places)
        if verdict is Verdict.DENY:
            self.host.add_finding(verdict, rule, reason, self.subject(), contained=True)
        else:
            self.ask(rule, reason)

    def _file_labels(self, word: Word, reasons: list[tuple[str, str]]) -> frozenset[str]:
        """Return the labels of one file; reasons against reading it are added to `reasons`."""
        text, files = path_in_word(word.text), self.state.files
        if not text:
            return NO_LABELS
        here = self.cwd.startswith(self.host.places.workspace) and not is_closed_folder(self.cwd, self.host.places)
        plain = here and not _SPELLS_PATH.search(text)
        if plain and not files and not word.dynamic:
            return _SECRET if key_files.is_private_file(text) else NO_LABELS
        path = resolve_path(text, self.cwd, self.host.places)
        held = files.get(text) or files.get(path)
        return held.labels if held is not None else self._unwritten_file_labels(word, path, reasons, plain=plain)

    def _unwritten_file_labels(
        self, word: Word, path: str, reasons: list[tuple[str, str]], *, plain: bool
    ) -> frozenset[str]:
        """Return the labels of a file that this line did not write."""
        reason = ("" if plain else self.secret_reason(word)) or self._key_reason(word, path) or self._disk_reason(path)
        if reason:
            reasons.append((path, reason))
            return _SECRET
        return _SECRET if key_files.is_private_file(path) else NO_LABELS

    def _disk_reason(self, path: str) -> str:
        """Return why a disk or the memory is exposed: all files are in it. Empty when none is read."""
        shown = self.name in key_files.SHOWING_PROGRAMS and BLOCK_DEVICE.match(path)
        return N_("it reads {path}, which holds all files", path=path) if shown else ""

    def _key_reason(self, word: Word, path: str) -> str:
        """Return why a key is exposed: it is shown, and not passed to a program that uses it. Empty when none is."""
        if self.name not in key_files.SHOWING_PROGRAMS or (word.text[:1] == "-" and "=" not in word.text):
            return ""
        listed = word.dynamic and Label.KEYED in word.labels
        return key_files.key_read_reason(path) if listed or key_files.is_key_file(path, self.host.places) else ""


Rule = Callable[[ProgramCall], ShellStream | None]
"""Judges the calls of a program; returns its output, where it says something of it."""


def _known_target(target: str, cwd: str) -> str:
    """Return the file that runs; where its name is only known at run time, the folder that it is in."""
    found = _UNKNOWN_PART.search(target)
    if found is None:
        return target
    folder = target[: found.start()].rpartition("/")[0]
    return folder or ("/" if target.startswith("/") else cwd)


_WRITE_VERBS = (
    N_("writes"),
    N_("deletes"),
    N_("overwrites"),
    N_("replaces"),
    N_("cuts off"),
    N_("unpacks into"),
    N_("changes the rights of"),
)
"""The verbs for what is done to a path, as reasons use them."""


def judge_path_write(host: AnalysisHost, path: str, how_said: str, subject: str, state: AnalysisState) -> bool:
    """Judge a path that is written, by a program or a redirect. Return whether a finding was added."""
    places = host.places
    if path.startswith(("/dev/tcp/", "/dev/udp/", "/dev/fd/")):
        return False
    opened = any(is_under(path, one) for one in places.own) or is_in_own_workspace(path, places)
    own = is_under(path, places.hermes) and not opened
    if BLOCK_DEVICE.match(path):
        reason = N_("it {how_said} a disk", how_said=how_said)
        host.add_finding(Verdict.DENY, "raw-disk", reason, subject, contained=False)
    elif own:
        reason = N_("it {how_said} {path}: Hermes' own settings and state", how_said=how_said, path=path)
        host.add_finding(Verdict.DENY, "own-state", reason, subject, contained=False)
    elif refused := _write_refusal(path, places):
        reason = N_("it {how_said} {path}: {refused}", how_said=how_said, path=path, refused=refused)
        held = not is_in_workspace(path, places)
        host.add_finding(Verdict.ASK, "protected-path", reason, subject, contained=held)
    elif _HISTORY.search(path):
        host.add_finding(Verdict.ASK, "traces", "it wipes or rewrites the history of commands", subject, contained=True)
    elif how_said == "writes" and path not in state.files and path.rpartition("/")[2] in _ONLY_COPIES:
        reason = N_("it replaces {path}, which may hold keys", path=path)
        host.add_finding(Verdict.ASK, "emptied", reason, subject, contained=False)
    else:
        return False
    return True


def _write_refusal(path: str, places: Places) -> str:
    """Return why a path may not be written, by the name it has here, below the person's home, and as a pattern."""
    named = map_to_person_home(path, places)
    refused = write_refusal(path, places) or (write_refusal(named, places) if named != path else "")
    if not refused and any(sign in path for sign in ("*", "?", "[", "${")):
        refused = write_refusal(_cached_reaches(path, places), places)
    return refused


_PROC_ROOT = re.compile(r"\A/proc/(?:self|1|thread-self)/root(?=/|\Z)")
_GOES_BACK = re.compile(r"/\.[^/]*[*?\[].*/\.\.(?=/|$)")


def resolve_path(text: str, cwd: str, places: Places) -> str:
    """Return an absolute path without `..`, as far as text alone tells. What goes back behind a pattern that may be a
    folder around (`.*`) is a pattern as well.
    """
    for name, value in (("${HOME}", places.home), ("${HERMES_HOME}", places.hermes), ("${PWD}", cwd)):
        text = value + text[len(name) :] if text.startswith(name) else text
    if text.startswith("~"):
        text = _expand_tilde(text, places)
    path = text if text.startswith("/") else f"{cwd}/{text}"
    path = os.path.normpath(_GOES_BACK.sub(lambda found: "/.*" * found[0].count("/"), path))
    path = path[1:] if path.startswith("//") else path
    return _PROC_ROOT.sub("", path) or "/"


_cached_reaches = lru_cache(maxsize=128)(expand_to_protected)


def _expand_tilde(text: str, places: Places) -> str:
    if text[1:2] in ("", "/"):
        return places.home + text[1:]
    user, slash, rest = text[1:].partition("/")
    if not user.isidentifier():
        stacked = re.fullmatch(r"[-+]?\d*", user)  # the folder itself, or one that the shell was in
        return text if not stacked else f"{'.' if user == '+' else '${OLDPWD}'}{slash}{rest}"
    return ("/root" if user == "root" else f"{os.path.dirname(places.home)}/{user}") + slash + rest


def path_in_word(text: str) -> str:
    """Return the path inside a word such as `@file`, `field=@file`, `--option=file`, `if=file` or `file:///path`."""
    text = re.sub(r"(?i)^file:(?://(?:localhost)?)?(?=[/~])", "", text)
    if text.startswith(("@", "<")) or "=@" in text or "=<" in text:
        return text.rpartition("@")[2].rpartition("<")[2]
    return text.rpartition("=")[2] if text.startswith(("-", "if=", "input=", "of=")) else text


def secret_read_reason(word: Word, cwd: str, places: Places) -> str:
    """Return why the file that a word names may not be read; empty when it may."""
    path = resolve_path(path_in_word(word.text), cwd, places)
    if path.startswith("/dev/"):
        return ""
    if word.dynamic or "*" in path or "?" in path or "[" in path:
        path = _cached_reaches(path, places)
    refused = read_refusal(path if path != places.hermes else f"{path}/x", places)
    named = map_to_person_home(path, places)
    if not refused and named != path:
        refused = read_refusal(named, places)
    if not refused and _is_kept(path, places):
        refused = "programs keep it for themselves"
    return N_("it reads {path}: {refused}", path=path, refused=refused) if refused else ""


def _is_kept(path: str, places: Places) -> bool:
    """Return whether a path lies in what a home keeps for programs, other than Hermes' own and start files, which
    people read.
    """
    is_own = any(is_under(path, one) for one in (places.hermes, *places.own))
    # A file that a search will find is called `.found` here: its name says nothing.
    is_open = is_own or is_ssh_public(path) or path.endswith("/.found")
    return not is_open and is_home_entry(path, places, of_start=False)


def is_own_state(path: str, reason: str, places: Places) -> bool:
    """Return whether the reason against a read is that this very path is Hermes' own settings, keys or state."""
    is_literal = not any(sign in path for sign in "*?[$")
    return reason.endswith(OWN_STATE_REASON) and (is_literal or path.startswith(f"{places.hermes}/"))


def classify_secret_read(path: str, reason: str, places: Places) -> tuple[Verdict, str, str]:
    """Return verdict, rule and reason for a file that may not be read: Hermes' own files are denied, as they are to
    tools.
    """
    own = is_own_state(path, reason, places)
    return Verdict.DENY if own else Verdict.ASK, "own-state" if own else "reads-secret", reason


def is_closed_folder(folder: str, places: Places) -> bool:
    """Return whether every file in a folder is closed to tools."""
    if folder.startswith((places.home, places.hermes, "/proc", "/etc")) and read_refusal(f"{folder}/x", places):
        return True
    return _is_kept(folder, places)


def map_to_person_home(path: str, places: Places) -> str:
    """Return the path as it would be below the person's home, when it is below any user's home."""
    return _OTHER_HOME.sub(lambda _: places.home, path, count=1)


def is_under(path: str, folder: str) -> bool:
    """Return whether a path is a folder or below it."""
    return path == folder or path.startswith(folder + "/")


def is_temporary(path: str, places: Places | None = None) -> bool:
    """Return whether a path is among temporary files, other than in the session's own folder, if `places` name it."""
    found = path.startswith(("/tmp/", "/var/tmp/", "/dev/shm/", "/private/tmp/"))  # noqa: S108 - rules name them
    return found and not (places is not None and is_in_workspace(path, places))


def is_in_workspace(path: str, places: Places) -> bool:
    """Return whether a path is in the session's folder."""
    return is_under(path, places.workspace)


def is_root_like_path(path: str, places: Places) -> bool:
    """Return whether losing a path as a whole loses the system, or a user's home."""
    return (
        is_root_like(path, places) or is_root_like(map_to_person_home(path, places), places) or _is_system_folder(path)
    )


_SYSTEM = re.compile(r"^/(bin|boot|dev|etc|lib\w*|proc|sbin|sys|usr|System|Library)(/\*)*$|^/var(/lib)?(/\*)*$")


def _is_system_folder(path: str) -> bool:
    return bool(_SYSTEM.match(path)) or re.fullmatch(r"/[*?.\[\]!]+", path) is not None
