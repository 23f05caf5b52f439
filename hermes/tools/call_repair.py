"""Repairs calls that models and servers spoil on the way, where their meaning is beyond doubt.

What was cut off is never completed, and nothing is guessed: a repaired call means what was written.
"""

import ast
import json
import math
import re
from collections.abc import Iterator

import msgspec

from hermes.core.encoding import to_json

_MAX_REPAIRED = 200_000
"""Characters of the longest arguments that are repaired."""
_MAX_DEPTH = 3
"""How often arguments may be wrapped, in a fence or a string."""
_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+(?:"|\\?\Z))|,(?=\s*[}\]])', re.DOTALL)
"""A string, to the end where it has none: it is looked at once, whatever stands in it."""
_STRING = re.compile(r""""(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'""", re.DOTALL)
_UNLIKE_JSON = re.compile(r'\w"|"\s*"')
"""Strings side by side, and strings with letters before them: Python reads something else there than what was meant."""
_PLAIN_ESCAPES = re.compile(r"""(?:[^\\]|\\[\\'"nrt])*""")
"""Text whose escapes mean the same in JSON and in Python."""
_CHANNEL_MARK = re.compile(r"<\|.*", re.DOTALL)
_NUMBER = re.compile(r":\d+$")
_TAG = re.compile(r"^<[a-z_]{1,20}>")
_SEGMENT = re.compile(r"[.:/]+")
WRAPPER_NAMES = frozenset({"tool_call", "function_call", "call_tool", "call_function", "use_tool"})
"""Names of no tool, by which models call one that is named in the arguments."""


def repair_arguments(raw: str) -> str | None:
    """Return the JSON object that a call's arguments must mean; None where they are one already, or mean none.

    Repaired are a fence around it, an object in a JSON string, a comma before a closing bracket, line breaks in
    strings, and single quotes.
    """
    if len(raw) > _MAX_REPAIRED or not raw.strip() or _is_object(raw):
        return None
    return _find_object(raw.strip(), _MAX_DEPTH)


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _find_object(text: str, depth: int) -> str | None:
    if depth and (fenced := _FENCE.fullmatch(text)) is not None:
        return _find_object(fenced[1].strip(), depth - 1)
    if depth and text[:1] == '"':
        inner = _load_json(text)
        return _find_object(inner.strip(), depth - 1) if isinstance(inner, str) else None
    if text[:1] != "{":
        return None
    if _is_object(text):
        return text
    for candidate in (text, _STRING_OR_COMMA.sub(r"\1", text)):
        if isinstance(found := _load_json(candidate), dict):
            return _encode_object(found)
    return _read_literal(text)


def _load_json(text: str) -> object:
    """Return a JSON value, line breaks and tabs in its strings allowed; None when it is not valid."""
    try:
        found: object = json.loads(text, strict=False, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return found


def _refuse_constant(name: str) -> object:
    raise ValueError(name)


def _read_literal(text: str) -> str | None:
    """Return an object in the notation of Python, which has single quotes, True and None."""
    if not _PLAIN_ESCAPES.fullmatch(text):
        return None
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if not isinstance(found, dict) or _UNLIKE_JSON.search(_STRING.sub('"', text)):
        return None
    return _encode_object(found)


def _is_plain(value: object) -> bool:
    """Return whether JSON has such a value."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(_is_plain(inner) for inner in value)
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _encode_object(value: dict[str, object]) -> str | None:
    try:
        return to_json(value).decode() if _is_plain(value) else None
    except (UnicodeEncodeError, RecursionError, ValueError, OverflowError):
        return None


def list_name_forms(name: str) -> Iterator[str]:
    """Yield what a tool's name can be when marks of the model's template, a namespace or a number hang on it."""
    yield _strip_marks(name)
    yield split_name(name)[-1]


def split_name(name: str) -> list[str]:
    """Return the parts of a name with namespaces: the last one names the tool, if no other one does."""
    return _SEGMENT.split(_strip_marks(name))


def _strip_marks(name: str) -> str:
    return _NUMBER.sub("", _TAG.sub("", _CHANNEL_MARK.sub("", name).strip()))


def unwrap_call(name: str, arguments: str) -> tuple[str, str] | None:
    """Return the name and arguments of the call that a call of a wrapper holds; None when it is none."""
    if name not in WRAPPER_NAMES:
        return None
    given = _load_json(arguments)
    if not isinstance(given, dict) or len(given) > 2 or not isinstance(given.get("name"), str):
        return None
    inner: object = next((given[key] for key in ("arguments", "parameters", "args", "input") if key in given), {})
    text = inner if isinstance(inner, str) else _encode_object(inner) if isinstance(inner, dict) else None
    return (str(given["name"]), text) if text is not None else None
