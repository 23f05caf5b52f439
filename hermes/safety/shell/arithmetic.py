"""Finds variables that arithmetic sets: in `((...))`, `let`, subscripts and offsets."""

import re
from collections.abc import Iterator

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
    return {
        name
        for part in _arithmetic_parts(text)
        for found in _ASSIGNMENT.finditer(part)
        for name in found.groups()
        if name
    }


def _arithmetic_parts(text: str) -> Iterator[str]:
    """Yield the pieces of a text that are arithmetic and may set something."""
    for sign, pattern in (("((", _DOUBLE), ("let ", _LET), ("${", _OFFSET)):
        for found in pattern.finditer(text) if sign in text else ():
            yield found[1]
    for found in _INDEX.finditer(text) if "[" in text and any(sign in text for sign in _SIGNS) else ():
        before = text[found.start() - 1 : found.start()]
        if before.isalnum() or before == "_":
            yield found[1]
