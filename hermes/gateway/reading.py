"""Values out of what platforms send, whatever it is."""

import json
from typing import TypeVar

import msgspec

from hermes.util.text import clean_surrogates

Kind = TypeVar("Kind")


def read(raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """The value in a piece of JSON; broken characters in it become U+FFFD. Raises `msgspec.DecodeError` only."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(_mended(bytes(raw)), type=kind)
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error


def _mended(raw: bytes) -> bytes:
    """The same with whole characters: half of a pair is no JSON to msgspec."""
    try:
        value = json.loads(raw.decode("utf-8", "replace"))
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error
    except RecursionError as error:
        raise msgspec.DecodeError(_DEEP) from error
    return clean_surrogates(json.dumps(value, ensure_ascii=False)).encode()


_DEEP = "it is nested too deeply"
