"""Everything that is wrong in a settings file, in words, each with the key that it is about."""

import copy
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.config.keys import type_at, wanted
from hermes.config.settings import Settings
from hermes.i18n.messages import phrase
from hermes.util.text import one_line

_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_STEP = re.compile(r"\[\d+\]|\[\.\.\.\]|[^.\[\]]+")
_FIELD = re.compile(r"field `([^`]*)`")
_MOST = 100


class Fault(Struct, frozen=True):
    """One thing that is wrong: the dotted key, and what is the matter with it."""

    key: str
    message: str


def type_faults(document: Mapping[str, object]) -> list[Fault]:
    """Values that have the wrong type or are out of range, one after the other, each once."""
    left = copy.deepcopy({name: value for name, value in document.items() if name in Settings.__struct_fields__})
    found: list[Fault] = []
    while len(found) < _MOST:
        try:
            msgspec.convert(left, Settings, strict=False)
        except msgspec.ValidationError as error:
            path = _resolved(left, _place(str(error)), str(error))
            found.append(_fault(left, path, str(error)))
            _remove(left, path, str(error))
        else:
            break
    return found


def _place(error: str) -> list[str]:
    match = _PLACE.search(error)
    return _STEP.findall(match[1]) if match else []


def _resolved(document: object, steps: list[str], error: str) -> list[str]:
    """The steps with the name in the place of `[...]`, which stands for any key of a mapping."""
    if "[...]" not in steps:
        return steps
    at = steps.index("[...]")
    holder = _at(document, steps[:at])
    for name, value in holder.items() if isinstance(holder, dict) else ():
        alone: object = {name: value}
        for step in reversed(steps[:at]):
            alone = {step: alone}
        try:
            msgspec.convert(alone, Settings, strict=False)
        except msgspec.ValidationError as inner:
            if str(inner) == error:
                return [*steps[:at], name, *steps[at + 1 :]]
    return steps[:at]


def _fault(document: object, path: list[str], error: str) -> Fault:
    key = ".".join(path).replace(".[", "[")
    field = _FIELD.search(error)
    if "unknown field" in error and field is not None:
        return Fault(f"{key}.{field[1]}", phrase("nobody knows the key `{key}`.", key=f"{key}.{field[1]}"))
    if "missing required field" in error and field is not None:
        return Fault(key, phrase("`{key}` lacks `{field}`.", key=key, field=field[1]))
    typed = type_at(tuple("[]" if step.startswith("[") else step for step in path))
    value = _at(document, path)
    shown = (
        "" if _secret(path) else one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode(), 60)
    )
    if not shown:
        return Fault(key, phrase("`{key}` must be {wanted_said}.", key=key, wanted_said=wanted(typed)))
    return Fault(
        key, phrase("`{key}` must be {wanted_said}, not {value}.", key=key, wanted_said=wanted(typed), value=shown)
    )


def _secret(path: list[str]) -> bool:
    return any(word in path[-1].lower() for word in ("key", "token", "secret", "pass")) if path else True


def _at(document: object, path: list[str]) -> object:
    for step in path:
        if isinstance(document, list) and step.startswith("["):
            document = document[int(step[1:-1])]
        elif isinstance(document, dict):
            document = document.get(step)
        else:
            return None
    return document


def _remove(document: dict[str, object], path: list[str], error: str) -> None:
    """Take what is wrong out, so that what comes after it can be looked at."""
    field = _FIELD.search(error)
    holder = _at(document, path)
    if "unknown field" in error and field is not None and isinstance(holder, dict):
        del holder[field[1]]
        return
    cut = next((number for number, step in enumerate(path) if step.startswith("[")), len(path))
    path = path[:cut]  # with one item of a list goes the list
    holder = _at(document, path[:-1])
    if path and isinstance(holder, dict):
        holder.pop(path[-1], None)
    else:
        document.clear()
