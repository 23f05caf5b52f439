"""What the words of a shell text come to: quotes, variables, substitutions, braces, as far as they are constant."""

import itertools
import re
from collections.abc import Sequence
from typing import Protocol

from tree_sitter import Node

from hermes.safety.environment import holds_secret
from hermes.safety.places import Places
from hermes.safety.shell.budget import Budget
from hermes.safety.shell.parameters import arithmetic, expand_parameter
from hermes.safety.shell.syntax import decoded, text_of
from hermes.safety.shell.words import ENDLESS, MADE_HERE, NONE, SECRET, State, Stream, Word

_ESCAPED = re.compile(r"\\(\n|.)", re.DOTALL)
_BACKTICKS = re.compile(r"`([^`]{1,4000})`")
"""The grammar leaves them as text behind the operator of an expansion."""
_PLAIN = 16
"""Plain words that cost as much as one step."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_SETS = re.compile(r"\$\{(\w+):?=")
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_RANGE = re.compile(r"(-?\d{1,9}|[A-Za-z])\.\.(-?\d{1,9}|[A-Za-z])(?:\.\.(-?\d{1,6}))?$")
_MOST_BRACES = 64
_MOST_TEXT = 100_000
"""Characters that folding may make out of a word: beyond it the word counts as not known."""
_MOST_PARTS = 1_000
_DEEPEST = 30
_HELD = 0xE000
"""Characters of the private use area stand for the parts of a word that brace expansion must not look into."""

Part = str | Word | list[Word]


class Substitutes(Protocol):
    """Who runs what stands in substitutions."""

    places: Places
    budget: Budget

    def substitute(self, node: Node, state: State) -> Stream:
        """The output of the commands in a node, run in a copy of the state."""
        ...

    def script(self, text: str, state: State, stdin: Stream | None) -> Stream:
        """Judge a shell text."""
        ...

    def takes_all(self) -> None:
        """Note that something never ends where its output is kept in memory."""

    def assigned(self, name: str, value: Word, state: State) -> None:
        """Judge a variable that `${NAME:=...}` may set."""

    def pseudo_file(self, node: Node, state: State) -> Word:
        """The file that stands for a process."""
        ...


def unescape(text: str) -> str:
    """An unquoted text without its backslashes."""
    return _ESCAPED.sub(lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text


def ansi(text: str) -> str:
    """What `$'text'` is."""

    def one(found: re.Match[str]) -> str:
        code = found[1] or found[2] or found[3]
        if code or found[4]:
            number = int(code, 16) if code else int(found[4], 8) & 0xFF
            return chr(number) if 0 < number < 0x110000 else ""
        if found[5]:
            return chr(ord(found[5]) & 0x1F)
        return _ANSI_NAMED.get(found[6], found[6])

    return _ANSI.sub(one, text) if "\\" in text else text


class Expander:
    """Turns nodes into words."""

    def __init__(self, host: Substitutes) -> None:
        self._host = host

    def words(self, nodes: Sequence[Node], state: State) -> list[Word]:
        """The words that nodes come to; fewer when the budget is spent. Those that touch each other are one."""
        out: list[Word] = []
        at = 0
        while at < len(nodes):
            node = nodes[at]
            at += 1
            if node.type == "word" and (at == len(nodes) or nodes[at].start_byte != node.end_byte):
                text = text_of(node)
                if "{" not in text:
                    if at % _PLAIN == 0 and not self._host.budget.step():
                        break
                    out.append(Word(unescape(text), quoted="\\" in text))
                    continue
            if not self._host.budget.step():
                break
            parts = self._parts(node, state, 0)
            while at < len(nodes) and nodes[at].start_byte == nodes[at - 1].end_byte:
                parts += self._after_dollar(parts, nodes[at], state)
                at += 1
            out += self._fields(parts, state)
        return out

    def _after_dollar(self, parts: list[Part], node: Node, state: State) -> list[Part]:
        """The parts of a node that touches the one before. The grammar may cut `$"text"` and `$NAME/`."""
        found = _NAME.match(text_of(node)) if parts[-1:] == ["$"] and node.type in ("word", "concatenation") else None
        if parts[-1:] == ["$"] and node.type in ("string", "word", "concatenation"):
            parts.pop()
        if found is None:
            return self._parts(node, state, 0)
        rest = _literal(text_of(node)[found.end() :]) if found.end() < len(text_of(node)) else []
        return [self.variable(found[0], state), *rest]

    def one(self, node: Node, state: State) -> Word:
        """The one word that a node comes to where nothing is split: a value, a target, a here-string."""
        parts = self._parts(node, state, 0)
        flat: list[str | Word] = []
        for part in parts:
            if isinstance(part, list):
                flat += [Word(" ".join(word.text for word in part), any(word.dynamic for word in part))]
            else:
                flat.append(part)
        return _joined(flat)

    def _parts(self, node: Node, state: State, depth: int) -> list[Part]:
        if depth > _DEEPEST:
            return [Word("$()", dynamic=True)]
        match node.type:
            case "concatenation" | "command_name" | "translated_string":
                return self._concatenated(node, state, depth)
            case "string":
                return self._quoted(node, state)
            case "raw_string" | "ansi_c_string":
                text = text_of(node)
                return [Word(text[1:-1] if text[0] != "$" else ansi(text[2:-1]), quoted=True)]
            case _:
                return self._expanded(node, state)

    def _expanded(self, node: Node, state: State) -> list[Part]:
        match node.type:
            case "simple_expansion" | "expansion":
                return [self._parameter(node, state, quoted=False)]
            case "command_substitution":
                return [self._substituted(node, state)]
            case "process_substitution":
                return [self._host.pseudo_file(node, state)]
            case "arithmetic_expansion":
                return [self._number(node, state)]
            case _:
                return _literal(text_of(node))

    def _concatenated(self, node: Node, state: State, depth: int) -> list[Part]:
        parts: list[Part] = []
        children = node.children
        if len(children) > _MOST_PARTS:
            return [Word("$()", dynamic=True)]
        for child in children:
            parts += self._parts(child, state, depth + 1)
        return parts

    def _quoted(self, node: Node, state: State) -> list[Part]:
        """A text in double quotes. What lies between the nodes inside it counts: the tree leaves line ends out."""
        inner = [child for child in node.named_children if child.type != "string_content"]
        source = node.text or b""
        if len(inner) > _MOST_PARTS:
            return [Word("$()", dynamic=True, quoted=True)]
        if not inner:
            return [Word(_dequoted(source[1:-1]), quoted=True)]
        parts: list[Part] = []
        begins, at = node.start_byte, 1
        for child in inner:
            literal = source[at : child.start_byte - begins]
            if literal:
                parts.append(Word(_dequoted(literal), quoted=True))
            at = child.end_byte - begins
            parts.append(self._within_quotes(child, state))
        if source[at:-1]:
            parts.append(Word(_dequoted(source[at:-1]), quoted=True))
        return parts

    def _within_quotes(self, node: Node, state: State) -> Word | list[Word]:
        if node.type == "command_substitution":
            word = self._substituted(node, state)
        elif node.type == "arithmetic_expansion":
            word = self._number(node, state)
        elif node.type in ("simple_expansion", "expansion"):
            value = self._parameter(node, state, quoted=True)
            if isinstance(value, list):
                return value
            word = value
        else:
            word = Word(text_of(node))
        return Word(word.text, word.dynamic, quoted=True, labels=word.labels)

    def _substituted(self, node: Node, state: State) -> Word:
        stream = self._host.substitute(node, state)
        if ENDLESS in stream.labels and stream.text is None:
            self._host.takes_all()
        if stream.text is None or len(stream.text) > _MOST_TEXT:
            return Word("$()", dynamic=True, labels=stream.labels)
        return Word(stream.text.rstrip("\n"), MADE_HERE in stream.text, labels=stream.labels)

    def _number(self, node: Node, state: State) -> Word:
        for child in node.named_children:
            self.visit_inside(child, state)
        text = text_of(node)
        number = arithmetic(text[text.index("(") + 2 if text.startswith("$((") else 2 : -2], state)
        return Word("${N}", dynamic=True) if number is None else Word(str(number))

    def visit_inside(self, node: Node, state: State, *, without: Node | None = None) -> None:
        """Run the substitutions that stand anywhere in a node, or in it `without` one of its parts."""
        waiting = [child for child in node.named_children if child != without] if without is not None else [node]
        while waiting:
            current = waiting.pop()
            if current.type in ("command_substitution", "process_substitution"):
                self._host.substitute(current, state)
            else:
                waiting += current.named_children

    def _parameter(self, node: Node, state: State, *, quoted: bool) -> Word | list[Word]:
        source = text_of(node)
        if not source.startswith("${"):
            return self.variable(source[1:], state, quoted=quoted)

        def operand() -> Word:
            return self._operand(node, state)

        for child in node.named_children:
            if child.type not in ("variable_name", "special_variable_name", "word", "number", "regex", "subscript"):
                self.visit_inside(child, state)
        if "`" in source:
            for inner in _BACKTICKS.findall(source):
                self._host.script(inner, state.copy(), None)
        found = expand_parameter(source[2:-1], state, self.variable, operand)
        if "=" in source and isinstance(found, Word) and (sets := _SETS.match(source)):
            self._host.assigned(sets[1], found, state)
        return found

    def _operand(self, node: Node, state: State) -> Word:
        """What stands behind the operator of `${NAME:-...}`."""
        after = False
        nodes: list[Node] = []
        for child in node.children:
            if child.type in (":-", "-", ":=", "=", ":+", "+", ":?", "?") and not after:
                after = True
            elif after and child.type != "}":
                nodes.append(child)
        return _joined([self.one(child, state) for child in nodes])

    def variable(self, name: str, state: State, *, quoted: bool = False) -> Word | list[Word]:
        """The value of a variable, or the positional words."""
        if name in ("@", "*"):
            return list(state.positional) if state.positional is not None else Word("${@}", dynamic=True)
        if name.isdigit() and name != "0" and state.positional is not None:
            at = int(name) - 1 if len(name) < 5 else 9999
            return state.positional[at] if at < len(state.positional) else Word("")
        if state.references:
            name = state.named(name)
        value = state.variables.get(name) if name not in state.sums else Word("${" + name + "}", dynamic=True)
        if value is None:
            value = self._unset(name, state)
        if holds_secret(name):
            return Word(value.text, value.dynamic, value.quoted, value.labels | {SECRET})
        return value

    def _unset(self, name: str, state: State) -> Word:
        """The value of a variable that was not set on this line."""
        if name in state.arrays:
            return (state.arrays[name] or [Word("")])[0]
        known = self._known(name, state)
        return Word(known) if known is not None else Word("${" + name + "}", dynamic=True)

    def _known(self, name: str, state: State) -> str | None:
        places = self._host.places
        match name:
            case "HOME":
                return places.home
            case "PWD":
                return state.where.now if state.where.told else None
            case "HERMES_HOME":
                return places.hermes
            case "!":
                return "%+"
            case "IFS":
                return " \t\n"
            case "USER" | "LOGNAME":
                return places.home.rpartition("/")[2]
            case _:
                return None

    def _fields(self, parts: list[Part], state: State) -> list[Word]:
        if len(parts) == 1 and isinstance(parts[0], str) and "{" not in parts[0]:
            return [Word(parts[0])]
        if any(isinstance(part, str) and "{" in part for part in parts):
            written = _braced(parts)
            return [word for one in written for word in _split(one, state)]
        return _split(parts, state)


def _literal(text: str) -> list[Part]:
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


def _dequoted(source: bytes) -> str:
    text = decoded(source)
    return _IN_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], text) if "\\" in text else text


def _joined(parts: Sequence[str | Word]) -> Word:
    if len(parts) == 1 and isinstance(parts[0], Word):
        return parts[0]
    texts, dynamic, quoted, labels = [], False, False, NONE
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        else:
            texts.append(part.text)
            dynamic = dynamic or part.dynamic
            quoted = quoted or part.quoted
            labels |= part.labels
    return Word("".join(texts), dynamic, quoted, labels)


def _braced(parts: list[Part]) -> list[list[Part]]:
    """Brace expansion of the unquoted parts; what is quoted or expanded is held out of it."""
    held: list[Part] = []
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            text += chr(_HELD + len(held))
            held.append(part)
    if len(held) > 1000 or len(text) > 4096:
        return [parts]
    return [_released(one, held) for one in braces(text)]


def _released(text: str, held: list[Part]) -> list[Part]:
    parts: list[Part] = []
    plain = ""
    for char in text:
        if _HELD <= ord(char) < _HELD + len(held):
            if plain:
                parts.append(plain)
            plain = ""
            parts.append(held[ord(char) - _HELD])
        else:
            plain += char
    if plain:
        parts.append(plain)
    return parts


def braces(text: str) -> list[str]:
    """What brace expansion makes of a text; the text itself where it makes nothing, or too much."""
    done: list[str] = []
    waiting = [text]
    while waiting:
        current = waiting.pop()
        found = _first_brace(current)
        if found is None or len(done) + len(waiting) > _MOST_BRACES:
            done.append(current)
            continue
        begin, end, choices = found
        waiting += [current[:begin] + choice + current[end:] for choice in reversed(choices)]
    return done if len(done) <= _MOST_BRACES * 2 else [text]


def _first_brace(text: str) -> tuple[int, int, list[str]] | None:
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
            choices = brace_range(text[begin + 1 : end])
            if choices:
                return begin, end + 1, choices
        begin = text.find("{", begin + 1)
    return None


def brace_range(text: str) -> list[str]:
    """`1..5` or `a..c`; empty when it is none, or too long."""
    found = _RANGE.match(text)
    if not found or found[1].isalpha() != found[2].isalpha():
        return []
    letters = found[1].isalpha()
    begin, end = (ord(found[1]), ord(found[2])) if letters else (int(found[1]), int(found[2]))
    step = abs(int(found[3] or 1)) or 1
    if abs(end - begin) // step >= _MOST_BRACES:
        return []
    numbers = range(begin, end + 1, step) if end >= begin else range(begin, end - 1, -step)
    return [chr(number) if letters else str(number) for number in numbers]


def _split(parts: list[Part], state: State) -> list[Word]:
    """Field splitting of what was expanded without quotes; nothing at all becomes no word."""
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
    return [_joined(field) for field in fields if field]


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
