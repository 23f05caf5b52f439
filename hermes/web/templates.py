"""Templates of vendors' requests, and the way to a value in their answers.

In a template `{name}` stands for what it names. Only the names below do, and what is put in is no template.
"""

import re
from collections.abc import Mapping, Sequence

_NAMES = re.compile(r"\{(?:query|limit|key|url|urls)\}")
JsonTemplate = Mapping[str, object]
"""A JSON object as a vendor wants it, with places to fill in its texts."""


def fill_text(template: str, values: Mapping[str, object]) -> str:
    """Return a text with its places filled."""
    return _NAMES.sub(lambda match: str(values.get(match[0][1:-1], match[0])), template)


def fill_texts(template: Mapping[str, str], values: Mapping[str, object]) -> dict[str, str]:
    """Return texts by name with their places filled."""
    return {name: fill_text(text, values) for name, text in template.items()}


def fill_json(template: object, values: Mapping[str, object]) -> object:
    """Return a JSON value with its places filled; a text that is nothing but a place becomes the value itself."""
    if isinstance(template, str):
        whole = _NAMES.fullmatch(template)
        return values.get(template[1:-1], template) if whole else fill_text(template, values)
    if isinstance(template, Mapping):
        return {name: fill_json(value, values) for name, value in template.items()}
    if isinstance(template, Sequence):
        return [fill_json(value, values) for value in template]
    return template


def find_value(value: object, names: str) -> object:
    """Return what stands in a JSON value under names that are joined by dots; None where nothing does."""
    for name in names.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def find_text(value: object, names: str) -> str:
    """Return the text that stands there; several are joined, and everything else is empty."""
    found = find_value(value, names) if names else None
    if isinstance(found, list):
        return " … ".join(one for one in found if isinstance(one, str) and one.strip())
    return found if isinstance(found, str) else ""


def first_variable(names: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the first of these variables that is set; empty when none is."""
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


def redact_key(text: str, key: str) -> str:
    """Return a text without a key that was sent."""
    return text.replace(key, "[key]") if key else text
