"""Settings by their dotted names: which there are, of which type, and what a person's words for a value mean."""

import types
import typing
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec
from msgspec import Meta, Struct

from hermes.config.known import KNOWN_ELSEWHERE
from hermes.config.settings import Settings
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase
from hermes.plugins import suggestion

_YES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Setting(Struct, frozen=True):
    """A key of `config.yaml`. `typed` is None where this version does not know the key's type."""

    path: tuple[str, ...]
    typed: object
    known: bool = True
    """Whether this version acts on it; else only guides for such agents mention it."""

    @property
    def key(self) -> str:
        """Its dotted name."""
        return ".".join(self.path)


def find(key: str) -> Setting:
    """The setting of that dotted name, a section too. Raises UsageError with the nearest name."""
    path = tuple(key.strip().split("."))
    if not all(path):
        raise UsageError(phrase("{key!r} is no key.", key=key[:80]), phrase("Keys look like `model.default`."))
    typed: object = Settings
    for depth, name in enumerate(path):
        below = members(typed)
        if below is None:
            raise _unknown(path[:depth])
        if name in below:
            typed = below[name]
        elif "*" in below:
            typed = below["*"]
        elif depth == 0 and name in KNOWN_ELSEWHERE:
            return Setting(path, None, known=False)
        else:
            raise _unknown(path)
    return Setting(path, typed)


def type_at(path: tuple[str, ...]) -> object:
    """The type of what stands at a path (`[]` for an item of a list); None when nothing of ours does."""
    typed: object = Settings
    for name in path:
        below = members(typed) or {}
        typed = below.get(name, below.get("*"))
        if typed is None:
            return None
    return typed


def members(typed: object) -> dict[str, object] | None:
    """What stands below a type by name; `*` for any name, `[]` for items of a list; None for a plain value."""
    for one in _alternatives(typed):
        if isinstance(one, type) and issubclass(one, Struct):
            return {field.name: field.type for field in msgspec.structs.fields(one)}
        origin, arguments = typing.get_origin(one), typing.get_args(one)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"*": arguments[1]}
        if origin in (tuple, list):
            return {"[]": arguments[0]}
    return None


def every_key() -> Iterator[Setting]:
    """Every key that has a value of its own, in the order of the documents."""
    yield from _below((), Settings)


def _below(path: tuple[str, ...], typed: type[Struct]) -> Iterator[Setting]:
    for field in msgspec.structs.fields(typed):
        inner = field.type
        here = (*path, field.name)
        if isinstance(inner, type) and issubclass(inner, Struct):
            yield from _below(here, inner)
        else:
            yield Setting(here, inner)


def wanted(typed: object) -> str:
    """What a value of this type looks like, in words."""
    alternatives = [one for one in _alternatives(typed) if one is not type(None)]
    if bool in alternatives and str in alternatives:
        return phrase("a word, or true or false")
    return _looks(alternatives[0] if alternatives else str)


def _looks(one: object) -> str:
    limits = next((extra for extra in typing.get_args(one)[1:] if isinstance(extra, Meta)), None)
    plain = typing.get_args(one)[0] if limits is not None else one
    if plain in (int, float):
        return _number(whole=plain is int, limits=limits)
    if isinstance(plain, type) and issubclass(plain, StrEnum):
        return phrase("one of: {names}", names=", ".join(member.value for member in plain))
    below = members(plain)
    if below is not None:
        return phrase("a list, such as [a, b]") if "[]" in below else phrase("a section of keys with values")
    return phrase("true or false") if plain is bool else phrase("text")


def _number(*, whole: bool, limits: Meta | None) -> str:
    if limits is None:
        return phrase("a whole number") if whole else phrase("a number")
    if limits.gt is not None:
        return phrase("a number above {least}", least=f"{limits.gt:g}")
    if limits.le is not None:
        return phrase("a whole number from {least} to {most}", least=limits.ge, most=limits.le)
    return phrase("a whole number, {least} or more", least=limits.ge)


def read_value(setting: Setting, text: str) -> object:
    """What a person typed, as a value for the setting: text as it is, all else as JSON or YAML on one line.

    Raises UsageError for what is no YAML. Whether the value fits is for `faults` to say.
    """
    kinds = set(_alternatives(setting.typed)) - {type(None)}
    if bool in kinds and text.strip().lower() in _YES:
        return _YES[text.strip().lower()] if kinds == {bool} else text.strip().lower()
    enumerated = any(isinstance(one, type) and issubclass(one, StrEnum) for one in kinds)
    if str in kinds or enumerated:
        return text
    import yaml

    try:
        found: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        reason = str(getattr(error, "problem", None) or error)
        raise UsageError(
            phrase("What was given for {key} cannot be read: {why}.", key=setting.key, why=reason),
            phrase("Write lists as [a, b] and sections as {a: 1}, in quotes."),
        ) from None
    return found


def _alternatives(typed: object) -> tuple[object, ...]:
    """The types of a union; anything else is its own only one."""
    if typing.get_origin(typed) in (typing.Union, types.UnionType):
        return typing.get_args(typed)
    return (typed,)


def _unknown(path: tuple[str, ...]) -> UsageError:
    key = ".".join(path)
    names = [setting.key for setting in every_key()]
    near = suggestion(key, names)
    if not near:
        last = path[-1]
        near = suggestion(key, [name for name in names if name.rpartition(".")[2] == last])
        same = [name for name in names if name.rpartition(".")[2] == last]
        near = near or (phrase("Did you mean {name!r}?", name=same[0]) if same else "")
    return UsageError(
        phrase("Nobody knows the key `{key}`.", key=key[:80]),
        near or phrase("`hermes config list` shows those there are."),
    )
