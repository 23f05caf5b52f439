"""What a shell command would do that a person should be asked about, or that is never done.

The text is read into simple commands, wrappers such as `sudo` are taken off, programs given as arguments are followed,
and each command is judged by the rule of its name. Arguments that are data (a commit message, a pattern) are never
looked at. What cannot be determined asks.
"""

import os.path
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hermes.safety import rules, wrappers
from hermes.safety.findings import Finding, Judgement, Verdict
from hermes.safety.paths import write_refused
from hermes.safety.places import Places
from hermes.safety.rules import Call
from hermes.safety.shell import Script, Simple, Word, read
from hermes.safety.wrappers import Inner

MAX_TEXT = 200_000
_MAX_NESTING = 6
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{?\(?\1\|\1&\)?;?\}?")
_BLANK = re.compile(r"\s+")
_OUTPUT = (">", ">>", ">|", ">&", "<>")
_AT_RUN_TIME = re.compile(r"\$\{|\$\(\)|[<>]\(\)")
_LONGEST_SUBJECT = 2_000
_BY_INPUT = frozenset({"remote-exec", "program-text", "sql", "exfiltration", "unknown-command"})
"""Rules that may speak of what a command is given by a pipe or a here-document, which its words do not show."""
_DEEPEST = 4096
"""Characters of a folder's path that are followed: Linux's PATH_MAX."""
_FOLDER_CHANGE = re.compile(r"\b(cd|pushd|popd)\b")


def normalise(text: str) -> str:
    """The text as a shell would take it: no escape sequences, compatibility forms folded, nothing invisible."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", text)
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")


def judge(text: str, cwd: str, places: Places) -> list[Finding]:
    """Everything that speaks against running `text` in `cwd`; empty when nothing does. Linear in the text."""
    if len(text) > MAX_TEXT:
        return [Finding(Verdict.ASK, "too-long", "the command is too long to be judged")]
    return list(_Judge(places).script(normalise(text), _Where(places.workspace, (cwd,)), 0))


def analyse(text: str, cwd: str, places: Places, variables: Mapping[str, str] | None = None) -> Judgement:
    """What running `text` in `cwd` would do. `variables` are those that the shell would have when it starts."""
    del variables  # not followed yet
    return Judgement(findings=tuple(judge(text, cwd, places)))


@dataclass(frozen=True, slots=True)
class _Where:
    """The folders that a line has been in, the present one last. `told` is False when text alone does not say more."""

    own: str
    been: tuple[str, ...]
    told: bool = True

    @property
    def now(self) -> str:
        return self.been[-1]

    def to(self, folder: str) -> "_Where":
        if len(folder) > _DEEPEST:
            # Followed further, a line of nothing but `cd a` costs the square of its length. What is really deeper than
            # it is taken for here can only come out higher up again, where more is asked about.
            return self.lost()
        # The third folder and those after it count as one: by then nothing but the whole line can be allowed.
        return self if folder == self.now else replace(self, been=(*self.been[:2], folder))

    def lost(self) -> "_Where":
        return replace(self, told=False)

    def subject(self, text: str) -> str:
        """What a pattern has to cover for `text` to run here; empty when it cannot be told whether it runs here."""
        if not self.told or len(text) > _LONGEST_SUBJECT:
            return ""
        if self.been == (self.own,):
            return text
        # A change of folder may fail or be skipped: the line then runs in the one before, which must be the session's.
        return f"cd {self.now} && {text}" if len(self.been) == 1 or self.been == (self.own, self.now) else ""


class _Judge:
    def __init__(self, places: Places) -> None:
        self.places = places

    def script(self, text: str, where: _Where, depth: int) -> Iterator[Finding]:
        """Judge a shell text, and the texts inside it."""
        if "|" in text and _FORK_BOMB.search(_BLANK.sub("", text)):
            yield Finding(Verdict.DENY, "fork-bomb", "it starts itself without end")
            return
        script = read(text)
        if not script.whole or depth > _MAX_NESTING:
            yield Finding(Verdict.ASK, "unclear", "the command cannot be read with certainty")
        for simple in script.commands:
            yield from self.simple(simple, script, where, depth)
            where = self._changed_folder(simple, where)

    def simple(self, simple: Simple, script: Script, where: _Where, depth: int) -> Iterator[Finding]:
        """Judge one simple command with its redirects."""
        yield from self._around(simple, where)
        if simple.heredoc_expands and simple.heredoc and ("$(" in simple.heredoc or "`" in simple.heredoc):
            inside = read('"' + simple.heredoc.replace('"', "") + '"')
            for command in inside.commands[:-1]:
                yield from self.simple(command, script, where, depth + 1)
        if simple.words and " " in simple.words[0].text and not simple.words[0].quoted:
            # An unquoted variable that holds a whole command line: the shell splits it into words.
            yield from self.script(" ".join(word.text for word in simple.words), where, depth + 1)
        elif simple.words:
            yield from self._words(simple.words, simple, script, (where, depth))

    def _words(
        self, words: Sequence[Word], simple: Simple, script: Script, at: tuple[_Where, int]
    ) -> Iterator[Finding]:
        where, depth = at
        head = words[0]
        text = " ".join(word.text for word in words)
        subject = "" if any(map(_known_at_run_time, words)) else where.subject(text)
        if head.dynamic:
            yield Finding(Verdict.ASK, "unknown-command", "which program runs is only known when it runs", subject)
            return
        name = os.path.basename(head.text)
        if name in script.functions:
            return
        call = Call(name=name, words=words[1:], simple=simple, cwd=where.now, places=self.places, subject=text)
        inner = rules.unwrap(call) if depth <= _MAX_NESTING else Inner()
        there = where.lost() if wrappers.displaces(name, words[1:], inner) else where
        if inner.words:
            yield from self._words(inner.words, simple, script, (there, depth + 1))
        for nested in inner.texts:
            yield from self.script(nested, there, depth + 1)
        fed = _is_fed(simple)
        for verdict, rule, reason in _said(call, inner):
            yield Finding(verdict, rule, reason, "" if fed and rule in _BY_INPUT else subject)

    def _around(self, simple: Simple, where: _Where) -> Iterator[Finding]:
        """Judge what stands around the words: redirects and variables."""
        for operator, target in simple.redirects:
            if operator in _OUTPUT and not target.text.isdigit():
                yield from self._written(target, where.now)
            elif operator == "<" and (reason := rules.names_secret(target, where.now, self.places)):
                path = rules.resolve(target, where.now, self.places)
                yield Finding(Verdict.ASK, "reads-secret", reason, f"< {path}")
        for name, value in simple.assigned:
            if name in rules.HIJACKING:
                reason = f"{name} changes which code other programs run"
                yield Finding(Verdict.ASK, "hijack", reason, "" if value.dynamic else f"{name}={value.text}")

    def _written(self, target: Word, cwd: str) -> Iterator[Finding]:
        path = rules.resolve(target, cwd, self.places)
        if rules.BLOCK_DEVICE.match(path):
            yield Finding(Verdict.DENY, "raw-disk", "it overwrites a disk")
        elif refused := write_refused(path, self.places):
            yield Finding(Verdict.ASK, "protected-path", f"it writes {path}: {refused}", f"> {path}")

    def _changed_folder(self, simple: Simple, where: _Where) -> _Where:
        words = list(simple.words)
        while words and words[0].text in ("command", "builtin"):
            words.pop(0)
        name = words[0].text if words else ""
        if name in ("eval", "trap", "alias"):
            return where.lost() if any(_FOLDER_CHANGE.search(word.text) for word in words) else where
        if name in ("cd", "pushd"):
            return self._entered(words[1:], simple, where)
        return where.lost() if name == "popd" else where

    def _entered(self, words: Sequence[Word], simple: Simple, where: _Where) -> _Where:
        """Where `cd words...` leads."""
        operands = [word for word in words if not word.text.startswith("-")]
        if words and not operands:
            return where.lost()
        where = where.to(rules.resolve(operands[-1], where.now, self.places) if operands else self.places.home)
        return where.lost() if any(word.dynamic for word in operands) or simple.assigned else where


def _said(call: Call, inner: Inner) -> Iterator[rules.Said]:
    """What speaks against a call itself; a program inside it is judged by itself, not as a text in its arguments."""
    if inner.ask:
        yield Verdict.ASK, inner.ask, inner.reason
    followed = bool(inner.words or inner.texts)
    yield from (one for one in rules.judge_call(call) if not (followed and one[1] == "nested-program"))


def _known_at_run_time(word: Word) -> bool:
    return word.dynamic and _AT_RUN_TIME.search(word.text) is not None


def _is_fed(simple: Simple) -> bool:
    """Whether a command is given something that its words do not show."""
    return (
        simple.source is not None
        or simple.heredoc is not None
        or bool(simple.inner)
        or any(operator in ("<", "<<<") for operator, _ in simple.redirects)
    )
