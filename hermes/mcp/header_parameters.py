"""Parameters of tools that servers of the stateless revision want as header fields, too (`x-mcp-header`).

The protocol forbids a tool whose marks break its rules: such a tool is left out.
"""

import re
from collections.abc import Iterator, Mapping

_MARK = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_TYPES = frozenset({"string", "integer", "boolean"})
_MAX_SAFE_INTEGER = 2**53 - 1
_SCHEMA_KEYS = frozenset(
    {
        "items",
        "contains",
        "unevaluatedItems",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
        "not",
        "if",
        "then",
        "else",
        "contentSchema",
    }
)
_LIST_KEYS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAP_KEYS = frozenset({"patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords of JSON Schema 2020-12 below which schemas stand; elsewhere a mark is data."""
HeaderParameter = tuple[tuple[str, ...], str]
"""The path of a parameter in the arguments, and the name that its header field ends with."""


def find_header_parameters(schema: object) -> tuple[HeaderParameter, ...] | None:
    """Return the parameters of a schema that are header fields, or None where its marks break the rules."""
    found: list[HeaderParameter] = []
    names: set[str] = set()
    for path, node in _walk_schemas(schema):
        if _MARK not in node:
            continue
        name = node[_MARK]
        if not path or not isinstance(name, str) or not _TOKEN.fullmatch(name) or name.lower() in names:
            return None
        kind = node.get("type")
        if not isinstance(kind, str) or kind not in _TYPES:
            return None
        names.add(name.lower())
        found.append((path, name))
    return tuple(found)


def build_parameter_headers(parameters: tuple[HeaderParameter, ...], arguments: Mapping[str, object]) -> dict[str, str]:
    """Return the header fields of a call; a parameter without a value, or with an unfit one, has none."""
    fields: dict[str, str] = {}
    for path, name in parameters:
        value: object = arguments
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        text = _format_value(value)
        if text is not None:
            fields[f"Mcp-Param-{name}"] = text
    return fields


def _format_value(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) <= _MAX_SAFE_INTEGER else None
    return value if isinstance(value, str) else None


def _walk_schemas(root: object) -> Iterator[tuple[tuple[str, ...] | None, Mapping[str, object]]]:
    """Yield each schema with its path through `properties` alone; None where it stands elsewhere."""
    waiting: list[tuple[tuple[str, ...] | None, object]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        if isinstance(node, dict):
            yield path, node
            for key, value in node.items():
                waiting += _list_below(path, key, value)


def _list_below(path: tuple[str, ...] | None, key: str, value: object) -> list[tuple[tuple[str, ...] | None, object]]:
    """Return the schemas below a keyword, with their paths."""
    if key == "properties" and isinstance(value, dict):
        return [((*path, name) if path is not None else None, below) for name, below in value.items()]
    if key in _SCHEMA_KEYS:
        return [(None, value)]
    if key in _LIST_KEYS and isinstance(value, list):
        return [(None, below) for below in value]
    if key in _MAP_KEYS and isinstance(value, dict):
        return [(None, below) for below in value.values()]
    return []
