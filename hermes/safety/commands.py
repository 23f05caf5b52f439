"""What a shell command would do that a person should be asked about, or that is never done.

The text is read into simple commands, wrappers such as `sudo` are taken off, programs given as arguments are followed,
and each command is judged by the rule of its name. Arguments that are data (a commit message, a pattern) are never
looked at. What cannot be determined asks.
"""

import os.path
import re
import unicodedata
from collections.abc import Iterator, Sequence

from hermes.safety import rules
from hermes.safety.findings import Finding, Verdict
from hermes.safety.paths import write_refused
from hermes.safety.places import Places
from hermes.safety.rules import Call
from hermes.safety.shell import Script, Simple, Word, read

MAX_TEXT = 200_000
_MAX_NESTING = 6
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{?\(?\1\|\1&\)?;?\}?")
_BLANK = re.compile(r"\s+")
_OUTPUT = (">", ">>", ">|", ">&", "<>")


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
        return [Finding(Verdict.ASK, "too-long", "the command is too long to be judged", text[:200], whole=False)]
    return list(_Judge(places).script(normalise(text), cwd, 0))


class _Judge:
    def __init__(self, places: Places) -> None:
        self.places = places

    def script(self, text: str, cwd: str, depth: int) -> Iterator[Finding]:
        """Judge a shell text, and the texts inside it."""
        if "|" in text and _FORK_BOMB.search(_BLANK.sub("", text)):
            yield Finding(Verdict.DENY, "fork-bomb", "it starts itself without end", text.strip()[:200])
            return
        script = read(text)
        if not script.whole or depth > _MAX_NESTING:
            yield Finding(
                Verdict.ASK, "unclear", "the command cannot be read with certainty", text.strip()[:500], whole=False
            )
        for simple in script.commands:
            yield from self.simple(simple, script, cwd, depth)
            cwd = self._changed_folder(simple, cwd)

    def simple(self, simple: Simple, script: Script, cwd: str, depth: int) -> Iterator[Finding]:
        """Judge one simple command with its redirects."""
        yield from self._around(simple, cwd)
        if simple.heredoc_expands and simple.heredoc and ("$(" in simple.heredoc or "`" in simple.heredoc):
            inside = read('"' + simple.heredoc.replace('"', "") + '"')
            for command in inside.commands[:-1]:
                yield from self.simple(command, script, cwd, depth + 1)
        if simple.words and " " in simple.words[0].text and not simple.words[0].quoted:
            # An unquoted variable that holds a whole command line: the shell splits it into words.
            yield from self.script(" ".join(word.text for word in simple.words), cwd, depth + 1)
        elif simple.words:
            yield from self._words(simple.words, simple, script, (cwd, depth))

    def _words(self, words: Sequence[Word], simple: Simple, script: Script, at: tuple[str, int]) -> Iterator[Finding]:
        cwd, depth = at
        head = words[0]
        subject = " ".join(word.text for word in words)[:500]
        if head.dynamic:
            yield Finding(Verdict.ASK, "unknown-command", "which program runs is only known when it runs", subject)
            return
        name = os.path.basename(head.text)
        if name in script.functions:
            return
        call = Call(name=name, words=words[1:], simple=simple, cwd=cwd, places=self.places, subject=subject)
        if depth <= _MAX_NESTING:
            inner = rules.unwrap(call)
            if inner.ask:
                yield Finding(Verdict.ASK, inner.ask, inner.reason, subject)
            if inner.words:
                yield from self._words(inner.words, simple, script, (cwd, depth + 1))
            for text in inner.texts:
                yield from self.script(text, cwd, depth + 1)
        for verdict, rule, reason in rules.judge_call(call):
            yield Finding(verdict, rule, reason, subject)

    def _around(self, simple: Simple, cwd: str) -> Iterator[Finding]:
        """Judge what stands around the words: redirects and variables."""
        for operator, target in simple.redirects:
            if operator in _OUTPUT and not target.text.isdigit():
                yield from self._written(target, simple, cwd)
        for name, _ in simple.assigned:
            if name in rules.HIJACKING:
                yield Finding(Verdict.ASK, "hijack", f"{name} changes which code other programs run", _joined(simple))

    def _written(self, target: Word, simple: Simple, cwd: str) -> Iterator[Finding]:
        path = rules.resolve(target, cwd, self.places)
        if rules.BLOCK_DEVICE.match(path):
            yield Finding(Verdict.DENY, "raw-disk", "it overwrites a disk", _joined(simple))
        elif refused := write_refused(path, self.places):
            yield Finding(Verdict.ASK, "protected-path", f"it writes {path}: {refused}", _joined(simple))

    def _changed_folder(self, simple: Simple, cwd: str) -> str:
        words = simple.words
        if words and words[0].text in ("cd", "pushd") and len(words) <= 2:
            return rules.resolve(words[1], cwd, self.places) if len(words) == 2 else self.places.home
        return cwd


def _joined(simple: Simple) -> str:
    words = " ".join(word.text for word in simple.words)
    redirects = "".join(f" {operator}{target.text}" for operator, target in simple.redirects)
    return (words + redirects).strip()[:500]
