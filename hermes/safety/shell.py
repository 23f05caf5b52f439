"""A walk through a shell text: what each simple command would be, with what comes to it by pipes and variables."""

import fnmatch
import re
import unicodedata
from collections.abc import Callable, Sequence

from tree_sitter import Node

from hermes.safety import flow, variables
from hermes.safety.call import Call, resolve
from hermes.safety.expand import Expander
from hermes.safety.findings import Effect, EffectKind, Finding, Simple, Verdict
from hermes.safety.places import Places
from hermes.safety.rules.table import DANGEROUS, judged
from hermes.safety.syntax import parse, text_of, unbraced
from hermes.safety.words import DECODED, FETCHED, NONE, NOTHING, UNTOLD, State, Stream, Word, basename

_MAX_NESTING = 8
_MAX_DEPTH = 60
_MAX_EFFECTS = 2_000
_MAX_LISTED = 20_000
"""Words of all commands that are listed; beyond it only a person says yes."""
_MAX_STEPS = 800
_MAX_STEPS_A_CHARACTER = 0.04
"""Statements and programs that are looked at in one text; what comes after them asks."""
_MAX_OPEN = 200
_MAX_WORDS = 1_000
_UNROLLED = 96
"""Rounds of loops that are followed one by one in a whole text."""
_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{?\(?\1\|\1&\)?;?\}?")
_BLANK = re.compile(r"\s+")
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+ -][A-Za-z0-9_./:,@%+= -]*\Z")
_RESERVED = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "function",
        "select",
        "time",
        "coproc",
        "declare",
        "typeset",
        "export",
        "readonly",
        "local",
        "unset",
        "unsetenv",
    ]
)
_WILD = re.compile(r"[*?\[]")


class Walk:
    """One walk. It collects findings and effects; `script` and `run` may be called for programs inside programs."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.findings: dict[Finding, None] = {}
        self.effects: dict[Effect, None] = {}
        self.commands: dict[Simple, None] = {}
        self._listed = 0
        self.expander = Expander(self)
        self._nesting = 0
        self._depth = 0
        self._unrolled = 0
        self._steps = _MAX_STEPS
        self._pseudo = 0
        self._running: list[str] = []
        self._aside = 0
        self._uncalled: dict[str, tuple[Node, State]] = {}
        self._visits: dict[str, Callable[[Node, State, Stream | None], Stream]] = {
            "command": self._command,
            "redirected_statement": self._redirected,
            "pipeline": self._pipeline,
            "subshell": self._subshell,
            "variable_assignment": self._assignment,
            "variable_assignments": self._statements,
            "declaration_command": self._declaration,
            "unset_command": self._declaration,
            "for_statement": self._for,
            "while_statement": self._while,
            "case_statement": self._case,
            "function_definition": self._function,
            "test_command": self._looked_into,
            "c_style_for_statement": self._loop_body,
            "comment": lambda *_: NOTHING,
        }

    # what rules use

    def say(self, verdict: Verdict, rule: str, reason: str, subject: str, *, contained: bool) -> None:
        """Note a finding."""
        self.findings[Finding(verdict, rule, reason, subject, contained)] = None

    def note(self, kind: EffectKind, argv: tuple[str, ...], targets: tuple[str, ...]) -> None:
        """Note an effect."""
        if len(self.effects) < _MAX_EFFECTS:
            self.effects[Effect(kind, argv, targets)] = None

    def met(self, argv: tuple[str, ...], state: State) -> None:
        """Note a simple command."""
        self._listed += len(argv)
        if self._listed <= _MAX_LISTED:
            self.commands[Simple(argv, state.where.now)] = None
        else:
            self.unclear("the command has too many words to be judged")

    def unclear(self, reason: str = "the command cannot be read with certainty") -> None:
        """Note that something could not be followed."""
        self.say(Verdict.ASK, "unclear", reason, "", contained=False)

    def script(self, text: str, state: State, stdin: Stream | None) -> Stream:
        """Judge a shell text; what it writes to its output."""
        if "|" in text and len(text) < 100_000 and _FORK_BOMB.search(_BLANK.sub("", text)):
            self.say(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
            return NOTHING
        if self._nesting >= _MAX_NESTING:
            self.unclear()
            return UNTOLD
        if _PLAIN.match(text):
            words = text.split(None, _MAX_WORDS + 1)
            if words and "=" not in words[0] and words[0] not in _RESERVED:
                return self.run([Word(word) for word in words], state, stdin)
        if text.count("(") - text.count(")") > _MAX_OPEN or text.count("``") > _MAX_OPEN * 5:
            self.unclear("the command is nested too deeply to be read")
            return UNTOLD
        if not self._nesting:
            self._steps = _MAX_STEPS + int(len(text) * _MAX_STEPS_A_CHARACTER)
        self._nesting += 1
        try:
            return self._parsed(text, state, stdin)
        finally:
            self._nesting -= 1

    def _parsed(self, text: str, state: State, stdin: Stream | None) -> Stream:
        tree = parse(text.encode("utf-8", "replace"))
        if tree is not None and tree.root_node.has_error:
            other = unbraced(text)
            again = parse(other.encode("utf-8", "replace")) if other != text else None
            tree = again if again is not None and not again.root_node.has_error else tree
        if tree is None:
            self.unclear("the command is too tangled to be read")
            return UNTOLD
        root = tree.root_node
        if root.has_error:
            self.unclear()
        out = self._statements(root, state, stdin)
        if self._nesting == 1:
            for name, (body, at) in list(self._uncalled.items()):
                self._uncalled.pop(name, None)
                self._called(name, body, at.copy(at.where.lost()), (), UNTOLD)
        return out

    # statements

    def visit(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        """Judge a statement; what it writes to its output."""
        kind = node.type
        handler = self._visits.get(kind)
        if self._depth > _MAX_DEPTH:
            self.unclear("the command is nested too deeply to be read")
            return UNTOLD
        if self._exhausted():
            return UNTOLD
        self._depth += 1
        try:
            if handler is not None:
                return handler(node, state, stdin)
            return self._statements(node, state, stdin)
        finally:
            self._depth -= 1

    def _exhausted(self) -> bool:
        self._steps -= 1
        if self._steps < 0:
            self.unclear("the command has too many parts to be judged")
            return True
        return False

    def _statements(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        out = NOTHING
        children = node.children
        last = len(children) - 1
        for at, child in enumerate(children):
            kind = child.type
            if not child.is_named or kind == "comment":
                continue
            if self._steps < 0:
                break
            if kind in ("word", "string", "number", "concatenation", "variable_name", "raw_string", "simple_expansion"):
                self.expander.visit_inside(child, state)
                continue
            aside = at < last and children[at + 1].type == "&"
            self._aside += aside
            out = flow.joined(out, self.visit(child, state, stdin))
            self._aside -= aside
        return out

    def _pipeline(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        stream = stdin
        self._aside += 1
        for child in node.named_children:
            if child.type != "comment":
                stream = self.visit(child, state.copy(), stream)
        self._aside -= 1
        return stream if stream is not None else UNTOLD

    def _subshell(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        return self._statements(node, state.copy(), stdin)

    def _looked_into(self, node: Node, state: State, _: Stream | None) -> Stream:
        self.expander.visit_inside(node, state)
        return NOTHING

    def _loop_body(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        body = node.child_by_field_name("body")
        return self.visit(body, state, stdin) if body is not None else NOTHING

    def _for(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        if variable is None or body is None:
            return self._statements(node, state, stdin)
        name = text_of(variable)
        values = self.expander.words(node.children_by_field_name("value"), state)
        out = NOTHING
        told = len(values) <= 12 and not any(word.dynamic or _WILD.search(word.text) for word in values)
        if told and self._unrolled + len(values) <= _UNROLLED:
            self._unrolled += len(values)
            for word in values:
                state.variables[name] = word
                out = flow.joined(out, self.visit(body, state, stdin))
            return out
        # Which value it has is not told; one of them stands for all, so that a protected path among them is seen.
        for word in _instructive(values):
            state.variables[name] = Word(word.text, dynamic=True, labels=word.labels)
            out = self.visit(body, state, stdin)
        if not values:
            state.variables[name] = Word("${" + name + "}", dynamic=True)
            out = self.visit(body, state, stdin)
        return Stream(None, out.labels)

    def _while(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        lines = stdin.text.splitlines() if stdin is not None and stdin.text is not None else []
        conditions = node.children_by_field_name("condition")
        body = node.child_by_field_name("body")
        reads = any("read" in text_of(child)[:80] for child in conditions)
        rounds: list[Stream | None] = [stdin]
        if reads and 1 < len(lines) <= 12 and self._unrolled + len(lines) <= _UNROLLED:
            self._unrolled += len(lines)
            rounds = [Stream(line, stdin.labels if stdin else NONE) for line in lines]
        out = NOTHING
        for given in rounds:
            for child in conditions:
                if child.is_named:
                    self.visit(child, state, given)
            if body is not None:
                out = flow.joined(out, self.visit(body, state, given))
        endless = any(text_of(child).strip() in ("true", ":", "1", "[ 1 ]") for child in conditions)
        if endless and body is not None and any(child.type == "&" for child in body.children):
            self.say(Verdict.ASK, "bomb", "it starts processes without end", "", contained=True)
        return Stream(None, out.labels)

    def _case(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        value = node.child_by_field_name("value")
        if value is not None:
            self.expander.one(value, state)
        out = NOTHING
        for item in node.named_children:
            if item.type == "case_item":
                out = flow.joined(out, self._statements(item, state, stdin))
        return Stream(None, out.labels)

    def _function(self, node: Node, state: State, _: Stream | None) -> Stream:
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name_node is None or body is None:
            return NOTHING
        name = text_of(name_node)
        state.functions[name] = body
        if _starts_itself(name, body):
            self.say(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
            return NOTHING
        self._uncalled[name] = (body, state.copy())
        return NOTHING

    def _called(self, name: str, body: Node, state: State, words: Sequence[Word], stdin: Stream | None) -> Stream:
        self._uncalled.pop(name, None)
        if name in self._running or len(self._running) > 6:
            if name in self._running and self._aside:
                self.say(Verdict.DENY, "fork-bomb", "it starts itself without end", "", contained=False)
            return UNTOLD
        self._running.append(name)
        outer, state.positional = state.positional, words
        try:
            return self.visit(body, state, stdin)
        finally:
            state.positional = outer
            self._running.pop()

    # simple commands

    def _command(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        nodes: list[Node] = []
        assigned: list[Node] = []
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                if len(assigned) > _MAX_WORDS:
                    break
                assigned.append(child)
            elif kind == "command_name":
                nodes += child.children if child.child_count == 1 else [child]
            elif kind == "herestring_redirect":
                stdin = self._herestring(child, state)
            elif kind == "file_redirect":
                given = self._file_redirect(child, state)
                stdin = given if given is not None else stdin
            elif kind not in ("comment", "heredoc_redirect"):
                nodes.append(child)
        if len(nodes) + len(assigned) > _MAX_WORDS:
            self.unclear("the command has too many words to be judged")
            del nodes[_MAX_WORDS:], assigned[_MAX_WORDS:]
        words = self.expander.words(nodes, state)
        if assigned:
            if words:
                state = state.copy(state.where)
            for child in assigned:
                variables.assign(self, child, state)
        return self.run(words, state, stdin) if words else NOTHING

    def run(self, words: Sequence[Word], state: State, stdin: Stream | None) -> Stream:
        """Judge a simple command; what it writes to its output."""
        if not words:
            return NOTHING
        if len(words) > _MAX_WORDS:
            self.unclear("the command has too many words to be judged")
            words = words[:_MAX_WORDS]
        if self._depth > _MAX_DEPTH + 20:
            self.unclear("the command is nested too deeply to be read")
            return UNTOLD
        if self._exhausted():
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
            return self._run(words[1:], state, stdin)
        if head.dynamic or (_WILD.search(text) and text not in ("[", "[[")):
            return self._unknown(words, state, stdin)
        if head.labels & {FETCHED, DECODED}:
            Call(text, words[1:], state, stdin, self).ask("remote-exec", "it runs what it downloads or decodes")
        body = state.functions.get(text)
        if isinstance(body, Node):
            return self._called(text, body, state, words[1:], stdin)
        # A script of the project may be called as a program of the system is.
        name = text if text.startswith("./") and "bin/" not in text else basename(text)
        if not name.isascii():
            name = self._folded(name, words, state)
        call = Call(name.removesuffix(".exe"), words[1:], state, stdin, self)
        if "/" in text:
            flow.program_file(call, resolve(text, state.where.now, self.places))
        return judged(call)

    def _folded(self, name: str, words: Sequence[Word], state: State) -> str:
        """The name as it looks, which is not always the name that runs."""
        if not any(unicodedata.category(char) == "Lo" for char in name):
            subject = state.where.subject(" ".join(word.text for word in words))
            self.say(
                Verdict.ASK,
                "unclear",
                "the program's name has characters that look like others",
                subject,
                contained=True,
            )
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

    # redirects and substitutions

    def _redirected(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        body = node.child_by_field_name("body")
        if body is not None and body.type == "list" and len(body.named_children) == 2:
            # The grammar puts `a && b > c` under one redirect; it belongs to the last command.
            self.visit(body.named_children[0], state, stdin)
            body = body.named_children[1]
        targets: list[tuple[str, str]] = []
        after: list[Node] = []
        for child in node.children:
            kind = child.type
            if kind == "file_redirect":
                given = self._file_redirect(child, state, targets)
                stdin = given if given is not None else stdin
            elif kind == "herestring_redirect":
                stdin = self._herestring(child, state)
            elif kind == "heredoc_redirect":
                stdin = self._heredoc(child, state, targets, after)
        out = self.visit(body, state, stdin) if body is not None else NOTHING
        out = self._stored(out, targets, state)
        for child in after:
            if child.type == "pipeline":
                for step in child.named_children:
                    out = self.visit(step, state, out)
            else:
                out = self.visit(child, state, out if child.type == "pipeline" else None)
        return out

    def _stored(self, out: Stream, targets: list[tuple[str, str]], state: State) -> Stream:
        for operator, path in targets:
            if path.startswith("/dev/"):
                continue
            flow.judge_stored(self, path, operator, out, state)
            before = state.files.get(path) if ">>" in operator else None
            state.files[path] = flow.joined(before, out) if before is not None else out
        return NOTHING if targets else out

    def _file_redirect(self, node: Node, state: State, targets: list[tuple[str, str]] | None = None) -> Stream | None:
        operator, descriptor = "", ""
        words: list[Word] = []
        for child in node.children:
            if child.type == "file_descriptor":
                descriptor = text_of(child)
            elif not child.is_named:
                operator = operator or text_of(child)
            else:
                words += [self.expander.one(child, state)]
        if not words:
            return None
        target = words[0]
        if operator in ("<", "<&"):
            if target.text.isdigit():
                return None
            self.met(("<", resolve(target.text, state.where.now, self.places)), state)
            return flow.read_from(self, target, state)
        if ">" not in operator or (operator in (">&", "<&") and (target.text.isdigit() or target.text == "-")):
            return None
        path = resolve(target.text, state.where.now, self.places)
        self.met((">", path), state)
        flow.written_to(self, path, operator, state)
        if path.startswith(("/dev/tcp/", "/dev/udp/")):
            flow.sent(self, path)
        if targets is not None and descriptor in ("", "1"):
            targets.append((operator, path))
        return None

    def _herestring(self, node: Node, state: State) -> Stream:
        word = self.expander.one(node.named_children[0], state) if node.named_children else Word("")
        return Stream(None, word.labels) if word.dynamic else Stream(word.text + "\n", word.labels)

    def _heredoc(self, node: Node, state: State, targets: list[tuple[str, str]], after: list[Node]) -> Stream:
        begin, text, labels, told = "", "", NONE, True
        for child in node.children:
            kind = child.type
            if kind == "heredoc_start":
                begin = text_of(child)
            elif kind == "file_redirect":
                self._file_redirect(child, state, targets)
            elif kind == "heredoc_body":
                if any(char in begin for char in "'\"\\"):
                    text = text_of(child)
                else:
                    text, labels, told = self._expanded_body(child, state)
            elif child.is_named and kind not in ("heredoc_end", "comment", "ERROR"):
                after.append(child)
        if node.children and text_of(node.children[0]) == "<<-":
            text = "\n".join(line.lstrip("\t") for line in text.split("\n"))
        return Stream(text if told else None, labels)

    def _expanded_body(self, node: Node, state: State) -> tuple[str, frozenset[str], bool]:
        source = node.text or b""
        inner = [child for child in node.named_children if child.type != "heredoc_content"]
        pieces, labels, told, at = [], NONE, True, 0
        for child in inner:
            pieces.append(source[at : child.start_byte - node.start_byte].decode("utf-8", "replace"))
            word = self.expander.one(child, state)
            pieces.append(word.text)
            labels |= word.labels
            told = told and not word.dynamic
            at = child.end_byte - node.start_byte
        pieces.append(source[at:].decode("utf-8", "replace"))
        return "".join(pieces), labels, told or all("$()" not in piece for piece in pieces)

    def substitute(self, node: Node, state: State) -> Stream:
        """The output of the commands in a substitution."""
        children = node.named_children
        if len(children) == 1 and children[0].type in ("file_redirect", "redirected_statement"):
            redirect = children[0] if children[0].type == "file_redirect" else None
            if redirect is None and children[0].child_by_field_name("body") is None:
                redirect = next((one for one in children[0].named_children if one.type == "file_redirect"), None)
            if redirect is not None:
                return self._file_redirect(redirect, state.copy()) or UNTOLD
        if self._depth > _MAX_DEPTH:
            self.unclear("the command is nested too deeply to be read")
            return UNTOLD
        self._depth += 1
        try:
            writes_in = node.type == "process_substitution" and text_of(node).startswith(">")
            return self._statements(node, state.copy(), UNTOLD if writes_in else None)
        finally:
            self._depth -= 1

    def pseudo_file(self, node: Node, state: State) -> Word:
        """The file that stands for a process."""
        stream = self.substitute(node, state)
        self._pseudo += 1
        path = f"/dev/fd/{63 - self._pseudo % 60}"
        state.files[path] = stream
        return Word(path, dynamic=True, labels=stream.labels)

    # variables

    def _assignment(self, node: Node, state: State, _: Stream | None) -> Stream:
        variables.assign(self, node, state)
        return NOTHING

    def _declaration(self, node: Node, state: State, stdin: Stream | None) -> Stream:
        children = node.children
        name = text_of(children[0]) if children else ""
        rest: list[Node] = []
        for child in children[1:]:
            if child.type == "variable_assignment":
                variables.assign(self, child, state)
            elif child.is_named:
                rest.append(child)
        words = [
            Word(text_of(one)) if one.type == "variable_name" else word
            for one in rest
            for word in (self.expander.words([one], state) or [Word("")])
        ]
        self.met((name, *[word.text for word in words]), state)
        return judged(Call(name, words, state, stdin, self))


def _instructive(values: Sequence[Word]) -> list[Word]:
    """The few of many values that say most about what a loop does: paths out of the folder first."""
    return sorted(values, key=lambda word: not word.text.startswith(("/", "~", ".")))[:3]


def _starts_itself(name: str, body: Node) -> bool:
    """Whether a function starts itself beside itself: in a pipe, or in the background."""
    waiting: list[tuple[Node, bool]] = [(body, False)]
    seen = 0
    while waiting and seen < 400:
        node, beside = waiting.pop()
        seen += 1
        if node.type == "command" and beside:
            named = node.child_by_field_name("name")
            if named is not None and text_of(named) == name:
                return True
        children = node.children
        for at, child in enumerate(children):
            if child.is_named:
                follows = at + 1 < len(children) and children[at + 1].type == "&"
                waiting.append((child, beside or node.type == "pipeline" or follows))
    return False
