"""Analyzes shell commands: their effects, and the findings for which a person is asked or the command is refused.

The text is parsed once and walked: words are resolved as far as they are constant, wrappers such as `sudo` are taken
off, programs given as arguments are followed, and each simple command is judged by the rule of its name, with its input
from pipes, files and variables. Arguments that are data (a commit message, a pattern) are never looked at. What cannot
be determined asks.

A walk through a shell text that judges each simple command, with its input from pipes and variables.

Finds text that a shell evaluates late: it looks like data when a line is read, and is run as a command afterwards.

Subscripts are evaluated wherever a number or a variable's name is wanted (`$((X))`, `[[ -eq ]]`, `let`, `test -v`,
`read`, `declare`, `printf -v`: bash(1), ARITHMETIC EVALUATION), prompts by `${X@P}`, completion by `compgen`.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from msgspec import structs
from tree_sitter import Node

from hermes.safety.globs import quote_argv
from hermes.safety.paths import Places
from hermes.safety.shell import dataflow, redirects, variables
from hermes.safety.shell.call import ProgramCall, resolve_path
from hermes.safety.shell.dataflow import judge_given_names, label_search_output, record_left_files
from hermes.safety.shell.expand import WordExpander
from hermes.safety.shell.findings import (
    CommandEffect,
    CommandFinding,
    CommandJudgement,
    EffectKind,
    SimpleCommand,
    Verdict,
)
from hermes.safety.shell.parameters import find_arithmetic_assignments
from hermes.safety.shell.program_rules import DANGEROUS, judged, may_download
from hermes.safety.shell.statements import MAX_WORDS, STATEMENT_HANDLERS, WILDCARD
from hermes.safety.shell.syntax import AnalysisBudget, join_continued_lines, parse_shell, rewrite_unreadable
from hermes.safety.shell.variables import judge_initial_variables
from hermes.safety.shell.words import (
    EMPTY_STREAM,
    UNKNOWN_STREAM,
    AnalysisState,
    ShellStream,
    Word,
    initial_state,
    path_basename,
    word_set,
)

_MAX_NESTING = 8


_MAX_DEPTH = 60


_MAX_CALLS = 6
"""Functions and aliases that may call one another."""


_MAX_REPEATED = 8_000
"""Words of a command, times the programs that started one another with them."""


_MAX_EFFECTS = 2_000


_MAX_OPEN_BRACKETS = 200


_MAX_GUESSED_TEXT = 100_000


_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{?\(?\1\|\1&\)?;?\}?")


_BLANK = re.compile(r"\s+")


_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+ -][A-Za-z0-9_./:,@%+= -]*\Z")


_RESERVED = word_set("""
    if then elif else fi for while until do done case esac in function select time coproc declare typeset export
    readonly local unset unsetenv
""")


_WORD_NODES = word_set("word string number concatenation variable_name raw_string simple_expansion")
"""Kinds of nodes that are no statements, though they may stand where one is."""


_TOO_DEEP = "the command is nested too deeply to be read"


_UNREADABLE = "the command cannot be read with certainty"


_TOO_TANGLED = "the command is too tangled to be read"


_TOO_LONG = "the command has too many parts to be judged"


class ShellWalk:
    """One walk through a shell text. It collects findings and effects; `judge_script` and `judge_command` may
    be called for programs inside programs.
    """

    def __init__(self, places: Places, budget: AnalysisBudget) -> None:
        self.places = places
        self.budget = budget
        self.findings: dict[CommandFinding, None] = {}
        self.effects: dict[CommandEffect, None] = {}
        self.commands: list[SimpleCommand] = []
        self.expander = WordExpander(self)
        self.written: list[str] = []
        self.concurrent_depth = 0
        self.background_count = 0
        self.is_unread = False
        self.uncalled_functions: dict[str, tuple[Node, AnalysisState]] = {}
        self._last: list[tuple[str, AnalysisState]] = []
        self._nesting = 0
        self._depth = 0
        self._pseudo = 0
        self._running: list[str] = []

    # what rules use

    def add_finding(self, verdict: Verdict, rule: str, reason: str, subject: str, *, contained: bool) -> None:
        """Add a finding."""
        self.findings[CommandFinding(verdict, rule, reason, subject, contained)] = None

    def add_effect(self, kind: EffectKind, argv: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Add an effect."""
        if len(self.effects) < _MAX_EFFECTS:
            self.effects[CommandEffect(kind, argv, targets)] = None
        if kind in (EffectKind.WRITES, EffectKind.OVERWRITES) and len(self.written) < _MAX_EFFECTS:
            self.written += targets

    def add_command(self, argv: tuple[str, ...], state: AnalysisState) -> None:
        """Add a simple command to the list of commands."""
        if self.budget.spend_words(len(argv)):
            where = state.where
            is_certain = where.is_known and (where.is_chained or where.subject(".") != "")
            self.commands.append(SimpleCommand(argv, where.current, is_certain))
        else:
            self.add_unclear("the command has too many words to be judged")

    def judge_at_exit(self, text: str, state: AnalysisState) -> None:
        """Queue a text that runs when its shell ends."""
        if not any(text == other and state is at for other, at in self._last):
            self._last.append((text, state))

    def add_unclear(self, reason: str = _UNREADABLE) -> None:
        """Add a finding that something could not be followed."""
        self.add_finding(Verdict.ASK, "unclear", reason, "", contained=False)

    def judge_script(self, text: str, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a shell text. Return its output."""
        if self._nesting >= _MAX_NESTING:
            self.add_unclear()
            return UNKNOWN_STREAM
        if _PLAIN.match(text):
            words = text.split(None, MAX_WORDS + 1)
            if words and "=" not in words[0] and words[0] not in _RESERVED:
                return self.judge_command([Word(word) for word in words], state, stdin)
        if text.count("(") - text.count(")") > _MAX_OPEN_BRACKETS or text.count("``") > _MAX_OPEN_BRACKETS * 5:
            self.add_unclear(_TOO_DEEP)
            return UNKNOWN_STREAM
        self._nesting += 1
        try:
            for reading in join_continued_lines(text):
                self._judge_parsed(reading, state.copy(), None)
            return self._judge_parsed(text, state, stdin)
        finally:
            self._nesting -= 1

    def _judge_parsed(self, text: str, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        state.arithmetic_names.update(find_arithmetic_assignments(text))
        state.where = state.where.loosen_chain(text)
        root = self._parse_tree(text)
        if root is None or root.has_error:
            if len(text) < _MAX_GUESSED_TEXT and "|" in text and _FORK_BOMB.search(_BLANK.sub("", text)):
                self.add_finding(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
                return EMPTY_STREAM
            self.add_unclear(_UNREADABLE if root is not None else _TOO_TANGLED)
        if root is None:
            self.is_unread = self._nesting == 1
            return UNKNOWN_STREAM
        out = self.visit_statements(root, state, stdin)
        if self._nesting == 1:
            for name, (body, at) in list(self.uncalled_functions.items()):
                self._judge_function_call(name, body, at.copy(at.where.lose_track()), (), UNKNOWN_STREAM)
            for last, at in self._last[: _MAX_CALLS * 2]:
                self.judge_script(last, at.copy(at.where.lose_track()), None)
            self._last.clear()
        return out

    def _parse_tree(self, text: str) -> Node | None:
        """Return the root of the tree: of the text put another way where the grammar cannot read it as it is."""
        tree = parse_shell(text, self.budget.ends)
        if tree is None:
            return None
        if not tree.root_node.has_error:
            return tree.root_node
        other = rewrite_unreadable(text)
        again = parse_shell(other, self.budget.ends) if other != text else None
        return (again if again is not None and not again.root_node.has_error else tree).root_node

    # statements

    def visit(self, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a statement. Return its output."""
        if self._depth > _MAX_DEPTH:
            self.add_unclear(_TOO_DEEP)
            return UNKNOWN_STREAM
        if not self.budget.spend_step():
            self.add_unclear(_TOO_LONG)
            return UNKNOWN_STREAM
        self._depth += 1
        try:
            handler = STATEMENT_HANDLERS.get(node.type)
            return (
                handler(self, node, state, stdin) if handler is not None else self.visit_statements(node, state, stdin)
            )
        finally:
            self._depth -= 1

    def visit_statements(self, node: Node, state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge the statements in a node, one after the other. Return their output."""
        out = EMPTY_STREAM
        children = node.children
        last = len(children) - 1
        for at, child in enumerate(children):
            if self.budget.spent:
                break
            if not child.is_named or child.type == "comment":
                continue
            if child.type in _WORD_NODES:
                self.expander.run_substitutions_inside(child, state)
                continue
            aside = at < last and children[at + 1].type == "&"
            self.concurrent_depth += aside
            self.background_count += aside
            out = dataflow.join_streams(out, self.visit(child, state, stdin))
            self.concurrent_depth -= aside
        return out

    def judge_substitution(self, node: Node, state: AnalysisState) -> ShellStream:
        """Return the output of the commands in a substitution."""
        if self._depth > _MAX_DEPTH:
            self.add_unclear(_TOO_DEEP)
            return UNKNOWN_STREAM
        self._depth += 1
        try:
            return redirects.judge_substitution(self, node, state)
        finally:
            self._depth -= 1

    def add_memory_exhaustion(self) -> None:
        """Add a finding that endless output is kept in memory."""
        self.add_effect(EffectKind.EXHAUSTS, (), ())
        self.add_finding(Verdict.ASK, "bomb", "it takes memory without end", "", contained=True)

    def judge_assignment(self, name: str, value: Word, state: AnalysisState) -> None:
        """Judge a variable that `${NAME:=...}` may set."""
        variables.judge_variable(self, name, value, state)

    def make_pseudo_file(self, node: Node, state: AnalysisState) -> Word:
        """Return the file name of a process substitution."""
        stream = self.judge_substitution(node, state)
        self._pseudo += 1
        path = f"/dev/fd/{63 - self._pseudo % 60}"
        state.files[path] = stream
        return Word(path, dynamic=True, labels=stream.labels)

    # simple commands

    def judge_command(self, words: Sequence[Word], state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a simple command. Return its output."""
        if not words:
            return EMPTY_STREAM
        if len(words) > MAX_WORDS:
            self.add_unclear("the command has too many words to be judged")
            words = words[:MAX_WORDS]
        if self._depth > _MAX_DEPTH + 20 or self._depth * len(words) > _MAX_REPEATED:
            self.add_unclear(_TOO_DEEP)
            return UNKNOWN_STREAM
        if not self.budget.spend_step(len(words)):
            self.add_unclear(_TOO_LONG)
            return UNKNOWN_STREAM
        self._depth += 1
        try:
            return self._judge_words(words, state, stdin)
        finally:
            self._depth -= 1

    def _judge_words(self, words: Sequence[Word], state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        head = words[0]
        text = head.text
        self.add_command(tuple([word.text for word in words]), state)
        if text == "!" and len(words) > 1:
            return self.judge_command(words[1:], state, stdin)
        if head.dynamic or (WILDCARD.search(text) and text not in ("[", "[[")):
            return self._judge_unknown(words, state, stdin)
        ProgramCall(text, words[1:], state, stdin, self).ask_about_origin(head.labels)
        body = state.functions.get(text)
        if body is not None and (text not in self._running or self.concurrent_depth):
            return self._judge_function_call(text, body, state, words[1:], stdin)
        return self._judge_program(words, state, stdin)

    def _judge_program(self, words: Sequence[Word], state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        """Judge a program that is no function, by the rule of its name."""
        text = words[0].text
        # A script of the project may be called as a program of the system is.
        name = text if text.startswith("./") and "bin/" not in text else path_basename(text)
        if not name.isascii():
            name = self._fold_name(name, words, state)
        call = ProgramCall(name.removesuffix(".exe"), words[1:], state, stdin, self)
        if "/" in text:
            dataflow.judge_program_path(call, resolve_path(text, state.where.current, self.places))
        judge_given_names(call)
        before = len(self.written)
        out = judged(call)
        record_left_files(call, self.written[before:])
        return label_search_output(call, out)

    def _judge_function_call(
        self, name: str, body: Node | str, state: AnalysisState, words: Sequence[Word], stdin: ShellStream | None
    ) -> ShellStream:
        """Judge a function, or the text of an alias, that is called."""
        self.uncalled_functions.pop(name, None)
        if name in self._running or len(self._running) > _MAX_CALLS:
            if name in self._running and self.concurrent_depth:
                self.add_finding(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
            return UNKNOWN_STREAM
        self._running.append(name)
        outer, references = state.positional, state.references
        state.references = dict(references)
        try:
            if isinstance(body, str):
                return self.judge_script(" ".join([body, *[_quote_word(word) for word in words]]), state, stdin)
            state.positional = words
            return self.visit(body, state, stdin)
        finally:
            state.positional, state.references = outer, references
            self._running.pop()

    def _fold_name(self, name: str, words: Sequence[Word], state: AnalysisState) -> str:
        """Return the name as it looks, which is not always the name that runs."""
        if not any(unicodedata.category(char) == "Lo" for char in name):
            subject = state.where.subject(quote_argv(word.text for word in words))
            reason = "the program's name has characters that look like others"
            self.add_finding(Verdict.ASK, "unclear", reason, subject, contained=True)
        folded = unicodedata.normalize("NFKC", name)
        return "".join(char for char in folded if unicodedata.category(char) not in ("Cf", "Mn"))

    def _judge_unknown(self, words: Sequence[Word], state: AnalysisState, stdin: ShellStream | None) -> ShellStream:
        head = words[0]
        call = ProgramCall(head.text, words[1:], state, stdin, self)
        if not call.ask_about_origin(head.labels):
            subject = "" if head.dynamic else call.subject()
            reason = "which program runs is only known at run time"
            self.add_finding(Verdict.ASK, "unknown-command", reason, subject, contained=True)
        call.add_effect(EffectKind.UNKNOWN)
        if not head.dynamic:
            pattern = path_basename(head.text)
            for name in ("rm", *DANGEROUS):
                if fnmatch.fnmatchcase(name, pattern):
                    judged(ProgramCall(name, words[1:], state, stdin, self))
                    break
        return ShellStream(None, call.stdin.labels)


def _quote_word(word: Word) -> str:
    """Quote a word so that a shell reads it unchanged."""
    if word.dynamic:
        return '"' + word.text.replace("$()", "${_unknown_}").replace('"', "") + '"'
    return "'" + word.text.replace("'", "'\\''") + "'"


_SUBSCRIPT = re.compile(r"\w\[[^\]\n]{0,40}(?:\$\((?!\()|`)")


_PROMPT = re.compile(r"@P\}")


_FROM_HANDLE = re.compile(r"(?:^|[\s/;&|(])(?:ba|z|da|k)?sh[^\n;&|]{0,80}<&\s{0,4}[\d$]")


_HOME_SHELL = re.compile(
    r"\bHOME=(?![\"']?(?:\$HOME|\$\{HOME\}|~)[\"']?\s)[^\s;&|]{1,300}\s+(?:[^\s;&|]{0,100}/)?(?:ba|z|k)?sh\s+-\w{0,8}[il]"
)


_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh"})


_CALLS_BACK = {"compgen": ("-C", "-W", "-F"), "complete": ("-C", "-F"), "mapfile": ("-C",), "readarray": ("-C",)}


_TEXT_PATTERNS = ((_SUBSCRIPT, "["), (_PROMPT, "@P"), (_FROM_HANDLE, "<&"), (_HOME_SHELL, "HOME="))


_UNSEEN = word_set("unknown-command evaluated-late program-text nested-program runs-written")
"""Rules about what is run and not seen: in a line that may download, a sandbox does not answer them."""
_REASON = "the shell evaluates a text at run time, so what it runs is only known then"


def _is_evaluated_late(text: str, commands: Iterable[SimpleCommand]) -> bool:
    """Return whether something of a line is evaluated late; nearly nothing is."""
    found = any(sign in text and pattern.search(text) for pattern, sign in _TEXT_PATTERNS)
    return found or _has_late_program(text, commands)


def _has_late_program(text: str, commands: Iterable[SimpleCommand]) -> bool:
    """Return whether programs of the line call others back, or a shell reads from a pipe
    with a name or a co-process.
    """
    named = [(one.argv[0].rpartition("/")[2], one.argv[1:]) for one in commands if one.argv]
    if any(word[:2] in _CALLS_BACK.get(name, ()) for name, words in named for word in words):
        return True
    names = {name for name, _ in named}
    return ("mkfifo" in names or "coproc" in text) and not _SHELLS.isdisjoint(names)


MAX_COMMAND_CHARS = 200_000
"""Characters of the longest command that is analyzed; a longer one asks."""
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_INVISIBLE = ("Cf", "Mn", "Me", "Cc", "Co", "Cs")


def normalize_text(text: str) -> str:
    """Return the text as it looks: no escape sequences, compatibility forms folded, no invisible characters."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if text.isascii():
        return _CONTROL.sub("", text)
    folded = unicodedata.normalize("NFKC", text)
    hidden = [char for char in set(folded) - {"\n", "\t"} if unicodedata.category(char) in _INVISIBLE]
    return folded.translate(dict.fromkeys(map(ord, hidden))) if hidden else folded


def analyze_command(
    text: str, cwd: str, places: Places, variables: Mapping[str, str] | None = None, moved: Iterable[str] = ()
) -> CommandJudgement:
    """Analyze what running `text` in `cwd` would do. Linear in the text; it starts, opens and resolves nothing.

    `variables` are those that the shell has when it starts, `moved` is what earlier lines moved or linked. A text that
    looks different from what it is, because of characters that are folded or invisible, is judged in both readings.
    """
    if len(text) > MAX_COMMAND_CHARS:
        return CommandJudgement((CommandFinding(Verdict.ASK, "too-long", "the command is too long to be judged"),))
    # A shell drops NUL.
    text = text.replace("\0", "")
    known = variables or {}
    budget = AnalysisBudget(len(text))
    before = frozenset(moved)
    state = initial_state(places.workspace, cwd, known)
    state.moved.update(before)
    walk = _walk_text(text, state, places, budget)
    shown = normalize_text(text)
    # What takes too long to be parsed asks, in both readings.
    if shown != text and not walk.is_unread:
        again = initial_state(places.workspace, cwd, known)
        again.moved = state.moved
        other = _walk_text(shown, again, places, budget)
        walk.findings.update(other.findings)
        walk.effects.update(other.effects)
        walk.commands.extend(other.commands)
    if _is_evaluated_late(text, walk.commands):
        walk.add_finding(Verdict.ASK, "evaluated-late", _REASON, "", contained=True)
        walk.effects[CommandEffect(EffectKind.UNKNOWN)] = None
    findings, effects = _count_unseen(walk), tuple(walk.effects)
    return CommandJudgement(findings, effects, tuple(walk.commands), tuple(sorted(state.moved - before)))


def _count_unseen(walk: ShellWalk) -> tuple[CommandFinding, ...]:
    """Return the findings. Where something may be downloaded, the sandbox does not answer for what is run unseen."""
    fetches = (one.kind is EffectKind.FETCHES for one in walk.effects)
    if not (any(fetches) or any(may_download(one.argv) for one in walk.commands)):
        return tuple(walk.findings)
    return tuple(structs.replace(one, contained=one.contained and one.rule not in _UNSEEN) for one in walk.findings)


def _walk_text(text: str, state: AnalysisState, places: Places, budget: AnalysisBudget) -> ShellWalk:
    walk = ShellWalk(places, budget)
    try:
        if state.variables:
            judge_initial_variables(walk, state)
        walk.judge_script(text, state, None)
    except RecursionError:
        walk.add_unclear("the command is nested too deeply to be read")
    if budget.spent:
        walk.add_unclear(_TOO_LONG)
    return walk
