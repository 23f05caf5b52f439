"""Expands the words of a shell text: quotes, variables, substitutions, braces, as far as they are constant."""

import itertools
import os.path
import re
from collections.abc import Sequence
from typing import Protocol

from tree_sitter import Node

from hermes.safety.environment import is_secret_variable
from hermes.safety.shell.call import AnalysisHost
from hermes.safety.shell.findings import MADE_HERE
from hermes.safety.shell.parameters import evaluate_arithmetic, expand_parameter
from hermes.safety.shell.syntax import decode_source, node_text
from hermes.safety.shell.words import NO_LABELS, AnalysisState, Label, ShellStream, Word

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_BACKTICKS = re.compile(r"`([^`]{1,4000})`")
"""The grammar leaves them as text behind the operator of an expansion."""
_PLAIN_WORDS_A_STEP = 16
"""Plain words that cost as much as one step."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEFAULT_ASSIGNMENT = re.compile(r"\$\{(\w+):?=")
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_RANGE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,6}))?$")
_MAX_BRACES = 64
_MAX_TEXT = 100_000
"""Characters that folding may make out of a word: beyond it the word counts as not known."""
_MAX_PARTS = 1_000
_MAX_DEPTH = 30
_PLACEHOLDER_BASE = 0xE000
"""The first private use character; such characters stand for the parts that brace expansion must not look into."""

Part = str | Word | list[Word]


class SubstitutionHost(AnalysisHost, Protocol):
    """The analysis that runs the commands in substitutions."""

    def judge_substitution(self, node: Node, state: AnalysisState) -> ShellStream:
        """Return the output of the commands in a node, run in a copy of the state."""
        ...

    def add_memory_exhaustion(self) -> None:
        """Add a finding that endless output is kept in memory."""

    def judge_assignment(self, name: str, value: Word, state: AnalysisState) -> None:
        """Judge a variable that `${NAME:=...}` may set."""

    def make_pseudo_file(self, node: Node, state: AnalysisState) -> Word:
        """Return the file name of a process substitution."""
        ...


def unescape_text(text: str) -> str:
    """Return an unquoted text without its backslashes."""
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text


def decode_ansi_string(text: str) -> str:
    """Decode the text of `$'text'`."""

    def decode_match(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code or found[4]:
            number = int(code, 16) if code else int(found[4], 8) & 0xFF
            return chr(number) if 0 < number < 0x110000 else ""
        if found[5]:
            return chr(ord(found[5]) & 0x1F)
        return _ANSI_NAMED.get(found[6], found[6])

    return _ANSI.sub(decode_match, text) if "\\" in text else text


class WordExpander:
    """Expands nodes to words."""

    def __init__(self, host: SubstitutionHost) -> None:
        self._host = host

    def expand_words(self, nodes: Sequence[Node], state: AnalysisState) -> list[Word]:
        """Return the words that nodes expand to; fewer when the budget is spent. Adjacent nodes are one word."""
        out: list[Word] = []
        at = 0
        while at < len(nodes):
            node = nodes[at]
            at += 1
            if node.type == "word" and (at == len(nodes) or nodes[at].start_byte != node.end_byte):
                text = node_text(node)
                if "{" not in text:
                    if at % _PLAIN_WORDS_A_STEP == 0 and not self._host.budget.spend_step():
                        break
                    out.append(Word(unescape_text(text), quoted="\\" in text))
                    continue
            if not self._host.budget.spend_step():
                break
            parts = self._node_parts(node, state, 0)
            while at < len(nodes) and nodes[at].start_byte == nodes[at - 1].end_byte:
                parts += self._parts_after_dollar(parts, nodes[at], state)
                at += 1
            out += self._split_fields(parts, state)
        return out

    def _parts_after_dollar(self, parts: list[Part], node: Node, state: AnalysisState) -> list[Part]:
        """Return the parts of a node that touches the one before. The grammar may cut `$"text"` and `$NAME/`."""
        found = _NAME.match(node_text(node)) if parts[-1:] == ["$"] and node.type in ("word", "concatenation") else None
        if parts[-1:] == ["$"] and node.type in ("string", "word", "concatenation"):
            parts.pop()
        if found is None:
            return self._node_parts(node, state, 0)
        rest = _literal_parts(node_text(node)[found.end() :]) if found.end() < len(node_text(node)) else []
        return [self.variable_value(found[0], state), *rest]

    def expand_one(self, node: Node, state: AnalysisState) -> Word:
        """Return the one word that a node expands to where nothing is split: a value, a target, a here-string."""
        parts = self._node_parts(node, state, 0)
        flat: list[str | Word] = []
        for part in parts:
            if isinstance(part, list):
                flat += [Word(" ".join(word.text for word in part), any(word.dynamic for word in part))]
            else:
                flat.append(part)
        return _join_parts(flat)

    def _node_parts(self, node: Node, state: AnalysisState, depth: int) -> list[Part]:
        if depth > _MAX_DEPTH:
            return [Word("$()", dynamic=True)]
        match node.type:
            case "concatenation" | "command_name" | "translated_string":
                return self._concatenation_parts(node, state, depth)
            case "string":
                return self._quoted_parts(node, state)
            case "raw_string" | "ansi_c_string":
                text = node_text(node)
                return [Word(text[1:-1] if text[0] != "$" else decode_ansi_string(text[2:-1]), quoted=True)]
            case "process_substitution":
                return [self._host.make_pseudo_file(node, state)]
        value = self._expand_node(node, state, quoted=False)
        return [value] if value is not None else _literal_parts(node_text(node))

    def _expand_node(self, node: Node, state: AnalysisState, *, quoted: bool) -> Word | list[Word] | None:
        """Return what an expansion stands for; None for other nodes."""
        match node.type:
            case "simple_expansion" | "expansion":
                return self._expand_parameter_node(node, state, quoted=quoted)
            case "command_substitution":
                return self._expand_substitution(node, state)
            case "arithmetic_expansion":
                return self._expand_arithmetic(node, state)
        return None

    def _concatenation_parts(self, node: Node, state: AnalysisState, depth: int) -> list[Part]:
        parts: list[Part] = []
        children = node.children
        if len(children) > _MAX_PARTS:
            return [Word("$()", dynamic=True)]
        for child in children:
            parts += self._node_parts(child, state, depth + 1)
        return parts

    def _quoted_parts(self, node: Node, state: AnalysisState) -> list[Part]:
        """Return the parts of a text in double quotes. Text between the nodes counts: the tree leaves line ends out."""
        inner = [child for child in node.named_children if child.type != "string_content"]
        source = node.text or b""
        if len(inner) > _MAX_PARTS:
            return [Word("$()", dynamic=True, quoted=True)]
        if not inner:
            return [Word(_unescape_quoted(source[1:-1]), quoted=True)]
        parts: list[Part] = []
        begins, at = node.start_byte, 1
        for child in inner:
            literal = source[at : child.start_byte - begins]
            if literal:
                parts.append(Word(_unescape_quoted(literal), quoted=True))
            at = child.end_byte - begins
            parts.append(self._expand_within_quotes(child, state))
        if source[at:-1]:
            parts.append(Word(_unescape_quoted(source[at:-1]), quoted=True))
        return parts

    def _expand_within_quotes(self, node: Node, state: AnalysisState) -> Word | list[Word]:
        value = self._expand_node(node, state, quoted=True)
        if isinstance(value, list):
            return value
        word = value if value is not None else Word(node_text(node))
        return Word(word.text, word.dynamic, quoted=True, labels=word.labels)

    def _expand_substitution(self, node: Node, state: AnalysisState) -> Word:
        stream = self._host.judge_substitution(node, state)
        if Label.ENDLESS in stream.labels and stream.text is None:
            self._host.add_memory_exhaustion()
        if stream.text is None or len(stream.text) > _MAX_TEXT:
            return Word("$()", dynamic=True, labels=stream.labels)
        return Word(stream.text.rstrip("\n"), MADE_HERE in stream.text, labels=stream.labels)

    def _expand_arithmetic(self, node: Node, state: AnalysisState) -> Word:
        for child in node.named_children:
            self.run_substitutions_inside(child, state)
        text = node_text(node)
        number = evaluate_arithmetic(text[text.index("(") + 2 if text.startswith("$((") else 2 : -2], state)
        return Word("${N}", dynamic=True) if number is None else Word(str(number))

    def run_substitutions_inside(self, node: Node, state: AnalysisState, *, without: Node | None = None) -> None:
        """Run the substitutions that stand anywhere in a node, or in it `without` one of its parts."""
        waiting = [child for child in node.named_children if child != without] if without is not None else [node]
        while waiting:
            current = waiting.pop()
            if current.type in ("command_substitution", "process_substitution"):
                self._host.judge_substitution(current, state)
            else:
                waiting += current.named_children

    def _expand_parameter_node(self, node: Node, state: AnalysisState, *, quoted: bool) -> Word | list[Word]:
        source = node_text(node)
        if not source.startswith("${"):
            return self.variable_value(source[1:], state, quoted=quoted)

        def operand() -> Word:
            return self._expand_operand(node, state)

        for child in node.named_children:
            if child.type not in ("variable_name", "special_variable_name", "word", "number", "regex", "subscript"):
                self.run_substitutions_inside(child, state)
        if "`" in source:
            for inner in _BACKTICKS.findall(source):
                self._host.judge_script(inner, state.copy(), None)
        found = expand_parameter(source[2:-1], state, self.variable_value, operand)
        if "=" in source and isinstance(found, Word) and (sets := _DEFAULT_ASSIGNMENT.match(source)):
            self._host.judge_assignment(sets[1], found, state)
        return found

    def _expand_operand(self, node: Node, state: AnalysisState) -> Word:
        """Return the word after the operator of `${NAME:-...}`."""
        after = False
        nodes: list[Node] = []
        for child in node.children:
            if child.type in (":-", "-", ":=", "=", ":+", "+", ":?", "?") and not after:
                after = True
            elif after and child.type != "}":
                nodes.append(child)
        return _join_parts([self.expand_one(child, state) for child in nodes])

    def variable_value(self, name: str, state: AnalysisState, *, quoted: bool = False) -> Word | list[Word]:
        """Return the value of a variable, or the positional words."""
        if name in ("@", "*"):
            return list(state.positional) if state.positional is not None else Word("${@}", dynamic=True)
        if name.isdigit() and name != "0" and state.positional is not None:
            at = int(name) - 1 if len(name) < 5 else 9999
            return state.positional[at] if at < len(state.positional) else Word("")
        if state.references:
            name = state.resolve_name(name)
        value = (
            state.variables.get(name) if name not in state.arithmetic_names else Word("${" + name + "}", dynamic=True)
        )
        if value is None:
            value = self._unset_value(name, state)
        if is_secret_variable(name):
            return Word(value.text, value.dynamic, value.quoted, value.labels | {Label.SECRET})
        return value

    def _unset_value(self, name: str, state: AnalysisState) -> Word:
        """Return the value of a variable that was not set on this line."""
        if name in state.arrays:
            return (state.arrays[name] or [Word("")])[0]
        home, user = self._host.places.home, os.path.basename(self._host.places.home)
        known = {"HOME": home, "USER": user, "LOGNAME": user, "HERMES_HOME": self._host.places.hermes}
        known |= {"!": "%+", "IFS": " \t\n"}
        if state.where.is_known:
            known["PWD"] = state.where.current
        return Word(known[name]) if name in known else Word("${" + name + "}", dynamic=True)

    def _split_fields(self, parts: list[Part], state: AnalysisState) -> list[Word]:
        if len(parts) == 1 and isinstance(parts[0], str) and "{" not in parts[0]:
            return [Word(parts[0])]
        if any(isinstance(part, str) and "{" in part for part in parts):
            written = _expand_braced_parts(parts)
            return [word for one in written for word in _split_words(one, state)]
        return _split_words(parts, state)


def _literal_parts(text: str) -> list[Part]:
    if "\\" not in text:
        return [text]
    parts: list[Part] = []
    at = 0
    for found in _ESCAPED.finditer(text):
        if found.start() > at:
            parts.append(text[at : found.start()])
        if found[1] != "\n":
            parts.append(Word(found[1], quoted=True))
        at = found.end()
    if at < len(text):
        parts.append(text[at:])
    return parts


def _unescape_quoted(source: bytes) -> str:
    text = decode_source(source)
    return _IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text


def _join_parts(parts: Sequence[str | Word]) -> Word:
    if len(parts) == 1 and isinstance(parts[0], Word):
        return parts[0]
    texts, dynamic, quoted, labels = [], False, False, NO_LABELS
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            texts.append(part.text)
            dynamic = dynamic or part.dynamic
            quoted = quoted or part.quoted
            labels |= part.labels
    return Word("".join(texts), dynamic, quoted, labels)


def _expand_braced_parts(parts: list[Part]) -> list[list[Part]]:
    """Expand the braces of the unquoted parts; quoted and expanded parts are kept out of it."""
    held: list[Part] = []
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            text += chr(_PLACEHOLDER_BASE + len(held))
            held.append(part)
    if len(held) > 1000 or len(text) > 4096:
        return [parts]
    return [_restore_parts(one, held) for one in expand_braces(text)]


def _restore_parts(text: str, held: list[Part]) -> list[Part]:
    parts: list[Part] = []
    plain = ""
    for char in text:
        if _PLACEHOLDER_BASE <= ord(char) < _PLACEHOLDER_BASE + len(held):
            if plain:
                parts.append(plain)
            plain = ""
            parts.append(held[ord(char) - _PLACEHOLDER_BASE])
        else:
            plain += char
    if plain:
        parts.append(plain)
    return parts


def expand_braces(text: str) -> list[str]:
    """Return the brace expansion of a text; the text itself where there is none, or too many words."""
    done: list[str] = []
    waiting = [text]
    while waiting:
        current = waiting.pop()
        found = _find_first_brace(current)
        if found is None or len(done) + len(waiting) > _MAX_BRACES:
            done.append(current)
            continue
        begin, end, choices = found
        waiting += [current[:begin] + choice + current[end:] for choice in reversed(choices)]
    return done if len(done) <= _MAX_BRACES * 2 else [text]


def _find_first_brace(text: str) -> tuple[int, int, list[str]] | None:
    begin = text.find("{")
    tries = 0
    while begin >= 0 and tries < 8:
        tries += 1
        depth, commas, end = 0, [begin], -1
        for at in range(begin, len(text)):
            char = text[at]
            depth += (char == "{") - (char == "}")
            if char == "," and depth == 1:
                commas.append(at)
            if depth == 0:
                end = at
                break
        if end > 0:
            if len(commas) > 1:
                commas.append(end)
                return begin, end + 1, [text[a + 1 : b] for a, b in itertools.pairwise(commas)]
            choices = expand_brace_range(text[begin + 1 : end])
            if choices:
                return begin, end + 1, choices
        begin = text.find("{", begin + 1)
    return None


def expand_brace_range(text: str) -> list[str]:
    """Return the words of a range, `1..5` or `a..c`; empty when it is none, or too long."""
    found = _RANGE.match(text)
    if not found or found[1].isalpha() != found[2].isalpha():
        return []
    letters = found[1].isalpha()
    begin, end = (ord(found[1]), ord(found[2])) if letters else (int(found[1]), int(found[2]))
    step = abs(int(found[3] or 1)) or 1
    if abs(end - begin) // step >= _MAX_BRACES:
        return []
    numbers = range(begin, end + 1, step) if end >= begin else range(begin, end - 1, -step)
    return [chr(number) if letters else str(number) for number in numbers]


def _split_words(parts: list[Part], state: AnalysisState) -> list[Word]:
    """Split unquoted expansions into fields; an empty one becomes no word."""
    separators = state.variables.get("IFS")
    fields: list[list[str | Word]] = [[]]
    for part in parts:
        if isinstance(part, str):
            fields[-1].append(part)
        elif isinstance(part, list):
            for place, word in enumerate(part):
                if place:
                    fields.append([])
                fields[-1].append(Word(word.text, word.dynamic, quoted=True, labels=word.labels))
        elif part.quoted or part.dynamic:
            fields[-1].append(part)
        else:
            _split_part(part, separators, fields)
    return [_join_parts(field) for field in fields if field]


def _split_part(part: Word, separators: Word | None, fields: list[list[str | Word]]) -> None:
    text = part.text
    if separators is not None and not separators.dynamic:
        for char in separators.text:
            text = text.replace(char, " ")
        pieces = text.split(" ") if separators.text else [text]
    else:
        pieces = re.split(r"[ \t\n]", text) if any(char in text for char in " \t\n") else [text]
    first = True
    for piece in pieces:
        if not first and fields[-1]:
            fields.append([])
        if piece:
            fields[-1].append(Word(piece, labels=part.labels))
        first = False
