"""Encodes values as JSON. Everywhere else uses these functions instead of the library's own, which refuses messages
that remember their template (`hermes.util.localizable`); here these become plain English strings.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from hermes.util.localizable import Localizable, get_wording, restore_wording
from hermes.util.text import escape_surrogates

T = TypeVar("T")
StructT = TypeVar("StructT", bound=Struct)
Plain = dict[str, object]
"""An object as JSON holds it."""


def to_json(value: object, *, is_sorted: bool = False) -> bytes:
    """Return the value as JSON, compact, with sorted keys if asked. Raises TypeError for what JSON cannot hold."""
    return (_SORTED_ENCODER if is_sorted else _ENCODER).encode(value)


def hash_value(value: object) -> str:
    """Return the hash of a value. Names of files in it may hold bytes that are not UTF-8, which JSON takes escaped."""
    import hashlib

    try:
        body = to_json(value)
    except UnicodeEncodeError:
        import json

        body = json.dumps(to_plain(value)).encode()
    return hashlib.sha256(body).hexdigest()


def escape_fields(value: StructT) -> StructT:
    """Return the struct with lone surrogates escaped in its texts, so that it can be sent and stored."""
    changed = {}
    for name in value.__struct_fields__:
        one = getattr(value, name)
        if isinstance(one, str) and not one.isascii():
            changed[name] = escape_surrogates(one)
    return structs.replace(value, **changed) if changed else value


def to_json_with_wordings(value: object) -> tuple[bytes, dict[str, list[object]]]:
    """Return the value as JSON, and the wordings of its messages by their English text."""
    wordings: dict[str, list[object]] = {}

    def keep_wording(found: object) -> str:
        if isinstance(found, Localizable):
            wordings[found.plain] = get_wording(found)
        return _encode_message(found)

    return msgspec.json.encode(value, enc_hook=keep_wording), wordings


def restore_messages(value: T, wordings: Mapping[str, object]) -> T:
    """Return the struct; the messages in its fields get the wordings that came with it, each for its own text only.

    Raises ValueError for what is no wording.
    """
    if not isinstance(value, Struct):
        return value
    changed: dict[str, object] = {}
    for name in value.__struct_fields__:
        one = getattr(value, name)
        if isinstance(one, str) and one in wordings:
            message = restore_wording(wordings[one])
            if message.plain == one:
                changed[name] = message
        elif (restored := restore_messages(one, wordings)) is not one:
            changed[name] = restored
    return structs.replace(value, **changed) if changed else value


def to_plain(value: object, *, builtin_types: tuple[type, ...] = ()) -> Any:  # as the library types it
    """Return the value as dicts, lists, strings and numbers; types in `builtin_types` stay as they are."""
    return msgspec.to_builtins(value, builtin_types=builtin_types, enc_hook=_encode_message)


def _encode_message(value: object) -> str:
    if isinstance(value, Localizable):
        return value.plain
    raise TypeError(f"Values of the type {type(value).__name__} cannot be encoded.")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_message)
_SORTED_ENCODER = msgspec.json.Encoder(enc_hook=_encode_message, order="sorted")
