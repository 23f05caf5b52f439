"""Parameter expansion and arithmetic of the shell, where they are constant.

Finds variables that arithmetic sets: in `((...))`, `let`, subscripts and offsets.
"""

import fnmatch
import re
from collections.abc import Callable, Iterator
from typing import Protocol

from hermes.safety.shell.words import AnalysisState, Word

_FORM = re.compile(r"([!#]?)(\w+|[@*#?$!-])(?:\[([^\]]*)\])?(.*)$", re.DOTALL)
_OFFSETS = re.compile(r":\s*\(?(-?\s?\d{1,6}|\w+)\)?(?::\s*(-?\d{1,6}|\w+))?$")
_DEFAULTS = (":-", ":=", ":+", ":?", "-", "=", "+", "?")
_NUMBER = re.compile(r"(-?) ?(0[0-7]{0,8}|[1-9]\d{0,8})")
_MAX_TEXT = 4096
_CASES: dict[str, Callable[[str], str]] = {
    "^^": str.upper, "^": lambda text: text[:1].upper() + text[1:],
    ",,": str.lower, ",": lambda text: text[:1].lower() + text[1:],
}  # fmt: skip


class _VariableLookup(Protocol):
    def __call__(self, name: str, state: AnalysisState, *, quoted: bool = False) -> Word | list[Word]: ...


def expand_parameter(
    text: str, state: AnalysisState, variable: _VariableLookup, operand: Callable[[], Word]
) -> Word | list[Word]:
    """Expand `${text}`. `operand` gives the word behind an operator such as `:-`."""
    form = _FORM.match(text)
    if form is None:
        return Word("${" + text + "}", dynamic=True)
    mark, name, index, rest = form.groups()
    name = name if mark else state.resolve_name(name) or name
    value = _array_element(name, index, state, variable) if index is not None else variable(name, state)
    if mark == "#":
        return _value_length(value)
    if mark == "!":
        value = _indirect_value(name, value, state, variable)
    if not rest:
        return value
    if isinstance(value, list):
        return Word("${@}", dynamic=True)
    return _apply_operator(value, name, rest, state, operand)


def _apply_operator(value: Word, name: str, rest: str, state: AnalysisState, operand: Callable[[], Word]) -> Word:
    """Apply the operator behind a variable's name: a default, or a change."""
    if rest.startswith(_DEFAULTS):
        sign = rest[: 2 if rest[0] == ":" else 1]
        return _apply_default(value, name, sign, state, operand)
    if not value.dynamic and len(value.text) <= _MAX_TEXT:
        changed = _change_text(value.text, rest, state)
        if changed is not None:
            return Word(changed, labels=value.labels)
    return Word("${" + name + "}", dynamic=True, labels=value.labels)


def _indirect_value(
    name: str, value: Word | list[Word], state: AnalysisState, variable: _VariableLookup
) -> Word | list[Word]:
    """Expand `${!NAME}`."""
    if isinstance(value, list) or value.dynamic or not value.text.isidentifier():
        return Word("${" + name + "}", dynamic=True)
    return variable(value.text, state)


def _value_length(value: Word | list[Word]) -> Word:
    if isinstance(value, Word) and value.dynamic:
        return Word("${N}", dynamic=True)
    return Word(str(len(value if isinstance(value, list) else value.text)))


def _array_element(name: str, index: str, state: AnalysisState, variable: _VariableLookup) -> Word | list[Word]:
    held = state.arrays.get(name)
    if held is None:
        return variable(name, state) if index in ("0", "@", "*") else Word("${" + name + "}", dynamic=True)
    if index in ("@", "*"):
        return list(held)
    place = evaluate_arithmetic(index, state)
    if place is None or place >= len(held) or -place > len(held):
        return Word("${" + name + "}", dynamic=True)
    return held[place]


def _apply_default(value: Word, name: str, sign: str, state: AnalysisState, operand: Callable[[], Word]) -> Word:
    """Apply `:-` and similar operators. An unknown variable may be set or not: the operand is likelier."""
    given = operand()
    if sign[-1] == "+":
        return given if not value.dynamic and value.text else Word("${" + name + "}", dynamic=True, labels=given.labels)
    if not value.dynamic and (value.text or sign[0] != ":"):
        return value
    if sign[-1] == "?":
        return Word("${" + name + "}", dynamic=True, labels=value.labels)
    if sign[-1] == "=":
        state.variables[name] = given
    return given


def _change_text(text: str, rest: str, state: AnalysisState) -> str | None:
    if rest in _CASES:
        return _CASES[rest](text)
    if rest[0] == "@":
        return text
    if rest[0] == ":":
        return _take_substring(text, rest, state)
    if rest[0] in "#%":
        return _trim_pattern(text, rest)
    return _replace_pattern(text, rest) if rest[0] == "/" else None


def _take_substring(text: str, rest: str, state: AnalysisState) -> str | None:
    offsets = _OFFSETS.match(rest)
    if offsets is None:
        return None
    begin = evaluate_arithmetic(offsets[1], state)
    length = evaluate_arithmetic(offsets[2], state) if offsets[2] else len(text)
    if begin is None or length is None:
        return None
    tail = text[begin:] if begin >= 0 or -begin <= len(text) else ""
    return tail[:length]


def _plain_pattern(pattern: str) -> str | None:
    """Return a pattern that is a text; None when it has wildcards or more to expand."""
    bare = pattern.replace("\\", "").replace("'", "").replace('"', "")
    return None if any(char in bare for char in "*?[$`") else bare


def _trim_pattern(text: str, rest: str) -> str | None:
    double = rest[:2] in ("##", "%%")
    pattern = rest[2 if double else 1 :]
    if "$" in pattern or "`" in pattern or len(text) > 512:
        return None
    front = rest[0] == "#"
    sizes = range(len(text) + 1)
    for size in reversed(sizes) if double else sizes:
        piece = text[:size] if front else text[len(text) - size :]
        if fnmatch.fnmatchcase(piece, pattern):
            return text[size:] if front else text[: len(text) - size]
    return text


def _replace_pattern(text: str, rest: str) -> str | None:
    """Apply `${NAME/old/new}`, `//`, `/#` and `/%`; None when the result cannot be determined."""
    every = rest.startswith("//")
    anchor = rest[1:2] if rest[1:2] in ("#", "%") and not every else ""
    body = rest[2 if every or anchor else 1 :]
    slash = re.search(r"(?<!\\)/", body)
    pattern, new = (body[: slash.start()], body[slash.end() :]) if slash else (body, "")
    old, fresh = _plain_pattern(pattern), _plain_pattern(new)
    if fresh is None:
        return None
    if old is None:
        return {"?": fresh * len(text), "*": fresh}.get(pattern)
    if not old:
        return fresh + text if anchor == "#" else text
    result = _exchange_text(text, old, fresh, "/" if every else anchor)
    return result if len(result) <= _MAX_TEXT * 4 else text


def _exchange_text(text: str, old: str, new: str, where: str) -> str:
    """Return a text with `old` exchanged: `/` everywhere, `#` at its beginning, `%` at its end, else where
    it is first.
    """
    match where:
        case "#":
            return new + text[len(old) :] if text.startswith(old) else text
        case "%":
            return text[: len(text) - len(old)] + new if text.endswith(old) else text
        case _:
            return text.replace(old, new) if where else text.replace(old, new, 1)


def evaluate_arithmetic(text: str, state: AnalysisState) -> int | None:
    """Return the number that is written there, or in the variable that is named; None where anything is computed."""
    name = text.strip().strip("${}")
    if name.isidentifier():
        value = state.variables.get(name) if name not in state.arithmetic_names else None
        text = value.text if value is not None and not value.dynamic else ""
    number = _NUMBER.fullmatch(text.strip())
    return int(number[1] + number[2], 8 if number[2][0] == "0" else 10) if number else None


_DOUBLE = re.compile(r"\(\((.{0,300}?)\)\)", re.DOTALL)


_LET = re.compile(r"\blet\s+([^\n;&|]{1,300})")


_INDEX = re.compile(r"\[([^\]\[\n]{1,80})\]")


_OFFSET = re.compile(r"\$\{\w{1,60}:([^}\n]{1,80})\}")


_ASSIGNMENT = re.compile(
    r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?![=~]))|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)


_SIGNS = ("=", "++", "--")


def find_arithmetic_assignments(text: str) -> set[str]:
    """Return the variables that arithmetic in a shell text sets. Linear in the text."""
    found = (match for part in _arithmetic_parts(text) for match in _ASSIGNMENT.finditer(part))
    return {name for match in found for name in match.groups() if name}


def _arithmetic_parts(text: str) -> Iterator[str]:
    """Yield the pieces of a text that are arithmetic and may set something."""
    for sign, pattern in (("((", _DOUBLE), ("let ", _LET), ("${", _OFFSET)):
        for found in pattern.finditer(text) if sign in text else ():
            yield found[1]
    for found in _INDEX.finditer(text) if "[" in text and any(sign in text for sign in _SIGNS) else ():
        before = text[found.start() - 1 : found.start()]
        if before.isalnum() or before == "_":
            yield found[1]
