"""Which folders the person vouches for: a file of the home's that only `hermes trust` writes."""

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hermes.core.errors import ConfigError
from hermes.util.atomic import write_atomic

_LARGEST = 1 << 20


class _File(msgspec.Struct):
    folders: tuple[str, ...] = ()


def trusted_folders(file: Path) -> tuple[str, ...]:
    """The folders, absolute and resolved. A file that cannot be read vouches for none, and raises ConfigError."""
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", "Mend its permissions, or remove it.") from None
    try:
        return msgspec.json.decode(raw[:_LARGEST], type=_File).folders
    except msgspec.MsgspecError:
        raise ConfigError(f"{file} is damaged.", "Remove it and trust your folders again.") from None


def change_trust(file: Path, folder: str, *, trusted: bool) -> bool:
    """Vouch for a folder and all below it, or no more; False when that was so already."""
    real = os.path.realpath(os.path.expanduser(folder))
    if trusted and not os.path.isdir(real):
        raise ConfigError(f"{real} is not a folder.", "Name the project's folder.")
    before = trusted_folders(file)
    after = tuple(one for one in before if one != real) + ((real,) if trusted else ())
    if set(after) == set(before):
        return False
    write_atomic(file, msgspec.json.encode(_File(after)), mode=0o600)
    return True


def is_trusted(path: str, folders: Sequence[str]) -> bool:
    """Whether a resolved path is one of these folders or lies below one."""
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in folders)
