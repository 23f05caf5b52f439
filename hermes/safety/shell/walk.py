"""A walk through a shell text: what each simple command would be, with what comes to it by pipes and variables."""

import fnmatch
import re
import unicodedata
from collections.abc import Sequence

from tree_sitter import Node

from hermes.safety.globs import spelled
from hermes.safety.places import Places
from hermes.safety.shell import arithmetic, dataflow, produced_values, redirects, variables
from hermes.safety.shell.budget import Budget
from hermes.safety.shell.call import Call, resolve
from hermes.safety.shell.expand import Expander
from hermes.safety.shell.findings import Effect, EffectKind, Finding, Simple, Verdict
from hermes.safety.shell.program_rules import DANGEROUS, judged
from hermes.safety.shell.statements import HANDLERS, MAX_WORDS
from hermes.safety.shell.syntax import continued, parse, unbraced
from hermes.safety.shell.words import DECODED, FETCHED, NOTHING, UNTOLD, State, Stream, Word, basename
from hermes.safety.shell.words import words as word_set

_MAX_NESTING = 8
_MAX_DEPTH = 60
_MAX_CALLS = 6
"""Functions and aliases that may call one another."""
_MAX_REPEATED = 8_000
"""Words of a command, times the programs that started one another with them."""
_MAX_EFFECTS = 2_000
_MAX_OPEN = 200
_MAX_GUESSED = 100_000
_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{?\(?\1\|\1&\)?;?\}?")
_BLANK = re.compile(r"\s+")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+ -][A-Za-z0-9_./:,@%+= -]*\Z")
_RESERVED = word_set(
    """
    if then elif else fi for while until do done case esac in function select time coproc declare typeset export
    readonly local unset unsetenv
    """
)
_WORDS = word_set("word string number concatenation variable_name raw_string simple_expansion")
"""Kinds of nodes that are no statements, though they may stand where one is."""
_WILD = re.compile(r"[*?\[]")
_TOO_DEEP = "the command is nested too deeply to be read"
_UNREAD = "the command cannot be read with certainty"
_TOO_TANGLED = "the command is too tangled to be read"
_TOO_LONG = "the command has too many parts to be judged"


class Walk:
    """One walk. It collects findings and effects; `script` and `run` may be called for programs inside programs."""

    def __init__(self, places: Places, budget: Budget) -> None:
        self.places = places
        self.budget = budget
        self.findings: dict[Finding, None] = {}
        self.effects: dict[Effect, None] = {}
        self.commands: list[Simple] = []
        self.expander = Expander(self)
        self.written: list[str] = []
        self.aside = 0
        self.behind = 0
        self.unread = False
        self.uncalled: dict[str, tuple[Node, State]] = {}
        self._last: list[tuple[str, State]] = []
        self._nesting = 0
        self._depth = 0
        self._pseudo = 0
        self._running: list[str] = []

    # what rules use

    def say(self, verdict: Verdict, rule: str, reason: str, subject: str, *, contained: bool) -> None:
        """Note a finding."""
        self.findings[Finding(verdict, rule, reason, subject, contained)] = None

    def note(self, kind: EffectKind, argv: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Note an effect."""
        if len(self.effects) < _MAX_EFFECTS:
            self.effects[Effect(kind, argv, targets)] = None
        if kind in (EffectKind.WRITES, EffectKind.OVERWRITES) and len(self.written) < _MAX_EFFECTS:
            self.written += targets

    def met(self, argv: tuple[str, ...], state: State) -> None:
        """Note a simple command."""
        if self.budget.lists(len(argv)):
            self.commands.append(Simple(argv, state.where.now))
        else:
            self.unclear("the command has too many words to be judged")

    def at_end(self, text: str, state: State) -> None:
        """Note a text that runs when its shell ends."""
        if not any(text == other and state is at for other, at in self._last):
            self._last.append((text, state))

    def unclear(self, reason: str = _UNREAD) -> None:
        """Note that something could not be followed."""
        self.say(Verdict.ASK, "unclear", reason, "", contained=False)

    def script(self, text: str, state: State, stdin: Stream | None) -> Stream:
        """Judge a shell text; what it writes to its output."""
        if self._nesting >= _MAX_NESTING:
            self.unclear()
            return UNTOLD
        if _PLAIN.match(text):
            words = text.split(None, MAX_WORDS + 1)
            if words and "=" not in words[0] and words[0] not in _RESERVED:
                return self.run([Word(word) for word in words], state, stdin)
        if text.count("(") - text.count(")") > _MAX_OPEN or text.count("``") > _MAX_OPEN * 5:
            self.unclear(_TOO_DEEP)
            return UNTOLD
        self._nesting += 1
        try:
            for reading in continued(text):
                self._parsed(reading, state.copy(), None)
            return self._parsed(text, state, stdin)
        finally:
            self._nesting -= 1

    def _parsed(self, text: str, state: State, stdin: Stream | None) -> Stream:
        state.sums.update(arithmetic.set_in(text))
        state.where = state.where.loosened(text)
        root = self._tree(text)
        if root is None or root.has_error:
            if len(text) < _MAX_GUESSED and "|" in text and _FORK_BOMB.search(_BLANK.sub("", text)):
                self.say(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
                return NOTHING
            self.unclear(_UNREAD if root is not None else _TOO_TANGLED)
        if root is None:
            self.unread = self._nesting == 1
            return UNTOLD
        out = self.statements(root, state, stdin)
        if self._nesting == 1:
            for name, (body, at) in list(self.uncalled.items()):
                self._call(name, body, at.copy(at.where.lost()), (), UNTOLD)
            for last, at in self._last[: _MAX_CALLS * 2]:
                self.script(last, at.copy(at.where.lost()), None)
            self._last.clear()
        return out

    def _tree(self, text: str) -> Node | None:
        """The root of the tree: of the text put another way where the grammar cannot read it as it is."""
        tree = parse(text, self.budget.ends)
        if tree is None:
            return None
        if not tree.root_node.has_error:
            return tree.root_node
        other = unbraced(text)
        again = parse(other, self.budget.ends) if other != text else None
        return (again if again is not None and not again.root_node.has_error else tree).root_node

    # statements

    def visit(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        """Judge a statement; what it writes to its output."""
        if self._depth > _MAX_DEPTH:
            self.unclear(_TOO_DEEP)
            return UNTOLD
        if not self.budget.step():
            self.unclear(_TOO_LONG)
            return UNTOLD
        self._depth += 1
        try:
            handler = HANDLERS.get(node.type)
            return handler(self, node, state, stdin) if handler is not None else self.statements(node, state, stdin)
        finally:
            self._depth -= 1

    def statements(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        """Judge the statements in a node, one after the other; what they write."""
        out = NOTHING
        children = node.children
        last = len(children) - 1
        for at, child in enumerate(children):
            if self.budget.spent:
                break
            if not child.is_named or child.type == "comment":
                continue
            if child.type in _WORDS:
                self.expander.visit_inside(child, state)
                continue
            aside = at < last and children[at + 1].type == "&"
            self.aside += aside
            self.behind += aside
            out = dataflow.joined(out, self.visit(child, state, stdin))
            self.aside -= aside
        return out

    def substitute(self, node: Node, state: State) -> Stream:
        """The output of the commands in a substitution."""
        if self._depth > _MAX_DEPTH:
            self.unclear(_TOO_DEEP)
            return UNTOLD
        self._depth += 1
        try:
            return redirects.substituted(self, node, state)
        finally:
            self._depth -= 1

    def takes_all(self) -> None:
        """Note that something never ends where its output is kept in memory."""
        self.note(EffectKind.EXHAUSTS, (), ())
        self.say(Verdict.ASK, "bomb", "it takes memory without end", "", contained=True)

    def assigned(self, name: str, value: Word, state: State) -> None:
        """Judge a variable that `${NAME:=...}` may set."""
        variables.judge_variable(self, name, value, state)

    def pseudo_file(self, node: Node, state: State) -> Word:
        """The file that stands for a process."""
        stream = self.substitute(node, state)
        self._pseudo += 1
        path = f"/dev/fd/{63 - self._pseudo % 60}"
        state.files[path] = stream
        return Word(path, dynamic=True, labels=stream.labels)

    # simple commands

    def run(self, words: Sequence[Word], state: State, stdin: Stream | None) -> Stream:
        """Judge a simple command; what it writes to its output."""
        if not words:
            return NOTHING
        if len(words) > MAX_WORDS:
            self.unclear("the command has too many words to be judged")
            words = words[:MAX_WORDS]
        if self._depth > _MAX_DEPTH + 20 or self._depth * len(words) > _MAX_REPEATED:
            self.unclear(_TOO_DEEP)
            return UNTOLD
        if not self.budget.step(len(words)):
            self.unclear(_TOO_LONG)
            return UNTOLD
        self._depth += 1
        try:
            return self._run(words, state, stdin)
        finally:
            self._depth -= 1

    def _run(self, words: Sequence[Word], state: State, stdin: Stream | None) -> Stream:
        head = words[0]
        text = head.text
        self.met(tuple([word.text for word in words]), state)
        if text == "!" and len(words) > 1:
            return self.run(words[1:], state, stdin)
        if head.dynamic or (_WILD.search(text) and text not in ("[", "[[")):
            return self._unknown(words, state, stdin)
        if head.labels & {FETCHED, DECODED}:
            Call(text, words[1:], state, stdin, self).ask("remote-exec", "it runs what it downloads or decodes")
        body = state.functions.get(text)
        if body is not None and (text not in self._running or self.aside):
            return self._call(text, body, state, words[1:], stdin)
        return self._program(words, state, stdin)

    def _program(self, words: Sequence[Word], state: State, stdin: Stream | None) -> Stream:
        """Judge a program that is no function, by the rule of its name."""
        text = words[0].text
        # A script of the project may be called as a program of the system is.
        name = text if text.startswith("./") and "bin/" not in text else basename(text)
        if not name.isascii():
            name = self._folded(name, words, state)
        call = Call(name.removesuffix(".exe"), words[1:], state, stdin, self)
        if "/" in text:
            dataflow.program_file(call, resolve(text, state.where.now, self.places))
        produced_values.judge_given(call)
        before = len(self.written)
        out = judged(call)
        produced_values.left(call, self.written[before:])
        return produced_values.searched(call, out)

    def _call(self, name: str, body: Node | str, state: State, words: Sequence[Word], stdin: Stream | None) -> Stream:
        """Judge a function, or the text of an alias, that is called."""
        self.uncalled.pop(name, None)
        if name in self._running or len(self._running) > _MAX_CALLS:
            if name in self._running and self.aside:
                self.say(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
            return UNTOLD
        self._running.append(name)
        outer, references = state.positional, state.references
        state.references = dict(references)
        try:
            if isinstance(body, str):
                return self.script(" ".join([body, *[_spelled(word) for word in words]]), state, stdin)
            state.positional = words
            return self.visit(body, state, stdin)
        finally:
            state.positional, state.references = outer, references
            self._running.pop()

    def _folded(self, name: str, words: Sequence[Word], state: State) -> str:
        """The name as it looks, which is not always the name that runs."""
        if not any(unicodedata.category(char) == "Lo" for char in name):
            subject = state.where.subject(spelled(word.text for word in words))
            reason = "the program's name has characters that look like others"
            self.say(Verdict.ASK, "unclear", reason, subject, contained=True)
        folded = unicodedata.normalize("NFKC", name)
        return "".join(char for char in folded if unicodedata.category(char) not in ("Cf", "Mn"))

    def _unknown(self, words: Sequence[Word], state: State, stdin: Stream | None) -> Stream:
        head = words[0]
        call = Call(head.text, words[1:], state, stdin, self)
        if head.labels & {FETCHED, DECODED}:
            call.ask("remote-exec", "it runs what it downloads or decodes")
        else:
            subject = "" if head.dynamic else call.subject()
            reason = "which program runs is only known when it runs"
            self.say(Verdict.ASK, "unknown-command", reason, subject, contained=True)
        call.effect(EffectKind.UNKNOWN)
        if not head.dynamic:
            pattern = basename(head.text)
            for name in ("rm", *DANGEROUS):
                if fnmatch.fnmatchcase(name, pattern):
                    judged(Call(name, words[1:], state, stdin, self))
                    break
        return Stream(None, call.stdin.labels)


def _spelled(word: Word) -> str:
    """A word as a shell text in which it stays what it is."""
    if word.dynamic:
        return '"' + word.text.replace("$()", "${_unknown_}").replace('"', "") + '"'
    return "'" + word.text.replace("'", "'\\''") + "'"
