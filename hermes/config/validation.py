"""Finds all faults of a settings file and describes each, with the key that it is about."""

import copy
import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.config.keys import describe_type, type_at
from hermes.config.settings import Settings
from hermes.core.encoding import to_json
from hermes.i18n.messages import N_
from hermes.util.text import to_one_line

_ERROR_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_PATH_STEP = re.compile(r"\[\d+\]|\[\.\.\.\]|[^.\[\]]+")
_ERROR_FIELD = re.compile(r"field `([^`]*)`")
_MAX_FAULTS = 100


class SettingsFault(Struct, frozen=True):
    """One fault of the settings: the dotted key, and a message."""

    key: str
    message: str


def find_type_faults(document: Mapping[str, object]) -> list[SettingsFault]:
    """Return values that have the wrong type or are out of range, each once."""
    left = copy.deepcopy({name: value for name, value in document.items() if name in Settings.__struct_fields__})
    found: list[SettingsFault] = []
    while len(found) < _MAX_FAULTS:
        try:
            msgspec.convert(left, Settings, strict=False)
        except msgspec.ValidationError as error:
            path = _resolve_any_key(left, _parse_error_path(str(error)), str(error))
            found.append(_describe_fault(left, path, str(error)))
            _remove_faulty_value(left, path, str(error))
        else:
            break
    return found


def _parse_error_path(error: str) -> list[str]:
    match = _ERROR_PATH.search(error)
    return _PATH_STEP.findall(match[1]) if match else []


def _resolve_any_key(document: object, steps: list[str], error: str) -> list[str]:
    """Return the path with the real key in the place of `[...]`, by which the error stands for any key of a
    mapping.
    """
    if "[...]" not in steps:
        return steps
    at = steps.index("[...]")
    holder = _value_at(document, steps[:at])
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


def _describe_fault(document: object, path: list[str], error: str) -> SettingsFault:
    key = ".".join(path).replace(".[", "[")
    field = _ERROR_FIELD.search(error)
    if "unknown field" in error and field is not None:
        return SettingsFault(f"{key}.{field[1]}", N_("unknown setting `{key}`.", key=f"{key}.{field[1]}"))
    if "missing required field" in error and field is not None:
        return SettingsFault(key, N_("`{key}` lacks `{field}`.", key=key, field=field[1]))
    typed = type_at(tuple("[]" if step.startswith("[") else step for step in path))
    value = _value_at(document, path)
    shown = "" if _is_secret(path) else to_one_line(value if isinstance(value, str) else to_json(value).decode(), 60)
    if not shown:
        return SettingsFault(key, N_("`{key}` must be {wanted_said}.", key=key, wanted_said=describe_type(typed)))
    return SettingsFault(
        key, N_("`{key}` must be {wanted_said}, not {value}.", key=key, wanted_said=describe_type(typed), value=shown)
    )


def _is_secret(path: list[str]) -> bool:
    return any(word in path[-1].lower() for word in ("key", "token", "secret", "pass")) if path else True


def _value_at(document: object, path: list[str]) -> object:
    for step in path:
        if isinstance(document, list) and step.startswith("["):
            document = document[int(step[1:-1])]
        elif isinstance(document, dict):
            document = document.get(step)
        else:
            return None
    return document


def _remove_faulty_value(document: dict[str, object], path: list[str], error: str) -> None:
    """Remove the faulty value, so that validation can go on."""
    field = _ERROR_FIELD.search(error)
    holder = _value_at(document, path)
    if "unknown field" in error and field is not None and isinstance(holder, dict):
        del holder[field[1]]
        return
    cut = next((number for number, step in enumerate(path) if step.startswith("[")), len(path))
    path = path[:cut]  # with one item of a list goes the list
    holder = _value_at(document, path[:-1])
    if path and isinstance(holder, dict):
        holder.pop(path[-1], None)
    else:
        document.clear()
