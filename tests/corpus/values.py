"""Make values of a type: one with only what it needs, one with every field set, and one for each further choice.

Used by `record.py` with an older tree, and by the test to show the lines that a new kind or field needs.
"""

import builtins
import typing
from collections.abc import Iterator

import msgspec
from msgspec import inspect

ODD_TEXT = ' „ä“ 语 \\ " / \n\u2028'
"""What is written in more than one way by different encoders."""


def union_members(union: object) -> dict[str, type]:
    """Return the structs of a tagged union by their tags."""
    return {str(member.__struct_config__.tag): member for member in typing.get_args(union)}


def values_of(kind: object) -> list[object]:
    """Return values of a type: the first has every field set, the second only what it needs."""
    return _distinct(_values(inspect.type_info(kind), "", ()))


def structs_and_enums(kind: object) -> Iterator[tuple[type, inspect.Type]]:
    """Yield every struct and enumeration that values of a type can hold, with what msgspec knows of it."""
    todo, seen = [inspect.type_info(kind)], set()
    while todo:
        info = todo.pop()
        if isinstance(info, inspect.StructType | inspect.EnumType):
            if info.cls in seen:
                continue
            seen.add(info.cls)
            yield info.cls, info
        todo += _inner(info)


def _inner(info: inspect.Type) -> list[inspect.Type]:
    match info:
        case inspect.StructType():
            return [field.type for field in info.fields]
        case inspect.UnionType():
            return list(info.types)
        case inspect.TupleType():
            return list(info.item_types)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return [info.item_type]
        case inspect.DictType():
            return [info.key_type, info.value_type]
        case inspect.Metadata():
            return [info.type]
    return []


def _values(info: inspect.Type, name: str, inside: tuple[type, ...]) -> list[object]:
    """Return values for a place that has this name; `inside` are the structs around it, so that recursion ends."""
    match info:
        case inspect.Metadata():
            return _values(info.type, name, inside)
        case inspect.UnionType():
            return _distinct(found for one in info.types for found in _values(one, name, inside))
        case inspect.TupleType():
            return [tuple(_values(one, name, inside)[0] for one in info.item_types)]
        case inspect.VarTupleType():
            return [tuple(_values(info.item_type, name, inside)), ()]
        case inspect.ListType():
            return [_values(info.item_type, name, inside), []]
        case inspect.DictType():
            keys = _values(info.key_type, name, inside)
            items = _values(info.value_type, name, inside)
            return [{_key(keys[0], number): item for number, item in enumerate(items)}, {}]
        case inspect.StructType():
            return _of_struct(info, inside)
    return _plain(info, name)


def _plain(info: inspect.Type, name: str) -> list[object]:
    match info:
        case inspect.StrType():
            return [name + ODD_TEXT if name == "text" else f"{name} ä".strip()] if info.pattern is None else [name]
        case inspect.IntType() | inspect.FloatType():
            return [_number(info)]
        case inspect.BoolType():
            return [True, False]
        case inspect.NoneType():
            return [None]
        case inspect.BytesType():
            return [f"{name} ".encode() + b"\x00\xff"]
        case inspect.EnumType():
            return list(info.cls)
        case inspect.LiteralType():
            return list(info.values)
        case inspect.RawType():
            return [msgspec.Raw(b'{"a":1}')]
        case inspect.AnyType() | inspect.CustomType(cls=builtins.object):
            return [{"a": [1, "two", None, True, 0.5]}]
    raise TypeError(f"No value is known for {info}, the type of {name!r}.")


def _number(info: inspect.IntType | inspect.FloatType) -> float:
    low = info.ge if info.ge is not None else info.gt if info.gt is not None else 0
    high = info.le if info.le is not None else info.lt
    if isinstance(info, inspect.IntType):
        return int(low) + 13 if high is None or int(low) + 13 <= high else int(high)
    return low + 0.375 if high is None or low + 0.375 <= high else float(high)


def _key(key: object, number: int) -> object:
    return (
        f"{key}{number}" if isinstance(key, str) else key.ljust(3) + b"%d" % number if isinstance(key, bytes) else key
    )


def _of_struct(info: inspect.StructType, inside: tuple[type, ...]) -> list[object]:
    if info.cls in inside:
        return []
    choices: dict[str, list[object]] = {}
    for field in info.fields:
        default = field.default if field.default is not msgspec.NODEFAULT else ...
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        found = _values(field.type, field.name, (*inside, info.cls))
        choices[field.name] = [one for one in found if one != default] or found
    full = {name: found[0] for name, found in choices.items()}
    least = {field.name: full[field.name] for field in info.fields if field.required}
    made = [info.cls(**full), info.cls(**least)]
    if not inside:
        made += [info.cls(**{**least, name: other}) for name, found in choices.items() for other in found[1:]]
    return made


def _distinct(values: typing.Iterable[object]) -> list[object]:
    found: list[object] = []
    for one in values:
        if not any(one == other and type(one) is type(other) for other in found):
            found.append(one)
    return found
