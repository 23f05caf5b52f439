"""JSON Schemas of programs that are not the person's own, cut down to what is checked in bounded time.

Only the keywords below are checked, in one dialect and with references to schemas of the same document; everything else
is told to the model, and not looked for. Each check has its price, by the sizes of what is demanded and of what is
looked at, and an answer that costs too much is wrong.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from urllib.parse import unquote

from hermes.core.errors import UsageError
from hermes.i18n.messages import N_
from hermes.util.text import to_one_line

MAX_COST = 50_000
"""What the checks of one answer may cost; 1 is some 10 microseconds."""
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_VALUES_PER_COST = 10
_CHARACTERS_PER_COST = 500
_REFERENCE_PER_COST = 4


class _Kind(StrEnum):
    """What the value of a keyword is."""

    SCHEMA = "a schema"
    SCHEMAS = "a list of schemas"
    MAP = "an object of schemas"
    NAMES = "a list of names"
    NAMES_MAP = "an object of lists of names"
    TYPE = "a type or a list of types"
    COUNT = "a whole number"
    NUMBER = "a number"
    DIVISOR = "a number above 0"
    LIST = "a list"
    ANY = "any value"


_KEYWORDS = {
    **dict.fromkeys(
        ("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"), _Kind.SCHEMA
    ),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _Kind.SCHEMAS),
    **dict.fromkeys(("properties", "$defs", "definitions", "dependentSchemas"), _Kind.MAP),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _Kind.COUNT),
    **dict.fromkeys(("minContains", "maxContains"), _Kind.COUNT),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _Kind.NUMBER),
    "multipleOf": _Kind.DIVISOR,
    "required": _Kind.NAMES,
    "dependentRequired": _Kind.NAMES_MAP,
    "type": _Kind.TYPE,
    "enum": _Kind.LIST,
    "const": _Kind.ANY,
}


class ForeignSchema:
    """A schema, cut down, and the price of checking values against it."""

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Raises UsageError for what is no JSON Schema."""
        self._schema_ids: set[int] = set()
        self._references: list[str] = []
        self.schema = self._cut(schema)
        """What is checked."""
        for reference in self._references:
            found = _follow(self.schema, reference)
            if not isinstance(found, bool) and id(found) not in self._schema_ids:
                raise UsageError(
                    N_("The JSON Schema refers to {what}, which is not in it.", what=to_one_line(reference, 100))
                )
        self._sizes: dict[int, int] = {}
        """The sizes of the values that are looked at, by their identity."""
        self._cost = 0

    def begin_check(self, value: object) -> None:
        """Begin to count for a value."""
        self._sizes = {}
        self._measure(value)
        self._cost = 0

    def charge(self, keyword: str, demand: object, value: object) -> None:
        """Count a check. Raises RecursionError once it is too much."""
        cost = 1 + self._sizes.get(id(value), 0) // _CHARACTERS_PER_COST
        if isinstance(value, list | dict):
            cost += len(value) // _VALUES_PER_COST
        if keyword == "$ref":
            cost += len(str(demand)) // _REFERENCE_PER_COST
        elif keyword in ("enum", "const"):
            cost += _count_values(demand) // _VALUES_PER_COST
        elif isinstance(demand, list | dict):
            cost += len(demand) // _VALUES_PER_COST
        self._cost += cost
        if self._cost > MAX_COST:
            raise RecursionError

    def _measure(self, value: object) -> int:
        """Note and return the size of a value, about its characters as JSON."""
        if isinstance(value, str):
            size = len(value)
        elif isinstance(value, list):
            size = sum(self._measure(one) + 2 for one in value)
        elif isinstance(value, dict):
            size = sum(len(key) + self._measure(one) + 6 for key, one in value.items())
        else:
            return 8
        self._sizes[id(value)] = size
        return size

    def _cut(self, schema: object) -> object:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            raise _not_valid("schema", "an object or a boolean")
        kept: dict[str, object] = {}
        self._schema_ids.add(id(kept))
        for keyword, value in schema.items():
            if keyword == "additionalProperties" and "patternProperties" in schema:
                continue  # which properties those are is not known without the patterns
            if keyword == "$ref":
                kept[keyword] = self._note_reference(value)
            elif (kind := _KEYWORDS.get(keyword)) is not None:
                kept[keyword] = self._cut_value(keyword, kind, value)
        return kept

    def _note_reference(self, value: object) -> str:
        if not isinstance(value, str):
            raise _not_valid("$ref", "a text")
        self._references.append(value)
        return value

    def _cut_value(self, keyword: str, kind: _Kind, value: object) -> object:
        if kind is _Kind.SCHEMA:
            return self._cut(value)
        if kind is _Kind.SCHEMAS and isinstance(value, list) and value:
            return [self._cut(one) for one in value]
        if kind is _Kind.MAP and isinstance(value, Mapping):
            return {name: self._cut(one) for name, one in value.items()}
        if kind in _PLAIN and _PLAIN[kind](value):
            return value
        raise _not_valid(keyword, kind)


def _not_valid(keyword: str, kind: str) -> UsageError:
    return UsageError(N_("This is not a valid JSON Schema: {why}.", why=f"{keyword} is not {kind}"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_names_map(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_names(one) for one in value.values())


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(one, str) and one in _TYPES for one in names)


def _is_divisor(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


_PLAIN: Mapping[_Kind, Callable[[object], bool]] = {
    _Kind.NAMES: _is_names,
    _Kind.NAMES_MAP: _is_names_map,
    _Kind.TYPE: _is_type,
    _Kind.COUNT: _is_count,
    _Kind.NUMBER: _is_number,
    _Kind.DIVISOR: _is_divisor,
    _Kind.LIST: lambda value: isinstance(value, list),
    _Kind.ANY: lambda _: True,
}


def _count_values(value: object) -> int:
    """Return how many values a value consists of."""
    inner: Iterable[object] = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return 1 + sum(map(_count_values, inner))


def _follow(document: object, reference: str) -> object:
    """Return what a reference of the form `#/a/b` stands for; None where it is another one, or leads nowhere."""
    if reference not in ("", "#") and not reference.startswith("#/"):
        return None
    found = document
    for step in unquote(reference[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, list) and name.isascii() and name.isdigit() and len(name) < 6 and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found
